// What a file that cannot be read may be instead. People hand over an empty download, the web page of a file, or the
// pointer that Git LFS leaves in a clone; a message that says so saves them a search.
#ifndef BASE_LOOKS_H
#define BASE_LOOKS_H

#include <stddef.h>

// The end of a message about a file with these bytes, "; it is …: remedy", or "" if nothing is recognised.
const char *looks_like(const void *bytes, size_t size);

#endif
