// The list of the fastest algorithms, and its file. See choices.h.
#include "ops/choices.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "ops/device.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_LIMIT = 16 << 20 };

void choices_open(struct kept_choices *choices, const char *identity, size_t key_bytes, size_t value_bytes) {
    *choices =
        (struct kept_choices){.identity = memory_string(identity), .key_bytes = key_bytes, .value_bytes = value_bytes};
}

void choices_close(struct kept_choices *choices) {
    free(choices->identity);
    free(choices->entries);
    *choices = (struct kept_choices){0};
}

static size_t entry_bytes(const struct kept_choices *choices) {
    return choices->key_bytes + choices->value_bytes;
}

static unsigned char *entry_at(const struct kept_choices *choices, int64_t i) {
    return choices->entries + (size_t)i * entry_bytes(choices);
}

static unsigned char *find_entry(const struct kept_choices *choices, const void *key) {
    for (int64_t i = 0; i < choices->count; i++)
        if (memcmp(entry_at(choices, i), key, choices->key_bytes) == 0)
            return entry_at(choices, i);
    return NULL;
}

const void *choices_find(const struct kept_choices *choices, const void *key) {
    const unsigned char *entry = find_entry(choices, key);
    return entry ? entry + choices->key_bytes : NULL;
}

void choices_add(struct kept_choices *choices, const void *key, const void *value) {
    unsigned char *known = find_entry(choices, key);
    if (known)
        memcpy(known + choices->key_bytes, value, choices->value_bytes);
    if (known || choices->count == CHOICES_MOST)
        return;
    if (choices->count == choices->capacity) {
        choices->capacity = choices->capacity ? 2 * choices->capacity : 64;
        choices->entries = memory_realloc(choices->entries, (size_t)choices->capacity * entry_bytes(choices));
    }
    unsigned char *entry = entry_at(choices, choices->count++);
    memcpy(entry, key, choices->key_bytes);
    memcpy(entry + choices->key_bytes, value, choices->value_bytes);
}

static void append_hex(struct buffer *out, const unsigned char *bytes, size_t count) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        buffer_append_byte(out, digits[bytes[i] >> 4]);
        buffer_append_byte(out, digits[bytes[i] & 15]);
    }
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Reads count bytes and returns the rest of the text; NULL if other characters or the end come first.
static const char *read_hex(const char *text, unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int high = hex_digit(text[2 * i]), low = high < 0 ? -1 : hex_digit(text[2 * i + 1]);
        if (low < 0)
            return NULL;
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    return text + 2 * count;
}

void choices_print(const struct kept_choices *choices, struct buffer *out) {
    buffer_append_string(out, choices->identity);
    buffer_append_byte(out, '\n');
    for (int64_t i = 0; i < choices->count; i++) {
        append_hex(out, entry_at(choices, i), choices->key_bytes);
        buffer_append_byte(out, ' ');
        append_hex(out, entry_at(choices, i) + choices->key_bytes, choices->value_bytes);
        buffer_append_byte(out, '\n');
    }
}

void choices_read(struct kept_choices *choices, const char *text) {
    size_t length = strlen(choices->identity);
    if (strncmp(text, choices->identity, length) != 0 || text[length] != '\n')
        return;
    unsigned char *entry = memory_alloc(entry_bytes(choices)), *value = entry + choices->key_bytes;
    for (const char *at = text + length + 1; *at && choices->count < CHOICES_MOST;) {
        at = read_hex(at, entry, choices->key_bytes);
        if (at && *at == ' ')
            at = read_hex(at + 1, value, choices->value_bytes);
        else
            at = NULL;
        if (!at || *at++ != '\n')
            break;
        if (!find_entry(choices, entry))
            choices_add(choices, entry, value);
    }
    free(entry);
}

void choices_load(struct kept_choices *choices, const char *path) {
    struct buffer text = {0};
    if (!file_exists(path))
        return;
    if (file_read_all(path, FILE_LIMIT, &text) < 0) {
        log_warn("%s; what is fastest is found out again", error_message());
        error_clear();
    } else {
        choices_read(choices, buffer_string(&text));
    }
    buffer_free(&text);
}

void choices_share(struct kept_choices *choices, const struct device_peers *peers) {
    peers->broadcast(peers->context, &choices->count, sizeof choices->count);
    CHECK(choices->count >= 0 && choices->count <= CHOICES_MOST);
    if (peers->rank != 0) {
        choices->capacity = choices->count;
        free(choices->entries);
        choices->entries = memory_alloc((size_t)choices->capacity * entry_bytes(choices));
    }
    if (choices->count > 0)
        peers->broadcast(peers->context, choices->entries, (size_t)choices->count * entry_bytes(choices));
}

void choices_save(struct kept_choices *choices, const char *path) {
    struct buffer text = {0};
    struct kept_choices all;
    choices_open(&all, choices->identity, choices->key_bytes, choices->value_bytes);
    for (int64_t i = 0; i < choices->count; i++)
        choices_add(&all, entry_at(choices, i), entry_at(choices, i) + choices->key_bytes);
    choices_load(&all, path);
    choices_print(&all, &text);
    choices_close(&all);
    if (file_write_all(path, text.data, text.length) < 0) {
        if (!choices->is_broken)
            log_warn("%s; the next run finds out again what is fastest", error_message());
        choices->is_broken = true;
        error_clear();
    }
    buffer_free(&text);
}
