// Finds the special tokens of a vocabulary by the names that model families use, in one pass over all tokens. If a
// vocabulary has several of these names, the order of the lists below decides.
#include "data/sample/vocabulary.h"

#include "base/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_COUNT = 4 };

// Names in the vocabularies of BERT, SentencePiece (with Megatron's additions), RoBERTa and T5. A decoder begins with
// BOS; without one, with the sentence token [CLS] (Megatron since core 0.15); in T5's own vocabulary, with padding.
static const char *const cls_names[NAME_COUNT] = {"[CLS]", "<CLS>", "<cls>", "<s>"};
static const char *const sep_names[NAME_COUNT] = {"[SEP]", "<SEP>", "<sep>", "</s>"};
static const char *const mask_names[NAME_COUNT] = {"[MASK]", "<MASK>", "<mask>"};
static const char *const pad_names[NAME_COUNT] = {"[PAD]", "<PAD>", "<pad>"};
static const char *const bos_names[NAME_COUNT] = {"[BOS]", "<BOS>", "<s>", "[CLS]"};
static const char *const eos_names[NAME_COUNT] = {"[EOS]", "<EOS>", "</s>", "[SEP]"};

// The id for each name, -1 until found.
struct id_search {
    const char *const *names;
    int32_t found[NAME_COUNT];
};

static void look(struct id_search *search, const char *text, size_t length, int32_t id) {
    for (int i = 0; i < NAME_COUNT; i++)
        if (search->names[i] && search->found[i] < 0 && strlen(search->names[i]) == length &&
            memcmp(search->names[i], text, length) == 0)
            search->found[i] = id;
}

static int32_t first_found(const struct id_search *search) {
    for (int i = 0; i < NAME_COUNT; i++)
        if (search->found[i] >= 0)
            return search->found[i];
    return -1;
}

// N if the text is <extra_id_N>, else -1.
static int64_t sentinel_number(const char *text, size_t length) {
    static const char prefix[] = "<extra_id_";
    size_t at = sizeof prefix - 1;
    if (length < at + 2 || length > at + 8 || memcmp(text, prefix, at) != 0 || text[length - 1] != '>')
        return -1;
    int64_t number = 0;
    for (; at < length - 1; at++) {
        if (text[at] < '0' || text[at] > '9')
            return -1;
        number = 10 * number + (text[at] - '0');
    }
    return number;
}

static void add_sentinel(struct sample_vocabulary *vocabulary, int64_t number, int32_t id) {
    if (number >= vocabulary->sentinel_count) {
        vocabulary->sentinels =
            memory_realloc(vocabulary->sentinels, (size_t)(number + 1) * sizeof *vocabulary->sentinels);
        for (int64_t i = vocabulary->sentinel_count; i <= number; i++)
            vocabulary->sentinels[i] = -1;
        vocabulary->sentinel_count = number + 1;
    }
    vocabulary->sentinels[number] = id;
}

// Only the sentinels before the first gap can be used.
static void end_at_hole(struct sample_vocabulary *vocabulary) {
    for (int64_t i = 0; i < vocabulary->sentinel_count; i++)
        if (vocabulary->sentinels[i] < 0)
            vocabulary->sentinel_count = i;
}

void sample_vocabulary_make(struct sample_vocabulary *vocabulary, const struct tokenizer *tokenizer) {
    enum { CLS, SEP, MASK, PAD, BOS, EOS, COUNT };
    struct id_search searches[COUNT] = {{.names = cls_names}, {.names = sep_names}, {.names = mask_names},
                                        {.names = pad_names}, {.names = bos_names}, {.names = eos_names}};
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < NAME_COUNT; k++)
            searches[i].found[k] = -1;
    *vocabulary = (struct sample_vocabulary){.size = tokenizer_vocab_size(tokenizer)};
    vocabulary->continues = memory_alloc((size_t)vocabulary->size);
    for (int64_t id = 0; id < vocabulary->size; id++) {
        size_t length;
        const char *text = tokenizer_token(tokenizer, (int32_t)id, &length);
        if (!text)
            continue;
        vocabulary->continues[id] = length >= 2 && text[0] == '#' && text[1] == '#';
        for (int i = 0; i < COUNT; i++)
            look(&searches[i], text, length, (int32_t)id);
        int64_t number = sentinel_number(text, length);
        if (number >= 0)
            add_sentinel(vocabulary, number, (int32_t)id);
    }
    end_at_hole(vocabulary);
    vocabulary->cls = first_found(&searches[CLS]);
    vocabulary->sep = first_found(&searches[SEP]);
    vocabulary->mask = first_found(&searches[MASK]);
    vocabulary->pad = first_found(&searches[PAD]);
    vocabulary->bos = first_found(&searches[BOS]);
    vocabulary->eos = first_found(&searches[EOS]);
    if (vocabulary->bos < 0)
        vocabulary->bos = vocabulary->pad;
}

void sample_vocabulary_free(struct sample_vocabulary *vocabulary) {
    free(vocabulary->sentinels);
    free(vocabulary->continues);
    *vocabulary = (struct sample_vocabulary){0};
}
