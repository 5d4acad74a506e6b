// The XML of dumps: header, pages, batches that split between pages at every size, and truncated or hostile input.
#include "data/extract/wiki_dump.h"
#include "fixture.h"

static const char dump[] =
    "<mediawiki xml:lang=\"de\">\n<siteinfo><base>https://de.example.org/wiki/Haupt_Seite</base><namespaces>\n"
    "<namespace key=\"0\" case=\"first-letter\" />\n<namespace key=\"6\" case=\"first-letter\">Datei</namespace>\n"
    "<namespace key=\"14\" case=\"first-letter\">Kategorie</namespace>\n</namespaces></siteinfo>\n"
    "  <page>\n<title>A &amp; B</title><ns>0</ns><id>7</id><revision><id>99</id><contributor><id>5</id></contributor>"
    "<text xml:space=\"preserve\">one &lt;b&gt; &amp;amp; two</text></revision></page>\n"
    "  <page><title>2001: Odyssee</title><id>8</id><revision><id>1</id><text bytes=\"3\" />\n</revision></page>\n"
    "  <page><title>Datei:X</title><id>9</id><revision><id>1</id><text>x</text></revision>"
    "<revision><id>2</id><text>newer</text></revision></page>\n"
    "  <page><title>R</title><ns>0</ns><id>10</id><redirect title=\"S\" /><revision><text>#WEITERLEITUNG [[S]]</text>"
    "</revision></page>\n"
    "  <page><title>M</title><ns>828</ns><id>11</id><revision><model>Scribunto</model><text>return "
    "1</text></revision></page>\n"
    "</mediawiki>\n";

static struct wiki_slice whole(const char *text) {
    return (struct wiki_slice){text, strlen(text)};
}

TEST(header) {
    struct wiki_site site;
    int64_t key;
    wiki_site_parse(&site, whole(dump));
    EXPECT_STRING(site.url, "https://de.example.org/wiki");
    EXPECT_STRING(site.language, "de");
    EXPECT(wiki_site_namespace(&site, whole(" datei"), &key) && key == 6);
    EXPECT(wiki_site_namespace(&site, whole("Image"), &key) && key == 6);
    EXPECT(wiki_site_namespace(&site, whole("kategorie"), &key) && key == 14);
    EXPECT(!wiki_site_namespace(&site, whole("2001"), &key));
    wiki_site_free(&site);
    wiki_site_parse(&site, whole("<namespaces><namespace key=\"x\">y</namespace><namespace key=\"4\">"));
    EXPECT_STRING(site.url, "");
    wiki_site_free(&site);
}

// Reads all pages of a file; returns their ids and texts, and the number of batches.
static int read_pages(const char *path, size_t batch_bytes, struct buffer *out, int64_t *batches) {
    const char *paths[] = {path};
    struct wiki_pages_options options = {paths, 1, 2, batch_bytes, 0};
    struct wiki_pages *pages;
    struct wiki_batch batch = {0};
    wiki_pages_open(&pages, &options);
    int status;
    *batches = 0;
    while ((status = wiki_pages_next(pages, &batch)) > 0) {
        struct wiki_slice xml;
        struct wiki_page page;
        size_t position = 0;
        uint64_t at;
        const char *problem;
        ++*batches;
        while (wiki_batch_page(&batch, &position, &xml, &at)) {
            if (wiki_page_parse(&page, batch.site, xml, &problem) < 0) {
                buffer_printf(out, "bad: %s;", problem);
                continue;
            }
            buffer_printf(out, "%" PRId64 "/%" PRId64 "%s%s ", page.id, page.namespace, page.is_redirect ? "r" : "",
                          page.is_wikitext ? "" : "m");
            wiki_unescape(out, page.title);
            buffer_append_byte(out, '=');
            wiki_unescape(out, page.text);
            buffer_append_byte(out, ';');
        }
    }
    wiki_pages_close(pages);
    buffer_free(&batch.xml);
    return status;
}

TEST(pages_in_batches_of_every_size) {
    static const char expected[] = "7/0 A & B=one <b> &amp; two;8/0 2001: Odyssee=;9/6 Datei:X=newer;"
                                   "10/0r R=#WEITERLEITUNG [[S]];11/828m M=return 1;";
    scratch_open();
    write_bytes(scratch_path("dump.xml"), dump, strlen(dump));
    for (size_t bytes = 1; bytes < strlen(dump) + 10; bytes += 7) {
        struct buffer out = {0};
        int64_t batches;
        EXPECT_OK(read_pages(scratch_path("dump.xml"), bytes, &out, &batches));
        EXPECT_STRING(out.data, expected);
        EXPECT(batches >= 1);
        buffer_free(&out);
    }
    scratch_close();
}

TEST(dumps_cut_short_are_errors) {
    scratch_open();
    for (size_t length = 0; length < strlen(dump) - 2; length++) {
        struct buffer out = {0};
        int64_t batches;
        write_bytes(scratch_path("cut.xml"), dump, length);
        EXPECT_ERROR(read_pages(scratch_path("cut.xml"), 0, &out, &batches),
                     length < 10 ? "is not a wiki dump" : "is truncated");
        EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
        buffer_free(&out);
        length += length > 100 ? 37 : 0;
    }
    scratch_close();
}

TEST(redirects_in_every_language) {
    struct wiki_site site;
    wiki_site_parse(&site, whole(""));
    static const struct {
        const char *text;
        bool is_redirect;
    } cases[] = {
        {"#REDIRECT [[x]]", true},
        {"#redirect[[x]]", true},
        {"\n#تغییر_مسیر [[x]]", true},
        {"#REDIRECT: [[x]]", true},
        {"# [[x]] item", false},
        {"#[[x]]", false},
        {"#word and [[x]]", false},
        {"text", false},
        {"", false},
        {"#", false},
        {"#REDIRECT", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buffer xml = {0};
        struct wiki_page page;
        const char *problem;
        buffer_printf(&xml, "<title>t</title><id>1</id><text>%s</text>", cases[i].text);
        EXPECT_INT(wiki_page_parse(&page, &site, whole(xml.data), &problem), 0);
        if (page.is_redirect != cases[i].is_redirect)
            test_fail("%s: %d", cases[i].text, page.is_redirect);
        buffer_free(&xml);
    }
    wiki_site_free(&site);
}

TEST(bad_pages_are_named) {
    struct wiki_site site;
    struct wiki_page page;
    const char *problem;
    wiki_site_parse(&site, whole(""));
    EXPECT_INT(wiki_page_parse(&page, &site, whole("<id>1</id><text>x</text>"), &problem), -1);
    EXPECT_STRING(problem, "it has no <title>");
    EXPECT_INT(wiki_page_parse(&page, &site, whole("<title>t</title><id>12x</id><text>x</text>"), &problem), -1);
    EXPECT_STRING(problem, "it has no <id> with a number");
    EXPECT_INT(wiki_page_parse(&page, &site, whole("<title>t</title><id>1</id><text>x"), &problem), -1);
    EXPECT_STRING(problem, "it has no <text>");
    EXPECT_INT(wiki_page_parse(&page, &site, whole("<title>t</title><id>99999999999999999999</id><text/>"), &problem),
               -1);
    wiki_site_free(&site);
}

// Declared entities are not expanded here.
TEST(entities) {
    static const char *const cases[][2] = {
        {"&lt;&gt;&amp;&quot;&apos;", "<>&\"'"},
        {"&#65;&#x42;&#x1F600;", "AB\U0001F600"},
        {"&lol9; &nbsp; & &#; &#x;", "&lol9; &nbsp; & &#; &#x;"},
        {"&#xD800;&#99999999;", "\uFFFD\uFFFD"},
        {"&amp;lt;", "&lt;"},
        {"&", "&"},
        {"&#1", "&#1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buffer out = {0};
        wiki_unescape(&out, whole(cases[i][0]));
        EXPECT_STRING(buffer_string(&out), cases[i][1]);
        buffer_free(&out);
    }
}

TEST(a_page_over_the_limit) {
    scratch_open();
    struct buffer text = {0};
    buffer_append_string(&text, "<mediawiki><page><title>t</title><id>1</id><text>");
    for (int i = 0; i < 200000; i++)
        buffer_append_string(&text, "word ");
    buffer_append_string(&text, "</text></page></mediawiki>");
    write_bytes(scratch_path("long.xml"), text.data, text.length);
    const char *paths[] = {scratch_path("long.xml")};
    struct wiki_pages_options options = {paths, 1, 1, 1000, 100000};
    struct wiki_pages *pages;
    struct wiki_batch batch = {0};
    wiki_pages_open(&pages, &options);
    EXPECT_ERROR(wiki_pages_next(pages, &batch), "longer than 100000 bytes");
    wiki_pages_close(pages);
    buffer_free(&batch.xml);
    buffer_free(&text);
    scratch_close();
}

TEST_MAIN(TEST_CASE(header), TEST_CASE(pages_in_batches_of_every_size), TEST_CASE(dumps_cut_short_are_errors),
          TEST_CASE(redirects_in_every_language), TEST_CASE(bad_pages_are_named), TEST_CASE(entities),
          TEST_CASE(a_page_over_the_limit))
