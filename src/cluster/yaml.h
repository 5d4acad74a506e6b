// A writer of YAML: nested maps and lists in block form, every string in double quotes with JSON's escapes, which YAML
// reads the same way. Any string thus stays a string.
#ifndef CLUSTER_YAML_H
#define CLUSTER_YAML_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A map, list or item is written with its first content: one that stays empty leaves nothing.
enum { YAML_MOST_DEPTH = 24 };
struct yaml {
    struct buffer *out;
    int depth;                          // number of open maps, lists and items
    int empty;                          // of these, from the innermost: those that have nothing yet
    const char *keys[YAML_MOST_DEPTH];  // of the open ones, borrowed; NULL for an item
    bool is_at_dash;                    // the next key is on the line of its list's dash
};

// A key of the open map; the key itself is the program's, not the user's, unless it is given to yaml_pair.
void yaml_text(struct yaml *yaml, const char *key, const char *value);  // nothing if value is NULL
void yaml_number(struct yaml *yaml, const char *key, int64_t value);
void yaml_amount(struct yaml *yaml, const char *key, int64_t value);  // nothing if it is not above 0
void yaml_bool(struct yaml *yaml, const char *key, bool value);
void yaml_true(struct yaml *yaml, const char *key, bool value);         // nothing if false
void yaml_map(struct yaml *yaml, const char *key);                      // opens a map below the key
void yaml_list(struct yaml *yaml, const char *key);                     // opens a list below the key
void yaml_pair(struct yaml *yaml, const char *key, const char *value);  // the key is quoted, too
// In a list: an item that is a map (closed with yaml_end), a string, or a number.
void yaml_item(struct yaml *yaml);
void yaml_item_text(struct yaml *yaml, const char *value);
void yaml_item_number(struct yaml *yaml, int64_t value);
// A map, and an item, with one text; nothing if it is NULL.
void yaml_map_of(struct yaml *yaml, const char *map, const char *key, const char *value);
void yaml_item_of(struct yaml *yaml, const char *key, const char *value);
void yaml_end(struct yaml *yaml);              // of a map, a list or an item
void yaml_ends(struct yaml *yaml, int count);  // of the innermost ones
void yaml_document(struct yaml *yaml);         // the next document of the stream

// The string in double quotes.
void yaml_quote(struct buffer *out, const char *text);

// YAML as a tree: reads files that people write for Kubernetes, merges two trees as kubectl would, and writes the
// result. Supported are block maps and lists, flow maps and lists on one line, plain and quoted scalars, comments; or a
// JSON file. Block scalars, anchors, aliases, tags, several documents and duplicate keys are refused with their line,
// because a reader that guesses would start another pod.
enum yaml_kind { YAML_SCALAR, YAML_MAP, YAML_LIST };

struct yaml_node {
    enum yaml_kind kind;
    char *key;       // of a member of a map; NULL elsewhere
    char *text;      // of a scalar
    bool is_quoted;  // the scalar is a string in any case
    struct yaml_node *items;
    size_t count;
};

// -1, with path and line. Free the node in any case.
int yaml_tree_parse(struct yaml_node *root, const char *text, size_t length, const char *path);
void yaml_tree_free(struct yaml_node *root);
// A member of a map; NULL if there is none, or if it is not a map.
struct yaml_node *yaml_tree_member(struct yaml_node *map, const char *key);
// Adds a member to a map and takes ownership of the contents of `value`.
void yaml_tree_add(struct yaml_node *map, const char *key, struct yaml_node value);

// Merges `from` into `into`: maps by key, lists of maps with a name by that name, other lists by appending; null
// removes a member; anything else replaces.
void yaml_tree_merge(struct yaml_node *into, const struct yaml_node *from);

// Writes the members of a map as block YAML, each line indented by `depth` levels; or into the open map.
void yaml_tree_write(const struct yaml_node *map, int depth, struct buffer *out);
void yaml_members(struct yaml *yaml, const struct yaml_node *map);

#endif
