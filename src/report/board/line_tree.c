// The slow path through a line of metrics, and code shared by both paths. See line_reader.h.
#include "report/board/line_reader.h"

#include "base/error.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_SET_BYTES = 64 };

void line_row_clear(struct board_line_row *row) {
    row->iteration = -1;
    row->train_iters = 0;
    row->time = 0;
    row->samples = -1;
    row->count = 0;
}

int line_tag(struct board_line_reader *reader, const char *object, const char *name, const char *set) {
    char tag[2 * LINE_MOST_NAME + 2];
    if (!*name || strlen(name) > LINE_MOST_NAME || (object && strlen(object) > LINE_MOST_NAME))
        return -1;
    if (object && strcmp(object, "losses") == 0)
        return reader->find_tag(reader->owner, name, set);
    if (!object && strcmp(name, "memory_bytes") == 0)
        return reader->find_tag(reader->owner, "memory", set);
    snprintf(tag, sizeof tag, "%s%s%s", object ? object : "", object ? " " : "", name);
    for (char *at = tag; *at; at++)
        *at = *at == '_' ? ' ' : *at;
    return reader->find_tag(reader->owner, tag, set);
}

// A key with a NUL in it is not a name.
static const char *name_of(const struct json *object, size_t i) {
    const char *name = object->keys[i].string;
    return strlen(name) == object->keys[i].length ? name : "";
}

// One value per tag: of equal keys the first wins.
static void add_value(struct board_line_row *row, int tag, const struct json *value) {
    bool is_number = value->type == JSON_NUMBER;
    if (tag < 0 || row->count == LINE_MOST_VALUES || (!is_number && value->type != JSON_NULL))
        return;
    for (int i = 0; i < row->count; i++) {
        if (row->values[i].tag == tag)
            return;
    }
    row->values[row->count++] = (struct board_line_value){tag, is_number ? value->number : (double)NAN};
}

// The numbers of an object in a line: of its losses all must be numbers or null.
static int add_object(struct board_line_reader *reader, const struct json *object, const char *key, const char *set,
                      struct board_line_row *row) {
    bool are_losses = strcmp(key, "losses") == 0;
    for (size_t i = 0; i < object->count; i++) {
        const struct json *value = &object->items[i];
        if (value->type == JSON_NUMBER || value->type == JSON_NULL)
            add_value(row, line_tag(reader, key, name_of(object, i), set), value);
        else if (are_losses)
            return -1;
    }
    return 0;
}

static bool is_reserved(const char *name) {
    static const char *const reserved[] = {"kind", "time", "iteration", "train_iters", "consumed_samples"};
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
        if (strcmp(reserved[i], name) == 0)
            return true;
    }
    return false;
}

static int add_train(struct board_line_reader *reader, const struct json *root, struct board_line_row *row) {
    for (size_t i = 0; i < root->count; i++) {
        const struct json *value = &root->items[i];
        const char *name = name_of(root, i);
        if (value->type == JSON_OBJECT)
            TRY(add_object(reader, value, name, NULL, row));
        else if ((value->type == JSON_NUMBER || value->type == JSON_NULL) && !is_reserved(name))
            add_value(row, line_tag(reader, NULL, name, NULL), value);
    }
    return 0;
}

static int add_eval(struct board_line_reader *reader, const struct json *root, struct board_line_row *row) {
    const struct json *losses = json_member(root, "losses");
    const char *set = NULL;
    TRY(json_get_string(root, "set", &set));
    if (strlen(set) > MOST_SET_BYTES || !losses || losses->type != JSON_OBJECT)
        return -1;
    return add_object(reader, losses, "losses", set, row);
}

static double number_or(const struct json *root, const char *key, double otherwise) {
    const struct json *value = json_member(root, key);
    return value && value->type == JSON_NUMBER && isfinite(value->number) ? value->number : otherwise;
}

static bool is_iteration(double number) {
    return number >= 0 && number < (double)LINE_MOST_ITERATION && number == floor(number);
}

enum board_line_kind line_read_tree(struct board_line_reader *reader, const struct json *root,
                                    struct board_line_row *row) {
    static const char *const names[] = {[LINE_TRAIN] = "train", [LINE_EVAL] = "eval",   [LINE_RUN] = "run",
                                        [LINE_EVENT] = "event", [LINE_RANKS] = "ranks", [LINE_SAMPLE] = "sample"};
    line_row_clear(row);
    const char *name = NULL;
    if (json_get_string(root, "kind", &name) < 0)
        return LINE_BAD;
    enum board_line_kind kind = LINE_TRAIN;
    while (kind < LINE_UNKNOWN && strcmp(names[kind], name) != 0)
        kind++;
    if (kind == LINE_UNKNOWN)
        return kind;
    double iteration = number_or(root, "iteration", kind == LINE_TRAIN || kind == LINE_EVAL ? -1 : 0);
    double train_iters = number_or(root, "train_iters", 0);
    if (!is_iteration(iteration))
        return LINE_BAD;
    row->iteration = (int64_t)iteration;
    row->train_iters = is_iteration(train_iters) ? (int64_t)train_iters : 0;
    row->time = number_or(root, "time", 0);
    double samples = number_or(root, "consumed_samples", -1);
    row->samples = samples >= 0 ? samples : -1;
    if ((kind == LINE_TRAIN && add_train(reader, root, row) < 0) ||
        (kind == LINE_EVAL && add_eval(reader, root, row) < 0))
        return LINE_BAD;
    return kind;
}

// The number after a key near the beginning of the line; 0 if there is none.
static double head_number(const char *text, size_t length, const char *key) {
    enum { HEAD_BYTES = 160 };
    double number = 0;
    const char *found = memmem(text, length < HEAD_BYTES ? length : HEAD_BYTES, key, strlen(key));
    return found && line_number_read(found + strlen(key), &number) ? number : 0;
}

enum board_line_kind line_read_head(const char *text, size_t length, struct board_line_row *row) {
    static const char ranks[] = "{\"kind\":\"ranks\",", sample[] = "{\"kind\":\"sample\",";
    bool is_ranks = length >= sizeof ranks && memcmp(text, ranks, sizeof ranks - 1) == 0;
    if (!is_ranks && (length < sizeof sample || memcmp(text, sample, sizeof sample - 1) != 0))
        return LINE_UNKNOWN;
    line_row_clear(row);
    double iteration = head_number(text, length, "\"iteration\":");
    row->iteration = is_iteration(iteration) ? (int64_t)iteration : 0;
    row->time = head_number(text, length, "\"time\":");
    return is_ranks ? LINE_RANKS : LINE_SAMPLE;
}
