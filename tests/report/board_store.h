// What the tests of the board's store share: a folder of runs, a store over it, and its answers as trees. A failed
// expectation leaves the folder behind.
#ifndef TESTS_REPORT_BOARD_STORE_H
#define TESTS_REPORT_BOARD_STORE_H

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "report/board/store.h"
#include "test.h"
#include <unistd.h>

static char folder[] = "/tmp/bevatron_store_XXXXXX";
static struct board_store *store;
static struct buffer answer;
static struct json *root;

static inline void begin(void) {
    snprintf(folder, sizeof folder, "/tmp/bevatron_store_XXXXXX");
    EXPECT(mkdtemp(folder) != NULL);
}

static inline void end(void) {
    board_store_close(store);
    store = NULL;
    json_free(root);
    root = NULL;
    buffer_free(&answer);
    EXPECT_OK(file_remove_tree(folder));
}

static inline void put(const char *name, const char *mode, const char *text) {
    char *path = file_join(folder, name);
    EXPECT_OK(file_make_parent(path));
    FILE *file = fopen(path, mode);
    EXPECT(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
    free(path);
}

static inline void open_store(const char *cache, size_t memory_bytes) {
    board_store_close(store);
    struct board_store_options options = {
        .logdir = folder, .cache_dir = cache, .memory_bytes = memory_bytes, .no_threads = true};
    EXPECT_OK(board_store_open(&store, &options));
    board_store_scan(store);
}

// Parses what was answered; the answer must be one whole JSON value.
static inline const struct json *parsed(int result) {
    EXPECT_OK(result);
    json_free(root);
    root = NULL;
    EXPECT_OK(json_parse(&root, answer.data, answer.length, "answer"));
    return root;
}

static inline const struct json *ask_runs(void) {
    buffer_clear(&answer);
    return json_member(parsed(board_store_runs(store, &answer)), "runs");
}

// The run of this name, after ask_runs.
static inline const struct json *run_named(const char *name) {
    const struct json *runs = ask_runs();
    for (size_t i = 0; i < runs->count; i++) {
        const struct json *own = json_member(&runs->items[i], "name");
        if (own && own->type == JSON_STRING && strcmp(own->string, name) == 0)
            return &runs->items[i];
    }
    test_fail("there is no run %s in %s", name, buffer_string(&answer));
}

static inline const char *text_of(const struct json *object, const char *key) {
    const struct json *value = json_member(object, key);
    if (!value)
        test_fail("there is no %s in %s", key, buffer_string(&answer));
    return value->type == JSON_STRING ? value->string : "null";
}

static inline double number_of(const struct json *object, const char *key) {
    const struct json *value = json_member(object, key);
    if (!value)
        test_fail("there is no %s in %s", key, buffer_string(&answer));
    return value->type == JSON_NUMBER ? value->number : (double)NAN;
}

static char id[16];

static inline const char *id_of(const char *name) {
    snprintf(id, sizeof id, "%s", text_of(run_named(name), "id"));
    return id;
}

static inline const struct json *ask_run(const char *name) {
    id_of(name);
    buffer_clear(&answer);
    return parsed(board_store_run(store, id, &answer));
}

// The first curve for a tag; NULL if there is none.
static inline const struct json *ask_curve(const char *name, const char *tag, struct curve_query query) {
    const char *ids[] = {id_of(name)};
    query.ids = ids;
    query.id_count = 1;
    query.tags = &tag;
    query.tag_count = 1;
    buffer_clear(&answer);
    const struct json *curves = json_member(parsed(board_store_curves(store, &query, &answer)), "curves");
    EXPECT(curves->count <= 1);
    return curves->count ? &curves->items[0] : NULL;
}

static inline double point(const struct json *curve, size_t i, size_t part) {
    const struct json *value = &json_member(curve, "points")->items[i].items[part];
    return value->type == JSON_NUMBER ? value->number : (double)NAN;
}

static inline size_t points_of(const struct json *curve) {
    return json_member(curve, "points")->count;
}

static inline bool is_exact(const struct json *curve) {
    return json_member(curve, "exact")->type == JSON_TRUE;
}

#endif
