// The element types of .bin files. Loops use memcpy because nothing in the format is aligned; compilers turn them into
// plain vector loads and stores.
#include "data/index/index.h"

#include "base/error.h"

static const struct {
    const char *name;
    size_t bytes;
    bool is_integer;
} dtypes[] = {
    [0] = {"unknown", 0, false},         [INDEX_U8] = {"uint8", 1, true},     [INDEX_I8] = {"int8", 1, true},
    [INDEX_I16] = {"int16", 2, true},    [INDEX_I32] = {"int32", 4, true},    [INDEX_I64] = {"int64", 8, true},
    [INDEX_F64] = {"float64", 8, false}, [INDEX_F32] = {"float32", 4, false}, [INDEX_U16] = {"uint16", 2, true},
};

static size_t row_of(enum index_dtype dtype) {
    return (size_t)dtype < sizeof dtypes / sizeof dtypes[0] ? (size_t)dtype : 0;
}

size_t index_dtype_bytes(enum index_dtype dtype) {
    return dtypes[row_of(dtype)].bytes;
}

const char *index_dtype_name(enum index_dtype dtype) {
    return dtypes[row_of(dtype)].name;
}

bool index_dtype_is_integer(enum index_dtype dtype) {
    return dtypes[row_of(dtype)].is_integer;
}

enum index_dtype index_dtype_for_vocab(int64_t vocab_size) {
    return vocab_size > 0 && vocab_size < 65500 ? INDEX_U16 : INDEX_I32;
}

#define DECODE(type)                                                                                                   \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        type value;                                                                                                    \
        memcpy(&value, bytes + (size_t)i * sizeof value, sizeof value);                                                \
        out[i] = value;                                                                                                \
    }

int64_t index_decode(enum index_dtype dtype, const unsigned char *bytes, int64_t count, int32_t *out) {
    switch (dtype) {
    case INDEX_U8:
        DECODE(uint8_t)
        return count;
    case INDEX_I8:
        DECODE(int8_t)
        return count;
    case INDEX_I16:
        DECODE(int16_t)
        return count;
    case INDEX_U16:
        DECODE(uint16_t)
        return count;
    case INDEX_I32:
        if (count > 0)
            memcpy(out, bytes, (size_t)count * sizeof *out);
        return count;
    case INDEX_I64:
        for (int64_t i = 0; i < count; i++) {
            int64_t value;
            memcpy(&value, bytes + (size_t)i * sizeof value, sizeof value);
            if (value < INT32_MIN || value > INT32_MAX)
                return i;
            out[i] = (int32_t)value;
        }
        return count;
    case INDEX_F64:
    case INDEX_F32:
        break;
    }
    die("dtype %s holds no token ids", index_dtype_name(dtype));
}

static int64_t find_outside_range(const int32_t *tokens, int64_t count, int32_t low, int32_t high) {
    int32_t least = high, most = low;
    for (int64_t i = 0; i < count; i++) {
        least = tokens[i] < least ? tokens[i] : least;
        most = tokens[i] > most ? tokens[i] : most;
    }
    if (least >= low && most <= high)
        return count;
    int64_t at = 0;
    while (tokens[at] >= low && tokens[at] <= high)
        at++;
    return at;
}

int64_t index_find_outside(const int32_t *tokens, int64_t count, int64_t limit) {
    return find_outside_range(tokens, count, 0, limit > INT32_MAX ? INT32_MAX : (int32_t)(limit - 1));
}

#define ENCODE(type)                                                                                                   \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        type value = (type)tokens[i];                                                                                  \
        memcpy(out + (size_t)i * sizeof value, &value, sizeof value);                                                  \
    }

int64_t index_encode(enum index_dtype dtype, const int32_t *tokens, int64_t count, unsigned char *out) {
    switch (dtype) {
    case INDEX_U8:
        ENCODE(uint8_t)
        return find_outside_range(tokens, count, 0, UINT8_MAX);
    case INDEX_I8:
        ENCODE(int8_t)
        return find_outside_range(tokens, count, INT8_MIN, INT8_MAX);
    case INDEX_I16:
        ENCODE(int16_t)
        return find_outside_range(tokens, count, INT16_MIN, INT16_MAX);
    case INDEX_U16:
        ENCODE(uint16_t)
        return find_outside_range(tokens, count, 0, UINT16_MAX);
    case INDEX_I32:
        if (count > 0)
            memcpy(out, tokens, (size_t)count * sizeof *tokens);
        return count;
    case INDEX_I64:
        ENCODE(int64_t)
        return count;
    case INDEX_F64:
    case INDEX_F32:
        break;
    }
    die("dtype %s holds no token ids", index_dtype_name(dtype));
}
