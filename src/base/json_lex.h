// The tokens of JSON, for the two readers: strings, numbers, literals and space, each checked and skipped. A lexer
// stands at byte `at` of its text. The first problem is noted with its position, and from then on every function
// returns false. Private to base/json*.c.
#ifndef BASE_JSON_LEX_H
#define BASE_JSON_LEX_H

#include <stdbool.h>
#include <stddef.h>

struct json_lexer {
    const char *text;
    size_t length, at;
    const char *problem;  // the first problem; NULL for none
    size_t problem_at;
    size_t lone_surrogates;   // \u escapes so far that are half a pair and became U+FFFD
    bool has_python_numbers;  // NaN, Infinity and -Infinity count as numbers
};

// Notes a problem; always returns false.
bool json_lex_fail(struct json_lexer *lexer, size_t at, const char *problem);

void json_lex_space(struct json_lexer *lexer);
// The next byte that is not a space, without consuming it; -1 at the end.
int json_lex_peek(struct json_lexer *lexer);
// Consumes an expected punctuation mark, and space before it.
bool json_lex_expect(struct json_lexer *lexer, char mark, const char *problem);
// Consumes a string that starts at `at`. If `out` is not NULL, it receives the decoded text; *decoded is its length,
// which never exceeds that of the source. Up to JSON_SLACK_BYTES after it may be overwritten with anything.
enum { JSON_SLACK_BYTES = 16 };
bool json_lex_string(struct json_lexer *lexer, char *out, size_t *decoded);
bool json_lex_number(struct json_lexer *lexer);
bool json_lex_literal(struct json_lexer *lexer, const char *word);
// Refuses a byte order mark at the start of the text.
bool json_lex_start(struct json_lexer *lexer);
// Checks that only space follows up to the end of the text.
bool json_lex_end(struct json_lexer *lexer);

// ---- a walk over a value, to check it and to add up what its tree will need ----

// Size of a tree: the number of nodes and keys, the bytes of text including NULs, and the number of members of every
// array and object in the order in which they open.
struct json_measure {
    size_t nodes, keys, text_bytes;
    size_t *members;
    size_t containers, capacity;
};

// Consumes one value at the lexer's position, `depth` levels deep. If `measure` is NULL, the value is only checked.
bool json_walk_value(struct json_lexer *lexer, struct json_measure *measure, int depth);

// ---- the inner loops over bulk text (scan.c) ----

// Number of bytes beyond its run that scan_copy_plain may overwrite.
enum { SCAN_SLACK_BYTES = 16 };

// The length of the run of bytes at `text` that stand for themselves in a JSON string: up to the first quote, backslash
// or control character, or `length`. *has_high is set (never cleared) if any of them is not ASCII.
size_t scan_plain(const char *text, size_t length, bool *has_high);
// Like scan_plain, and copies the run to `out`; up to SCAN_SLACK_BYTES after it may be overwritten with anything.
size_t scan_copy_plain(char *restrict out, const char *restrict text, size_t length, bool *has_high);

#endif
