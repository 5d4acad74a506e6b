// Documents from JSON Lines: the requested string members of each line. This is the one place that decides which lines
// are bad (not a JSON object, a requested member missing or not text, ill-formed UTF-8) and how they are handled. A
// parser belongs to one thread.
#ifndef DATA_EXTRACT_JSONL_H
#define DATA_EXTRACT_JSONL_H

#include "base/json.h"
#include "data/extract/lines.h"

struct jsonl_options {
    const char *const *keys;  // (key_count) members that hold text; must outlive the parser
    int64_t key_count;
    bool skip_bad_lines;      // count and skip bad lines; else they are errors with file and line
    bool replace_ill_formed;  // ill-formed UTF-8 becomes U+FFFD; else it makes a bad line
    bool refuse_surrogates;   // lone surrogates make a bad line; else they become U+FFFD
};

struct jsonl_parser {
    struct jsonl_options options;
    struct json_text *found;  // (key_count) in the current line
    struct buffer repaired;
    int64_t bad_lines, blank_lines, repaired_lines;  // since the parser was created or these were zeroed
    char *problem;  // of the first skipped bad line since this was NULL; freed by the caller that takes it
};

void jsonl_parser_init(struct jsonl_parser *parser, const struct jsonl_options *options);
void jsonl_parser_free(struct jsonl_parser *parser);

// Parses a line: 1 with every key in found, 0 if it is blank, -1 if it is bad; the message has no file and line.
int jsonl_find(struct jsonl_parser *parser, const char *line, size_t length);

// Parses the cursor's line: 1 with every key in found, 0 if the line is skipped, -1 on error.
int jsonl_parse(struct jsonl_parser *parser, const struct line_cursor *cursor);

#endif
