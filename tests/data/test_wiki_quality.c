// A part of the English Wikipedia against the output of WikiExtractor: every article is there, very few of its words
// are missing from ours, no markup is left, and numbers that it loses are kept. Needs the shared data.
#include "data/extract/lines.h"
#include "data/extract/reader.h"
#include "data/extract/wiki_extract.h"
#include "base/json.h"
#include "fixture.h"

enum { MOST_ARTICLES = 1000 };

struct article {
    char *title, *text;
};

struct articles {
    struct article all[MOST_ARTICLES];
    int64_t count;
};

static void read_articles(struct articles *articles, const char *path) {
    const char *paths[] = {path}, *keys[] = {"title", "text"};
    struct line_reader *lines;
    struct line_chunk chunk = {0};
    struct json_text found[2] = {0};
    line_reader_open(&lines, &(struct line_options){.paths = paths, .path_count = 1});
    while (line_reader_next(lines, &chunk) > 0) {
        struct line_cursor cursor = {.chunk = &chunk};
        while (line_cursor_next(&cursor) && articles->count < MOST_ARTICLES) {
            EXPECT_OK(json_find_strings(cursor.line, cursor.length, keys, found, 2));
            articles->all[articles->count++] =
                (struct article){memory_string(found[0].text.data), memory_string(found[1].text.data)};
        }
    }
    line_reader_close(lines);
    buffer_free(&chunk.text);
    json_text_free(&found[0]);
    json_text_free(&found[1]);
}

static const char *text_of(const struct articles *articles, const char *title) {
    for (int64_t i = 0; i < articles->count; i++)
        if (strcmp(articles->all[i].title, title) == 0)
            return articles->all[i].text;
    return NULL;
}

static void free_articles(struct articles *articles) {
    for (int64_t i = 0; i < articles->count; i++) {
        free(articles->all[i].title);
        free(articles->all[i].text);
    }
    free(articles);
}

// ---- words ----

struct quality_words {
    char **all;
    int64_t count;
};

static int compare_words(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Words of ASCII letters, digits and anything beyond ASCII. Sorted.
static struct quality_words words_of(const char *text) {
    struct quality_words words = {0};
    words.all = memory_alloc((strlen(text) + 1) * sizeof *words.all);
    while (*text) {
        size_t length = 0;
        while ((text[length] | 0x20) >= 'a' && (text[length] | 0x20) <= 'z')
            length++;
        // Its formulas are numbered placeholders, ours are LaTeX.
        bool is_placeholder = strncmp(text, "formula_", 8) == 0;
        if (length > 3 && !is_placeholder) {
            words.all[words.count] = memory_alloc(length + 1);
            memcpy(words.all[words.count++], text, length);
        }
        text += length ? length : 1;
    }
    qsort(words.all, (size_t)words.count, sizeof *words.all, compare_words);
    return words;
}

static void free_words(struct quality_words *words) {
    for (int64_t i = 0; i < words->count; i++)
        free(words->all[i]);
    free(words->all);
}

// Number of theirs among ours, with multiplicity.
static int64_t common_words(const struct quality_words *theirs, const struct quality_words *ours) {
    int64_t common = 0, i = 0, j = 0;
    while (i < theirs->count && j < ours->count) {
        int order = strcmp(theirs->all[i], ours->all[j]);
        common += order == 0;
        i += order <= 0;
        j += order >= 0;
    }
    return common;
}

// ---- the test ----

static char *shared(const char *name) {
    const char *folder = getenv("BEVATRON_SHARED");
    char *path = memory_printf("%s/data/wiki/%s", folder ? folder : "", name);
    if (!file_exists(path)) {
        free(path);
        test_skip("no %s in the shared data", name);
    }
    struct reader *reader;
    int opened = reader_open(&reader, path);
    if (opened < 0 && strstr(error_message(), "this build cannot read")) {
        free(path);
        test_skip("%s", error_message());
    }
    EXPECT_OK(opened);
    reader_close(reader);
    return path;
}

static struct articles *extract(const char *name) {
    char *input = shared(name), *output = memory_printf("%s/out.jsonl", scratch);
    int64_t main_namespace = 0;
    struct wiki_extract_options options = {
        .output = output, .namespaces = &main_namespace, .namespace_count = 1, .workers = 2};
    string_list_add(&options.inputs, input);
    struct wiki_extract_summary summary;
    EXPECT_OK(wiki_extract(&options, &summary));
    struct articles *articles = memory_alloc(sizeof *articles);
    read_articles(articles, output);
    EXPECT_INT(articles->count, summary.articles);
    string_list_free(&options.inputs);
    free(input);
    free(output);
    return articles;
}

TEST(nothing_of_wikiextractor_is_lost) {
    scratch_open();
    struct articles *ours = extract("enwiki-shortened.xml.bz2"), *theirs = memory_alloc(sizeof *theirs);
    char *path = shared("expected/enwiki-shortened.wikiextractor_new.jsonl.xz");
    read_articles(theirs, path);
    free(path);
    EXPECT_INT(ours->count, 106);
    int64_t all = 0, common = 0;
    for (int64_t i = 0; i < theirs->count; i++) {
        const char *text = text_of(ours, theirs->all[i].title);
        if (!text)
            test_fail("no article %s", theirs->all[i].title);
        struct quality_words theirs_words = words_of(theirs->all[i].text), our_words = words_of(text);
        int64_t found = common_words(&theirs_words, &our_words);
        if ((double)found < 0.97 * (double)theirs_words.count)
            test_fail("%s: %" PRId64 " of %" PRId64 " words", theirs->all[i].title, found, theirs_words.count);
        all += theirs_words.count;
        common += found;
        free_words(&theirs_words);
        free_words(&our_words);
    }
    EXPECT((double)common > 0.998 * (double)all);
    free_articles(ours);
    free_articles(theirs);
    scratch_close();
}

static int64_t count_markup(const struct articles *articles) {
    static const char *const markup[] = {"{{",   "}}", "[[",     "]]",  "{|", "|}",
                                         "<ref", "</", "&nbsp;", "'''", "||", "__NOTOC"};
    int64_t count = 0;
    for (int64_t i = 0; i < articles->count; i++) {
        for (size_t j = 0; j < sizeof markup / sizeof markup[0]; j++) {
            const char *found = strstr(articles->all[i].text, markup[j]);
            if (found)
                printf("    %s: %.60s\n", articles->all[i].title, found);
            count += found != NULL;
        }
    }
    return count;
}

TEST(no_markup_is_left) {
    static const char *const dumps[] = {"enwiki-shortened-multistream.xml.bz2", "enwiki-table-markup.xml.bz2"};
    scratch_open();
    for (size_t i = 0; i < 2; i++) {
        struct articles *articles = extract(dumps[i]);
        EXPECT(articles->count >= 5);
        EXPECT_INT(count_markup(articles), 0);
        free_articles(articles);
    }
    scratch_close();
}

TEST(numbers_are_kept) {
    scratch_open();
    struct articles *articles = extract("enwiki-shortened.xml.bz2");
    const char *alabama = text_of(articles, "Alabama");
    EXPECT(alabama && strstr(alabama, "At 1,300 miles (2,100 km), Alabama has one of the longest"));
    free_articles(articles);
    scratch_close();
}

TEST_MAIN(TEST_CASE(nothing_of_wikiextractor_is_lost), TEST_CASE(no_markup_is_left), TEST_CASE(numbers_are_kept))
