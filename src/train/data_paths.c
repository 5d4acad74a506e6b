// Finds the flag or file that names the data of a split. See data_paths.h.
#include "train/data_paths.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "data/sample/split.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_FILE = 1 << 24 };

enum corpus_kind corpus_kind_of(const struct config *config) {
    if (config->model.form == CONFIG_T5)
        return CORPUS_T5;
    if (config->model.form == CONFIG_ICT)
        return CORPUS_ICT;
    if (config->model.form == CONFIG_BERT)
        return config->data.sample_break_mode ? CORPUS_ROBERTA : CORPUS_BERT;
    return CORPUS_GPT;
}

static void copy_list(struct string_list *to, const struct string_list *from) {
    for (int64_t i = 0; i < from->count; i++)
        string_list_add(to, from->items[i]);
}

static int read_words(struct string_list *items, const char *path) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    int status = file_read_all(path, LARGEST_FILE, &text);
    static const char blanks[] = " \t\r\n";
    for (char *at = text.data; status == 0 && at && *at;) {
        at += strspn(at, blanks);
        size_t length = strcspn(at, blanks);
        if (length == 0)
            break;
        bool is_last = at[length] == 0;
        at[length] = 0;
        string_list_add(items, at);
        at += length + !is_last;
    }
    if (status == 0 && items->count == 0)
        return error_set_code(EXIT_CODE_USAGE, "%s names no data; write into it what would follow --data-path", path);
    return status;
}

static int take_words(struct string_list *items, const struct json *list, const char *path, const char *name) {
    if (!list || list->type == JSON_NULL)
        return 0;
    if (list->type != JSON_ARRAY)
        return error_set_code(EXIT_CODE_USAGE, "%s: \"%s\" is not a list of prefixes (and weights)", path, name);
    for (size_t i = 0; i < list->count; i++) {
        const struct json *item = &list->items[i];
        if (item->type != JSON_STRING && item->type != JSON_NUMBER)
            return error_set_code(EXIT_CODE_USAGE, "%s: the list \"%s\" has an entry that is not text", path, name);
        string_list_add(items, item->string);
    }
    return 0;
}

static int read_splits(struct string_list *items, const char *path, enum split which) {
    OWNED struct json *root = NULL;
    TRY(json_parse_file(&root, path, LARGEST_FILE));
    return root->type == JSON_OBJECT
               ? take_words(items, json_member(root, split_name(which)), path, split_name(which))
               : error_set_code(EXIT_CODE_USAGE, "%s is not a JSON object with train, valid and test", path);
}

// ---- groups with parts of datasets ----

struct weighted_flag {
    const char *flag;
    const struct string_list *groups;
    const char *path;
};

static struct weighted_flag weighted_flag(const struct config *config, enum split which) {
    const struct weighted_flag flags[SPLIT_COUNT] = {
        {"--train-weighted-split-paths", &config->data.train_weighted_split_paths,
         config->data.train_weighted_split_paths_path},
        {"--valid-weighted-split-paths", &config->data.valid_weighted_split_paths,
         config->data.valid_weighted_split_paths_path},
        {"--test-weighted-split-paths", &config->data.test_weighted_split_paths,
         config->data.test_weighted_split_paths_path}};
    return flags[which];
}

// The texts of all groups.
static int list_groups(struct string_list *groups, const struct config *config, enum split which) {
    const struct weighted_flag from = weighted_flag(config, which);
    OWNED_BY(buffer_free) struct buffer text = {0};
    copy_list(groups, from.groups);
    int status = from.path ? file_read_all(from.path, LARGEST_FILE, &text) : 0;
    if (status == 0 && from.path)
        status = weighted_groups_list(groups, buffer_string(&text), text.length, from.path);
    if (status == 0 && groups->count > WEIGHTED_MOST_GROUPS)
        status = error_set_code(EXIT_CODE_USAGE, "%s has %" PRId64 " groups, more than %d; join some of them",
                                from.flag, groups->count, WEIGHTED_MOST_GROUPS);
    if (status == 0 && which == SPLIT_TRAIN && groups->count > 1)
        status = error_set_code(EXIT_CODE_USAGE,
                                "%s: training has one group of datasets, not %" PRId64 "; join them with commas",
                                from.path ? from.path : from.flag, groups->count);
    return status;
}

static int read_group(struct data_paths *paths, const struct config *config, enum split which, int64_t number) {
    OWNED_BY(string_list_free) struct string_list groups = {0};
    struct weighted_group group = {0};
    const struct weighted_flag from = weighted_flag(config, which);
    paths->flag = from.path ? from.path : from.flag;
    int status = list_groups(&groups, config, which);
    if (status == 0 && number < groups.count)
        status = weighted_group_parse(&group, groups.items[number], paths->flag);
    copy_list(&paths->items, &group.words);
    for (int64_t i = 0; i < group.ranges.count; i++) {
        OWNED char *part = memory_printf(SPLIT_PART "%s", group.ranges.items[i]);
        string_list_add(&paths->parts, part);
    }
    paths->name = group.name;
    group.name = NULL;
    weighted_group_free(&group);
    return status;
}

static bool has_groups(const struct config *config, enum split which) {
    const struct weighted_flag from = weighted_flag(config, which);
    return from.path || from.groups->count > 0;
}

int data_paths_count_groups(int64_t *count, const struct config *config, enum split which) {
    OWNED_BY(string_list_free) struct string_list groups = {0};
    int status = list_groups(&groups, config, which);
    *count = groups.count > 1 ? groups.count : 1;
    return status;
}

int data_paths_find_group(struct data_paths *paths, const struct config *config, enum split which, int64_t group) {
    *paths = (struct data_paths){0};
    return has_groups(config, which) ? read_group(paths, config, which, group) : data_paths_find(paths, config, which);
}

int data_paths_find(struct data_paths *paths, const struct config *config, enum split which) {
    if (has_groups(config, which))
        return data_paths_find_group(paths, config, which, 0);
    static const char *const flags[SPLIT_COUNT] = {"--train-data-path", "--valid-data-path", "--test-data-path"};
    const struct string_list *own[SPLIT_COUNT] = {&config->data.train_data_path, &config->data.valid_data_path,
                                                  &config->data.test_data_path};
    *paths = (struct data_paths){.flag = flags[which]};
    if (config->data.data_path.count > 0 || config->data.data_args_path) {
        paths->flag = config->data.data_args_path ? config->data.data_args_path : "--data-path";
        paths->split = config->data.split;
        copy_list(&paths->items, &config->data.data_path);
        return config->data.data_args_path ? read_words(&paths->items, config->data.data_args_path) : 0;
    }
    copy_list(&paths->items, own[which]);
    if (!config->data.per_split_data_args_path)
        return 0;
    paths->flag = config->data.per_split_data_args_path;
    return read_splits(&paths->items, config->data.per_split_data_args_path, which);
}

void data_paths_free(struct data_paths *paths) {
    string_list_free(&paths->items);
    string_list_free(&paths->parts);
    free(paths->name);
    *paths = (struct data_paths){0};
}
