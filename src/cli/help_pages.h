// `bevatron help --man`, `help --completion` and `help commands`. Each prints to stdout and returns the exit code.
#ifndef CLI_HELP_PAGES_H
#define CLI_HELP_PAGES_H

// The manual page of the program (name is NULL), of a command, or of one of its parts.
int help_man(const char *name, const char *part);
// The completion script of a shell; its name may be NULL, which is an error.
int help_completion(const char *name);
// Every command and part that has a manual page, one per line: "dataset", "dataset merge".
int help_commands(void);
// Folders of the files installed with this program, one per line: "docs /usr/share/doc/bevatron/docs".
int help_files(void);

#endif
