// Wikitext to text: one case per kind of markup, the faults of other extractors, and unbalanced markup.
#include "data/extract/wiki_template.h"
#include "base/words.h"
#include "data/extract/wiki_text.h"
#include "test.h"

static struct wiki_site site;

// Converts and compares; site and title are those of an English article "Boat (ship)".
static void convert(struct buffer *out, const char *text, const struct wiki_store *templates, bool drop_lists) {
    static const char header[] =
        "<mediawiki xml:lang=\"en\"><base>https://en.wikipedia.org/wiki/Main_Page</base><namespaces>"
        "<namespace key=\"6\" case=\"first-letter\">Datei</namespace>"
        "<namespace key=\"0\" /></namespaces>";
    wiki_site_parse(&site, wiki_slice_of(header));
    struct wiki_text converter;
    wiki_text_init(&converter, &(struct wiki_text_options){.drop_lists = drop_lists, .templates = templates});
    struct wiki_source source = {&site, wiki_slice_of("Boat (ship)"), wiki_slice_of(text)};
    wiki_text_convert(&converter, out, &source);
    wiki_text_free(&converter);
    wiki_site_free(&site);
}

struct text_case {
    const char *wikitext, *text;
};

static void expect_texts(const struct text_case *cases, size_t count, const struct wiki_store *templates) {
    for (size_t i = 0; i < count; i++) {
        struct buffer out = {0};
        convert(&out, cases[i].wikitext, templates, false);
        bool is_same = strcmp(buffer_string(&out), cases[i].text) == 0;
        if (!is_same)
            printf("    %s\n gave %s\n want %s\n", cases[i].wikitext, buffer_string(&out), cases[i].text);
        buffer_free(&out);
        EXPECT(is_same);
    }
}

#define EXPECT_TEXTS(cases, templates) expect_texts(cases, sizeof(cases) / sizeof(cases)[0], templates)

TEST(links) {
    const struct text_case cases[] = {
        {"[[bus]]es and [[tram|trams]]", "buses and trams"},
        {"a [[File:x.jpg|thumb|200px|A [[caption]] with [[links|a link]]]] b", "a b"},
        {"[[Image:x.png]]word [[Datei:x.png|mini|[[a]]]]end", "word end"},
        {"text[[Category:Ships|Boat]]", "text"},
        {"see [[:Category:Ships]]", "see Category:Ships"},
        {"[[2001: A Space Odyssey]] and [[Kill Bill: Volume 1|]]", "2001: A Space Odyssey and Volume 1"},
        {"[[fr:Bateau]][[zh-min-nan:Chûn]]text", "text"},
        {"[[wikt:boat|boat]] [[w:Boat]]", "boat Boat"},
        {"[[Help:IPA|[a]]] x", "[a] x"},
        {"[[#History|above]] [[#History]]", "above History"},
        {"[[Boat (ship)|]] [[Oslo, Norway|]]", "Boat Oslo"},
        {"[http://x.org label here] [http://x.org] [https://x.org/a?b=c ''it'']", "label here it"},
        {"[//x.org y] see http://x.org/z [not a link]", "y see http://x.org/z [not a link]"},
        {"[[User talk:Bob|Bob]]", "Bob"},
        {"[[unclosed link\n\nnext [[ok]] {{nowrap|yes}}", "unclosed link\n\nnext ok yes"},
        {"a ]] b }} c", "a b c"},
    };
    EXPECT_TEXTS(cases, NULL);
}

TEST(quotes_entities_and_blanks) {
    const struct text_case cases[] = {
        {"'''bold''' ''italic'' '''''both''''' don't", "bold italic both don't"},
        {"''Titanic'''s crew", "Titanic's crew"},
        {"l'''amour'' x", "l'amour x"},
        {"a&nbsp;b &amp; &lt;tag&gt; &#8211; &#x2014; &mdash; &bogus; &", "a b & <tag> – — — &bogus; &"},
        {"a   b\t c\u00A0d", "a b c d"},
        {"__NOTOC__x __FORCETOC__ a__b__", "x a__b__"},
        {"soft&shy;hyphen&zwnj;", "softhyphen"},
    };
    EXPECT_TEXTS(cases, NULL);
}

TEST(tags) {
    const struct text_case cases[] = {
        {"<nowiki>\xC2[[a]]</nowiki>", "\xC2[[a]]"},  // a broken character before a bracket
        {"a<!-- no -->b<ref>gone</ref><ref name=\"x/y\" />.", "ab."},
        {"a<ref name=\"a>b\">gone</ref>b", "ab"},
        {"a<REF group=n>{{cite|x}}</REF >b</ref>c", "abc"},
        {"a<ref>{{x|y</ref name=\"z\"> w}}</ref> b", "a b"},
        {"one<br>two<br/>three</br>four", "one\ntwo\nthree\nfour"},
        {"<nowiki>[[not]] {{a}} ''link''</nowiki> &lt;", "[[not]] {{a}} ''link'' <"},
        {"10<sup>6</sup> m<sup>-2</sup> 4<sup>th</sup> H<sub>2</sub>O", "10⁶ m⁻² 4th H2O"},
        {"<math>\\frac{{a}}{x_{y_{z}}}</math> is", "$\\frac{ {a} }{x_{y_{z} } }$ is"},
        {"<math display=\"block\">a\n+ b</math>", "$a + b$"},
        {"<code>x[0]</code> <span class=\"a\">y</span> <unknown>z a<b", "x[0] y <unknown>z a<b"},
        {"a<gallery>\nFile:x.jpg|c\n</gallery>b<timeline>x</timeline>", "ab"},
        {"<table><tr><td>x<table><tr></tr></table></td></tr></table>after", "after"},
        {"a <templatestyles src=\"x\" /> b", "a b"},
        {"<ul><li>one</li><li>two</li></ul>", "- one\n- two"},
        {"<blockquote>said</blockquote>so", "said\n\nso"},
        {"x<syntaxhighlight lang=\"c\">\nif (a[0] == '*')\n    b();\n</syntaxhighlight>y",
         "x\n\nif (a[0] == '*')\n    b();\n\ny"},
        {"open <ref>never closed. {{nowrap|still}} here", "open never closed. still here"},
        {"open <!-- hides the rest", "open"},
        {"<q>so</q> <del>no</del><ins>yes</ins>", "\"so\" yes"},
    };
    EXPECT_TEXTS(cases, NULL);
}

TEST(lines) {
    const struct text_case cases[] = {
        {"intro\n== A ==\n=== B ===\ntext\n== Empty ==\n== C ==\nmore", "intro\n\nA\n\nB\n\ntext\n\nC\n\nmore"},
        {"* one\n* two\n** deep\n# first\n# second\nafter\n# again",
         "- one\n- two\n- deep\n1. first\n2. second\n\nafter\n1. again"},
        {"; term\n: meaning\n:: deeper", "term\nmeaning\ndeeper"},
        {"* one\n: more of it\nwhere\n:x\nis", "- one\nmore of it\n\nwhere\nx\nis"},
        {"a\n\n\n\nb\n----\nc", "a\n\nb\n\nc"},
        {"text\n== References ==\n* a book\nprose\n== See also ==\n* [[x]]\n== History ==\n* item",
         "text\n\nReferences\n\nprose\n\nHistory\n\n- item"},
        {"a\n{| class=\"x\"\n! h\n|-\n| cell [[x]]\n{|\n| inner\n|}\n|}\nb", "a\n\nb"},
        {"a\n:{|\n| x\n|}\nb", "a\n\nb"},
        {"a\n{| open\n| row\n| row\ntext\n== H ==\n{|\n| x\n|}\nb", "a\ntext\n\nH\n\nb"},
        {"{{{!}} class=x\n{{!}} cell\n{{!}}}\nafter", "after"},
        {"| stray row\nb", "b"},
        {"x\n()\n.\ny", "x\ny"},
    };
    EXPECT_TEXTS(cases, NULL);
    struct buffer out = {0};
    convert(&out, "a\n* one\n# two\n: three\nb", NULL, true);
    bool is_same = strcmp(buffer_string(&out), "a\nthree\nb") == 0;
    buffer_free(&out);
    EXPECT(is_same);
}

TEST(templates_we_render) {
    const struct text_case cases[] = {
        {"{{Infobox\n| a = {{b|c}}\n| d = [[e|f]]\n}}\nText.", "Text."},
        {"{{lang|fr|chat}} ({{lang-fr|chien}}) {{nowrap|5 {{nowrap|km}}}}", "chat (French: chien) 5 km"},
        {"{{frac|1|2}} {{frac|2|3|4}} {{val|12345.6|e=3|u=m}}", "1/2 2 3/4 12,345.6×10^3 m"},
        {"{{formatnum:1234567}} {{formatnum:1,234|R}} {{formatnum:12.5}}", "1,234,567 1234 12.5"},
        {"{{circa|1900}} {{circa|1900|1910}} {{as of|2015|3}} {{as of|2015|lc=y}}",
         "c. 1900 c. 1900 – c. 1910 As of March 2015 as of 2015"},
        {"{{birth date|1879|3|14}} {{birth date|1879|3|14|df=yes}}", "March 14, 1879 14 March 1879"},
        {"{{nihongo|Tokyo|東京|Tōkyō}} {{ill|Foo|de|Bar}} {{abbr|Dr.|doctor}}", "Tokyo (東京, Tōkyō) Foo Dr."},
        {"{{USS|Enterprise|CVN-65}} {{HMS|Victory}} {{chem|H|2|O}}", "USS Enterprise (CVN-65) HMS Victory H2O"},
        {"{{coord|57|18|22|N|4|27|32|W}} {{coord|44.1|-87.7}}{{coord|1|2|display=title}}",
         "57°18′22″N 4°27′32″W 44.1°N 87.7°W"},
        {"{{IPAc-en|ˌ|æ|l|ə|ˈ|b|æ|m|ə|audio=x.ogg}} {{respell|AL|ə|BAM|ə}} {{IPA-fr|ʃa}}",
         "/ˌæləˈbæmə/ AL-ə-BAM-ə [ʃa]"},
        {"{{PAGENAME}} {{uc:abc}} {{ucfirst:abc}} {{DEFAULTSORT:x}}", "Boat (ship) ABC Abc"},
        {"a{{snd}}b {{'}} {{=}} x{{ndash}}y {{Template:Nowrap|z}}", "a – b ’ = x–y z"},
        {"{{quote|To be.|author}} {{hlist|a|b|c}} {{sic|teh}}", "To be. a, b, c teh [sic]"},
        {"{{unknown|a|b}}", ""},
        {"Rome ({{unknown}}; born {{unknown}} 63) ({{unknown}}) is {{x}}, old {{y}}.", "Rome (born 63) is, old."},
        {"{{#if: x | yes | no}} {{#ifeq:a|b|same|other}} {{#switch:b|a=1|b|c=2|#default=3}} {{#expr:2*(3+4)^2/7}}",
         "yes other 2 14"},
    };
    EXPECT_TEXTS(cases, NULL);
}

TEST(convert_keeps_numbers) {
    const struct text_case cases[] = {
        {"{{convert|5|km|mi}}", "5 kilometres (3.1 mi)"},
        {"{{convert|1300|mi|km}}", "1,300 miles (2,100 km)"},
        {"{{convert|52419|sqmi|km2}}", "52,419 square miles (135,765 km²)"},
        {"{{convert|100|mi}}", "100 miles (160 km)"},
        {"{{convert|1|ft|m|abbr=on}} {{cvt|10|kg}}", "1 ft (0.30 m) 10 kg (22 lb)"},
        {"{{convert|5|to|10|km|mi}}", "5 to 10 kilometres (3.1 to 6.2 mi)"},
        {"{{convert|37|C|F}} {{convert|-40|F|C}}", "37 °C (99 °F) -40 °F (-40 °C)"},
        {"{{convert|6|ft|1|in|m}} {{convert|1.83|m|ftin}}", "6 ft 1 in (1.85 m) 1.83 metres (6 ft 0 in)"},
        {"{{convert|12|furlong-per-week|x}} {{convert|some|km}}", "12 furlong-per-week some km"},
        {"{{convert|5+1/2|in|cm}}", "5+1/2 inches (14 cm)"},
        {"a {{convert|2|ft|m|adj=on}} pole", "a 2-foot (0.61 m) pole"},
    };
    EXPECT_TEXTS(cases, NULL);
}

TEST(templates_expanded) {
    struct wiki_store *store = wiki_store_create();
    const struct text_case definitions[] = {
        {"greet", "<noinclude>doc</noinclude>Hello {{{1|world}}}<includeonly>!</includeonly>"},
        {"Twice", "{{{x}}} and {{{x}}}"},
        {"Old", "#REDIRECT [[Template:Greet]]"},
        {"Loop", "a{{Loop}}b"},
        {"Outer", "<onlyinclude>[{{greet|{{{name}}}}}]</onlyinclude>rest"},
        {"Choose", "{{#if:{{{1|}}}|given {{{1}}}|nothing}}"},
        {"Seat", "{{{1st|none}}}"},
        {"Bomb", "{{{1}}}{{{1}}}{{{1}}}{{{1}}}{{{1}}}{{{1}}}{{{1}}}{{{1}}}"},
    };
    for (size_t i = 0; i < sizeof definitions / sizeof definitions[0]; i++)
        wiki_store_add(store, wiki_slice_of(definitions[i].wikitext), wiki_slice_of(definitions[i].text));
    EXPECT_INT(wiki_store_count(store), 8);
    const struct text_case cases[] = {
        {"{{greet}} {{Greet|Bob}} {{old|Eve}}", "Hello world! Hello Bob! Hello Eve!"},
        {"{{twice|x={{greet|a}}}}", "Hello a! and Hello a!"},
        {"{{loop}}", "ab"},
        {"{{outer|name=Z}} {{choose}} {{choose|q}}", "[Hello Z!] nothing given q"},
        {"{{missing}}x", "x"},
        // A name that begins with a digit is not the number of an argument.
        {"{{seat|a}} {{seat|1st=b}}", "none b"},
        {"{{convert|5|km}}", "5 kilometres (3.1 mi)"},
    };
    EXPECT_TEXTS(cases, store);
    // Values that multiply at every level are bounded.
    struct buffer bomb = {0}, out = {0};
    for (int i = 0; i < 30; i++)
        buffer_append_string(&bomb, "{{bomb|");
    buffer_append_string(&bomb, "0123456789");
    for (int i = 0; i < 30; i++)
        buffer_append_string(&bomb, "}}");
    convert(&out, bomb.data, store, false);
    bool is_bounded = out.length < (64 << 20);
    buffer_free(&out);
    buffer_free(&bomb);
    wiki_store_free(store);
    EXPECT(is_bounded);
}

// Deep, unbalanced and long: 10^5 of each must take negligible time; anything quadratic would take minutes.
TEST(hostile_pages) {
    static const char *const repeated[] = {
        "{{",        "{{a|",       "[[",       "[[a|",        "{|\n",    "<ref>",     "<ref ",  "<table>",
        "{{{",       "}}",         "]]",       "[http://x ",  "''",      "'''''",     "<!-",    "{{nowrap|",
        "[[File:a|", "\n* ",       "==",       "== a ==\n",   "&",       "__A",       "<math>", "|}\n",
        "|",         "{{a}}[[b",   "[[a|\n\n", "{{nowrap|[[", "<sup>1",  "{{#expr:(", "{{#if:", "<",
        "<nowiki>",  "{{convert|", "<br>",     "\n|",         "\n{|\n|}"};
    for (size_t i = 0; i < sizeof repeated / sizeof repeated[0]; i++) {
        struct buffer text = {0}, out = {0};
        for (int j = 0; j < 100000; j++)
            buffer_append_string(&text, repeated[i]);
        convert(&out, text.data, NULL, false);
        bool is_bounded = out.length <= 4 * text.length;
        buffer_clear(&text);
        buffer_free(&out);
        for (int j = 0; j < 1000; j++)
            buffer_append_string(&text, repeated[i]);
        buffer_append_string(&text, "\n\nthe end");
        convert(&out, text.data, NULL, false);
        buffer_free(&text);
        buffer_free(&out);
        EXPECT(is_bounded);
    }
}

TEST(unclosed_template_keeps_the_page) {
    const struct text_case cases[] = {
        {"{{Infobox\n| a = b\n| c = d\nText of the [[page]].\n\nMore {{nowrap|of it}}.",
         "Text of the page.\n\nMore of it."},
        {"Start {{cite web|url=x and on\nnext line", "Start\nnext line"},
        {"{{a {{b}} [[c", ""},
        {"x {{nowrap|[[y}} z", "x y z"},
    };
    EXPECT_TEXTS(cases, NULL);
}

// Leftovers around removed parts: brackets, quotes, commas, dashes and labels of many scripts.
TEST(punctuation_left_behind) {
    const struct text_case cases[] = {
        {"Rome ({{x}}, {{y}}; {{z}}) is.", "Rome is."},
        {"Rome ({{x}}) , a city.", "Rome, a city."},
        {"Rome [{{x}}] is.", "Rome is."},
        {"Rome ({{x}} – {{y}}) is.", "Rome is."},
        {"Rome ({{x}}/{{y}}) is.", "Rome is."},
        {"Rome (born 63, {{y}}; ) is.", "Rome (born 63) is."},
        {"Rome (Latin: {{x}}, Greek: {{y}}) is.", "Rome is."},
        {"Rome (Latin: ''Roma'', Greek: {{y}}; 63) is.", "Rome (Latin: Roma; 63) is."},
        {"Rome (IPA: {{x}}) is: {{y}}, so.", "Rome is, so."},
        {"Rome \"{{x}}\" is “{{x}}” or «{{x}}» or „{{x}}“.", "Rome is or or."},
        {"Rome; {{x}}; is, {{y}}. Yes. {{z}}. No.", "Rome; is. Yes. No."},
        {"Rome – {{x}} – is.", "Rome – is."},
        {"{{x}}, Rome is.", "Rome is."},
        {"{{x}}. Rome is.", "Rome is."},
        {"{{x}} – Rome is -{{x}}5 or –{{x}} 5.", "Rome is -5 or – 5."},
        {"{{x}}.net is.", ".net is."},
        {"罗马（{{x}}；{{y}}）是。", "罗马是。"},
        {"罗马（{{x}}，63年）是「{{y}}」。", "罗马（63年）是。"},
        {"ローマ ({{x}}、{{y}}、63年) は。", "ローマ (63年) は。"},
        {"روما ({{x}}، {{y}}؛ 63) هي.", "روما (63) هي."},
        {"Rome (, 63) and () are as written.", "Rome (, 63) and () are as written."},
    };
    EXPECT_TEXTS(cases, NULL);
}

static void expect_section(const char *title, bool is_dropped) {
    struct buffer page = {0}, out = {0};
    buffer_printf(&page, "text\n== %s ==\n* item", title);
    convert(&out, buffer_string(&page), NULL, false);
    if ((strstr(buffer_string(&out), "item") == NULL) != is_dropped)
        test_fail("the section %s gives \"%s\"", title, buffer_string(&out));
    buffer_free(&page);
    buffer_free(&out);
}

// Titles as in the Wikipedias, with their capitals.
TEST(sections_of_references) {
    static const char *const titles[] = {
        "References",
        "Einzelnachweise",
        "Références",
        "Notes et références",
        "Referenser",
        "Referenties",
        "Примечания",
        "Referencias",
        "Collegamenti esterni",
        "Przypisy",
        "參考資料",
        "参考文献",
        "外部リンク",
        "Примітки",
        "Tham khảo",
        "المراجع",
        "مراجع",
        "Ligações externas",
        "منابع",
        "Referències",
        "Pranala luar",
        "Референце",
        "각주",
        "같이 보기",
        "Eksterne lenker",
        "Kaynakça",
        "Dış bağlantılar",
        "Lähteet",
        "Externí odkazy",
        "Jegyzetek",
        "Legături externe",
        "Erreferentziak",
        "Rujukan",
        "Referencoj",
        "הערות שוליים",
        "Ծանոթագրություններ",
        "Eksterne henvisninger",
        "Източници",
        "Cyfeiriadau",
        "Externé odkazy",
        "Παραπομπές",
        "Viited",
        "Išnašos",
        "İstinadlar",
        "Спасылкі",
        "Дереккөздер",
        "Zunanje povezave",
        "Vanjske poveznice",
        "სქოლიო",
        "सन्दर्भ",
        "อ้างอิง",
        "மேற்கோள்கள்",
        "তথ্যসূত্র",
        "حوالہ جات",
        "Mga pakisayran",
        "Mga kasarigan",
        "'''References'''",
        "References:",
        "ССЫЛКИ",
    };
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++)
        expect_section(titles[i], true);
    expect_section("History", false);
    expect_section("Geschichte", false);
    expect_section("Reference works of the library", false);
    // They are found by binary search: one out of order would not be found.
    const struct word_list *list = wiki_reference_titles();
    size_t count = 0;
    for (size_t at = 0, bytes; at < list->bytes; at += bytes + 1, count++) {
        bytes = strcspn(list->words + at, "|");
        EXPECT(bytes > 0 && word_list_has(list, list->words + at, bytes));
    }
    EXPECT(count >= 500);
}

TEST_MAIN(TEST_CASE(links), TEST_CASE(quotes_entities_and_blanks), TEST_CASE(tags), TEST_CASE(lines),
          TEST_CASE(templates_we_render), TEST_CASE(convert_keeps_numbers), TEST_CASE(templates_expanded),
          TEST_CASE(hostile_pages), TEST_CASE(unclosed_template_keeps_the_page), TEST_CASE(punctuation_left_behind),
          TEST_CASE(sections_of_references))
