// Compares digests of the dataset files that ranks see. See same_data.h.
#include "train/same_data.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/file_sketch.h"

#include <inttypes.h>
#include <stdlib.h>

enum { PIECES = 1024, FILES = 2 };
enum { SKETCH_WORDS = sizeof(struct file_sketch) / sizeof(int64_t) };

static const char *const endings[FILES] = {".idx", ".bin"};

static int compare(const char *path, struct file_sketch own, struct file_sketch first) {
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
    struct file_sketch *own = memory_alloc(sizeof *own * (size_t)(FILES * count));
    struct file_sketch *first = memory_alloc(sizeof *first * (size_t)(FILES * count));
    int status = 0;
    int64_t seed = (int64_t)(clock_wall_seconds() * 1e6);
    comm_broadcast_i64(all, &seed, 1, 0, "where to look at the data");
    for (int64_t i = 0; i < FILES * count; i++) {
        char *path = memory_printf("%s%s", prefixes[i / FILES], endings[i % FILES]);
        first[i] = own[i] = file_sketch_take(path, PIECES, (uint64_t)seed);
        free(path);
    }
    comm_broadcast_i64(all, (int64_t *)first, (int)(SKETCH_WORDS * FILES * count), 0, "datasets of rank 0");
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
    if (mesh->size == mesh_count(mesh, MESH_SAMPLES))
        return 0;
    // The first of the ranks with the same share of the rows sends it to the others.
    int place[AXIS_COUNT] = {0};
    mesh_move(mesh, place, MESH_SAMPLES, mesh_index(mesh, mesh->place, MESH_SAMPLES));
    int teller = mesh_rank_at(mesh, place);
    int64_t *told = memory_alloc(sizeof *told * (size_t)mesh->size);
    told[mesh->rank] = (int64_t)digest;
    comm_all_gather_i64(mesh->all, told, 1, "rows that were read");
    int status = 0;
    if (told[teller] != (int64_t)digest)
        status = error_set_code(
            EXIT_CODE_BAD_DATA,
            "it read other training data than rank %d, which should read the same rows; give all nodes the same files "
            "(e.g. on a shared file system) and resume from the last checkpoint",
            teller);
    free(told);
    return comm_agree(mesh->all, status, "rows that were read");
}
