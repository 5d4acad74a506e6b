// layer: data
// A pair of .bin and .idx from hostile bytes as in fuzz_index, from which samples of BERT, T5, ICT and RoBERTa are
// made: a dataset that opens fills rows or refuses to.
#include "fuzz.h"

#include "base/log.h"
#include "base/memory.h"
#include "data/sample/roberta.h"
#include "data/sample/sentence.h"
#include "sample_words.h"
#include <stdio.h>

static char *prefix;

static void write_file(const char *ending, const uint8_t *data, size_t size) {
    char *path = memory_printf("%s%s", prefix, ending);
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
    free(path);
}

// For ICT, the dataset also serves as its titles: every document is its own title.
static void try_sentences(enum sentence_kind kind, uint8_t choice) {
    char *cache = file_join(fuzz_folder(), "cache");
    struct sentence_options options = {.kind = kind,
                                       .prefix = prefix,
                                       .split = choice % 3 ? NULL : "2,1,1",
                                       .seq_length = 5 + choice % 32,
                                       .decoder_seq_length = 1 + choice % 7,
                                       .sample_count = choice % 4 ? 0 : 20,
                                       .seed = 1234,
                                       .mask_prob = 0.15,
                                       .short_seq_prob = choice % 2 ? 0 : 0.4,
                                       .has_binary_head = choice % 5,
                                       .titles = choice % 6 ? prefix : NULL,
                                       .query_in_block_prob = 0.5,
                                       .uses_single_sentences = choice % 5,
                                       .cache_folder = cache,
                                       .vocabulary = sample_words()};
    struct sentence_dataset *dataset;
    if (sentence_dataset_build(&options) == 0 && sentence_dataset_open(&dataset, &options) == 0) {
        struct sample_source source = sentence_dataset_source(dataset);
        sample_words_draw(&source);
        sentence_dataset_close(dataset);
    }
    (void)file_remove_tree(cache);
    free(cache);
}

static void try_blocks(uint8_t choice) {
    static unsigned char begins_word[SAMPLE_WORDS + SAMPLE_SENTINELS];
    for (size_t id = 0; id < sizeof begins_word; id++)
        begins_word[id] = id % 3 == 0;
    struct roberta_options options = {.prefix = prefix,
                                      .split = choice % 3 ? NULL : "2,1,1",
                                      .mode = (enum text_block_mode)(choice % 4),
                                      .seq_length = 5 + choice % 32,
                                      .sample_count = choice % 5 ? 0 : 20,
                                      .batch_size = 1 + choice % 3,
                                      .seed = 1,
                                      .mask_prob = 0.15,
                                      .leave_unmasked_prob = 0.1,
                                      .random_token_prob = 0.1,
                                      .masks_whole_words = choice % 2,
                                      .is_shuffled = choice % 7,
                                      .vocabulary = sample_words(),
                                      .begins_word = begins_word};
    struct roberta_dataset *dataset;
    if (roberta_dataset_open(&dataset, &options) == 0) {
        struct sample_source source = roberta_dataset_source(dataset);
        sample_words_draw(&source);
        roberta_dataset_close(dataset);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    log_set_level(LOG_ERROR);
    if (size < 3)
        return 0;
    if (!prefix)
        prefix = file_join(fuzz_folder(), "pair");
    size_t bin_bytes = data[0] | (size_t)data[1] << 8;
    uint8_t choice = data[2];
    data += 3;
    size -= 3;
    if (bin_bytes > size)
        bin_bytes = size;
    write_file(".bin", data, bin_bytes);
    write_file(".idx", data + bin_bytes, size - bin_bytes);
    try_sentences(SENTENCE_BERT, choice);
    try_sentences(SENTENCE_T5, choice);
    try_sentences(SENTENCE_ICT, choice);
    try_blocks(choice);
    return 0;
}
