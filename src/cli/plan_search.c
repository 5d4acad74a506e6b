// bevatron plan --search. See plan_search.h.
#include "cli/plan_search.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/progress.h"
#include "plan/search_report.h"
#include "train/dry_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

int plan_search_open(const struct plan_search *options, struct layout_search *search) {
    struct progress progress;
    int64_t each = hardware_ranks(options->machines[0]);
    int64_t gpus = options->gpus > 0 ? options->gpus : options->nodes > 0 ? options->nodes * each : each;
    struct search_options what = {.base = options->base,
                                  .family = options->family,
                                  .machine_count = options->machine_count,
                                  .gpus = (int)gpus,
                                  .by_cost = options->by_cost,
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
    struct buffer file = {0};
    if (!options->write)
        return 0;
    search_write_config(search, &file);
    int status = file_write_all(options->write, file.data, file.length);
    buffer_free(&file);
    if (status == 0)
        log_info("wrote the flags of the best layout to %s; start it with: bevatron train --config %s%s",
                 options->write, options->write, names_data(options->base) ? "" : "; add --data-path");
    return status;
}

int plan_search_finish(const struct plan_search *options, struct layout_search *search, struct buffer *out,
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
