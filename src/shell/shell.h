// A shell script, as far as it decides the command lines of the Python programs that it would start.
//
// The reader follows variables, arrays, conditions, loops and functions. It runs nothing, writes nothing, and reads no
// file and no variable of the environment. Its work is bounded: a script that expands without end is an error.
//
// A value that the text alone does not decide keeps a mark, SHELL_MARK, a kind, a name and SHELL_MARK_END, in its
// place: the user may give the name a value (`set`), and the mark can be printed as ${NAME}.
#ifndef SHELL_SHELL_H
#define SHELL_SHELL_H

#include "base/words.h"

#include <stdbool.h>
#include <stddef.h>

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
// Whether a word names a program that may train: a Python program, or llm.c's.
bool shell_is_python(const char *word);
bool shell_is_llmc(const char *word);
bool shell_is_marked(const char *text);
// The reason why a name is unknown; NULL if there is none.
const char *shell_cause(const struct shell_reading *reading, const char *name);

#endif
