// The profile of a step on a CPU: operations are complete when their call returns, so a clock around each is enough.
// The pool counts the busy time of its threads; the rest is waiting. An operation that does not use the pool (a small
// matmul, zeros) runs on the calling thread alone.
#include "ops/cpu/cpu.h"
#include "ops/profile.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>

struct timed_call {
    struct profile *profile;
    struct device_totals before;
    double start, busy;
};

static struct timed_call call_begin(struct device *device) {
    struct cpu_device *cpu = (struct cpu_device *)device;
    return (struct timed_call){.profile = cpu->profile,
                               .before = device_totals(cpu->profile->paper),
                               .start = clock_seconds(),
                               .busy = pool_busy_seconds(cpu->pool)};
}

// Called before the paper device runs the operation; returns its row.
static int call_end(struct device *device, const struct timed_call *call, const char *operation, const void *op) {
    double seconds = clock_seconds() - call->start;
    double busy = pool_busy_seconds(((struct cpu_device *)device)->pool) - call->busy;
    int row = profile_row(call->profile, operation, op);
    call->profile->rows[row].seconds += seconds;
    call->profile->rows[row].busy_seconds += busy > 0 ? busy : seconds;
    return row;
}

#define PROFILED(name_)                                                                                                \
    static void profiled_##name_(struct device *device, const struct op_##name_ *op) {                                 \
        struct timed_call call = call_begin(device);                                                                   \
        call.profile->real->name_(device, op);                                                                         \
        int row = call_end(device, &call, #name_, op);                                                                 \
        call.profile->paper->ops->name_(call.profile->paper, op);                                                      \
        profile_add(call.profile, row, call.before);                                                                   \
    }
OPERATIONS(PROFILED)
#undef PROFILED

static void profiled_zero(struct device *device, void *memory, size_t bytes, enum stream stream) {
    struct timed_call call = call_begin(device);
    call.profile->real->zero(device, memory, bytes, stream);
    int row = call_end(device, &call, "zero", NULL);
    call.profile->paper->ops->zero(call.profile->paper, memory, bytes, stream);
    profile_add(call.profile, row, call.before);
}

void cpu_profile_start(struct device *device) {
    struct cpu_device *cpu = (struct cpu_device *)device;
    CHECK(!cpu->profile);
    cpu->profile = memory_alloc(sizeof *cpu->profile);
    profile_begin(cpu->profile, device);
#define REPLACE(name_) cpu->profile->table.name_ = profiled_##name_;
    OPERATIONS(REPLACE)
    REPLACE(zero)
#undef REPLACE
    pool_count_busy(cpu->pool, true);
}

int cpu_profile_stop(struct device *device, struct profile_row *rows, int most) {
    struct cpu_device *cpu = (struct cpu_device *)device;
    CHECK(cpu->profile);
    pool_count_busy(cpu->pool, false);
    int count = profile_end(cpu->profile, device, rows, most);
    free(cpu->profile);
    cpu->profile = NULL;
    return count;
}
