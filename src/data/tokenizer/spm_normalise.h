// SentencePiece's normalizer: replaces characters by the rules of a model, tidies spaces and marks them.
//
// SentencePiece writes a space as U+2581 (three bytes), and treats a U+2581 in the text the same. We write both as one
// byte, a space, which then has no other meaning: the "folded" form. For models that do not escape spaces nothing is
// folded.
#ifndef DATA_TOKENIZER_SPM_NORMALISE_H
#define DATA_TOKENIZER_SPM_NORMALISE_H

#include "base/buffer.h"
#include "data/tokenizer/charsmap.h"
#include "data/tokenizer/spm_file.h"
#include "data/tokenizer/trie.h"

// U+2581, and its bytes.
#define SPM_SPACE "\xE2\x96\x81"
enum { SPM_SPACE_BYTES = 3 };

struct spm_normaliser {
    struct spm_normaliser_spec spec;
    struct charsmap map;
    struct trie user_defined;  // texts that no rule may change
    bool is_suffix;            // the dummy space comes last
    unsigned char kinds[256];  // kinds of bytes, see the .c
};

struct spm_normaliser_options {
    const struct spm_normaliser_spec *spec;
    struct trie_key *user_defined;  // their bytes are copied; the order may change
    int64_t user_defined_count;
    bool is_suffix;
    const char *name;  // of the model, for errors
};

int spm_normaliser_create(struct spm_normaliser *normaliser, const struct spm_normaliser_options *options);
void spm_normaliser_free(struct spm_normaliser *normaliser);

// Appends the normalized text. Ill-formed bytes become U+FFFD, one by one.
void spm_normalise(const struct spm_normaliser *normaliser, const char *text, size_t length, struct buffer *out);

// Appends text with every U+2581 as a space. False if it already has a space, which then would be ambiguous.
bool spm_fold(const char *text, size_t length, struct buffer *out);

// SentencePiece's search for user-defined symbols: the longest of the first 64 that text begins with; length 0 for
// none.
struct trie_match spm_match_user_defined(const struct trie *user_defined, const char *text, size_t length);

#endif
