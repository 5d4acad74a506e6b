// Files in a folder that are not read as data: those of other kinds, hidden ones, and those that tell people about the
// data (README.md, LICENSE, cards). They are counted and named; for a kind that may hold text, with the command that
// extracts it.
#ifndef DATA_EXTRACT_LEFT_OUT_H
#define DATA_EXTRACT_LEFT_OUT_H

#include "config/flag.h"
#include <stdbool.h>
#include <stdint.h>

struct left_out {
    struct string_list others;  // paths
    struct string_list about;   // names of files about the data
    int64_t hidden;
};

// Whether the file is about the data beside it: README.md, LICENSE.txt, dataset_infos.json.
bool left_out_is_about(const char *name);
// Notes a file that is not read.
void left_out_add(struct left_out *left, const char *path);
// Logs the files left out of the folder, with a warning for each kind that may hold text.
void left_out_say(struct left_out *left, const char *folder);
// The error of a folder that has nothing to read, and wanted files with the first of the endings: -1.
int left_out_refuse(struct left_out *left, const char *folder, const char *const *endings);
void left_out_free(struct left_out *left);

#endif
