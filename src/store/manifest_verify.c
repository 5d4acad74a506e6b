// Verifies the files of a checkpoint against its manifest, and says where they are damaged. One pass over a file gives
// its SHA-256 and the running sums on the way.
#include "store/manifest.h"

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/phase.h"
#include "store/safetensors.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Where the header of a file of tensors and each of its tensors end, according to the file.
struct tensor_ends {
    struct safetensors file;
    const struct safetensors_tensor **order;
    uint64_t *ends;  // (count)
    size_t count;
};

static void places_close(struct tensor_ends *places) {
    free(places->order);
    free(places->ends);
    safetensors_close(&places->file);
}

// A damaged file may have an invalid header: then no places are known.
static void places_open(struct tensor_ends *places, const char *path) {
    *places = (struct tensor_ends){0};
    if (safetensors_open(&places->file, path) < 0) {
        error_clear();
        return;
    }
    places->order = safetensors_order(&places->file);
    places->count = places->file.count + 1;
    places->ends = memory_alloc(places->count * sizeof places->ends[0]);
    size_t data = 0;
    for (size_t i = 0; i < places->file.count; i++)
        data += places->order[i]->bytes;
    places->ends[0] = places->file.map.size - data;
    for (size_t i = 0; i < places->file.count; i++)
        places->ends[i + 1] = places->ends[i] + places->order[i]->bytes;
}

// Appends the place of the first damaged byte to the current message.
static int name_place(const struct tensor_ends *places, const struct manifest_file *file, const uint64_t *sums) {
    size_t i = 0;
    while (places->count == file->sum_count && i < file->sum_count && sums[i] == file->sums[i])
        i++;
    OWNED char *message = memory_string(error_message());
    if (places->count != file->sum_count || i == 0)
        error_set("%s; the damage is in its header, which lists the tensors", message);
    else if (i < places->count)
        error_set("%s; the first damage is in tensor \"%.200s\", bytes %" PRIu64 " to %" PRIu64 " of the file%s",
                  message, places->order[i - 1]->name, places->ends[i - 1], places->ends[i] - 1,
                  i + 1 < places->count ? ", and those after it were not checked" : "");
    return -1;
}

// Whether the manifest's tensor names are the file's.
static bool has_names(const struct tensor_ends *places, const struct manifest_file *file) {
    bool has = places->count == file->tensor_count + 1;
    for (size_t i = 0; has && i < file->tensor_count; i++)
        has = manifest_name_hash(places->order[i]->name) == file->tensors[i];
    return has;
}

static int verify_bytes(const struct manifest_file *file, const char *path, const struct tensor_ends *places) {
    OWNED uint64_t *sums = memory_alloc((places->count + 1) * sizeof sums[0]);
    struct sha256_marks marks = {.ends = places->ends, .sums = sums, .count = places->count};
    char sha256[65];
    int result = sha256_file_marked(path, sha256, &marks);
    if (result == 0 && strcmp(sha256, file->sha256) != 0) {
        result =
            error_set("%s has the right size but not the SHA-256 of the manifest (%.12s…, expected %.12s…): its bytes "
                      "have changed",
                      path, sha256, file->sha256);
        if (file->sums)
            result = name_place(places, file, sums);
    } else if (result == 0 && file->sums &&
               (places->count != file->sum_count || memcmp(sums, file->sums, file->sum_count * sizeof sums[0]) != 0)) {
        result = error_set(
            "%s is whole, but its tensors have other checksums than the manifest says: the manifest was changed", path);
    } else if (result == 0 && file->tensors && !has_names(places, file)) {
        result = error_set("%s is whole, but the manifest lists other tensors for it: the manifest was changed", path);
    }
    return result;
}

// Compares the size and, unless skipped, every byte. The message names the file and, if the manifest has running sums
// for it, the first damaged tensor and its bytes.
static int verify_file(const struct manifest_file *file, const char *path, bool skip_checksums) {
    uint64_t bytes = 0;
    if (!file_exists(path) || file_is_folder(path))
        return error_set("%s %s, but the manifest lists a file of that name; restore it from a copy", path,
                         file_exists(path) ? "is a folder" : "is missing");
    TRY(file_size(path, &bytes));
    if (bytes != file->bytes)
        return error_set("%s has %" PRIu64 " bytes and the manifest says %" PRIu64
                         "; it was truncated, changed or replaced: restore it from a copy",
                         path, bytes, file->bytes);
    if (skip_checksums)
        return 0;
    struct tensor_ends places = {0};
    if (file->sums || file->tensors)
        places_open(&places, path);
    int result = verify_bytes(file, path, &places);
    places_close(&places);
    return result;
}

// ---- all files ----

struct dealt_file {
    size_t number;
    uint64_t bytes;
};

static int compare_bytes(const void *a, const void *b) {
    const struct dealt_file *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

// Marks the files of this process: largest first, each to the one with the least; all processes compute the same.
static bool *deal_out(const struct manifest *manifest, const struct manifest_proof *proof) {
    bool *is_own = memory_alloc(manifest->count * sizeof is_own[0] + 1);
    OWNED uint64_t *load = memory_alloc((size_t)proof->size * sizeof load[0]);
    OWNED struct dealt_file *files = memory_alloc((manifest->count + 1) * sizeof files[0]);
    for (size_t i = 0; i < manifest->count; i++)
        files[i] = (struct dealt_file){i, manifest->files[i].bytes};
    qsort(files, manifest->count, sizeof files[0], compare_bytes);
    for (size_t i = 0; i < manifest->count; i++) {
        int least = 0;
        for (int rank = 1; rank < proof->size; rank++)
            least = load[rank] < load[least] ? rank : least;
        // The 1 stands for the cost of opening a file.
        load[least] += files[i].bytes + 1;
        is_own[files[i].number] = least == proof->self;
    }
    return is_own;
}

int manifest_verify(const struct manifest *manifest, const char *folder, const struct manifest_proof *proof) {
    int result = 0;
    OWNED bool *is_own = deal_out(manifest, proof);
    double bytes = 0;
    for (size_t i = 0; i < manifest->count; i++)
        bytes += is_own[i] ? (double)manifest->files[i].bytes : 0;
    struct phase *phase = phase_begin_amount("verifying the checkpoint", "bytes", bytes);
    for (size_t i = 0; i < manifest->count && result == 0; i++) {
        if (!is_own[i])
            continue;
        OWNED char *path = file_join(folder, manifest->files[i].name);
        result = verify_file(&manifest->files[i], path, proof->skip_checksums);
        phase_advance(phase, (int64_t)manifest->files[i].bytes);
    }
    phase_end(phase);
    return result;
}
