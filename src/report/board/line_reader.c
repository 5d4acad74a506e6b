// The fast path through a line of metrics. See line_reader.h.
#include "report/board/line_reader.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- numbers ----

// Digits eight at a time into an integer, then one multiplication by a power of ten.

enum { MOST_DIGITS = 19, EXACT_POWERS = 23 };  // that fit 64 bits; powers of ten that a double holds

static const double powers[EXACT_POWERS] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                            1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

#define EVERY_BYTE(b) ((uint64_t)0x0101010101010101 * (b))

// Whether eight bytes are all '0' to '9': their high halves are 3, also after adding 6 to the low ones.
static bool are_digits(uint64_t word) {
    return (word & EVERY_BYTE(0xF0)) == EVERY_BYTE(0x30) &&
           ((word + EVERY_BYTE(0x06)) & EVERY_BYTE(0xF0)) == EVERY_BYTE(0x30);
}

// The first digit is in the lowest byte. Neighbours are combined: digits to pairs, pairs to fours, fours to eight.
static uint64_t eight_digits(uint64_t word) {
    word &= EVERY_BYTE(0x0F);
    word = (word * 10 + (word >> 8)) & 0x00FF00FF00FF00FF;
    word = (word * 100 + (word >> 16)) & 0x0000FFFF0000FFFF;
    return (word * 10000 + (word >> 32)) & 0xFFFFFFFF;
}

// Parses digits and appends them to *mantissa, which wraps around if there are too many.
static const char *pass_digits(const char *at, uint64_t *mantissa) {
    uint64_t word, sum = *mantissa;
    for (;; at += 8) {
        memcpy(&word, at, 8);
        if (!are_digits(word))
            break;
        sum = sum * 100000000 + eight_digits(word);
    }
    for (; *at >= '0' && *at <= '9'; at++)
        sum = sum * 10 + (uint64_t)(*at - '0');
    *mantissa = sum;
    return at;
}

static const char *by_library(const char *text, const char *end, double *value) {
    char *stop = NULL;
    *value = strtod(text, &stop);
    return stop == end && isfinite(*value) ? end : NULL;
}

// Number of significant digits in [at, end).
static ptrdiff_t significant(const char *at, const char *end) {
    ptrdiff_t point = 0;
    for (; at < end && (*at == '0' || *at == '.'); at++)
        ;
    for (const char *each = at; each < end; each++)
        point += *each == '.';
    return end - at - point;
}

const char *line_number_read(const char *text, double *value) {
    bool is_negative = *text == '-';
    const char *first = text + is_negative;
    uint64_t mantissa = 0;
    const char *at = pass_digits(first, &mantissa);
    if (at == first || (at - first > 1 && *first == '0'))
        return NULL;
    ptrdiff_t exponent = 0;
    if (*at == '.') {
        const char *point = ++at;
        at = pass_digits(at, &mantissa);
        if (at == point)
            return NULL;
        exponent = point - at;
    }
    bool is_long = at - first > MOST_DIGITS && significant(first, at) > MOST_DIGITS;
    if (*at == 'e' || *at == 'E') {
        at++;
        bool is_below = *at == '-';
        at += *at == '-' || *at == '+';
        const char *digits = at;
        uint64_t power = 0;
        at = pass_digits(at, &power);
        if (at == digits)
            return NULL;
        is_long = is_long || at - digits > 4;
        exponent += is_below ? -(ptrdiff_t)power : (ptrdiff_t)power;
    }
    if (is_long || exponent <= -2 * EXACT_POWERS + 2 || exponent >= EXACT_POWERS)
        return by_library(text, at, value);
    double number = (double)mantissa;
    if (exponent < -(EXACT_POWERS - 1)) {
        number /= powers[EXACT_POWERS - 1];
        exponent += EXACT_POWERS - 1;
    }
    number = exponent < 0 ? number / powers[-exponent] : number * powers[exponent];
    *value = is_negative ? -number : number;
    return at;
}

// ---- lines ----

enum { MOST_KEYS = 512, MOST_KEY_BYTES = LINE_MOST_NAME };

enum key_kind { KEY_TEXT, KEY_TIME, KEY_ITERATION, KEY_TRAIN_ITERS, KEY_SAMPLES, KEY_OBJECT, KEY_VALUE };

struct board_line_key {
    char text[MOST_KEY_BYTES + 8];  // with its quotes, the colon, and the brace of an object
    size_t length;
    int parent;  // the key of the enclosing object, -1 at the top
    enum key_kind kind;
    int tag;
    uint64_t stamp;  // of the last line that had it
};

void line_reader_free(struct board_line_reader *reader) {
    free(reader->keys);
    reader->keys = NULL;
    reader->key_count = 0;
}

static enum key_kind kind_of_name(const char *name) {
    static const struct {
        const char *name;
        enum key_kind kind;
    } known[] = {{"kind", KEY_TEXT},
                 {"time", KEY_TIME},
                 {"iteration", KEY_ITERATION},
                 {"train_iters", KEY_TRAIN_ITERS},
                 {"consumed_samples", KEY_SAMPLES}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].kind;
    return KEY_VALUE;
}

// The name in a key, without its decoration.
static void plain_name(const struct board_line_key *key, char name[MOST_KEY_BYTES + 8]) {
    size_t length = key->length - 3 - (key->kind == KEY_OBJECT);
    memcpy(name, key->text + 1, length);
    name[length] = '\0';
}

// Position of the fast path in a line.
struct board_line_cursor {
    const char *at, *end;
    int parent;  // the key of the enclosing object, -1 at the top
    int guess;   // the key expected next
};

// Learns the key at `at`; NULL if it needs the slow path.
static struct board_line_key *learn_key(struct board_line_reader *reader, const struct board_line_cursor *cursor) {
    const char *at = cursor->at, *end = cursor->end;
    int parent = cursor->parent;
    if (reader->key_count == MOST_KEYS || end - at < 4 || *at != '"')
        return NULL;
    const char *quote = memchr(at + 1, '"', (size_t)(end - at - 1));
    if (!quote || quote - at - 1 > MOST_KEY_BYTES || quote[1] != ':')
        return NULL;
    size_t length = (size_t)(quote - at - 1);
    for (size_t i = 1; i <= length; i++)
        if (at[i] == '\\' || (unsigned char)at[i] < ' ')
            return NULL;
    if (utf8_check(at + 1, length) != length)
        return NULL;
    bool is_object = quote[2] == '{';
    if (is_object && parent >= 0)
        return NULL;
    struct board_line_key key = {.length = length + 3 + is_object, .parent = parent, .tag = -1};
    memcpy(key.text, at, key.length);
    char name[MOST_KEY_BYTES + 8], object[MOST_KEY_BYTES + 8];
    key.kind = is_object ? KEY_OBJECT : KEY_VALUE;
    plain_name(&key, name);
    if (!is_object && parent < 0)
        key.kind = kind_of_name(name);
    if (parent >= 0)
        plain_name(&reader->keys[parent], object);
    char first = quote[2];
    // Only numbers make tags. If text turns into numbers later, those lines take the slow path.
    bool is_number = (first >= '0' && first <= '9') || first == '-' || first == 'n';
    if (key.kind == KEY_VALUE && is_number)
        key.tag = line_tag(reader, parent >= 0 ? object : NULL, name, NULL);
    else if (key.kind == KEY_VALUE)
        key.kind = KEY_TEXT;
    size_t count = (size_t)reader->key_count;
    reader->keys = memory_realloc(reader->keys, (count + 1) * sizeof reader->keys[0]);
    reader->keys[count] = key;
    return &reader->keys[reader->key_count++];
}

static bool is_here(const struct board_line_key *key, const char *at, int parent) {
    return key->parent == parent && memcmp(key->text, at, key->length) == 0;
}

// The key at `at`: mostly the one that followed in the previous line.
static struct board_line_key *find_key(struct board_line_reader *reader, const struct board_line_cursor *cursor) {
    int guess = cursor->guess;
    if (guess < reader->key_count && is_here(&reader->keys[guess], cursor->at, cursor->parent))
        return &reader->keys[guess];
    for (int i = 0; i < reader->key_count; i++)
        if (is_here(&reader->keys[i], cursor->at, cursor->parent))
            return &reader->keys[i];
    return learn_key(reader, cursor);
}

// Stores a number under its key; false if the key cannot have one.
static bool store_number(const struct board_line_key *key, double number, struct board_line_row *row) {
    bool is_whole = number >= 0 && number < (double)LINE_MOST_ITERATION && number == floor(number);
    switch (key->kind) {
    case KEY_TIME:
        row->time = isfinite(number) ? number : 0;
        return true;
    case KEY_ITERATION:
        row->iteration = is_whole ? (int64_t)number : -1;
        return is_whole;
    case KEY_TRAIN_ITERS:
        row->train_iters = is_whole ? (int64_t)number : 0;
        return true;
    case KEY_SAMPLES:
        row->samples = number >= 0 && isfinite(number) ? number : -1;
        return true;
    default:
        if (key->tag >= 0 && row->count < LINE_MOST_VALUES)
            row->values[row->count++] = (struct board_line_value){key->tag, number};
        return true;
    }
}

// The text after a word, a string or a null; NULL for anything else. Only a null is a value.
static const char *pass_other(const char *at, const char *end, const struct board_line_key *key,
                              struct board_line_row *row) {
    // A null under a key that had a text may be its first value, for which the tree adds a tag.
    if (memcmp(at, "null", 4) == 0)
        return key->kind != KEY_TEXT && store_number(key, (double)NAN, row) ? at + 4 : NULL;
    if (memcmp(at, "true", 4) == 0)
        return at + 4;
    if (memcmp(at, "false", 5) == 0)
        return at + 5;
    if (*at != '"')
        return NULL;
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\' || (unsigned char)*at < ' ' || (unsigned char)*at >= 0x80)
            return NULL;
    return at < end ? at + 1 : NULL;
}

// One member, or the beginning of an object; false if it needs the slow path.
static bool read_member(struct board_line_reader *reader, struct board_line_cursor *cursor,
                        struct board_line_row *row) {
    struct board_line_key *key = find_key(reader, cursor);
    // The first of equal keys wins, which only the tree can tell.
    if (!key || key->stamp == reader->stamp)
        return false;
    key->stamp = reader->stamp;
    cursor->guess = (int)(key - reader->keys) + 1;
    cursor->at += key->length;
    if (key->kind == KEY_OBJECT) {
        cursor->parent = cursor->guess - 1;
        return true;
    }
    if ((*cursor->at >= '0' && *cursor->at <= '9') || *cursor->at == '-') {
        double number = 0;
        cursor->at = key->kind == KEY_TEXT ? NULL : line_number_read(cursor->at, &number);
        return cursor->at && store_number(key, number, row);
    }
    // The tree decides about members other than numbers in an object.
    if (cursor->parent >= 0 && *cursor->at != 'n')
        return false;
    cursor->at = pass_other(cursor->at, cursor->end, key, row);
    return cursor->at != NULL;
}

const char *line_read_fast(struct board_line_reader *reader, const char *text, const char *end,
                           struct board_line_row *row) {
    static const char head[] = "{\"kind\":\"train\"";
    if (end - text < (ptrdiff_t)sizeof head || memcmp(text, head, sizeof head - 1) != 0)
        return NULL;
    line_row_clear(row);
    reader->stamp++;
    struct board_line_cursor cursor = {.at = text + sizeof head - 1, .end = end, .parent = -1};
    bool is_first = false;  // in an object, which has no comma there
    while (cursor.at < end) {
        if (*cursor.at == '}') {
            cursor.at++;
            if (cursor.parent < 0)
                return cursor.at < end && *cursor.at == '\n' && row->iteration >= 0 ? cursor.at + 1 : NULL;
            cursor.parent = -1;
            is_first = false;
            continue;
        }
        if (!is_first && *cursor.at++ != ',')
            return NULL;
        int before = cursor.parent;
        if (!read_member(reader, &cursor, row))
            return NULL;
        is_first = cursor.parent != before;
    }
    return NULL;
}

// ---- other lines ----

// The slow path: a line that was parsed into a tree.

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
    for (int i = 0; i < row->count; i++)
        if (row->values[i].tag == tag)
            return;
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
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        if (strcmp(reserved[i], name) == 0)
            return true;
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
