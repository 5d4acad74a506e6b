// A file for appending records, which cannot end a run: a record is written whole or not at all, and a write that fails
// is reported once. Later records are tried again, so that a disk that was full for a while costs only the records of
// that time; the number of missing records is then reported. Pipes and devices never block the run: bytes that they do
// not take at once are dropped.
#ifndef REPORT_APPENDER_H
#define REPORT_APPENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct appender {
    int descriptor;    // -1 if closed
    char *path;        // NULL if closed
    const char *what;  // "metrics", "TensorBoard events": name of the contents in errors
    bool is_regular;
    bool has_ended;  // half a record is at the end and cannot be removed: writing has stopped
    int64_t lost;    // number of records missing since the last one that was written
};

// Flags of open() for a file of this name, which others may have replaced by a link: O_NOFOLLOW, or 0 for the system's
// own links, e.g. /dev/stdout.
int appender_link_flag(const char *path);

enum appender_mode { APPENDER_APPEND, APPENDER_NEW };

// Opens or creates the file; with APPENDER_NEW it must not exist yet. -1 with an error.
int appender_open(struct appender *appender, const char *path, const char *what, enum appender_mode mode);
void appender_close(struct appender *appender);  // safe on a zeroed or closed one
// Returns whether the record was written. Does nothing if the appender is closed.
bool appender_write(struct appender *appender, const void *record, size_t bytes);

#endif
