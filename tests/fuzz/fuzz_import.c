// layer: data
// fairseq's pair of .bin and .idx from one input: two bytes with the length of .bin, then .bin and .idx. Items of the
// walk must be readable or refused, and after its end all tokens have been visited.
#include "fuzz.h"

#include "data/index/fairseq_reader.h"

static int32_t tokens[1 << 16];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    size_t bin_bytes = data[0] | (size_t)data[1] << 8;
    data += 2;
    size -= 2;
    if (bin_bytes > size)
        bin_bytes = size;
    struct file_map bin = {data, bin_bytes}, idx = {data + bin_bytes, size - bin_bytes};
    struct fairseq_reader *reader;
    if (fairseq_reader_open_bytes(&reader, "fuzz", idx, bin) < 0)
        return 0;
    struct fairseq_walk walk = {.reader = reader};
    uint64_t first, seen = 0;
    int64_t length;
    int got;
    while ((got = fairseq_walk_next(&walk, &first, &length)) == 1) {
        if (first != seen || length < 0 || length > (int64_t)(sizeof tokens / sizeof tokens[0]))
            abort();
        seen += (uint64_t)length;
        if (fairseq_read(reader, first, length, tokens) == 0)
            for (int64_t i = 0; i < length; i++)
                if (tokens[i] < 0)
                    abort();
    }
    if (got == 0 && seen != (uint64_t)reader->token_count)
        abort();
    fairseq_reader_close(reader);
    return 0;
}
