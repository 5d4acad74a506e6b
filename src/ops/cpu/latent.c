// Reorders keys and values of latent attention between the order in which they are computed and that of attention. A
// task owns some rows.
#include "ops/cpu/cpu.h"

#include <string.h>

// Channels of a row: own channels of keys, shared channels of keys, channels of values; per head.
struct latent_sizes {
    int64_t heads, own, shared, values;
};

static struct latent_sizes sizes_of(struct tensor up, struct tensor shared, int64_t heads, int64_t value_size) {
    return (struct latent_sizes){heads, up.shape[1] / heads - value_size, shared.shape[1], value_size};
}

static int64_t latent_rows_per_task(const struct tensor *kv) {
    return cpu_rows_per_task(kv->shape[1]);
}

static void pack_row(float *kv, const float *up, const float *shared, const struct latent_sizes *sizes) {
    float *values = kv + sizes->heads * (sizes->own + sizes->shared);
    for (int64_t head = 0; head < sizes->heads; head++) {
        memcpy(kv, up, (size_t)sizes->own * sizeof *kv);
        memcpy(kv + sizes->own, shared, (size_t)sizes->shared * sizeof *kv);
        memcpy(values, up + sizes->own, (size_t)sizes->values * sizeof *kv);
        kv += sizes->own + sizes->shared;
        up += sizes->own + sizes->values;
        values += sizes->values;
    }
}

static void unpack_row(float *dup, float *dshared, const float *dkv, const struct latent_sizes *sizes) {
    const float *values = dkv + sizes->heads * (sizes->own + sizes->shared);
    for (int64_t head = 0; head < sizes->heads; head++) {
        memcpy(dup, dkv, (size_t)sizes->own * sizeof *dkv);
        memcpy(dup + sizes->own, values, (size_t)sizes->values * sizeof *dkv);
        for (int64_t i = 0; i < sizes->shared; i++)
            dshared[i] = (head > 0 ? dshared[i] : 0.0f) + dkv[sizes->own + i];
        dkv += sizes->own + sizes->shared;
        dup += sizes->own + sizes->values;
        values += sizes->values;
    }
}

static float *row_of(const struct tensor *t, int64_t row) {
    return (float *)t->data + row * t->stride[0];
}

static void latent_forward_task(void *context, struct cpu_range rows) {
    const struct op_latent_forward *op = context;
    struct latent_sizes sizes = sizes_of(op->up, op->shared, op->heads, op->value_size);
    for (int64_t n = rows.first; n < rows.end; n++)
        pack_row(row_of(&op->kv, n), row_of(&op->up, n), row_of(&op->shared, n), &sizes);
}

static void latent_backward_task(void *context, struct cpu_range rows) {
    const struct op_latent_backward *op = context;
    struct latent_sizes sizes = sizes_of(op->dup, op->dshared, op->heads, op->value_size);
    for (int64_t n = rows.first; n < rows.end; n++)
        unpack_row(row_of(&op->dup, n), row_of(&op->dshared, n), row_of(&op->dkv, n), &sizes);
}

void cpu_latent_forward(struct device *device, const struct op_latent_forward *op) {
    cpu_run_ranges(device, op->kv.shape[0], latent_rows_per_task(&op->kv), latent_forward_task, op);
}

void cpu_latent_backward(struct device *device, const struct op_latent_backward *op) {
    cpu_run_ranges(device, op->dkv.shape[0], latent_rows_per_task(&op->dkv), latent_backward_task, op);
}
