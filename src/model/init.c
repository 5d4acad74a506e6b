// Initial values by global element index. See init.h.
#include "model/init.h"
#include "base/memory.h"
#include "base/rng.h"
#include "ops/device.h"

#include <stdlib.h>

enum { PIECE = 1 << 20 };

// FNV-1a. The random stream of a parameter must never change, or old runs could not be repeated.
static uint64_t stream_of(const char *name) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash;
}

static void draw(const struct param *param, float *out, int64_t count, int64_t first, uint64_t seed) {
    if (param->init == INIT_NORMAL) {
        philox_normal(out, count, first, seed, stream_of(param->name), param->standard_deviation);
        return;
    }
    float value = param->init == INIT_ONE ? 1.0f : 0.0f;
    for (int64_t i = 0; i < count; i++)
        out[i] = value;
}

static void init_param(struct device *device, const struct param *param, struct tensor master, float *piece,
                       uint64_t seed) {
    // Values in 16 bits are the rounded master values; fp32 values are the master values themselves.
    struct tensor target = master.data ? tensor_flat(param_in(param, master)) : tensor_flat(param->value);
    for (int64_t r = 0; r < shard_run_count(&param->shard); r++) {
        struct shard_run run = shard_run(&param->shard, r);
        for (int64_t done = 0, count; done < run.count; done += count) {
            count = run.count - done < PIECE ? run.count - done : PIECE;
            draw(param, piece, count, run.global_offset + done, seed);
            device_copy_in(device, tensor_rows(target, run.local_offset + done, count), piece);
            device_synchronize(device);
        }
    }
    if (master.data)
        op_copy(device, &(struct op_copy){.dst = tensor_flat(param->value), .src = target});
}

void init_params(struct device *device, const struct param_list *params, struct tensor master, uint64_t seed) {
    float *piece = memory_alloc(sizeof(float) * PIECE);
    for (int i = 0; i < params->count; i++)
        init_param(device, params->items[i], master, piece, seed);
    free(piece);
}
