// What the tests of Hugging Face's families share: variants of golden models that are refused, and models written as
// another family.
#ifndef TESTS_FORMATS_FAMILIES_H
#define TESTS_FORMATS_FAMILIES_H

#include "formats/spoiled.h"
#include "test.h"

// Variants of families that would compute something else.
struct variant {
    const char *model, *from, *to, *message;
};

static inline void expect_all_refused(const struct variant *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct spoiled spoiled = copy_model(rows[i].model);
        EXPECT_OK(open_model(spoiled.path));
        replace(&spoiled, "config.json", rows[i].from, rows[i].to);
        EXPECT_ERROR(open_model(spoiled.path), rows[i].message);
        temporary_remove(&spoiled.folder);
    }
}

static inline struct model_source open_golden(const char *name) {
    struct model_source source;
    char *path = file_join(golden, name);
    EXPECT_OK(model_source_open(&source, &(struct model_source_options){.path = path, .step = -1}));
    free(path);
    return source;
}

// A golden model that is written as a family.
struct other_family {
    const char *model, *family, *message;  // NULL: it can be written
};

static inline void check_family(const struct other_family *row) {
    struct temporary folder = temporary_create();
    char *hf = file_join(folder.path, "hf");
    struct model_source source = open_golden(row->model);
    struct model_write write = {.source = &source, .folder = hf, .shard_bytes = 1 << 30, .family = row->family};
    if (row->message)
        EXPECT_ERROR(model_write_huggingface(&write), row->message);
    else
        EXPECT_OK(model_write_huggingface(&write));
    model_source_close(&source);
    free(hf);
    temporary_remove(&folder);
}

#endif
