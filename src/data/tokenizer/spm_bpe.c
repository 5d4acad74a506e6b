// Merging. Short texts (nearly all words) are merged in small arrays by searching for the best pair repeatedly; long
// ones with a heap of (rank, position), so that no text takes quadratic time. A heap entry is outdated if the pair at
// its position no longer has its rank.
//
// After all merging, SentencePiece splits a piece of type "unused" again, into the two parts of the pair that was last
// found to form it anywhere in the text. So for models with such pieces every pair is recorded when it is found
// (history), in the order in which SentencePiece finds them.
#include "data/tokenizer/spm_bpe.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/tokenizer/character.h"
#include "data/tokenizer/spm_normalise.h"
#include <stdlib.h>
#include <string.h>

enum { SHORT_SYMBOLS = 40 };
#define NO_RANK UINT32_MAX

// A negative symbol never merges: a character that is in no piece, or a user-defined symbol with its id.
enum { STRANGE = -1 };
static int32_t frozen(int32_t id) {
    return -2 - id;
}

struct spm_bpe_node {
    int32_t symbol;
    int32_t length;    // bytes; 0: merged into the one before
    int32_t previous;  // -1 at the beginning
    int32_t next;      // -1 at the end
    int32_t piece;     // the piece it forms with the next
    uint32_t rank;     // of that piece, NO_RANK if there is none
};

struct spm_bpe_history {
    int32_t left, right;  // symbols; -1 for none
};

void spm_bpe_scratch_free(struct spm_bpe_scratch *scratch) {
    free(scratch->symbols);
    free(scratch->nodes);
    free(scratch->heap);
    free(scratch->history);
    free(scratch->stack);
    *scratch = (struct spm_bpe_scratch){0};
}

// Makes room for one more item.
static void *room_for_one(void *items, int64_t count, int64_t *capacity, size_t size) {
    if (count < *capacity)
        return items;
    *capacity = *capacity ? 2 * *capacity : 64;
    return memory_realloc(items, (size_t)*capacity * size);
}

static void emit(const struct spm_bpe *bpe, struct spm_bpe_scratch *scratch, int32_t symbol, int32_t length) {
    int32_t id = symbol >= 0 ? bpe->symbol_ids[symbol] : symbol == STRANGE ? bpe->unknown_id : frozen(symbol);
    scratch->symbols =
        room_for_one(scratch->symbols, scratch->count, &scratch->symbol_capacity, sizeof *scratch->symbols);
    scratch->symbols[scratch->count++] = (struct spm_symbol){id, length};
}

// The first symbol of the text, and its bytes.
static int32_t first_symbol(const struct spm_bpe *bpe, const char *text, size_t length, size_t *bytes) {
    if (trie_step(&bpe->user_defined, TRIE_ROOT, (unsigned char)text[0]) >= 0) {
        struct trie_match match = spm_match_user_defined(&bpe->user_defined, text, length);
        if (match.length > 0) {
            *bytes = match.length;
            return frozen(match.value);
        }
    }
    *bytes = character_bytes((unsigned char)text[0], length);
    int32_t symbol = trie_find(&bpe->symbols, text, *bytes);
    return symbol >= 0 ? symbol : STRANGE;
}

// ---- short texts ----

struct short_text {
    int count;
    int32_t symbols[SHORT_SYMBOLS];
    int32_t lengths[SHORT_SYMBOLS];
    int32_t pieces[SHORT_SYMBOLS];  // the piece each forms with the next
    uint32_t ranks[SHORT_SYMBOLS];
};

static void pair_short(const struct spm_bpe *bpe, struct short_text *text, int i) {
    text->ranks[i] = NO_RANK;
    if (i + 1 >= text->count || text->symbols[i] < 0 || text->symbols[i + 1] < 0)
        return;
    const struct spm_pair *pair = spm_bpe_pair(bpe, text->symbols[i], text->symbols[i + 1]);
    if (pair->piece >= 0) {
        text->pieces[i] = pair->piece;
        text->ranks[i] = pair->rank;
    }
}

static void merge_short(const struct spm_bpe *bpe, struct short_text *text) {
    for (int i = 0; i < text->count; i++)
        pair_short(bpe, text, i);
    for (;;) {
        int best = 0;
        for (int i = 1; i < text->count; i++)
            if (text->ranks[i] < text->ranks[best])
                best = i;
        if (text->ranks[best] == NO_RANK)
            return;
        text->symbols[best] = text->pieces[best];
        text->lengths[best] += text->lengths[best + 1];
        text->count--;
        size_t rest = (size_t)(text->count - best - 1);
        memmove(&text->symbols[best + 1], &text->symbols[best + 2], rest * sizeof text->symbols[0]);
        memmove(&text->lengths[best + 1], &text->lengths[best + 2], rest * sizeof text->lengths[0]);
        memmove(&text->pieces[best + 1], &text->pieces[best + 2], rest * sizeof text->pieces[0]);
        memmove(&text->ranks[best + 1], &text->ranks[best + 2], rest * sizeof text->ranks[0]);
        if (best > 0)
            pair_short(bpe, text, best - 1);
        pair_short(bpe, text, best);
    }
}

// False, and nothing is done, if the text has too many symbols.
static bool encode_short(const struct spm_bpe *bpe, struct spm_bpe_scratch *scratch, const char *bytes, size_t length) {
    struct short_text text;
    text.count = 0;
    for (size_t at = 0, step; at < length; at += step) {
        if (text.count == SHORT_SYMBOLS)
            return false;
        text.symbols[text.count] = first_symbol(bpe, bytes + at, length - at, &step);
        text.lengths[text.count++] = (int32_t)step;
    }
    merge_short(bpe, &text);
    for (int i = 0; i < text.count; i++)
        emit(bpe, scratch, text.symbols[i], text.lengths[i]);
    return true;
}

// ---- long texts ----

static void heap_push(struct spm_bpe_scratch *scratch, uint64_t key) {
    scratch->heap = room_for_one(scratch->heap, scratch->heap_count, &scratch->heap_capacity, sizeof *scratch->heap);
    int64_t at = scratch->heap_count++;
    while (at > 0 && scratch->heap[(at - 1) / 2] > key) {
        scratch->heap[at] = scratch->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    scratch->heap[at] = key;
}

static uint64_t heap_pop(struct spm_bpe_scratch *scratch) {
    uint64_t *heap = scratch->heap, top = heap[0], last = heap[--scratch->heap_count];
    int64_t at = 0, child;
    while ((child = 2 * at + 1) < scratch->heap_count) {
        if (child + 1 < scratch->heap_count && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= last)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

static void pair_long(const struct spm_bpe *bpe, struct spm_bpe_scratch *scratch, int32_t left) {
    struct spm_bpe_node *node = &scratch->nodes[left];
    node->rank = NO_RANK;
    int32_t right_symbol = node->next < 0 ? STRANGE : scratch->nodes[node->next].symbol;
    if (node->symbol < 0 || right_symbol < 0)
        return;
    const struct spm_pair *pair = spm_bpe_pair(bpe, node->symbol, right_symbol);
    if (pair->piece < 0)
        return;
    node->piece = pair->piece;
    node->rank = pair->rank;
    heap_push(scratch, (uint64_t)pair->rank << 32 | (uint32_t)left);
    if (bpe->is_unused && bpe->is_unused[pair->piece])
        scratch->history[pair->piece] = (struct spm_bpe_history){node->symbol, right_symbol};
}

static int32_t make_nodes(const struct spm_bpe *bpe, struct spm_bpe_scratch *scratch, const char *text, size_t length) {
    int32_t count = 0;
    for (size_t at = 0, step; at < length; at += step) {
        int32_t symbol = first_symbol(bpe, text + at, length - at, &step);
        if ((size_t)count == scratch->node_capacity) {
            scratch->node_capacity = scratch->node_capacity ? 2 * scratch->node_capacity : 256;
            scratch->nodes = memory_realloc(scratch->nodes, scratch->node_capacity * sizeof *scratch->nodes);
        }
        scratch->nodes[count] = (struct spm_bpe_node){
            .symbol = symbol, .length = (int32_t)step, .previous = count - 1, .next = count + 1, .rank = NO_RANK};
        count++;
    }
    scratch->nodes[count - 1].next = -1;
    return count;
}

static void merge_long(const struct spm_bpe *bpe, struct spm_bpe_scratch *scratch, int32_t count) {
    scratch->heap_count = 0;
    for (int32_t i = 0; i + 1 < count; i++)
        pair_long(bpe, scratch, i);
    while (scratch->heap_count > 0) {
        uint64_t key = heap_pop(scratch);
        int32_t left = (int32_t)(uint32_t)key;
        struct spm_bpe_node *node = &scratch->nodes[left];
        if (node->rank != (uint32_t)(key >> 32))
            continue;
        struct spm_bpe_node *right = &scratch->nodes[node->next];
        node->symbol = node->piece;
        node->length += right->length;
        node->next = right->next;
        if (right->next >= 0)
            scratch->nodes[right->next].previous = left;
        right->length = 0;
        right->rank = NO_RANK;
        if (node->previous >= 0)
            pair_long(bpe, scratch, node->previous);
        pair_long(bpe, scratch, left);
    }
}

// Writes a symbol, or the parts of an unused piece.
static void emit_parts(const struct spm_bpe *bpe, struct spm_bpe_scratch *scratch, const struct spm_bpe_node *node) {
    int64_t depth = 0;
    int32_t symbol = node->symbol;
    for (;;) {
        bool is_made =
            symbol >= 0 && symbol < bpe->piece_count && bpe->is_unused[symbol] && scratch->history[symbol].left >= 0;
        if (is_made) {
            scratch->stack = room_for_one(scratch->stack, depth, &scratch->stack_capacity, sizeof *scratch->stack);
            scratch->stack[depth++] = scratch->history[symbol].right;
            symbol = scratch->history[symbol].left;
            continue;
        }
        emit(bpe, scratch, symbol, symbol >= 0 ? bpe->symbol_lengths[symbol] : node->length);
        if (depth == 0)
            return;
        symbol = scratch->stack[--depth];
    }
}

static void encode_long(const struct spm_bpe *bpe, struct spm_bpe_scratch *scratch, const char *text, size_t length) {
    if (bpe->is_unused && !scratch->history) {
        size_t bytes = (size_t)bpe->piece_count * sizeof *scratch->history;
        scratch->history = memory_alloc(bytes);
        memset(scratch->history, 0xFF, bytes);
    }
    int32_t count = make_nodes(bpe, scratch, text, length);
    merge_long(bpe, scratch, count);
    for (int32_t i = 0; i >= 0; i = scratch->nodes[i].next) {
        if (bpe->is_unused)
            emit_parts(bpe, scratch, &scratch->nodes[i]);
        else
            emit(bpe, scratch, scratch->nodes[i].symbol, scratch->nodes[i].length);
    }
}

void spm_bpe_encode(const struct spm_bpe *bpe, struct spm_bpe_scratch *scratch, const char *text, size_t length) {
    CHECK(length < INT32_MAX);
    scratch->count = 0;
    if (length > 0 && (bpe->is_unused || !encode_short(bpe, scratch, text, length)))
        encode_long(bpe, scratch, text, length);
}
