// The flag engine. A command is a plain struct of options and static const tables of `struct flag` rows that say
// where in the struct each flag's value goes (flag_rows.h has macros for them). Parsing, ranges, defaults, `--config
// FILE`, `--help`, the suggestion after a misspelt name and the reference page in docs/ all come from the same rows.
//
//     struct options {
//         struct flag_given given;
//         struct string_list input;
//         int64_t workers;
//         bool append_eod;
//     };
//     #define FLAG_STRUCT struct options
//     static const struct flag rows[] = {
//         GROUP("Input"),
//         LIST("--input", input, "FILE…", "files to read", .required = true, .repeats_add = true),
//         INT("--workers", workers, "1", 1, 4096, "threads"),
//         SWITCH("--append-eod", append_eod, "…"),
//     };
//     static const struct flag_table tables[] = {{FLAG_TABLE(rows)}};
//     static const struct flag_command command = {
//         .name = "preprocess", .summary = "Turns JSON Lines into a dataset.", .tables = tables, .table_count = 1};
//
//     struct options options;
//     int status = flags_parse(&command, &options, argc, argv);
//     if (status == 0)
//         …
//     flags_free(&command, &options);
//
// Values: an int64_t for FLAG_INT, double for FLAG_DOUBLE, bool for the switches, an enum for FLAG_ENUM, an owned
// char * (NULL if unset) for FLAG_STRING and FLAG_CHOICE, a struct string_list for FLAG_STRING_LIST. A number without a
// default is 0 until it is given. If a flag is given twice, the last value counts, as in Megatron (except with
// repeats_add).
#ifndef CONFIG_FLAG_H
#define CONFIG_FLAG_H

#include "base/buffer.h"
#include "base/words.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum flag_type {
    FLAG_GROUP,        // no flag: a heading of --help over the rows that follow; only name (and help) are used
    FLAG_BOOL,         // bool; the flag alone sets it, --flag=false clears it
    FLAG_BOOL_OFF,     // bool; the flag alone clears it; give it .initial = "true"
    FLAG_INT,          // int64_t
    FLAG_DOUBLE,       // double
    FLAG_STRING,       // char *
    FLAG_CHOICE,       // char *, one of the names in .choices
    FLAG_ENUM,         // an enum, one of the values in .values
    FLAG_STRING_LIST,  // struct string_list; takes every argument up to the next one that begins with --
};

// Which bounds of [minimum, maximum] are excluded.
enum flag_bounds { FLAG_CLOSED = 0, FLAG_ABOVE_MINIMUM = 1, FLAG_BELOW_MAXIMUM = 2 };

// As a maximum: no limit (of a count that is still safe to multiply by two).
#define FLAG_ENDLESS 0x1p62

// A value of an enum and its name on the command line and in files.
struct flag_value {
    const char *name;
    int value;
};

// A name of another program that is not one of a flag's choices, and the answer: the reason and what to use instead,
// or the choice that it is taken as, with a note.
struct flag_refusal {
    const char *name;  // "/": a path
    const char *reason;
    const char *means;
};

struct flag {
    const char *name;  // "--num-layers"; _ for - is also accepted
    enum flag_type type;
    size_t offset;            // of the value in its struct
    const char *initial;      // the default as typed on a command line; NULL for none (lists: separated by spaces)
    double minimum, maximum;  // of numbers; both 0 for no range. Of lists: the number of items
    enum flag_bounds bounds;
    const char *const *choices;           // FLAG_CHOICE: the names, NULL at the end
    const struct flag_value *values;      // FLAG_ENUM: up to a NULL name
    int unset;                            // FLAG_ENUM without a default: the value until it is given
    const struct flag_refusal *refusals;  // of a choice or enum: names from other programs, up to a NULL name
    // The value's name in --help; NULL for N, X, TEXT, … Completion offers files for a name that contains FILE, PATH,
    // PREFIX or SCRIPT, and folders for DIR or FOLDER.
    const char *value_name;
    const char *(*offer)(size_t i);  // FLAG_STRING: value i that completion offers, NULL after the last; may be NULL
    const char *help;                // one sentence or two, without a full stop
    char letter;                     // "-b", a short form with a value; 0 for none
    bool is_size;                    // FLAG_INT: bytes, may end with K, M, G, T; FLAG_DOUBLE: a count, with K, M, B, T
    bool required;                   // leaving it out is an error
    bool repeats_add;                // FLAG_STRING_LIST: a second --flag adds items and does not replace them
    bool has_phrases;                // FLAG_STRING_LIST: items may contain spaces; one text in a file is one item
    // FLAG_STRING: a command, which may hold secrets anywhere: a mark replaces it in all output and stored files. For
    // "@FILE", which only names the command's file, the value itself is shown.
    bool is_secret;
    bool advanced;  // shown by --help-all, not by --help
    bool not_yet;   // its feature is not built: only the default is accepted (by the command, not by the parser)
    // Other properties of the flag, defined by the table's owner: for flags of a run, enum flag_use and enum
    // flag_meaning (flags.h).
    unsigned uses;
    int meaning;
};

// Rows, and those of other files that follow them.
struct flag_rows {
    const struct flag *flags;
    size_t count;
    const struct flag_rows *next;  // NULL after the last
};
const struct flag *flag_at(const struct flag_rows *rows, size_t i);  // NULL after the last
size_t flag_count(const struct flag_rows *rows);

// Another name: sets `target` to `value`, or, if that is NULL, to the value on the command line. Several rows with one
// name set several flags. A note is printed once: "note: --old is the old name of …".
struct flag_alias {
    const char *name;
    const char *target;
    const char *value;
    const char *note;
};

// Names that are not flags of this program but deserve better than "unknown", separated by spaces: "--name" is a
// switch, "--name=" a flag with a value, "--name=x" one whose default was x ("--name=x|y": both are
// accepted), "--name=*" a flag with a list of values.
struct flag_names {
    const char *names;
    const char *message;  // printed for each one used: "--name has no meaning here"
    bool refused;         // true: an error, unless the default value is given; false: accepted, without effect
};

// Names in other programs for something that a flag here does. They are unknown here, and the error says what to use
// instead: "unknown flag --max-tokens; use --tokens: of the run…".
struct flag_synonym {
    const char *names;   // "--a --b"; NULL after the last row
    const char *target;  // "--c", "--c and --d" or "--c VALUE"; NULL if there is no equivalent
    const char *how;     // where unit or meaning differ; may be NULL if there is a target
};

enum flag_source { FLAG_FROM_DEFAULT, FLAG_FROM_PRESET, FLAG_FROM_FILE, FLAG_FROM_COMMAND };

// Source of each row's value. A member of the options struct, filled by the parser.
struct flag_given {
    struct flag_rows rows;
    unsigned char *source;  // one enum flag_source per row; owned
};

// Rows over one struct. Several tables let commands share flags: a command that has `struct config config` among its
// own options uses the config table with base = offsetof(struct options, config).
struct flag_table {
    struct flag_rows rows;
    size_t base;                       // offset of the struct inside the command's options
    size_t given;                      // offset of its struct flag_given, counted from base
    const struct flag_alias *aliases;  // the last has no name; NULL for none
    const struct flag_names *names;    // groups of names without a row
    size_t names_count;
    const struct flag_synonym *synonyms;  // the last has no names; NULL for none
    // Bits of `uses` of the rows that apply to this command; 0 for all. Other rows keep their defaults, are not in its
    // --help, and are refused with the message on its command line. In a file they are skipped: one file may serve
    // several commands.
    unsigned offered;
    const char *refusal;  // "is a flag of train, not of generate"
    unsigned essential;   // bits of those in its short --help; 0 for all but the advanced ones
    // Members that this program writes into JSON files besides the flags, separated by spaces: reading skips them.
    const char *derived;
    // Flags that other commands with this table may have besides it, separated by spaces: files for those commands are
    // read by this one, too, and it skips these flags.
    const char *beside;
};

struct flag_command {
    const char *name;     // "dataset inspect": for messages and --help
    const char *summary;  // what the command does, in sentences
    const struct flag_table *tables;
    size_t table_count;
    // Arguments that are not flags: their name in --help ("PREFIX…", NULL for none), their number, and the offset of
    // the struct string_list that takes them. "--" ends the flags.
    const char *positional_name;
    int64_t positional_minimum, positional_maximum;
    size_t positional_offset;
    // The remedy for an argument that is not a flag, if the command takes none; the function, or its result, may be
    // NULL.
    const char *(*argument_remedy)(const char *argument);
    const char *argument_flag;  // the flag whose value such an argument probably is; may be NULL
    const char *flag_remedy;    // the remedy for an unknown flag, unless a similar one exists; may be NULL
    const char *epilogue;       // text after the flags in --help, e.g. examples; may be NULL
};

// flags_parse: the command was --help or --help-all, which has been written to stdout; the caller is done, exit code
// 0.
enum { FLAGS_HELP = 1 };

// Fills *options (overwriting it): defaults, then the files named by --config in order, then the flags in argv[1…argc).
// Returns 0, FLAGS_HELP, or -1 with a message and EXIT_CODE_USAGE. In every case flags_free(command, options) must
// follow.
int flags_parse(const struct flag_command *command, void *options, int argc, char **argv);
void flags_free(const struct flag_command *command, void *options);

// Parses without printing (except --help): notes about the flags go to a list, whose old content is overwritten. For a
// command that does not know yet whether it is the one rank that prints them.
struct flag_line {
    int argc;
    char **argv;
    struct string_list *notes;
};
int flags_read(const struct flag_command *command, void *options, struct flag_line line);
void flags_say_notes(struct string_list *notes);  // prints and frees them

// Parts of it, for callers that build options otherwise (presets, checkpoints, tests).
void flags_set_defaults(const struct flag_command *command, void *options);
// Reads the text of a configuration file (--config) from memory; errors call it `name`.
int flags_read_text(const struct flag_command *command, void *options, const char *name, const char *text,
                    size_t length);
// Sets one flag from text, checked like the command line; a list is split at spaces. name with or without "--".
int flag_set(const struct flag_table *table, void *options, const char *name, const char *text,
             enum flag_source source);
// Source of the value of `name`; asking for an unknown name is a broken invariant.
enum flag_source flag_source(const struct flag_given *given, const char *name);
// True if it was given, in a file or on the command line.
bool flag_is_given(const struct flag_given *given, const char *name);

// The row of a name, with or without "--", NULL if there is none.
const struct flag *flag_find(const struct flag_table *table, const char *name);
// Name i of a choice or enum; NULL after the last, and for other flags.
const char *flag_choice_at(const struct flag *flag, size_t i);
// The name of an enum's value; NULL for its unset value.
const char *flag_value_text(const struct flag *flag, int value);
// Appends a text as such a file takes it verbatim: '…', in which only the quote itself is doubled.
void flag_quote(const char *text, struct buffer *out);
// A number without a default that is still 0, or an empty text or list.
bool flag_is_unset(const struct flag *flag, const void *base);
// Appends a value as text: the number, the string, items with spaces between; "None" if unset.
// `base` is the struct the row's offset counts from.
void flag_format(const struct flag *flag, const void *base, struct buffer *out);
// Appends it for people and for files that others read: without secrets (base/redact.h). A file that contains the mark
// of a secret is read as if the flag were not in it.
void flag_show(const struct flag *flag, const void *base, struct buffer *out);
// A text of the flag as shown to users, to be freed; NULL stays NULL.
char *flag_redact(const struct flag *flag, const char *text);

// Texts that an argument of a command may request. Users type the first two. `bevatron help` asks each command for the
// others, because only a command knows its tables.
enum flag_text {
    FLAG_TEXT_NONE,
    FLAG_TEXT_HELP,  // --help, -h
    FLAG_TEXT_ALL,   // --help-all
    FLAG_TEXT_NAME,  // --help-names: the command's name, with its parts'
    FLAG_TEXT_MAN,   // --help-man: a manual page
    FLAG_TEXT_BASH,  // --help-bash and so on: the command's part of that shell's completion script
    FLAG_TEXT_ZSH,
    FLAG_TEXT_FISH,
};
enum flag_text flag_text_asked(const char *argument);

void flags_help(const struct flag_command *command, bool all, struct buffer *out);
// Its flags as Markdown tables, one per group.
void flags_markdown(const struct flag_command *command, struct buffer *out);

#endif
