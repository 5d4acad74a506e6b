// Shared by the files of the shell reader only: script.c has variables and the whole, grammar.c the grammar,
// command.c one command; words.c makes words of text, decide.c decides conditions.
#ifndef SHELL_INTERNAL_H
#define SHELL_INTERNAL_H

#include "base/buffer.h"
#include "shell/shell.h"

enum truth {
    TRUTH_NO,
    TRUTH_YES,
    TRUTH_MAYBE,
    TRUTH_ASSUMED,  // of a program, none of which runs: success in a && b, undecided in `if`
};

struct shell_variable {
    char *name;
    struct string_list items;  // one, except of arrays
    bool is_set, is_array;
    bool is_fixed;   // given by the user: the script cannot change it
    size_t kept_at;  // number of its last kept value; 0 for none
};

// A value that a variable gets back.
struct shell_kept {
    size_t variable;
    struct string_list items;
    bool is_set, is_array;
    bool is_local;  // of a function or of one command; others are of a subshell
    size_t before;  // the variable's kept_at before
};

// A part of the script's text.
struct script_span {
    const char *at, *end;
};

struct shell_function {
    struct script_span name, body;
    int64_t line;
};

enum leaving { STAYING, LEAVING_ROUND, LEAVING_LOOP, LEAVING_FUNCTION, LEAVING_SCRIPT };

struct shell {
    const struct shell_input *input;
    struct shell_reading *reading;
    struct script_span rest;  // what is still to be read
    const char *documents;    // end of the here-documents of this line; NULL if it has none
    int64_t line;             // of the command that the text comes from; 0 in the script itself
    const char *counted;      // a position in the script, and its line
    int64_t counted_line;
    struct shell_variable *variables;
    size_t variable_count, variable_capacity;
    struct shell_kept *kept;
    size_t kept_count, kept_capacity;
    size_t subshell;  // number of the first value kept in the subshell that is followed; 0 outside of subshells
    struct shell_function *functions;
    size_t function_count, function_capacity;
    struct string_list texts;      // of eval and here-documents: functions refer to them
    struct string_list arguments;  // $1, $2, …
    struct string_list launcher;   // words before bash -c
    const char *assigned;          // name of the variable whose value is expanded; NULL
    int skipping;                  // over 0: commands are parsed and not followed
    int64_t doubt;                 // line of the condition that is not decided; 0 for none
    int depth;
    enum leaving leaving;
    int64_t loops;  // that break and continue still leave
    size_t work;
    bool has_failed;  // the error is set
};

// Counts work; false, with an error, if the script has used up its share or has failed.
bool shell_spend(struct shell *shell, size_t work);
int64_t shell_line(struct shell *shell);
void shell_fail(struct shell *shell, const char *problem);
// Whether commands are followed at the position, or only parsed.
bool shell_is_active(const struct shell *shell);

// The position after the character, the quotation or the expansion at `p`; and after the next `close`.
const char *shell_skip(struct shell *shell, const char *p, const char *end);
const char *shell_skip_to(struct shell *shell, const char *p, const char *end, char close);
// Expands a word to fields; or to one text, to be freed, without splitting: as if in double quotes if `quoted`; or to a
// pattern, in which quotes become backslashes.
void shell_fields(struct shell *shell, struct script_span word, struct string_list *fields);
char *shell_text(struct shell *shell, struct script_span text, bool quoted);
char *shell_pattern(struct shell *shell, struct script_span text);

struct shell_variable *shell_find(struct shell *shell, const char *name, size_t length);
// Takes the items; `adds` appends to an array, or to a text.
void shell_assign(struct shell *shell, const char *name, struct string_list *items, bool adds);
// Keeps the value of a variable: shell_restore gives the values after `count` kept ones back, those of functions and
// commands only if `locals`. shell_exchange sets them back and forth, shell_drop forgets those of commands.
void shell_keep(struct shell *shell, const char *name, bool copies);
void shell_restore(struct shell *shell, size_t count, bool locals);
void shell_exchange(struct shell *shell, size_t count, bool back);
void shell_drop(struct shell *shell, size_t count);
// Tells the user that the variable counts as unset; in words of a condition, all that are.
void shell_assume_unset(struct shell *shell, const char *name);
void shell_empty_unset(struct shell *shell, struct string_list *words);
// A mark, as text to be freed. An unknown part needs its reason.
char *shell_mark(struct shell *shell, enum shell_mark kind, const char *name, const char *reason);
size_t shell_name_length(const char *p, const char *end);

// The grammar: the next character or word, without blanks and comments before it; '\0' and an empty word at the end.
// The others take what they name, if it is there.
char shell_next(struct shell *shell);
struct script_span shell_peek(struct shell *shell);
bool shell_span_is(struct script_span span, const char *text);
bool shell_take(struct shell *shell, const char *text);
// Follows a list of commands up to one of the words, which is not taken; one command; a text with other arguments, or
// the same if they are NULL.
enum truth shell_list(struct shell *shell, const char *const *ends);
enum truth shell_simple_command(struct shell *shell);
enum truth shell_follow_text(struct shell *shell, struct script_span text, int64_t line,
                             const struct string_list *arguments);

bool shell_matches(struct shell *shell, const char *pattern, const char *text);
// The value of an expression; false if it cannot be decided.
bool shell_compute(struct shell *shell, const char *text, int64_t *value);
// A condition from its words, without [ and ]; patterns: == compares with a pattern, as in [[ ]].
enum truth shell_test(struct shell *shell, const struct string_list *words, bool patterns);
enum truth shell_invert(enum truth truth);

#endif
