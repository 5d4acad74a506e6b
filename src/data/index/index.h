// Megatron's indexed dataset: PREFIX.bin holds only token ids, one sequence after another; PREFIX.idx says where each
// sequence begins and which sequences form a document. Little-endian, unpadded:
//
//   byte 0        9 bytes   "MMIDIDX" and two NULs
//   byte 9        u64       version, 1
//   byte 17       u8        dtype code of the tokens
//   byte 18       u64       S, the number of sequences
//   byte 26       u64       D, the number of documents + 1
//   byte 34       i32[S]    length of each sequence, in tokens
//   34+4S         i64[S]    byte of .bin where each sequence begins; contiguous: itemsize * the sum of lengths before
//   34+12S        i64[D]    document boundaries as sequence numbers: 0 first, S last, never decreasing
//   34+12S+8D     i8[S]     only in multimodal datasets; a text reader ignores it
//
// Both reader and writer use constant memory for any S. Several threads may share a reader.
#ifndef DATA_INDEX_INDEX_H
#define DATA_INDEX_INDEX_H

#include "base/file.h"
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

// ---- the two files ----

// The two files of a dataset, PREFIX.idx and PREFIX.bin, as bytes in memory. Megatron's datasets (index.h) and
// fairseq's (fairseq_reader.h) are such pairs with different contents. This is their common part: finding the files,
// and owning the memory.

struct index_files {
    char *prefix;            // the dataset in messages: PREFIX.idx, PREFIX.bin
    struct file_map index;   // PREFIX.idx
    struct file_map tokens;  // PREFIX.bin
    bool is_mapped;          // we own the maps; else the caller owns the bytes
};

// -1 if one of the files does not exist; the error suggests the probable name.
int index_files_find(const char *prefix);
// Maps both files. If one does not exist, the error is that of index_files_find.
int index_files_map(struct index_files *files, const char *prefix);
// index_files_map for bytes in memory, which the caller owns and which must outlive the files.
struct index_files index_files_in_memory(const char *prefix, struct file_map index, struct file_map tokens);
// Releases the pages that were read; they are loaded again on access.
void index_files_release(const struct index_files *files);
void index_files_close(struct index_files *files);
// -1 if writing a dataset of this name would replace a file: another dataset, an .idx of another kind, or a .bin
// without an .idx, which may be anything. `how` says how a dataset is replaced on purpose.
int index_files_check_output(const char *prefix, const char *how);
#define INDEX_REMOVE_FIRST "remove its .bin, .idx and .sha256 first"

// ---- what is in them ----

// Megatron's indexed dataset: PREFIX.bin holds only token ids, one sequence after another; PREFIX.idx says where each
// sequence begins and which sequences form a document. Little-endian, unpadded:
//
//   byte 0        9 bytes   "MMIDIDX" and two NULs
//   byte 9        u64       version, 1
//   byte 17       u8        dtype code of the tokens
//   byte 18       u64       S, the number of sequences
//   byte 26       u64       D, the number of documents + 1
//   byte 34       i32[S]    length of each sequence, in tokens
//   34+4S         i64[S]    byte of .bin where each sequence begins; contiguous: itemsize * the sum of lengths before
//   34+12S        i64[D]    document boundaries as sequence numbers: 0 first, S last, never decreasing
//   34+12S+8D     i8[S]     only in multimodal datasets; a text reader ignores it
//
// Both reader and writer use constant memory for any S. Several threads may share a reader.

enum index_dtype {
    INDEX_U8 = 1,
    INDEX_I8 = 2,
    INDEX_I16 = 3,
    INDEX_I32 = 4,
    INDEX_I64 = 5,
    INDEX_F64 = 6,
    INDEX_F32 = 7,
    INDEX_U16 = 8,
};

enum { INDEX_HEADER_BYTES = 34, INDEX_MAGIC_BYTES = 9 };
// The magic of .idx; its second NUL is the string's terminator.
#define INDEX_MAGIC "MMIDIDX\0"
// The remedy for damaged files, for messages.
#define INDEX_REMEDY "copy both files again, or make the dataset again"

size_t index_dtype_bytes(enum index_dtype dtype);      // 0 for a code that is not in the format
const char *index_dtype_name(enum index_dtype dtype);  // "uint16", …
// Megatron's choice: 16 bits for a known vocabulary of fewer than 65500 entries, else 32.
enum index_dtype index_dtype_for_vocab(int64_t vocab_size);
bool index_dtype_is_integer(enum index_dtype dtype);

// Converts count tokens from file bytes. Returns the position of the first that does not fit in an int32, or count if
// all do; from that position on, out is not written.
int64_t index_decode(enum index_dtype dtype, const unsigned char *bytes, int64_t count, int32_t *out);

// Converts count tokens to count * index_dtype_bytes(dtype) file bytes. Returns the position of the first that does not
// fit in the dtype, or count if all do; if not, out is undefined.
int64_t index_encode(enum index_dtype dtype, const int32_t *tokens, int64_t count, unsigned char *out);

// Position of the first token outside [0, limit), count if there is none.
int64_t index_find_outside(const int32_t *tokens, int64_t count, int64_t limit);

// ---- writing ----

struct index_writer;

// Creates PREFIX.bin and PREFIX.idx under temporary names until index_writer_commit. dtype must be an integer type.
int index_writer_open(struct index_writer **w, const char *prefix, enum index_dtype dtype);
// Adds one sequence to the current document; a count of 0 adds nothing. An id that does not fit in the dtype is an
// error.
int index_writer_add(struct index_writer *w, const int32_t *tokens, int64_t count);
// Ends the current document, which is empty if nothing was added.
int index_writer_end_document(struct index_writer *w);
// Bulk forms, for callers that do not write document by document: bytes of .bin in the writer's dtype, lengths of
// sequences, and document ends as sequence numbers. They must be consistent when the dataset is committed.
int index_writer_put_tokens(struct index_writer *w, const void *bytes, size_t count);
int index_writer_put_lengths(struct index_writer *w, const void *lengths, int64_t count);  // i32, unaligned
int index_writer_put_boundary(struct index_writer *w, int64_t sequence);
// Renames .bin, then .idx to their final names, durably. The last document must have been ended. Frees w, also on
// error; then no new files are left, and an existing dataset of that name is kept if the new one could not be written.
int index_writer_commit(struct index_writer *w);
// Commits several datasets, all or none. Frees them and sets the pointers to NULL.
int index_writers_commit(struct index_writer **writers, int64_t count);
// Removes the unfinished files and frees w. NULL is fine.
void index_writer_abort(struct index_writer *w);

// The parts of an .idx file, written from lists on disk that are too long for memory. Shared by all code that makes
// datasets.
// A list of numbers on disk.
struct index_list {
    int (*read)(void *context, uint64_t offset, void *out, size_t count);  // count bytes from a byte offset in the list
    void *context;
    int64_t count;  // of numbers
};

int index_write_header(struct file_writer *index, enum index_dtype dtype, int64_t sequences, int64_t boundaries);
// Copies count numbers of item_bytes each.
int index_write_list(struct file_writer *index, const struct index_list *list, size_t item_bytes);
// The byte offset of each sequence, from the lengths (int32); *end is the offset after the last.
int index_write_pointers(struct file_writer *index, const struct index_list *lengths, size_t token_bytes, int64_t *end);
// Document boundaries, from the number of sequences per document (int32): 0, then one entry per document; *end is the
// last.
int index_write_boundaries(struct file_writer *index, const struct index_list *documents, int64_t *end);

// ---- checksums ----

// PREFIX.sha256 has the SHA-256 of .bin and .idx. Writing it reads both; `name` is the prefix that they will have.
// `tokenizer` is the record of the one that made the ids (tokenizer/tokenizer.h); "" if it is not known.
enum { INDEX_SUMS = 2 };
int index_sums_write(const char *prefix, const char *name, const char *tokenizer);
// Appends that record; nothing if there is none.
void index_tokenizer_read(const char *prefix, struct buffer *record);
// Called before other files get these names. A missing file is not an error.
int index_sums_remove(const char *prefix);
// 1 and the digits; 0 if there is no such file; -1 if it is garbled.
int index_sums_read(const char *prefix, char sums[INDEX_SUMS][65]);
// 1 if both files have these sums; 0 if there is no such file; -1 with EXIT_CODE_BAD_DATA if they differ.
int index_sums_check(const char *prefix);

// ---- reading ----

struct index_reader {
    struct index_files files;
    enum index_dtype dtype;
    size_t item_bytes;       // bytes of one token in .bin
    int64_t sequence_count;  // S
    int64_t document_count;  // D - 1
    int64_t token_count;     // all tokens of .bin
};

// Maps both files and checks, in constant time, header, sizes, the first and last pointer and document boundary, and
// that .bin ends where the last sequence does. Errors in the content of a file have exit code EXIT_CODE_BAD_DATA.
int index_open(struct index_reader **reader, const char *prefix);
void index_close(struct index_reader *reader);  // NULL is fine
// Releases the pages that were read; they are loaded again on access. For callers that walk through a dataset larger
// than memory, about every INDEX_RELEASE_BYTES.
enum { INDEX_RELEASE_BYTES = 1 << 25 };
void index_release(const struct index_reader *reader);
// index_open for bytes in memory, which the caller owns: index_close does not unmap them.
int index_open_bytes(struct index_reader **reader, const char *prefix, struct file_map index, struct file_map tokens);
// Checks every length, pointer and boundary. index_verify_tokens also checks every token: those outside [0, vocab_size)
// are errors (with vocab_size 0, only negative ones).
int index_verify(const struct index_reader *reader);
int index_verify_tokens(const struct index_reader *reader, int64_t vocab_size);

// Reads tokens offset…offset+count-1 of a sequence as int32. Checks everything that could be unsafe in a damaged file.
int index_read(const struct index_reader *reader, int64_t sequence, int64_t offset, int64_t count, int32_t *out);

// index_read for samples of a model: every token must be an id of its vocabulary. With vocab_size 0 any id is accepted.
struct index_piece {
    int64_t sequence, offset, count;
};
int index_read_ids(const struct index_reader *reader, struct index_piece piece, int64_t vocab_size, int32_t *out);

// Appends every document of a dataset of the same dtype to a writer, whose current document must be ended.
int index_writer_append(struct index_writer *w, const struct index_reader *reader);
// Concatenates datasets of the same dtype, in the given order, into a new one. Each is verified; on error there is no
// output.
int index_merge(const char *output, char *const *prefixes, int64_t count);

// Byte offset of an entry in .idx.
static inline int64_t index_length_byte(int64_t sequence) {
    return INDEX_HEADER_BYTES + 4 * sequence;
}

static inline int64_t index_pointer_byte(const struct index_reader *reader, int64_t sequence) {
    return INDEX_HEADER_BYTES + 4 * reader->sequence_count + 8 * sequence;
}

static inline int64_t index_boundary_byte(const struct index_reader *reader, int64_t document) {
    return INDEX_HEADER_BYTES + 12 * reader->sequence_count + 8 * document;
}

// Raw entries; the arrays of .idx are unaligned. A damaged file may contain any value, so callers check what they use.
static inline int64_t index_length(const struct index_reader *reader, int64_t sequence) {
    int32_t value;
    memcpy(&value, reader->files.index.data + index_length_byte(sequence), sizeof value);
    return value;
}

static inline int64_t index_pointer(const struct index_reader *reader, int64_t sequence) {
    int64_t value;
    memcpy(&value, reader->files.index.data + index_pointer_byte(reader, sequence), sizeof value);
    return value;
}

// The lengths of all sequences from this one on, i32 each and unaligned.
static inline const unsigned char *index_lengths(const struct index_reader *reader, int64_t sequence) {
    return reader->files.index.data + index_length_byte(sequence);
}

// First sequence of a document; index_document_begin(reader, document_count) is S.
static inline int64_t index_document_begin(const struct index_reader *reader, int64_t document) {
    int64_t value;
    memcpy(&value, reader->files.index.data + index_boundary_byte(reader, document), sizeof value);
    return value;
}

// The sequences of a document, and the range of its tokens in .bin. Only for verified datasets: nothing is checked
// here.
struct index_document {
    int64_t first_sequence, sequence_count;
    uint64_t begin_byte, bytes;
};
struct index_document index_document(const struct index_reader *reader, int64_t document);

#endif
