// The samples of one split of a run: one dataset, or a blend of several, of the kind that the model learns from.
#ifndef TRAIN_CORPUS_H
#define TRAIN_CORPUS_H

#include "config/config.h"
#include "data/sample/source.h"
#include "data/sample/split.h"
#include "data/sample/vocabulary.h"
#include "parallel/mesh.h"

enum corpus_kind { CORPUS_GPT, CORPUS_BERT, CORPUS_ROBERTA, CORPUS_T5 };

enum corpus_kind corpus_kind_of(const struct config *config);

// The rank that opens a corpus; it decides who builds index files that are missing.
struct corpus_place {
    const struct mesh *mesh;
    int local_rank;
};

struct corpus_options {
    const struct config *config;
    struct corpus_place place;
    int64_t vocab_size;
    const struct sample_vocabulary *vocabulary;  // all but GPT; must outlive the corpus, as the next
    const unsigned char *begins_word;            // RoBERTa with --mask-whole-words
    enum split which;
    int64_t sample_count;  // samples the run wants
    bool is_epoch;         // one epoch, whatever that is
};

struct corpus;

// *corpus is NULL where the flags name no data for the split, or leave it none. Shares that nobody chose may also leave
// validation or test none of a small dataset; chosen ones that do are an error.
int corpus_open(struct corpus **corpus, const struct corpus_options *options);
void corpus_close(struct corpus *corpus);  // NULL is fine
struct sample_source corpus_source(const struct corpus *corpus);

#endif
