// A fixed set of byte strings, each with a number, walked one byte at a time: a double array. The child of node n by
// byte c is units[n].base + c, if that unit names n as its parent; the array ends with 256 spare units, so no step
// needs a bounds check. Strings may hold any bytes, even NUL.
#ifndef DATA_TOKENIZER_TRIE_H
#define DATA_TOKENIZER_TRIE_H

#include <stddef.h>
#include <stdint.h>

struct trie_unit {
    int32_t base;
    int32_t parent;  // -1 if there is no node
};

struct trie {
    struct trie_unit *units;
    int32_t *values;  // of the string that ends at a node, -1 for none
    int64_t size;     // units
};

struct trie_key {
    const char *text;
    size_t length;  // not 0
    int32_t value;  // not negative
};

enum { TRIE_ROOT = 0 };

// Builds a trie and leaves the keys sorted by their bytes. Of equal keys the first value counts. Without keys the trie
// finds nothing. Ends the process if more than 2^30 units would be needed: limit the keys first.
void trie_build(struct trie *trie, struct trie_key *keys, int64_t count);
void trie_free(struct trie *trie);

// The node after one more byte, -1 if no string continues with it.
static inline int32_t trie_step(const struct trie *trie, int32_t node, unsigned char byte) {
    int32_t next = trie->units[node].base + byte;
    return trie->units[next].parent == node ? next : -1;
}

// The node at the end of a text, -1 if no string begins with it.
int32_t trie_walk(const struct trie *trie, const char *text, size_t length);
// The value of a whole string, -1 if there is none.
int32_t trie_find(const struct trie *trie, const char *text, size_t length);

struct trie_match {
    size_t length;  // 0: no string matches
    int32_t value;
};
// The longest of the first `most` strings that text[0…length) begins with.
struct trie_match trie_longest(const struct trie *trie, const char *text, size_t length, int most);

#endif
