// The parts of SentencePiece models: the trie against a linear search, the unigram model against all segmentations, BPE
// with a heap against BPE without, and models that are truncated, malformed or senseless.
#include "data/tokenizer/charsmap.h"
#include "data/tokenizer/spm_model.h"
#include "data/tokenizer/trie.h"
#include "data/tokenizer/unigram.h"
#include "base/file.h"
#include "base/memory.h"
#include "text_fixture.h"
#include <limits.h>

#define MODELS "tests/golden/spm/"

static void random_key(uint64_t *state, char *text, size_t *length) {
    *length = 1 + next_random(state) % 5;
    for (size_t i = 0; i < *length; i++)
        text[i] = (char)(unsigned char)(next_random(state) % 3 == 0 ? 0 : 'a' + (char)(next_random(state) % 3));
}

TEST(trie_finds_what_a_list_finds) {
    enum { KEYS = 400 };
    static char texts[KEYS][8];
    struct trie_key keys[KEYS], copies[KEYS];
    uint64_t state = 5;
    for (int i = 0; i < KEYS; i++) {
        random_key(&state, texts[i], &keys[i].length);
        keys[i].text = texts[i];
        keys[i].value = i;
    }
    memcpy(copies, keys, sizeof keys);
    struct trie trie;
    trie_build(&trie, copies, KEYS);
    for (int k = 0; k < 5000; k++) {
        char text[8];
        size_t length;
        random_key(&state, text, &length);
        int32_t expected = -1;
        struct trie_match longest = {0, -1};
        for (int i = KEYS - 1; i >= 0; i--) {
            if (keys[i].length == length && memcmp(keys[i].text, text, length) == 0)
                expected = i;
            if (keys[i].length <= length && keys[i].length >= longest.length &&
                memcmp(keys[i].text, text, keys[i].length) == 0)
                longest = (struct trie_match){keys[i].length, i};
        }
        EXPECT_INT(trie_find(&trie, text, length), expected);
        struct trie_match found = trie_longest(&trie, text, length, INT_MAX);
        EXPECT_INT(found.length, longest.length);
        EXPECT_INT(found.value, longest.value);
    }
    trie_free(&trie);
    trie_build(&trie, NULL, 0);
    EXPECT_INT(trie_find(&trie, "a", 1), -1);
    trie_free(&trie);
}

// The best sum over all segmentations of text[at…length).
static double best_by_search(const struct unigram *unigram, const char *text, size_t at, size_t length) {
    if (at == length)
        return 0;
    double best = -INFINITY;
    for (size_t end = at + 1; end <= length; end++) {
        int32_t id = trie_find(&unigram->trie, text + at, end - at);
        if (id < 0 && end > at + 1)
            continue;
        double score = id >= 0 ? unigram->scores[id] : unigram->unknown_score;
        best = fmax(best, score + best_by_search(unigram, text, end, length));
    }
    return best;
}

static double sum_of(const struct unigram *unigram, const struct unigram_scratch *scratch, size_t length) {
    double sum = 0;
    size_t bytes = 0;
    for (int64_t i = 0; i < scratch->count; i++) {
        sum += scratch->pieces[i].id >= 0 ? unigram->scores[scratch->pieces[i].id] : unigram->unknown_score;
        bytes += (size_t)scratch->pieces[i].length;
    }
    EXPECT_INT(bytes, length);
    return sum;
}

TEST(unigram_takes_the_best_way) {
    static const char *const texts[] = {"a", "b", "ab", "ba", "aab", "abb", "bab", "aaaa", "c", "cab"};
    enum { COUNT = sizeof texts / sizeof texts[0] };
    struct trie_key keys[COUNT];
    struct unigram unigram = {.unknown_id = -1, .unknown_score = -20};
    unigram.scores = memory_alloc(COUNT * sizeof *unigram.scores);
    uint64_t state = 11;
    for (int i = 0; i < COUNT; i++) {
        keys[i] = (struct trie_key){texts[i], strlen(texts[i]), i};
        unigram.scores[i] = -(double)(1 + next_random(&state) % 1000) / 128;
    }
    trie_build(&unigram.trie, keys, COUNT);
    struct unigram_scratch scratch = {0};
    for (int k = 0; k < 2000; k++) {
        char text[12];
        size_t length = 1 + next_random(&state) % sizeof text;
        for (size_t i = 0; i < length; i++)
            text[i] = "abcd"[next_random(&state) % 4];
        double expected = best_by_search(&unigram, text, 0, length);
        EXPECT(unigram_best(&unigram, &scratch, text, length) >= 0);
        EXPECT_NEAR(sum_of(&unigram, &scratch, length), expected, 1e-12);
        // All scores are multiples of 1/128, so nothing is rounded here.
        EXPECT_NEAR(unigram_best_rounded(&unigram, &scratch, text, length, -5), expected - 5, 1e-12);
        EXPECT_NEAR(sum_of(&unigram, &scratch, length), expected, 1e-12);
    }
    // The sum is subtracted if it exceeds 100,000, at the beginning and inside.
    EXPECT_NEAR(unigram_best_rounded(&unigram, &scratch, "d", 1, -100001), -20, 0);
    EXPECT_NEAR(unigram_best_rounded(&unigram, &scratch, "dd", 2, -99990), -20, 0);
    EXPECT_NEAR(unigram_best_rounded(&unigram, &scratch, "d", 1, -99990), -100010, 0);
    unigram_free(&unigram);
    unigram_scratch_free(&scratch);
}

static struct buffer model_bytes(const char *name) {
    struct buffer bytes = {0};
    char *path = memory_printf(MODELS "%s.model", name);
    EXPECT_OK(file_read_all(path, 1 << 20, &bytes));
    free(path);
    return bytes;
}

static const char *const names[] = {"bpe", "unused", "unigram", "suffix", "char", "word", "odd"};
enum { NAMES = sizeof names / sizeof names[0] };

// Merging with and without a heap must give the same: a long text without a cut consists of words that are short by
// themselves.
TEST(long_and_short_merges_agree) {
    struct buffer bytes = model_bytes("bpe");
    struct spm_model *model;
    EXPECT_OK(spm_model_parse(&model, bytes.data, bytes.length, "bpe"));
    struct spm_bpe_scratch whole = {0}, part = {0};
    uint64_t state = 3;
    for (int k = 0; k < 300; k++) {
        // Spaces separate words in this model, which has no piece across one; a word has at most 30 symbols.
        struct buffer text = {0};
        struct token_list expected = {0};
        for (int word = 0; word < 20; word++) {
            size_t begin = text.length;
            buffer_append_byte(&text, ' ');
            for (size_t i = next_random(&state) % 30; i > 0; i--)
                buffer_append_byte(&text, "aabtheriso."[next_random(&state) % 11]);
            if (text.length == begin + 1)
                buffer_append_byte(&text, 'a');
            spm_bpe_encode(&model->bpe, &part, text.data + begin, text.length - begin);
            for (int64_t i = 0; i < part.count; i++)
                token_list_append(&expected, part.symbols[i].id);
        }
        spm_bpe_encode(&model->bpe, &whole, text.data, text.length);
        EXPECT_INT(whole.count, expected.count);
        for (int64_t i = 0; i < whole.count; i++)
            EXPECT_INT(whole.symbols[i].id, expected.ids[i]);
        buffer_free(&text);
        token_list_free(&expected);
    }
    spm_bpe_scratch_free(&whole);
    spm_bpe_scratch_free(&part);
    spm_model_free(model);
    buffer_free(&bytes);
}

// Encodes and decodes something, so that a sanitizer sees what a strange model does.
static void use_model(const struct spm_model *model) {
    static const char text[] = " The  the\tri\xE2\x96\x81ver <x> @@@ Gru\xCC\x88\xC3\x9F"
                               "e \xFF aaaa\n";
    struct spm_encoder *encoder = spm_encoder_create(model);
    struct token_list ids = {0};
    struct buffer back = {0};
    EXPECT_OK(spm_encode(encoder, text, sizeof text - 1, &ids));
    for (int64_t i = 0; i < ids.count; i++)
        EXPECT(ids.ids[i] >= 0 && ids.ids[i] < model->file.piece_count);
    spm_decode(model, ids.ids, ids.count, &back);
    token_list_free(&ids);
    buffer_free(&back);
    spm_encoder_free(encoder);
}

TEST(models_cut_short_are_refused) {
    for (int k = 0; k < NAMES; k++) {
        struct buffer bytes = model_bytes(names[k]);
        for (size_t length = 0; length < bytes.length; length += 1 + length / 100) {
            // A copy of the exact size, so that a read past the end is detected.
            char *part = memory_alloc(length + 1);
            memcpy(part, bytes.data, length);
            struct spm_model *model;
            error_clear();
            EXPECT_ERROR(spm_model_parse(&model, part, length, "cut.model"), "cut.model");
            free(part);
        }
        buffer_free(&bytes);
    }
}

TEST(bent_models_do_no_harm) {
    uint64_t state = 17;
    for (int k = 0; k < NAMES; k++) {
        struct buffer bytes = model_bytes(names[k]);
        for (int round = 0; round < 150; round++) {
            struct buffer bent = {0};
            buffer_append(&bent, bytes.data, bytes.length);
            for (uint64_t i = 1 + next_random(&state) % 4; i > 0; i--)
                bent.data[next_random(&state) % bent.length] = (char)(unsigned char)next_random(&state);
            struct spm_model *model;
            if (spm_model_parse(&model, bent.data, bent.length, "bent.model") == 0) {
                use_model(model);
                spm_model_free(model);
            }
            buffer_free(&bent);
        }
        buffer_free(&bytes);
    }
}

// A model of pieces in protocol buffer form: "\x0a LENGTH (\x0a LENGTH text) (\x15 score) (\x18 type)".
static void add_piece(struct buffer *out, const char *text, size_t length, float score, char type) {
    struct buffer piece = {0};
    buffer_printf(&piece, "\x0a%c", (char)length);
    buffer_append(&piece, text, length);
    buffer_append_byte(&piece, 0x15);
    buffer_append(&piece, &score, sizeof score);
    buffer_append_byte(&piece, 0x18);
    buffer_append_byte(&piece, type);
    buffer_printf(out, "\x0a%c", (char)piece.length);
    buffer_append(out, piece.data, piece.length);
    buffer_free(&piece);
}

// With empty settings of trainer and normalizer before the pieces.
static void expect_refused(struct buffer *model, const char *message) {
    struct spm_model *parsed;
    struct buffer whole = {0};
    buffer_append(&whole, "\x12\0\x1a", 4);
    buffer_append(&whole, buffer_string(model), model->length);
    EXPECT_ERROR(spm_model_parse(&parsed, whole.data, whole.length, "x.model"), message);
    EXPECT(parsed == NULL);
    buffer_free(&whole);
    buffer_clear(model);
}

TEST(senseless_models_are_refused) {
    struct buffer model = {0};
    expect_refused(&model, "has no pieces");
    add_piece(&model, "a", 1, 0, SPM_NORMAL);
    expect_refused(&model, "no piece of type unknown");
    add_piece(&model, "<unk>", 5, 0, SPM_UNKNOWN);
    add_piece(&model, "<u>", 3, 0, SPM_UNKNOWN);
    expect_refused(&model, "piece 1 is a second unknown piece");
    add_piece(&model, "<unk>", 5, 0, SPM_UNKNOWN);
    expect_refused(&model, "has only reserved pieces");
    add_piece(&model, "<unk>", 5, 0, SPM_UNKNOWN);
    add_piece(&model, "", 0, 0, SPM_NORMAL);
    expect_refused(&model, "piece 1 is empty");
    add_piece(&model, "<unk>", 5, 0, SPM_UNKNOWN);
    add_piece(&model, "\xC3", 1, 0, SPM_NORMAL);
    expect_refused(&model, "piece 1 is not UTF-8");
    add_piece(&model, "<unk>", 5, 0, SPM_UNKNOWN);
    add_piece(&model, "a", 1, NAN, SPM_NORMAL);
    expect_refused(&model, "score that is not a number");
    add_piece(&model, "<unk>", 5, 0, SPM_UNKNOWN);
    add_piece(&model, "a\0b", 3, 0, SPM_NORMAL);
    expect_refused(&model, "holds a NUL");
    add_piece(&model, "<unk>", 5, 0, SPM_UNKNOWN);
    add_piece(&model, "a", 1, 0, SPM_NORMAL);
    add_piece(&model, "a", 1, -1, SPM_USER_DEFINED);
    expect_refused(&model, "pieces 1 and 2 have the same text");
    add_piece(&model, "<unk>", 5, 0, SPM_UNKNOWN);
    add_piece(&model, "<0x41>", 6, 0, SPM_BYTE);
    expect_refused(&model, "byte fallback is off");
    add_piece(&model, "<unk>", 5, 0, SPM_UNKNOWN);
    buffer_append(&model, "\x12\x03\x98\x02\x01", 5);
    expect_refused(&model, "\"<0x00>\" is missing");
    buffer_append(&model, "\x0a\xFF", 2);
    expect_refused(&model, "byte 6: the file ends inside a number");
    buffer_append(&model, "\x0a\x05zz", 4);
    expect_refused(&model, "extends beyond the end");
    buffer_append(&model, "\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 12);
    expect_refused(&model, "more than ten bytes");
    buffer_free(&model);
}

// Rules of a hostile file: one would put kilobytes in place of a letter, and an index goes in a circle, so that the
// text would be rescanned from every place.
TEST(bent_rules_do_no_harm) {
    enum { UNITS = 256, LONG = 300, TEXT = 2000 };
    struct charsmap map;
    uint32_t trie_bytes = UNITS * 4;
    struct buffer blob = {0};
    buffer_append(&blob, &trie_bytes, sizeof trie_bytes);
    // Unit 'a' is its own child by the byte 'a': 'a' ^ distance ^ 'a' is 'a' for the distance 'a'.
    for (uint32_t i = 0; i < UNITS; i++) {
        uint32_t unit = i == 'a' ? (uint32_t)'a' << 10 | 'a' : 0;
        buffer_append(&blob, &unit, sizeof unit);
    }
    size_t without = blob.length;
    for (int i = 0; i < LONG; i++)
        buffer_append_byte(&blob, 'x');
    buffer_append_byte(&blob, '\0');
    EXPECT_ERROR(charsmap_read(&map, blob.data, blob.length, "m"), "inserts 300 bytes");
    EXPECT_OK(charsmap_read(&map, blob.data, without + 1, "m"));
    char text[TEXT];
    memset(text, 'a', sizeof text);
    EXPECT_INT(charsmap_longest(&map, text, sizeof text).length, 0);
    charsmap_free(&map);
    buffer_free(&blob);
}

TEST_MAIN(TEST_CASE(trie_finds_what_a_list_finds), TEST_CASE(unigram_takes_the_best_way),
          TEST_CASE(long_and_short_merges_agree), TEST_CASE(models_cut_short_are_refused),
          TEST_CASE(bent_models_do_no_harm), TEST_CASE(senseless_models_are_refused), TEST_CASE(bent_rules_do_no_harm))
