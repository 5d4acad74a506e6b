// See same_data.h.
#include "train/same_data.h"

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>

enum { PIECES = 16, PIECE_BYTES = 4096, FILES = 2 };

static const char *const endings[FILES] = {".idx", ".bin"};

struct print {
    int64_t bytes;  // -1 where the file cannot be read
    int64_t hash;   // of pieces at equal distances, the first and the last bytes among them
};
enum { PRINT_WORDS = sizeof(struct print) / sizeof(int64_t) };

static struct print print_of(const char *path) {
    struct file_map map;
    if (file_map_open(&map, path) < 0) {
        error_clear();
        return (struct print){.bytes = -1};
    }
    size_t piece = map.size < PIECE_BYTES ? map.size : PIECE_BYTES, last = map.size - piece;
    uint64_t hash = 0;
    for (size_t i = 0; i < PIECES && map.size > 0; i++)
        hash = hash_bytes(map.data + (i + 1 < PIECES ? last / (PIECES - 1) * i : last), piece, hash);
    struct print print = {.bytes = (int64_t)map.size, .hash = (int64_t)hash};
    file_map_close(&map);
    return print;
}

static int compare(const char *path, struct print own, struct print first) {
    const char *remedy = "; give all machines the same files, or put them on a file system that all share";
    if (own.bytes == first.bytes && own.hash == first.hash)
        return 0;
    if (own.bytes < 0 || first.bytes < 0)
        return error_set_code(EXIT_CODE_BAD_DATA, "%s can%s be read here, but can%s by rank 0%s", path,
                              own.bytes < 0 ? "not" : "", first.bytes < 0 ? "not" : "", remedy);
    if (own.bytes != first.bytes)
        return error_set_code(EXIT_CODE_BAD_DATA,
                              "%s is another file than rank 0's: it has %" PRId64 " bytes and not %" PRId64 "%s", path,
                              own.bytes, first.bytes, remedy);
    return error_set_code(EXIT_CODE_BAD_DATA, "%s is another file than rank 0's, of the same size%s", path, remedy);
}

int same_data_check(struct group *all, const char *const *prefixes, int64_t count) {
    if (group_size(all) == 1)
        return 0;
    struct print *own = memory_alloc(sizeof *own * (size_t)(FILES * count));
    struct print *first = memory_alloc(sizeof *first * (size_t)(FILES * count));
    int status = 0;
    for (int64_t i = 0; i < FILES * count; i++) {
        char *path = memory_printf("%s%s", prefixes[i / FILES], endings[i % FILES]);
        first[i] = own[i] = print_of(path);
        free(path);
    }
    comm_broadcast_i64(all, (int64_t *)first, (int)(PRINT_WORDS * FILES * count), 0, "datasets of rank 0");
    for (int64_t i = 0; i < FILES * count && status == 0; i++) {
        char *path = memory_printf("%s%s", prefixes[i / FILES], endings[i % FILES]);
        status = compare(path, own[i], first[i]);
        free(path);
    }
    free(own);
    free(first);
    return comm_agree(all, status, "datasets of all ranks");
}
