// layer: data
// A vocabulary file and a text from hostile bytes (VOCAB NUL TEXT): ids must be in range, and encoding again with a
// warm cache must give the same ids.
#include "fuzz.h"

#include "data/tokenizer/normal_form.h"
#include "data/tokenizer/wordpiece.h"
#include <string.h>

static void check_text(const struct bert *bert, int64_t size, const char *text, size_t length) {
    struct bert_state state;
    struct token_list ids = {0};
    bert_state_create(&state);
    for (int again = 0; again < 2; again++)
        if (bert_encode(bert, &state, text, length, &ids) < 0)
            abort();
    if (ids.count % 2 ||
        (ids.count && memcmp(ids.ids, ids.ids + ids.count / 2, (size_t)ids.count / 2 * sizeof *ids.ids) != 0))
        abort();
    for (int64_t i = 0; i < ids.count; i++)
        if (ids.ids[i] < 0 || ids.ids[i] >= size)
            abort();
    token_list_free(&ids);
    bert_state_free(&state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *nul = memchr(data, 0, size);
    struct wordpiece_vocab vocab;
    if (!nul || normal_form_require() < 0 ||
        wordpiece_vocab_parse(&vocab, (const char *)data, (size_t)(nul - data), "vocab") < 0)
        return 0;
    static struct unicode_table *table;  // made once for all inputs
    if (!table)
        table = unicode_table_create(UNICODE_EDITION_16);
    int32_t node = trie_step(&vocab.trie, TRIE_ROOT, '#');
    struct bert bert = {
        .model = {.trie = &vocab.trie,
                  .continued = node < 0 ? -1 : trie_step(&vocab.trie, node, '#'),
                  .unknown = 0,
                  .most_chars = 20},
        .rules =
            {.table = table, .decomposed = table, .google = size % 2, .lower = size % 3, .strip_accents = size % 5},
    };
    check_text(&bert, vocab.lines.size, (const char *)nul + 1, (size_t)(data + size - nul - 1));
    wordpiece_vocab_free(&vocab);
    return 0;
}
