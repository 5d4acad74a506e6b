// Which sentences make up a sample of BERT or T5, as Megatron's build_mapping gives them: documents are gone through in
// order, epoch after epoch, and cut into runs of whole sentences that reach a target length; some targets are
// drawn short. Then all runs are shuffled.
#ifndef DATA_SAMPLE_SENTENCE_MAP_H
#define DATA_SAMPLE_SENTENCE_MAP_H

#include "data/index/index.h"

enum { SENTENCE_MAP_COLUMNS = 3, SENTENCE_MAP_LONGEST = 512 };

struct sentence_map_options {
    int64_t first_document, end_document;
    int64_t max_length;        // tokens, without what is put around them; at least 2
    int64_t min_sentences;     // of a sample
    double short_probability;  // 0: every target is max_length
    int64_t sample_count;      // at least so many, in whole epochs; 0: one epoch
    uint32_t seed;
};

struct sentence_map {
    int64_t count;
    uint32_t *rows;  // (count, 3): first sentence, the one after the last, target length
};

// Fails if no document has a sample, or the index is damaged.
int sentence_map_build(struct sentence_map *map, const struct index_reader *reader,
                       const struct sentence_map_options *options);
void sentence_map_free(struct sentence_map *map);

#endif
