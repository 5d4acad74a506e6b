// Files of the AWS tools, ~/.aws/credentials and ~/.aws/config: "[section]" lines, "name = value" lines below them,
// comments after # or ;. Indented lines belong to the value above them (the settings of one service) and are skipped.
#ifndef NET_AWS_FILE_H
#define NET_AWS_FILE_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>

struct aws_file {
    const char *path;  // for messages; borrowed
    struct buffer text;
};

// A missing file is empty. -1 with file and line if a line is none of the above.
int aws_file_read(struct aws_file *file, const char *path);
int aws_file_check(const struct aws_file *file);
void aws_file_free(struct aws_file *file);  // also wipes it

bool aws_file_has_section(const struct aws_file *file, const char *section);
// The value of a name in a section, to be freed; NULL if there is none. The last of equal names counts.
char *aws_file_get(const struct aws_file *file, const char *section, const char *name);

#endif
