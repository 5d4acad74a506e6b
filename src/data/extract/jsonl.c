// Parses lines and counts bad ones. Blank lines are skipped: concatenated files often have extra ones.
#include "data/extract/jsonl.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "data/table/table.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void jsonl_parser_init(struct jsonl_parser *parser, const struct jsonl_options *options) {
    *parser = (struct jsonl_parser){.options = *options};
    parser->found = memory_alloc((size_t)options->key_count * sizeof *parser->found);
}

void jsonl_parser_free(struct jsonl_parser *parser) {
    for (int64_t i = 0; parser->found && i < parser->options.key_count; i++)
        json_text_free(&parser->found[i]);
    free(parser->found);
    free(parser->problem);
    buffer_free(&parser->repaired);
    *parser = (struct jsonl_parser){0};
}

static bool is_blank(const char *line, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    return true;
}

// The kind of file that begins with such a line, and the remedy; NULL if unknown.
static const char *shape_of(const char *line, size_t length) {
    while (length > 0 && strchr(" \t\r", line[length - 1]))
        length--;
    while (length > 0 && strchr(" \t\r", *line)) {
        line++;
        length--;
    }
    size_t second = 1;
    while (second < length && strchr(" \t\r", line[second]))
        second++;
    if (length > 0 && *line == '[' && (second >= length || line[second] == '{'))
        return "this is a JSON array, not JSON Lines; write one object per line: `jq -c '.[]' FILE > LINES.jsonl`";
    if (length > 0 && *line == '{' && (length == 1 || line[length - 1] == ','))
        return "this is pretty-printed JSON, not JSON Lines; write one object per line: `jq -c . FILE > LINES.jsonl`";
    bool is_dump = (length >= 10 && memcmp(line, "<mediawiki", 10) == 0) || (length >= 6 && !memcmp(line, "<page>", 6));
    return is_dump
               ? "this is a wiki dump, not JSON Lines; run `bevatron extract wiki --input FILE --output LINES.jsonl`"
               : NULL;
}

// Appends a name from a file, shortened, with only its printable characters.
static void append_name(struct buffer *out, const char *name, size_t length) {
    enum { MOST_BYTES = 40 };
    size_t end = length < MOST_BYTES ? length : MOST_BYTES;
    while (end < length && end > 0 && ((unsigned char)name[end] & 0xC0) == 0x80)
        end--;
    buffer_append_byte(out, '"');
    for (size_t i = 0; i < end; i++)
        buffer_append_byte(out, (unsigned char)name[i] < ' ' || name[i] == 0x7F ? '?' : name[i]);
    buffer_append_string(out, end < length ? "…\"" : "\"");
}

// Records of turns or of questions and answers, and the commands that convert them to text.
static const struct record_kind {
    const char *member, *other;  // of the object; `other` may be NULL
    const char *what, *filter;
} record_kinds[] = {
    {"messages", NULL, "chat data", "{text: ([.messages[] | .role + \": \" + .content] | join(\"\\n\"))}"},
    {"conversations", NULL, "chat data", "{text: ([.conversations[] | .from + \": \" + .value] | join(\"\\n\"))}"},
    {"instruction", "output", "instructions", "{text: (.instruction + \"\\n\" + .input + \"\\n\" + .output)}"},
    {"prompt", "completion", "prompts", "{text: (.prompt + \"\\n\" + .completion)}"},
};

static int refuse_record(const struct record_kind *kind) {
    return bad_data("this is %s; make text of it: `jq -c '(arrays[], objects) | %s' FILE > LINES.jsonl`", kind->what,
                    kind->filter);
}

// The member that holds turns was requested.
static int refuse_turns(const char *const *keys, int64_t count) {
    for (size_t kind = 0; kind < sizeof record_kinds / sizeof record_kinds[0]; kind++)
        for (int64_t i = 0; i < count && !record_kinds[kind].other; i++)
            if (strcmp(keys[i], record_kinds[kind].member) == 0)
                return refuse_record(&record_kinds[kind]);
    return 0;
}

static const struct record_kind *find_record(const struct json *root) {
    for (size_t i = 0; i < sizeof record_kinds / sizeof record_kinds[0]; i++)
        if (json_member(root, record_kinds[i].member) &&
            (!record_kinds[i].other || json_member(root, record_kinds[i].other)))
            return &record_kinds[i];
    return NULL;
}

// A requested member is missing: says which ones are there.
static int refuse_missing(const char *key, const char *line, size_t length) {
    enum { MOST_NAMES = 8 };
    struct json *root;
    struct buffer names = {0};
    // Lines with NaN, or nested too deeply for a tree, are explained without the names.
    size_t count = json_parse(&root, line, length, "the line") == 0 ? root->count : SIZE_MAX;
    error_clear();
    const struct record_kind *kind = count != SIZE_MAX ? find_record(root) : NULL;
    if (kind) {
        json_free(root);
        return refuse_record(kind);
    }
    for (size_t i = 0; count != SIZE_MAX && i < count && i < MOST_NAMES; i++) {
        buffer_append_string(&names, i > 0 ? ", " : ", only ");
        append_name(&names, root->keys[i].string, root->keys[i].length);
    }
    if (count != SIZE_MAX && count > MOST_NAMES)
        buffer_printf(&names, " and %zu more", count - MOST_NAMES);
    if (count != SIZE_MAX)
        json_free(root);
    bad_data("the object has no member \"%s\"%s; name the member that holds the text with --json-keys", key,
             count == 0 ? ", nor any other" : buffer_string(&names));
    buffer_free(&names);
    return -1;
}

static int find_members(struct jsonl_parser *parser, const char *line, size_t length) {
    const struct jsonl_options *options = &parser->options;
    bool is_repaired = options->replace_ill_formed && utf8_check(line, length) < length;
    if (is_repaired) {
        buffer_clear(&parser->repaired);
        buffer_append_repaired(&parser->repaired, line, length);
        line = parser->repaired.data;
        length = parser->repaired.length;
    }
    if (json_find_strings(line, length, options->keys, parser->found, (size_t)options->key_count) < 0) {
        struct buffer problem = {0};
        if (table_is_bad_row(line, length, &problem)) {
            bad_data("%s", buffer_string(&problem));
            buffer_free(&problem);
            return -1;
        }
        const char *shape = shape_of(line, length);
        if (!shape && strstr(error_message(), "something else than strings"))
            TRY(refuse_turns(options->keys, options->key_count));
        return shape ? bad_data("%s", shape) : -1;
    }
    for (int64_t i = 0; i < options->key_count; i++) {
        if (!parser->found[i].found)
            return refuse_missing(options->keys[i], line, length);
        if (parser->found[i].lone_surrogates && options->refuse_surrogates)
            return bad_data("the member \"%s\" holds a lone surrogate (half a \\u pair), which is not text; "
                            "--invalid-utf8 replace turns it into U+FFFD",
                            options->keys[i]);
        is_repaired = is_repaired || parser->found[i].lone_surrogates > 0;
    }
    parser->repaired_lines += is_repaired;
    return 0;
}

int jsonl_find(struct jsonl_parser *parser, const char *line, size_t length) {
    if (is_blank(line, length))
        return 0;
    return find_members(parser, line, length) < 0 ? -1 : 1;
}

static int reject(struct jsonl_parser *parser, const struct line_cursor *cursor) {
    error_context("%s:%" PRId64, cursor->chunk->path, cursor->number);
    if (!parser->options.skip_bad_lines)
        return line_chunk_blame(cursor->chunk);
    parser->bad_lines++;
    if (!parser->problem)
        parser->problem = memory_string(error_message());
    error_clear();
    return 0;
}

int jsonl_parse(struct jsonl_parser *parser, const struct line_cursor *cursor) {
    int status = jsonl_find(parser, cursor->line, cursor->length);
    if (status == 0)
        parser->blank_lines++;
    return status < 0 ? reject(parser, cursor) : status;
}
