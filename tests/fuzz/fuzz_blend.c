// layer: train
// The words after --data-path, --split, and the files of --per-split-data-args-path and
// --valid-weighted-split-paths-path, from hostile bytes. Weights are
// finite, not negative and sum to 1; the splits follow each other and cover everything.
#include "fuzz.h"

#include "base/memory.h"
#include "config/config.h"
#include "data/sample/blend.h"
#include "data/sample/split.h"
#include "train/data_paths.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void try_words(const struct string_list *words) {
    struct blend_list list;
    if (words->count == 0 || blend_list_parse(&list, words->items, words->count, "--data-path") < 0)
        return;
    double sum = list.weights ? 0 : 1;
    CHECK(list.count > 0 && list.count <= BLEND_MOST_DATASETS);
    for (int64_t i = 0; i < list.count; i++) {
        CHECK(list.prefixes[i]);
        if (list.weights)
            CHECK(isfinite(list.weights[i]) && list.weights[i] >= 0 && blend_target(list.weights[i], 1000) <= 1000);
        sum += list.weights ? list.weights[i] : 0;
    }
    CHECK(fabs(sum - 1) < 1e-6);
    blend_list_free(&list);
}

static void try_split(const char *text) {
    struct split_bounds bounds;
    if (split_parse(&bounds, text) < 0)
        return;
    int64_t counts[] = {0, 1, 7, 1000, INT64_C(1) << 40};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        int64_t begin, end, last = 0;
        for (int which = 0; which < SPLIT_COUNT; which++) {
            split_range(&bounds, (enum split)which, counts[i], &begin, &end);
            CHECK(begin == last && end >= begin && end <= counts[i]);
            last = end;
        }
        CHECK(last == counts[i]);
    }
}

// Every group that is read has a name, and of each dataset a weight, a part and a prefix.
static void try_groups(const struct config *config) {
    int64_t groups;
    if (data_paths_count_groups(&groups, config, SPLIT_VALID) < 0)
        return;
    CHECK(groups >= 1 && groups <= WEIGHTED_MOST_GROUPS);
    for (int64_t i = 0; i < groups; i++) {
        struct data_paths paths;
        double start, end;
        if (data_paths_find_group(&paths, config, SPLIT_VALID, i) == 0) {
            CHECK(paths.name && *paths.name && strlen(paths.name) < WEIGHTED_NAME_BYTES);
            CHECK(paths.parts.count > 0 && paths.items.count == 2 * paths.parts.count);
            for (int64_t k = 0; k < paths.parts.count; k++)
                CHECK(weighted_range_parse(paths.parts.items[k] + strlen(SPLIT_PART), &start, &end) == 0 &&
                      start >= 0 && start < end && end <= 1);
            try_words(&paths.items);
        }
        data_paths_free(&paths);
    }
}

static void try_file(const uint8_t *data, size_t size) {
    int descriptor = memfd_create("fuzz", 0);
    if (descriptor < 0 || write(descriptor, data, size) != (ssize_t)size)
        abort();
    struct config config;
    config_defaults(&config);
    config.data.per_split_data_args_path = memory_printf("/proc/self/fd/%d", descriptor);
    for (int which = 0; which < SPLIT_COUNT; which++) {
        struct data_paths paths;
        if (data_paths_find(&paths, &config, (enum split)which) == 0)
            try_words(&paths.items);
        data_paths_free(&paths);
    }
    free(config.data.per_split_data_args_path);
    config.data.per_split_data_args_path = NULL;
    config.data.valid_weighted_split_paths_path = memory_printf("/proc/self/fd/%d", descriptor);
    try_groups(&config);
    config_free(&config);
    close(descriptor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = memory_printf("%.*s", (int)size, size > 0 ? (const char *)data : "");
    struct string_list words = {0};
    for (const char *at = text; *at; at += strcspn(at, " "), at += *at == ' ') {
        char *word = memory_printf("%.*s", (int)strcspn(at, " "), at);
        string_list_add(&words, word);
        free(word);
    }
    try_words(&words);
    try_split(text);
    try_file(data, size);
    string_list_free(&words);
    free(text);
    return 0;
}
