// What a file that cannot be read may be instead. People hand over an empty download, the web page of a file, or the
// pointer that Git LFS leaves in a clone; a message that says so saves them a search. And what to do about one that
// cannot even be opened.
#ifndef BASE_LOOKS_H
#define BASE_LOOKS_H

#include <stddef.h>

// The end of a message about a file with these bytes, "; it is …: remedy", or "" if nothing is recognised.
const char *looks_like(const void *bytes, size_t size);
// What to do about a file or folder that could not be opened; `error` is errno.
const char *looks_remedy(int error);
// The same for one that could not be created or changed.
const char *looks_write_remedy(int error);

#endif
