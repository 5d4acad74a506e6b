// A writer of YAML: nested maps and lists in block form, every string in double quotes with JSON's escapes, which YAML
// reads the same way. Any string thus stays a string.
#ifndef CLUSTER_YAML_H
#define CLUSTER_YAML_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stdint.h>

struct yaml {
    struct buffer *out;
    int depth;        // number of open maps and lists
    bool is_at_dash;  // the next key is on the line of its list's dash
};

// A key of the open map; the key itself is the program's, not the user's, unless it is given to yaml_pair.
void yaml_text(struct yaml *yaml, const char *key, const char *value);  // nothing if value is NULL
void yaml_number(struct yaml *yaml, const char *key, int64_t value);
void yaml_bool(struct yaml *yaml, const char *key, bool value);
void yaml_map(struct yaml *yaml, const char *key);                      // opens a map below the key
void yaml_list(struct yaml *yaml, const char *key);                     // opens a list below the key
void yaml_pair(struct yaml *yaml, const char *key, const char *value);  // the key is quoted, too
// In a list: an item that is a map (closed with yaml_end), a string, or a number.
void yaml_item(struct yaml *yaml);
void yaml_item_text(struct yaml *yaml, const char *value);
void yaml_item_number(struct yaml *yaml, int64_t value);
void yaml_end(struct yaml *yaml);       // of a map, a list or an item
void yaml_document(struct yaml *yaml);  // the next document of the stream

// The string in double quotes.
void yaml_quote(struct buffer *out, const char *text);

#endif
