// Takes the memory of a step, depending on free memory and in agreement with the other ranks.
//
// There are two layouts with bit-identical results. The larger one keeps results that a pass could recompute; it is
// chosen if it leaves a tenth of a device free for libraries, which allocate later. Free memory is only known for the
// moment of the query: another process may take it first. A rank that cannot take the larger layout therefore takes the
// smaller one, and the run ends only if that fails.
//
// Libraries load kernels, plans and connections at first use, with unknown amounts of memory, and fail without it. A
// reserve is therefore taken with the blocks, held until all ranks have theirs, and then released.
//
// Ranks decide together, for three reasons. Ranks that hold the same layers run at the pace of the slowest, and one of
// them chooses the matmuls' algorithms in the order in which all reach them (device_join); both layouts have the same
// matmuls and collectives in the same order, but relying on it gains nothing. Ranks that share a device must all query
// free memory before one of them takes it, and must release their memory before one of them tries again. And an error
// is reported once, by the first rank that has no room. Stages of a pipeline need not agree: the first ones hold more.
#include "base/error.h"
#include "base/host_limits.h"
#include "step/internal.h"

// Without a group this rank is alone.
static void max_over_all(const struct step *step, int64_t *values, int count) {
    if (step->mesh.all)
        comm_max_i64(step->mesh.all, values, count, "memory of the step");
}

// Tells all ranks whether one has failed.
static int agree(const struct step *step, int status) {
    return step->mesh.all ? comm_agree(step->mesh.all, status, "memory of the step") : status;
}

static int ranks_on_machine(const struct step *step) {
    const struct group *all = step->mesh.all;
    int count = 0;
    for (int i = 0; all && i < group_size(all); i++)
        count += group_is_neighbour(all, i);
    return count > 0 ? count : 1;
}

// The part of free memory that this rank may take: on its device, or on its machine if it computes in host memory.
static void find_room(const struct step *step, struct step_room *room) {
    room->is_host = !step->device->ops->room;
    room->sharers = room->is_host ? ranks_on_machine(step) : group_device_sharers(step->mesh.all);
    room->bytes =
        room->is_host ? (size_t)host_memory_room(room->sharers) : device_room(step->device) / (size_t)room->sharers;
}

// The reserve for libraries, none in host memory. Several ranks need memory for connections too.
static size_t find_reserve(const struct step *step, size_t room) {
    size_t least = step->device->ops->library_bytes;
    size_t part = step->mesh.size > 1 ? room / 50 : 0;
    return least == 0 ? 0 : part > least ? part : least;
}

// Whether all ranks that hold the same layers can keep results.
static bool all_can_keep(const struct step *step, bool can_keep) {
    int64_t refuses = !can_keep;
    if (step->mesh.stage)
        comm_max_i64(step->mesh.stage, &refuses, 1, "memory of the step");
    return !refuses;
}

// Changes from the layout of `kept` bytes (0: not measured) to the smaller one, unless that takes as much on all ranks
// that hold the same layers: e.g. a GELU fused into a matmul is kept in both.
static int measure_smaller(struct step *step, size_t kept, int status) {
    step->keeps_results = false;
    if (status == 0)
        status = memory_measure(step);
    step->keeps_results = all_can_keep(step, status == 0 && kept > 0 && step->memory.total >= kept);
    if (step->keeps_results && status == 0)
        return memory_measure(step);
    step->memory.total_kept = kept;
    return status;
}

// In host memory, which other programs use too, nothing is kept; nor with any kind of recompute, whose user wants the
// memory. On paper both layouts are measured. When this returns, all ranks have queried free memory.
static int choose_layout(struct step *step, const struct step_room *room) {
    bool can_keep = false;
    size_t kept = 0;
    int status = 0;
    if (step->mode == STEP_TRAIN && !step->options.recomputes && !room->is_host) {
        step->keeps_results = true;
        status = memory_measure(step);
        kept = step->memory.total;
        can_keep = status == 0 && kept <= room->bytes - room->bytes / 10 && kept + room->reserve <= room->bytes;
    }
    step->keeps_results = all_can_keep(step, can_keep);
    if (!step->keeps_results)
        status = measure_smaller(step, kept, status);
    return agree(step, status);
}

// The block of memory that could not be taken; without a name: all were taken.
struct lack {
    const char *name;
    size_t bytes;
};

// Checks room for optimizer states and inputs of layers together, before either is taken: the system overcommits
// memory, and its OOM killer ends processes that use it.
static bool has_host_room(const struct step *step) {
    const struct step_memory *memory = &step->memory;
    size_t needed = memory->hosted + memory->offloaded;
    uint64_t room = needed > 0 ? host_memory_room(ranks_on_machine(step)) : 0;
    if (step->device->ops->is_imaginary || needed <= room)
        return true;
    error_set_code(
        EXIT_CODE_OUT_OF_MEMORY, "%s%s%s need %.2f GB of host memory for each rank here, and %.2f GB are left",
        memory->hosted > 0 ? "optimizer states" : "", memory->hosted > 0 && memory->offloaded > 0 ? " and " : "",
        memory->offloaded > 0 ? "inputs of layers" : "", (double)needed / 1e9, (double)room / 1e9);
    return false;
}

static struct lack take_blocks(struct step *step, size_t reserve_bytes, void **reserve) {
    const struct step_memory *memory = &step->memory;
    const struct {
        struct arena *arena;
        const char *name, *title;
        size_t bytes;
    } blocks[] = {
        {&step->state, "state", step->mode == STEP_TRAIN ? "weights, gradients and optimizer" : "weights",
         memory->total - memory->activations - memory->scratch},
        {&step->activations, "activations", "activations", memory->activations},
        {&step->scratch, "scratch", "scratch", memory->scratch - memory->beside},
        {&step->beside, "scratch of a pair", "scratch", memory->beside},
    };
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        if (blocks[i].arena == &step->beside && !step->coroutine)
            continue;
        size_t bytes = blocks[i].bytes ? blocks[i].bytes : ARENA_ALIGNMENT;
        void *base = device_alloc(step->device, bytes);
        if (!base)
            return (struct lack){blocks[i].title, bytes};
        arena_init(blocks[i].arena, blocks[i].name, base, bytes);
    }
    bool has_room = has_host_room(step);
    if (memory->hosted > 0) {
        void *base = has_room ? device_hosted_alloc(step->device, memory->hosted) : NULL;
        if (!base)
            return (struct lack){STEP_HOSTED_STATES, memory->hosted};
        arena_init(&step->hosted, "optimizer states", base, memory->hosted);
    }
    if (memory->offloaded > 0) {
        void *base = has_room ? device_hosted_alloc(step->device, memory->offloaded) : NULL;
        if (!base)
            return (struct lack){STEP_OFFLOADED, memory->offloaded};
        arena_init(&step->input_offload.arena, "inputs of layers", base, memory->offloaded);
    }
    *reserve = reserve_bytes > 0 ? device_alloc(step->device, reserve_bytes) : NULL;
    if (reserve_bytes > 0 && !*reserve)
        return (struct lack){"kernels and libraries that are loaded later", reserve_bytes};
    return (struct lack){0};
}

void memory_give(struct step *step) {
    struct arena *arenas[] = {&step->state, &step->activations, &step->scratch, &step->beside};
    for (size_t i = 0; i < sizeof arenas / sizeof arenas[0]; i++) {
        device_free(step->device, arenas[i]->base);
        *arenas[i] = (struct arena){0};
    }
    device_hosted_free(step->device, step->hosted.base);
    step->hosted = (struct arena){0};
    device_hosted_free(step->device, step->input_offload.arena.base);
    step->input_offload.arena = (struct arena){0};
}

// After a failed attempt on any rank: changes this rank to the smaller layout, if it had the larger. Sets whether any
// rank has shrunk, which leaves more to ranks that share its device.
static int choose_smaller(struct step *step, bool *has_shrunk) {
    size_t asked = step->memory.total;
    TRY(agree(step, step->keeps_results ? measure_smaller(step, asked, 0) : 0));
    int64_t shrunk = step->memory.total < asked;
    max_over_all(step, &shrunk, 1);
    *has_shrunk = shrunk > 0;
    return 0;
}

// The rank that reports has the device's error.
static int refuse(struct lack lack, struct step_room *room) {
    room->is_refused = true;
    room->lack = lack.name;
    room->lack_bytes = lack.bytes;
    return lack.name ? -1 : error_set("another rank has no room for the step");
}

int memory_take(struct step *step, struct step_room *room) {
    find_room(step, room);
    room->reserve = find_reserve(step, room->bytes);
    TRY(choose_layout(step, room));
    for (;;) {
        void *reserve = NULL;
        struct lack lack = take_blocks(step, room->reserve, &reserve);
        int64_t distance = step->mesh.size - step->mesh.rank;  // the first rank has the largest
        int64_t failed = lack.name ? distance : 0;
        max_over_all(step, &failed, 1);
        device_free(step->device, reserve);
        room->needed = step->memory;
        if (failed == 0)
            return 0;
        memory_give(step);
        int64_t nothing = 0;
        max_over_all(step, &nothing, 1);                  // all have released their memory
        bool is_first = lack.name && failed == distance;  // it reports for all
        size_t asked = step->memory.total;
        bool has_shrunk = false;
        struct error_note *cause = error_take();  // later calls set other errors
        find_room(step, room);
        int status = choose_smaller(step, &has_shrunk);
        if (status < 0 || has_shrunk)
            error_drop(cause);
        else
            (void)error_give(cause);
        if (status < 0)
            return status;
        if (!has_shrunk)
            return refuse(is_first ? lack : (struct lack){0}, room);
        if (is_first)
            room->shrunk_from = asked;
    }
}
