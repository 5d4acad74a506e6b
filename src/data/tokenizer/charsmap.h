// The normalization rules that SentencePiece compiles into a model and Hugging Face copies as "precompiled_charsmap":
// byte strings and their replacements. On disk: the size of a double array (u32), the double array of darts-clone, then
// the replacements, each ended by a NUL. A hostile map gives nonsense at worst, but never reads outside its memory.
#ifndef DATA_TOKENIZER_CHARSMAP_H
#define DATA_TOKENIZER_CHARSMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct charsmap {
    uint32_t *units;
    size_t unit_count;   // 0: no rules
    char *replacements;  // ended by an extra NUL
    size_t replacement_bytes;
};

// Empty bytes make a map without rules. Errors call the model `name`.
int charsmap_read(struct charsmap *map, const void *blob, size_t length, const char *name);
void charsmap_free(struct charsmap *map);

struct charsmap_match {
    size_t length;  // bytes of the text that are replaced; 0: no rule applies
    const char *replacement;
    size_t replacement_length;
};

// The longest rule that text[0…length) begins with, which SentencePiece takes, and the shortest, which Hugging Face
// takes.
struct charsmap_match charsmap_longest(const struct charsmap *map, const char *text, size_t length);
struct charsmap_match charsmap_shortest(const struct charsmap *map, const char *text, size_t length);
// Calls visit for every rule, in byte order of the keys; stops after more steps than a real map needs.
struct charsmap_rule {
    const char *key, *replacement;  // the key is not NUL-terminated
    size_t key_length;
};
void charsmap_for_each(const struct charsmap *map, void (*visit)(void *context, const struct charsmap_rule *rule),
                       void *context);
// Whether any rule begins with these two bytes.
bool charsmap_has_pair(const struct charsmap *map, unsigned char first, unsigned char second);

#endif
