// Slices of tensors as runs of contiguous elements. See shard.h.
#include "parallel/shard.h"
#include "base/error.h"

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

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// Slice `part` of a range of `length`: where it begins and how long it is.
static int64_t slice_start(const struct shard *shard, int64_t length) {
    int64_t most = (length + shard->parts - 1) / shard->parts;
    return least(most * shard->part, length);
}

static int64_t slice_length(const struct shard *shard, int64_t length) {
    int64_t most = (length + shard->parts - 1) / shard->parts;
    return least(most, length - slice_start(shard, length));
}

int64_t shard_local_size(const struct shard *shard, int dimension) {
    if (dimension >= shard->rank)
        return 1;
    if (dimension != shard->dimension || shard->parts == 1)
        return shard->global[dimension];
    int64_t size = 0;
    for (int i = 0; i < shard->segment_count; i++)
        size += slice_length(shard, shard->segments[i]);
    return size;
}

int64_t shard_local_start(const struct shard *shard) {
    CHECK(shard->segment_count == 1);
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

// How many times the dimension that is split occurs, and how many elements lie between two of its indices.
static int64_t split_repeats(const struct shard *shard) {
    int64_t count = 1;
    for (int i = 0; i < shard->dimension; i++)
        count *= shard->global[i];
    return count;
}

static int64_t split_width(const struct shard *shard) {
    int64_t width = 1;
    for (int i = shard->dimension + 1; i < shard->rank; i++)
        width *= shard->global[i];
    return width;
}

// A split of the rows gives one run per segment; a split of the columns gives one run per row and segment.
int64_t shard_run_count(const struct shard *shard) {
    return shard->parts == 1 ? 1 : split_repeats(shard) * shard->segment_count;
}

struct shard_run shard_run(const struct shard *shard, int64_t i) {
    CHECK(i >= 0 && i < shard_run_count(shard));
    if (shard->parts == 1)
        return (struct shard_run){.count = shard_global_count(shard)};
    int64_t repeat = i / shard->segment_count;
    int segment = (int)(i % shard->segment_count);
    int64_t global_start = 0, local_start = 0;
    for (int s = 0; s < segment; s++) {
        global_start += shard->segments[s];
        local_start += slice_length(shard, shard->segments[s]);
    }
    int64_t length = slice_length(shard, shard->segments[segment]), width = split_width(shard);
    global_start += slice_start(shard, shard->segments[segment]);
    return (struct shard_run){
        .global_offset = (repeat * shard->global[shard->dimension] + global_start) * width,
        .local_offset = (repeat * shard_local_size(shard, shard->dimension) + local_start) * width,
        .count = length * width,
    };
}
