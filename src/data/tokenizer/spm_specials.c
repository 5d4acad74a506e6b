// Adds Megatron's special tokens to a SentencePiece model, and finds them in text. See spm_model.h.
#include "data/tokenizer/spm_model.h"
#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Adds a token unless it was added before; returns its id.
static int32_t add(struct spm_specials *specials, const struct byte_table *pieces, const char *text, size_t length) {
    int64_t before = specials->tokens.count;
    struct byte_string *special = byte_table_get(&specials->tokens, text, length);
    if (specials->tokens.count > before) {
        int32_t piece = byte_table_find(pieces, text, length);
        special->value = piece >= 0 ? piece : specials->vocab_size++;
    }
    return (int32_t)special->value;
}

static void add_control(struct spm_specials *specials, const struct byte_table *pieces, const struct spm_model *model,
                        int32_t id, const char *instead) {
    if (id >= 0)
        add(specials, pieces, model->file.pieces[id].text.data, model->file.pieces[id].text.length);
    else
        add(specials, pieces, instead, strlen(instead));
}

static void add_all(struct spm_specials *specials, const struct byte_table *pieces, const struct spm_model *model,
                    int64_t extra_ids) {
    add(specials, pieces, "<CLS>", 5);
    add(specials, pieces, "<SEP>", 5);
    specials->end_of_document = add(specials, pieces, "<EOD>", 5);
    add(specials, pieces, "<MASK>", 6);
    add_control(specials, pieces, model, model->pad_id, "<PAD>");
    add_control(specials, pieces, model, model->bos_id, "<BOS>");
    add_control(specials, pieces, model, model->eos_id, "<EOS>");
    struct buffer name = {0};
    for (int64_t i = 0; i < extra_ids; i++) {
        buffer_clear(&name);
        buffer_printf(&name, "<extra_id_%" PRId64 ">", i);
        add(specials, pieces, name.data, name.length);
    }
    buffer_free(&name);
}

static void index_specials(struct spm_specials *specials) {
    const struct byte_table *tokens = &specials->tokens;
    struct trie_key *keys = memory_alloc((size_t)tokens->count * sizeof *keys);
    specials->by_id = memory_alloc((size_t)specials->vocab_size * sizeof *specials->by_id);
    memset(specials->by_id, 0xFF, (size_t)specials->vocab_size * sizeof *specials->by_id);
    specials->first_byte = (unsigned char)tokens->bytes.data[0];
    for (int64_t i = 0; i < tokens->count; i++) {
        const struct byte_string *special = &tokens->strings[i];
        keys[i] = (struct trie_key){byte_table_text(tokens, special), special->length, (int32_t)i};
        specials->by_id[special->value] = (int32_t)i;
        if ((unsigned char)keys[i].text[0] != specials->first_byte)
            specials->first_byte = -1;
    }
    trie_build(&specials->trie, keys, tokens->count);
    free(keys);
}

int spm_specials_create(struct spm_specials *specials, const struct spm_model *model, int64_t extra_ids,
                        const char *name) {
    int64_t piece_count = model->file.piece_count;
    *specials = (struct spm_specials){.vocab_size = (int32_t)piece_count};
    struct byte_table pieces = {0};
    bool is_unique = true;
    for (int64_t i = 0; is_unique && i < piece_count; i++)
        is_unique = byte_table_add(&pieces, model->file.pieces[i].text.data, model->file.pieces[i].text.length,
                                   (int32_t)i) == 0;
    if (is_unique) {
        add_all(specials, &pieces, model, extra_ids);
        index_specials(specials);
    }
    byte_table_free(&pieces);
    return is_unique ? 0
                     : error_set("%s: two of its pieces have the same text, so SentencePieceTokenizer would give two "
                                 "tokens one id; use GPTSentencePieceTokenizer",
                                 name);
}

void spm_specials_free(struct spm_specials *specials) {
    byte_table_free(&specials->tokens);
    free(specials->by_id);
    trie_free(&specials->trie);
    *specials = (struct spm_specials){0};
}

// The special token at the beginning of text; of several, the one added first; -1 if there is none.
static int32_t match(const struct trie *trie, const char *text, size_t length) {
    int32_t first = -1, node = TRIE_ROOT;
    for (size_t i = 0; i < length; i++) {
        node = trie_step(trie, node, (unsigned char)text[i]);
        if (node < 0)
            break;
        if (trie->values[node] >= 0 && (first < 0 || trie->values[node] < first))
            first = trie->values[node];
    }
    return first;
}

size_t spm_specials_find(const struct spm_specials *specials, const char *text, size_t length, int32_t *index) {
    for (size_t at = 0; at < length; at++) {
        if (specials->first_byte >= 0) {
            const char *found = memchr(text + at, specials->first_byte, length - at);
            if (!found)
                break;
            at = (size_t)(found - text);
        }
        *index = match(&specials->trie, text + at, length - at);
        if (*index >= 0)
            return at;
    }
    *index = -1;
    return length;
}
