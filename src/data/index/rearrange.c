// Deduplicates and shuffles datasets in bounded memory. Documents are always read and written from first to last. For a
// new order, two sorts compute where each document goes (by key, then back by document), and spill.c moves tokens and
// lengths there.
#include "data/index/rearrange.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "base/rng.h"
#include "data/index/spill.h"
#include "data/index/index.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_MEMORY_BYTES = 256 << 20, LEAST_MEMORY_BYTES = 64 << 10 };
enum { SHUFFLE_STREAM = 0x53485546 };  // "SHUF", see rearrange.h
// Approximate bytes of .idx that looking up one document touches: two boundaries, two pointers.
enum { DOCUMENT_ENTRY_BYTES = 32 };
enum { USED_AT_ONCE = 4 };  // sorts and scatters: dropped, by_document, tokens and lengths

struct rearrangement {
    const struct index_rearrange_options *options;
    size_t memory_bytes;            // of one sort or scatter
    struct index_reader **readers;  // (count)
    struct index_writer **writers;  // (count)
    struct external_sort dropped;   // documents to drop, in order
};

// ---- equal documents ----

// Sorting by hash brings together documents that may be equal; then their bytes are compared. The hash is half of a
// SHA-256, so an attacker cannot craft many documents with the same hash, and lists of unequal documents that share one
// stay short.

// Reading at one place loads the pages around it (64 KiB on Linux); comparing two documents touches four places in
// each.
enum { AROUND_BYTES = 8 << 16 };

static void hash_document(const struct rearrangement *work, int64_t document, uint64_t record[3]) {
    struct sha256 hash;
    unsigned char digest[32];
    sha256_init(&hash);
    for (int64_t i = 0; i < work->options->count; i++) {
        const struct index_reader *r = work->readers[i];
        struct index_document part = index_document(r, document);
        sha256_update(&hash, &part.sequence_count, sizeof part.sequence_count);
        if (part.sequence_count > 0)
            sha256_update(&hash, index_lengths(r, part.first_sequence), 4 * (size_t)part.sequence_count);
        if (part.bytes > 0)
            sha256_update(&hash, r->files.tokens.data + part.begin_byte, (size_t)part.bytes);
    }
    sha256_final(&hash, digest);
    memcpy(record, digest, 2 * sizeof *record);
    int dropped = work->options->hash_bits ? 128 - work->options->hash_bits : 0;
    record[0] = dropped >= 64 ? 0 : record[0];
    record[1] = dropped % 64 == 0 ? record[1] : record[1] >> dropped % 64;
    record[2] = (uint64_t)document;
}

static bool are_equal(const struct rearrangement *work, int64_t a, int64_t b) {
    for (int64_t i = 0; i < work->options->count; i++) {
        const struct index_reader *r = work->readers[i];
        struct index_document of_a = index_document(r, a), of_b = index_document(r, b);
        if (of_a.sequence_count != of_b.sequence_count || of_a.bytes != of_b.bytes)
            return false;
        if (of_a.sequence_count > 0 &&
            memcmp(index_lengths(r, of_a.first_sequence), index_lengths(r, of_b.first_sequence),
                   4 * (size_t)of_a.sequence_count) != 0)
            return false;
        if (of_a.bytes > 0 && memcmp(r->files.tokens.data + of_a.begin_byte, r->files.tokens.data + of_b.begin_byte,
                                     (size_t)of_a.bytes) != 0)
            return false;
    }
    return true;
}

static uint64_t bytes_of(const struct rearrangement *work, int64_t document) {
    uint64_t bytes = 0;
    for (int64_t i = 0; i < work->options->count; i++)
        bytes += index_document(work->readers[i], document).bytes;
    return bytes;
}

// Counts the bytes read, and releases their pages from time to time.
static int account_all(const struct rearrangement *work, uint64_t *touched, uint64_t bytes) {
    *touched += bytes;
    if (*touched < INDEX_RELEASE_BYTES)
        return 0;
    *touched = 0;
    for (int64_t i = 0; i < work->options->count; i++)
        index_release(work->readers[i]);
    return interrupt_check();
}

static int hash_all(const struct rearrangement *work, struct external_sort *hashes) {
    uint64_t touched = 0, record[3];
    for (int64_t document = 0; document < work->readers[0]->document_count; document++) {
        hash_document(work, document, record);
        TRY(external_sort_add(hashes, record));
        TRY(account_all(work, &touched, bytes_of(work, document) + DOCUMENT_ENTRY_BYTES));
    }
    return external_sort_finish(hashes);
}

// Distinct documents with one hash, the first of each; nearly always there is only one.
struct kinds {
    uint64_t hash[2];
    int64_t *first;
    int64_t count, capacity;
};

static int sort_out(const struct rearrangement *work, struct external_sort *hashes, struct kinds *kinds,
                    struct external_sort *dropped) {
    uint64_t record[3], touched = 0;
    int got;
    while ((got = external_sort_next(hashes, record)) == 1) {
        int64_t document = (int64_t)record[2], kind = 0;
        if (record[0] != kinds->hash[0] || record[1] != kinds->hash[1])
            kinds->count = 0;
        memcpy(kinds->hash, record, sizeof kinds->hash);
        for (; kind < kinds->count; kind++) {
            TRY(account_all(work, &touched,
                            2 * bytes_of(work, document) + AROUND_BYTES * (uint64_t)work->options->count));
            if (are_equal(work, kinds->first[kind], document))
                break;
        }
        if (kind < kinds->count) {
            TRY(external_sort_add(dropped, &record[2]));
            continue;
        }
        MEMORY_GROW(kinds->first, kinds->count, kinds->capacity);
        kinds->first[kinds->count++] = document;
    }
    return got;
}

// Adds to work->dropped (one word per record) the number of every document that equals an earlier one, in any order.
static int find_duplicates(struct rearrangement *work) {
    CHECK(work->options->hash_bits >= 0 && work->options->hash_bits <= 128);
    struct external_sort hashes;
    struct kinds kinds = {0};
    external_sort_open(&hashes, 3, work->memory_bytes, work->options->outputs[0]);
    int result = hash_all(work, &hashes);
    if (result == 0)
        result = sort_out(work, &hashes, &kinds, &work->dropped);
    free(kinds.first);
    external_sort_close(&hashes);
    return result;
}

// ---- the remaining documents ----

// Iterates over the documents of one dataset, in order, without the dropped ones.
struct document_walk {
    const struct rearrangement *work;
    const struct index_reader *reader;
    struct external_sort *dropped;
    uint64_t next_dropped;  // UINT64_MAX after the last
    int64_t next, kept;     // the next document to examine; how many were returned
    uint64_t touched;       // bytes since the last release
};

static int next_dropped(struct document_walk *walk) {
    int got = external_sort_next(walk->dropped, &walk->next_dropped);
    if (got == 0)
        walk->next_dropped = UINT64_MAX;
    return got;
}

static int walk_begin(struct document_walk *walk, struct rearrangement *work, const struct index_reader *reader) {
    *walk = (struct document_walk){.work = work, .reader = reader, .dropped = &work->dropped};
    TRY(external_sort_rewind(walk->dropped));
    return next_dropped(walk);
}

// The next remaining document: 1, 0 after the last, -1 on error.
static int walk_next(struct document_walk *walk, int64_t *document) {
    while (walk->next < walk->reader->document_count) {
        *document = walk->next++;
        if ((uint64_t)*document == walk->next_dropped) {
            TRY(next_dropped(walk));
            continue;
        }
        walk->kept++;
        return 1;
    }
    return 0;
}

// Counts the bytes read of a dataset, and releases its pages from time to time. Each document counts for its tokens and
// for its entries in .idx.
static int account(const struct index_reader *reader, uint64_t *touched, uint64_t token_bytes) {
    *touched += token_bytes + DOCUMENT_ENTRY_BYTES;
    if (*touched < INDEX_RELEASE_BYTES)
        return 0;
    *touched = 0;
    index_release(reader);
    return interrupt_check();
}

// ---- in the old order ----

static int copy_in_order(struct rearrangement *work, int64_t dataset) {
    const struct index_reader *reader = work->readers[dataset];
    struct index_writer *writer = work->writers[dataset];
    struct document_walk walk;
    int64_t document, sequences = 0;
    int got;
    TRY(walk_begin(&walk, work, reader));
    while ((got = walk_next(&walk, &document)) == 1) {
        struct index_document part = index_document(reader, document);
        if (part.bytes > 0)
            TRY(index_writer_put_tokens(writer, reader->files.tokens.data + part.begin_byte, (size_t)part.bytes));
        if (part.sequence_count > 0)
            TRY(index_writer_put_lengths(writer, index_lengths(reader, part.first_sequence), part.sequence_count));
        sequences += part.sequence_count;
        TRY(index_writer_put_boundary(writer, sequences));
        TRY(account(reader, &walk.touched, part.bytes));
    }
    return got;
}

// ---- in a new order ----

struct reorder {
    struct external_sort by_key;       // key, document, bytes, sequences
    struct external_sort by_document;  // document, byte in the new .bin, sequence in the new dataset
    struct scatter tokens, lengths;
    uint64_t bytes, sequences;  // of all remaining documents
};

static bool is_reordered(const struct index_rearrange_options *options) {
    return options->shuffle || options->partitions > 1;
}

// Sort key of remaining document number `kept`; equal keys keep their order.
static uint64_t order_key(const struct index_rearrange_options *options, int64_t kept) {
    uint64_t number = (uint64_t)kept;
    if (!options->shuffle)
        return number % (uint64_t)options->partitions;
    struct philox random = philox4x32(options->seed, (uint32_t)number, (uint32_t)(number >> 32), SHUFFLE_STREAM, 0);
    return (uint64_t)random.word[1] << 32 | random.word[0];
}

static int give_keys(struct rearrangement *work, const struct index_reader *reader, struct reorder *reorder) {
    struct document_walk walk;
    int64_t document;
    int got;
    TRY(walk_begin(&walk, work, reader));
    while ((got = walk_next(&walk, &document)) == 1) {
        struct index_document part = index_document(reader, document);
        uint64_t record[4] = {order_key(work->options, walk.kept - 1), (uint64_t)document, part.bytes,
                              (uint64_t)part.sequence_count};
        TRY(external_sort_add(&reorder->by_key, record));
        TRY(account(reader, &walk.touched, 0));
    }
    TRY(got);
    return external_sort_finish(&reorder->by_key);
}

// Computes where every document goes, in the new order, and writes the boundaries of .idx on the way.
static int assign_places(struct reorder *reorder, struct index_writer *writer) {
    uint64_t record[4];
    int got;
    while ((got = external_sort_next(&reorder->by_key, record)) == 1) {
        uint64_t place[3] = {record[1], reorder->bytes, reorder->sequences};
        TRY(external_sort_add(&reorder->by_document, place));
        reorder->bytes += record[2];
        reorder->sequences += record[3];
        TRY(index_writer_put_boundary(writer, (int64_t)reorder->sequences));
    }
    TRY(got);
    external_sort_close(&reorder->by_key);
    return external_sort_finish(&reorder->by_document);
}

static int send_documents(const struct index_reader *reader, struct reorder *reorder) {
    uint64_t place[3], touched = 0;
    int got;
    while ((got = external_sort_next(&reorder->by_document, place)) == 1) {
        struct index_document part = index_document(reader, (int64_t)place[0]);
        if (part.sequence_count == 0)
            continue;
        if (part.bytes > 0)
            TRY(scatter_put(&reorder->tokens, place[1], reader->files.tokens.data + part.begin_byte,
                            (size_t)part.bytes));
        TRY(scatter_put(&reorder->lengths, 4 * place[2], index_lengths(reader, part.first_sequence),
                        4 * (size_t)part.sequence_count));
        TRY(account(reader, &touched, part.bytes));
    }
    return got;
}

static int take_tokens(void *context, const unsigned char *bytes, size_t count) {
    return index_writer_put_tokens(context, bytes, count);
}

// A region may end inside a length; the first bytes of that length are kept here until the rest arrives.
struct length_taker {
    struct index_writer *writer;
    unsigned char rest[4];
    size_t rest_bytes;
};

static int take_lengths(void *context, const unsigned char *bytes, size_t count) {
    struct length_taker *taker = context;
    while (taker->rest_bytes && taker->rest_bytes < 4 && count) {
        taker->rest[taker->rest_bytes++] = *bytes++;
        count--;
    }
    if (taker->rest_bytes == 4) {
        TRY(index_writer_put_lengths(taker->writer, taker->rest, 1));
        taker->rest_bytes = 0;
    }
    TRY(index_writer_put_lengths(taker->writer, bytes, (int64_t)(count / 4)));
    for (size_t i = count / 4 * 4; i < count; i++)
        taker->rest[taker->rest_bytes++] = bytes[i];
    return 0;
}

static int reorder_steps(struct rearrangement *work, int64_t dataset, struct reorder *reorder) {
    const struct index_reader *reader = work->readers[dataset];
    struct index_writer *writer = work->writers[dataset];
    const char *beside = work->options->outputs[dataset];
    external_sort_open(&reorder->by_key, 4, work->memory_bytes, beside);
    external_sort_open(&reorder->by_document, 3, work->memory_bytes, beside);
    TRY(give_keys(work, reader, reorder));
    TRY(assign_places(reorder, writer));
    TRY(scatter_open(&reorder->tokens, reorder->bytes, work->memory_bytes, beside));
    TRY(scatter_open(&reorder->lengths, 4 * reorder->sequences, work->memory_bytes, beside));
    TRY(send_documents(reader, reorder));
    TRY(scatter_drain(&reorder->tokens, (struct scatter_sink){writer, take_tokens}));
    struct length_taker taker = {.writer = writer};
    return scatter_drain(&reorder->lengths, (struct scatter_sink){&taker, take_lengths});
}

static int reorder_dataset(struct rearrangement *work, int64_t dataset) {
    struct reorder reorder = {0};
    int result = reorder_steps(work, dataset, &reorder);
    external_sort_close(&reorder.by_key);
    external_sort_close(&reorder.by_document);
    scatter_close(&reorder.tokens);
    scatter_close(&reorder.lengths);
    return result;
}

// ---- the whole pass ----

static int open_inputs(struct rearrangement *work) {
    const struct index_rearrange_options *options = work->options;
    for (int64_t i = 0; i < options->count; i++) {
        TRY(index_open(&work->readers[i], options->inputs[i]));
        TRY(index_verify(work->readers[i]));
        if (work->readers[i]->document_count != work->readers[0]->document_count)
            return bad_data("%s.idx has %" PRId64 " documents, but %s.idx has %" PRId64
                            "; only datasets made together can be rearranged together",
                            options->inputs[i], work->readers[i]->document_count, options->inputs[0],
                            work->readers[0]->document_count);
    }
    for (int64_t i = 0; i < options->count; i++)
        TRY(index_writer_open(&work->writers[i], options->outputs[i], work->readers[i]->dtype));
    return 0;
}

static int summarise(struct rearrangement *work, struct index_rearrange_summary *summary) {
    *summary = (struct index_rearrange_summary){.documents_read = work->readers[0]->document_count};
    for (int64_t i = 0; i < work->options->count; i++) {
        struct document_walk walk;
        int64_t document;
        int got;
        summary->tokens_read += work->readers[i]->token_count;
        TRY(walk_begin(&walk, work, work->readers[i]));
        while ((got = walk_next(&walk, &document)) == 1) {
            struct index_document part = index_document(work->readers[i], document);
            summary->tokens_written += (int64_t)(part.bytes / work->readers[i]->item_bytes);
            TRY(account(work->readers[i], &walk.touched, 0));
        }
        TRY(got);
        summary->documents_written = walk.kept;
    }
    summary->duplicates = summary->documents_read - summary->documents_written;
    return 0;
}

static int rearrange(struct rearrangement *work, struct index_rearrange_summary *summary) {
    TRY(open_inputs(work));
    if (work->options->dedup)
        TRY(find_duplicates(work));
    TRY(external_sort_finish(&work->dropped));
    for (int64_t i = 0; i < work->options->count; i++)
        TRY(is_reordered(work->options) ? reorder_dataset(work, i) : copy_in_order(work, i));
    TRY(summarise(work, summary));
    return index_writers_commit(work->writers, work->options->count);
}

int index_rearrange(const struct index_rearrange_options *options, struct index_rearrange_summary *summary) {
    CHECK(options->count > 0);
    size_t memory = options->memory_bytes ? options->memory_bytes : DEFAULT_MEMORY_BYTES;
    struct rearrangement work = {
        .options = options,
        .memory_bytes = (memory > LEAST_MEMORY_BYTES ? memory : LEAST_MEMORY_BYTES) / USED_AT_ONCE,
        .readers = memory_alloc((size_t)options->count * sizeof *work.readers),
        .writers = memory_alloc((size_t)options->count * sizeof *work.writers),
    };
    external_sort_open(&work.dropped, 1, work.memory_bytes, options->outputs[0]);
    int result = rearrange(&work, summary);
    for (int64_t i = 0; i < options->count; i++) {
        index_writer_abort(work.writers[i]);
        index_close(work.readers[i]);
    }
    external_sort_close(&work.dropped);
    free(work.readers);
    free(work.writers);
    return result;
}
