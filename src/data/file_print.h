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

#endif
