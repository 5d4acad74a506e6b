// A shell script that starts Megatron-LM, and the flags of `bevatron train` that do what its command line does.
//
// The reader follows variables, arrays, conditions, loops and functions far enough to know the command lines that the
// script would start. It runs nothing, writes nothing, and reads no file and no variable of the environment. Its work
// is bounded: a script that expands without end is an error. Variables that a subshell ( … ) sets stay set.
//
// A value that the text alone does not decide keeps a mark, SHELL_MARK, a kind, a name and SHELL_MARK_END, in its
// place: the user may give the name a value (`set`), and the mark can be printed as ${NAME}.
#ifndef CONFIG_MIGRATE_H
#define CONFIG_MIGRATE_H

#include "config/flag.h"

#define SHELL_MARK '\1'
#define SHELL_MARK_END '\2'

enum shell_mark {
    SHELL_UNSET = 'u',    // a variable that the script uses and never sets
    SHELL_UNKNOWN = 'c',  // computed by what the reader does not do: a program's output, a condition about files
};

// A command that starts a Python program.
struct shell_call {
    int64_t line;
    bool is_sure;              // false: only under a condition that cannot be decided
    struct string_list words;  // the whole command, the launcher included
};

struct shell_reading {
    struct shell_call *calls;
    size_t call_count, call_capacity;
    struct string_list files;    // files that it writes from text (cat <<EOF > NAME): name, text, name, text, …
    struct string_list causes;   // unknown names: name, reason, name, reason, …
    struct string_list assumed;  // variables that conditions and defaults take as unset
    int64_t exit_line;           // of the `exit` that it comes to; 0 for none
    struct string_list scripts;  // other shell scripts that it starts or reads, which are not read
};

struct shell_input {
    const char *name;  // of the script, for errors and $0
    const char *text;
    size_t length;
    const struct string_list *arguments;  // $1, $2, …
    const struct string_list *set;        // NAME=VALUE: whatever the script says
};

// -1 with an error that names the line.
int shell_read(const struct shell_input *input, struct shell_reading *reading);
void shell_reading_free(struct shell_reading *reading);
bool shell_is_marked(const char *text);
// The reason why a name is unknown; NULL if there is none.
const char *shell_cause(const struct shell_reading *reading, const char *name);

// ---- the command line as ours ----

// Which flags are kept, under which names, and why the others are not: the tables of flags decide, as for a run.
struct migration {
    const struct shell_call *call;
    struct string_list words;    // flags and values for train, with marks for what the shell is to fill in
    struct string_list notes;    // "--flag reason" of flags that are left out or renamed
    struct string_list refused;  // messages
    struct string_list asked;    // names that must have a value, and what needs it: name, flag, name, flag, …
    struct string_list open;     // names that the printed command leaves to the shell
    int64_t nodes, ranks;        // of the launcher; 0 if it does not say
    bool is_slurm;
};

// The call that trains: the first certain one whose program's name has "train" in it; NULL if nothing is started.
const struct shell_call *migrate_choose(const struct shell_reading *reading);
void migrate_call(const struct shell_call *call, struct migration *migration);
void migration_free(struct migration *migration);
// Appends the flags in a text to its words.
void migrate_add(struct migration *migration, const char *flags);
// A word with ${NAME} for its marks, to be freed; their names go to a list, unless that is NULL.
char *migrate_show(const char *word, struct string_list *names);
// Appends a word for a shell, with ${NAME} for marks; nothing else of it expands. `splits`: one that is a variable may
// hold several.
void migrate_quote(const char *word, bool splits, struct buffer *out);

#endif
