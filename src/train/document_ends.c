// Reads the last tokens of a few documents. See document_ends.h.
#include "train/document_ends.h"

#include "base/error.h"
#include "base/log.h"
#include <inttypes.h>

// FEW: with fewer documents, ends may be equal by chance.
enum { LOOKED_AT = 16, FEW = 4 };

// The last tokens of the sampled documents.
struct ends {
    int count;     // documents that have tokens
    int with_eod;  // of these
    bool is_same;  // all end with `token`
    int32_t token;
};

static void look_at(struct ends *ends, const struct index_reader *reader, int64_t document, int32_t eod) {
    int64_t first = index_document_begin(reader, document), after = index_document_begin(reader, document + 1);
    int32_t token;
    if (first < 0 || first >= after || after > reader->sequence_count || index_length(reader, after - 1) <= 0)
        return;
    if (index_read(reader, after - 1, index_length(reader, after - 1) - 1, 1, &token) < 0) {
        error_clear();
        return;
    }
    ends->is_same = ends->count == 0 || (ends->is_same && token == ends->token);
    ends->token = token;
    ends->with_eod += token == eod;
    ends->count++;
}

void document_ends_check(const struct index_reader *reader, const char *prefix, const struct config *config,
                         int32_t eod) {
    bool is_used = config->eod_mask_loss || config->reset_position_ids || config->reset_attention_mask;
    int64_t documents = reader->document_count, count = documents < LOOKED_AT ? documents : LOOKED_AT;
    struct ends ends = {0};
    if (eod < 0)
        return;
    for (int64_t i = 0; i < count; i++)
        look_at(&ends, reader, (int64_t)((double)i / (double)count * (double)documents), eod);
    if (ends.count == 0 || ends.with_eod > 0)
        return;
    if (is_used)
        log_warn("none of %d documents of %s ends with the tokenizer's end-of-document token, %" PRId32
                 ", which --eod-mask-loss, --reset-position-ids and --reset-attention-mask look for; write the dataset "
                 "with `bevatron preprocess --append-eod` and this tokenizer",
                 ends.count, prefix, eod);
    else if (ends.is_same && ends.count >= FEW)
        log_info("note: the documents of %s end with token %" PRId32
                 ", not with the tokenizer's end-of-document token, %" PRId32
                 "; it was written without --append-eod, or with another tokenizer",
                 prefix, ends.token, eod);
}
