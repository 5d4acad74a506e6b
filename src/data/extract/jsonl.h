// Documents out of JSON Lines: the wanted string members of each line. What counts as a bad line (no JSON object, a
// wanted member missing or not text, ill-formed UTF-8) and what happens to it is decided here, once for every command.
// A parser belongs to one thread.
#ifndef DATA_EXTRACT_JSONL_H
#define DATA_EXTRACT_JSONL_H

#include "base/json.h"
#include "data/extract/lines.h"

struct jsonl_options {
    const char *const *keys;  // (key_count) members that hold text; must stay while parsing
    int64_t key_count;
    bool skip_bad_lines;      // count bad lines and go on; else they are errors with file and line
    bool replace_ill_formed;  // ill-formed UTF-8 becomes U+FFFD; else it makes a bad line
    bool refuse_surrogates;   // lone surrogates make a bad line; else they become U+FFFD
};

struct jsonl_parser {
    struct jsonl_options options;
    struct json_text *found;  // (key_count) of the present line
    struct buffer repaired;
    int64_t bad_lines, blank_lines, repaired_lines;  // since the parser was made or these were zeroed
    char *problem;  // of the first bad line that was skipped since this was NULL; the taker frees it
};

void jsonl_parser_init(struct jsonl_parser *parser, const struct jsonl_options *options);
void jsonl_parser_free(struct jsonl_parser *parser);

// Parses a line: 1 with every key in found, 0 if it is blank, -1 if it is bad; the message has no file and line.
int jsonl_find(struct jsonl_parser *parser, const char *line, size_t length);

// Parses the cursor's line: 1 with every key in found, 0 if the line is to be passed over, -1 on error.
int jsonl_parse(struct jsonl_parser *parser, const struct line_cursor *cursor);

#endif
