// The words of JSON, for the two readers: strings, numbers, literals and space, each checked and passed over. A lexer
// stands at byte `at` of its text; the first thing that is wrong is noted with its place, and everything returns false
// from there on. Private to base/json*.c.
#ifndef BASE_JSON_LEX_H
#define BASE_JSON_LEX_H

#include <stdbool.h>
#include <stddef.h>

struct json_lexer {
    const char *text;
    size_t length, at;
    const char *problem;  // what is wrong, NULL while nothing is
    size_t problem_at;
    size_t lone_surrogates;   // \u escapes passed so far that are half a pair, and became U+FFFD
    bool has_python_numbers;  // NaN, Infinity and -Infinity count as numbers
};

// Notes a problem; always false.
bool json_lex_fail(struct json_lexer *lexer, size_t at, const char *problem);

void json_lex_space(struct json_lexer *lexer);
// The next byte that is no space, without passing it; -1 at the end.
int json_lex_peek(struct json_lexer *lexer);
// Passes an expected punctuation mark (space before it is passed too).
bool json_lex_expect(struct json_lexer *lexer, char mark, const char *problem);
// Passes a string that starts at `at`. The decoded text goes to out where that is not NULL; *decoded is its length,
// which is never more than that of the source. Up to JSON_SLACK_BYTES beyond it may be overwritten with anything.
enum { JSON_SLACK_BYTES = 16 };
bool json_lex_string(struct json_lexer *lexer, char *out, size_t *decoded);
bool json_lex_number(struct json_lexer *lexer);
bool json_lex_literal(struct json_lexer *lexer, const char *word);
// Refuses a byte order mark at the start of the text.
bool json_lex_start(struct json_lexer *lexer);
// Space to the end of the text and nothing else.
bool json_lex_end(struct json_lexer *lexer);

#endif
