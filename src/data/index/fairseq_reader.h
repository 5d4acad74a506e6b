// Datasets of fairseq-preprocess: PREFIX.bin has the tokens, one item for each line of text; PREFIX.idx has one of two
// formats, which its first bytes tell. Little-endian, unpadded.
//
//   --dataset-impl mmap                          --dataset-impl cached or lazy (TorchNet)
//   byte 0   "MMIDIDX" and two NULs              byte 0    "TNTIDX" and two NULs
//        9   u64     version, 1                       8    u64       version, 1
//       17   u8      dtype code                      16    u64       dtype code
//       18   u64     n, items                        24    u64       bytes of a token
//       26   i32[n]  length of each item             32    u64       n, items
//    26+4n   i64[n]  byte of .bin of each            40    u64       m, dimensions of all items; n for text
//                                                    48    i64[n+1]  dimensions before each item: 0, 1, 2 …
//                                                 56+8n    i64[n+1]  tokens before each item
//                                                64+16n    i64[m]    length of each item
//
// Tokens in the second format are ids plus 1. Codes are those of index.h, plus 9 for u32 and 10 for u64; 6 and 7 are
// floats. A Megatron index begins like the first format, but has a list of documents at its end.
#ifndef DATA_INDEX_FAIRSEQ_READER_H
#define DATA_INDEX_FAIRSEQ_READER_H

#include "data/index/index.h"
#include <stdbool.h>
#include <stdint.h>

struct fairseq_reader {
    struct index_files files;
    bool is_torchnet;
    int code;            // of the dtype
    size_t item_bytes;   // of a token
    int64_t item_count;  // lines
    int64_t token_count;
};

// Maps both files and checks header and sizes. Errors in the content of a file have exit code EXIT_CODE_BAD_DATA.
int fairseq_reader_open(struct fairseq_reader **reader, const char *prefix);
// fairseq_reader_open for bytes in memory, which the caller owns.
int fairseq_reader_open_bytes(struct fairseq_reader **reader, const char *prefix, struct file_map index,
                              struct file_map tokens);
void fairseq_reader_close(struct fairseq_reader *reader);  // NULL is fine

// Visits the items from first to last and checks that each follows the previous one, so that after the last one all of
// .bin was covered.
struct fairseq_walk {
    const struct fairseq_reader *reader;
    int64_t next;         // item
    uint64_t next_token;  // where it must begin
};
// The next item: 1, 0 after the last (which must be the end of .bin), -1 on error.
int fairseq_walk_next(struct fairseq_walk *walk, uint64_t *first_token, int64_t *length);
// Tokens first…first+count-1 of .bin as ids. A negative token, or one that does not fit in an int32, is an error.
int fairseq_read(const struct fairseq_reader *reader, uint64_t first, int64_t count, int32_t *out);
// Releases the pages that were read; see index_release.
void fairseq_release(const struct fairseq_reader *reader);

#endif
