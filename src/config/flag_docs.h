// Texts that other programs read, made from the tables of flags: manual pages for man(1), completion scripts for
// shells. The CLI makes those of commands that have parts from the same pieces.
#ifndef CONFIG_FLAG_DOCS_H
#define CONFIG_FLAG_DOCS_H

#include "config/flag.h"

// The manual page of a command.
void flags_man(const struct flag_command *command, struct buffer *out);

// Pieces of a page. Its first lines for a command ("dataset merge", "" for the program itself), whose summary begins
// with a sentence.
void man_begin(const char *command, const char *summary, struct buffer *out);
// Text, with what the formatter would take for an instruction escaped; `this` becomes bold.
void man_text(const char *text, struct buffer *out);
// A paragraph with a hanging label.
void man_item(const char *label, const char *text, struct buffer *out);
// Lines as they are.
void man_verbatim(const char *text, struct buffer *out);
// The page of a command: bevatron-dataset-merge.
void man_page_name(const char *command, struct buffer *out);

// A command's flags as a fragment of the completion script of a shell, FLAG_TEXT_BASH and so on.
void flags_completion(const struct flag_command *command, enum flag_text shell, struct buffer *out);
// The same for a command with parts ("dataset", "" for the program itself): begin, each of the parts, end.
struct completion {
    enum flag_text shell;
    const char *command;
    struct buffer *out;
};
void completion_begin(const struct completion *completion);
void completion_part(const struct completion *completion, const char *name, const char *summary);
void completion_end(const struct completion *completion);

#endif
