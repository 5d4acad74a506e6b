// Block YAML. See yaml.h.
#include "cluster/yaml.h"

#include "base/error.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// ---- trees; yaml_read.c reads them ----

void yaml_tree_free(struct yaml_node *root) {
    for (size_t i = 0; i < root->count; i++)
        yaml_tree_free(&root->items[i]);
    free(root->items);
    free(root->key);
    free(root->text);
    *root = (struct yaml_node){0};
}

struct yaml_node *yaml_tree_member(struct yaml_node *map, const char *key) {
    if (!map || map->kind != YAML_MAP)
        return NULL;
    for (size_t i = 0; i < map->count; i++)
        if (strcmp(map->items[i].key, key) == 0)
            return &map->items[i];
    return NULL;
}

static void append(struct yaml_node *parent, struct yaml_node value) {
    parent->items = memory_realloc(parent->items, sizeof *parent->items * (parent->count + 1));
    parent->items[parent->count++] = value;
}

void yaml_tree_add(struct yaml_node *map, const char *key, struct yaml_node value) {
    free(value.key);
    value.key = key ? memory_string(key) : NULL;
    append(map, value);
}

static struct yaml_node copy_of(const struct yaml_node *node) {
    struct yaml_node copy = {.kind = node->kind,
                             .key = memory_string(node->key),
                             .text = memory_string(node->text),
                             .is_quoted = node->is_quoted};
    for (size_t i = 0; i < node->count; i++)
        append(&copy, copy_of(&node->items[i]));
    return copy;
}

static bool is_null(const struct yaml_node *node) {
    return node->kind == YAML_SCALAR && !node->is_quoted &&
           (!*node->text || strcmp(node->text, "null") == 0 || strcmp(node->text, "~") == 0);
}

static const char *name_of(const struct yaml_node *node) {
    for (size_t i = 0; node->kind == YAML_MAP && i < node->count; i++)
        if (strcmp(node->items[i].key, "name") == 0 && node->items[i].kind == YAML_SCALAR)
            return node->items[i].text;
    return NULL;
}

static void merge_list(struct yaml_node *into, const struct yaml_node *from) {
    for (size_t i = 0; i < from->count; i++) {
        const char *name = name_of(&from->items[i]);
        struct yaml_node *same = NULL;
        for (size_t k = 0; name && !same && k < into->count; k++) {
            const char *other = name_of(&into->items[k]);
            if (other && strcmp(other, name) == 0)
                same = &into->items[k];
        }
        if (same)
            yaml_tree_merge(same, &from->items[i]);
        else
            append(into, copy_of(&from->items[i]));
    }
}

static void remove_member(struct yaml_node *map, struct yaml_node *member) {
    size_t at = (size_t)(member - map->items);
    yaml_tree_free(member);
    memmove(member, member + 1, sizeof *member * (map->count - at - 1));
    map->count--;
}

static void merge_map(struct yaml_node *into, const struct yaml_node *from) {
    for (size_t i = 0; i < from->count; i++) {
        struct yaml_node *same = yaml_tree_member(into, from->items[i].key);
        if (same && is_null(&from->items[i]))
            remove_member(into, same);
        else if (same)
            yaml_tree_merge(same, &from->items[i]);
        else if (!is_null(&from->items[i]))
            append(into, copy_of(&from->items[i]));
    }
}

void yaml_tree_merge(struct yaml_node *into, const struct yaml_node *from) {
    if (into->kind == YAML_MAP && from->kind == YAML_MAP) {
        merge_map(into, from);
    } else if (into->kind == YAML_LIST && from->kind == YAML_LIST) {
        merge_list(into, from);
    } else {
        char *key = into->key;
        into->key = NULL;
        yaml_tree_free(into);
        *into = copy_of(from);
        free(into->key);
        into->key = key;
    }
}

// Keys of Kubernetes are plain; others, and those that would be read as another type, are quoted.
static void write_key(const char *key, struct buffer *out) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-";
    bool is_plain = key[strspn(key, plain)] == 0 &&
                    strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") > 2 &&
                    strcmp(key, "null") != 0 && strcmp(key, "true") != 0 && strcmp(key, "false") != 0;
    if (is_plain)
        buffer_append_string(out, key);
    else
        yaml_quote(out, key);
    buffer_append_byte(out, ':');
}

static void write_scalar(const struct yaml_node *node, struct buffer *out) {
    if (node->is_quoted)
        yaml_quote(out, node->text);
    else
        buffer_append_string(out, *node->text ? node->text : "null");
}

static void write_items(const struct yaml_node *node, int depth, bool is_at_dash, struct buffer *out) {
    for (size_t i = 0; i < node->count; i++) {
        const struct yaml_node *item = &node->items[i];
        for (int k = 0; k < depth && !(is_at_dash && i == 0); k++)
            buffer_append_string(out, "  ");
        if (node->kind == YAML_MAP)
            write_key(item->key, out);
        else
            buffer_append_byte(out, '-');
        bool is_empty = item->count == 0;
        if (item->kind == YAML_SCALAR || is_empty) {
            buffer_append_byte(out, ' ');
            if (item->kind == YAML_SCALAR)
                write_scalar(item, out);
            else
                buffer_append_string(out, item->kind == YAML_MAP ? "{}" : "[]");
            buffer_append_byte(out, '\n');
        } else if (node->kind == YAML_LIST && item->kind == YAML_MAP) {
            buffer_append_byte(out, ' ');
            write_items(item, depth + 1, true, out);
        } else {
            buffer_append_byte(out, '\n');
            write_items(item, depth + 1, false, out);
        }
    }
}

void yaml_tree_write(const struct yaml_node *map, int depth, struct buffer *out) {
    write_items(map, depth, false, out);
}

// ---- text ----

void yaml_quote(struct buffer *out, const char *text) {
    buffer_append_byte(out, '"');
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            buffer_printf(out, "\\%c", *c);
        else if (*c == '\n')
            buffer_append_string(out, "\\n");
        else if (*c < 0x20 || *c == 0x7f)
            buffer_printf(out, "\\u%04x", *c);
        else
            buffer_append_byte(out, (char)*c);
    }
    buffer_append_byte(out, '"');
}

static void indent(struct yaml *yaml, int depth) {
    if (!yaml->is_at_dash)
        for (int i = 0; i < depth; i++)
            buffer_append_string(yaml->out, "  ");
    yaml->is_at_dash = false;
}

// Begins the open maps, lists and items that have nothing yet, and the line of their first content. A dash is at the
// column of its list's keys, and the keys of its map are two further in.
static void begin_line(struct yaml *yaml) {
    for (int i = yaml->depth - yaml->empty; i < yaml->depth; i++) {
        indent(yaml, i);
        if (yaml->keys[i])
            buffer_printf(yaml->out, "%s:\n", yaml->keys[i]);
        else
            buffer_append_string(yaml->out, "- ");
        yaml->is_at_dash = !yaml->keys[i];
    }
    yaml->empty = 0;
    indent(yaml, yaml->depth);
}

void yaml_text(struct yaml *yaml, const char *key, const char *value) {
    if (!value)
        return;
    begin_line(yaml);
    buffer_printf(yaml->out, "%s: ", key);
    yaml_quote(yaml->out, value);
    buffer_append_byte(yaml->out, '\n');
}

void yaml_pair(struct yaml *yaml, const char *key, const char *value) {
    begin_line(yaml);
    yaml_quote(yaml->out, key);
    buffer_append_string(yaml->out, ": ");
    yaml_quote(yaml->out, value);
    buffer_append_byte(yaml->out, '\n');
}

void yaml_number(struct yaml *yaml, const char *key, int64_t value) {
    begin_line(yaml);
    buffer_printf(yaml->out, "%s: %" PRId64 "\n", key, value);
}

void yaml_amount(struct yaml *yaml, const char *key, int64_t value) {
    if (value > 0)
        yaml_number(yaml, key, value);
}

void yaml_true(struct yaml *yaml, const char *key, bool value) {
    if (value)
        yaml_bool(yaml, key, true);
}

void yaml_bool(struct yaml *yaml, const char *key, bool value) {
    begin_line(yaml);
    buffer_printf(yaml->out, "%s: %s\n", key, value ? "true" : "false");
}

static void open_one(struct yaml *yaml, const char *key) {
    CHECK(yaml->depth < YAML_MOST_DEPTH);
    yaml->keys[yaml->depth++] = key;
    yaml->empty++;
}

void yaml_map(struct yaml *yaml, const char *key) {
    open_one(yaml, key);
}

void yaml_list(struct yaml *yaml, const char *key) {
    open_one(yaml, key);
}

void yaml_item(struct yaml *yaml) {
    open_one(yaml, NULL);
}

void yaml_map_of(struct yaml *yaml, const char *map, const char *key, const char *value) {
    yaml_map(yaml, map);
    yaml_text(yaml, key, value);
    yaml_end(yaml);
}

void yaml_item_of(struct yaml *yaml, const char *key, const char *value) {
    yaml_item(yaml);
    yaml_text(yaml, key, value);
    yaml_end(yaml);
}

void yaml_members(struct yaml *yaml, const struct yaml_node *map) {
    if (map->count == 0)
        return;
    begin_line(yaml);
    write_items(map, yaml->depth, true, yaml->out);
}

void yaml_item_text(struct yaml *yaml, const char *value) {
    begin_line(yaml);
    buffer_append_string(yaml->out, "- ");
    yaml_quote(yaml->out, value);
    buffer_append_byte(yaml->out, '\n');
}

void yaml_item_number(struct yaml *yaml, int64_t value) {
    begin_line(yaml);
    buffer_printf(yaml->out, "- %" PRId64 "\n", value);
}

void yaml_end(struct yaml *yaml) {
    CHECK(yaml->depth > 0);
    yaml->depth--;
    yaml->empty -= yaml->empty > 0;
}

void yaml_ends(struct yaml *yaml, int count) {
    for (int i = 0; i < count; i++)
        yaml_end(yaml);
}

void yaml_document(struct yaml *yaml) {
    CHECK(yaml->depth == 0);
    buffer_append_string(yaml->out, "---\n");
}
