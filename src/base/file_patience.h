// Errors of a file system that may pass. A disk, a server or a table of open files that fails for a moment says nothing
// about what a file holds: within this scope the functions of file.h that read and look try again, with longer and
// longer waits. Only errors such as "not found" are answers. If an error stays, it is noted, and the code that opened
// the scope must draw no conclusion from the failed calls (file_doubt).
//
// The scope belongs to the calling thread. A nested scope waits as the outer one does and shares its limit; when it
// ends, its doubt passes to the outer scope.
#ifndef BASE_FILE_PATIENCE_H
#define BASE_FILE_PATIENCE_H

#include "base/clock.h"
#include "base/memory.h"

#include <stdbool.h>
#include <stddef.h>

struct file_patience {
    double limit_seconds;  // of all waits together; 0: of the scope around it, or FILE_PATIENCE_SECONDS
    struct clock *clock;   // NULL: of the scope around it, or one whose sleep ends at a signal that asks to stop
    // Set by the functions below:
    double waited_seconds, next_seconds;
    double last_seconds;  // when the last wait ended
    int error;            // the first that stayed, as errno; 0 for none
    char path[512];
    struct file_patience *outer;
};

// A scope may last as long as a training run: waits stop counting towards the limit once the last one is longer ago
// than even a file server takes to report a failed call.
enum { FILE_PATIENCE_SECONDS = 60, FILE_PATIENCE_MEMORY_SECONDS = 600 };

void file_patience_begin(struct file_patience *patience);
void file_patience_end(struct file_patience *patience);

// Opens a scope that ends with the block.
#define FILE_PATIENCE()                                                                                                \
    OWNED_BY(file_patience_end) struct file_patience patience = {0};                                                   \
    file_patience_begin(&patience)

// Whether to repeat a call that failed with this errno; waits first. False outside of a scope, for an error that is an
// answer, and when the limit is reached or a signal asks to stop: then the error is noted. errno stays `error`.
bool file_try_again(int error, const char *path);
// 0, or -1 with a message if an error of the innermost scope has stayed.
int file_doubt(void);
// A result of calls in the innermost scope: that of a failure is -1, with the message of an error that has stayed.
int file_answer(int result);

// ---- remedies ----

// Guesses what an unreadable file is instead: an empty download, the web page of a file, or the pointer that Git LFS
// leaves in a clone. Saying so saves users a search. Also remedies for files that cannot even be opened.

// The end of a message about a file with these bytes, "; it is …: remedy", or "" if nothing is recognised.
const char *file_looks_like(const void *bytes, size_t size);
// The remedy for a file or folder that could not be opened; `error` is errno.
const char *file_read_remedy(int error);
// The remedy for one that could not be created or changed.
const char *file_write_remedy(int error);

#endif
