// The normalisation rules that SentencePiece compiles into a model and Hugging Face copies as "precompiled_charsmap":
// byte strings and what each becomes. On disk: the size of a double array (u32), the double array of darts-clone,
// then the replacements, each ended by a NUL. A hostile map finds nonsense at worst, never memory that is not its
// own.
#ifndef DATA_TOKENIZER_CHARSMAP_H
#define DATA_TOKENIZER_CHARSMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct charsmap {
    uint32_t *units;
    size_t unit_count;   // 0: no rules
    char *replacements;  // ended by a NUL of ours
    size_t replacement_bytes;
};

// No bytes make a map without rules. `name` is what errors call the model.
int charsmap_read(struct charsmap *map, const void *blob, size_t length, const char *name);
void charsmap_free(struct charsmap *map);

struct charsmap_match {
    size_t length;  // bytes of the text that are replaced; 0: no rule applies
    const char *replacement;
    size_t replacement_length;
};

// The longest rule that text[0…length) begins with, as SentencePiece takes it, and the shortest, as Hugging Face does.
struct charsmap_match charsmap_longest(const struct charsmap *map, const char *text, size_t length);
struct charsmap_match charsmap_shortest(const struct charsmap *map, const char *text, size_t length);
// Calls visit for every rule, in the order of the keys' bytes, up to so many steps as a real map needs.
struct charsmap_rule {
    const char *key, *replacement;  // the key is not ended by a NUL
    size_t key_length;
};
void charsmap_for_each(const struct charsmap *map, void (*visit)(void *context, const struct charsmap_rule *rule),
                       void *context);
// Whether some rule begins with these two bytes.
bool charsmap_has_pair(const struct charsmap *map, unsigned char first, unsigned char second);

#endif
