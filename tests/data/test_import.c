// Importing fairseq's datasets: both kinds of index, every dtype, documents, and files damaged at every byte.
#include "data/import.h"

#include "data/index/fairseq_reader.h"
#include "fixture.h"

static const struct {
    const char *name;
    int32_t shift;  // of ids above 3
} goldens[] = {{"mmap_u16", 0}, {"mmap_i64", 0}, {"mmap_u32", 70000}, {"torchnet_i32", 0}, {"torchnet_i16", 0}};

static const char *golden_path(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "tests/golden/import/%s", name);
    return path;
}

static void check_sequences(const struct index_reader *r, int32_t shift) {
    FILE *expected = fopen("tests/golden/import/expected.txt", "r");
    EXPECT(expected);
    char line[256];
    int64_t sequence = 0;
    for (; fgets(line, sizeof line, expected); sequence++) {
        int32_t tokens[64], wanted;
        int64_t length = index_length(r, sequence);
        EXPECT_OK(index_read(r, sequence, 0, length, tokens));
        char *at = line;
        int read = 0;
        int64_t count = 0;
        for (; sscanf(at, "%" SCNd32 "%n", &wanted, &read) == 1; at += read, count++)
            EXPECT_INT(tokens[count], wanted > 3 ? wanted + shift : wanted);
        EXPECT_INT(length, count);
    }
    EXPECT_INT(r->sequence_count, sequence);
    fclose(expected);
}

TEST(every_kind) {
    for (size_t i = 0; i < sizeof goldens / sizeof goldens[0]; i++) {
        scratch_open();
        struct import_options options = {.output = scratch_path("out"), .eos = 2};
        struct import_summary summary;
        EXPECT_OK(import_fairseq(golden_path(goldens[i].name), &options, &summary));
        EXPECT_INT(summary.documents, 3);
        EXPECT_INT(summary.sequences, 10);
        EXPECT_INT(summary.separators, 5);
        EXPECT_INT(summary.largest_id, 19 + goldens[i].shift);
        struct index_reader *r;
        EXPECT_OK(index_open(&r, options.output));
        EXPECT_OK(index_verify_tokens(r, 0));
        EXPECT_INT(r->dtype, strstr(goldens[i].name, "16") ? INDEX_U16 : INDEX_I32);
        // A document includes the empty lines after it, the first one also those before.
        EXPECT_INT(r->document_count, 3);
        EXPECT_INT(index_document_begin(r, 1), 3);
        EXPECT_INT(index_document_begin(r, 2), 7);
        check_sequences(r, goldens[i].shift);
        index_close(r);
        EXPECT_INT(scratch_entries(), 3);
        scratch_close();
    }
}

TEST(lines_as_documents) {
    scratch_open();
    struct import_options options = {.output = scratch_path("out"), .eos = 2};
    options.lines_are_documents = true;
    options.vocab_size = 70000;
    struct import_summary summary;
    EXPECT_OK(import_fairseq(golden_path("mmap_u16"), &options, &summary));
    struct index_reader *r;
    EXPECT_OK(index_open(&r, options.output));
    EXPECT_INT(r->document_count, 10);
    EXPECT_INT(r->dtype, INDEX_I32);
    check_sequences(r, 0);
    index_close(r);
    scratch_close();
}

// ---- handmade files ----

static void write_pair(const char *name, const struct buffer *index, const void *tokens, size_t bytes) {
    char *index_path = memory_printf("%s/%s.idx", scratch, name),
         *tokens_path = memory_printf("%s/%s.bin", scratch, name);
    write_bytes(index_path, index->data, index->length);
    write_bytes(tokens_path, tokens, bytes);
    free(index_path);
    free(tokens_path);
}

static void add_u64(struct buffer *out, uint64_t value) {
    buffer_append(out, &value, sizeof value);
}

// A mmap index of uint16 items that follow each other.
static struct buffer mmap_index(const int32_t *lengths, int count) {
    struct buffer index = {0};
    buffer_append(&index, "MMIDIDX\0", 9);
    add_u64(&index, 1);
    buffer_append_byte(&index, 8);
    add_u64(&index, (uint64_t)count);
    buffer_append(&index, lengths, (size_t)count * 4);
    uint64_t byte = 0;
    for (int i = 0; i < count; i++) {
        add_u64(&index, byte);
        byte += 2 * (uint64_t)lengths[i];
    }
    return index;
}

TEST(empty_items_and_datasets) {
    static const int32_t lengths[] = {0, 2, 0, 0, 1, 0};
    static const uint16_t tokens[] = {7, 8, 9};
    scratch_open();
    struct buffer index = mmap_index(lengths, 6), none = mmap_index(lengths, 0);
    write_pair("in", &index, tokens, sizeof tokens);
    write_pair("none", &none, "", 0);
    struct import_options options = {.output = scratch_path("out"), .eos = 2};
    struct import_summary summary;
    EXPECT_OK(import_fairseq(scratch_path("in"), &options, &summary));
    EXPECT_INT(summary.documents, 2);
    EXPECT_INT(summary.sequences, 2);
    EXPECT_INT(summary.separators, 4);
    options.output = scratch_path("nothing");
    EXPECT_OK(import_fairseq(scratch_path("none"), &options, &summary));
    EXPECT_INT(summary.documents, 0);
    buffer_free(&index);
    buffer_free(&none);
    scratch_close();
}

static void expect_refused(const char *name, const char *text) {
    struct import_options options = {.output = scratch_path("out"), .eos = 2};
    struct import_summary summary;
    EXPECT_ERROR(import_fairseq(scratch_path(name), &options, &summary), text);
    EXPECT(!file_exists(scratch_path("out.idx")) && !file_exists(scratch_path("out.bin")));
}

TEST(what_is_refused) {
    static const int32_t lengths[] = {2, 1};
    static const uint16_t tokens[] = {7, 8, 9, 10};
    scratch_open();
    expect_refused("missing", "does not exist");
    struct buffer index = mmap_index(lengths, 2);
    write_pair("long", &index, tokens, 8);
    expect_refused("long", "do not belong together");
    write_pair("odd", &index, tokens, 5);
    expect_refused("odd", "not a whole number");
    write_pair("short", &index, tokens, 4);
    expect_refused("short", "item 1");
    index.data[17] = 7;
    write_pair("float", &index, tokens, 6);
    expect_refused("float", "dtype code 7");
    memcpy(index.data, "HUFFIDX\0", 9);
    write_pair("huffman", &index, tokens, 6);
    expect_refused("huffman", "--dataset-impl mmap");
    memcpy(index.data, "nothing\0", 9);
    write_pair("nothing", &index, tokens, 6);
    expect_refused("nothing", "not a fairseq index");
    make_dataset(scratch_path("megatron"), (const int64_t[]){3, 4}, 2);
    expect_refused("megatron", "needs no import");
    struct import_options options = {.output = scratch_path("out"), .eos = 2, .vocab_size = 19};
    struct import_summary summary;
    EXPECT_ERROR(import_fairseq(golden_path("mmap_u16"), &options, &summary), "is 19, beyond the dictionary of 19");
    buffer_free(&index);
    scratch_close();
}

// The dictionary of tests/golden/import has word0 … word15 as 4 … 19: this text is its golden lines.
TEST(text) {
    static const char lines[] = "\nword1 word2  word3 \n \n\tword4 word5 word6 word7\nword8\n\n\nword0\r\n"
                                "word9 word10 word15 word11\n\n";
    scratch_open();
    write_bytes(scratch_path("a.txt"), lines, sizeof lines - 1);
    struct tokenizer *tokenizer;
    struct tokenizer_options kind = {.type = "FairseqTokenizer", .model_file = "tests/golden/import/dict.txt"};
    EXPECT_OK(tokenizer_open(&tokenizer, &kind));
    struct import_text text = {.tokenizer = tokenizer};
    string_list_add(&text.files, scratch_path("a.txt"));
    struct import_options options = {.output = scratch_path("out"), .eos = 2, .vocab_size = 21};
    struct import_summary summary;
    static const char *const outputs[] = {"one", "two", "three"};
    for (text.threads = 1; text.threads <= 3; text.threads++) {
        options.output = scratch_path(outputs[text.threads - 1]);
        EXPECT_OK(import_text(&text, &options, &summary));
        EXPECT_INT(summary.documents, 3);
        EXPECT_INT(summary.separators, 5);
        struct index_reader *r;
        EXPECT_OK(index_open(&r, options.output));
        check_sequences(r, 0);
        EXPECT_INT(index_document_begin(r, 2), 7);
        index_close(r);
    }
    write_bytes(scratch_path("a.txt"), "word1\nword2 \xFF\n", 14);
    options.output = scratch_path("out");
    write_bytes(scratch_path("out.bin"), "x", 1);
    // A .bin without an .idx may belong to another program.
    EXPECT_ERROR(import_text(&text, &options, &summary), "out.bin exists; give another name, or remove it first");
    unlink(scratch_path("out.bin"));
    EXPECT_ERROR(import_text(&text, &options, &summary), "line 2: byte 6 is not UTF-8");
    EXPECT(!file_exists(scratch_path("out.idx")));
    string_list_free(&text.files);
    tokenizer_free(tokenizer);
    scratch_close();
}

// Every byte of both indexes and every length: every change or truncation is detected, except in the value of a token.
TEST(every_damage_is_found) {
    scratch_open();
    for (size_t i = 0; i < sizeof goldens / sizeof goldens[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "tests/golden/import/%s.idx", goldens[i].name);
        struct buffer index = read_bytes(path);
        snprintf(path, sizeof path, "tests/golden/import/%s.bin", goldens[i].name);
        struct buffer tokens = read_bytes(path);
        for (size_t byte = 0; byte < index.length; byte++)
            for (int bit = 0; bit < 8; bit++) {
                index.data[byte] = (char)(index.data[byte] ^ 1 << bit);
                struct fairseq_reader *r;
                struct file_map maps[] = {{(unsigned char *)index.data, index.length},
                                          {(unsigned char *)tokens.data, tokens.length}};
                int status = fairseq_reader_open_bytes(&r, "damaged", maps[0], maps[1]);
                if (status == 0) {
                    struct fairseq_walk walk = {.reader = r};
                    uint64_t first;
                    int64_t length;
                    while ((status = fairseq_walk_next(&walk, &first, &length)) == 1)
                        continue;
                    fairseq_reader_close(r);
                }
                // Signed and unsigned types of one width look the same until a value is too large.
                bool is_dtype = byte == (index.data[0] == 'M' ? 17u : 16u);
                EXPECT(status < 0 || is_dtype);
                index.data[byte] = (char)(index.data[byte] ^ 1 << bit);
            }
        for (size_t length = 0; length < index.length; length++) {
            struct fairseq_reader *r;
            struct file_map maps[] = {{(unsigned char *)index.data, length},
                                      {(unsigned char *)tokens.data, tokens.length}};
            EXPECT(fairseq_reader_open_bytes(&r, "cut", maps[0], maps[1]) < 0);
        }
        buffer_free(&index);
        buffer_free(&tokens);
    }
    scratch_close();
}

TEST_MAIN(TEST_CASE(every_kind), TEST_CASE(lines_as_documents), TEST_CASE(empty_items_and_datasets),
          TEST_CASE(what_is_refused), TEST_CASE(text), TEST_CASE(every_damage_is_found))
