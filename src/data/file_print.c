// Digests of files by piece, their list on disk, and sketches of files. See file_print.h.
#include "data/file_print.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/lifeline.h"
#include "base/memory.h"
#include "base/watchdog.h"
#include "net/remote.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FORMAT = 1, HEX_DIGITS = 16, WHOLE_PIECES = 4, DRAWN_PIECES = 2 };
static const size_t most_list_bytes = (size_t)1 << 30;

int64_t file_print_pieces(uint64_t bytes) {
    return (int64_t)((bytes + FILE_PRINT_PIECE_BYTES - 1) / FILE_PRINT_PIECE_BYTES);
}

void file_print_free(struct file_print *print) {
    free(print->path);
    free(print->pieces);
    *print = (struct file_print){0};
}

void file_print_copy(struct file_print *to, const struct file_print *from) {
    size_t count = (size_t)file_print_pieces(from->bytes);
    *to = *from;
    to->path = memory_string(from->path);
    to->pieces = memory_alloc((count + 1) * sizeof *to->pieces);
    memcpy(to->pieces, from->pieces, count * sizeof *to->pieces);
}

// ---- reading files ----

static int open_file(const char *path, struct stat *status) {
    int descriptor = file_open_input(path, status);
    TRY(descriptor);
    if (!S_ISREG(status->st_mode)) {
        close(descriptor);
        return error_set("%s is %s, not a regular file; give a file that can be read again", path,
                         file_describe_kind(status->st_mode));
    }
    return descriptor;
}

static int64_t modified_ns(const struct stat *status) {
    return (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
}

// The digest of piece i of a file with `bytes` bytes.
static int hash_piece(int descriptor, const char *path, uint64_t bytes, int64_t i, uint64_t *digest) {
    enum { STEP_BYTES = 1 << 18 };
    uint64_t at = (uint64_t)i * FILE_PRINT_PIECE_BYTES,
             end = bytes - at < FILE_PRINT_PIECE_BYTES ? bytes : at + FILE_PRINT_PIECE_BYTES;
    unsigned char *step = memory_alloc(STEP_BYTES), result[32];
    struct sha256 hash;
    sha256_init(&hash);
    int status = interrupt_check();
    while (status == 0 && at < end) {
        size_t wanted = end - at < STEP_BYTES ? (size_t)(end - at) : STEP_BYTES;
        size_t got = file_read_at(descriptor, step, wanted, at);
        if (got < wanted)
            status = error_set("cannot read %s at byte %" PRIu64 ": %s; check the file and the disk", path, at + got,
                               errno ? strerror(errno) : "it was truncated");
        sha256_update(&hash, step, got);
        at += got;
    }
    free(step);
    sha256_final(&hash, result);
    *digest = 0;
    for (int k = 0; k < 8; k++)
        *digest = *digest << 8 | result[k];
    return status;
}

// An object gets one digest for all pieces: that of its ETag.
static int take_remote(struct file_print *print, const char *url, const char *name) {
    struct remote_object object;
    int status = remote_find(&object, url);
    if (status == 0)
        status = error_set("cannot open %s: no such object; check the address", url);
    if (status > 0 && (object.size == UINT64_MAX || !object.tag[0]))
        status =
            error_set("the server of %s does not report a size and an ETag; download the file and give its path", url);
    if (status > 0) {
        unsigned char digest[32];
        struct sha256 hash;
        sha256_init(&hash);
        sha256_update(&hash, object.tag, strlen(object.tag));
        sha256_final(&hash, digest);
        *print = (struct file_print){.path = memory_string(name), .bytes = object.size};
        size_t count = (size_t)file_print_pieces(print->bytes);
        print->pieces = memory_alloc((count + 1) * sizeof *print->pieces);
        for (size_t i = 0; i < count; i++)
            memcpy(&print->pieces[i], digest, sizeof print->pieces[i]);
    }
    remote_object_free(&object);
    return status < 0 ? -1 : 0;
}

// Whether the object still matches the print.
static int check_remote(const struct file_print *print, const char *url) {
    struct file_print now = {0};
    char before[65], after[65] = "";
    file_print_digest(print, before);
    if (take_remote(&now, url, "") == 0)
        file_print_digest(&now, after);
    error_clear();
    file_print_free(&now);
    return strcmp(before, after) == 0;
}

int file_print_take(struct file_print *print, const char *path, const char *name) {
    struct stat status;
    *print = (struct file_print){0};
    if (url_is_remote(path))
        return take_remote(print, path, name);
    int descriptor = open_file(path, &status);
    TRY(descriptor);
    *print = (struct file_print){
        .path = memory_string(name), .bytes = (uint64_t)status.st_size, .modified_ns = modified_ns(&status)};
    int64_t count = file_print_pieces(print->bytes);
    print->pieces = memory_alloc(((size_t)count + 1) * sizeof *print->pieces);
    int result = 0;
    for (int64_t i = 0; result == 0 && i < count; i++)
        result = hash_piece(descriptor, path, print->bytes, i, &print->pieces[i]);
    close(descriptor);
    if (result < 0)
        file_print_free(print);
    return result;
}

static int check_piece(const struct file_print *print, const char *path, int descriptor, int64_t i) {
    uint64_t digest;
    TRY(hash_piece(descriptor, path, print->bytes, i, &digest));
    return digest == print->pieces[i];
}

static int check_open(const struct file_print *print, const char *path, int descriptor, bool is_touched) {
    int64_t count = file_print_pieces(print->bytes);
    int same = 1;
    if (is_touched || count <= WHOLE_PIECES) {
        for (int64_t i = 0; same == 1 && i < count; i++)
            same = check_piece(print, path, descriptor, i);
        return same;
    }
    uint64_t seed = (uint64_t)(clock_wall_seconds() * 1e6);
    same = check_piece(print, path, descriptor, 0);
    if (same == 1)
        same = check_piece(print, path, descriptor, count - 1);
    for (uint64_t i = 0; same == 1 && i < DRAWN_PIECES; i++)
        same = check_piece(print, path, descriptor, (int64_t)(hash_bytes(&i, sizeof i, seed) % (uint64_t)count));
    return same;
}

int file_print_check(const struct file_print *print, const char *path) {
    struct stat status;
    if (url_is_remote(path))
        return check_remote(print, path);
    int descriptor = open_file(path, &status), same = 0;
    if (descriptor >= 0 && (uint64_t)status.st_size == print->bytes)
        same = check_open(print, path, descriptor, modified_ns(&status) != print->modified_ns);
    if (descriptor >= 0)
        close(descriptor);
    if (same < 0 && error_exit_code() == EXIT_CODE_STOPPED)
        return -1;
    if (descriptor < 0 || same < 0)
        error_clear();
    return same == 1;
}

int file_print_is_untouched(const struct file_print *print, const char *path) {
    struct stat status;
    if (url_is_remote(path))
        return check_remote(print, path);
    return stat(path, &status) == 0 && (uint64_t)status.st_size == print->bytes &&
           modified_ns(&status) == print->modified_ns;
}

void file_print_digest(const struct file_print *print, char hex[65]) {
    unsigned char digest[32];
    struct sha256 hash;
    sha256_init(&hash);
    sha256_update(&hash, &print->bytes, sizeof print->bytes);
    sha256_update(&hash, print->pieces, (size_t)file_print_pieces(print->bytes) * sizeof *print->pieces);
    sha256_final(&hash, digest);
    sha256_hex(digest, hex);
}

// ---- lists on disk ----

int file_print_list_write(const struct file_print_list *list, const char *path) {
    struct buffer text = {0}, pieces = {0};
    struct json_writer w = {.out = &text};
    json_begin_object(&w);
    json_put_int(&w, "format", FORMAT);
    json_put_string(&w, "about", list->about);
    json_key(&w, "files");
    json_begin_array(&w);
    for (int64_t i = 0; i < list->count; i++) {
        const struct file_print *print = &list->items[i];
        buffer_clear(&pieces);
        for (int64_t k = 0; k < file_print_pieces(print->bytes); k++)
            buffer_printf(&pieces, "%016" PRIx64, print->pieces[k]);
        json_begin_object(&w);
        json_put_string(&w, "path", print->path);
        json_put_int(&w, "bytes", (int64_t)print->bytes);
        json_put_int(&w, "modified_ns", print->modified_ns);
        json_put_string(&w, "pieces", buffer_string(&pieces));
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    int status = file_write_all(path, text.data, text.length);
    buffer_free(&text);
    buffer_free(&pieces);
    return status;
}

static int read_pieces(struct file_print *print, const char *hex) {
    size_t count = (size_t)file_print_pieces(print->bytes);
    if (strlen(hex) / HEX_DIGITS != count || strlen(hex) % HEX_DIGITS != 0 ||
        strspn(hex, "0123456789abcdef") != strlen(hex))
        return error_set("the digests are not those of %" PRIu64 " bytes", print->bytes);
    print->pieces = memory_alloc((count + 1) * sizeof *print->pieces);
    for (size_t i = 0; i < count; i++) {
        char digits[HEX_DIGITS + 1] = "";
        memcpy(digits, hex + i * HEX_DIGITS, HEX_DIGITS);
        print->pieces[i] = strtoull(digits, NULL, 16);
    }
    return 0;
}

static const char *text_member(const struct json *object, const char *name) {
    const struct json *member = object->type == JSON_OBJECT ? json_member(object, name) : NULL;
    return member && member->type == JSON_STRING ? member->string : NULL;
}

static int read_print(struct file_print *print, const struct json *object) {
    const char *path = text_member(object, "path"), *pieces = text_member(object, "pieces");
    int64_t bytes;
    if (!path || !pieces)
        return error_set("a file has no path or no digests");
    TRY(json_get_int(object, "bytes", &bytes));
    TRY(json_get_int(object, "modified_ns", &print->modified_ns));
    if (bytes < 0)
        return error_set("a size is negative");
    print->bytes = (uint64_t)bytes;
    TRY(read_pieces(print, pieces));
    print->path = memory_string(path);
    return 0;
}

static int read_list(struct file_print_list *list, const struct json *root) {
    int64_t format;
    const char *about = text_member(root, "about");
    const struct json *files = root->type == JSON_OBJECT ? json_member(root, "files") : NULL;
    if (!about || !files || files->type != JSON_ARRAY)
        return error_set("it does not list files");
    TRY(json_get_int(root, "format", &format));
    if (format != FORMAT)
        return error_set("another version of the program wrote it");
    list->about = memory_string(about);
    list->items = memory_alloc((files->count + 1) * sizeof *list->items);
    for (size_t i = 0; i < files->count; i++)
        TRY(read_print(&list->items[list->count++], &files->items[i]));
    return 0;
}

int file_print_list_parse(struct file_print_list *list, const char *text, size_t length, const char *name) {
    struct json *root;
    *list = (struct file_print_list){0};
    TRY(json_parse(&root, text, length, name));
    int status = read_list(list, root);
    json_free(root);
    if (status == 0)
        return 0;
    file_print_list_free(list);
    return error_context("%s", name);
}

int file_print_list_read(struct file_print_list *list, const char *path) {
    struct buffer text = {0};
    *list = (struct file_print_list){0};
    int status = file_read_all(path, most_list_bytes, &text);
    if (status == 0)
        status = file_print_list_parse(list, buffer_string(&text), text.length, path);
    buffer_free(&text);
    return status;
}

void file_print_list_free(struct file_print_list *list) {
    for (int64_t i = 0; i < list->count; i++)
        file_print_free(&list->items[i]);
    free(list->items);
    free(list->about);
    *list = (struct file_print_list){0};
}

// ---- sketches ----

enum { SKETCHED_WHOLE = 32 << 20, SKETCH_PIECE_BYTES = 4096 };

static uint64_t hash_pieces(const struct file_map *map, uint64_t pieces, uint64_t seed) {
    uint64_t hash = 0, part = map->size / pieces;
    for (uint64_t i = 0; i < pieces; i++) {
        uint64_t offset = hash_bytes(&i, sizeof i, seed) % (part - SKETCH_PIECE_BYTES + 1), at = part * i + offset;
        if (i == 0 || i + 1 == pieces)
            at = i == 0 ? 0 : map->size - SKETCH_PIECE_BYTES;
        hash = hash_bytes(map->data + at, SKETCH_PIECE_BYTES, hash);
    }
    return hash;
}

struct file_sketch file_sketch_take(const char *path, int pieces, uint64_t seed) {
    struct file_map map;
    CHECK(pieces > 0 && pieces <= SKETCHED_WHOLE / SKETCH_PIECE_BYTES);
    if (file_map_open(&map, path) < 0) {
        error_clear();
        return (struct file_sketch){.bytes = -1};
    }
    bool is_whole = map.size <= SKETCHED_WHOLE;
    // Reading the pages around a piece would be wasted.
    if (!is_whole)
        (void)posix_madvise((void *)(uintptr_t)map.data, map.size, POSIX_MADV_RANDOM);
    uint64_t hash = is_whole ? hash_bytes(map.data, map.size, 0) : hash_pieces(&map, (uint64_t)pieces, seed);
    struct file_sketch sketch = {.bytes = (int64_t)map.size, .hash = (int64_t)hash};
    file_map_close(&map);
    return sketch;
}

struct file_sketch file_sketch_take_whole(const char *path) {
    struct file_sketch sketch = {.bytes = -1};
    struct file_map map;
    uint64_t hash = 0;
    size_t at = 0;
    if (file_map_open(&map, path) < 0) {
        error_clear();
        return sketch;
    }
    (void)posix_madvise((void *)(uintptr_t)map.data, map.size, POSIX_MADV_SEQUENTIAL);
    watchdog_doing("reading", path);
    for (size_t block; at < map.size && interrupt_check() == 0; at += block) {
        block = map.size - at < SKETCHED_WHOLE ? map.size - at : SKETCHED_WHOLE;
        hash = hash_bytes(map.data + at, block, hash);
        file_map_release(&map, at, at + block);
        watchdog_beat();
        lifeline_beat();
    }
    watchdog_done();
    if (at == map.size)
        sketch = (struct file_sketch){.bytes = (int64_t)map.size, .hash = (int64_t)hash};
    else
        error_clear();
    file_map_close(&map);
    return sketch;
}

bool file_sketch_is_partial(int64_t bytes) {
    return bytes > SKETCHED_WHOLE;
}
