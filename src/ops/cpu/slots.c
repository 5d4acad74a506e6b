// Slots of rows, sorted by expert: a counting sort on the caller's thread, and copies and sums of rows in parallel.
#include "ops/cpu/pieces.h"
#include <string.h>

// Maps weights to integers in the same order.
static uint32_t weight_order(float weight) {
    uint32_t bits;
    weight = weight == 0 ? 0.0f : weight;  // -0 becomes 0
    memcpy(&bits, &weight, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// The slots of one expert that have a place: all whose weight is above `least`, and the first `ties` with that weight.
struct kept_slots {
    uint32_t least;
    int64_t ties;
};

// `least` is the largest number that at least `capacity` slots reach; it is found bit by bit.
static struct kept_slots find_kept(const float *weights, const int32_t *slots, int64_t count, int64_t capacity) {
    struct kept_slots kept = {.ties = count};
    if (count <= capacity)
        return kept;
    for (uint32_t bit = 0x80000000u; bit; bit >>= 1) {
        int64_t reach = 0;
        for (int64_t i = 0; i < count; i++)
            reach += weight_order(weights[slots[i]]) >= (kept.least | bit);
        if (reach >= capacity)
            kept.least |= bit;
    }
    int64_t above = 0;
    for (int64_t i = 0; i < count; i++)
        above += weight_order(weights[slots[i]]) > kept.least;
    kept.ties = capacity - above;
    return kept;
}

// Copies the slots of one expert that have a place; returns their number.
static int64_t take_slots(int32_t *to, const struct op_sort_slots *op, const int32_t *slots, int64_t count) {
    int64_t taken = op->capacity > 0 && op->capacity < count ? op->capacity : count;
    if (!op->weights.data || taken == count) {
        memcpy(to, slots, (size_t)taken * sizeof *to);
        return taken;
    }
    const float *weights = op->weights.data;
    struct kept_slots kept = find_kept(weights, slots, count, op->capacity);
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t order = weight_order(weights[slots[i]]);
        if (order > kept.least || (order == kept.least && kept.ties-- > 0))
            to[found++] = slots[i];
    }
    return found;
}

// The expert of a slot; -1 if it has no place.
static int32_t expert_of(const struct op_sort_slots *op, int64_t slot) {
    int32_t expert = ((const int32_t *)op->experts.data)[slot];
    bool is_kept = !op->kept.data || ((const int32_t *)op->kept.data)[slot] >= 0;
    return is_kept && expert >= 0 && expert < op->offsets.shape[0] - 1 ? expert : -1;
}

void cpu_sort_slots(struct device *device, const struct op_sort_slots *op) {
    (void)device;
    int64_t experts = op->offsets.shape[0] - 1, slots = tensor_count(op->experts), room = op->sources.shape[0];
    int32_t *offsets = op->offsets.data, *sources = op->sources.data, *places = op->places.data;
    int64_t ends[ROUTER_MOST_EXPERTS + 1] = {0};
    for (int64_t s = 0; s < slots; s++) {
        int32_t expert = expert_of(op, s);
        if (expert >= 0)
            ends[expert + 1]++;
    }
    for (int64_t e = 0; e < experts; e++)
        ends[e + 1] += ends[e];
    // Sorts slots by expert into `places`, which is scratch here: ends[e] advances from the first slot of e to the end.
    for (int64_t s = 0; s < slots; s++) {
        int32_t expert = expert_of(op, s);
        if (expert >= 0)
            places[ends[expert]++] = (int32_t)s;
    }
    memset(sources, -1, (size_t)room * sizeof *sources);
    int64_t place = 0, first = 0;
    for (int64_t e = 0; e < experts; e++) {
        offsets[e] = (int32_t)place;
        int64_t taken = take_slots(sources + place, op, places + first, ends[e] - first);
        place += op->is_padded ? op->capacity : taken;
        place = op->aligned > 1 ? (place + op->aligned - 1) / op->aligned * op->aligned : place;
        first = ends[e];
    }
    offsets[experts] = (int32_t)place;
    memset(places, -1, (size_t)slots * sizeof *places);
    for (int64_t r = 0; r < place; r++) {
        if (sources[r] >= 0)
            places[sources[r]] = (int32_t)r;
    }
}

static void gather_task(void *context, struct cpu_range rows) {
    const struct op_gather_slots *op = context;
    int64_t columns = op->y.shape[1];
    size_t bytes = (size_t)columns * dtype_bytes(op->y.dtype);
    for (int64_t r = rows.first; r < rows.end; r++) {
        int32_t source = ((const int32_t *)op->sources.data)[r];
        if (source >= 0)
            memcpy(piece_at(&op->y, r * columns), piece_at(&op->x, source / op->per_row * columns), bytes);
        else
            memset(piece_at(&op->y, r * columns), 0, bytes);
    }
}

void cpu_gather_slots(struct device *device, const struct op_gather_slots *op) {
    cpu_run_ranges(device, op->y.shape[0], cpu_rows_per_task(op->y.shape[1]), gather_task, op);
}

// Adds the slots of a row to columns [first, first + count).
static void sum_piece(float *sum, const struct op_sum_slots *op, int64_t n, int64_t first, int64_t count) {
    int64_t chosen = op->places.shape[1], columns = op->out.shape[1];
    float memory[PIECE];
    for (int64_t k = 0; k < chosen; k++) {
        int32_t place = ((const int32_t *)op->places.data)[n * chosen + k];
        if (place < 0)
            continue;
        piece_add(sum, piece_read(memory, &op->y, place * columns + first, count), count);
        if (!op->bias.data)
            continue;
        int64_t expert = ((const int32_t *)op->experts.data)[n * chosen + k];
        piece_add_scaled(sum, piece_read(memory, &op->bias, expert * columns + first, count),
                         ((const float *)op->weights.data)[n * chosen + k], count);
    }
}

static void sum_task(void *context, struct cpu_range rows) {
    const struct op_sum_slots *op = context;
    int64_t columns = op->out.shape[1];
    float sum[PIECE];
    for (int64_t n = rows.first; n < rows.end; n++) {
        for (int64_t c = 0; c < columns; c += PIECE) {
            int64_t count = columns - c < PIECE ? columns - c : PIECE;
            memset(sum, 0, sizeof sum);
            if (op->addend.data)
                cpu_convert(sum, DTYPE_F32, piece_at(&op->addend, n * columns + c), op->addend.dtype, count);
            sum_piece(sum, op, n, c, count);
            piece_write(&op->out, n * columns + c, sum, count);
        }
    }
}

void cpu_sum_slots(struct device *device, const struct op_sum_slots *op) {
    cpu_run_ranges(device, op->out.shape[0], cpu_rows_per_task(op->out.shape[1] * op->places.shape[1]), sum_task, op);
}

// CPU_COLUMN_BLOCK columns of the bias of one expert, over its places in order.
static void slot_bias_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct op_slot_bias_backward *op = context;
    int64_t columns = op->dout.shape[1], chosen = op->weights.shape[1], blocks = cpu_pieces(columns, CPU_COLUMN_BLOCK);
    int64_t e = index / blocks;
    struct cpu_range range = cpu_piece(columns, CPU_COLUMN_BLOCK, index % blocks);
    const int32_t *offsets = op->offsets.data, *sources = op->sources.data;
    float sum[CPU_COLUMN_BLOCK] = {0}, memory[CPU_COLUMN_BLOCK];
    int64_t count = range.end - range.first;
    for (int64_t r = offsets[e]; r < offsets[e + 1]; r++) {
        if (sources[r] >= 0)
            piece_add_scaled(sum, piece_read(memory, &op->dout, sources[r] / chosen * columns + range.first, count),
                             ((const float *)op->weights.data)[sources[r]], count);
    }
    piece_add((float *)op->dbias.data + e * columns + range.first, sum, count);
}

static void slot_weight_task(void *context, struct cpu_range rows) {
    const struct op_slot_bias_backward *op = context;
    int64_t columns = op->dout.shape[1], chosen = op->weights.shape[1], experts = op->bias.shape[0], e = 0;
    const int32_t *offsets = op->offsets.data, *sources = op->sources.data;
    float dout[PIECE], bias[PIECE];
    for (int64_t r = rows.first; r < rows.end && r < offsets[experts]; r++) {
        e = piece_expert(offsets, experts, e, r);
        double sum = 0;
        for (int64_t c = 0; c < columns && sources[r] >= 0; c += PIECE) {
            int64_t count = columns - c < PIECE ? columns - c : PIECE;
            sum += (double)piece_inner(piece_read(dout, &op->dout, sources[r] / chosen * columns + c, count),
                                       piece_read(bias, &op->bias, e * columns + c, count), count);
        }
        if (sources[r] >= 0)
            ((float *)op->dweights.data)[sources[r]] += (float)sum;
    }
}

void cpu_slot_bias_backward(struct device *device, const struct op_slot_bias_backward *op) {
    int64_t columns = op->dout.shape[1];
    cpu_run(device, op->bias.shape[0] * cpu_pieces(columns, CPU_COLUMN_BLOCK), slot_bias_task, op);
    cpu_run_ranges(device, op->sources.shape[0], cpu_rows_per_task(columns), slot_weight_task, op);
}
