// Files that are mapped into memory. If one of them is truncated, or its disk fails, reading the map raises SIGBUS. The
// process cannot continue then, but it can report the file, the byte and a remedy.
#ifndef BASE_FILE_FAULT_H
#define BASE_FILE_FAULT_H

#include "base/error.h"
#include <stddef.h>

enum { FILE_FAULT_BYTES = 1024 };

// Makes a fault in a mapped file end the process with a message, and with EXIT_CODE_BAD_DATA if the file is too short,
// otherwise with EXIT_CODE_ERROR, after which another attempt may help.
void file_fault_watch(void);
// Records that a file is mapped or unmapped at this address. Any thread may call.
void file_fault_add(const void *data, size_t size, const char *path);
void file_fault_remove(const void *data);
// For a handler of SIGBUS: ends the process if a file is mapped at this address.
void file_fault_end(const void *address);
// Writes the message and the exit code of a fault at this address, "" if no file is mapped there. Returns its length.
size_t file_fault_describe(const void *address, char text[FILE_FAULT_BYTES], enum exit_code *code);

#endif
