// bevatron plan --search and --budget. See planner.h.
#include "cli/planner.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/progress.h"
#include "plan/budget.h"
#include "plan/search.h"
#include "train/dry_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- --search ----

// bevatron plan --search.

static void show_progress(void *context, int planned, int listed) {
    struct progress *progress = context;
    (void)listed;
    progress_update(progress, planned, NULL);
}

// About four million tokens, as in large models' training.
static int64_t usual_batch(const struct config *base) {
    int64_t tokens = base->run.seq_length > 0 ? base->run.seq_length : base->model.max_position_embeddings, batch = 1;
    while (tokens > 0 && batch * tokens < 4000000)
        batch *= 2;
    return batch;
}

static int check_machines(const struct search_options *what) {
    for (int i = 0; i < what->machine_count; i++) {
        const struct machine *machine = what->machines[i];
        int each = hardware_ranks(machine), nodes = (what->gpus + each - 1) / each;
        if (what->by_cost && machine->dollars == 0)
            return error_set_code(EXIT_CODE_USAGE, "--rank-by cost: no price of %s: %s", machine->name,
                                  machine_unpriced_note(machine));
        if (what->gpus > each && what->gpus % each != 0)
            log_warn("%d GPUs leave some of %d × %s idle; nearest: --gpus %d", what->gpus, nodes, machine->name,
                     (what->gpus + each / 2) / each * each);
    }
    return 0;
}

// The parts of it. Shows progress; layout_search is to be closed in every case.
static int plan_search_open(const struct plan_search *options, struct layout_search *search) {
    struct progress progress;
    int64_t each = hardware_ranks(options->machines[0]);
    int64_t gpus = options->gpus > 0 ? options->gpus : options->nodes > 0 ? options->nodes * each : each;
    struct search_options what = {.base = options->base,
                                  .family = options->family,
                                  .machine_count = options->machine_count,
                                  .gpus = (int)gpus,
                                  .by_cost = options->by_cost,
                                  .set_vocabulary = planned_vocabulary_set,
                                  .children = pool_available_processors(),
                                  .watch = show_progress,
                                  .context = &progress};
    memcpy(what.machines, options->machines, sizeof what.machines);
    memcpy(what.hardware, options->hardware, sizeof what.hardware);
    *search = (struct layout_search){0};
    if (gpus > PLAN_MOST_RANKS)
        return error_set_code(EXIT_CODE_USAGE, "%" PRId64 " ranks are more than %d; give fewer --nodes", gpus,
                              PLAN_MOST_RANKS);
    TRY(check_machines(&what));
    if (options->base->run.global_batch_size == 0)
        return error_set_code(EXIT_CODE_USAGE,
                              "--search needs --global-batch-size, the samples of an update; %" PRId64
                              " are about four million tokens",
                              usual_batch(options->base));
    progress_begin(&progress, "searching layouts", "plans", 0);
    int status = search_open(search, &what);
    search->options.watch = NULL;  // its output object ends here
    progress_end(&progress, NULL);
    return status;
}

// Whether a file of the given flags contains the data.
static bool names_data(const struct config *base) {
    static const char *const flags[] = {"--data-path",
                                        "--train-data-path",
                                        "--data-args-path",
                                        "--per-split-data-args-path",
                                        "--train-weighted-split-paths",
                                        "--train-weighted-split-paths-path",
                                        "--mock-data"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (flag_is_given(&base->given, flags[i]))
            return true;
    return false;
}

static int write_best(const struct plan_search *options, const struct layout_search *search) {
    OWNED_BY(buffer_free) struct buffer file = {0};
    if (!options->write)
        return 0;
    search_write_config(search, &file);
    TRY(file_write_all(options->write, file.data, file.length));
    log_info("wrote the flags of the best layout to %s; start it with: bevatron train --config %s%s", options->write,
             options->write, names_data(options->base) ? "" : "; add --data-path");
    return 0;
}

// Prints the results, writes the file, closes the search and frees the text. Returns status, or the file's.
static int plan_search_finish(const struct plan_search *options, struct layout_search *search, struct buffer *out,
                              int status) {
    fputs(buffer_string(out), stdout);
    if (status == 0)
        status = write_best(options, search);
    buffer_free(out);
    search_close(search);
    return status;
}

int plan_search_run(const struct plan_search *options) {
    struct layout_search search;
    struct buffer out = {0};
    int status = plan_search_open(options, &search);
    if (status == 0 && options->is_json)
        search_write_json(&search, options->tokens, &out);
    else if (status == 0)
        search_describe(&search, options->tokens, &out);
    return plan_search_finish(options, &search, &out, status);
}

// ---- --budget ----

enum { USUAL_VOCABULARY = 32000, USUAL_LENGTH = 4096, SHORT_LENGTH = 2048, USUAL_DAYS = 30 };
static const double short_parameters = 1e9, usual_mfu = 0.4, shape_tolerance = 0.1;

static int give(struct config *config, const char *flag, const char *value) {
    struct flag_table table = config_flag_table(0);
    return flag_is_given(&config->given, flag) ? 0 : flag_set(&table, config, flag, value, FLAG_FROM_COMMAND);
}

static int give_number(struct config *config, const char *flag, int64_t value) {
    OWNED char *text = memory_printf("%" PRId64, value);
    return give(config, flag, text);
}

static int give_shape(struct config *config, const struct budget_size *size) {
    struct budget_shape shape = budget_shape(size->parameters, (double)config->data.vocab_size);
    TRY(give_number(config, "--num-layers", shape.layers));
    TRY(give_number(config, "--hidden-size", shape.hidden));
    TRY(give_number(config, "--num-attention-heads", shape.heads));
    TRY(give_number(config, "--ffn-hidden-size", shape.ffn));
    if (shape.groups == shape.heads)
        return 0;
    TRY(give(config, "--group-query-attention", "true"));
    return give_number(config, "--num-query-groups", shape.groups);
}

// The number of iterations within the budget for a model with this number of parameters.
static int give_length(const struct plan_budget_choice *choice, double parameters) {
    struct flag_table table = config_flag_table(0);
    struct config *config = choice->config;
    double batch = (double)config->run.global_batch_size * (double)config->run.seq_length;
    OWNED char *text = memory_printf("%.0f", fmax(1, round(choice->flops / 6 / parameters / batch)));
    return flag_set(&table, config, "--train-iters", text, FLAG_FROM_COMMAND);
}

// A 16-bit precision of all machines.
static const char *usual_precision(const struct plan_search *search) {
    for (int i = 0; i < search->machine_count; i++)
        if (machine_has_old_gpus(search->machines[i]))
            return "--fp16";
    return "--bf16";
}

int plan_budget_choose(const struct plan_search *search, const char *budget, struct plan_budget_choice *choice) {
    struct config *config = choice->config;
    static const char *const sizes[] = {"--preset",          "--num-layers",
                                        "--hidden-size",     "--num-attention-heads",
                                        "--ffn-hidden-size", "--hybrid-layer-pattern"};
    TRY(budget_read(budget, &choice->flops));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (flag_is_given(&config->given, sizes[i]))
            return error_set_code(EXIT_CODE_USAGE, "--budget chooses the size of the model; leave out %s", sizes[i]);
    struct budget_size size = budget_size(choice->flops, 1);
    bool is_short = size.parameters < short_parameters;
    TRY(give(config, "--model", "llama"));
    TRY(give_number(config, "--vocab-size", USUAL_VOCABULARY));
    TRY(give_number(config, "--seq-length", is_short ? SHORT_LENGTH : USUAL_LENGTH));
    TRY(give_number(config, "--max-position-embeddings", config->run.seq_length));
    TRY(give_shape(config, &size));
    TRY(give_number(config, "--global-batch-size", budget_batch(choice->flops, config->run.seq_length)));
    choice->optimal = size.parameters;
    choice->chooses_length = config->run.train_iters == 0 && config->run.train_samples == 0;
    if (choice->chooses_length)
        TRY(give_length(choice, size.parameters));  // until the parameters are counted
    if (!flag_is_given(&config->given, "--bf16") && !flag_is_given(&config->given, "--fp16") &&
        !flag_is_given(&config->given, "--fp8-format"))
        TRY(give(config, usual_precision(search), "true"));
    if (config->data.data_path.count == 0 && config->data.train_data_path.count == 0 && !config->data.data_args_path &&
        !config->data.per_split_data_args_path && config->data.train_weighted_split_paths.count == 0 &&
        !config->data.train_weighted_split_paths_path) {
        struct flag_table table = config_flag_table(0);
        TRY(flag_set(&table, config, "--mock-data", "true", FLAG_FROM_PRESET));
    }
    return 0;
}

// Number of machines, a power of two, on which the run takes a month at most.
static int choose_nodes(struct plan_search *options, const struct plan_budget_choice *choice) {
    double each = hardware_ranks(options->machines[0]), speed = usual_mfu * options->hardware[0]->peak[0] * each;
    double nodes = exp2(ceil(log2(fmax(1, choice->flops / speed / (USUAL_DAYS * 86400.0)))));
    if (!(nodes * each <= PLAN_MOST_RANKS))
        return error_set_code(EXIT_CODE_USAGE,
                              "%.4g FLOP in %d days take %.2g × %s, and a plan has %d ranks at most; give --gpus, a "
                              "smaller --budget or a faster --machine",
                              choice->flops, USUAL_DAYS, nodes, options->machines[0]->name, PLAN_MOST_RANKS);
    options->nodes = (int64_t)nodes;
    return 0;
}

static void append_sizes(const struct plan_budget_choice *choice, struct buffer *out) {
    static const struct {
        double factor;
        const char *name;
    } rows[] = {{0.5, "half"}, {1, "optimal"}, {2, "double"}};
    const struct budget_law *law = &budget_law;
    buffer_printf(out, "budget: %.4g FLOP\n", choice->flops);
    buffer_printf(out, "law: loss = %g + %g / N^%g + %g / D^%g, N parameters, D tokens, 6 N D = budget\n", law->e,
                  law->a, law->alpha, law->b, law->beta);
    buffer_printf(out, "     (%s)\n\n", law->source);
    buffer_append_string(out, "  size      parameters      tokens  tokens/parameter   loss\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct budget_size size = budget_size(choice->flops, rows[i].factor);
        buffer_printf(out, "  %-9s %10.3g  %10.3g  %16.1f  %.3f\n", rows[i].name, size.parameters, size.tokens,
                      size.tokens / size.parameters, size.loss);
    }
    if (budget_extrapolates(choice->flops))
        buffer_printf(out, "note: %s; for this budget it is an extrapolation\n", budget_law.range);
}

static double run_tokens(const struct config *config) {
    double samples = config->run.train_samples > 0
                         ? (double)config->run.train_samples
                         : (double)config->run.train_iters * (double)config->run.global_batch_size;
    return samples * (double)config->run.seq_length;
}

// Tiny budgets: the embeddings alone are larger than the optimal model.
static void append_distance(const struct layout_search *search, const struct plan_budget_choice *choice,
                            struct buffer *out) {
    double parameters = search->estimators[0].parameters, ratio = parameters / choice->optimal;
    if (fabs(ratio - 1) <= shape_tolerance)
        return;
    buffer_printf(out, "note: this shape has %.2f times the optimal parameters", ratio);
    if (choice->chooses_length)
        buffer_append_string(out, "; its tokens are those that the budget leaves it");
    buffer_append_string(out, "\n");
}

static void append_precision(const struct config *config, struct buffer *out) {
    if (config->run.bf16)
        buffer_append_string(out, " --bf16");
    if (config->run.fp16)
        buffer_append_string(out, " --fp16");
    if (config->run.fp8_format)
        buffer_printf(out, " --fp8-format %s", config->run.fp8_format);
}

static void append_model(const struct layout_search *search, struct buffer *out) {
    const struct config *config = search->options.base;
    buffer_printf(out,
                  "\nthe nearest model has %.4g parameters: %" PRId64 " layers, hidden size %" PRId64 ", %" PRId64
                  " heads, ffn %" PRId64 "\n",
                  search->estimators[0].parameters, config->model.num_layers, config->model.hidden_size,
                  config->model.num_attention_heads, search->model.model.ffn_hidden_size);
    buffer_printf(
        out, "   --model %s --num-layers %" PRId64 " --hidden-size %" PRId64 " --num-attention-heads %" PRId64,
        search->options.family, config->model.num_layers, config->model.hidden_size, config->model.num_attention_heads);
    buffer_printf(out, " --ffn-hidden-size %" PRId64, search->model.model.ffn_hidden_size);
    if (config->model.group_query_attention)
        buffer_printf(out, " --group-query-attention --num-query-groups %" PRId64, config->model.num_query_groups);
    buffer_printf(out,
                  " --seq-length %" PRId64 " --max-position-embeddings %" PRId64 " --vocab-size %" PRId64
                  " --global-batch-size %" PRId64 " --train-iters %" PRId64,
                  config->run.seq_length, config->model.max_position_embeddings, config->data.vocab_size,
                  config->run.global_batch_size, config->run.train_iters);
    append_precision(config, out);
    buffer_append_string(out, "\n");
}

static void append_run(const struct layout_search *search, struct buffer *out) {
    const struct search_item *best = &search->items[search->proposals[0]];
    const struct machine *machine = search_machine(search, best);
    double tokens = run_tokens(search->options.base);
    double days = tokens / best->plan->tokens * best->plan->seconds / 86400;
    double dollars = days * 24 * best->plan->nodes * machine->dollars;
    buffer_printf(out, "\n%.4g tokens take %.1f days without interruptions on %d × %s (%d GPUs, MFU %.1f %%)", tokens,
                  days, best->plan->nodes, machine->name, search->options.gpus, 100 * plan_mfu(best->plan));
    if (dollars > 0)
        buffer_printf(out, " and cost $%.0f", dollars);
    buffer_append_string(out, ", with the best layout:\n   ");
    layout_append_flags(&search->spaces[best->machine], &best->layout, out);
    buffer_append_string(out, "\n");
    buffer_printf(out, "note: %s\n", dollars > 0 ? machine_price_note() : machine_unpriced_note(machine));
}

static void write_size(struct json_writer *w, const struct plan_budget_choice *choice, double factor) {
    struct budget_size size = budget_size(choice->flops, factor);
    json_begin_object(w);
    json_put_double(w, "factor", factor);
    json_put_double(w, "parameters", size.parameters);
    json_put_double(w, "tokens", size.tokens);
    json_put_double(w, "loss", size.loss);
    json_end_object(w);
}

static void write_json(const struct layout_search *search, const struct plan_budget_choice *choice,
                       struct buffer *out) {
    struct json_writer w = {.out = out, .indent = 2};
    const struct config *config = search->options.base;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        {"parameters", (int64_t)search->estimators[0].parameters},
        {"num_layers", config->model.num_layers},
        {"hidden_size", config->model.hidden_size},
        {"num_attention_heads", config->model.num_attention_heads},
        {"num_query_groups", config_query_groups(&config->model)},
        {"ffn_hidden_size", search->model.model.ffn_hidden_size},
        {"seq_length", config->run.seq_length},
        {"global_batch_size", config->run.global_batch_size},
        {"train_iters", config->run.train_iters},
        {"gpus", search->options.gpus},
    };
    json_begin_object(&w);
    json_put_double(&w, "budget_flops", choice->flops);
    json_put_string(&w, "law", budget_law.source);
    json_put_bool(&w, "extrapolates", budget_extrapolates(choice->flops));
    json_key(&w, "sizes");
    json_begin_array(&w);
    for (double factor = 0.5; factor <= 2; factor *= 2)
        write_size(&w, choice, factor);
    json_end_array(&w);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        json_put_int(&w, numbers[i].name, numbers[i].value);
    json_key(&w, "run");
    search_write_proposal(search, 0, run_tokens(config), &w);
    json_end_object(&w);
    buffer_append_string(out, "\n");
}

int plan_budget_run(struct plan_search *options, struct plan_budget_choice *choice) {
    struct layout_search search;
    struct buffer out = {0};
    if (options->gpus == 0 && options->nodes == 0)
        TRY(choose_nodes(options, choice));
    int status = plan_search_open(options, &search);
    // Layouts do not depend on it.
    if (status == 0 && choice->chooses_length)
        status = give_length(choice, search.estimators[0].parameters);
    if (status == 0 && options->is_json) {
        write_json(&search, choice, &out);
    } else if (status == 0) {
        append_sizes(choice, &out);
        append_model(&search, &out);
        append_distance(&search, choice, &out);
        append_run(&search, &out);
    }
    return plan_search_finish(options, &search, &out, status);
}
