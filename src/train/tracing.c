// Traces of iterations. See tracing.h.
#include "train/tracing.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FIRST_SPANS = 1 << 14,
    MOST_SPANS = 1 << 20,  // of one iteration and those pending: 128 MB
    STAMPS_PER_SPAN = 2,
    LEAST_SAMPLING = 10,  // iterations from one that is traced for its waits to the next
};

// The one that the flags name, or where the other files of the run are.
static char *choose_folder(const struct config *config) {
    const char *folder = config->watch.profile_dir       ? config->watch.profile_dir
                         : config->run.save              ? config->run.save
                         : config->watch.tensorboard_dir ? config->watch.tensorboard_dir
                                                         : ".";
    return memory_string(folder);
}

void tracing_open(struct tracing *tracing, const struct tracing_options *options) {
    *tracing = (struct tracing){.ranks = {.config = options->config,
                                          .mesh = options->mesh,
                                          .step = options->step,
                                          .report = options->report,
                                          .planned = options->planned,
                                          .slow_rank = -1},
                                .file = {.descriptor = -1},
                                .capacity = FIRST_SPANS};
    (void)gethostname(tracing->ranks.host, sizeof tracing->ranks.host - 1);
    rank_report_open(&tracing->ranks);
    if (options->config->watch.profile)
        tracing->folder = choose_folder(options->config);
    // Timers tell the parts of a step apart, which a replay does not.
    if (options->config->watch.timing_log_level > 0)
        step_set_records(options->step, false);
}

static const struct config *config_of(const struct tracing *tracing) {
    return tracing->ranks.config;
}

static struct device *device_of(const struct tracing *tracing) {
    return step_device(tracing->ranks.step);
}

static bool is_in_profile(const struct tracing *tracing, int64_t iteration) {
    const struct config *config = config_of(tracing);
    return config->watch.profile && iteration > config->watch.profile_step_start &&
           iteration <= config->watch.profile_step_end;
}

// The device waits for others where the host does not see it.
static bool is_sampled(const struct tracing *tracing, int64_t iteration) {
    int64_t interval = config_of(tracing)->watch.log_interval;
    return tracing->ranks.mesh->size > 1 && device_has_clock(device_of(tracing)) &&
           iteration % (interval > LEAST_SAMPLING ? interval : LEAST_SAMPLING) == 0;
}

static bool is_traced(const struct tracing *tracing, int64_t iteration) {
    bool is_written = tracing->is_profiling && tracing->file.path;
    return is_written || config_of(tracing)->watch.timing_log_level > 0 || is_sampled(tracing, iteration);
}

bool tracing_needs_results(const struct tracing *tracing, int64_t iteration) {
    const struct config *config = config_of(tracing);
    return config->watch.profile && !tracing->is_profiled &&
           (iteration == config->watch.profile_step_start || iteration == config->watch.profile_step_end);
}

// Whether --profile-ranks has this rank; all if it is not given. The numbers were checked with the other flags.
static bool has_profile(const struct config *config, int rank) {
    bool has = config->watch.profile_ranks.count == 0;
    for (int64_t i = 0; i < config->watch.profile_ranks.count; i++)
        has = has || strtol(config->watch.profile_ranks.items[i], NULL, 10) == rank;
    return has;
}

static void start_clock(struct tracing *tracing) {
    if (tracing->has_clock)
        device_clock_stop(device_of(tracing));
    device_clock_start(device_of(tracing), (int64_t)(STAMPS_PER_SPAN * tracing->capacity));
    tracing->has_clock = device_has_clock(device_of(tracing));
}

static bool needs_clock(const struct tracing *tracing) {
    return device_has_clock(device_of(tracing)) &&
           (tracing->ranks.mesh->size > 1 || config_of(tracing)->watch.timing_log_level > 0);
}

static void describe_place(const struct mesh *mesh, struct buffer *out) {
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        if (mesh->length[axis] > 1)
            buffer_printf(out, "%s%s %d", out->length > 0 ? ", " : "", mesh_axis_name((enum axis)axis),
                          mesh->place[axis]);
}

static void open_file(struct tracing *tracing, double origin, struct clock_offset offset) {
    const struct mesh *mesh = tracing->ranks.mesh;
    OWNED_BY(buffer_free) struct buffer layout = {0};
    describe_place(mesh, &layout);
    struct trace_place place = {.rank = mesh->rank,
                                .host = tracing->ranks.host,
                                .layout = buffer_string(&layout),
                                .origin = origin,
                                .clock_offset = offset.seconds,
                                .clock_error = offset.error,
                                .has_device = device_has_clock(device_of(tracing))};
    if (trace_file_open(&tracing->file, tracing->folder, &place) < 0) {
        log_warn("%s", error_message());
        error_clear();
    }
}

// The ranks agree on the origin of times, which is a moment of the first rank's clock.
static void begin_profile(struct tracing *tracing, int64_t iteration) {
    struct group *all = tracing->ranks.mesh->all;
    struct rank_clock clock = clocks_own();
    struct clock_offset offset = clocks_compare(all, &clock);
    int64_t origin = (int64_t)(clock_seconds() * 1e9);
    comm_broadcast_i64(all, &origin, 1, 0, "the profile's origin");
    tracing->is_profiling = true;
    log_info("profiling iterations %" PRId64 " to %" PRId64, iteration, config_of(tracing)->watch.profile_step_end);
    if (!has_profile(config_of(tracing), tracing->ranks.mesh->rank))
        return;
    open_file(tracing, (double)origin * 1e-9 + offset.seconds, offset);
    if (!tracing->file.path)
        return;
    start_clock(tracing);
    device_announce_profile(device_of(tracing), true);
}

static void merge_files(struct tracing *tracing) {
    const struct mesh *mesh = tracing->ranks.mesh;
    struct trace_merge merge = {.folder = tracing->folder};
    OWNED int *ranks = memory_alloc(sizeof *ranks * (size_t)mesh->size);
    for (int i = 0; i < mesh->size; i++)
        if (has_profile(config_of(tracing), i))
            ranks[merge.count++] = i;
    merge.ranks = ranks;
    if (trace_merge(&merge) < 0) {
        log_warn("the profile is not merged: %s; open the files trace-rank-N.json in %s instead", error_message(),
                 tracing->folder);
        error_clear();
    } else {
        log_info("the profile is in %s: %" PRId64 " events of %d rank%s; open it at https://ui.perfetto.dev",
                 merge.path, merge.events, merge.count - merge.missing, merge.count - merge.missing == 1 ? "" : "s");
    }
    if (merge.missing > 0)
        log_warn("%d of %d ranks left no profile that this host can see; give a --profile-dir that all hosts share",
                 merge.missing, merge.count);
    if (merge.bad_lines > 0)
        log_warn("%" PRId64 " lines of the ranks' profiles were torn and are left out", merge.bad_lines);
    free(merge.path);
}

// Ranks that wait for the merge wait for files.
static void end_profile(struct tracing *tracing) {
    struct group *all = tracing->ranks.mesh->all;
    trace_pause();
    comm_patience_begin(all, "writing the profile");
    struct rank_clock clock = clocks_own();
    struct clock_offset offset = clocks_compare(all, &clock);
    trace_file_clock(&tracing->file, clock_seconds(), offset.seconds, offset.error);
    if (tracing->file.path)
        device_announce_profile(device_of(tracing), false);
    int64_t lost = tracing->lost + tracing->file.lost;
    if (lost > 0)
        log_warn("the profile lacks %" PRId64 " spans for which there was no room", lost);
    trace_file_close(&tracing->file);
    comm_barrier(all, "profiles are written");
    if (tracing->ranks.mesh->rank == 0)
        merge_files(tracing);
    comm_patience_end(all);
    tracing->is_profiling = false;
    tracing->is_profiled = true;
}

void tracing_begin(struct tracing *tracing, int64_t iteration, int pending) {
    if (pending == 0) {
        run_position_set_iteration(iteration);
        rank_report_begin(&tracing->ranks);
    }
    if (!tracing->is_profiling && !tracing->is_profiled && is_in_profile(tracing, iteration)) {
        CHECK(pending == 0);
        begin_profile(tracing, iteration);
        rank_report_begin(&tracing->ranks);
    }
    if (!tracing->has_clock && pending == 0 && needs_clock(tracing))
        start_clock(tracing);
    if (!is_traced(tracing, iteration)) {
        trace_pause();
        return;
    }
    trace_open(tracing->capacity);
    trace_set_iteration(iteration);
}

// On the host's clock; false if the device no longer knows.
static bool resolve(const struct tracing *tracing, struct trace_event *event) {
    if (!event->stamps[0])
        return true;
    struct device *device = device_of(tracing);
    return device_read_stamp(device, event->stamps[0], &event->start) &&
           device_read_stamp(device, event->stamps[1], &event->end);
}

// Takes the spans up to an iteration out of the ring. Those of phases between iterations count for no timer.
static void drain(struct tracing *tracing, int64_t last, bool counts) {
    struct trace_event event;
    while (trace_take(&event, last)) {
        if (!resolve(tracing, &event)) {
            tracing->lost++;
            continue;
        }
        double seconds = event.end - event.start;
        if (counts)
            timers_add(&tracing->ranks.timers, event.tag, seconds);
        if (counts && event.track == TRACK_DEVICE && event.kind == TRACE_IDLE)
            tracing->ranks.device_waited += seconds;
        trace_file_add(&tracing->file, &event);
    }
    int64_t lost = trace_take_lost();
    tracing->lost += lost;
    if (lost > 0 && tracing->capacity < MOST_SPANS)
        tracing->capacity *= 2;
    trace_file_flush(&tracing->file);
}

void tracing_end(struct tracing *tracing, int64_t iteration, struct tracing_times times) {
    rank_report_end(&tracing->ranks, times.ended - times.started, times.ended - times.awaited);
    if (is_traced(tracing, iteration)) {
        struct trace_event event = {.name = "iteration",
                                    .start = times.started,
                                    .end = times.ended,
                                    .iteration = iteration,
                                    .micro_batch = -1,
                                    .chunk = -1,
                                    .kind = TRACE_ITERATION,
                                    .track = TRACK_ITERATIONS};
        trace_file_add(&tracing->file, &event);
        drain(tracing, iteration, true);
        tracing->ranks.traced++;
    }
    if (tracing->is_profiling && iteration >= config_of(tracing)->watch.profile_step_end)
        end_profile(tracing);
    if (iteration % config_of(tracing)->watch.log_interval == 0)
        rank_report_write(&tracing->ranks, iteration);
}

void tracing_phase(struct tracing *tracing, const char *name, double started) {
    double ended = clock_seconds();
    if (trace_is_on()) {
        trace_add(&(struct trace_event){.name = name,
                                        .start = started,
                                        .end = ended,
                                        .micro_batch = -1,
                                        .chunk = -1,
                                        .kind = strcmp(name, "evaluate") == 0 ? TRACE_COMPUTE : TRACE_FILES,
                                        .track = TRACK_HOST});
        drain(tracing, INT64_MAX, false);
    }
    rank_report_phase(&tracing->ranks, name, ended - started);
}

void tracing_close(struct tracing *tracing, bool has_failed) {
    if (tracing->is_profiling && !has_failed)
        end_profile(tracing);
    trace_file_close(&tracing->file);
    trace_close();
    rank_report_close(&tracing->ranks);
    if (tracing->has_clock && !has_failed)
        device_clock_stop(device_of(tracing));
    tracing->has_clock = false;
    free(tracing->folder);
    tracing->folder = NULL;
}
