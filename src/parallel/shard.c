// Slices of tensors as runs of contiguous elements. Also strips of sequences. See shard.h.
#include "parallel/shard.h"
#include "base/error.h"
#include <string.h>

struct shard shard_whole(int rank, int64_t rows, int64_t columns) {
    CHECK(rank == 1 || rank == 2);
    struct shard shard = {.rank = rank, .global = {rows, rank == 2 ? columns : 1, 1}, .segment_count = 1, .parts = 1};
    shard.segments[0] = rows;
    return shard;
}

struct shard shard_matrices(int64_t count, int64_t rows, int64_t columns) {
    struct shard shard = {.rank = 3, .global = {count, rows, columns}, .segment_count = 1, .parts = 1};
    shard.segments[0] = count;
    return shard;
}

struct shard shard_split(struct shard whole, int dimension, int parts, int part) {
    CHECK(whole.parts == 1 && dimension < whole.rank && part >= 0 && part < parts);
    if (whole.segment_count == 1)
        whole.segments[0] = whole.global[dimension];
    for (int i = 0; i < whole.segment_count; i++)
        CHECK(whole.segment_count == 1 || whole.segments[i] % parts == 0);
    whole.dimension = dimension;
    whole.parts = parts;
    whole.part = part;
    return whole;
}

struct shard shard_split_outer(struct shard shard, int parts, int part) {
    CHECK(shard.outer <= 1 && part >= 0 && part < parts && shard.global[0] % parts == 0);
    CHECK(shard.parts == 1 || shard.dimension > 0);
    shard.outer = parts;
    shard.part += shard.parts * part;
    shard.parts *= parts;
    return shard;
}

// Slices per outer part, and the number of this one.
int shard_inner_parts(const struct shard *shard) {
    return shard->outer > 1 ? shard->parts / shard->outer : shard->parts;
}

static int shard_inner_part(const struct shard *shard) {
    return shard->part % shard_inner_parts(shard);
}

// Length and start of the outer part along the first dimension.
static int64_t outer_length(const struct shard *shard) {
    return shard->outer > 1 ? shard->global[0] / shard->outer : shard->global[0];
}

static int64_t outer_start(const struct shard *shard) {
    return shard->outer > 1 ? shard->part / shard_inner_parts(shard) * outer_length(shard) : 0;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// Start and length of slice `part` of a range of `length`.
static int64_t slice_start(const struct shard *shard, int64_t length) {
    int64_t most = (length + shard_inner_parts(shard) - 1) / shard_inner_parts(shard);
    return least(most * shard_inner_part(shard), length);
}

static int64_t slice_length(const struct shard *shard, int64_t length) {
    int64_t most = (length + shard_inner_parts(shard) - 1) / shard_inner_parts(shard);
    return least(most, length - slice_start(shard, length));
}

int64_t shard_local_size(const struct shard *shard, int dimension) {
    if (dimension >= shard->rank)
        return 1;
    if (dimension == 0 && shard->outer > 1)
        return outer_length(shard);
    if (dimension != shard->dimension || shard_inner_parts(shard) == 1)
        return shard->global[dimension];
    int64_t size = 0;
    for (int i = 0; i < shard->segment_count; i++)
        size += slice_length(shard, shard->segments[i]);
    return size;
}

int64_t shard_local_start(const struct shard *shard) {
    CHECK(shard->segment_count == 1 && shard->outer <= 1);
    return shard->parts == 1 ? 0 : slice_start(shard, shard->segments[0]);
}

int64_t shard_local_count(const struct shard *shard) {
    int64_t count = 1;
    for (int i = 0; i < shard->rank; i++)
        count *= shard_local_size(shard, i);
    return count;
}

int64_t shard_global_count(const struct shard *shard) {
    int64_t count = 1;
    for (int i = 0; i < shard->rank; i++)
        count *= shard->global[i];
    return count;
}

// Elements of the whole tensor between two consecutive indices of a dimension.
static int64_t width_behind(const struct shard *shard, int dimension) {
    int64_t width = 1;
    for (int i = dimension + 1; i < shard->rank; i++)
        width *= shard->global[i];
    return width;
}

// Number of times that the split dimension occurs in the outer part.
static int64_t split_repeats(const struct shard *shard) {
    int64_t count = 1;
    for (int i = 0; i < shard->dimension; i++)
        count *= i == 0 ? outer_length(shard) : shard->global[i];
    return count;
}

// A split of the rows gives one run per segment; a split of the columns gives one run per row and segment.
int64_t shard_run_count(const struct shard *shard) {
    return shard_inner_parts(shard) == 1 ? 1 : split_repeats(shard) * shard->segment_count;
}

struct shard_run shard_run(const struct shard *shard, int64_t i) {
    CHECK(i >= 0 && i < shard_run_count(shard));
    int64_t outer_offset = outer_start(shard) * width_behind(shard, 0);
    if (shard_inner_parts(shard) == 1)
        return (struct shard_run){.global_offset = outer_offset, .count = shard_local_count(shard)};
    int64_t repeat = i / shard->segment_count;
    int segment = (int)(i % shard->segment_count);
    int64_t global_start = 0, local_start = 0;
    for (int s = 0; s < segment; s++) {
        global_start += shard->segments[s];
        local_start += slice_length(shard, shard->segments[s]);
    }
    int64_t length = slice_length(shard, shard->segments[segment]), width = width_behind(shard, shard->dimension);
    global_start += slice_start(shard, shard->segments[segment]);
    return (struct shard_run){
        .global_offset = outer_offset + (repeat * shard->global[shard->dimension] + global_start) * width,
        .local_offset = (repeat * shard_local_size(shard, shard->dimension) + local_start) * width,
        .count = length * width,
    };
}

int context_strips(const struct mesh *mesh) {
    return mesh->length[AXIS_CONTEXT] > 1 ? CONTEXT_MOST_STRIPS : 1;
}

int context_all_strips(const struct mesh *mesh) {
    return context_strips(mesh) * mesh->length[AXIS_CONTEXT];
}

int context_strip(const struct mesh *mesh, int rank, int which) {
    CHECK(which >= 0 && which < context_strips(mesh) && rank >= 0 && rank < mesh->length[AXIS_CONTEXT]);
    return which == 0 ? rank : context_all_strips(mesh) - 1 - rank;
}

struct mesh context_merge(const struct mesh *mesh, int near) {
    struct mesh merged = *mesh;
    CHECK(near >= 1 && mesh->length[AXIS_CONTEXT] % near == 0);
    merged.length[AXIS_CONTEXT] /= near;
    merged.place[AXIS_CONTEXT] /= near;
    merged.group[AXIS_CONTEXT] = near == 1 ? mesh->group[AXIS_CONTEXT] : mesh->far_group;
    return merged;
}

void context_take(const struct mesh *mesh, void *own, const void *whole, const struct context_slice *slice) {
    CHECK(slice->T % context_all_strips(mesh) == 0);
    size_t row = (size_t)slice->T * slice->element_bytes, piece = row / (size_t)context_all_strips(mesh);
    unsigned char *to = own;
    for (int which = 0; which < context_strips(mesh); which++) {
        size_t first = (size_t)context_strip(mesh, mesh->place[AXIS_CONTEXT], which) * piece;
        for (int64_t b = 0; b < slice->B; b++, to += piece)
            memcpy(to, (const unsigned char *)whole + (size_t)b * row + first, piece);
    }
}
