// GGUF, llama.cpp's file format: key-value pairs (model, tokenizer), then a table of named tensors, then their bytes,
// each tensor aligned. Everything is little-endian. The format is described in docs/internals/gguf.md.
//
// Shapes here are row-major as everywhere in this program, (rows, columns); the file has them in reverse.
#ifndef FORMATS_GGUF_H
#define FORMATS_GGUF_H

#include "base/buffer.h"
#include "base/file.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The pairs follow the header.
enum { GGUF_HEADER_BYTES = 24, GGUF_ALIGNMENT = 32, GGUF_MAX_RANK = 4, GGUF_MAX_NAME = 63 };

// Types of values; the numbers are the file's.
enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE_COUNT
};

// The tensor types that are written here; the numbers are the file's. The reader also knows the sizes of all others.
enum gguf_format { GGUF_FORMAT_F32 = 0, GGUF_FORMAT_F16 = 1, GGUF_FORMAT_Q8_0 = 8, GGUF_FORMAT_BF16 = 30 };

// Elements come in blocks: `elements` of them in `bytes` bytes.
struct gguf_block {
    const char *name;  // "Q8_0"; NULL if the number is not known
    int64_t elements;
    size_t bytes;
};
struct gguf_block gguf_block_of(uint32_t format);

struct gguf_tensor {
    const char *name;
    size_t name_length;
    uint32_t format;
    int rank;
    int64_t shape[GGUF_MAX_RANK];
    size_t bytes;
    const unsigned char *data;  // only in a file that was read
};

// ---- elements ----

// Fills `bytes` with count elements in one of the four formats; of Q8_0, count is a multiple of 32. Blocks are rounded
// as ggml's reference does: the scale is fp16(largest / 127), quotients are rounded half away from zero. False if a
// value does not fit: above fp16's range, or, for Q8_0, not finite.
bool gguf_encode(enum gguf_format format, const float *from, size_t count, unsigned char *bytes);
void gguf_decode(enum gguf_format format, const unsigned char *bytes, size_t count, float *to);

// ---- writing ----

// Key-value pairs, collected before the file is created. A zeroed one is empty; free `bytes`.
struct gguf_pairs {
    struct buffer bytes;
    uint64_t count;
};
void gguf_add_u32(struct gguf_pairs *pairs, const char *key, uint32_t value);
void gguf_add_f32(struct gguf_pairs *pairs, const char *key, float value);
void gguf_add_bool(struct gguf_pairs *pairs, const char *key, bool value);
void gguf_add_string(struct gguf_pairs *pairs, const char *key, const char *text, size_t length);
// An array's elements follow, `count` of them: strings with gguf_append_string, numbers with buffer_append.
void gguf_begin_array(struct gguf_pairs *pairs, const char *key, enum gguf_type type, uint64_t count);
void gguf_append_string(struct gguf_pairs *pairs, const char *text, size_t length);

struct gguf_writer {
    struct file_writer file;
    uint64_t *ends;  // of each tensor's bytes, before its padding
    size_t count, next;
};

// Creates the file under its temporary name and writes all but the tensors' bytes, which follow in their order.
// Formats, ranks and shapes of `tensors` count; `bytes` is set.
int gguf_create(struct gguf_writer *writer, const char *path, const struct gguf_pairs *pairs,
                struct gguf_tensor *tensors, size_t count);
int gguf_write(struct gguf_writer *writer, const void *bytes, size_t count);
// All bytes must have been written. Afterwards the file is durable under its name.
int gguf_commit(struct gguf_writer *writer);
void gguf_abort(struct gguf_writer *writer);

// ---- reading ----

struct gguf_value {
    const char *key;  // not ended by a NUL
    size_t key_length;
    enum gguf_type type;
    enum gguf_type element;     // of an array
    uint64_t count;             // elements of an array; bytes of a string
    const unsigned char *data;  // number, text, or the first element of an array
};

struct gguf {
    struct file_map map;  // empty if the bytes are borrowed
    char *path;           // for messages; owned
    uint32_t version;
    struct gguf_value *values;
    size_t value_count;
    struct gguf_tensor *tensors;  // in the order of their bytes
    size_t tensor_count;
};

// Refuses whatever llama.cpp would: strings, arrays or tensors beyond the end, unknown types, names twice or too long,
// tensors that overlap, leave holes or are out of order.
int gguf_open(struct gguf *file, const char *path);
// gguf_open for bytes in memory, which must not move until gguf_close.
int gguf_parse(struct gguf *file, const void *bytes, size_t size, const char *name);
void gguf_close(struct gguf *file);  // safe on a zeroed or closed one

bool gguf_is_file(const char *path);  // by its first bytes
const struct gguf_value *gguf_find_value(const struct gguf *file, const char *key);
const struct gguf_tensor *gguf_find_tensor(const struct gguf *file, const char *name);
// An unsigned integer or boolean of any width; false if there is no such key or it has another type.
bool gguf_get_number(const struct gguf *file, const char *key, uint64_t *number);
// The next element of an array of strings. A cursor starts at 0, and walking through all elements is linear.
const char *gguf_next_string(const struct gguf_value *array, size_t *cursor, uint64_t *length);

#endif
