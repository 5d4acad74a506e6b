// Takes the memory of a step, by what is free and together with the other ranks.
//
// There are two layouts with the same results to the bit. The larger one keeps what a pass could compute again; it is
// chosen if it leaves a tenth of a device free, which libraries take later. What is free is only known for the moment
// it was asked for: another process may take it before this one does. So whoever cannot take the larger layout takes
// the smaller one, and only if that fails the run ends.
//
// Kernels, plans and connections are loaded and opened when they are first used, by libraries that do not say what they
// take, and that cannot do without. So a reserve is taken with the pieces, held until all ranks have theirs, and then
// given back.
//
// Ranks decide together, for three reasons. Those that hold the same layers go at the pace of the slowest, and have
// their products' algorithms chosen by one of them in the order in which all come to them (device_join); both layouts
// have the same products and collectives in the same order, but nothing is gained by relying on it. Those that share a
// device must have asked what is free before one of them takes it, and must have given back what they took before one
// of them tries again. And an error is told once, by the first rank that has no room. Stages of a pipeline need not
// agree: the first ones hold more.
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/memory_room.h"
#include "step/memory.h"

#include <stdlib.h>

static const double GB = 1e9;

// Without a group the step is this rank's alone.
static void max_over_all(const struct step *step, int64_t *values, int count) {
    if (step->mesh.all)
        comm_max_i64(step->mesh.all, values, count, "memory of the step");
}

// All ranks know if one has failed.
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

// What this rank may take of what is free now: on its device, or on its machine if it computes in the host's memory.
struct room {
    size_t bytes;
    int sharers;  // among whom it was divided
    bool is_host;
};

static struct room find_room(const struct step *step) {
    if (step->device->ops->is_paper)
        return (struct room){0};
    bool is_host = !step->device->ops->room;
    int sharers = is_host ? ranks_on_machine(step) : group_device_sharers(step->mesh.all);
    size_t bytes = is_host ? (size_t)memory_room(sharers) : device_room(step->device) / (size_t)sharers;
    return (struct room){bytes, sharers, is_host};
}

// What stays for libraries; nothing in host memory. Several ranks have connections too.
static size_t find_reserve(const struct step *step, struct room room) {
    size_t least = step->device->ops->is_paper ? 0 : step->device->ops->library_bytes;
    size_t part = step->mesh.size > 1 ? room.bytes / 50 : 0;
    return least == 0 ? 0 : part > least ? part : least;
}

// Whether all ranks that hold the same layers can keep results. When this returns, all ranks have asked for their room.
static bool all_can_keep(const struct step *step, bool can_keep) {
    int stages = step->mesh.length[AXIS_PIPELINE], own = step->mesh.place[AXIS_PIPELINE];
    int64_t *refusals = memory_alloc(sizeof *refusals * (size_t)stages);
    refusals[own] = !can_keep;
    max_over_all(step, refusals, stages);
    bool all_can = refusals[own] == 0;
    free(refusals);
    return all_can;
}

// In host memory, which others use too, nothing is kept. Who asks for any kind of recompute wants the memory. On paper
// both layouts are measured.
static int choose_layout(struct step *step, struct room room) {
    bool can_keep = false;
    size_t kept = 0;
    int status = 0;
    if (step->mode == STEP_TRAIN && !step->config->recompute_granularity && !room.is_host) {
        step->keeps_results = true;
        status = memory_measure(step);
        kept = step->memory.total;
        can_keep = status == 0 && kept <= room.bytes - room.bytes / 10 && kept + find_reserve(step, room) <= room.bytes;
    }
    step->keeps_results = all_can_keep(step, can_keep);
    if (!step->keeps_results) {
        if (status == 0)
            status = memory_measure(step);
        step->memory.total_kept = kept;
    }
    return agree(step, status);
}

// A piece of memory that could not be taken; no name: all were.
struct lack {
    const char *name;
    size_t bytes;
};

static struct lack take_pieces(struct step *step, size_t reserve_bytes, void **reserve) {
    const struct step_memory *memory = &step->memory;
    const struct {
        struct arena *arena;
        const char *name, *title;
        size_t bytes;
    } pieces[] = {
        {&step->state, "state", step->mode == STEP_TRAIN ? "weights, gradients and optimizer" : "weights",
         memory->total - memory->activations - memory->scratch},
        {&step->saved, "activations", "activations", memory->activations},
        {&step->scratch, "scratch", "scratch", memory->scratch},
    };
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        size_t bytes = pieces[i].bytes ? pieces[i].bytes : ARENA_ALIGNMENT;
        void *base = device_alloc(step->device, bytes);
        if (!base)
            return (struct lack){pieces[i].title, bytes};
        arena_init(pieces[i].arena, pieces[i].name, base, bytes);
    }
    *reserve = reserve_bytes > 0 ? device_alloc(step->device, reserve_bytes) : NULL;
    if (reserve_bytes > 0 && !*reserve)
        return (struct lack){"kernels and libraries that are loaded later", reserve_bytes};
    return (struct lack){0};
}

void memory_give(struct step *step) {
    struct arena *arenas[] = {&step->state, &step->saved, &step->scratch};
    for (int i = 0; i < 3; i++) {
        device_free(step->device, arenas[i]->base);
        *arenas[i] = (struct arena){0};
    }
}

// What is free may be enough and still be refused.
static const char *why_refused(size_t asked, size_t room) {
    return room >= asked ? ", but in pieces, or the driver keeps some of it" : "";
}

static void append_sharers(struct room room, struct buffer *out) {
    if (room.sharers > 1)
        buffer_printf(out, " for each of the %d ranks here", room.sharers);
    buffer_append_string(out, "; ");
}

// The error of a rank whose smaller layout has no room. The device's own message, which is the last word, is the cause.
static int refuse(const struct step *step, struct lack lack, size_t reserve) {
    struct error_note *cause = error_take();
    struct room room = find_room(step);
    size_t usable = room.bytes > reserve ? room.bytes - reserve : 0;
    struct buffer text = {0};
    buffer_printf(&text, "no room for the %s, %.2f GB: the step needs ", lack.name, (double)lack.bytes / GB);
    step_describe_memory(&step->memory, &text);
    if (reserve > 0)
        buffer_printf(&text, ", %.2f GB are kept for libraries,", (double)reserve / GB);
    buffer_printf(&text, " and %.2f GB are free%s", (double)room.bytes / GB, why_refused(step->memory.total, usable));
    append_sharers(room, &text);
    memory_remedies(step, usable, &text);
    (void)error_give(cause);
    (void)error_context("%s", buffer_string(&text));
    buffer_free(&text);
    return -1;
}

// Host memory is promised by the system and only missed when it is used, so what was taken may be more than there is.
// The first rank of each machine says so.
static void warn_if_scarce(const struct step *step, struct room room) {
    size_t needed = step->memory.total + step->memory.device_own;
    if (!room.is_host || needed <= room.bytes)
        return;
    for (int i = 0; step->mesh.all && i < group_rank(step->mesh.all); i++)
        if (group_is_neighbour(step->mesh.all, i))
            return;
    struct buffer text = {0};
    append_sharers(room, &text);
    memory_remedies(step, room.bytes, &text);
    log_warn("the step needs %.2f GB, and the system, which ends processes when it has no more, has %.2f GB left%s",
             (double)needed / GB, (double)room.bytes / GB, buffer_string(&text));
    buffer_free(&text);
}

// After an attempt that failed somewhere: computes again what was to be kept, if this rank was to keep it.
static int choose_smaller(struct step *step, bool speaks, size_t reserve) {
    size_t asked = step->memory.total, room = find_room(step).bytes;
    int status = 0;
    if (step->keeps_results) {
        step->keeps_results = false;
        status = memory_measure(step);
        step->memory.total_kept = asked;
    }
    if (status == 0 && speaks)
        log_warn("%.2f GB could not be taken, %.2f GB are free now%s; what was to be kept for the backward pass is "
                 "computed again, which takes %.2f GB",
                 (double)asked / GB, (double)room / GB, why_refused(asked + reserve, room),
                 (double)step->memory.total / GB);
    return agree(step, status);
}

int memory_take(struct step *step) {
    struct room room = find_room(step);
    size_t reserve_bytes = find_reserve(step, room);
    TRY(choose_layout(step, room));
    for (;;) {
        void *reserve = NULL;
        struct lack lack = take_pieces(step, reserve_bytes, &reserve);
        int64_t distance = step->mesh.size - step->mesh.rank;  // the first rank's is the largest
        int64_t failed[2] = {lack.name ? distance : 0, step->keeps_results};
        max_over_all(step, failed, 2);
        device_free(step->device, reserve);
        if (failed[0] == 0) {
            warn_if_scarce(step, room);
            return 0;
        }
        memory_give(step);
        int64_t nothing = 0;
        max_over_all(step, &nothing, 1);                     // all have given back what they took
        bool is_first = lack.name && failed[0] == distance;  // which speaks for all
        if (failed[1] == 0)
            return agree(step, is_first ? refuse(step, lack, reserve_bytes) : 0);
        TRY(choose_smaller(step, is_first, reserve_bytes));
    }
}
