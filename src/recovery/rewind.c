// Judging results, and going back. See rewind.h.
#include "recovery/rewind.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/process.h"
#include "parallel/replicas.h"
#include "recovery/run_folders.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// MOST_NANS: updates in a row that --nan-policy skip leaves out. LEAST_FURTHER: how many iterations a second attempt
// goes back beyond the first, at least; the number doubles with every attempt. NEAR: a problem this soon after what was
// skipped is the same problem.
enum { MOST_NANS = 10, LEAST_FURTHER = 8, NEAR = 100, SPIKE_BACK = 100, SPIKE_SKIP = 300, NAN_SKIP = 1 };

static bool goes_back(const char *policy) {
    return strcmp(policy, "rewind-and-skip") == 0;
}

int recovery_open(struct recovery *recovery, bool is_host) {
    const struct config *config = recovery->config;
    if (config->watch.replay_check && !is_host && !config->machine.deterministic_mode)
        return error_set_code(EXIT_CODE_USAGE, "--replay-check on a GPU needs --deterministic-mode: otherwise sums may "
                                               "change from run to run");
    for (int64_t i = 0; i < config->run.iterations_to_skip.count; i++) {
        int64_t first, last;
        TRY(config_skip(config, i, &first, &last));
        TRY(skips_add(recovery->past, first, last));
    }
    return 0;
}

void recovery_tell(const struct recovery *recovery, const char *name, int64_t iteration, const char *text) {
    if (recovery->mesh->rank == 0)
        log_warn("%s", text);
    report_event(recovery->report, &(struct metrics_event){.name = name, .iteration = iteration, .text = text});
}

// ---- what to skip ----

struct trouble {
    int64_t begin;       // its first iteration
    int64_t back, skip;  // what the policy says
};

static struct trouble trouble_of(const struct config *config, int64_t begin, int64_t back, int64_t skip) {
    struct trouble trouble = {.begin = begin, .back = back, .skip = skip};
    if (flag_is_given(&config->given, "--rewind-iterations"))
        trouble.back = config->watch.rewind_iterations;
    if (flag_is_given(&config->given, "--skip-batches"))
        trouble.skip = config->watch.skip_batches;
    return trouble;
}

// Whether another attempt is allowed; then the iterations are skipped and going back is due. Going back to the same
// checkpoint with the same batches would give the same bits, so a later attempt also skips earlier batches.
static int plan(struct recovery *recovery, const struct trouble *trouble, bool *is_allowed) {
    int64_t reach = trouble->skip > NEAR ? trouble->skip : NEAR;
    bool is_near = recovery->attempts > 0 && trouble->begin <= recovery->skipped_end + reach;
    if (!is_near)
        recovery->attempts = 0;
    *is_allowed = recovery->attempts < recovery->config->watch.max_rewinds;
    if (!*is_allowed)
        return 0;
    int64_t back = trouble->back;
    if (recovery->attempts > 0)
        back = (back > LEAST_FURTHER ? back : LEAST_FURTHER) << (recovery->attempts > 20 ? 20 : recovery->attempts);
    int64_t first = trouble->begin > back ? trouble->begin - back : 1;
    int64_t last = trouble->begin - trouble->back + trouble->skip - 1;
    last = last > trouble->begin ? last : trouble->begin;
    TRY(skips_add(recovery->past, first, last));
    recovery->attempts++;
    recovery->skipped_end = last;
    recovery->wanted = first - 1;
    recovery->is_due = true;
    return 0;
}

// ---- loss spikes ----

// A standard deviation of the normal distribution in median absolute deviations.
static const double NORMAL = 1.4826;
// Less than this never counts as a standard deviation: 1 % of the loss, 5 % of the gradient norm. Without it, a run
// that has converged would cause false alarms.
static const double LEAST_LOSS = 0.01, LEAST_NORM = 0.05;

static double median_of(double *values, int64_t count) {
    qsort(values, (size_t)count, sizeof values[0], number_compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

struct spike_level spike_level(const double *values, int64_t count, double threshold, double least) {
    double sorted[CHECKPOINT_WINDOW];
    memcpy(sorted, values, (size_t)count * sizeof sorted[0]);
    struct spike_level level = {.median = median_of(sorted, count)};
    for (int64_t i = 0; i < count; i++)
        sorted[i] = fabs(values[i] - level.median);
    level.limit = level.median + threshold * fmax(NORMAL * median_of(sorted, count), least);
    return level;
}

static void push(double *values, int64_t count, double value) {
    if (count == CHECKPOINT_WINDOW)
        memmove(values, values + 1, (CHECKPOINT_WINDOW - 1) * sizeof values[0]);
    values[count == CHECKPOINT_WINDOW ? count - 1 : count] = value;
}

// Norms of 0 happen where nothing is learnt.
static double log_of(double norm) {
    return log(fmax(norm, 1e-30));
}

bool spike_add(struct checkpoint_past *past, double threshold, double loss, double norm, struct spike_levels *levels) {
    int64_t count = past->window_count;
    bool is_far = false;
    if (count >= SPIKE_LEAST) {
        double logs[CHECKPOINT_WINDOW], sorted[CHECKPOINT_WINDOW];
        memcpy(sorted, past->losses, sizeof sorted);
        double usual = fabs(median_of(sorted, count));
        for (int64_t i = 0; i < count; i++)
            logs[i] = log_of(past->norms[i]);
        levels->loss = spike_level(past->losses, count, threshold, LEAST_LOSS * usual);
        levels->norm = spike_level(logs, count, threshold, LEAST_NORM);
        is_far = loss > levels->loss.limit || log_of(norm) > levels->norm.limit;
        levels->norm = (struct spike_level){exp(levels->norm.median), exp(levels->norm.limit)};
    }
    past->streak = is_far ? past->streak + 1 : 0;
    push(past->losses, count, loss);
    push(past->norms, count, norm);
    past->window_count = count < CHECKPOINT_WINDOW ? count + 1 : count;
    return past->streak == SPIKE_STREAK;
}

// ---- judging ----

// Whether a result that is not finite may be cured by a lower loss scale. A constant one stays what it is, and a
// dynamic one that is as low as it goes has been given as many chances as overflows would have halved it.
static bool may_be_overflow(struct recovery *recovery, const struct step_result *result) {
    const struct config *config = recovery->config;
    if (!config->run.fp16 || config->run.loss_scale > 0)
        return false;
    bool is_lowest = result->loss_scale <= (double)(float)config->run.min_loss_scale;
    recovery->lowest_overflows = is_lowest ? recovery->lowest_overflows + 1 : 0;
    return recovery->lowest_overflows <= config->run.hysteresis;
}

enum { NAN_IN_LOSS = 1, NAN_IN_GRADIENTS = 2 };

// The rank where it was seen first, to be freed. A NaN in a loss is in the gradients, too. Gradients carry it from a
// stage to those before it, so it arose on the last stage that has it. All ranks call.
static char *find_origin(const struct recovery *recovery, const struct step_result *result) {
    const struct mesh *mesh = recovery->mesh;
    int ranks = group_size(mesh->all), stage_ranks = ranks / mesh->length[AXIS_PIPELINE], first = -1, others = -1;
    int64_t *seen = memory_alloc(sizeof *seen * (size_t)ranks), any = 0;
    seen[group_rank(mesh->all)] =
        (result->is_own_finite ? 0 : NAN_IN_LOSS) + (result->has_finite_gradients ? 0 : NAN_IN_GRADIENTS);
    comm_all_gather_i64(mesh->all, seen, 1, "ranks with a finite loss");
    for (int rank = 0; rank < ranks; rank++)
        any |= seen[rank];
    int64_t kind = any & NAN_IN_LOSS ? NAN_IN_LOSS : NAN_IN_GRADIENTS;
    for (int rank = 0; rank < ranks; rank++) {
        bool is_seen = seen[rank] & kind;
        if (is_seen && (first < 0 || rank / stage_ranks > first / stage_ranks))
            first = rank;
        others += is_seen;
    }
    free(seen);
    char host[256];
    // A run of one rank knows of no hosts.
    process_host(host, sizeof host);
    if (ranks > 1)
        snprintf(host, sizeof host, "%s", group_host(mesh->all, first < 0 ? 0 : first));
    if (first < 0)
        return memory_printf("first seen in the summed gradients, by all ranks (rank 0 on %s)", host);
    OWNED char *more = others > 0 ? memory_printf(" and %d more", others) : memory_string("");
    return memory_printf("first seen in the %s of rank %d on %s%s", kind == NAN_IN_LOSS ? "loss" : "gradients", first,
                         host, more);
}

// The sign of a NaN depends on the processor and would be printed.
static double unsigned_nan(double value) {
    return isnan(value) ? (double)NAN : value;
}

static int stop_at_nan(const struct recovery *recovery, const struct step_result *result, int64_t iteration,
                       const char *origin) {
    const struct config *config = recovery->config;
    char scale[64] = "", tries[64] = "";
    if (config->run.fp16)
        snprintf(scale, sizeof scale, " with a loss scale of %g, which stays", result->loss_scale);
    if (recovery->attempts > 0)
        snprintf(tries, sizeof tries, ", after going back %d time%s", recovery->attempts,
                 recovery->attempts == 1 ? "" : "s");
    else if (recovery->nans > 0)
        snprintf(tries, sizeof tries, ", after %" PRId64 " skipped updates in a row", recovery->nans);
    return error_set_code(EXIT_CODE_NOT_FINITE,
                          "the loss is %g and the gradient norm %g at iteration %" PRId64
                          "%s%s%s; %s. Resume from the last checkpoint with a lower --lr or longer "
                          "warm-up%s, or give %s",
                          unsigned_nan(result->loss), unsigned_nan(result->grad_norm), iteration, tries, scale,
                          isfinite(result->grad_norm) ? "" : "; the weights were not changed", origin,
                          config->run.fp16 ? ", or with --bf16" : "",
                          goes_back(config->watch.nan_policy)
                              ? "larger --rewind-iterations and --skip-batches"
                              : "--nan-policy rewind-and-skip to go back and leave out the batch, or "
                                "--no-check-for-nan-in-loss-and-grad to skip such steps");
}

// A loss or gradient that is not finite cannot be trained on. The optimizer makes no update when the gradient is not
// finite. With the check, the policy counts except while fp16 searches for its loss scale; without it, the iteration
// counts as skipped.
static int judge_nan(struct recovery *recovery, const struct step_result *result, int64_t iteration) {
    const struct config *config = recovery->config;
    if (config->watch.no_check_for_nan_in_loss_and_grad || may_be_overflow(recovery, result))
        return 0;
    bool is_skipped = !isfinite(result->grad_norm), is_allowed = false;
    bool skips = strcmp(config->watch.nan_policy, "skip") == 0 && is_skipped && recovery->nans < MOST_NANS;
    if (goes_back(config->watch.nan_policy)) {
        struct trouble trouble = trouble_of(config, iteration, 0, NAN_SKIP);
        TRY(plan(recovery, &trouble, &is_allowed));
    }
    OWNED char *origin = find_origin(recovery, result);
    bool ends = !is_allowed && !skips;
    if (ends) {
        stop_at_nan(recovery, result, iteration, origin);
    } else {
        recovery->nans += skips;
        OWNED char *text = memory_printf("the loss is %g and the gradient norm %g at iteration %" PRId64 ", %s; %s",
                                         unsigned_nan(result->loss), unsigned_nan(result->grad_norm), iteration, origin,
                                         skips ? "its update was skipped (--nan-policy)" : "going back (--nan-policy)");
        recovery_tell(recovery, "nan", iteration, text);
    }
    return ends ? -1 : 0;
}

static int judge_spike(struct recovery *recovery, int64_t iteration, const struct step_result *result,
                       const struct spike_levels *levels) {
    const struct config *config = recovery->config;
    int64_t begin = iteration - SPIKE_STREAK + 1;
    bool is_allowed = false, wants = goes_back(config->watch.spike_policy);
    if (wants) {
        struct trouble trouble = trouble_of(config, begin, SPIKE_BACK, SPIKE_SKIP);
        TRY(plan(recovery, &trouble, &is_allowed));
    }
    char *text =
        memory_printf("loss spike from iteration %" PRId64 " on: loss %.4g (usually %.4g, limit %.4g), gradient "
                      "norm %.4g (usually %.4g, limit %.4g)%s",
                      begin, result->loss, levels->loss.median, levels->loss.limit, result->grad_norm,
                      levels->norm.median, levels->norm.limit,
                      is_allowed ? "; going back (--spike-policy)"
                      : wants    ? "; continuing, since going back --max-rewinds times did not help"
                                 : "");
    recovery_tell(recovery, "spike", iteration, text);
    free(text);
    return 0;
}

// All ranks have summed the same numbers. If they are finite on some ranks only, a rank holds something else than the
// others: it would wait alone in the collectives that follow.
static int check_same(const struct recovery *recovery, const struct step_result *result, int64_t iteration) {
    const struct mesh *mesh = recovery->mesh;
    int64_t own = (isfinite(result->loss) ? 0 : 1) + (isfinite(result->grad_norm) ? 0 : 2), ends[2] = {own, -own};
    comm_max_i64(mesh->all, ends, 2, "results that are not finite");
    if (ends[0] == -ends[1])
        return 0;
    struct replicas_fault fault = {.element = -1};
    replicas_blame(mesh, MESH_ALL, mesh->all, own, true, &fault);
    OWNED_BY(buffer_free) struct buffer names = {0};
    replicas_name(&fault, &names);
    error_set_code(EXIT_CODE_CORRUPT,
                   "the loss or the gradient norm of iteration %" PRId64
                   " is finite on some ranks only: %s %s%s; memory, a GPU or a link is faulty there. Resume from the "
                   "last checkpoint, without that machine if it happens again",
                   iteration, buffer_string(&names), fault.count == 1 ? "differs" : "differ",
                   fault.has_majority ? " from the others" : ", and there is no majority");
    error_mark_shared();
    return -1;
}

int recovery_judge(struct recovery *recovery, const struct step_result *result, int64_t iteration) {
    const struct config *config = recovery->config;
    bool looks_for_spikes = strcmp(config->watch.spike_policy, "none") != 0;
    if (config->watch.no_check_for_nan_in_loss_and_grad && !looks_for_spikes)
        return 0;
    TRY(check_same(recovery, result, iteration));
    if (!step_result_is_good(result))
        return judge_nan(recovery, result, iteration);
    recovery->lowest_overflows = recovery->nans = 0;
    if (!looks_for_spikes)
        return 0;
    struct spike_levels levels = {0};
    int64_t is_spike =
        spike_add(recovery->past, config->watch.spike_threshold, result->loss, result->grad_norm, &levels) ? 1 : 0;
    // Sums of a loss may differ in their last bits where ranks add them up in another order; all must go the same way.
    comm_broadcast_i64(recovery->mesh->all, &is_spike, 1, 0, "loss spike");
    return is_spike ? judge_spike(recovery, iteration, result, &levels) : 0;
}

// ---- going back ----

// A checkpoint of this run: one of the same iterations. Those that an abandoned attempt has left are not.
static bool is_of_this_run(const void *context, const struct checkpoint_state *state) {
    return skips_agree(context, &state->past, state->iteration);
}

// The iteration of the newest checkpoint that is whole, or 0 for the start of the run.
static int find_target(struct recovery *recovery, char **path, int64_t *iteration) {
    const struct config *config = recovery->config;
    struct run_folder folders[RUN_FOLDERS];
    run_folders_open(folders, config, recovery->wanted);
    *path = NULL;
    recovery->from = NULL;
    for (;;) {
        const struct checkpoint_wish wish = {.accepts = is_of_this_run, .context = recovery->past};
        int64_t place = recovery->mesh->rank == 0 ? run_folders_search(folders, &wish) : 0;
        TRY(comm_agree(recovery->mesh->all, place == CHECKPOINT_UNREAD ? -1 : 0, "checkpoint to go back to"));
        comm_broadcast_i64(recovery->mesh->all, &place, 1, 0, "checkpoint to go back to");
        if (place < 0)
            break;
        struct run_folder *folder = &folders[place];
        comm_broadcast_i64(recovery->mesh->all, &folder->iteration, 1, 0, "checkpoint to go back to");
        struct checkpoint_find find = {
            .folder = folder->path, .flag = folder->flag, .step = folder->iteration, .all = recovery->mesh->all};
        recovery->from = folder->path;
        int result = checkpoint_find(&find, path, iteration);
        if (result == 0 || result == CHECKPOINT_UNREAD)
            return result;
        if (recovery->mesh->rank == 0)
            log_warn("%s", error_message());
        error_clear();
        folder->most = folder->iteration - 1;
    }
    recovery->from = NULL;
    *iteration = 0;
    // The ranges of fp8 tensors cannot be forgotten.
    if (recovery->begins_at_zero && !config->run.fp8_format)
        return 0;
    return error_set_code(recovery->is_replay ? EXIT_CODE_CORRUPT : EXIT_CODE_NOT_FINITE,
                          "there is no verified checkpoint of iteration %" PRId64
                          " or before in %s to go back to; give a smaller --rewind-iterations or --save-interval",
                          recovery->wanted, config->run.save);
}

int recovery_go_back(struct recovery *recovery, int (*load)(void *context, const char *path), void *context) {
    struct checkpoint_past *past = recovery->past, kept = *past;
    OWNED char *path = NULL;
    int64_t iteration;
    recovery->is_due = false;
    TRY(find_target(recovery, &path, &iteration));
    int status = load(context, path);
    TRY(status);
    // Of the later state, only the skipped spans are kept.
    memcpy(past->skipped, kept.skipped, sizeof past->skipped);
    past->skipped_count = kept.skipped_count;
    if (recovery->mesh->rank == 0 && recovery->from)
        status = run_folders_point(recovery->config, recovery->from, iteration);
    TRY(comm_agree(recovery->mesh->all, status, "checkpoint to go back to"));
    OWNED char *text = recovery->is_replay ? memory_printf("went back to iteration %" PRId64, iteration)
                                           : memory_printf("went back to iteration %" PRId64 "; iterations %" PRId64
                                                           " to %" PRId64 " are skipped (attempt %d of %" PRId64 ")",
                                                           iteration, recovery->wanted + 1, recovery->skipped_end,
                                                           recovery->attempts, recovery->config->watch.max_rewinds);
    recovery->is_replay = false;
    recovery_tell(recovery, "rewind", iteration, text);
    return 0;
}

// ---- iterations that are skipped: spans, ascending and apart ----

int skips_add(struct checkpoint_past *past, int64_t first, int64_t last) {
    struct checkpoint_span *spans = past->skipped;
    int64_t at = 0, end;
    // Skips the spans before it that do not touch it, then merges those that do.
    while (at < past->skipped_count && spans[at].last < first - 1)
        at++;
    for (end = at; end < past->skipped_count && spans[end].first <= last + 1; end++) {
        first = spans[end].first < first ? spans[end].first : first;
        last = spans[end].last > last ? spans[end].last : last;
    }
    int64_t count = past->skipped_count - (end - at) + 1;
    if (count > CHECKPOINT_MOST_SPANS)
        return error_set("a run cannot skip more than %d separate spans of iterations", CHECKPOINT_MOST_SPANS);
    memmove(spans + at + 1, spans + end, (size_t)(past->skipped_count - end) * sizeof spans[0]);
    spans[at] = (struct checkpoint_span){first, last};
    past->skipped_count = count;
    return 0;
}

bool skips_have(const struct checkpoint_past *past, int64_t iteration) {
    for (int64_t i = 0; i < past->skipped_count; i++)
        if (iteration >= past->skipped[i].first && iteration <= past->skipped[i].last)
            return true;
    return false;
}

int64_t skips_last(const struct checkpoint_past *past, int64_t iteration) {
    int64_t last = iteration;
    for (int64_t i = 0; i < past->skipped_count; i++)
        if (iteration >= past->skipped[i].first && iteration <= past->skipped[i].last)
            last = past->skipped[i].last;
    return last;
}

// Span i as far as it goes up to this iteration; {0, 0} if it does not.
static struct checkpoint_span cut(const struct checkpoint_past *past, int64_t i, int64_t iteration) {
    if (i >= past->skipped_count || past->skipped[i].first > iteration)
        return (struct checkpoint_span){0};
    struct checkpoint_span span = past->skipped[i];
    span.last = span.last < iteration ? span.last : iteration;
    return span;
}

bool skips_agree(const struct checkpoint_past *a, const struct checkpoint_past *b, int64_t iteration) {
    for (int64_t i = 0; i < CHECKPOINT_MOST_SPANS; i++) {
        struct checkpoint_span x = cut(a, i, iteration), y = cut(b, i, iteration);
        if (x.first != y.first || x.last != y.last)
            return false;
        if (x.first == 0)
            break;
    }
    return true;
}
