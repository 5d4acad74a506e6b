// Checks every entry of an indexed dataset. index_open has verified the sizes, so all arrays lie inside their maps.
#include "data/index/index.h"

#include "base/error.h"
#include "data/bad_data.h"
#include "data/index/dtype.h"
#include <inttypes.h>

static void release_sometimes(const struct index_reader *r, int64_t entry) {
    if (entry % (INDEX_RELEASE_BYTES / 16) == INDEX_RELEASE_BYTES / 16 - 1)
        index_release(r);
}

static int verify_sequences(const struct index_reader *r) {
    int64_t expected = 0;
    for (int64_t i = 0; i < r->sequence_count; i++) {
        int64_t length = index_length(r, i), pointer = index_pointer(r, i);
        if (length < 0)
            return bad_data("%s.idx: byte %" PRId64 ": sequence %" PRId64 " has length %" PRId64 "; " INDEX_REMEDY,
                            r->files.prefix, index_length_byte(i), i, length);
        if (pointer != expected || (uint64_t)length * r->item_bytes > r->files.tokens.size - (uint64_t)expected)
            return bad_data(
                "%s.idx: byte %" PRId64 ": sequence %" PRId64 " starts at byte %" PRId64 " of .bin and has %" PRId64
                " tokens, but the lengths before it add up to %" PRId64 " of %zu bytes; " INDEX_REMEDY,
                r->files.prefix, index_pointer_byte(r, i), i, pointer, length, expected, r->files.tokens.size);
        expected += length * (int64_t)r->item_bytes;
        release_sometimes(r, i);
    }
    return 0;
}

static int verify_documents(const struct index_reader *r) {
    int64_t before = 0;
    for (int64_t i = 0; i <= r->document_count; i++) {
        int64_t begin = index_document_begin(r, i);
        if (begin < before || begin > r->sequence_count)
            return bad_data("%s.idx: byte %" PRId64 ": document boundary %" PRId64 " is sequence %" PRId64
                            ", but it must lie between %" PRId64 " and %" PRId64 "; " INDEX_REMEDY,
                            r->files.prefix, index_boundary_byte(r, i), i, begin, before, r->sequence_count);
        before = begin;
        release_sometimes(r, i);
    }
    return 0;
}

int index_verify(const struct index_reader *reader) {
    TRY(verify_sequences(reader));
    return verify_documents(reader);
}

// The last sequence that begins at or before a byte of .bin; pointers are known to be in order.
static int64_t sequence_at(const struct index_reader *r, int64_t byte) {
    int64_t low = 0, high = r->sequence_count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (index_pointer(r, middle) <= byte)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int bad_token(const struct index_reader *r, int64_t token, int64_t vocab_size) {
    int64_t byte = token * (int64_t)r->item_bytes, sequence = sequence_at(r, byte);
    int64_t position = (byte - index_pointer(r, sequence)) / (int64_t)r->item_bytes;
    int32_t value;
    if (index_decode(r->dtype, r->files.tokens.data + byte, 1, &value) == 0)
        return bad_data("%s.bin: byte %" PRId64 ": token %" PRId64 " of sequence %" PRId64
                        " does not fit 32 bits, so it is not a token id; " INDEX_REMEDY,
                        r->files.prefix, byte, position, sequence);
    if (value < 0)
        return bad_data("%s.bin: byte %" PRId64 ": token %" PRId64 " of sequence %" PRId64 " is %" PRId32
                        ", but ids are not negative; " INDEX_REMEDY,
                        r->files.prefix, byte, position, sequence, value);
    return bad_data("%s.bin: byte %" PRId64 ": token %" PRId64 " of sequence %" PRId64 " is %" PRId32
                    ", beyond the vocabulary of %" PRId64 "; use the tokenizer that made this dataset",
                    r->files.prefix, byte, position, sequence, value, vocab_size);
}

int index_verify_tokens(const struct index_reader *r, int64_t vocab_size) {
    enum { CHUNK = 1 << 13 };
    int32_t tokens[CHUNK];
    if (!index_dtype_is_integer(r->dtype))
        return bad_data("%s.idx: byte 17: the dataset holds %s, which are not token ids", r->files.prefix,
                        index_dtype_name(r->dtype));
    TRY(index_verify(r));
    int64_t limit = vocab_size > 0 ? vocab_size : (int64_t)INT32_MAX + 1;
    for (int64_t done = 0; done < r->token_count; done += CHUNK) {
        int64_t part = r->token_count - done < CHUNK ? r->token_count - done : CHUNK;
        int64_t good = index_decode(r->dtype, r->files.tokens.data + (size_t)done * r->item_bytes, part, tokens);
        int64_t inside = index_find_outside(tokens, good, limit);
        if (inside < part)
            return bad_token(r, done + inside, vocab_size);
        if (done / CHUNK % 1024 == 1023)
            index_release(r);
    }
    return 0;
}
