// The element types of .bin files. Loops use memcpy because nothing in the format is aligned; compilers turn them into
// plain vector loads and stores.
#include "data/index/dtype.h"

#include "base/error.h"

size_t index_dtype_bytes(enum index_dtype dtype) {
    switch (dtype) {
    case INDEX_U8:
    case INDEX_I8:
        return 1;
    case INDEX_I16:
    case INDEX_U16:
        return 2;
    case INDEX_I32:
    case INDEX_F32:
        return 4;
    case INDEX_I64:
    case INDEX_F64:
        return 8;
    }
    return 0;
}

const char *index_dtype_name(enum index_dtype dtype) {
    static const char *const names[] = {"unknown", "uint8",   "int8",    "int16", "int32",
                                        "int64",   "float64", "float32", "uint16"};
    return (unsigned)dtype < sizeof names / sizeof names[0] ? names[dtype] : names[0];
}

bool index_dtype_is_integer(enum index_dtype dtype) {
    return index_dtype_bytes(dtype) != 0 && dtype != INDEX_F32 && dtype != INDEX_F64;
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
