// layer: report
// The store of the board on many long runs: the first scan, the start with a cache, answers, and memory.
// usage: bench_board FOLDER RUNS STEPS [DISTINCT]          makes FOLDER/metrics/run*/metrics.jsonl and reads them
//        bench_board FOLDER RUNS STEPS [DISTINCT] events   the same with TensorBoard event files of five tags
//        bench_board                                       10 runs of 100,000 steps, in a folder that it removes
// DISTINCT files are written (RUNS by default); the other runs are hard links to them, where disk is short. What is
// already in FOLDER is used again. bench/bench_board_peers.py reads the same event files with TensorBoard.
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "report/board/store.h"
#include "report/tensorboard.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct board_sizes {
    const char *folder;
    int64_t runs, steps, distinct;
    bool has_events;
};

static double loss_at(int64_t run, int64_t step) {
    double noise = (double)((uint64_t)(step * 2654435761 + run * 40503) % 1000) / 5000;
    return 2 + 9 * exp(-(double)step / 50000) + noise + (step % 100003 == 7 ? 20 : 0);
}

static void add_line(struct buffer *out, int64_t run, int64_t step, int64_t steps) {
    double loss = loss_at(run, step);
    buffer_printf(out,
                  "{\"kind\":\"train\",\"time\":%.6f,\"iteration\":%" PRId64 ",\"train_iters\":%" PRId64
                  ",\"consumed_samples\":%" PRId64 ",\"skipped_samples\":0,\"losses\":{\"lm loss\":%.15g},"
                  "\"learning_rate\":%.15g,\"global_batch_size\":512,\"elapsed_ms\":%.15g,\"tokens_per_second\":%.15g,"
                  "\"teraflops\":%.15g,\"loss_scale\":1,\"grad_norm\":%.15g,\"skipped_iterations\":0,"
                  "\"nan_iterations\":0,\"memory_bytes\":73400320000}\n",
                  1767322245.678901 + 0.1 * (double)step, step, steps, step * 512, loss,
                  3e-4 * (1 - (double)step / (double)steps), 100 + loss, 5242880 / (1 + loss / 100), 400 + loss,
                  loss / 7);
    if (step % 1000 == 0)
        buffer_printf(out,
                      "{\"kind\":\"eval\",\"time\":%.6f,\"iteration\":%" PRId64 ",\"consumed_samples\":%" PRId64
                      ",\"set\":\"validation\",\"final\":false,\"losses\":{\"lm loss\":%.15g},\"elapsed_ms\":900}\n",
                      1767322245.678901 + 0.1 * (double)step, step, step * 512, loss);
}

static void add_events(struct buffer *out, int64_t run, int64_t step) {
    static const char *const tags[] = {"lm loss", "learning-rate", "grad-norm", "batch-size", "loss-scale"};
    struct event_place place = {1767322245.678901 + 0.1 * (double)step, step};
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++)
        event_scalar(out, place, tags[i], loss_at(run, step) / (double)(i + 1));
}

static int write_run(const struct board_sizes *sizes, const char *path, int64_t run) {
    struct file_writer writer;
    struct buffer text = {0};
    TRY(file_create(&writer, path));
    if (sizes->has_events)
        event_version(&text, 1767322245);
    else
        buffer_printf(&text,
                      "{\"kind\":\"run\",\"time\":1767322245,\"iteration\":0,\"host\":\"a\",\"tokens_per_sample\":2048,"
                      "\"flops_per_token\":7.8e9,\"config\":{}}\n");
    int result = 0;
    for (int64_t step = 1; result == 0 && step <= sizes->steps; step++) {
        if (sizes->has_events)
            add_events(&text, run, step);
        else
            add_line(&text, run, step, sizes->steps);
        if (text.length > 1 << 20 || step == sizes->steps) {
            result = file_write(&writer, text.data, text.length);
            buffer_clear(&text);
        }
    }
    buffer_free(&text);
    return result < 0 ? -1 : file_commit(&writer);
}

static char *run_path(const struct board_sizes *sizes, int64_t run) {
    return sizes->has_events
               ? memory_printf("%s/events/run%03" PRId64 "/events.out.tfevents.1.host", sizes->folder, run)
               : memory_printf("%s/metrics/run%03" PRId64 "/metrics.jsonl", sizes->folder, run);
}

static int make_runs(const struct board_sizes *sizes, uint64_t *bytes) {
    double start = clock_seconds();
    for (int64_t run = 0; run < sizes->runs; run++) {
        char *path = run_path(sizes, run), *source = run_path(sizes, run % sizes->distinct);
        uint64_t size = 0;
        int result = file_make_parent(path);
        if (result == 0 && !file_exists(path) && run < sizes->distinct)
            result = write_run(sizes, path, run);
        else if (result == 0 && !file_exists(path) && link(source, path) < 0)
            result = error_set("cannot link %s to %s", path, source);
        if (result == 0)
            result = file_size(path, &size);
        *bytes += size;
        free(path);
        free(source);
        TRY(result);
    }
    printf("made %" PRId64 " runs of %" PRId64 " steps, %.2f GB (%" PRId64 " distinct files), in %.1f s\n", sizes->runs,
           sizes->steps, (double)*bytes / 1e9, sizes->distinct, clock_seconds() - start);
    return 0;
}

// A line of /proc/self/status, in MB.
static double memory_mb(const char *key) {
    struct buffer text = {0};
    double value = 0;
    if (file_read_all("/proc/self/status", 1 << 16, &text) == 0) {
        const char *found = strstr(buffer_string(&text), key);
        value = found ? strtod(found + strlen(key) + 1, NULL) / 1024 : 0;
    }
    buffer_free(&text);
    return value;
}

// CLOCK_THREAD_CPUTIME_ID or CLOCK_PROCESS_CPUTIME_ID.
static double cpu_seconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static char **ids;
static size_t id_count;

static void take_ids(struct board_store *store) {
    static const char key[] = "\"id\":\"";
    struct buffer json = {0};
    (void)board_store_runs(store, &json);
    ids = memory_alloc(board_store_count(store) * sizeof ids[0] + 1);
    for (const char *at = json.data; (at = strstr(at, key)); at += sizeof key)
        ids[id_count++] = memory_printf("%.8s", at + sizeof key - 1);
    buffer_free(&json);
}

// Median and most of the milliseconds that a question takes, the CPU time, and the bytes of its answer.
static void time_query(struct board_store *store, const char *name, const struct curve_query *query) {
    enum { TIMES = 15 };
    double times[TIMES], most = 0, cpu = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
    struct buffer json = {0};
    for (int i = 0; i < TIMES; i++) {
        double start = clock_seconds();
        buffer_clear(&json);
        int result = query ? board_store_curves(store, query, &json) : board_store_runs(store, &json);
        if (result < 0)
            die("%s", error_message());
        times[i] = 1000 * (clock_seconds() - start);
        most = times[i] > most ? times[i] : most;
        for (int k = i; k > 0 && times[k] < times[k - 1]; k--) {
            double swap = times[k];
            times[k] = times[k - 1];
            times[k - 1] = swap;
        }
    }
    cpu = 1000 * (cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - cpu) / TIMES;
    printf("  %-52s %8.2f ms, at most %8.2f; %6.2f ms of CPU; %zu bytes\n", name, times[TIMES / 2], most, cpu,
           json.length);
    buffer_free(&json);
}

static void time_queries(struct board_store *store, const struct board_sizes *sizes) {
    const char *tag = "lm loss";
    double middle = (double)sizes->steps / 2, part = (double)sizes->steps / 1000;
    struct curve_query query = {
        .ids = (const char *const *)ids, .id_count = id_count, .tags = &tag, .tag_count = 1, .points = 500};
    time_query(store, "all runs: /api/runs", NULL);
    time_query(store, "loss of all runs, 500 points", &query);
    query.has_range = true;
    query.from = middle - part / 2;
    query.to = middle + part / 2;
    time_query(store, "loss of all runs, a thousandth of the steps", &query);
    query.id_count = 1;
    time_query(store, "loss of one run, a thousandth of the steps", &query);
    query.from = middle - 10 * part;
    query.to = middle + 10 * part;
    time_query(store, "loss of one run, a fiftieth of the steps", &query);
    query.tag_count = 0;
    time_query(store, "all tags of one run, a fiftieth of the steps", &query);
    query.has_range = false;
    time_query(store, "all tags of one run, 500 points", &query);
}

// Opens the store and asks while it scans: how long until the first answer, until all is read, and the slowest answer.
static struct board_store *scan(const struct board_sizes *sizes, const char *name, const char *cache, uint64_t bytes) {
    struct board_store *store = NULL;
    struct buffer json = {0};
    char *logdir = memory_printf("%s/%s", sizes->folder, sizes->has_events ? "events" : "metrics");
    struct board_store_options options = {.logdir = logdir, .cache_dir = cache};
    double start = clock_seconds(), cpu = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID), first = 0, slowest = 0;
    if (board_store_open(&store, &options) < 0)
        die("%s", error_message());
    for (;;) {
        double asked = clock_seconds();
        buffer_clear(&json);
        (void)board_store_runs(store, &json);
        double answered = clock_seconds();
        first = first > 0 ? first : answered - start;
        slowest = answered - asked > slowest ? answered - asked : slowest;
        int64_t revision = board_store_revision(store);
        if (strstr(json.data, "\"scanning\":null") && revision > 1)
            break;
        (void)board_store_wait(store, revision, 1);
    }
    board_store_scan(store);
    double seconds = clock_seconds() - start;
    cpu = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("%s: first answer after %.0f ms, all read after %.1f s (%.2f GB/s), %.2f s of CPU; slowest answer meanwhile "
           "%.0f ms\n",
           name, 1000 * first, seconds, (double)bytes / 1e9 / seconds, cpu, 1000 * slowest);
    printf("  memory %.0f MB, at most %.0f MB\n", memory_mb("VmRSS"), memory_mb("VmHWM"));
    fflush(stdout);
    buffer_free(&json);
    free(logdir);
    return store;
}

static void measure(const struct board_sizes *sizes) {
    uint64_t bytes = 0;
    char *cache = memory_printf("%s/cache", sizes->folder);
    if (make_runs(sizes, &bytes) < 0 || file_remove_tree(cache) < 0)
        die("%s", error_message());
    struct board_store *store = scan(sizes, "first scan", cache, bytes);
    take_ids(store);
    time_queries(store, sizes);
    double start = clock_seconds();
    board_store_close(store);
    printf("closed in %.2f s\n", clock_seconds() - start);
    store = scan(sizes, "second start", cache, bytes);
    time_queries(store, sizes);
    board_store_close(store);
    for (size_t i = 0; i < id_count; i++)
        free(ids[i]);
    free(ids);
    free(cache);
}

int main(int argc, char **argv) {
    struct board_sizes sizes = {.runs = 10, .steps = 100000, .distinct = 10};
    if (argc == 1) {
        char folder[] = "/tmp/bench_board_XXXXXX";
        sizes.folder = mkdtemp(folder);
        if (!sizes.folder)
            die("cannot make a folder in /tmp");
        measure(&sizes);
        return file_remove_tree(folder) < 0 ? EXIT_CODE_ERROR : EXIT_CODE_OK;
    }
    if (argc < 4) {
        fprintf(stderr, "usage: bench_board FOLDER RUNS STEPS [DISTINCT] [events]\n");
        return EXIT_CODE_USAGE;
    }
    sizes.folder = argv[1];
    sizes.runs = strtoll(argv[2], NULL, 10);
    sizes.steps = strtoll(argv[3], NULL, 10);
    sizes.has_events = strcmp(argv[argc - 1], "events") == 0;
    int64_t distinct = argc > 4 ? strtoll(argv[4], NULL, 10) : 0;
    sizes.distinct = distinct > 0 && distinct < sizes.runs ? distinct : sizes.runs;
    measure(&sizes);
    return EXIT_CODE_OK;
}
