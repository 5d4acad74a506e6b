// Reports that the process is about to die of a fault: a bad address, a file that shrank or a disk that failed under a
// mapping (SIGBUS), an abort() of a library. The signal then ends the process as usual. A fault in a mapped file is
// instead an error that names the file.
#ifndef BASE_CRASH_H
#define BASE_CRASH_H

#include "base/error.h"
#include <stddef.h>

// `hear` runs in the handler, once, with the signal's number: it must not allocate, lock or print. NULL removes it and
// restores the signals' previous actions.
void crash_watch(void (*hear)(void *context, int number), void *context);

// Files that are mapped into memory. If one of them is truncated, or its disk fails, reading the map raises SIGBUS. The
// process cannot continue then, but it can report the file, the byte and a remedy.

enum { FILE_FAULT_BYTES = 1024 };

// Makes a fault in a mapped file end the process with a message, and with EXIT_CODE_BAD_DATA if the file is too short,
// otherwise with EXIT_CODE_ERROR, after which another attempt may help.
void file_fault_watch(void);
// Records that a file is mapped or unmapped at this address. Any thread may call.
void file_fault_add(const void *data, size_t size, const char *path);
void file_fault_remove(const void *data);
// Writes the message and the exit code of a fault at this address, "" if no file is mapped there. Returns its length.
size_t file_fault_describe(const void *address, char text[FILE_FAULT_BYTES], enum exit_code *code);

#endif
