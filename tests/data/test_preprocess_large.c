// tier: all
// label: slow
// cost: 110
// Numbers beyond 2^31 and 2^32: a dataset with more tokens and bytes than that, whose .bin is one large hole, passes
// through the end of preprocessing, and offsets are right to the last byte. Its checksum is what takes the time.
#include "data/preprocess_run.h"
#include "fixture.h"
#include <fcntl.h>

enum { SEQUENCES = 5 };
static const int32_t lengths[SEQUENCES] = {INT32_MAX, 7, INT32_MAX, INT32_MAX - 1, 3};
static const int32_t documents[] = {1, 0, 3, 0, 1};

// An unfinished store with these lengths, whose tokens are zeros except the last two.
static void make_store(struct store *store, const struct journal *journal, struct preprocess_state *state) {
    int64_t tokens = 0;
    for (int i = 0; i < SEQUENCES; i++)
        tokens += lengths[i];
    state->bytes[STORE_TOKENS] = 2 * (uint64_t)tokens;
    state->bytes[STORE_LENGTHS] = sizeof lengths;
    state->bytes[STORE_DOCUMENTS] = sizeof documents;
    state->counts =
        (struct text_counts){.documents = 5, .tokens = tokens, .longest_tokens = tokens, .text_bytes = tokens};
    const uint64_t none[4] = {0};
    const uint16_t last[2] = {11, 12};
    EXPECT_OK(store_open(store, journal->prefix, 1, none));
    EXPECT_OK(store_write(store, STORE_TOKENS, 2 * (uint64_t)tokens - sizeof last, last, sizeof last));
    EXPECT_OK(store_write(store, STORE_LENGTHS, 0, lengths, sizeof lengths));
    EXPECT_OK(store_write(store, STORE_DOCUMENTS, 0, documents, sizeof documents));
}

TEST(places_beyond_32_bits) {
    scratch_open();
    char *prefix = memory_string(scratch_path("out")), *target = memory_string(scratch_path("out_text_document"));
    struct journal journal;
    struct store store;
    struct preprocess_state state;
    enum journal_phase phase;
    const struct journal_options options = {.output_prefix = prefix, .keys = 1, .settings = "none\n"};
    preprocess_state_init(&state, 1);
    EXPECT_OK(journal_open(&journal, &options, &phase, &state));
    EXPECT_INT(phase, JOURNAL_NEW);
    make_store(&store, &journal, &state);
    const struct preprocess_publish publish = {.options = &(struct preprocess_options){.output_prefix = prefix},
                                               .journal = &journal,
                                               .dtype = INDEX_U16,
                                               .targets = &target,
                                               .tokenizer = "",
                                               .bad_lines = "none"};
    EXPECT_OK(preprocess_finish(&publish, &store, &state));
    EXPECT_OK(preprocess_publish(&publish, &state));
    journal_close(&journal, true);

    struct index_reader *reader;
    int64_t place = 0;
    EXPECT_OK(index_open(&reader, target));
    EXPECT_OK(index_verify(reader));
    EXPECT_INT(reader->sequence_count, SEQUENCES);
    EXPECT_INT(reader->document_count, 5);
    EXPECT_INT(reader->token_count, 6442450950);  // 3 (2^31 - 1) - 1 + 10
    for (int i = 0; i < SEQUENCES; i++) {
        EXPECT_INT(index_length(reader, i), lengths[i]);
        EXPECT_INT(index_pointer(reader, i), place);
        place += 2 * (int64_t)lengths[i];
    }
    int32_t last[3];
    EXPECT_OK(index_read(reader, SEQUENCES - 1, 0, 3, last));
    EXPECT(last[0] == 0 && last[1] == 11 && last[2] == 12);
    index_close(reader);
    preprocess_state_free(&state);
    free(prefix);
    free(target);
    scratch_close();
}

TEST_MAIN(TEST_CASE(places_beyond_32_bits))
