// .bin/.idx: byte-exact writing, every dtype, and every kind of damage found and named.
#include "data/index/index.h"

#include "fixture.h"
#include <signal.h>
#include <sys/resource.h>

// The worked example of the format: documents [5, 6, 7, 99], [], [8, 9, 99] as uint16.
static const unsigned char example_bin[] = {5, 0, 6, 0, 7, 0, 99, 0, 8, 0, 9, 0, 99, 0};
static const unsigned char example_idx[90] = {
    'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0,
    0,   0,   0,   0,   4,   0,   0,   0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0,   0,   0,   0,   0,   0,   1,   0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0};

static void write_example(const char *prefix, enum index_dtype dtype) {
    struct index_writer *w;
    EXPECT_OK(index_writer_open(&w, prefix, dtype));
    EXPECT_OK(index_writer_add(w, (const int32_t[]){5, 6, 7, 99}, 4));
    EXPECT_OK(index_writer_end_document(w));
    EXPECT_OK(index_writer_add(w, NULL, 0));
    EXPECT_OK(index_writer_end_document(w));
    EXPECT_OK(index_writer_add(w, (const int32_t[]){8, 9, 99}, 3));
    EXPECT_OK(index_writer_end_document(w));
    EXPECT_OK(index_writer_commit(w));
}

static int open_bytes(struct index_reader **r, const unsigned char *idx, size_t idx_bytes, const unsigned char *bin,
                      size_t bin_bytes) {
    return index_open_bytes(r, "example", (struct file_map){idx, idx_bytes}, (struct file_map){bin, bin_bytes});
}

// Opens and looks at everything.
static int open_and_verify(const unsigned char *idx, size_t idx_bytes, const unsigned char *bin, size_t bin_bytes) {
    struct index_reader *r;
    TRY(open_bytes(&r, idx, idx_bytes, bin, bin_bytes));
    int result = index_verify_tokens(r, 0);
    index_close(r);
    return result;
}

TEST(example_is_byte_exact) {
    scratch_open();
    write_example(scratch_path("a"), INDEX_U16);
    struct buffer idx = read_bytes(scratch_path("a.idx")), bin = read_bytes(scratch_path("a.bin"));
    EXPECT_INT(idx.length, sizeof example_idx);
    EXPECT(memcmp(idx.data, example_idx, sizeof example_idx) == 0);
    EXPECT_INT(bin.length, sizeof example_bin);
    EXPECT(memcmp(bin.data, example_bin, sizeof example_bin) == 0);
    EXPECT_INT(scratch_entries(), 2);
    buffer_free(&idx);
    buffer_free(&bin);
    scratch_close();
}

TEST(every_integer_dtype) {
    static const struct {
        enum index_dtype dtype;
        int32_t low, high;
        size_t bytes;
    } rows[] = {{INDEX_U8, 0, 255, 1},
                {INDEX_I8, -128, 127, 1},
                {INDEX_I16, -32768, 32767, 2},
                {INDEX_U16, 0, 65535, 2},
                {INDEX_I32, INT32_MIN, INT32_MAX, 4},
                {INDEX_I64, INT32_MIN, INT32_MAX, 8}};
    scratch_open();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int32_t tokens[] = {rows[i].low, 7, rows[i].high}, back[3];
        struct index_writer *w;
        EXPECT_OK(index_writer_open(&w, scratch_path("d"), rows[i].dtype));
        EXPECT_OK(index_writer_add(w, tokens, 3));
        if (rows[i].bytes < 4) {
            EXPECT_ERROR(index_writer_add(w, (const int32_t[]){1, rows[i].high + 1}, 2), "at position 1 of sequence 1");
            index_writer_abort(w);
            EXPECT_OK(index_writer_open(&w, scratch_path("d"), rows[i].dtype));
            EXPECT_ERROR(index_writer_add(w, (const int32_t[]){rows[i].low - 1}, 1), "does not fit");
            index_writer_abort(w);
            EXPECT_OK(index_writer_open(&w, scratch_path("d"), rows[i].dtype));
            EXPECT_OK(index_writer_add(w, tokens, 3));
        }
        EXPECT_OK(index_writer_end_document(w));
        EXPECT_OK(index_writer_commit(w));
        struct index_reader *r;
        EXPECT_OK(index_open(&r, scratch_path("d")));
        EXPECT_INT(r->dtype, rows[i].dtype);
        EXPECT_INT(r->tokens.size, 3 * rows[i].bytes);
        EXPECT_OK(index_read(r, 0, 0, 3, back));
        EXPECT(memcmp(tokens, back, sizeof back) == 0);
        EXPECT_OK(index_read(r, 0, 2, 1, back));
        EXPECT_INT(back[0], rows[i].high);
        index_close(r);
    }
    EXPECT_INT(index_dtype_for_vocab(65499), INDEX_U16);
    EXPECT_INT(index_dtype_for_vocab(65500), INDEX_I32);
    EXPECT_INT(index_dtype_for_vocab(0), INDEX_I32);
    scratch_close();
}

TEST(reading) {
    struct index_reader *r;
    int32_t out[4];
    EXPECT_OK(open_bytes(&r, example_idx, sizeof example_idx, example_bin, sizeof example_bin));
    EXPECT_OK(index_verify_tokens(r, 100));
    EXPECT_INT(r->sequence_count, 2);
    EXPECT_INT(r->document_count, 3);
    EXPECT_INT(r->token_count, 7);
    EXPECT_INT(index_length(r, 1), 3);
    EXPECT_INT(index_pointer(r, 1), 8);
    EXPECT_INT(index_document_begin(r, 2), 1);
    EXPECT_OK(index_read(r, 1, 1, 2, out));
    EXPECT(out[0] == 9 && out[1] == 99);
    EXPECT_OK(index_read(r, 1, 3, 0, out));
    EXPECT_ERROR(index_read(r, 1, 2, 2, out), "sequence 1 has 3 tokens");
    EXPECT_ERROR(index_read(r, 1, -1, 2, out), "from position -1");
    EXPECT_ERROR(index_read(r, 0, 0, INT64_MAX, out), "example.idx: byte 34");
    EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
    EXPECT_ERROR(index_verify_tokens(r, 99), "byte 6: token 3 of sequence 0 is 99, beyond the vocabulary of 99");
    index_close(r);
}

TEST(many_sequences) {
    enum { SEQUENCES = 100000 };
    scratch_open();
    struct index_writer *w;
    EXPECT_OK(index_writer_open(&w, scratch_path("m"), INDEX_I32));
    int32_t tokens[20001];
    for (int32_t i = 0; i < SEQUENCES; i++) {
        int64_t length = i == 777 ? 20001 : i % 5;
        for (int64_t j = 0; j < length; j++)
            tokens[j] = i;
        EXPECT_OK(index_writer_add(w, tokens, length));
        EXPECT_OK(index_writer_end_document(w));
    }
    EXPECT_OK(index_writer_commit(w));
    struct index_reader *r;
    EXPECT_OK(index_open(&r, scratch_path("m")));
    EXPECT_OK(index_verify_tokens(r, SEQUENCES));
    EXPECT_INT(r->document_count, SEQUENCES);
    EXPECT_INT(r->sequence_count, SEQUENCES / 5 * 4);
    EXPECT_INT(r->token_count, SEQUENCES * 2 + 20001 - 2);
    for (int64_t document = 0; document < SEQUENCES; document++) {
        int64_t sequence = index_document_begin(r, document);
        EXPECT_INT(index_document_begin(r, document + 1) - sequence, document % 5 != 0);
        if (document % 5 == 0)
            continue;
        EXPECT_OK(index_read(r, sequence, index_length(r, sequence) - 1, 1, tokens));
        EXPECT_INT(tokens[0], document);
    }
    EXPECT_ERROR(index_verify_tokens(r, SEQUENCES - 1), "is 99999, beyond the vocabulary of 99999");
    index_close(r);
    scratch_close();
}

TEST(empty_datasets) {
    scratch_open();
    for (int documents = 0; documents < 3; documents++) {
        struct index_writer *w;
        struct index_reader *r;
        EXPECT_OK(index_writer_open(&w, scratch_path("e"), INDEX_U16));
        for (int i = 0; i < documents; i++)
            EXPECT_OK(index_writer_end_document(w));
        EXPECT_OK(index_writer_commit(w));
        EXPECT_OK(index_open(&r, scratch_path("e")));
        EXPECT_OK(index_verify_tokens(r, 10));
        EXPECT_INT(r->sequence_count, 0);
        EXPECT_INT(r->document_count, documents);
        index_close(r);
    }
    scratch_close();
}

TEST(appending) {
    scratch_open();
    write_example(scratch_path("a"), INDEX_U16);
    write_example(scratch_path("wide"), INDEX_I32);
    struct index_reader *a, *wide, *r;
    EXPECT_OK(index_open(&a, scratch_path("a")));
    EXPECT_OK(index_open(&wide, scratch_path("wide")));
    struct index_writer *w;
    EXPECT_OK(index_writer_open(&w, scratch_path("both"), INDEX_U16));
    EXPECT_OK(index_writer_append(w, a));
    EXPECT_OK(index_writer_append(w, a));
    EXPECT_ERROR(index_writer_append(w, wide), "tokens are int32");
    EXPECT_OK(index_writer_commit(w));
    EXPECT_OK(index_open(&r, scratch_path("both")));
    EXPECT_OK(index_verify_tokens(r, 100));
    static const int64_t boundaries[] = {0, 1, 1, 2, 3, 3, 4};
    EXPECT_INT(r->document_count, 6);
    for (int i = 0; i < 7; i++)
        EXPECT_INT(index_document_begin(r, i), boundaries[i]);
    int32_t out[3];
    EXPECT_OK(index_read(r, 3, 0, 3, out));
    EXPECT(out[0] == 8 && out[2] == 99);
    index_close(r);
    index_close(a);
    index_close(wide);
    char *bad[] = {(char *)scratch_path("a"), (char *)scratch_path("wide")};
    EXPECT_ERROR(index_merge(scratch_path("joined"), bad, 2), "join datasets of one dtype");
    EXPECT_INT(scratch_entries(), 6);
    scratch_close();
}

TEST(missing_and_replaced_files) {
    scratch_open();
    struct index_reader *r;
    EXPECT_ERROR(index_open(&r, scratch_path("none")), "none.idx does not exist");
    write_example(scratch_path("a"), INDEX_U16);
    unlink(scratch_path("a.bin"));
    EXPECT_ERROR(index_open(&r, scratch_path("a")), "a.bin does not exist");
    write_example(scratch_path("a"), INDEX_I32);
    EXPECT_OK(index_open(&r, scratch_path("a")));
    EXPECT_INT(r->dtype, INDEX_I32);
    struct index_writer *w;
    EXPECT_OK(index_writer_open(&w, scratch_path("a"), INDEX_U16));
    EXPECT_OK(index_writer_add(w, (const int32_t[]){1}, 1));
    index_writer_abort(w);
    EXPECT_INT(scratch_entries(), 2);
    EXPECT_OK(index_verify_tokens(r, 100));
    index_close(r);
    EXPECT_ERROR(index_writer_open(&w, scratch_path("no/folder/a"), INDEX_U16), "no/folder/a");
    scratch_close();
}

TEST(every_truncation_is_found) {
    for (size_t size = 0; size < sizeof example_idx; size++) {
        EXPECT(open_and_verify(example_idx, size, example_bin, sizeof example_bin) < 0);
        EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
    }
    for (size_t size = 0; size < sizeof example_bin; size++)
        EXPECT_ERROR(open_and_verify(example_idx, sizeof example_idx, example_bin, size), "the file is cut short");
    unsigned char longer[sizeof example_bin + 1] = {0};
    memcpy(longer, example_bin, sizeof example_bin);
    EXPECT_ERROR(open_and_verify(example_idx, sizeof example_idx, longer, sizeof longer), "do not belong together");
    // Two bytes more may be the modes of a multimodal dataset of two sequences; one is nothing.
    unsigned char modes[sizeof example_idx + 2] = {0};
    memcpy(modes, example_idx, sizeof example_idx);
    EXPECT_OK(open_and_verify(modes, sizeof modes, example_bin, sizeof example_bin));
    EXPECT_ERROR(open_and_verify(modes, sizeof modes - 1, example_bin, sizeof example_bin), "91 bytes");
}

// Every bit of .idx matters, but for the inner document boundaries: some of their changes give another valid dataset.
TEST(every_flipped_bit_is_found) {
    unsigned char idx[sizeof example_idx];
    int unnoticed = 0;
    for (size_t bit = 0; bit < 8 * sizeof idx; bit++) {
        memcpy(idx, example_idx, sizeof idx);
        idx[bit / 8] = (unsigned char)(idx[bit / 8] ^ 1u << bit % 8);
        if (open_and_verify(idx, sizeof idx, example_bin, sizeof example_bin) < 0) {
            EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
            EXPECT(strstr(error_message(), "example."));
            continue;
        }
        EXPECT(bit / 8 >= 66 && bit / 8 < 82);
        unnoticed++;
    }
    EXPECT_INT(unnoticed, 1);  // boundaries 0 1 1 2 -> 0 0 1 2; the others break the order
}

static void put(unsigned char *idx, size_t byte, int64_t value, size_t bytes) {
    memcpy(idx + byte, &value, bytes);
}

TEST(damage_is_named) {
    static const struct {
        size_t byte;
        int64_t value;
        size_t bytes;
        const char *message;
    } rows[] = {
        {0, 'X', 1, "byte 0: this is no Megatron index"},
        {9, 2, 8, "byte 9: version 2"},
        {17, 9, 1, "byte 17: dtype code 9"},
        {18, 3, 8, "90 bytes, but 3 sequences"},
        {18, INT64_MAX, 8, "do not fit a file of 90 bytes"},
        {18, -1, 8, "do not fit a file of 90 bytes"},
        {26, 0, 8, "byte 26: no document boundary"},
        {26, INT64_MAX / 2, 8, "do not fit a file of 90 bytes"},
        {34, -4, 4, "byte 34: sequence 0 has length -4"},
        {34, 5, 4, "byte 50: sequence 1 begins at byte 8"},
        {38, -3, 4, "byte 38: sequence 1 has length -3"},
        {38, INT32_MAX, 4, "example.idx describes 4294967302"},
        {42, 2, 8, "byte 42: sequence 0 begins at byte 2"},
        {50, -8, 8, "byte 50: sequence 1 begins at byte -8"},
        {50, INT64_MAX, 8, "byte 50: sequence 1 begins at byte 9223372036854775807"},
        {58, 1, 8, "byte 58: the first document begins at sequence 1"},
        {66, 3, 8, "byte 66: document boundary 1 is sequence 3"},
        {66, -1, 8, "byte 66: document boundary 1 is sequence -1"},
        {66, 2, 8, "byte 74: document boundary 2 is sequence 1, but it must lie between 2 and 2"},
        {82, 1, 8, "byte 82: the documents end at sequence 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned char idx[sizeof example_idx];
        memcpy(idx, example_idx, sizeof idx);
        put(idx, rows[i].byte, rows[i].value, rows[i].bytes);
        EXPECT_ERROR(open_and_verify(idx, sizeof idx, example_bin, sizeof example_bin), rows[i].message);
        EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
    }
}

// A dataset that opens may still lie inside; reads must stay in the map.
TEST(reads_of_damaged_files_are_safe) {
    unsigned char idx[sizeof example_idx];
    struct index_reader *r;
    int32_t out[16];
    memcpy(idx, example_idx, sizeof idx);
    put(idx, 34, 8, 4);
    EXPECT_OK(open_bytes(&r, idx, sizeof idx, example_bin, sizeof example_bin));
    EXPECT_ERROR(index_read(r, 0, 0, 8, out), "lies outside example.bin");
    index_close(r);
    put(idx, 34, INT32_MIN, 4);
    EXPECT_OK(open_bytes(&r, idx, sizeof idx, example_bin, sizeof example_bin));
    EXPECT_ERROR(index_read(r, 0, 0, 1, out), "has -2147483648 tokens");
    index_close(r);
}

TEST(floats_and_wide_tokens_are_refused) {
    unsigned char idx[sizeof example_idx], bin[56] = {0};
    struct index_reader *r;
    int32_t out[4];
    memcpy(idx, example_idx, sizeof idx);
    put(idx, 17, INDEX_F64, 1);
    put(idx, 50, 32, 8);
    EXPECT_OK(open_bytes(&r, idx, sizeof idx, bin, sizeof bin));
    EXPECT_ERROR(index_read(r, 0, 0, 1, out), "holds float64");
    EXPECT_ERROR(index_verify_tokens(r, 0), "holds float64");
    index_close(r);
    put(idx, 17, INDEX_I64, 1);
    put(bin, 40, INT64_C(1) << 40, 8);
    EXPECT_OK(open_bytes(&r, idx, sizeof idx, bin, sizeof bin));
    EXPECT_OK(index_read(r, 0, 0, 4, out));
    EXPECT_ERROR(index_read(r, 1, 0, 3, out), "byte 40: token 1 of sequence 1 does not fit 32 bits");
    EXPECT_ERROR(index_verify_tokens(r, 0), "byte 40: token 1 of sequence 1 does not fit 32 bits");
    put(bin, 40, -1, 8);
    EXPECT_ERROR(index_verify_tokens(r, 0), "is -1, but ids are not negative");
    index_close(r);
}

static void limit_file_size(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
}

TEST(full_disk_leaves_nothing) {
    scratch_open();
    limit_file_size(1 << 20);
    static int32_t tokens[1 << 16];
    struct index_writer *w;
    int result = index_writer_open(&w, scratch_path("full"), INDEX_I32);
    for (int i = 0; i < 100 && result == 0; i++)
        result = index_writer_add(w, tokens, 1 << 16);
    limit_file_size(RLIM_INFINITY);
    EXPECT(result < 0);
    EXPECT(strstr(error_message(), "full.bin"));
    index_writer_abort(w);
    EXPECT_INT(scratch_entries(), 0);
    scratch_close();
}

// .bin and the temporary lists fit, .idx does not: the dataset that was there before must still be whole.
TEST(full_disk_at_the_end_keeps_the_old_dataset) {
    scratch_open();
    write_example(scratch_path("a"), INDEX_U16);
    limit_file_size(1 << 20);
    struct index_writer *w;
    int result = index_writer_open(&w, scratch_path("a"), INDEX_U16);
    for (int i = 0; i < 100000 && result == 0; i++) {
        result = index_writer_add(w, (const int32_t[]){1}, 1);
        if (result == 0)
            result = index_writer_end_document(w);
    }
    int added = result;
    result = index_writer_commit(w);
    limit_file_size(RLIM_INFINITY);
    EXPECT_INT(added, 0);
    EXPECT(result < 0);
    EXPECT(strstr(error_message(), "a.idx"));
    EXPECT_INT(scratch_entries(), 2);
    struct index_reader *r;
    EXPECT_OK(index_open(&r, scratch_path("a")));
    EXPECT_OK(index_verify_tokens(r, 100));
    EXPECT_INT(r->document_count, 3);
    index_close(r);
    scratch_close();
}

TEST_MAIN(TEST_CASE(example_is_byte_exact), TEST_CASE(every_integer_dtype), TEST_CASE(reading),
          TEST_CASE(many_sequences), TEST_CASE(empty_datasets), TEST_CASE(appending),
          TEST_CASE(missing_and_replaced_files), TEST_CASE(every_truncation_is_found),
          TEST_CASE(every_flipped_bit_is_found), TEST_CASE(damage_is_named), TEST_CASE(reads_of_damaged_files_are_safe),
          TEST_CASE(floats_and_wide_tokens_are_refused), TEST_CASE(full_disk_leaves_nothing),
          TEST_CASE(full_disk_at_the_end_keeps_the_old_dataset))
