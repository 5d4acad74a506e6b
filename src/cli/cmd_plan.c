// bevatron plan: memory, time and cost of a run before it is started.
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/bench_time.h"
#include "cli/commands.h"
#include "cli/planner.h"
#include "config/flag_rows.h"
#include "plan/calibrate.h"
#include "plan/hardware.h"
#include "plan/report.h"
#include "plan/timeline.h"
#include "train/automatic.h"
#include "train/dry_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- --calibrate ----

// bevatron plan --calibrate.

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
    OWNED_BY(buffer_free) struct buffer text = {0};
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
    return status;
}

static int read_line(const char *text, size_t length, struct results *results) {
    OWNED struct json *line = NULL;
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
    return status;
}

static int read_results(const char *name, struct results *results) {
    enum { LARGEST_FILE_BYTES = 1 << 26 };
    OWNED_BY(buffer_free) struct buffer text = {0};
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

static void free_results(struct results *results) {
    calibration_free(&results->calibration);
}

// Sets the speeds of the machine from files with the JSON of bench matmul, bench collectives and bench step; logs the
// speeds to stderr.
static int plan_calibrate(struct hardware_file *file, const struct string_list *names) {
    OWNED_BY(free_results) struct results results = {0};
    const struct calibration *calibration = &results.calibration;
    OWNED_BY(buffer_free) struct buffer found = {0};
    for (int64_t i = 0; i < names->count; i++)
        TRY(read_results(names->items[i], &results));
    report_skipped(&results);
    if (calibration->matmul_count + calibration->message_count + calibration->step_count == 0)
        return error_set_code(EXIT_CODE_USAGE,
                              "%s: found no results of bench matmul --json, bench collectives --json "
                              "or bench step that set a speed",
                              names->items[0]);
    TRY(calibration_apply(calibration, file, &found));
    fputs(buffer_string(&found), stderr);
    return 0;
}

// ---- the command ----

struct command_options {
    struct flag_given given;
    int64_t nproc, nodes;
    struct string_list calibrate;
    char *machine, *hardware, *timeline, *trace;
    double tokens, save_bandwidth, file_operations, failures_per_day, restart_minutes;
    bool json, print_hardware, tp_comm_overlap;
    bool search;
    int64_t gpus;
    char *rank_by, *write, *budget;
    struct config config;
};

#define FLAG_STRUCT struct command_options

enum { MOST_RANKS = PLAN_MOST_RANKS, MOST_NODES = 1 << 20 };

static const struct flag own_flags[] = {
    GROUP("The machines"),
    TEXT("--machine", machine, "p5.48xlarge", "TYPE", "kind of machine, as EC2 names it"),
    TEXT("--hardware", hardware, NULL, "FILE",
         "a machine of your own, as --print-hardware writes it; keys that are left out are those of --machine"),
    LIST("--calibrate", calibrate, "FILE…",
         "print the machine with the speeds that bench matmul --json, bench collectives --json and bench step measured "
         "on it, as a file for --hardware"),
    SWITCH("--print-hardware", print_hardware, "print the machine as a file for --hardware, and plan nothing"),
    INT("--nproc", nproc, NULL, 1, MOST_RANKS, "ranks, one for each GPU; default: as many as --nodes have"),
    INT("--nodes", nodes, NULL, 1, MOST_NODES, "machines, all GPUs used; default: as many as --nproc needs"),
    INT("--gpus", gpus, NULL, 1, MOST_RANKS, "the same as --nproc"),
    SWITCH("--tp-comm-overlap", tp_comm_overlap,
           "plan for a program whose matmuls hide tensor-parallel communication, as Transformer Engine's do"),
    GROUP("A search for the best layout"),
    SWITCH(
        "--search", search,
        "propose layouts for --gpus: parallelism, micro-batch, recompute and precision, as far as no flag fixes them"),
    CHOICE("--rank-by", rank_by, "time", ONE_OF("time", "cost"), "with --search: the shortest step or the cheapest"),
    TEXT("--write", write, NULL, "FILE", "with --search: write the best layout's flags for train --config"),
    TEXT("--budget", budget, NULL, "FLOP",
         "choose the model and its tokens for this much compute, e.g. 1e22FLOP, and search its layout"),
    GROUP("The plan"),
    REAL("--save-bandwidth", save_bandwidth, "0", 0, 1e9,
         "GB/s at which the file system takes checkpoints from all machines together; 0: 1 GB/s from each"),
    REAL("--file-operations", file_operations, "0", 0, 1e12,
         "operations (create, open, rename) a second of the file system for all ranks together; 0: 12000"),
    REAL("--failures-per-day", failures_per_day, INTERRUPTIONS_FAILURES_PER_DAY, 0, 1e6,
         "failures a day of 8 GPUs, or of a machine without GPUs, that end the run"),
    REAL("--restart-minutes", restart_minutes, "5", 0, 1e6,
         "from a failure to the next step, without the time to read the checkpoint"),
    TEXT("--timeline", timeline, NULL, "FILE.svg", "draw what every stage does in a step"),
    TEXT("--trace", trace, NULL, "FILE.json", "write the same as a trace for https://ui.perfetto.dev"),
    SWITCH("--json", json, "print JSON"),
};

// One copy of the model unless given otherwise.
static int count_ranks(const struct command_options *options, const struct machine *machine, int *ranks) {
    int each = hardware_ranks(machine);
    int64_t count = options->nproc > 0 ? options->nproc : options->nodes * each;
    if (options->nproc > 0 && options->nodes > 0 && options->nproc > options->nodes * each)
        return error_set_code(EXIT_CODE_USAGE,
                              "%" PRId64 " × %s have room for %" PRId64 " ranks, not %" PRId64 "; give --nodes %" PRId64
                              ", or leave one of the two out",
                              options->nodes, machine->name, options->nodes * each, options->nproc,
                              (options->nproc + each - 1) / each);
    if (count == 0)
        count = config_least_ranks(&options->config);
    if (count > MOST_RANKS)
        return error_set_code(EXIT_CODE_USAGE, "%" PRId64 " ranks are more than %d", count, MOST_RANKS);
    *ranks = (int)count;
    return 0;
}

// The machine of the flags, adjusted by the --hardware file.
static int open_hardware(struct hardware_file *file, const char *machine, const char *path) {
    enum { LARGEST_FILE_BYTES = 1 << 20 };
    const struct machine *known = machine_find(machine);
    OWNED_BY(buffer_free) struct buffer text = {0};
    if (!known)
        return -1;
    TRY(hardware_file_open(file, known));
    if (!path)
        return 0;
    TRY(file_read_all(path, LARGEST_FILE_BYTES, &text));
    return hardware_file_read(file, path, buffer_string(&text), text.length);
}

static int write_timeline(const struct command_options *options, const struct timeline *timeline,
                          const struct plan *plan, const char *machine) {
    OWNED_BY(buffer_free) struct buffer picture = {0}, trace = {0};
    int status = 0;
    if (options->timeline) {
        OWNED char *name = memory_printf("%d × %s", plan->nodes, machine);
        timeline_draw(timeline, plan, name, &picture);
        status = file_write_all(options->timeline, picture.data, picture.length);
    }
    if (options->trace && status == 0) {
        timeline_trace(timeline, plan, machine, &trace);
        status = file_write_all(options->trace, trace.data, trace.length);
    }
    return status;
}

static int complete(struct config *config) {
    struct automatic open;
    // The tokens follow from the days and dollars; the steps are counted by the other flags, if given.
    if (config->run.train_iters > 0 || config->run.train_samples > 0)
        config->run.tokens = 0;
    TRY(config_apply_preset(config));
    TRY(dry_run_complete(config));
    return automatic_begin(&open, config);
}

// The precision that train would choose on these GPUs, if none is given.
static void choose_precision(struct config *config, const struct machine *machine) {
    if (machine->gpus == 0 || config->run.bf16 || config->run.fp16)
        return;
    if (!automatic_has_precision(config)) {
        log_info("note: neither --bf16 nor --fp16 is given, so this is a run in fp32; give --bf16 for bf16");
        return;
    }
    bool is_old = machine_has_old_gpus(machine);
    *(is_old ? &config->run.fp16 : &config->run.bf16) = true;
    log_info("note: planned in %s, which train chooses on a GPU if no precision is given; --bf16=false plans fp32",
             is_old ? "fp16" : "bf16");
}

static int search_layouts(struct command_options *options) {
    struct plan_search search = {.base = &options->config,
                                 .gpus = options->nproc,
                                 .nodes = options->nodes,
                                 .by_cost = strcmp(options->rank_by, "cost") == 0,
                                 .is_json = options->json,
                                 .tokens = options->tokens,
                                 .write = options->write};
    struct hardware_file files[SEARCH_MOST_MACHINES] = {0};
    struct plan_budget_choice choice = {.config = &options->config};
    char *names = memory_string(options->machine), *rest = names, *name;
    int status = 0;
    while (status == 0 && (name = strsep(&rest, ",")) != NULL) {
        struct hardware_file *file = &files[search.machine_count];
        if (search.machine_count == SEARCH_MOST_MACHINES)
            status = error_set_code(EXIT_CODE_USAGE, "--machine names more than %d machines", SEARCH_MOST_MACHINES);
        else
            status = open_hardware(file, name, options->hardware);
        if (status == 0) {
            search.machines[search.machine_count] = &file->machine;
            search.hardware[search.machine_count++] = &file->hardware;
        }
    }
    if (status == 0 && options->budget)
        status = plan_budget_choose(&search, options->budget, &choice);
    search.family = CONFIG_NAME(model.form, options->config.model.form);
    if (status == 0)
        status = complete(&options->config);
    if (status == 0)
        status = options->budget ? plan_budget_run(&search, &choice) : plan_search_run(&search);
    for (int i = 0; i < SEARCH_MOST_MACHINES; i++)
        hardware_file_free(&files[i]);
    free(names);
    return status;
}

// Other trainers have experts in fp8 on GPUs where this program does not, and in recipes that it does not have. Such
// experts are planned by rates of their matmuls if a --hardware file has them, or if this program cannot train them.
static int validate_planned(struct config *config, struct hardware_file *file, int ranks) {
    // Reads 16 bits, writes 8 bits by rows and by columns.
    enum { QUANTIZE_BYTES = 4 };
    struct device_rates *rates = &file->hardware.rates;
    if (rates->expert_quantize_bytes <= 0 && machine_trains_experts8(&file->machine))
        return config_validate_for(config, ranks, CONFIG_TRAIN);
    TRY(config_validate_for(config, ranks, CONFIG_PLAN));
    if (config->machine.has_wide_experts) {
        if (rates->expert_quantize_bytes <= 0)
            rates->expert_quantize_bytes = QUANTIZE_BYTES;
        log_warn("this program does not train experts in fp8 this way; the plan is that of another trainer");
    }
    return 0;
}

static int make_plan(struct command_options *options, struct hardware_file *file) {
    struct config *config = &options->config;
    const struct machine *machine = &file->machine;
    struct plan plan;
    const char *assumed_for;
    int ranks = 0;
    if (machine_has_old_gpus(machine))
        log_warn("this program does not run on %s GPUs; the plan is that of another trainer", machine->gpu);
    if (config->run.fp4_format)
        log_warn("this program has not yet run NVFP4 on a GPU; the plan is that of another trainer");
    choose_precision(config, machine);
    TRY(complete(config));
    TRY(count_ranks(options, machine, &ranks));
    TRY(validate_planned(config, file, ranks));
    TRY(planned_vocabulary_set(config, &assumed_for));
    struct timeline timeline;
    const struct schedule_watcher watcher = timeline_watcher(&timeline);
    bool is_drawn = options->timeline || options->trace;
    int status = plan_make(&plan, &(struct plan_options){.config = config,
                                                         .ranks = ranks,
                                                         .machine = machine,
                                                         .hardware = &file->hardware,
                                                         .nodes = (int)options->nodes,
                                                         .hides_tensor = options->tp_comm_overlap,
                                                         .watcher = is_drawn ? &watcher : NULL});
    if (status == 0)
        status = write_timeline(options, &timeline, &plan, machine->name);
    timeline_free(&timeline);
    TRY(status);
    OWNED_BY(buffer_free) struct buffer out = {0};
    const struct plan_budget budget = {.tokens = options->tokens,
                                       .machine = machine,
                                       .file_operations = options->file_operations,
                                       .rates = {.bytes_per_second = options->save_bandwidth * 1e9,
                                                 .failures_per_day = options->failures_per_day,
                                                 .is_default = !flag_is_given(&options->given, "--failures-per-day"),
                                                 .restart_seconds = options->restart_minutes * 60}};
    if (options->json)
        plan_write_json(&plan, &budget, &out);
    else
        plan_describe(&plan, &budget, &out);
    fputs(buffer_string(&out), stdout);
    return 0;
}

static void print_hardware(const struct hardware_file *file) {
    OWNED_BY(buffer_free) struct buffer out = {0};
    hardware_file_write(file, &out);
    fputs(buffer_string(&out), stdout);
}

// Contradictory numbers of ranks.
static int check_ranks(const struct command_options *options) {
    bool searches = options->search || options->budget;
    const char *name = flag_is_given(&options->given, "--gpus") ? "--gpus" : "--nproc";
    if (flag_is_given(&options->given, "--gpus") && options->nproc > 0 && options->nproc != options->gpus)
        return error_set_code(EXIT_CODE_USAGE,
                              "--gpus %" PRId64 " and --nproc %" PRId64 " mean the same; leave one of them out",
                              options->gpus, options->nproc);
    if (options->nodes > 0 && (options->gpus > 0 || (searches && options->nproc > 0)))
        return error_set_code(EXIT_CODE_USAGE, "%s and --nodes both say how many GPUs are used; leave one of them out",
                              name);
    return 0;
}

// Flags without effect on a search.
static int check_search_flags(const struct command_options *options) {
    static const char *const of_plan[] = {"--timeline",        "--trace",           "--calibrate",
                                          "--print-hardware",  "--save-bandwidth",  "--failures-per-day",
                                          "--restart-minutes", "--tp-comm-overlap", "--file-operations"};
    const char *name = options->budget ? "--budget" : "--search";
    for (size_t i = 0; i < sizeof of_plan / sizeof of_plan[0]; i++)
        if (flag_is_given(&options->given, of_plan[i]))
            return error_set_code(EXIT_CODE_USAGE, "%s does not use %s; give it to a plan of the layout that is found",
                                  name, of_plan[i]);
    if (options->budget && flag_is_given(&options->config.given, "--tokens"))
        return error_set_code(EXIT_CODE_USAGE, "--budget chooses the number of tokens; leave out --tokens");
    return 0;
}

static int check_flags(const struct command_options *options) {
    static const char *const of_search[] = {"--rank-by", "--write"};
    TRY(check_ranks(options));
    if (options->search || options->budget)
        return check_search_flags(options);
    for (size_t i = 0; i < sizeof of_search / sizeof of_search[0]; i++)
        if (flag_is_given(&options->given, of_search[i]))
            return error_set_code(EXIT_CODE_USAGE, "%s needs --search or --budget; give one with it", of_search[i]);
    if (strchr(options->machine, ','))
        return error_set_code(EXIT_CODE_USAGE, "--machine %s names several machines, which --search compares; name one",
                              options->machine);
    return 0;
}

static int run_plan(void *given) {
    struct command_options *options = given;
    OWNED_BY(hardware_file_free) struct hardware_file file = {0};
    options->tokens = options->config.run.tokens;
    TRY(check_flags(options));
    if (flag_is_given(&options->given, "--gpus"))
        options->nproc = options->gpus;
    if (options->search || options->budget)
        return search_layouts(options);
    TRY(open_hardware(&file, options->machine, options->hardware));
    if (options->calibrate.count > 0)
        TRY(plan_calibrate(&file, &options->calibrate));
    if (!options->print_hardware && options->calibrate.count == 0)
        return make_plan(options, &file);
    print_hardware(&file);
    return 0;
}

const struct command cmd_plan = {
    .flags = {.name = "plan",
              .summary = "Tells the memory, time and cost of a run before it is started. Flags are those of train.",
              .argument_remedy = config_argument_remedy,
              .epilogue =
                  "Example:\n"
                  "  bevatron plan --preset llama2-7b --machine p5.48xlarge --nodes 4 --micro-batch-size 1 \\\n"
                  "    --global-batch-size 512 --bf16 --use-distributed-optimizer --tokens 2T\n"
                  "  bevatron plan --search --preset llama2-70b --global-batch-size 512 --gpus 64 --write run.yaml\n"
                  "  bevatron plan --budget 1e22FLOP --machine p5.48xlarge\n"},
    .tables = {{FLAG_TABLE(own_flags)}},
    .shared = config_flag_table,
    .shared_at = OFFSET(config),
    .options_bytes = sizeof(struct command_options),
    .run = run_plan,
};
