// Texts for other programs, made from the tables of flags: manual pages for man(1), completion scripts for shells. The
// CLI makes those of commands with parts from the same pieces.
#ifndef CONFIG_FLAG_DOCS_H
#define CONFIG_FLAG_DOCS_H

#include "config/flag.h"

// The manual page of a command.
void flags_man(const struct flag_command *command, struct buffer *out);

// Pieces of a page. The first lines of a page for a command ("dataset merge", "" for the program itself); the summary
// begins with a sentence.
void man_begin(const char *command, const char *summary, struct buffer *out);
// Text, escaped for the formatter; `this` becomes bold.
void man_text(const char *text, struct buffer *out);
// A paragraph with a hanging label.
void man_item(const char *label, const char *text, struct buffer *out);
// Lines, verbatim.
void man_verbatim(const char *text, struct buffer *out);
// The name of a command's page: bevatron-dataset-merge.
void man_page_name(const char *command, struct buffer *out);

// A command's flags as a fragment of a shell's completion script, FLAG_TEXT_BASH and so on.
void flags_completion(const struct flag_command *command, enum flag_text shell, struct buffer *out);
// The fragment for a command with parts ("dataset", "" for the program itself): begin, each of the parts, end.
struct completion {
    enum flag_text shell;
    const char *command;
    struct buffer *out;
};
void completion_begin(const struct completion *completion);
void completion_part(const struct completion *completion, const char *name, const char *summary);
void completion_end(const struct completion *completion);

#endif
