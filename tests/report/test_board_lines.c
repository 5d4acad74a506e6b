// Lines of metrics: the fast way and the tree read the same, on what the trainer writes and on malformed lines.
#include "base/file.h"
#include "base/memory.h"
#include "report/board/line_reader.h"
#include "report/metrics_file.h"
#include "test.h"

// Tags by their names.
struct tag_names {
    char *items[LINE_MOST_VALUES];
    int count;
};

static int find_name(void *owner, const char *name, const char *set) {
    struct tag_names *names = owner;
    char whole[400];
    snprintf(whole, sizeof whole, "%s%s%s", name, set ? " " : "", set ? set : "");
    for (int i = 0; i < names->count; i++) {
        if (strcmp(names->items[i], whole) == 0)
            return i;
    }
    if (names->count == LINE_MOST_VALUES)
        return -1;
    names->items[names->count] = memory_string(whole);
    return names->count++;
}

static struct tag_names names;
static struct board_line_reader reader;
static struct board_line_row fast, thorough;

static void begin(void) {
    reader = (struct board_line_reader){.find_tag = find_name, .owner = &names};
}

static void end(void) {
    line_reader_free(&reader);
    for (int i = 0; i < names.count; i++)
        free(names.items[i]);
    names.count = 0;
}

static double value_of(const struct board_line_row *row, const char *name) {
    for (int i = 0; i < row->count; i++) {
        if (strcmp(names.items[row->values[i].tag], name) == 0)
            return row->values[i].value;
    }
    test_fail("there is no %s", name);
}

// The text with a newline and zeros after it.
static const char *padded(const char *line) {
    static char text[4096];
    memset(text, 0, sizeof text);
    snprintf(text, sizeof text - LINE_SLACK_BYTES - 1, "%s\n", line);
    return text;
}

static bool read_fast(const char *line) {
    const char *text = padded(line);
    size_t length = strlen(text);
    const char *next = line_read_fast(&reader, text, text + length, &fast);
    EXPECT(!next || next == text + length);
    return next != NULL;
}

static enum board_line_kind read_tree(const char *line) {
    struct json *root = NULL;
    enum board_line_kind kind = LINE_BAD;
    if (json_parse(&root, line, strlen(line), "line") == 0)
        kind = line_read_tree(&reader, root, &thorough);
    json_free(root);
    return kind;
}

static void expect_same(void) {
    EXPECT_INT(fast.iteration, thorough.iteration);
    EXPECT_INT(fast.train_iters, thorough.train_iters);
    EXPECT_NEAR(fast.time, thorough.time, 1e-15);
    EXPECT_NEAR(fast.samples, thorough.samples, 1e-15);
    EXPECT_INT(fast.count, thorough.count);
    for (int i = 0; i < fast.count; i++) {
        double a = fast.values[i].value, b = thorough.values[i].value;
        EXPECT_INT(fast.values[i].tag, thorough.values[i].tag);
        EXPECT((isnan(a) && isnan(b)) || fabs(a - b) <= 1e-15 * fabs(b));
    }
}

// Lines that the trainer itself wrote.
TEST(lines_of_the_trainer) {
    begin();
    char folder[] = "/tmp/bevatron_lines_XXXXXX";
    EXPECT(mkdtemp(folder) != NULL);
    char *path = file_join(folder, "metrics.jsonl");
    struct metrics_file file;
    struct buffer content = {0};
    EXPECT_OK(metrics_file_open(&file, path));
    for (int64_t i = 1; i <= 50; i++) {
        struct metrics m = {
            .wall_seconds = 1767322245.678901 + 0.37 * (double)i,
            .iteration = i,
            .train_iters = 100,
            .consumed_samples = 512 * i,
            .learning_rate = 1.5e-4 / (double)i,
            .global_batch_size = 512,
            .losses = {{"lm loss", i % 7 ? 10.825 / (double)i : (double)NAN}, {"load_balancing_loss", 1.0 / (double)i}},
            .loss_count = 2,
            .elapsed_ms = 371.3 + (double)i / 3,
            .tokens_per_second = 123456.7 / (double)i,
            .loss_scale = 1,
            .has_grad_norm = i % 3 != 0,
            .grad_norm = 1.0 / 3};
        metrics_file_train(&file, &m);
    }
    metrics_file_close(&file);
    EXPECT_OK(file_read_all(path, 1 << 20, &content));
    int count = 0;
    for (char *line = content.data, *newline; (newline = strchr(line, '\n')); line = newline + 1, count++) {
        *newline = '\0';
        EXPECT(read_fast(line));
        EXPECT_INT(read_tree(line), LINE_TRAIN);
        expect_same();
    }
    EXPECT_INT(count, 50);
    EXPECT_NEAR(value_of(&fast, "lm loss"), 10.825 / 50, 1e-15);
    EXPECT_NEAR(value_of(&fast, "learning rate"), 1.5e-4 / 50, 1e-15);
    EXPECT_NEAR(value_of(&fast, "tokens per second"), 123456.7 / 50, 1e-15);
    EXPECT_NEAR(value_of(&fast, "grad norm"), 1.0 / 3, 1e-15);
    EXPECT_INT(fast.train_iters, 100);
    EXPECT_NEAR(fast.samples, 25600, 0);
    buffer_free(&content);
    EXPECT_OK(file_remove_tree(folder));
    free(path);
    end();
}

TEST(odd_lines) {
    // What the fast way takes must be what the tree says; what it leaves may be anything.
    static const struct {
        const char *line;
        bool is_fast;
        enum board_line_kind kind;
    } cases[] = {
        {"{\"kind\":\"train\",\"time\":1.5,\"iteration\":2,\"losses\":{\"a\":1}}", true, LINE_TRAIN},
        {"{\"kind\":\"train\",\"iteration\":2,\"losses\":{}}", true, LINE_TRAIN},
        {"{\"kind\":\"train\",\"iteration\":2,\"memory_bytes\":5,\"text\":\"x\",\"flag\":true,\"none\":null}", true,
         LINE_TRAIN},
        {"{\"kind\":\"train\",\"iteration\":2,\"experts\":{\"load_max\":1.5}}", true, LINE_TRAIN},
        {"{\"kind\": \"train\", \"iteration\": 2, \"losses\": {\"a\": 1}}", false, LINE_TRAIN},
        {"{\"iteration\":2,\"kind\":\"train\",\"losses\":{\"a\":1}}", false, LINE_TRAIN},
        {"{\"kind\":\"train\",\"iteration\":2,\"deep\":{\"a\":{\"b\":1}}}", false, LINE_TRAIN},
        {"{\"kind\":\"train\",\"iteration\":2,\"list\":[1,2]}", false, LINE_TRAIN},
        {"{\"kind\":\"train\",\"iteration\":2,\"a\\u0062\":1}", false, LINE_TRAIN},
        {"{\"kind\":\"train\",\"iteration\":2,\"a\":1,\"a\":2}", false, LINE_TRAIN},
        {"{\"kind\":\"train\",\"iteration\":2,\"losses\":{\"a\":\"x\"}}", false, LINE_BAD},
        {"{\"kind\":\"train\",\"iteration\":-1,\"losses\":{\"a\":1}}", false, LINE_BAD},
        {"{\"kind\":\"train\",\"iteration\":1.5}", false, LINE_BAD},
        {"{\"kind\":\"train\",\"iteration\":1e300}", false, LINE_BAD},
        {"{\"kind\":\"train\"}", false, LINE_BAD},
        {"{\"kind\":\"train\",\"iteration\":2,}", false, LINE_BAD},
        {"{\"kind\":\"train\",,\"iteration\":2}", false, LINE_BAD},
        {"{\"kind\":\"train\",\"iteration\":2,\"losses\":{,\"a\":1}}", false, LINE_BAD},
        {"{\"kind\":\"train\",\"iteration\":2}}", false, LINE_BAD},
        {"{\"kind\":\"train\",\"iteration\":2", false, LINE_BAD},
        {"{\"kind\":\"train\",\"iteration\":02}", false, LINE_BAD},
        {"{\"kind\":\"train\",\"iteration\":2,\"a\":nul}", false, LINE_BAD},
        {"{\"kind\":\"train\",\"iteration\":2,\"\xff\":1}", false, LINE_BAD},
        {"{\"kind\":\"later\",\"iteration\":2}", false, LINE_UNKNOWN},
        {"{\"kind\":\"eval\",\"iteration\":2,\"set\":\"test\",\"losses\":{\"a\":3}}", false, LINE_EVAL},
        {"{\"kind\":\"eval\",\"iteration\":2,\"losses\":{\"a\":3}}", false, LINE_BAD},
        {"{\"kind\":\"run\",\"time\":3}", false, LINE_RUN},
        {"[]", false, LINE_BAD},
        {"", false, LINE_BAD},
        // What was a text is a value that is not finite.
        {"{\"kind\":\"train\",\"iteration\":2,\"text\":null}", false, LINE_TRAIN},
    };
    begin();
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            bool is_fast = read_fast(cases[i].line);
            enum board_line_kind kind = read_tree(cases[i].line);
            if (is_fast != cases[i].is_fast || kind != cases[i].kind)
                test_fail("%s: fast %d, kind %d", cases[i].line, is_fast, (int)kind);
            if (is_fast)
                expect_same();
        }
    }
    EXPECT(read_fast(cases[2].line));
    EXPECT_NEAR(value_of(&fast, "memory"), 5, 0);
    EXPECT(isnan(value_of(&fast, "none")));
    EXPECT(read_fast(cases[3].line));
    EXPECT_NEAR(value_of(&fast, "experts load max"), 1.5, 0);
    EXPECT_INT(read_tree(cases[24].line), LINE_EVAL);
    EXPECT_NEAR(value_of(&thorough, "a test"), 3, 0);
    EXPECT_INT(read_tree(cases[9].line), LINE_TRAIN);
    EXPECT_NEAR(value_of(&thorough, "a"), 1, 0);
    end();
}

TEST(heads) {
    struct board_line_row row;
    const char *text = padded("{\"kind\":\"ranks\",\"time\":12.5,\"iteration\":7,\"ranks\":[]}");
    EXPECT_INT(line_read_head(text, strlen(text) - 1, &row), LINE_RANKS);
    EXPECT_INT(row.iteration, 7);
    EXPECT_NEAR(row.time, 12.5, 0);
    text = padded("{\"kind\":\"sample\",\"time\":1,\"iteration\":x}");
    EXPECT_INT(line_read_head(text, strlen(text) - 1, &row), LINE_SAMPLE);
    EXPECT_INT(row.iteration, 0);
    text = padded("{\"kind\":\"train\"}");
    EXPECT_INT(line_read_head(text, strlen(text) - 1, &row), LINE_UNKNOWN);
}

// More keys and tags than there is room for are passed over, not an error.
TEST(too_many_keys) {
    begin();
    for (int i = 0; i < 1000; i++) {
        char line[200];
        snprintf(line, sizeof line, "{\"kind\":\"train\",\"iteration\":%d,\"key%d\":%d}", i, i, i);
        if (!read_fast(line))
            EXPECT_INT(read_tree(line), LINE_TRAIN);
    }
    EXPECT_INT(names.count, LINE_MOST_VALUES);
    end();
}

TEST_MAIN(TEST_CASE(lines_of_the_trainer), TEST_CASE(odd_lines), TEST_CASE(heads), TEST_CASE(too_many_keys))
