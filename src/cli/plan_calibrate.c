// Reads the output of the bench commands, a JSON object per line, for plan --calibrate.
#include "cli/plan_calibrate.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/bench_model.h"
#include "plan/calibrate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// Results of all files, and numbers of `bench collectives` results that set no speed.
struct results {
    struct calibration calibration;
    int64_t exchanges;  // between two ranks
    int64_t single;     // of one rank, without communication
};

// Plausible sizes and times, so that values computed from them are finite.
static int get_positive(const struct json *line, const char *key, double *value) {
    const double least = 1e-9, most = 1e15;
    TRY(json_get_double(line, key, value));
    if (!(*value >= least && *value <= most))
        return error_set_code(EXIT_CODE_USAGE, "\"%s\" is %g; it must be from %g to %g", key, *value, least, most);
    return 0;
}

// The rates set by a matmul of bench. Plans have none for TF32.
struct matmul_dtype {
    const char *name;
    enum dtype dtype;
    bool has_rate;
};

static int find_dtype(const char *name, struct matmul_dtype *found) {
    static const struct matmul_dtype dtypes[] = {{"fp32", DTYPE_F32, true},
                                                 {"bf16", DTYPE_BF16, true},
                                                 {"fp16", DTYPE_F16, true},
                                                 {"fp8", DTYPE_E4M3, true},
                                                 {"tf32", DTYPE_F32, false}};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(dtypes[i].name, name) != 0)
            continue;
        *found = dtypes[i];
        return 0;
    }
    return error_set_code(EXIT_CODE_USAGE, "\"dtype\" is \"%s\"; it must be fp32, tf32, bf16, fp16 or fp8", name);
}

// {"layer": …, "m": 512, "n": 768, "k": 256, "times": 2, "dtype": "fp32", "ms": 1.2}
static int read_matmul(const struct json *line, struct calibration *calibration) {
    struct matmul_sample sample = {0};
    struct matmul_dtype dtype = {0};
    const char *name;
    double ms;
    TRY(json_get_string(line, "dtype", &name));
    TRY(find_dtype(name, &dtype));
    TRY(get_positive(line, "m", &sample.m));
    TRY(get_positive(line, "n", &sample.n));
    TRY(get_positive(line, "k", &sample.k));
    TRY(get_positive(line, "times", &sample.times));
    TRY(get_positive(line, "ms", &ms));
    sample.seconds = ms / 1e3;
    sample.dtype = dtype.dtype;
    if (dtype.has_rate)
        calibration_add_matmul(calibration, &sample);
    else
        log_warn_once("matmuls in %s are left out: plans have no rate for them", name);
    return 0;
}

// Values of "operation" in bench collectives.
struct measured_operation {
    const char *name;
    double passes;  // 0: it sets no speed
};

static int find_operation(const char *name, struct measured_operation *found) {
    static const struct measured_operation operations[] = {{"all_reduce", 2}, {"all_gather", 1}, {"reduce_scatter", 1},
                                                           {"all_to_all", 1}, {"broadcast", 1},  {"sendrecv", 0}};
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        if (strcmp(operations[i].name, name) != 0)
            continue;
        *found = operations[i];
        return 0;
    }
    return error_set_code(EXIT_CODE_USAGE,
                          "\"operation\" is \"%.64s\"; it must be all_reduce, all_gather, reduce_scatter, all_to_all, "
                          "broadcast or sendrecv",
                          name);
}

// {"operation": "all_reduce", "ranks": 2, "hosts": 1, "bytes": 1024, "us": 2.78, …}
static int read_message(const struct json *line, struct results *results) {
    const int64_t most_ranks = 1 << 24;
    const char *name;
    struct measured_operation operation = {0};
    int64_t ranks, hosts = 0;
    double us;
    TRY(json_get_string(line, "operation", &name));
    TRY(find_operation(name, &operation));
    struct message_sample sample = {.passes = operation.passes};
    TRY(json_get_int(line, "ranks", &ranks));
    TRY(get_positive(line, "bytes", &sample.bytes));
    TRY(get_positive(line, "us", &us));
    if (ranks < 1 || ranks > most_ranks)
        return error_set_code(EXIT_CODE_USAGE, "\"ranks\" is %" PRId64 "; it must be from 1 to %" PRId64, ranks,
                              most_ranks);
    if (json_member(line, "hosts"))
        TRY(json_get_int(line, "hosts", &hosts));
    if (hosts < 0 || hosts > ranks)
        return error_set_code(EXIT_CODE_USAGE,
                              "\"hosts\" is %" PRId64 "; it must be from 0, if it is not known, to \"ranks\", %" PRId64,
                              hosts, ranks);
    results->single += ranks == 1;
    results->exchanges += ranks > 1 && operation.passes == 0;
    if (ranks == 1 || operation.passes == 0)
        return 0;
    sample.ranks = (int)ranks;
    sample.hosts = (int)hosts;
    sample.seconds = us / 1e6;
    calibration_add_message(&results->calibration, &sample);
    return 0;
}

// {"name": "bevatron", "step_s": 0.25, …, "flags": {"num-layers": "2", …}}
static int read_step(const struct json *line, struct calibration *calibration) {
    const struct json *flags = json_member(line, "flags");
    struct step_sample sample = {0};
    struct buffer text = {0};
    struct json_writer w = {.out = &text};
    if (!flags)
        return error_set_code(EXIT_CODE_USAGE, "found no \"flags\", which say what was timed; run bench step again");
    TRY(get_positive(line, "step_s", &sample.seconds));
    json_value(&w, flags);
    config_defaults(&sample.config);
    int status = flags_read_text(config_command(), &sample.config, "flags", buffer_string(&text), text.length);
    if (status == 0)
        status = bench_model_complete(&sample.config);
    if (status == 0)
        calibration_add_step(calibration, &sample);
    else
        config_free(&sample.config);
    buffer_free(&text);
    return status;
}

static int read_line(const char *text, size_t length, struct results *results) {
    struct json *line = NULL;
    TRY(json_parse(&line, text, length, "the line"));
    int status;
    if (json_member(line, "operation"))
        status = read_message(line, results);
    else if (json_member(line, "step_s"))
        status = read_step(line, &results->calibration);
    else if (json_member(line, "dtype"))
        status = read_matmul(line, &results->calibration);
    else
        status = error_set_code(EXIT_CODE_USAGE,
                                "is not a line of bench matmul --json, bench collectives --json or bench step");
    json_free(line);
    return status;
}

static int read_results(const char *name, struct results *results) {
    enum { LARGEST_FILE_BYTES = 1 << 26 };
    struct buffer text = {0};
    int status = file_read_all(name, LARGEST_FILE_BYTES, &text);
    int number = 0;
    for (const char *p = status == 0 ? buffer_string(&text) : ""; *p && status == 0;) {
        size_t length = strcspn(p, "\n");
        number++;
        // Benchmarks print notes and tables besides their results.
        if (*p == '{' && read_line(p, length, results) < 0)
            status = error_context("%s:%d", name, number);
        p += length + (p[length] == '\n');
    }
    buffer_free(&text);
    return status;
}

static void report_skipped(const struct results *results) {
    if (results->exchanges > 0)
        log_warn("skipped %" PRId64 " result%s of sendrecv: plans take the speed of links from collectives",
                 results->exchanges, results->exchanges == 1 ? "" : "s");
    if (results->single > 0)
        log_warn("skipped %" PRId64 " result%s of collectives of one rank, which sends nothing; run bench collectives "
                 "on two or more",
                 results->single, results->single == 1 ? "" : "s");
}

int plan_calibrate(struct hardware_file *file, const struct string_list *names) {
    struct results results = {0};
    const struct calibration *calibration = &results.calibration;
    struct buffer found = {0};
    int status = 0;
    for (int64_t i = 0; i < names->count && status == 0; i++)
        status = read_results(names->items[i], &results);
    if (status == 0)
        report_skipped(&results);
    if (status == 0 && calibration->matmul_count + calibration->message_count + calibration->step_count == 0)
        status = error_set_code(EXIT_CODE_USAGE,
                                "%s: found no results of bench matmul --json, bench collectives --json "
                                "or bench step that set a speed",
                                names->items[0]);
    if (status == 0)
        status = calibration_apply(calibration, file, &found);
    if (status == 0)
        fputs(buffer_string(&found), stderr);
    buffer_free(&found);
    calibration_free(&results.calibration);
    return status;
}
