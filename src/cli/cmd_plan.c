// bevatron plan: memory, time and cost of a run before it is started.
#include "base/error.h"
#include "base/log.h"
#include "cli/commands.h"
#include "config/flag_rows.h"
#include "plan/report.h"
#include "train/automatic.h"
#include "train/dry_run.h"
#include "train/planned_vocabulary.h"

#include <inttypes.h>
#include <stdio.h>

struct command_options {
    struct flag_given given;
    int64_t nproc, nodes;
    char *machine;
    double tokens;
    bool json;
    struct config config;
};

#define FLAG_STRUCT struct command_options

enum { MOST_RANKS = 1 << 24, MOST_NODES = 1 << 20 };

static const struct flag own_flags[] = {
    GROUP("The machines"),
    TEXT("--machine", machine, "p5.48xlarge", "TYPE", "kind of machine, as EC2 names it"),
    INT("--nproc", nproc, "0", 0, MOST_RANKS, "ranks, one for each GPU; 0: as many as --nodes have"),
    INT("--nodes", nodes, "0", 0, MOST_NODES, "machines, all GPUs used; 0: as many as --nproc needs"),
    GROUP("The plan"),
    REAL("--tokens", tokens, "0", 0, 1e18, "tokens of the whole run, for its days and dollars; 0 for none"),
    SWITCH("--json", json, "print JSON"),
};

// One copy of the model if nothing else is said.
static int count_ranks(const struct command_options *options, const struct machine *machine, int *ranks) {
    int64_t count = options->nproc > 0 ? options->nproc : options->nodes * machine->gpus;
    if (options->nproc > 0 && options->nodes > 0 && options->nproc > options->nodes * machine->gpus)
        return error_set_code(EXIT_CODE_USAGE,
                              "%" PRId64 " ranks need more than the %" PRId64 " GPUs of %" PRId64
                              " × %s; give --nodes %" PRId64 ", or leave one of the two out",
                              options->nproc, options->nodes * machine->gpus, options->nodes, machine->name,
                              (options->nproc + machine->gpus - 1) / machine->gpus);
    if (count == 0)
        count = config_model_ranks(&options->config);
    if (count > MOST_RANKS)
        return error_set_code(EXIT_CODE_USAGE, "%" PRId64 " ranks are more than %d", count, MOST_RANKS);
    *ranks = (int)count;
    return 0;
}

static int make_plan(struct command_options *options) {
    struct config *config = &options->config;
    struct automatic open;
    const struct machine *machine = machine_find(options->machine);
    struct plan plan;
    const char *assumed_for;
    int ranks = 0;
    if (!machine)
        return -1;
    if (!hardware_find(machine->gpu))
        return -1;
    if (machine_has_old_gpus(machine))
        log_warn("this program does not run on %s GPUs; the plan is that of another trainer", machine->gpu);
    TRY(config_apply_preset(config));
    TRY(dry_run_complete(config));
    TRY(automatic_begin(&open, config));
    TRY(count_ranks(options, machine, &ranks));
    TRY(config_validate(config, ranks));
    TRY(planned_vocabulary_set(config, &assumed_for));
    TRY(plan_make(&plan, &(struct plan_options){
                             .config = config, .ranks = ranks, .machine = machine, .nodes = (int)options->nodes}));
    struct buffer out = {0};
    const struct plan_budget budget = {.tokens = options->tokens, .machine = machine};
    if (options->json)
        plan_write_json(&plan, &budget, &out);
    else
        plan_describe(&plan, &budget, &out);
    fputs(buffer_string(&out), stdout);
    buffer_free(&out);
    return 0;
}

static int run_plan(void *given) {
    return make_plan(given);
}

int cmd_plan(int argc, char **argv) {
    const struct flag_table tables[] = {
        {FLAG_TABLE(own_flags)},
        config_flag_table(OFFSET(config)),
    };
    const struct flag_command command = {
        .name = "plan",
        .summary = "Tells the memory, time and cost of a run before it is started. Flags are those of train.",
        .tables = tables,
        .table_count = 2,
        .argument_remedy = config_argument_remedy,
        .epilogue = "Example:\n"
                    "  bevatron plan --preset llama2-7b --machine p5.48xlarge --nodes 4 --micro-batch-size 1 \\\n"
                    "    --global-batch-size 512 --bf16 --use-distributed-optimizer --tokens 2e12\n",
    };
    struct command_options options;
    return command_run(&(struct command_call){.flags = &command, .options = &options, .run = run_plan}, argc, argv);
}
