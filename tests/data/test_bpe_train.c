// BPE training: merges against Hugging Face's trainer (tests/golden/make_bpe.py), any number of threads, ties, counts
// beyond 32 bits, time for long words, files that load again.
#include "data/tokenizer/bpe_train.h"
#include "data/tokenizer/bpe.h"
#include "broken_disk.h"
#include "fixture.h"
#include "text_fixture.h"

// Trains on files with this many threads and writes vocab.json and merges.txt into the scratch folder.
static void train_files(const struct string_list *inputs, int threads, int64_t vocab_size) {
    struct bpe_corpus corpus = {.inputs = *inputs, .format = TEXT_FORMAT_AUTO, .threads = threads};
    struct bpe_corpus_summary summary;
    struct byte_table words = {0};
    struct bpe_merges merges;
    string_list_add(&corpus.keys, "text");
    EXPECT_OK(bpe_count_corpus(&words, &corpus, &summary));
    EXPECT_OK(bpe_train(&merges, &words, &(struct bpe_train_options){vocab_size, 2, false}));
    EXPECT_OK(bpe_save(&merges, &(struct bpe_files){scratch_path("vocab.json"), scratch_path("merges.txt"), NULL}));
    string_list_free(&corpus.keys);
    bpe_merges_free(&merges);
    byte_table_free(&words);
}

static void expect_same_file(const char *path, const char *expected_path) {
    struct buffer actual = read_bytes(path), expected = read_bytes(expected_path);
    EXPECT_INT(actual.length, expected.length);
    EXPECT(memcmp(actual.data, expected.data, expected.length) == 0);
    buffer_free(&actual);
    buffer_free(&expected);
}

TEST(merges_equal_hugging_face) {
    scratch_open();
    struct string_list inputs = {0};
    string_list_add(&inputs, GOLDEN "corpus.txt");
    for (int threads = 1; threads <= 5; threads += 2) {
        train_files(&inputs, threads, 600);
        expect_same_file(scratch_path("merges.txt"), GOLDEN "merges.txt");
    }
    struct vocabulary ours, golden;
    EXPECT_OK(vocabulary_read_json(&ours, scratch_path("vocab.json")));
    EXPECT_OK(vocabulary_read_json(&golden, GOLDEN "vocab.json"));
    EXPECT_INT(ours.size, golden.size);
    for (int32_t id = 0; id < golden.size; id++) {
        size_t length, expected;
        EXPECT_STRING(vocabulary_string(&ours, id, &length), vocabulary_string(&golden, id, &expected));
        EXPECT_INT(length, expected);
    }
    vocabulary_free(&ours);
    vocabulary_free(&golden);
    string_list_free(&inputs);
    scratch_close();
}

// The golden corpus as JSON Lines, one document per line: the same pieces, so the same merges.
TEST(json_lines_are_documents) {
    scratch_open();
    struct buffer text = read_bytes(GOLDEN "corpus.txt"), lines = {0};
    for (char *at = text.data, *end; (end = strchr(at, '\n')); at = end + 1) {
        struct json_writer json = {.out = &lines};
        json_begin_object(&json);
        json_key(&json, "title");
        json_cstring(&json, "not learned from");
        json_key(&json, "text");
        json_string(&json, at, (size_t)(end + 1 - at));
        json_end_object(&json);
        buffer_append_byte(&lines, '\n');
    }
    write_bytes(scratch_path("a.jsonl"), lines.data, lines.length);
    struct string_list inputs = {0};
    string_list_add(&inputs, scratch_path("*.jsonl"));
    train_files(&inputs, 2, 600);
    expect_same_file(scratch_path("merges.txt"), GOLDEN "merges.txt");
    string_list_free(&inputs);
    buffer_free(&text);
    buffer_free(&lines);
    scratch_close();
}

static void add_word(struct byte_table *words, const char *word, int64_t count) {
    byte_table_get(words, (const unsigned char *)word, strlen(word))->value += count;
}

static int32_t byte_id(char byte) {
    return byte - 33;  // of a printable ASCII character
}

// Equal counts go to the smaller pair of ids, whatever the order of the words.
TEST(ties_go_to_the_smaller_pair) {
    for (int order = 0; order < 2; order++) {
        struct byte_table words = {0};
        struct bpe_merges merges;
        add_word(&words, order ? "xy" : "ab", 5);
        add_word(&words, order ? "ab" : "xy", 5);
        add_word(&words, "ax", 5);
        EXPECT_OK(bpe_train(&merges, &words, &(struct bpe_train_options){257 + 2, 2, false}));
        EXPECT_INT(merges.count, 2);
        EXPECT_INT(merges.items[0].left, byte_id('a'));
        EXPECT_INT(merges.items[0].right, byte_id('b'));
        EXPECT_INT(merges.items[0].id, 256);
        EXPECT_INT(merges.items[1].left, byte_id('a'));
        EXPECT_INT(merges.items[1].right, byte_id('x'));
        bpe_merges_free(&merges);
        byte_table_free(&words);
    }
}

// A pair that occurs more than 2^32 times must not be ranked too low.
TEST(counts_have_64_bits) {
    struct byte_table words = {0};
    struct bpe_merges merges;
    add_word(&words, "ab", ((int64_t)1 << 32) + 1);
    add_word(&words, "cd", 1000);
    EXPECT_OK(bpe_train(&merges, &words, &(struct bpe_train_options){258, 2, false}));
    EXPECT_INT(merges.count, 1);
    EXPECT_INT(merges.items[0].left, byte_id('a'));
    bpe_merges_free(&merges);
    byte_table_free(&words);
}

TEST(rare_pairs_are_not_merged) {
    struct byte_table words = {0};
    struct bpe_merges merges;
    add_word(&words, "abc", 3);
    add_word(&words, "xy", 2);
    EXPECT_OK(bpe_train(&merges, &words, &(struct bpe_train_options){1000, 3, false}));
    EXPECT_INT(merges.count, 2);
    EXPECT_INT(merges.token_count, 258);
    bpe_merges_free(&merges);
    EXPECT_OK(bpe_train(&merges, &words, &(struct bpe_train_options){1000, 1, false}));
    EXPECT_INT(merges.count, 3);
    bpe_merges_free(&merges);
    EXPECT_OK(bpe_train(&merges, &words, &(struct bpe_train_options){257, 1, false}));
    EXPECT_INT(merges.count, 0);
    bpe_merges_free(&merges);
    EXPECT_ERROR(bpe_train(&merges, &words, &(struct bpe_train_options){256, 1, false}), "make 257 the minimum");
    byte_table_free(&words);
}

// Merges by recounting everything each time; words are lists of ids.
enum { NAIVE_WORDS = 60, NAIVE_LENGTH = 24 };
struct naive {
    int32_t ids[NAIVE_WORDS][NAIVE_LENGTH];
    int length[NAIVE_WORDS];
    int64_t weight[NAIVE_WORDS];
};

static bool naive_best(const struct naive *naive, int32_t best[2]) {
    int64_t most = 0;
    for (int w = 0; w < NAIVE_WORDS; w++)
        for (int i = 0; i + 1 < naive->length[w]; i++) {
            int32_t left = naive->ids[w][i], right = naive->ids[w][i + 1];
            int64_t count = 0;
            for (int v = 0; v < NAIVE_WORDS; v++)
                for (int j = 0; j + 1 < naive->length[v]; j++)
                    if (naive->ids[v][j] == left && naive->ids[v][j + 1] == right)
                        count += naive->weight[v];
            bool smaller = left < best[0] || (left == best[0] && right < best[1]);
            if (count > most || (count == most && smaller)) {
                most = count;
                best[0] = left;
                best[1] = right;
            }
        }
    return most >= 2;
}

static void naive_merge(struct naive *naive, const int32_t pair[2], int32_t id) {
    for (int w = 0; w < NAIVE_WORDS; w++) {
        int kept = 0;
        int32_t *ids = naive->ids[w];
        for (int i = 0; i < naive->length[w]; kept++) {
            bool merges = i + 1 < naive->length[w] && ids[i] == pair[0] && ids[i + 1] == pair[1];
            ids[kept] = merges ? id : ids[i];
            i += merges ? 2 : 1;
        }
        naive->length[w] = kept;
    }
}

// Few letters cause runs and overlaps, where the bookkeeping is hardest.
TEST(merges_equal_a_naive_trainer) {
    uint64_t state = 9;
    for (int round = 0; round < 12; round++) {
        struct byte_table words = {0};
        struct naive naive = {0};
        int letters = 1 + round % 4;
        for (int w = 0; w < NAIVE_WORDS; w++) {
            char word[NAIVE_LENGTH + 1] = {0};
            naive.length[w] = 1 + (int)(next_random(&state) % NAIVE_LENGTH);
            naive.weight[w] = 1 + (int64_t)(next_random(&state) % 3);
            for (int i = 0; i < naive.length[w]; i++) {
                word[i] = (char)('a' + (int)(next_random(&state) % (uint64_t)letters));
                naive.ids[w][i] = byte_id(word[i]);
            }
            add_word(&words, word, naive.weight[w]);
        }
        struct bpe_merges merges;
        EXPECT_OK(bpe_train(&merges, &words, &(struct bpe_train_options){257 + 40, 2, false}));
        for (int64_t i = 0; i < merges.count; i++) {
            int32_t best[2] = {INT32_MAX, INT32_MAX};
            EXPECT(naive_best(&naive, best));
            EXPECT_INT(merges.items[i].left, best[0]);
            EXPECT_INT(merges.items[i].right, best[1]);
            naive_merge(&naive, best, merges.items[i].id);
        }
        bpe_merges_free(&merges);
        byte_table_free(&words);
    }
}

// In quadratic time this would take hours.
TEST(long_words_take_no_quadratic_time) {
    struct byte_table words = {0};
    struct bpe_merges merges;
    struct buffer word = {0};
    uint64_t state = 5;
    while (word.length < 1000000)
        buffer_append_byte(&word, (char)('a' + (int)(next_random(&state) % 26)));
    add_word(&words, word.data, 1);
    memset(word.data, 'z', word.length);
    add_word(&words, word.data, 1);
    EXPECT_OK(bpe_train(&merges, &words, &(struct bpe_train_options){5000, 2, false}));
    EXPECT(merges.count > 4000);
    bpe_merges_free(&merges);
    byte_table_free(&words);
    buffer_free(&word);
}

TEST(bad_corpora_are_errors) {
    scratch_open();
    struct bpe_corpus corpus = {.format = TEXT_FORMAT_AUTO, .threads = 2};
    struct bpe_corpus_summary summary;
    struct byte_table words = {0};
    string_list_add(&corpus.keys, "text");
    string_list_add(&corpus.inputs, scratch_path("a.jsonl"));
    EXPECT_ERROR(bpe_count_corpus(&words, &corpus, &summary), "no such file");
    write_bytes(scratch_path("a.jsonl"), "", 0);
    EXPECT_ERROR(bpe_count_corpus(&words, &corpus, &summary), "no text to train on");
    const char *bad = "{\"text\": \"one two\"}\n{\"text\": 3}\n{\"text\": \"three\"}\n";
    write_bytes(scratch_path("a.jsonl"), bad, strlen(bad));
    EXPECT_ERROR(bpe_count_corpus(&words, &corpus, &summary), "a.jsonl:2: ");
    corpus.skip_bad_lines = true;
    EXPECT_OK(bpe_count_corpus(&words, &corpus, &summary));
    EXPECT_INT(summary.bad_lines, 1);
    EXPECT_INT(words.count, 3);
    byte_table_free(&words);
    string_list_free(&corpus.keys);
    string_list_free(&corpus.inputs);
    scratch_close();
}

// The disk fails at each sync of a file and of the folder in turn: all three files are written or none.
TEST(a_failing_disk_leaves_no_part_of_a_tokenizer) {
    scratch_open();
    write_bytes(scratch_path("notes"), "kept", 4);
    struct bpe_merge merge = {'a', 'b', 256};
    struct bpe_merges merges = {.items = &merge, .count = 1, .token_count = 257};
    struct bpe_files files = {scratch_path("vocab.json"), scratch_path("merges.txt"), scratch_path("tokenizer.json")};
    for (int of_folders = 0; of_folders < 2; of_folders++)
        for (int n = 1; n <= 3; n++) {
            break_folders = of_folders;
            syncs_until_failure = n;
            EXPECT_ERROR(bpe_save(&merges, &files), "sync");
            EXPECT_INT(scratch_entries(), 1);
        }
    break_folders = false;
    EXPECT_OK(bpe_save(&merges, &files));
    EXPECT_INT(scratch_entries(), 4);
    // A name that cannot be taken: the files that were published before it go.
    EXPECT(unlink(files.vocab) == 0 && unlink(files.merges) == 0 && unlink(files.json) == 0);
    EXPECT_OK(file_make_folders(files.json));
    EXPECT_ERROR(bpe_save(&merges, &files), "it is a folder");
    EXPECT_INT(scratch_entries(), 2);
    scratch_close();
}

TEST(what_is_saved_can_be_opened) {
    scratch_open();
    struct string_list inputs = {0};
    string_list_add(&inputs, GOLDEN "corpus.txt");
    train_files(&inputs, 1, 300);
    struct tokenizer *tokenizer;
    struct tokenizer_options options = {.vocab_file = scratch_path("vocab.json"),
                                        .merge_file = scratch_path("merges.txt")};
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    EXPECT_INT(tokenizer_vocab_size(tokenizer), 300);
    EXPECT_INT(tokenizer_eod(tokenizer), 299);
    tokenizer_free(tokenizer);
    string_list_free(&inputs);
    scratch_close();
}

TEST_MAIN(TEST_CASE(merges_equal_hugging_face), TEST_CASE(json_lines_are_documents),
          TEST_CASE(ties_go_to_the_smaller_pair), TEST_CASE(counts_have_64_bits), TEST_CASE(rare_pairs_are_not_merged),
          TEST_CASE(merges_equal_a_naive_trainer), TEST_CASE(long_words_take_no_quadratic_time),
          TEST_CASE(bad_corpora_are_errors), TEST_CASE(a_failing_disk_leaves_no_part_of_a_tokenizer),
          TEST_CASE(what_is_saved_can_be_opened))
