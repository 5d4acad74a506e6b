// What was found fastest, for the next time: a list of keys (what an operation looks like) and values (how it is best
// done), both plain bytes of a fixed size that mean something to the backend alone. It may be kept in a file, whose
// first line is an identity: another library or another device makes other choices. The file is never trusted: what it
// says is checked by whoever uses it.
#ifndef OPS_CHOICES_H
#define OPS_CHOICES_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stdint.h>

struct choices {
    char *identity;
    size_t key_bytes, value_bytes;
    unsigned char *entries;  // (count) of a key and a value each
    int64_t count, capacity;
    bool is_broken;  // the file cannot be written: said once
};
enum { CHOICES_MOST = 4096 };

void choices_open(struct choices *choices, const char *identity, size_t key_bytes, size_t value_bytes);
void choices_close(struct choices *choices);

// The value of a key, or NULL.
const void *choices_find(const struct choices *choices, const void *key);
// In place of what the key had; nothing where it is new and there is no more room.
void choices_add(struct choices *choices, const void *key, const void *value);

// The text of a file: the identity, then "KEY VALUE" in hexadecimal, a line each. Reading adds what is not known, up to
// the first line that is none of these, and nothing of another identity's.
void choices_print(const struct choices *choices, struct buffer *out);
void choices_read(struct choices *choices, const char *text);

// A file that is not there, or cannot be read, is as good as an empty one. Saving leaves in the file what others have
// written to it meanwhile, and takes none of it into the list, which may have to stay the same as other ranks'.
void choices_load(struct choices *choices, const char *path);
void choices_save(struct choices *choices, const char *path);

// Rank 0's list becomes everybody's, whatever their identities, so that all of them know the same keys. broadcast
// sends rank 0's bytes to the others.
struct device_peers;
void choices_share(struct choices *choices, const struct device_peers *peers);

#endif
