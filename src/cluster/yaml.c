// Block YAML. See yaml.h.
#include "cluster/yaml.h"
#include "base/error.h"

#include <inttypes.h>

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

static void indent(struct yaml *yaml) {
    if (!yaml->is_at_dash)
        for (int i = 0; i < yaml->depth; i++)
            buffer_append_string(yaml->out, "  ");
    yaml->is_at_dash = false;
}

void yaml_text(struct yaml *yaml, const char *key, const char *value) {
    if (!value)
        return;
    indent(yaml);
    buffer_printf(yaml->out, "%s: ", key);
    yaml_quote(yaml->out, value);
    buffer_append_byte(yaml->out, '\n');
}

void yaml_pair(struct yaml *yaml, const char *key, const char *value) {
    indent(yaml);
    yaml_quote(yaml->out, key);
    buffer_append_string(yaml->out, ": ");
    yaml_quote(yaml->out, value);
    buffer_append_byte(yaml->out, '\n');
}

void yaml_number(struct yaml *yaml, const char *key, int64_t value) {
    indent(yaml);
    buffer_printf(yaml->out, "%s: %" PRId64 "\n", key, value);
}

void yaml_bool(struct yaml *yaml, const char *key, bool value) {
    indent(yaml);
    buffer_printf(yaml->out, "%s: %s\n", key, value ? "true" : "false");
}

void yaml_map(struct yaml *yaml, const char *key) {
    indent(yaml);
    buffer_printf(yaml->out, "%s:\n", key);
    yaml->depth++;
}

void yaml_list(struct yaml *yaml, const char *key) {
    yaml_map(yaml, key);
}

void yaml_item(struct yaml *yaml) {
    // The dash is at the column of the list's keys, and its map's keys two further in.
    indent(yaml);
    buffer_append_string(yaml->out, "- ");
    yaml->depth++;
    yaml->is_at_dash = true;
}

void yaml_item_text(struct yaml *yaml, const char *value) {
    indent(yaml);
    buffer_append_string(yaml->out, "- ");
    yaml_quote(yaml->out, value);
    buffer_append_byte(yaml->out, '\n');
}

void yaml_item_number(struct yaml *yaml, int64_t value) {
    indent(yaml);
    buffer_printf(yaml->out, "- %" PRId64 "\n", value);
}

void yaml_end(struct yaml *yaml) {
    CHECK(yaml->depth > 0 && !yaml->is_at_dash);
    yaml->depth--;
}

void yaml_document(struct yaml *yaml) {
    CHECK(yaml->depth == 0);
    buffer_append_string(yaml->out, "---\n");
}
