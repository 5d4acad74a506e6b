// Finds runs below a folder. Internal to this folder.
#ifndef REPORT_BOARD_RUN_FIND_H
#define REPORT_BOARD_RUN_FIND_H

#include <stdbool.h>
#include <stddef.h>

// A file of metrics, or all event files of a folder without one, unless the folder above has metrics.
struct found_run {
    char *path;   // of the metrics, or of the folder
    char *name;   // shown to users: the path below the searched folder
    char *note;   // path of the note beside it; NULL for none
    bool is_top;  // of the searched folder, whose own name is that of the run
    bool is_events;
    char **files;  // sorted by name, which for event files is the order of time
    size_t file_count;
};
struct found_runs {
    struct found_run *items;
    size_t count;
};

// -1 if the folder itself cannot be listed; folders below it that cannot be are skipped. Links to folders are not
// followed: they could lead in circles. `path` may be a file.
int run_find(struct found_runs *found, const char *path);
void run_find_free(struct found_runs *found);

#endif
