// A grammar of stories, read from a text file. The file is a list of rules:
//
//     [name]                  a rule; [name: first second …] names the fields that ';' separates in its alternatives
//     one | two | three       alternatives of the rule above; a new line is a new alternative
//     > more                  goes on with the last alternative, in the same paragraph
//     + more                  goes on with it in a new paragraph
//     # words                 a comment
//
// Inside an alternative, braces are replaced when a story is told:
//
//     {rule}                  some alternative of the rule, none twice in a story while others are left
//     {one|two}               one of these
//     {name=rule}             the same as {rule}, and remembered: {name} and {name.field} give it again
//     {!name=rule}            remembered without being written
//     {a …}, {s …}            with the article a or an before it; in the plural
//     {Name …}                a capital letter asks for a capital letter
//
// Memory belongs to the grammar and is freed by grammar_free, which also takes a zeroed or half-read one.
#ifndef GRAMMAR_H
#define GRAMMAR_H

#include <stddef.h>

enum { GRAMMAR_MAX_FIELDS = 8 };

struct alternative {
    char *text;
    int line;  // of the file, for errors
};

struct rule {
    char *name;
    char *fields[GRAMMAR_MAX_FIELDS];  // none if a rule gives plain text
    int field_count;
    struct alternative *alternatives;
    int count;
    int first;  // alternatives of all rules before this one
};

struct grammar {
    char *path;
    struct rule *rules;
    int count;
    int total;  // alternatives of all rules
};

// Reads the file; -1 if it cannot, after a message on stderr.
int grammar_read(struct grammar *grammar, const char *path);
void grammar_free(struct grammar *grammar);

// The rule of that name, or NULL.
const struct rule *grammar_find(const struct grammar *grammar, const char *name, size_t length);

// The first of the characters at brace depth 0, or the end of the text.
const char *grammar_scan(const char *text, const char *end, const char *characters);

#endif
