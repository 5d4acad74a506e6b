// Shared by the files of the flag engine only.
//
// A name is resolved first, to a row, an alias or a known name without a row, which says how many values it takes;
// then the values, from the command line or from a file, are applied to it. Both sources go through the same two
// functions.
#ifndef CONFIG_FLAG_INTERNAL_H
#define CONFIG_FLAG_INTERNAL_H

#include "config/complaints.h"
#include "config/flag.h"

enum flag_arity { ARITY_NONE, ARITY_ONE, ARITY_MANY };

// Meaning of a name: exactly one of flag, alias and names is set.
struct flag_match {
    const struct flag_table *table;
    const struct flag *flag;
    const struct flag_alias *alias;  // the first row of that name
    const struct flag_names *names;
    const char *known;  // the entry within names; ends at a space or NUL
    enum flag_arity arity;
};

// One parse: the command, its options, the notes so far, each beginning with its flag's name, and the errors, which are
// reported together at the end.
struct flag_parse {
    const struct flag_command *command;
    void *options;
    struct string_list notes;
    struct complaints complaints;
    bool has_variables;  // its files may refer to variables of the environment
};

// Stores the current error for the end.
void flag_put_off(struct flag_parse *parse);
// Prints the notes and frees the parse; -1 with all its errors if there were any.
int flag_parse_end(struct flag_parse *parse);

// Values of one flag, verbatim. `quoted` keeps a single text with spaces in one piece for a list.
struct flag_values {
    struct string_list items;
    bool quoted;
};

// Whether two names are equal, ignoring a leading "--" and _ for -; `length` is that of a; b ends at NUL, '=' or a
// space.
bool flag_name_equal(const char *a, size_t length, const char *b);

// The next of names separated by spaces, moving the cursor past it; NULL after the last. Its length goes to
// *length.
const char *flag_next_name(const char **cursor, size_t *length);

// Whether a name is in a list of names separated by spaces.
bool flag_name_listed(const char *name, size_t length, const char *names);
// Like flag_find, for a name of this length.
const struct flag *flag_find_name(const struct flag_table *table, const char *name, size_t length);
// Whether the table's command has this row at all.
bool flag_is_offered(const struct flag_table *table, const struct flag *flag);

// Resolves a name ("--x" or "x"); false if it is unknown.
bool flag_resolve(const struct flag_command *command, const char *name, size_t length, struct flag_match *match);
// Whether another program has a flag of this name; such a name does not resolve.
bool flag_is_synonym(const struct flag_command *command, const char *name, size_t length);
// The error for a name that does not resolve: its name here, or the nearest name that would resolve.
int flag_unknown(const struct flag_command *command, const char *name, size_t length);
// Gives the values to a resolved name. The error names the flag and the value, not the file.
int flag_apply(struct flag_parse *parse, const struct flag_match *match, const struct flag_values *values,
               enum flag_source source);

// One flag of a command line at argv[0]; returns how many further arguments it used, or -1.
int flag_parse_one(struct flag_parse *parse, int argc, char **argv);

// Sets a row from its values; `add` keeps the items a list has.
int flag_set_values(const struct flag *flag, void *base, const struct string_list *items, bool add);
// A row's place in flag_given.
unsigned char *flag_source_of(const struct flag_given *given, const struct flag *flag);
void flag_mark(const struct flag_table *table, void *options, const struct flag *flag, enum flag_source source);

// Appends the text with ${NAME} and ${NAME:-default} replaced by variables of the environment; $${ is a plain ${.
int flag_expand(const char *text, struct buffer *out);
// Reads a configuration file into the parse.
int flag_parse_file(struct flag_parse *parse, const char *path);

// "true", "off", …: 1, 0, or -1 if the text is not a truth value.
int flag_truth(const char *text);
// A number in the fewest digits that read back as the same double.
void flag_format_double(double value, struct buffer *out);
// "from 0 to less than 1", "at least 1"; empty if the row has no range.
void flag_format_range(const struct flag *flag, struct buffer *out);
// The flags that every command has: --config, --help, --help-all.
enum { FLAG_GENERAL_COUNT = 3 };
extern const struct flag flag_general[FLAG_GENERAL_COUNT];
// Name of the value in --help, NULL if there is none; and the description of the flag: meaning, values, default.
const char *flag_value_name(const struct flag *flag);
void flag_row_text(const struct flag *flag, struct buffer *out);

#endif
