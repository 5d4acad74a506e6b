// Gathers the times of steps from all ranks. See tracing.h.
#include "train/tracing.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/host_limits.h"
#include "base/log.h"
#include "base/memory.h"
#include "recovery/stragglers.h"
#include "report/metrics_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Values that a rank sends to the others, in nanoseconds per step; followed by the timers, if any.
enum { WORD_STEP, WORD_WAIT, WORD_DATA, WORD_STALL, WORD_STAGE, WORD_MEMORY, WORD_PROBES, WORD_CLOCK, WORD_COUNT };
// Values sent once, at the end, for the comparison with the plan.
enum { WARM_STEP, WARM_WAIT, WARM_DATA, WARM_WORDS };

// The first iterations choose algorithms and record graphs. After them, this many are compared with the plan.
enum { ITERATIONS_UNTIL_WARM = 5, WARM_ITERATIONS = 10 };

// Without --log-straggler, a rank is named once it stood out in this many lines in a row, of this many steps each.
enum { LINES_BEFORE_WARNING = 3, STEPS_BEFORE_WARNING = 10 };

// With --log-straggler, links are probed if ranks wait for this share of a step, and not again for this many seconds.
static const double PROBED_SHARE = 0.3, PROBE_SECONDS = 60;

// The GPU's clock is read at the end of an iteration, when the next ones keep it busy; not more often than this.
static const double CLOCK_SECONDS = 0.1;

static struct rank_usage usage_now(const struct rank_report *report) {
    return (struct rank_usage){.waited = comm_waited_seconds(report->mesh->all),
                               .data = step_data_seconds(report->step),
                               .ran = clock_thread_seconds()};
}

void rank_report_open(struct rank_report *report) {
    enum { MEGATRONS_PORT = 65535 };
    const struct config *config = report->config;
    int64_t port = config->watch.straggler_ctrlr_port;
    atomic_store(&report->prints, config->watch.log_straggler && !config->watch.disable_straggler_on_startup);
    if (port == 0 && config->watch.disable_straggler_on_startup)
        port = MEGATRONS_PORT;
    if (!report->report || !config->watch.log_straggler || port == 0)
        return;
    if (scrape_open_switch(&report->port, &report->prints, "straggler report", (int)port) < 0) {
        log_warn("%s; the straggler report stays %s", error_message(), atomic_load(&report->prints) ? "on" : "off");
        error_clear();
    } else {
        log_info("the straggler report is %s; toggle it with curl 127.0.0.1:%d on %s",
                 atomic_load(&report->prints) ? "on" : "off", (int)port, report->host);
    }
}

void rank_report_close(struct rank_report *report) {
    scrape_close(report->port);
    report->port = NULL;
}

void rank_report_begin(struct rank_report *report) {
    report->last = usage_now(report);
}

static void read_clock(struct rank_report *report) {
    double now = clock_seconds();
    if (!report->reads_clock || now - report->clock_read < CLOCK_SECONDS)
        return;
    double clock = sensors_clock(&report->sensors);
    report->clock_sum += clock;
    report->clock_readings += clock > 0;
    report->clock_read = now;
}

// Once a rank computes for longer than the others, the next line tells whether its GPU is the reason. All ranks know.
static void watch_clocks(struct rank_report *report, const struct straggler *straggler) {
    if (report->reads_clock || straggler->rank < 0 || straggler->cause != CAUSE_COMPUTE)
        return;
    report->reads_clock = sensors_open(&report->sensors, step_device(report->step)) == 0;
    error_clear();
}

void rank_report_end(struct rank_report *report, double seconds, double awaited_device) {
    struct rank_usage now = usage_now(report);
    double waited = now.waited - report->last.waited, data = now.data - report->last.data;
    report->used.waited += waited;
    report->used.data += data;
    report->used.ran += now.ran - report->last.ran;
    report->last = now;
    report->seconds += seconds;
    report->awaited_device += awaited_device;
    report->steps++;
    read_clock(report);
    if (++report->iterations <= ITERATIONS_UNTIL_WARM)
        return;
    report->warm.seconds += seconds;
    report->warm.waited += waited;
    report->warm.data += data;
    report->warm.steps++;
}

static bool has_own_device(const struct rank_report *report) {
    return !step_device(report->step)->ops->is_host_memory;
}

// The time in which the host neither waited for another rank nor ran. A host that waits for other ranks runs meanwhile,
// as far as the others on its machine let it: so this is a lower bound, and close on a rank that hardly waits.
static double find_stall(const struct rank_report *report) {
    double away = report->used.waited + (has_own_device(report) ? report->awaited_device : report->used.ran);
    double stall = report->seconds - report->used.data - away;
    return stall > 0 ? stall : 0;
}

// For how long the device waits for other ranks in an iteration, known from those with a trace. Where data goes through
// the host, it is the host that waits instead.
static double find_device_wait(const struct rank_report *report) {
    bool is_known = report->traced > 0 && device_has_clock(step_device(report->step));
    return is_known ? report->device_waited / (double)report->traced : 0;
}

// Waits for small messages are measured in ticks of a coarse clock: over many of them that evens out, but the sum of a
// few may exceed the time that they are a part of.
static double find_wait(const struct rank_report *report) {
    double most = report->seconds - report->used.data;
    double wait = fmax(report->used.waited, find_device_wait(report) * (double)report->steps);
    return fmax(fmin(wait, most), 0);
}

// The wait of a warm step.
static double find_warm_wait(const struct rank_report *report) {
    const struct rank_warm *warm = &report->warm;
    double most = (warm->seconds - warm->data) / (double)warm->steps;
    return fmin(fmax(warm->waited / (double)warm->steps, find_device_wait(report)), most);
}

static int64_t find_memory(const struct rank_report *report) {
    const struct device *device = step_device(report->step);
    if (has_own_device(report))
        return (int64_t)(step_memory(report->step)->total + device->ops->standing_bytes);
    return (int64_t)host_memory_resident();
}

// Index of the first word of the warm steps.
static int warm_words(const struct rank_report *report) {
    return WORD_COUNT + (report->config->watch.timing_log_level > 0 ? TIMER_COUNT : 0);
}

// Whether this line is the first with enough warm iterations. All ranks count the same.
static bool compares(const struct rank_report *report) {
    return !report->is_compared && report->warm.steps >= WARM_ITERATIONS;
}

static int count_words(const struct rank_report *report) {
    return warm_words(report) + (compares(report) ? WARM_WORDS : 0);
}

// (ranks, words): what every rank says, to be freed.
static int64_t *gather_words(const struct rank_report *report) {
    int words = count_words(report);
    int64_t *table = memory_alloc(sizeof *table * (size_t)words * (size_t)report->mesh->size);
    int64_t *own = table + (size_t)report->mesh->rank * (size_t)words;
    double per_step = 1e9 / (double)report->steps, traced = (double)(report->traced > 0 ? report->traced : 1);
    own[WORD_STEP] = (int64_t)(report->seconds * per_step);
    own[WORD_WAIT] = (int64_t)(find_wait(report) * per_step);
    own[WORD_DATA] = (int64_t)(report->used.data * per_step);
    own[WORD_STALL] = (int64_t)(find_stall(report) * per_step);
    own[WORD_STAGE] = report->mesh->place[AXIS_PIPELINE];
    own[WORD_MEMORY] = find_memory(report);
    own[WORD_PROBES] =
        atomic_load(&report->prints) && (report->probed <= 0 || clock_seconds() - report->probed > PROBE_SECONDS);
    own[WORD_CLOCK] =
        report->clock_readings > 0 ? (int64_t)(report->clock_sum / (double)report->clock_readings * 1e6) : 0;
    if (compares(report)) {
        int64_t *warm = own + warm_words(report);
        warm[WARM_STEP] = (int64_t)(report->warm.seconds * 1e9 / (double)report->warm.steps);
        warm[WARM_WAIT] = (int64_t)(find_warm_wait(report) * 1e9);
        warm[WARM_DATA] = (int64_t)(report->warm.data * 1e9 / (double)report->warm.steps);
    }
    for (int i = WORD_COUNT; i < warm_words(report); i++)
        own[i] = (int64_t)(report->timers.seconds[i - WORD_COUNT] * 1e9 / traced);
    comm_all_gather_i64(report->mesh->all, table, words, "times of ranks");
    return table;
}

static struct rank_times times_of(const int64_t *words) {
    return (struct rank_times){.step = (double)words[WORD_STEP] * 1e-9,
                               .wait = (double)words[WORD_WAIT] * 1e-9,
                               .data = (double)words[WORD_DATA] * 1e-9,
                               .stall = (double)words[WORD_STALL] * 1e-9,
                               .stage = (int)words[WORD_STAGE],
                               .clock = (double)words[WORD_CLOCK] * 1e-6};
}

static const char *host_of(const struct rank_report *report, int rank) {
    const char *host = group_host(report->mesh->all, rank);
    return host[0] ? host : report->host;
}

static void write_line(const struct rank_report *report, const int64_t *table, int64_t iteration,
                       const struct straggler *straggler) {
    int size = report->mesh->size, words = count_words(report);
    struct ranks_line_rank *ranks = memory_alloc(sizeof *ranks * (size_t)size);
    for (int i = 0; i < size; i++) {
        const int64_t *row = table + (size_t)i * (size_t)words;
        ranks[i] = (struct ranks_line_rank){.rank = i,
                                            .host = host_of(report, i),
                                            .step_ms = (double)row[WORD_STEP] * 1e-6,
                                            .wait_ms = (double)row[WORD_WAIT] * 1e-6,
                                            .data_ms = (double)row[WORD_DATA] * 1e-6,
                                            .memory_bytes = row[WORD_MEMORY]};
    }
    struct buffer line = {0}, text = {0};
    if (straggler->rank >= 0)
        straggler_describe(straggler, host_of(report, straggler->rank), &text);
    ranks_line_write(&line, &(struct ranks_line){.wall_seconds = clock_wall_seconds(),
                                                 .iteration = iteration,
                                                 .steps = report->steps,
                                                 .ranks = ranks,
                                                 .count = size,
                                                 .slow = straggler->rank,
                                                 .slow_cause = straggler_cause_name(straggler->cause),
                                                 .slow_text = buffer_string(&text)});
    report_line(report->report, &line);
    buffer_free(&text);
    free(ranks);
}

// A rank and its own time, to be sorted.
struct own_time {
    double seconds;
    int rank;
};

static int slower_first(const void *a, const void *b) {
    const struct own_time *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? 1 : -1;
    return x->rank - y->rank;
}

static void append_ranks(const struct rank_report *report, const struct own_time *own, int count, int step,
                         struct buffer *out) {
    for (int i = 0; i < count; i++)
        buffer_printf(out, "%srank %d on %s %.1f ms", i > 0 ? ", " : " ", own[i * step].rank,
                      host_of(report, own[i * step].rank), own[i * step].seconds * 1e3);
}

// The line of --log-straggler: the slowest and fastest ranks by their own time, and the verdict.
static void print_straggler(const struct rank_report *report, const struct rank_times *times, int64_t iteration,
                            const struct straggler *straggler) {
    int size = report->mesh->size;
    int64_t asked = report->config->watch.straggler_minmax_count;
    int count = asked < size ? (int)asked : size;
    struct own_time *own = memory_alloc(sizeof *own * (size_t)size);
    for (int i = 0; i < size; i++)
        own[i] = (struct own_time){times[i].step - times[i].wait, i};
    qsort(own, (size_t)size, sizeof *own, slower_first);
    struct buffer text = {0};
    buffer_printf(&text, " straggler report at iteration %8" PRId64 " | slowest:", iteration);
    append_ranks(report, own, count, 1, &text);
    buffer_append_string(&text, " | fastest:");
    append_ranks(report, own + size - 1, count, -1, &text);
    buffer_append_string(&text, " | ");
    if (straggler->rank >= 0)
        straggler_describe(straggler, host_of(report, straggler->rank), &text);
    else
        buffer_append_string(&text, "no rank stands out");
    buffer_append_string(&text, " |\n");
    report_print(report->report, buffer_string(&text));
    buffer_free(&text);
    free(own);
}

// A rank that stays slow gets a warning without --log-straggler; one that was slow once does not.
static void warn_of(struct rank_report *report, const struct straggler *straggler) {
    bool is_same = straggler->rank >= 0 && straggler->rank == report->slow_rank;
    report->slow_seen = is_same ? report->slow_seen + 1 : 1;
    report->has_warned = report->has_warned && is_same;
    report->slow_rank = straggler->rank;
    if (straggler->rank < 0 || report->has_warned || report->slow_seen < LINES_BEFORE_WARNING ||
        report->steps < STEPS_BEFORE_WARNING || atomic_load(&report->prints))
        return;
    OWNED_BY(buffer_free) struct buffer text = {0};
    straggler_describe(straggler, host_of(report, straggler->rank), &text);
    log_warn("%s", buffer_string(&text));
    report->has_warned = true;
}

static void print_timers(const struct rank_report *report, const int64_t *table, int64_t iteration) {
    int size = report->mesh->size, words = count_words(report), count = 0;
    OWNED double *ms = memory_alloc(sizeof *ms * TIMER_COUNT * (size_t)size);
    struct timer_row rows[TIMER_COUNT];
    for (int timer = 0; timer < TIMER_COUNT; timer++) {
        if (timer_level((enum timer)timer) > report->config->watch.timing_log_level)
            continue;
        double *row = ms + (size_t)count * (size_t)size, most = 0;
        for (int rank = 0; rank < size; rank++) {
            row[rank] = (double)table[(size_t)rank * (size_t)words + WORD_COUNT + (size_t)timer] * 1e-6;
            most = row[rank] > most ? row[rank] : most;
        }
        rows[count++] = (struct timer_row){timer_name((enum timer)timer), row};
        if (most > 0)
            report_timer(report->report, timer_name((enum timer)timer), most * 1e-3, iteration);
    }
    OWNED_BY(buffer_free) struct buffer text = {0};
    timers_print(&text, rows, count, size, report->config->watch.timing_log_option);
    if (text.length > 0)
        report_print(report->report, buffer_string(&text));
}

// If all ranks wait for long and none stands out, a link may be slow. All ranks decide by what the first one said and
// by the same times.
static void probe_links(struct rank_report *report, bool is_due, const struct rank_times *times,
                        struct straggler *straggler) {
    int size = report->mesh->size, stride;
    double wait = 0, step = 0;
    for (int i = 0; i < size; i++) {
        wait += times[i].wait;
        step += times[i].step;
    }
    if (!is_due || straggler->rank >= 0 || wait < PROBED_SHARE * step)
        return;
    double *links = memory_alloc(sizeof *links * (size_t)size);
    if (link_probe_measure(report->mesh->all, step_device(report->step), links, &stride) == 0)
        *straggler = link_probe_find(links, size, stride);
    else
        error_clear();
    report->probed = clock_seconds();
    free(links);
}

static void compare_with_plan(const struct rank_report *report, const int64_t *table, int64_t iteration) {
    int size = report->mesh->size, words = count_words(report);
    if (report->planned.seconds <= 0 || !compares(report))
        return;
    struct measured measured = {.iteration = iteration};
    for (int i = 0; i < size; i++) {
        const int64_t *row = table + (size_t)i * (size_t)words + warm_words(report);
        measured.seconds += (double)row[WARM_STEP] * 1e-9 / size;
        measured.waits += (double)row[WARM_WAIT] * 1e-9 / size;
        measured.data += (double)row[WARM_DATA] * 1e-9 / size;
    }
    struct buffer text = {0}, line = {0};
    planned_describe(&report->planned, &measured, &text);
    planned_write_line(&report->planned, &measured, &line);
    log_info("%s", buffer_string(&text));
    report_line(report->report, &line);
    buffer_free(&text);
}

void rank_report_write(struct rank_report *report, int64_t iteration) {
    if (report->steps == 0)
        return;
    int size = report->mesh->size, words = count_words(report);
    OWNED int64_t *table = gather_words(report);
    OWNED struct rank_times *times = memory_alloc(sizeof *times * (size_t)size);
    for (int i = 0; i < size; i++)
        times[i] = times_of(table + (size_t)i * (size_t)words);
    struct straggler straggler = stragglers_find(times, size);
    watch_clocks(report, &straggler);
    probe_links(report, table[WORD_PROBES], times, &straggler);
    if (report->report) {
        if (report->config->watch.timing_log_level > 0)
            print_timers(report, table, iteration);
        write_line(report, table, iteration, &straggler);
        if (atomic_load(&report->prints))
            print_straggler(report, times, iteration, &straggler);
        warn_of(report, &straggler);
        compare_with_plan(report, table, iteration);
    }
    report->is_compared = report->is_compared || compares(report);
    report->used = (struct rank_usage){0};
    report->seconds = report->awaited_device = report->device_waited = 0;
    report->steps = report->traced = 0;
    report->clock_sum = 0;
    report->clock_readings = 0;
    report->timers = (struct timers){0};
}

void rank_report_phase(struct rank_report *report, const char *name, double seconds) {
    if (report->config->watch.timing_log_level == 0)
        return;
    int size = report->mesh->size;
    OWNED int64_t *table = memory_alloc(sizeof *table * (size_t)size);
    OWNED double *ms = memory_alloc(sizeof *ms * (size_t)size);
    table[report->mesh->rank] = (int64_t)(seconds * 1e9);
    comm_all_gather_i64(report->mesh->all, table, 1, "times of ranks");
    for (int i = 0; i < size; i++)
        ms[i] = (double)table[i] * 1e-6;
    OWNED_BY(buffer_free) struct buffer text = {0};
    timers_print(&text, &(struct timer_row){name, ms}, 1, size, report->config->watch.timing_log_option);
    report_print(report->report, buffer_string(&text));
}
