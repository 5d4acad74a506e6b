// Fingerprints of files when they were read: size, modification time and a digest of each piece. A later run uses them
// to tell whether a file still has the same content, without reading all of a large file. For an object in S3 or on the
// web the ETag replaces the digests, and nothing is read.
//
// A list of prints is kept as JSON:
//
//   {"format": 1, "about": TEXT, "files": [{"path": …, "bytes": …, "modified_ns": …, "pieces": HEX}, …]}
//
// with 16 hexadecimal digits for each piece.
#ifndef DATA_FILE_PRINT_H
#define DATA_FILE_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FILE_PRINT_PIECE_BYTES = 1 << 24 };

struct file_print {
    char *path;
    uint64_t bytes;
    int64_t modified_ns;  // since 1970
    uint64_t *pieces;     // (file_print_pieces(bytes)) the first 64 bits of the SHA-256 of each piece
};

struct file_print_list {
    char *about;  // describes the files; set by the list's writer
    struct file_print *items;
    int64_t count;
};

int64_t file_print_pieces(uint64_t bytes);
// Reads the whole file. `path` is opened, print->path is a copy of `name`.
int file_print_take(struct file_print *print, const char *path, const char *name);
void file_print_free(struct file_print *print);
void file_print_copy(struct file_print *to, const struct file_print *from);
// Whether the file still has the same content: 1 if so, else 0, also if it is gone. Reads all of a file if it has at
// most 64 MiB or its modification time changed; of other files only the first piece, the last and two random ones,
// chosen again at each call.
int file_print_check(const struct file_print *print, const char *path);
// Whether size and modification time are unchanged.
int file_print_is_untouched(const struct file_print *print, const char *path);
// The SHA-256 of size and digests: equal for files with the same content.
void file_print_digest(const struct file_print *print, char hex[65]);

int file_print_list_write(const struct file_print_list *list, const char *path);
int file_print_list_read(struct file_print_list *list, const char *path);
// Parses a list in memory; error messages call the text `name`. On error the list is empty.
int file_print_list_parse(struct file_print_list *list, const char *text, size_t length, const char *name);
void file_print_list_free(struct file_print_list *list);

// ---- sketches ----

// The size of a file and a hash of some of its bytes, for files that are too large to be read whole: enough to tell
// datasets apart, not to prove them equal. Or a hash of all of them, which takes longer.
struct file_sketch {
    int64_t bytes;  // -1 if the file cannot be read
    int64_t hash;
};

// Hashes all of a file of up to 32 MiB. Of a larger one, a piece of 4 KiB from each of `pieces` equal parts: those of
// the first and the last part begin and end the file, `seed` places the others.
struct file_sketch file_sketch_take(const char *path, int pieces, uint64_t seed);
// Hashes all of a file. A signal ends it as if the file could not be read.
struct file_sketch file_sketch_take_whole(const char *path);
// Whether file_sketch_take leaves out bytes of a file of this size.
bool file_sketch_is_partial(int64_t bytes);

#endif
