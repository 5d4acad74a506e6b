// The rows of a profile, and their names: the operation's, for some also its shape and fused parts.
#include "ops/profile.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The end of a row's name, and the dtype of the operands that the operation multiplies.
struct row_ending {
    char text[48];
    enum dtype dtype;
};

static struct row_ending matmul_ending(const void *operation) {
    static const char *const endings[] = {"", " bias", " bias gelu", " dgelu"};
    const struct op_matmul *op = operation;
    bool is_float4 = op->a.dtype == DTYPE_E2M1X2;
    int64_t inner = op->a.shape[op->transpose_a ? 0 : 1] * (is_float4 ? 2 : 1);
    const char *width = is_float4 ? " 4" : dtype_is_float8(op->a.dtype) ? " 8" : "";
    const char *order = op->transpose_a ? " T" : op->transpose_b ? "" : " N";
    struct row_ending ending = {.dtype = op->a.dtype};
    (void)snprintf(ending.text, sizeof ending.text, "%s %lld x %lld x %lld%s%s", width, (long long)op->d.shape[0],
                   (long long)op->d.shape[1], (long long)inner, order, endings[op->epilogue]);
    return ending;
}

static struct row_ending matmul_many_ending(const void *operation) {
    const struct op_matmul_many *op = operation;
    struct row_ending ending = {.dtype = op->d.dtype};
    (void)snprintf(ending.text, sizeof ending.text, " %lld of %lld x %lld x %lld%s", (long long)op->d.shape[0],
                   (long long)op->d.shape[1], (long long)op->d.shape[2],
                   (long long)op->a.shape[op->transpose_a ? 1 : 2], op->is_symmetric ? " symmetric" : "");
    return ending;
}

static struct row_ending attention_forward_ending(const void *operation) {
    return (struct row_ending){.dtype = ((const struct op_attention_forward *)operation)->q.dtype};
}

static struct row_ending attention_backward_ending(const void *operation) {
    return (struct row_ending){.dtype = ((const struct op_attention_backward *)operation)->q.dtype};
}

static struct row_ending quantize_ending(const void *operation) {
    static const char *const kinds[] = {"", " activation", " glu", " activation gradient", " glu gradient"};
    const struct op_quantize *op = operation;
    struct row_ending ending = {.dtype = DTYPE_F32};
    (void)snprintf(ending.text, sizeof ending.text, "%s %lld x %lld%s%s", kinds[op->kind], (long long)op->x.shape[0],
                   (long long)op->x.shape[1], op->y.value.data ? "" : " -y", op->y.transposed.data ? "" : " -t");
    return ending;
}

static struct row_ending norm_forward_ending(const void *operation) {
    bool adds = ((const struct op_norm_forward *)operation)->delta.data;
    return adds ? (struct row_ending){" + residual", DTYPE_F32} : (struct row_ending){"", DTYPE_F32};
}

static struct row_ending norm_backward_ending(const void *operation) {
    bool adds = ((const struct op_norm_backward *)operation)->ddelta.data;
    return adds ? (struct row_ending){" + delta", DTYPE_F32} : (struct row_ending){"", DTYPE_F32};
}

static struct row_ending column_sum_ending(const void *operation) {
    struct row_ending ending = {.dtype = DTYPE_F32};
    (void)snprintf(ending.text, sizeof ending.text, " of %lld",
                   (long long)((const struct op_column_sum *)operation)->x.shape[1]);
    return ending;
}

// All other operations have rows with their name alone.
static const struct {
    const char *operation;
    struct row_ending (*ending)(const void *operation);
} endings[] = {
    {"matmul", matmul_ending},
    {"matmul_many", matmul_many_ending},
    {"attention_forward", attention_forward_ending},
    {"attention_backward", attention_backward_ending},
    {"quantize", quantize_ending},
    {"norm_forward", norm_forward_ending},
    {"norm_backward", norm_backward_ending},
    {"column_sum", column_sum_ending},
};

// The row of this name and dtype. Once all others are taken, the last row serves the rest.
static int row_find(struct profile *profile, const char *name, enum dtype dtype) {
    for (int i = 0; i < profile->count; i++)
        if (strcmp(profile->rows[i].name, name) == 0 && profile->rows[i].dtype == dtype)
            return i;
    if (profile->count == PROFILE_MOST_ROWS)
        return PROFILE_MOST_ROWS - 1;
    struct profile_row *row = &profile->rows[profile->count];
    bool is_last = profile->count == PROFILE_MOST_ROWS - 1;
    (void)snprintf(row->name, sizeof row->name, "%s", is_last ? "others" : name);
    row->dtype = dtype;
    return profile->count++;
}

int profile_row(struct profile *profile, const char *operation, const void *op) {
    struct row_ending ending = {.dtype = DTYPE_F32};
    char name[sizeof profile->rows[0].name];
    for (size_t i = 0; op && i < sizeof endings / sizeof endings[0]; i++)
        if (strcmp(endings[i].operation, operation) == 0)
            ending = endings[i].ending(op);
    (void)snprintf(name, sizeof name, "%s%s", operation, ending.text);
    return row_find(profile, name, ending.dtype);
}

void profile_begin(struct profile *profile, struct device *device) {
    profile->real = device->ops;
    profile->table = *device->ops;
    profile->count = 0;
    if (device_open_twin(&profile->paper, NULL) < 0)
        die("%s", error_message());
    device->ops = &profile->table;
}

void profile_add(struct profile *profile, int row, struct device_totals before) {
    struct device_totals after = device_totals(profile->paper);
    profile->rows[row].calls++;
    profile->rows[row].flops +=
        after.matmul_flops + after.attention_flops - before.matmul_flops - before.attention_flops;
    profile->rows[row].bytes += after.bytes_moved - before.bytes_moved;
}

static int slower_first(const void *a, const void *b) {
    double x = ((const struct profile_row *)a)->seconds, y = ((const struct profile_row *)b)->seconds;
    return x < y ? 1 : x > y ? -1 : 0;
}

int profile_end(struct profile *profile, struct device *device, struct profile_row *rows, int most) {
    qsort(profile->rows, (size_t)profile->count, sizeof profile->rows[0], slower_first);
    int count = profile->count < most ? profile->count : most;
    memcpy(rows, profile->rows, (size_t)count * sizeof rows[0]);
    device->ops = profile->real;
    device_close(profile->paper);
    return count;
}
