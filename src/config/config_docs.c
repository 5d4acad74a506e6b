// The reference page of the flags, docs/flags.md, made from the tables so that it cannot differ from what is parsed.
#include "config/config.h"
#include "config/flag_internal.h"
#include <string.h>

static void append_aliases(const struct flag_table *table, struct buffer *out) {
    buffer_append_string(out, "\n## Other names\n\nNames of older releases of Megatron-LM and short forms.\n\n"
                              "| name | stands for |\n|---|---|\n");
    for (const struct flag_alias *alias = table->aliases; alias->name; alias++) {
        bool continues = alias > table->aliases && strcmp(alias->name, alias[-1].name) == 0;
        if (continues)
            out->length -= strlen(" |\n");
        else
            buffer_printf(out, "| `%s` | ", alias->name);
        buffer_printf(out, "%s`%s%s%s` |\n", continues ? " " : "", alias->target, alias->value ? " " : "",
                      alias->value ? alias->value : "");
    }
}

static void append_names(const struct flag_names *names, struct buffer *out) {
    buffer_printf(out, "\n**Each of these %s:**\n\n", names->message);
    const char *cursor = names->names, *name;
    size_t length;
    for (bool first = true; (name = flag_next_name(&cursor, &length)); first = false)
        buffer_printf(out, "%s`%.*s`", first ? "" : ", ", (int)strcspn(name, "= "), name);
    buffer_append_string(out, "\n");
}

void config_markdown(struct buffer *out) {
    buffer_append_string(
        out,
        "# Flags of a run\n\n"
        "Made by `bevatron help flags --markdown`; do not edit.\n\n"
        "`--flag value` and `--flag=value` are the same. A switch takes no value (`--flag=false` clears it). "
        "`--config FILE` reads flags from a file, one `flag: value` per line in the style of YAML, or a JSON object; "
        "what stands on the command line wins. Given twice, the last one counts.\n");
    flags_markdown(config_command(), out);
    struct flag_table table = config_flag_table(0);
    append_aliases(&table, out);
    buffer_append_string(out, "\n## Flags of Megatron-LM without a row here\n");
    for (size_t i = 0; i < table.names_count; i++)
        append_names(&table.names[i], out);
}
