// The sentences of each sample of BERT, T5 or ICT, as in Megatron's build_mapping and build_blocks_mapping: documents
// are processed in order, epoch after epoch, and cut into runs of whole sentences that reach a target length. Then all
// runs are shuffled. For BERT and T5, some targets are drawn short. For ICT, the target of a document is the length
// minus that of its title.
#ifndef DATA_SAMPLE_SENTENCE_MAP_H
#define DATA_SAMPLE_SENTENCE_MAP_H

#include "data/index/index.h"

enum { SENTENCE_MAP_COLUMNS = 3, SENTENCE_MAP_BLOCK_COLUMNS = 4, SENTENCE_MAP_LONGEST = 512 };

struct sentence_map_options {
    int64_t first_document, end_document;
    int64_t max_length;        // tokens, without those put around them; at least 2
    int64_t min_sentences;     // of a sample
    double short_probability;  // 0: every target is max_length
    int64_t sample_count;      // at least this many, in whole epochs; 0: one epoch
    uint32_t seed;
};

struct sentence_map {
    int64_t count, capacity;
    int columns;
    // (count, columns): first sentence, the sentence after the last, and the target length; for ICT instead the
    // document and the number of the block in its epoch.
    uint32_t *rows;
};

// Fails if no document has a sample, or the index is damaged.
int sentence_map_build(struct sentence_map *map, const struct index_reader *reader,
                       const struct sentence_map_options *options);
// The map for ICT. `titles` has a title for every document, NULL for none.
int sentence_map_build_blocks(struct sentence_map *map, const struct index_reader *reader,
                              const struct index_reader *titles, const struct sentence_map_options *options);
// The range [*begin, *end) of a document's sentences.
int sentence_map_document(const struct index_reader *reader, int64_t document, int64_t *begin, int64_t *end);
void sentence_map_free(struct sentence_map *map);

#endif
