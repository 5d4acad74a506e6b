// layer: report
// Lines of metrics out of hostile bytes: what the fast way takes, the tree takes as well, with the same values; a file
// that comes in two parts is read as if it had come at once.
#include "board_run.h"

static int tag_by_name(void *owner, const char *name, const char *set) {
    struct board_run *run = owner;
    return run_find_tag(run, name, set);
}

static bool is_same(double a, double b) {
    return (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-14 * fabs(b) + 1e-300;
}

static void compare_rows(const struct board_line_row *fast, const struct board_line_row *tree) {
    CHECK(fast->iteration == tree->iteration && fast->train_iters == tree->train_iters);
    CHECK(is_same(fast->time, tree->time) && is_same(fast->samples, tree->samples));
    for (int i = 0; i < tree->count; i++) {
        int k = 0;
        while (k < fast->count && fast->values[k].tag != tree->values[i].tag)
            k++;
        CHECK(k < fast->count && is_same(fast->values[k].value, tree->values[i].value));
    }
}

static void compare_ways(const char *text, size_t size) {
    struct board_run *run = run_new("/fuzz", "fuzz", false, PYRAMID_FEWEST_BINS);
    struct board_line_reader reader = {.find_tag = tag_by_name, .owner = run};
    static struct board_line_row fast, tree;
    const char *at = text, *end = text + size, *newline;
    while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
        const char *next = line_read_fast(&reader, at, end, &fast);
        if (next) {
            struct json *root = NULL;
            CHECK(next == newline + 1);
            CHECK(json_parse(&root, at, (size_t)(newline - at), "line") == 0);
            CHECK(line_read_tree(&reader, root, &tree) == LINE_TRAIN);
            compare_rows(&fast, &tree);
            json_free(root);
        }
        at = newline + 1;
    }
    line_reader_free(&reader);
    run_free(run);
}

static struct board_run *open_run(const char *path) {
    struct board_run *run = run_new("/fuzz", "fuzz", false, PYRAMID_FEWEST_BINS);
    run_add_file(run, path);
    return run;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct buffer text = {0};
    char path[64];
    buffer_append(&text, data, size);
    buffer_reserve(&text, LINE_SLACK_BYTES);
    memset(text.data + size, 0, LINE_SLACK_BYTES);
    compare_ways(text.data, size);
    int descriptor = board_memory_file(data, size / 2, path);
    struct board_run *parts = open_run(path);
    board_read_all(parts);
    if (write(descriptor, data + size / 2, size - size / 2) < 0)
        abort();
    board_read_all(parts);
    struct board_run *whole = open_run(path);
    board_read_all(whole);
    CHECK(parts->line_count == whole->line_count && parts->bad_lines == whole->bad_lines);
    CHECK(parts->summary.iteration == whole->summary.iteration);
    board_check_run(whole);
    run_free(parts);
    run_free(whole);
    close(descriptor);
    buffer_free(&text);
    return 0;
}
