// Deduplication and shuffling against NumPy's order and against a naive version in memory, with much memory and with
// very little: the files must be identical.
#include "data/index/rearrange.h"

#include "base/rng.h"
#include "fixture.h"
#include <sys/resource.h>

static struct index_rearrange_summary rearrange(const struct index_rearrange_options *options) {
    struct index_rearrange_summary summary = {0};
    EXPECT_OK(index_rearrange(options, &summary));
    return summary;
}

static void expect_same_bytes(const char *a, const char *b) {
    struct buffer of_a = read_bytes(a), of_b = read_bytes(b);
    EXPECT_INT(of_a.length, of_b.length);
    EXPECT(of_a.length == 0 || memcmp(of_a.data, of_b.data, of_a.length) == 0);
    buffer_free(&of_a);
    buffer_free(&of_b);
}

// ---- the order in NumPy ----

static void check_order(uint64_t seed, int64_t count, const char *expected) {
    struct index_writer *w;
    EXPECT_OK(index_writer_open(&w, scratch_path("in"), INDEX_I32));
    for (int32_t i = 0; i < count; i++) {
        EXPECT_OK(index_writer_add(w, &i, 1));
        EXPECT_OK(index_writer_end_document(w));
    }
    EXPECT_OK(index_writer_commit(w));
    char *in = memory_string(scratch_path("in")), *out = memory_string(scratch_path("out"));
    for (int small = 0; small < 2; small++) {
        rearrange(&(struct index_rearrange_options){
            .inputs = &in, .outputs = &out, .count = 1, .shuffle = true, .seed = seed, .memory_bytes = small ? 1 : 0});
        struct index_reader *r;
        EXPECT_OK(index_open(&r, out));
        EXPECT_OK(index_verify_tokens(r, count));
        EXPECT_INT(r->document_count, count);
        const char *at = expected;
        for (int64_t i = 0; i < count && i < 32; i++) {
            int32_t token;
            int read = 0, wanted;
            EXPECT_INT(sscanf(at, "%d%n", &wanted, &read), 1);
            at += read;
            EXPECT_OK(index_read(r, i, 0, 1, &token));
            EXPECT_INT(token, wanted);
        }
        index_close(r);
    }
    free(in);
    free(out);
}

TEST(order_as_numpy) {
    FILE *golden = fopen("tests/golden/rearrange.txt", "r");
    EXPECT(golden);
    char line[1024];
    int cases = 0;
    scratch_open();
    while (fgets(line, sizeof line, golden)) {
        uint64_t seed;
        int64_t count;
        int text = 0;
        EXPECT_INT(sscanf(line, "shuffle %" SCNu64 " %" SCNd64 " %n", &seed, &count, &text), 2);
        check_order(seed, count, line + text);
        cases++;
    }
    EXPECT_INT(cases, 30);
    scratch_close();
    fclose(golden);
}

// ---- random datasets, against a naive copy ----

struct rearrange_corpus {
    int64_t documents;
    int64_t *sequences;  // (documents)
    int64_t lengths[4000][4];
    int32_t *tokens[4000][4];
};

// Documents of 0 to 4 sequences; few kinds of short ones, so that many are equal, or equal except for the cuts.
static struct rearrange_corpus *make_corpus(struct mt19937 *mt, int64_t documents) {
    struct rearrange_corpus *corpus = memory_alloc(sizeof *corpus);
    corpus->documents = documents;
    corpus->sequences = memory_alloc((size_t)documents * sizeof *corpus->sequences + 1);
    for (int64_t i = 0; i < documents; i++) {
        corpus->sequences[i] = (int64_t)mt19937_interval(mt, 4);
        bool is_long = mt19937_interval(mt, 50) == 0;
        for (int64_t j = 0; j < corpus->sequences[i]; j++) {
            int64_t length = 1 + (int64_t)mt19937_interval(mt, is_long ? 20000 : 2);
            corpus->lengths[i][j] = length;
            corpus->tokens[i][j] = memory_alloc((size_t)length * sizeof(int32_t));
            for (int64_t k = 0; k < length; k++)
                corpus->tokens[i][j][k] = (int32_t)mt19937_interval(mt, is_long ? 60000 : 1);
        }
    }
    return corpus;
}

static void free_corpus(struct rearrange_corpus *corpus) {
    for (int64_t i = 0; i < corpus->documents; i++)
        for (int64_t j = 0; j < corpus->sequences[i]; j++)
            free(corpus->tokens[i][j]);
    free(corpus->sequences);
    free(corpus);
}

static void write_corpus(const struct rearrange_corpus *corpus, const char *prefix, enum index_dtype dtype,
                         const int64_t *order, int64_t count) {
    struct index_writer *w;
    EXPECT_OK(index_writer_open(&w, prefix, dtype));
    for (int64_t i = 0; i < count; i++) {
        int64_t document = order ? order[i] : i;
        for (int64_t j = 0; j < corpus->sequences[document]; j++)
            EXPECT_OK(index_writer_add(w, corpus->tokens[document][j], corpus->lengths[document][j]));
        EXPECT_OK(index_writer_end_document(w));
    }
    EXPECT_OK(index_writer_commit(w));
}

static bool documents_are_equal(const struct rearrange_corpus *corpus, int64_t a, int64_t b) {
    if (corpus->sequences[a] != corpus->sequences[b])
        return false;
    for (int64_t j = 0; j < corpus->sequences[a]; j++)
        if (corpus->lengths[a][j] != corpus->lengths[b][j] ||
            memcmp(corpus->tokens[a][j], corpus->tokens[b][j], (size_t)corpus->lengths[a][j] * sizeof(int32_t)) != 0)
            return false;
    return true;
}

static uint64_t key_of(uint64_t seed, int64_t i) {
    struct philox p = philox4x32(seed, (uint32_t)i, (uint32_t)((uint64_t)i >> 32), 0x53485546, 0);
    return (uint64_t)p.word[1] << 32 | p.word[0];
}

enum order { AS_IT_IS, SHUFFLED, DEALT, ORDERS };
enum { PILES = 7 };

// Deals documents to piles in turn, then concatenates the piles.
static void deal(int64_t *order, int64_t count) {
    int64_t *dealt = memory_alloc((size_t)count * sizeof *dealt + 1), at = 0;
    for (int64_t pile = 0; pile < PILES; pile++)
        for (int64_t i = pile; i < count; i += PILES)
            dealt[at++] = order[i];
    memcpy(order, dealt, (size_t)count * sizeof *order);
    free(dealt);
}

// The expected result, the slow way. Returns how many documents are left.
static int64_t naive_order(struct rearrange_corpus *const *corpora, int parts, bool dedup, enum order wanted,
                           uint64_t seed, int64_t *order) {
    int64_t kept = 0;
    for (int64_t i = 0; i < corpora[0]->documents; i++) {
        bool is_seen = false;
        for (int64_t k = 0; dedup && !is_seen && k < kept; k++) {
            is_seen = true;
            for (int part = 0; part < parts; part++)
                is_seen = is_seen && documents_are_equal(corpora[part], order[k], i);
        }
        if (!is_seen)
            order[kept++] = i;
    }
    if (wanted == DEALT)
        deal(order, kept);
    if (wanted != SHUFFLED)
        return kept;
    int64_t *place = memory_alloc((size_t)kept * sizeof *place + 1);
    for (int64_t i = 0; i < kept; i++)
        place[i] = i;
    for (int64_t i = 1; i < kept; i++)
        for (int64_t j = i; j > 0 && key_of(seed, place[j]) < key_of(seed, place[j - 1]); j--) {
            int64_t swapped = place[j];
            place[j] = place[j - 1];
            place[j - 1] = swapped;
        }
    for (int64_t i = 0; i < kept; i++)
        place[i] = order[place[i]];
    memcpy(order, place, (size_t)kept * sizeof *order);
    free(place);
    return kept;
}

static void check_corpus(uint32_t seed, int parts, int64_t documents, bool dedup, enum order wanted) {
    struct mt19937 mt;
    mt19937_seed(&mt, seed);
    struct rearrange_corpus *corpora[2];
    char *inputs[2], *outputs[2];
    for (int part = 0; part < parts; part++) {
        corpora[part] = make_corpus(&mt, documents);
        inputs[part] = memory_string(scratch_path(part ? "in1" : "in0"));
        outputs[part] = memory_string(scratch_path(part ? "out1" : "out0"));
        write_corpus(corpora[part], inputs[part], part ? INDEX_I32 : INDEX_U16, NULL, documents);
    }
    int64_t *order = memory_alloc((size_t)documents * sizeof *order + 1);
    int64_t kept = naive_order(corpora, parts, dedup, wanted, seed, order);
    static const size_t memories[] = {1, 200000, 0};
    for (int i = 0; i < 6; i++) {
        struct index_rearrange_options options = {.inputs = inputs,
                                                  .outputs = outputs,
                                                  .count = parts,
                                                  .dedup = dedup,
                                                  .shuffle = wanted == SHUFFLED,
                                                  .seed = seed,
                                                  .partitions = wanted == AS_IT_IS ? 1 : PILES,
                                                  .memory_bytes = memories[i % 3],
                                                  .hash_bits = i < 3 ? 0 : 3};
        struct index_rearrange_summary summary = rearrange(&options);
        EXPECT_INT(summary.documents_read, documents);
        EXPECT_INT(summary.documents_written, kept);
        EXPECT_INT(summary.duplicates, documents - kept);
        for (int part = 0; part < parts; part++) {
            write_corpus(corpora[part], scratch_path("expected"), part ? INDEX_I32 : INDEX_U16, order, kept);
            expect_same_bytes(scratch_path(part ? "out1.bin" : "out0.bin"), scratch_path("expected.bin"));
            expect_same_bytes(scratch_path(part ? "out1.idx" : "out0.idx"), scratch_path("expected.idx"));
        }
    }
    for (int part = 0; part < parts; part++) {
        free_corpus(corpora[part]);
        free(inputs[part]);
        free(outputs[part]);
    }
    free(order);
}

TEST(same_bytes_as_the_naive_way) {
    static const int64_t counts[] = {0, 1, 2, 40, 1500};
    scratch_open();
    for (uint32_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int parts = 1; parts <= 2; parts++)
            for (int what = 0; what < 2 * ORDERS; what++)
                check_corpus(100 * i + (uint32_t)(10 * parts + what), parts, counts[i], what % 2,
                             (enum order)(what / 2));
    scratch_close();
}

TEST(in_place) {
    static const int64_t lengths[] = {5, 9, 3, 12, 7, 4, 10, 6};
    scratch_open();
    make_dataset(scratch_path("a"), lengths, 8);
    make_dataset(scratch_path("b"), lengths, 8);
    char *a = memory_string(scratch_path("a")), *b = memory_string(scratch_path("b")),
         *c = memory_string(scratch_path("c"));
    struct index_rearrange_options options = {.inputs = &b, .outputs = &c, .count = 1, .shuffle = true, .seed = 9};
    struct index_rearrange_summary summary = rearrange(&options);
    EXPECT_INT(summary.tokens_written, 56);
    options.inputs = options.outputs = &a;
    rearrange(&options);
    expect_same_bytes(scratch_path("a.bin"), scratch_path("c.bin"));
    expect_same_bytes(scratch_path("a.idx"), scratch_path("c.idx"));
    EXPECT_INT(scratch_entries(), 6);
    free(a);
    free(b);
    free(c);
    scratch_close();
}

// Our datasets have no empty sequences, but the format allows them.
TEST(empty_sequences) {
    static const int64_t lengths[] = {0, 3, 0, 0, 2, 0}, none[] = {0, 0, 0};
    scratch_open();
    make_dataset(scratch_path("a"), lengths, 6);
    make_dataset(scratch_path("n"), none, 3);
    char *a = memory_string(scratch_path("a")), *n = memory_string(scratch_path("n")),
         *c = memory_string(scratch_path("c"));
    struct index_rearrange_options options = {.inputs = &a, .outputs = &c, .count = 1, .dedup = true, .shuffle = true};
    EXPECT_INT(rearrange(&options).documents_written, 3);
    options.inputs = &n;
    EXPECT_INT(rearrange(&options).documents_written, 1);
    struct index_reader *r;
    EXPECT_OK(index_open(&r, c));
    EXPECT_INT(r->sequence_count, 1);
    index_close(r);
    free(a);
    free(n);
    free(c);
    scratch_close();
}

TEST(what_can_be_wrong) {
    static const int64_t lengths[] = {5, 9, 3};
    scratch_open();
    make_dataset(scratch_path("a"), lengths, 3);
    make_dataset(scratch_path("b"), lengths, 2);
    char *inputs[] = {memory_string(scratch_path("a")), memory_string(scratch_path("b"))};
    char *outputs[] = {memory_string(scratch_path("x")), memory_string(scratch_path("y"))};
    struct index_rearrange_options options = {.inputs = inputs, .outputs = outputs, .count = 2, .shuffle = true};
    struct index_rearrange_summary summary;
    EXPECT_ERROR(index_rearrange(&options, &summary), "made together");
    free(inputs[1]);
    inputs[1] = memory_string(scratch_path("missing"));
    EXPECT_ERROR(index_rearrange(&options, &summary), "does not exist");
    options.count = 1;
    free(outputs[0]);
    outputs[0] = memory_string(scratch_path("a.bin/folder"));
    EXPECT_ERROR(index_rearrange(&options, &summary), "a.bin");
    EXPECT_INT(scratch_entries(), 4);
    for (int i = 0; i < 2; i++) {
        free(inputs[i]);
        free(outputs[i]);
    }
    scratch_close();
}

TEST_MAIN(TEST_CASE(order_as_numpy), TEST_CASE(same_bytes_as_the_naive_way), TEST_CASE(in_place),
          TEST_CASE(empty_sequences), TEST_CASE(what_can_be_wrong))
