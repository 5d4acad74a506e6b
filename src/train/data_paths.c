// Finds the flag or file that names the data of a split. See data_paths.h.
#include "train/data_paths.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

enum { LARGEST_FILE = 1 << 24 };

static void copy_list(struct string_list *to, const struct string_list *from) {
    for (int64_t i = 0; i < from->count; i++)
        string_list_add(to, from->items[i]);
}

static int read_words(struct string_list *items, const char *path) {
    struct buffer text = {0};
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
    buffer_free(&text);
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
    struct json *root;
    TRY(json_parse_file(&root, path, LARGEST_FILE));
    int status = root->type == JSON_OBJECT
                     ? take_words(items, json_member(root, split_name(which)), path, split_name(which))
                     : error_set_code(EXIT_CODE_USAGE, "%s is not a JSON object with train, valid and test", path);
    json_free(root);
    return status;
}

int data_paths_find(struct data_paths *paths, const struct config *config, enum split which) {
    static const char *const flags[SPLIT_COUNT] = {"--train-data-path", "--valid-data-path", "--test-data-path"};
    const struct string_list *own[SPLIT_COUNT] = {&config->train_data_path, &config->valid_data_path,
                                                  &config->test_data_path};
    *paths = (struct data_paths){.flag = flags[which]};
    if (config->data_path.count > 0 || config->data_args_path) {
        paths->flag = config->data_args_path ? config->data_args_path : "--data-path";
        paths->split = config->split;
        copy_list(&paths->items, &config->data_path);
        return config->data_args_path ? read_words(&paths->items, config->data_args_path) : 0;
    }
    copy_list(&paths->items, own[which]);
    if (!config->per_split_data_args_path)
        return 0;
    paths->flag = config->per_split_data_args_path;
    return read_splits(&paths->items, config->per_split_data_args_path, which);
}

void data_paths_free(struct data_paths *paths) {
    string_list_free(&paths->items);
    *paths = (struct data_paths){0};
}
