// Remembers the fastest algorithms: a list of keys (the shape of an operation) and values (the algorithm), both plain
// bytes of fixed size that only the backend interprets. The list may be kept in a file whose first line is an identity,
// because choices depend on the library and the device. The file is never trusted: entries are checked before use.
#ifndef OPS_CHOICES_H
#define OPS_CHOICES_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stdint.h>

struct kept_choices {
    char *identity;
    size_t key_bytes, value_bytes;
    unsigned char *entries;  // `count` pairs of a key and a value
    int64_t count, capacity;
    bool is_broken;  // the file cannot be written; a message has said so once
};
enum { CHOICES_MOST = 4096 };

void choices_open(struct kept_choices *choices, const char *identity, size_t key_bytes, size_t value_bytes);
void choices_close(struct kept_choices *choices);

// The value of a key, or NULL.
const void *choices_find(const struct kept_choices *choices, const void *key);
// Replaces the key's value, if it has one. Does nothing if the key is new and the list is full.
void choices_add(struct kept_choices *choices, const void *key, const void *value);

// The text of a file: the identity, then a line "KEY VALUE" in hexadecimal for each entry. Reading adds new entries and
// stops at the first malformed line; it adds nothing if the identity differs.
void choices_print(const struct kept_choices *choices, struct buffer *out);
void choices_read(struct kept_choices *choices, const char *text);

// A file that does not exist or cannot be read counts as empty. Saving keeps entries that others have written to the
// file in the meantime, but does not add them to the list, which may have to stay equal to that of other ranks.
void choices_load(struct kept_choices *choices, const char *path);
void choices_save(struct kept_choices *choices, const char *path);

// Replaces the list of every rank by rank 0's, whatever their identities, so that all know the same keys. `broadcast`
// sends rank 0's bytes to the others.
struct device_peers;
void choices_share(struct kept_choices *choices, const struct device_peers *peers);

#endif
