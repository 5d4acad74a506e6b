// Unfinished output: journals with numbers beyond 2^32, stores that are shorter than their journals, and writes through
// maps.
#include "data/preprocess_run.h"
#include "fixture.h"
#include <fcntl.h>

TEST(journals_keep_large_numbers) {
    scratch_open();
    char *prefix = memory_string(scratch_path("out"));
    struct journal journal;
    struct preprocess_state state, again;
    enum journal_phase phase;
    const struct journal_options options = {.output_prefix = prefix, .keys = 1, .settings = "none\n"};
    preprocess_state_init(&state, 1);
    preprocess_state_init(&again, 1);
    EXPECT_OK(journal_open(&journal, &options, &phase, &state));
    state.file = 3;
    state.offset = ((uint64_t)1 << 62) + 1;
    state.line = ((int64_t)1 << 53) + 1;
    state.counts = (struct text_counts){1, 2, INT64_MAX, 4, 5, 6, 7, 8, 9};
    state.bytes[0] = ((uint64_t)1 << 61) + 3;
    state.bytes[3] = UINT32_MAX;
    EXPECT_OK(journal_write(&journal, JOURNAL_TOKENIZE, &state));
    journal_close(&journal, false);
    EXPECT_OK(journal_open(&journal, &options, &phase, &again));
    EXPECT_INT(phase, JOURNAL_TOKENIZE);
    EXPECT(again.offset == state.offset && again.line == state.line && again.file == 3);
    EXPECT(memcmp(&again.counts, &state.counts, sizeof state.counts) == 0);
    EXPECT(memcmp(again.bytes, state.bytes, 4 * sizeof *state.bytes) == 0);
    journal_close(&journal, true);
    EXPECT_INT(scratch_entries(), 0);
    preprocess_state_free(&state);
    preprocess_state_free(&again);
    free(prefix);
    scratch_close();
}

// A store that is shorter than its journal says cannot be resumed.
TEST(a_shorter_store_is_noticed) {
    scratch_open();
    struct store store;
    const uint64_t none[4] = {0}, some[4] = {10, 0, 0, 0};
    EXPECT_OK(store_open(&store, scratch_path("data"), 1, none));
    EXPECT_OK(store_write(&store, 0, 0, "12345", 5));
    store_close(&store);
    EXPECT_ERROR(store_open(&store, scratch_path("data"), 1, some), "has 5 bytes and should have 10");
    scratch_close();
}

// Writes through maps, in any order and across windows, give the same bytes as plain ones.
TEST(shared_writes_are_whole) {
    enum { BLOCK = 700001, BLOCKS = 131 };
    scratch_open();
    struct store store;
    uint64_t bytes[4] = {0};
    unsigned char *block = memory_alloc(BLOCK);
    EXPECT_OK(store_open(&store, scratch_path("data"), 1, bytes));
    EXPECT_OK(store_write(&store, 0, 0, "head", 4));
    store_share(&store);
    for (int i = 0; i < BLOCKS; i++) {
        int number = i * 37 % BLOCKS;  // scattered over all windows, so that some are mapped repeatedly
        memset(block, number, BLOCK);
        EXPECT_OK(store_write(&store, 0, 4 + (uint64_t)number * BLOCK, block, BLOCK));
    }
    bytes[0] = 4 + (uint64_t)BLOCKS * BLOCK;
    EXPECT_OK(store_cut(&store, bytes));
    uint64_t size;
    EXPECT_OK(file_size(scratch_path("data.0.bin"), &size));
    EXPECT_INT(size, bytes[0]);
    EXPECT_OK(store_read(&store, 0, 0, block, 4));
    EXPECT(memcmp(block, "head", 4) == 0);
    for (int i = 0; i < BLOCKS; i++) {
        EXPECT_OK(store_read(&store, 0, 4 + (uint64_t)i * BLOCK, block, BLOCK));
        EXPECT(block[0] == i && memcmp(block, block + 1, BLOCK - 1) == 0);
    }
    free(block);
    store_remove(&store);
    EXPECT_INT(scratch_entries(), 0);
    scratch_close();
}

TEST_MAIN(TEST_CASE(journals_keep_large_numbers), TEST_CASE(a_shorter_store_is_noticed),
          TEST_CASE(shared_writes_are_whole))
