// The command line of Megatron-LM that a shell script starts, as flags of `bevatron train` that do the same.
#ifndef CONFIG_MIGRATE_H
#define CONFIG_MIGRATE_H

#include "config/flag.h"
#include "shell/shell.h"

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
// A file of settings by the ending of its name (nanoGPT's .py, torchtitan's .toml, NeMo's .yaml), as a reading with one
// call; -1 with an error that names the line.
bool migrate_is_settings(const char *name);
int migrate_read_settings(const char *name, const struct buffer *file, struct shell_reading *reading);
// Appends a command of llm.c, whose program is at that place, with the flags of Megatron.
void migrate_llmc(const struct string_list *command, int64_t program, struct string_list *words);
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
