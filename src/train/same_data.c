// Compares digests of the dataset files that ranks see. See same_data.h.
#include "train/same_data.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { WHOLE_BYTES = 32 << 20, PIECES = 1024, PIECE_BYTES = 4096, FILES = 2 };

static const char *const endings[FILES] = {".idx", ".bin"};

struct print {
    int64_t bytes;  // -1 if the file cannot be read
    int64_t hash;   // of all of it or of pieces, see print_of
};
enum { PRINT_WORDS = sizeof(struct print) / sizeof(int64_t) };

// A piece of each of as many equal parts of the file, somewhere in it; the first and the last begin and end it.
static uint64_t hash_pieces(const struct file_map *map, uint64_t seed) {
    uint64_t hash = 0, part = map->size / PIECES;
    for (uint64_t i = 0; i < PIECES; i++) {
        uint64_t offset = hash_bytes(&i, sizeof i, seed) % (part - PIECE_BYTES + 1), at = part * i + offset;
        if (i == 0 || i + 1 == PIECES)
            at = i == 0 ? 0 : map->size - PIECE_BYTES;
        hash = hash_bytes(map->data + at, PIECE_BYTES, hash);
    }
    return hash;
}

static struct print print_of(const char *path, uint64_t seed) {
    struct file_map map;
    if (file_map_open(&map, path) < 0) {
        error_clear();
        return (struct print){.bytes = -1};
    }
    bool is_whole = map.size <= WHOLE_BYTES;
    // Pages beside a piece are read for nothing.
    if (!is_whole)
        (void)posix_madvise((void *)(uintptr_t)map.data, map.size, POSIX_MADV_RANDOM);
    uint64_t hash = is_whole ? hash_bytes(map.data, map.size, 0) : hash_pieces(&map, seed);
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
    int64_t seed = (int64_t)(clock_wall_seconds() * 1e6);
    comm_broadcast_i64(all, &seed, 1, 0, "where to look at the data");
    for (int64_t i = 0; i < FILES * count; i++) {
        char *path = memory_printf("%s%s", prefixes[i / FILES], endings[i % FILES]);
        first[i] = own[i] = print_of(path, (uint64_t)seed);
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

int same_data_check_rows(const struct mesh *mesh, uint64_t digest) {
    int shares = mesh->length[AXIS_DATA];
    if (mesh->size == shares)
        return 0;
    // Of the ranks with one share of the rows, the first tells the others.
    int teller = mesh_rank_at(mesh, (const int[AXIS_COUNT]){[AXIS_DATA] = mesh->place[AXIS_DATA]});
    int64_t own = (int64_t)(digest >> 1), *told = memory_alloc(sizeof *told * (size_t)shares);
    if (mesh->rank == teller)
        told[mesh->place[AXIS_DATA]] = own;
    comm_max_i64(mesh->all, told, shares, "rows that were read");
    int status = 0;
    if (told[mesh->place[AXIS_DATA]] != own)
        status =
            error_set_code(EXIT_CODE_BAD_DATA,
                           "since the start it has read other rows of the training data than rank %d, which trains "
                           "on the same ones; give all machines the same files, or put them on a file system that "
                           "all share, and go on from the last checkpoint",
                           teller);
    free(told);
    return comm_agree(mesh->all, status, "rows that were read");
}
