// Scores from merges. See gguf_scores.h.
#include "formats/gguf_scores.h"

#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// The merges that make a token: their number, and the first and last of their ranks.
struct made {
    int64_t count, first, last;
};

static int64_t count_splits(const struct hf *hf, const struct gguf_token *token) {
    int64_t count = 0;
    for (size_t at = 1; at < token->length; at++) {
        bool is_inside = ((unsigned char)token->text[at] & 0xc0) == 0x80;  // of a character
        if (!is_inside && byte_table_find(&hf->vocab, token->text, at) >= 0 &&
            byte_table_find(&hf->vocab, token->text + at, token->length - at) >= 0)
            count++;
    }
    return count;
}

static void count_merges(const struct hf *hf, struct made *made) {
    for (size_t slot = 0; slot <= hf->bpe.pair_mask; slot++) {
        const struct bpe_pair *pair = &hf->bpe.pairs[slot];
        if (pair->left < 0)
            continue;
        struct made *of = &made[pair->id];
        of->first = of->count == 0 || pair->rank < of->first ? pair->rank : of->first;
        of->last = of->count == 0 || pair->rank > of->last ? pair->rank : of->last;
        of->count++;
    }
}

int gguf_scores_from_merges(struct gguf_vocabulary *vocabulary, const struct hf *hf, const struct json *merges) {
    struct made *made = memory_alloc((size_t)(hf->size + 1) * sizeof made[0]);
    int result = merges && merges->count > 0 ? 0 : error_set("%s: its model has no merges", hf->name);
    if (result == 0)
        count_merges(hf, made);
    for (int64_t id = 0; id < hf->size && result == 0; id++) {
        struct gguf_token *token = &vocabulary->tokens[id];
        if (!token->text)
            continue;
        token->score = made[id].count > 0 ? -(float)made[id].first : 0;
        bool is_plain = token->type == GGUF_TOKEN_NORMAL;
        if (is_plain && (made[id].count != count_splits(hf, token) ||
                         (made[id].count > 0 && made[id].last - made[id].first + 1 != made[id].count)))
            result =
                error_set("%s: the merges that make token %" PRId64 " \"%.60s\" are not in the order of any scores, "
                          "which llama.cpp goes by; export with --to huggingface instead",
                          hf->name, id, token->text);
    }
    free(made);
    return result;
}
