// Finds equal documents: sorting by hash brings together documents that may be equal; then their bytes are compared.
// The hash is half of a SHA-256, so an attacker cannot craft many documents with the same hash, and lists of unequal
// documents that share one stay short.
#include "data/index/duplicates.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include <stdlib.h>

// Reading at one place loads the pages around it (64 KiB on Linux); comparing two documents touches four places in
// each.
enum { AROUND_BYTES = 8 << 16 };

static void hash_document(const struct duplicates_options *options, int64_t document, uint64_t record[3]) {
    struct sha256 hash;
    unsigned char digest[32];
    sha256_init(&hash);
    for (int64_t i = 0; i < options->count; i++) {
        const struct index_reader *r = options->readers[i];
        struct index_document part = index_document(r, document);
        sha256_update(&hash, &part.sequence_count, sizeof part.sequence_count);
        if (part.sequence_count > 0)
            sha256_update(&hash, index_lengths(r, part.first_sequence), 4 * (size_t)part.sequence_count);
        if (part.bytes > 0)
            sha256_update(&hash, r->files.tokens.data + part.begin_byte, (size_t)part.bytes);
    }
    sha256_final(&hash, digest);
    memcpy(record, digest, 2 * sizeof *record);
    int dropped = 128 - options->hash_bits;
    record[0] = dropped >= 64 ? 0 : record[0];
    record[1] = dropped % 64 == 0 ? record[1] : record[1] >> dropped % 64;
    record[2] = (uint64_t)document;
}

static bool are_equal(const struct duplicates_options *options, int64_t a, int64_t b) {
    for (int64_t i = 0; i < options->count; i++) {
        const struct index_reader *r = options->readers[i];
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

static uint64_t bytes_of(const struct duplicates_options *options, int64_t document) {
    uint64_t bytes = 0;
    for (int64_t i = 0; i < options->count; i++)
        bytes += index_document(options->readers[i], document).bytes;
    return bytes;
}

// Counts the bytes read, and releases their pages from time to time.
static int account(const struct duplicates_options *options, uint64_t *touched, uint64_t bytes) {
    *touched += bytes;
    if (*touched < INDEX_RELEASE_BYTES)
        return 0;
    *touched = 0;
    for (int64_t i = 0; i < options->count; i++)
        index_release(options->readers[i]);
    return interrupt_check();
}

static int hash_all(const struct duplicates_options *options, struct external_sort *hashes) {
    uint64_t touched = 0, record[3];
    for (int64_t document = 0; document < options->readers[0]->document_count; document++) {
        hash_document(options, document, record);
        TRY(external_sort_add(hashes, record));
        TRY(account(options, &touched, bytes_of(options, document) + DOCUMENT_ENTRY_BYTES));
    }
    return external_sort_finish(hashes);
}

// Distinct documents with one hash, the first of each; nearly always there is only one.
struct kinds {
    uint64_t hash[2];
    int64_t *first;
    int64_t count, capacity;
};

static int sort_out(const struct duplicates_options *options, struct external_sort *hashes, struct kinds *kinds,
                    struct external_sort *dropped) {
    uint64_t record[3], touched = 0;
    int got;
    while ((got = external_sort_next(hashes, record)) == 1) {
        int64_t document = (int64_t)record[2], kind = 0;
        if (record[0] != kinds->hash[0] || record[1] != kinds->hash[1])
            kinds->count = 0;
        memcpy(kinds->hash, record, sizeof kinds->hash);
        for (; kind < kinds->count; kind++) {
            TRY(account(options, &touched, 2 * bytes_of(options, document) + AROUND_BYTES * (uint64_t)options->count));
            if (are_equal(options, kinds->first[kind], document))
                break;
        }
        if (kind < kinds->count) {
            TRY(external_sort_add(dropped, &record[2]));
            continue;
        }
        if (kinds->count == kinds->capacity) {
            kinds->capacity = kinds->capacity ? 2 * kinds->capacity : 16;
            kinds->first = memory_realloc(kinds->first, (size_t)kinds->capacity * sizeof *kinds->first);
        }
        kinds->first[kinds->count++] = document;
    }
    return got;
}

int duplicates_find(const struct duplicates_options *options, struct external_sort *dropped) {
    CHECK(options->hash_bits >= 1 && options->hash_bits <= 128);
    struct external_sort hashes;
    struct kinds kinds = {0};
    external_sort_open(&hashes, 3, options->memory_bytes, options->beside);
    int result = hash_all(options, &hashes);
    if (result == 0)
        result = sort_out(options, &hashes, &kinds, dropped);
    free(kinds.first);
    external_sort_close(&hashes);
    return result;
}
