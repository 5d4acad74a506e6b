// Counts the pieces of a corpus: one thread reads chunks of lines, all threads split and count, each into its own
// table, and the tables are added up at the end.
#include "data/tokenizer/bpe_train.h"
#include "data/extract/inputs.h"
#include "data/extract/jsonl.h"
#include "data/pipeline.h"
#include "data/tokenizer/byte_map.h"
#include "data/tokenizer/splitter.h"
#include "data/tokenizer/token_list.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct count_worker {
    struct byte_table words;
    struct jsonl_parser parser;
};

struct counting {
    const struct bpe_corpus *corpus;
    struct line_reader *lines;
    struct count_worker *workers;  // (threads)
    const struct string_list *files;
    bool *are_plain;          // (files)
    uint64_t stride, chunks;  // see read_chunk
    struct splitter *splitter;
    struct bpe_corpus_summary *summary;
    struct progress progress;
};

// Splits the text by GPT-2's pattern and counts the pieces.
static void count_text(struct byte_table *words, const struct splitter *splitter, const char *text, size_t length) {
    const unsigned char *at = (const unsigned char *)text, *end = at + length;
    uint32_t ends[SPLIT_MOST];
    unsigned char state = 0;
    while (at < end) {
        int count = split_pieces(splitter, at, (size_t)(end - at), ends, &state);
        for (int i = 0; i < count; i++) {
            uint32_t begin = i > 0 ? ends[i - 1] : 0;
            byte_table_get(words, at + begin, ends[i] - begin)->value++;
        }
        at += ends[count - 1];
    }
}

// The chunk's path is one of the strings in the list of files, or stands for standard input.
static bool is_plain(const struct counting *run, const char *path) {
    int64_t i = 0;
    while (i < run->files->count && run->files->items[i] != path)
        i++;
    return i < run->files->count ? run->are_plain[i] : run->corpus->format != TEXT_FORMAT_JSONL;
}

// In a large corpus, takes the first of every `stride` chunks.
static int read_chunk(void *context, void *item) {
    struct counting *run = context;
    int status;
    do
        status = line_reader_next(run->lines, item);
    while (status > 0 && run->chunks++ % run->stride != 0);
    return status;
}

static int count_chunk(void *context, void *item, int thread) {
    struct counting *run = context;
    const struct line_chunk *chunk = item;
    struct count_worker *worker = &run->workers[thread];
    bool is_text = is_plain(run, chunk->path);
    struct line_cursor cursor = {.chunk = chunk};
    while (line_cursor_next(&cursor)) {
        if (is_text) {
            count_text(&worker->words, run->splitter, cursor.line, cursor.length + cursor.has_newline);
            continue;
        }
        int status = jsonl_parse(&worker->parser, &cursor);
        TRY(status);
        for (int64_t key = 0; status > 0 && key < run->corpus->keys.count; key++) {
            const struct json_text *text = &worker->parser.found[key];
            const char *at = text->text.data;
            for (size_t i = 0; i < text->count; at += text->lengths[i++])
                count_text(&worker->words, run->splitter, at, text->lengths[i]);
        }
    }
    return 0;
}

static int note_chunk(void *context, void *item) {
    struct counting *run = context;
    const struct line_chunk *chunk = item;
    run->summary->text_bytes += chunk->text.length;
    progress_update(&run->progress, (double)chunk->input_bytes / 1e6, NULL);
    return 0;
}

static void free_chunk(void *item) {
    buffer_free(&((struct line_chunk *)item)->text);
}

static int run_pipeline(struct counting *run, const struct string_list *files) {
    struct pipeline pipeline = {
        .threads = run->corpus->threads,
        .item_bytes = sizeof(struct line_chunk),
        .context = run,
        .produce = read_chunk,
        .work = count_chunk,
        .consume = note_chunk,
        .free_item = free_chunk,
    };
    progress_begin(&run->progress, "counting", "MB", (double)inputs_bytes(files) / 1e6);
    int status = pipeline_run(&pipeline);
    progress_end(&run->progress, NULL);
    return status;
}

static int count_files(struct byte_table *words, struct counting *run, const struct string_list *files) {
    const struct bpe_corpus *corpus = run->corpus;
    const struct table_columns columns = {(const char *const *)corpus->keys.items, corpus->keys.count};
    struct line_options lines = {
        .paths = (const char *const *)files->items,
        .path_count = files->count,
        .line_limit = corpus->line_limit,
        .columns = corpus->format == TEXT_FORMAT_PLAIN ? NULL : &columns,
    };
    struct jsonl_options jsonl = {
        .keys = (const char *const *)corpus->keys.items,
        .key_count = corpus->keys.count,
        .skip_bad_lines = corpus->skip_bad_lines,
    };
    run->workers = memory_alloc((size_t)corpus->threads * sizeof *run->workers);
    for (int i = 0; i < corpus->threads; i++)
        jsonl_parser_init(&run->workers[i].parser, &jsonl);
    line_reader_open(&run->lines, &lines);
    int status = run_pipeline(run, files);
    line_reader_close(run->lines);
    for (int i = 0; i < corpus->threads; i++) {
        struct count_worker *worker = &run->workers[i];
        if (status == 0)
            byte_table_sum(words, &worker->words);
        if (worker->parser.problem)
            log_warn("skipped %s", worker->parser.problem);
        run->summary->bad_lines += worker->parser.bad_lines;
        byte_table_free(&worker->words);
        jsonl_parser_free(&worker->parser);
    }
    free(run->workers);
    return status;
}

static int find_formats(struct counting *run, const struct string_list *files) {
    uint64_t bytes = inputs_bytes(files), enough = run->corpus->enough_bytes;
    run->files = files;
    run->stride = enough > 0 && bytes > enough ? (bytes + enough - 1) / enough : 1;
    run->are_plain = memory_alloc((size_t)files->count * sizeof *run->are_plain);
    for (int64_t i = 0; i < files->count; i++)
        TRY(text_format_find(&run->are_plain[i], run->corpus->format, files->items[i]));
    return 0;
}

// A sample says nothing about the rest of the text.
static bool has_text(const struct byte_table *words, bool is_sample) {
    for (int64_t i = 0; i < words->count; i++)
        if (is_sample || !utf8_is_blank(byte_table_text(words, &words->strings[i]), words->strings[i].length))
            return true;
    return false;
}

int bpe_count_corpus(struct byte_table *words, const struct bpe_corpus *corpus, struct bpe_corpus_summary *summary) {
    *summary = (struct bpe_corpus_summary){0};
    struct string_list files = {0};
    struct counting run = {
        .corpus = corpus, .summary = summary, .splitter = splitter_create(split_pattern_by_name("gpt2"))};
    int status = inputs_expand(&files, &corpus->inputs);
    if (status == 0)
        status = find_formats(&run, &files);
    if (status == 0)
        status = count_files(words, &run, &files);
    if (status == 0 && !has_text(words, run.stride > 1))
        status = bad_data("%s%s: no text to train on%s", files.items[0], files.count > 1 ? " and the other inputs" : "",
                          words->count > 0 ? ", only blanks" : "");
    string_list_free(&files);
    free(run.are_plain);
    splitter_free(run.splitter);
    return status;
}

// ---- merges ----

// Finds the merges. All words are in one array of symbols, one place per byte and one place between words. A token of n
// bytes at position p has its id at p and, if n > 1, -n at p + n - 1, so that both neighbours are found in constant
// time; places inside a token are negative. So the cost of a merge depends only on the places it touches, not on the
// length of words. Every pair has a list of the places where it occurs; they are checked when the pair is merged.

// ---- pairs by count ----

// Pairs of neighbouring tokens during BPE training: how often each occurs, where, and which is the most frequent.
// Counts are weighted by the frequency of words and need 64 bits. The queue is lazy: a pair whose count has fallen
// since it was added is reinserted with its true count when it comes to the top.

struct pair_place {
    uint32_t position;  // of the pair's first token in the symbols
    uint32_t word;
};

struct pair {
    int32_t left, right;
    int64_t count;
    struct pair_place *places;  // increasing; some may no longer exist
    int64_t place_count, place_capacity;
    bool touched;  // its count has risen since pair_queue_refresh
};

struct pair_queue {
    struct pair *pairs;
    int64_t count, capacity;
    int64_t *slots;  // hash table of pair numbers + 1, 0 if free
    size_t slot_mask;
    struct pair_candidate *heap;
    int64_t heap_count, heap_capacity;
    int64_t *touched;
    int64_t touched_count, touched_capacity;
};

struct pair_candidate {
    int64_t count;  // when it was added
    int64_t pair;
};

static void pair_queue_free(struct pair_queue *queue) {
    for (int64_t i = 0; i < queue->count; i++)
        free(queue->pairs[i].places);
    free(queue->pairs);
    free(queue->slots);
    free(queue->heap);
    free(queue->touched);
    *queue = (struct pair_queue){0};
}

// ---- the table ----

static size_t slot_of(const struct pair_queue *queue, int32_t left, int32_t right) {
    uint64_t key = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;
    key ^= key >> 32;
    size_t slot = (size_t)key & queue->slot_mask;
    while (queue->slots[slot]) {
        const struct pair *pair = &queue->pairs[queue->slots[slot] - 1];
        if (pair->left == left && pair->right == right)
            break;
        slot = (slot + 1) & queue->slot_mask;
    }
    return slot;
}

static void grow_slots(struct pair_queue *queue) {
    size_t slots = queue->slots ? 2 * (queue->slot_mask + 1) : 1024;
    free(queue->slots);
    queue->slots = memory_alloc(slots * sizeof *queue->slots);
    queue->slot_mask = slots - 1;
    for (int64_t i = 0; i < queue->count; i++)
        queue->slots[slot_of(queue, queue->pairs[i].left, queue->pairs[i].right)] = i + 1;
}

static int64_t find_or_create(struct pair_queue *queue, int32_t left, int32_t right) {
    if (!queue->slots || 2 * (size_t)queue->count >= queue->slot_mask)
        grow_slots(queue);
    size_t slot = slot_of(queue, left, right);
    if (!queue->slots[slot]) {
        MEMORY_GROW(queue->pairs, queue->count, queue->capacity);
        queue->pairs[queue->count++] = (struct pair){.left = left, .right = right};
        queue->slots[slot] = queue->count;
    }
    return queue->slots[slot] - 1;
}

// Adds weight occurrences of a pair at a place.
static void pair_queue_add(struct pair_queue *queue, int32_t left, int32_t right, int64_t weight,
                           struct pair_place place) {
    int64_t number = find_or_create(queue, left, right);
    struct pair *pair = &queue->pairs[number];
    // Millions of pairs have few places each.
    if (pair->place_count == pair->place_capacity) {
        pair->place_capacity = 2 * pair->place_capacity + 2;
        pair->places = memory_realloc(pair->places, (size_t)pair->place_capacity * sizeof *pair->places);
    }
    pair->places[pair->place_count++] = place;
    pair->count += weight;
    if (pair->touched)
        return;
    pair->touched = true;
    MEMORY_GROW(queue->touched, queue->touched_count, queue->touched_capacity);
    queue->touched[queue->touched_count++] = number;
}

// Removes `weight` occurrences; places are unchanged.
static void pair_queue_remove(struct pair_queue *queue, int32_t left, int32_t right, int64_t weight) {
    size_t slot = slot_of(queue, left, right);
    CHECK(queue->slots[slot]);
    queue->pairs[queue->slots[slot] - 1].count -= weight;
}

// ---- the heap ----

static bool goes_before(const struct pair_queue *queue, struct pair_candidate a, struct pair_candidate b) {
    if (a.count != b.count)
        return a.count > b.count;
    const struct pair *x = &queue->pairs[a.pair], *y = &queue->pairs[b.pair];
    return x->left != y->left ? x->left < y->left : x->right < y->right;
}

static void heap_push(struct pair_queue *queue, struct pair_candidate candidate) {
    MEMORY_GROW(queue->heap, queue->heap_count, queue->heap_capacity);
    int64_t at = queue->heap_count++;
    for (; at > 0 && goes_before(queue, candidate, queue->heap[(at - 1) / 2]); at = (at - 1) / 2)
        queue->heap[at] = queue->heap[(at - 1) / 2];
    queue->heap[at] = candidate;
}

static struct pair_candidate heap_pop(struct pair_queue *queue) {
    struct pair_candidate top = queue->heap[0], last = queue->heap[--queue->heap_count];
    int64_t at = 0;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= queue->heap_count)
            break;
        if (child + 1 < queue->heap_count && goes_before(queue, queue->heap[child + 1], queue->heap[child]))
            child++;
        if (!goes_before(queue, queue->heap[child], last))
            break;
        queue->heap[at] = queue->heap[child];
        at = child;
    }
    queue->heap[at] = last;
    return top;
}

// Inserts the pairs that have grown since the last call into the queue.
static void pair_queue_refresh(struct pair_queue *queue) {
    for (int64_t i = 0; i < queue->touched_count; i++) {
        struct pair *pair = &queue->pairs[queue->touched[i]];
        pair->touched = false;
        if (pair->count > 0)
            heap_push(queue, (struct pair_candidate){pair->count, queue->touched[i]});
    }
    queue->touched_count = 0;
}

// Removes the most frequent pair, ties by the smaller (left, right). False if no pair occurs any more. The caller frees
// pair->places, and calls pair_queue_settle when all occurrences are merged.
static bool pair_queue_pop(struct pair_queue *queue, struct pair *out) {
    while (queue->heap_count > 0) {
        struct pair_candidate top = heap_pop(queue);
        struct pair *pair = &queue->pairs[top.pair];
        if (pair->count > 0 && pair->count != top.count) {
            heap_push(queue, (struct pair_candidate){pair->count, top.pair});
            continue;
        }
        *out = *pair;
        pair->places = NULL;
        pair->place_count = pair->place_capacity = 0;
        if (out->count > 0)
            return true;
        free(out->places);
    }
    return false;
}

static void pair_queue_settle(struct pair_queue *queue, int32_t left, int32_t right) {
    size_t slot = slot_of(queue, left, right);
    CHECK(queue->slots[slot]);
    queue->pairs[queue->slots[slot] - 1].count = 0;
}

// ---- training ----

enum { BETWEEN_WORDS = INT32_MIN, INSIDE = INT32_MIN + 1, BYTE_TOKENS = 256, SPECIAL_TOKENS = 1 };

struct training {
    const struct byte_table *words;
    unsigned char *bytes;  // the byte at each position
    int32_t *symbols;      // (size)
    size_t size;
    struct pair_queue pairs;
    struct byte_table tokens;  // bytes of each token; value is its id + 1
    int32_t *lengths;          // (token count, capacity as below) bytes of each token
    int64_t length_capacity;
    struct bpe_merges *merges;
};

static void set_length(struct training *training, int64_t id, int32_t length) {
    MEMORY_GROW(training->lengths, id, training->length_capacity);
    training->lengths[id] = length;
}

// ---- the array of symbols ----

static int lay_out_words(struct training *training) {
    const struct byte_table *words = training->words;
    struct byte_map map;
    byte_map_init(&map);
    int32_t id_of_byte[256];
    for (int id = 0; id < BYTE_TOKENS; id++) {
        id_of_byte[map.in_order[id]] = id;
        set_length(training, id, 1);
        byte_table_get(&training->tokens, &map.in_order[id], 1)->value = id + 1;
    }
    training->size = words->bytes.length + (size_t)words->count + 1;
    if (training->size > UINT32_MAX || words->count > UINT32_MAX)
        return error_set("the corpus has %zu bytes of distinct words, more than training can index; train on a sample",
                         words->bytes.length);
    training->symbols = memory_alloc(training->size * sizeof *training->symbols);
    training->bytes = memory_alloc(training->size);
    size_t at = 0;
    training->symbols[at++] = BETWEEN_WORDS;
    for (int64_t w = 0; w < words->count; w++) {
        const struct byte_string *word = &words->strings[w];
        memcpy(training->bytes + at, words->bytes.data + word->begin, word->length);
        for (size_t i = 0; i < word->length; i++, at++)
            training->symbols[at] = id_of_byte[training->bytes[at]];
        training->symbols[at++] = BETWEEN_WORDS;
    }
    return 0;
}

static void add_pairs(struct training *training) {
    const int32_t *symbols = training->symbols;
    uint32_t at = 1;
    for (int64_t w = 0; w < training->words->count; w++, at++) {
        for (; symbols[at] != BETWEEN_WORDS; at++)
            if (symbols[at + 1] != BETWEEN_WORDS)
                pair_queue_add(&training->pairs, symbols[at], symbols[at + 1], training->words->strings[w].value,
                               (struct pair_place){at, (uint32_t)w});
    }
    pair_queue_refresh(&training->pairs);
}

// Position of the token that ends just before `at`, or of the gap between words.
static uint32_t previous(const struct training *training, uint32_t at) {
    int32_t symbol = training->symbols[at - 1];
    return symbol >= 0 || symbol == BETWEEN_WORDS ? at - 1 : at - (uint32_t)-symbol;
}

// ---- merging ----

// Merges one occurrence, if it still exists, and corrects the counts of the pairs on both sides.
static void merge_at(struct training *training, struct bpe_merge merge, struct pair_place place) {
    int32_t *symbols = training->symbols;
    uint32_t at = place.position;
    if (symbols[at] != merge.left)
        return;
    uint32_t right = at + (uint32_t)training->lengths[merge.left];
    if (symbols[right] != merge.right)
        return;
    uint32_t end = right + (uint32_t)training->lengths[merge.right];
    int64_t weight = training->words->strings[place.word].value;
    uint32_t before = previous(training, at);
    int32_t left_neighbour = symbols[before], right_neighbour = symbols[end];
    if (left_neighbour >= 0)
        pair_queue_remove(&training->pairs, left_neighbour, merge.left, weight);
    if (right_neighbour >= 0)
        pair_queue_remove(&training->pairs, merge.right, right_neighbour, weight);
    symbols[right] = INSIDE;
    symbols[at] = merge.id;
    symbols[end - 1] = -(int32_t)(end - at);
    if (left_neighbour >= 0)
        pair_queue_add(&training->pairs, left_neighbour, merge.id, weight, (struct pair_place){before, place.word});
    if (right_neighbour >= 0)
        pair_queue_add(&training->pairs, merge.id, right_neighbour, weight, place);
}

// The id of a pair's result: a new one, unless other merges have already produced the same bytes.
static int32_t merged_id(struct training *training, const struct pair *pair) {
    uint32_t at = 0;
    for (int64_t i = 0; i < pair->place_count; i++) {
        at = pair->places[i].position;
        if (training->symbols[at] == pair->left &&
            training->symbols[at + (uint32_t)training->lengths[pair->left]] == pair->right)
            break;
    }
    int32_t length = training->lengths[pair->left] + training->lengths[pair->right];
    struct byte_string *token = byte_table_get(&training->tokens, training->bytes + at, (size_t)length);
    if (token->value == 0) {
        set_length(training, training->merges->token_count, length);
        token->value = ++training->merges->token_count;
    }
    return (int32_t)(token->value - 1);
}

static void merge_pair(struct training *training, const struct pair *pair) {
    struct bpe_merge merge = {pair->left, pair->right, merged_id(training, pair)};
    struct bpe_merges *merges = training->merges;
    MEMORY_GROW(merges->items, merges->count, merges->capacity);
    merges->items[merges->count++] = merge;
    for (int64_t i = 0; i < pair->place_count; i++)
        merge_at(training, merge, pair->places[i]);
    pair_queue_settle(&training->pairs, merge.left, merge.right);
    pair_queue_refresh(&training->pairs);
}

static void find_merges(struct training *training, const struct bpe_train_options *options) {
    struct progress progress;
    int64_t wanted = options->vocab_size - SPECIAL_TOKENS;
    if (options->show_progress)
        progress_begin(&progress, "merging", "tokens", (double)wanted);
    struct pair pair;
    while (training->merges->token_count < wanted && pair_queue_pop(&training->pairs, &pair)) {
        bool enough = pair.count >= options->min_frequency;
        if (enough)
            merge_pair(training, &pair);
        free(pair.places);
        if (!enough)
            break;
        if (options->show_progress)
            progress_update(&progress, (double)training->merges->token_count, NULL);
    }
    if (options->show_progress)
        progress_end(&progress, NULL);
}

int bpe_train(struct bpe_merges *merges, const struct byte_table *words, const struct bpe_train_options *options) {
    *merges = (struct bpe_merges){.token_count = BYTE_TOKENS};
    if (options->vocab_size < BYTE_TOKENS + SPECIAL_TOKENS || options->vocab_size > INT32_MAX)
        return error_set_code(EXIT_CODE_USAGE,
                              "--vocab-size %" PRId64 " is too small: 256 bytes and <|endoftext|> make 257 the minimum",
                              options->vocab_size);
    struct training training = {.words = words, .merges = merges};
    int status = lay_out_words(&training);
    if (status == 0) {
        add_pairs(&training);
        find_merges(&training, options);
    }
    pair_queue_free(&training.pairs);
    byte_table_free(&training.tokens);
    free(training.lengths);
    free(training.symbols);
    free(training.bytes);
    return status;
}

void bpe_merges_free(struct bpe_merges *merges) {
    free(merges->items);
    *merges = (struct bpe_merges){0};
}
