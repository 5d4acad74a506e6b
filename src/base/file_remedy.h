// Guesses what an unreadable file is instead: an empty download, the web page of a file, or the pointer that Git LFS
// leaves in a clone. Saying so saves users a search. Also remedies for files that cannot even be opened.
#ifndef BASE_FILE_REMEDY_H
#define BASE_FILE_REMEDY_H

#include <stddef.h>

// The end of a message about a file with these bytes, "; it is …: remedy", or "" if nothing is recognised.
const char *file_looks_like(const void *bytes, size_t size);
// The remedy for a file or folder that could not be opened; `error` is errno.
const char *file_read_remedy(int error);
// The remedy for one that could not be created or changed.
const char *file_write_remedy(int error);

#endif
