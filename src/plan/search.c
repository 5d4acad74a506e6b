// The search over layouts. See search.h.
//
// Layouts are planned in batches of a fixed size, in child processes; the result does not depend on the number of
// processors. A group is all layouts of one GPU and precision. Groups are searched separately, because fp8 would
// otherwise hide all results of bf16.
#include "plan/search.h"
#include "base/process.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 32, PRECISIONS = 4, GROUPS = SEARCH_MOST_MACHINES * PRECISIONS, ROUNDS = 4 };
// Layouts whose estimate exceeds the best one by more than this factor are not planned. Plans take 0.90 to 1.07 of
// their estimates, nine of ten between 0.92 and 1.01 (7B on 32 and 405B on 16,384 H100s, 2026-11-17); layouts missed
// near the best one are found among its neighbours.
static const double promising = 1.12;
// Fraction that a layout must save for each axis of model parallelism: plans are not more precise, and fewer axes are
// easier to run.
static const double handicap = 0.01;
// Work of a search, in plans of 1500 layers times micro-batches: about 30 s of a processor.
static const double most_work = 700;

static int group_of(const struct search_item *item) {
    return item->machine * PRECISIONS + (int)item->layout.precision;
}

const struct machine *search_machine(const struct layout_search *search, const struct search_item *item) {
    return search->options.machines[item->machine];
}

// Dollars per second, or 1 if seconds are ranked.
static double price_of(const struct layout_search *search, int machine) {
    const struct machine *kind = search->options.machines[machine];
    int each = hardware_ranks(kind), nodes = (search->options.gpus + each - 1) / each;
    return search->options.by_cost ? nodes * kind->dollars / 3600 : 1;
}

double search_value(const struct layout_search *search, const struct search_item *item) {
    return item->plan->seconds * price_of(search, item->machine);
}

int search_find(const struct layout_search *search, const struct plan_layout *layout, int machine) {
    for (int i = 0; i < search->count; i++)
        if (search->items[i].machine == machine && layout_is_same(&search->items[i].layout, layout))
            return i;
    return -1;
}

int search_count(const struct layout_search *search, enum search_outcome outcome) {
    int count = 0;
    for (int i = 0; i < search->count; i++)
        count += search->items[i].outcome == outcome;
    return count;
}

static double ranked_value(const struct layout_search *search, const struct search_item *item) {
    const struct plan_layout *layout = &item->layout;
    return search_value(search, item) * (1 + handicap * ((layout->tensor > 1) + (layout->context > 1) +
                                                         (layout->pipeline > 1) + (layout->expert > 1)));
}

double search_room(const struct layout_search *search, int machine) {
    // NCCL's buffers of four or five communicators: 1 to 2.5 GB.
    const double buffers = 0.03;
    double room = plan_room(search->options.machines[machine]);
    return search->options.gpus > 1 ? (1 - buffers) * room : room;
}

// ---- the list ----

struct adding {
    struct layout_search *search;
    int machine;
    bool is_neighbour;  // may be listed already; is planned even if hopeless
};

struct heads_choosing {
    const struct estimator *estimator;
    struct plan_layout best;
    double seconds;
};

static void choose_heads(void *context, const struct plan_layout *layout) {
    struct heads_choosing *choosing = context;
    double seconds = estimate_seconds(choosing->estimator, layout);
    if (seconds < choosing->seconds) {
        choosing->seconds = seconds;
        choosing->best = *layout;
    }
}

// Of the ways in which context-parallel ranks share attention, the list has the one with the best estimate; the others
// are its neighbours. Whether a layout is worth a plan is decided as if keys were gathered, which keeps the list short.
static void add_layout(void *context, const struct plan_layout *given) {
    const struct adding *adding = context;
    struct layout_search *search = adding->search;
    const struct estimator *estimator = &search->estimators[adding->machine];
    struct heads_choosing choosing = {estimator, *given, INFINITY};
    const struct plan_layout *layout = &choosing.best;
    if (!adding->is_neighbour && given->context > 1)
        layout_heads(&search->spaces[adding->machine], given, choose_heads, &choosing);
    double bytes = estimate_least_bytes(estimator, layout);
    if (!adding->is_neighbour && bytes > search_room(search, adding->machine)) {
        search->hopeless++;
        search->least_bytes = search->least_bytes == 0 ? bytes : fmin(search->least_bytes, bytes);
        return;
    }
    if (adding->is_neighbour && search_find(search, layout, adding->machine) >= 0)
        return;
    MEMORY_GROW(search->items, search->count, search->capacity);
    search->items[search->count++] =
        (struct search_item){.layout = *layout,
                             .machine = adding->machine,
                             .estimate = estimate_seconds(estimator, given) * price_of(search, adding->machine)};
}

static int compare_estimates(const void *a, const void *b) {
    const struct search_item *x = a, *y = b;
    return (x->estimate > y->estimate) - (x->estimate < y->estimate);
}

// ---- plans ----

struct planning {
    struct layout_search *search;
    const int *items;
    int planned;  // before this batch
};

struct plan_result {
    enum search_outcome outcome;
    struct plan plan;
};

static double fullest_bytes(const struct plan *plan) {
    return (double)plan->stage[plan->fullest].memory.total;
}

// -1 if the layout is not valid; if it is too large, only its memory is planned.
static int plan_layout_of(const struct layout_search *search, const struct search_item *item, struct plan *plan) {
    struct config config;
    int status = layout_configure(&search->spaces[item->machine], &item->layout, &config);
    if (status == 0)
        status = plan_make(plan, &(struct plan_options){.config = &config,
                                                        .ranks = search->options.gpus,
                                                        .machine = search_machine(search, item),
                                                        .hardware = search->options.hardware[item->machine],
                                                        .census = &search->estimators[item->machine].census,
                                                        .room = search_room(search, item->machine)});
    config_free(&config);
    return status;
}

static void plan_item(void *context, int index, void *result) {
    const struct planning *planning = context;
    const struct layout_search *search = planning->search;
    const struct search_item *item = &search->items[planning->items[index]];
    struct plan_result *planned = result;
    planned->outcome = SEARCH_INVALID;
    if (plan_layout_of(search, item, &planned->plan) == 0)
        planned->outcome =
            fullest_bytes(&planned->plan) <= search_room(search, item->machine) ? SEARCH_PLANNED : SEARCH_TOO_LARGE;
    error_clear();
}

static void watch_plans(void *context, int done) {
    const struct planning *planning = context;
    const struct search_options *options = &planning->search->options;
    if (options->watch)
        options->watch(options->context, planning->planned + done, planning->search->count);
}

// Micro-batches that a plan simulates: 13 of a long step, or those of 6 groups.
static double worth_of(const struct layout_search *search, const struct plan_layout *layout) {
    double count = (double)(search->model.run.global_batch_size / (layout->micro_batch * layout->data));
    double group = layout->chunks > 1 ? layout->pipeline : 1, few = (layout->chunks > 1 ? 3 : 8) * group;
    return count <= few ? group + count : (layout->chunks > 1 ? 6 : 13) * group;
}

static double work_of(const struct layout_search *search, const struct search_item *item) {
    const struct plan_layout *layout = &item->layout;
    double layers = (double)config_layers(&search->model.model) / layout->pipeline;
    return 1 + layers * worth_of(search, layout) * fmin(3, layout->pipeline) / 1500;
}

static int plan_items(struct layout_search *search, const int *items, int count) {
    struct planning planning = {search, items, search->count - search_count(search, SEARCH_NEW)};
    struct child_tasks work = {count, sizeof(struct plan_result), plan_item, watch_plans, &planning};
    struct plan_result *results = child_tasks_run(&work, search->options.children);
    if (!results)
        return -1;
    for (int i = 0; i < count; i++) {
        struct search_item *item = &search->items[items[i]];
        item->outcome = results[i].outcome;
        search->work -= item->outcome == SEARCH_PLANNED ? work_of(search, item) : 0.3;
        if (item->outcome == SEARCH_INVALID)
            continue;
        if (!item->plan)
            item->plan = memory_alloc(sizeof *item->plan);
        *item->plan = results[i].plan;
        double bytes = fullest_bytes(item->plan);
        search->least_bytes = search->least_bytes == 0 ? bytes : fmin(search->least_bytes, bytes);
    }
    child_tasks_free(results, &work);
    return 0;
}

static int best_of_group(const struct layout_search *search, int group) {
    int best = -1;
    for (int i = 0; i < search->count; i++) {
        const struct search_item *item = &search->items[i];
        if (item->outcome == SEARCH_PLANNED && group_of(item) == group &&
            (best < 0 || ranked_value(search, item) < ranked_value(search, &search->items[best])))
            best = i;
    }
    return best;
}

// 1F1B has the fewest micro-batches in flight of all schedules: if it is too large, so are others.
static bool is_too_large_for(const struct search_item *other, const struct plan_layout *layout) {
    struct plan_layout like = *layout;
    if (other->layout.chunks == 1 && !other->layout.is_zero_bubble) {
        like.recomputed_layers *= like.chunks;  // per stage
        like.chunks = 1;
        like.is_zero_bubble = false;
    }
    return other->outcome == SEARCH_TOO_LARGE && layout_needs_less(&other->layout, &like);
}

// True if a layout that needs less is too large, or one that recomputes less fits.
static bool is_surely_not_best(const struct layout_search *search, const struct search_item *item) {
    for (int i = 0; i < search->count; i++) {
        const struct search_item *other = &search->items[i];
        if (other->plan == NULL || other->machine != item->machine)
            continue;
        bool is_too_large = is_too_large_for(other, &item->layout);
        bool recomputes_more = other->outcome == SEARCH_PLANNED &&
                               other->layout.micro_batch == item->layout.micro_batch &&
                               layout_needs_less(&item->layout, &other->layout);
        if (is_too_large || recomputes_more)
            return true;
    }
    return false;
}

// A lower bound from its plan or its estimate: estimates of models with experts may be too high.
static double least_value(const struct layout_search *search, const struct search_item *item) {
    return fmin(item->estimate, search_value(search, item));
}

// Whether an item of the list is worth a plan, i.e. within the limit set by the best of its group and not ruled out.
static bool is_promising(const struct layout_search *search, const struct search_item *item, double limit) {
    return search->options.plans_all || (item->estimate <= limit && !is_surely_not_best(search, item));
}

// Plans the list, the best estimates first.
static int plan_list(struct layout_search *search) {
    int items[BATCH], count;
    do {
        double limits[GROUPS];
        for (int group = 0; group < GROUPS; group++) {
            int best = best_of_group(search, group);
            limits[group] = best < 0 ? INFINITY : promising * least_value(search, &search->items[best]);
        }
        count = 0;
        for (int i = 0; i < search->count && count < BATCH; i++) {
            const struct search_item *item = &search->items[i];
            if (item->outcome == SEARCH_NEW && is_promising(search, item, limits[group_of(item)]))
                items[count++] = i;
        }
        if (count > 0)
            TRY(plan_items(search, items, count));
    } while (count > 0 && (search->work > 0 || search->options.plans_all));
    return 0;
}

enum { MOST_NEIGHBOURS = 128 };
struct neighbourhood {
    struct adding adding;
    int items[MOST_NEIGHBOURS];  // the new ones
    int count;
};

static void add_neighbour(void *context, const struct plan_layout *layout) {
    struct neighbourhood *hood = context;
    struct layout_search *search = hood->adding.search;
    add_layout(&hood->adding, layout);
    int item = search_find(search, layout, hood->adding.machine);
    if (search->items[item].outcome == SEARCH_NEW && hood->count < MOST_NEIGHBOURS)
        hood->items[hood->count++] = item;
}

// Plans the neighbours of the best of each group, until nothing better is found.
static int plan_neighbours(struct layout_search *search) {
    for (int group = 0; group < GROUPS; group++) {
        int best, before = -1;
        for (int round = 0; round < ROUNDS; round++) {
            best = best_of_group(search, group);
            if (best < 0 || best == before)
                break;
            struct neighbourhood hood = {.adding = {search, search->items[best].machine, true}};
            const struct plan_layout layout = search->items[best].layout;
            layout_neighbours(&search->spaces[hood.adding.machine], &layout, add_neighbour, &hood);
            if (hood.count > 0)
                TRY(plan_items(search, hood.items, hood.count));
            before = best;
        }
    }
    return 0;
}

// ---- proposals ----

// Layouts of one family differ only in batches, recompute and schedule: only the best is proposed.
static bool is_same_family(const struct search_item *a, const struct search_item *b) {
    return group_of(a) == group_of(b) && a->layout.tensor == b->layout.tensor &&
           a->layout.context == b->layout.context && a->layout.pipeline == b->layout.pipeline &&
           a->layout.expert == b->layout.expert;
}

static bool is_proposed(const struct layout_search *search, const struct search_item *item) {
    for (int i = 0; i < search->proposal_count; i++)
        if (is_same_family(&search->items[search->proposals[i]], item))
            return true;
    return false;
}

static void propose_next(struct layout_search *search) {
    int best = -1;
    for (int i = 0; i < search->count; i++) {
        const struct search_item *item = &search->items[i];
        if (item->outcome == SEARCH_PLANNED && !is_proposed(search, item) &&
            (best < 0 || ranked_value(search, item) < ranked_value(search, &search->items[best])))
            best = i;
    }
    if (best >= 0)
        search->proposals[search->proposal_count++] = best;
}

// Proposes the best families, and the best of every group.
static void propose(struct layout_search *search) {
    for (int i = 0; i < SEARCH_PROPOSALS; i++)
        propose_next(search);
    for (int group = 0; group < GROUPS && search->proposal_count < SEARCH_MOST_PROPOSALS; group++) {
        int best = best_of_group(search, group);
        if (best >= 0 && !is_proposed(search, &search->items[best]))
            search->proposals[search->proposal_count++] = best;
    }
}

// ---- the search ----

// Opens the model, validated as if there were one copy of it.
static int open_model(struct layout_search *search) {
    const struct config *base = search->options.base;
    struct config *model = &search->model;
    const char *assumed_for;
    config_copy(model, base);
    if (base->machine.pipeline_model_parallel_size == 1) {
        model->machine.num_virtual_stages_per_pipeline_rank = model->machine.num_layers_per_virtual_pipeline_stage = 0;
        model->machine.decoder_first_pipeline_num_layers = model->machine.decoder_last_pipeline_num_layers = 0;
        model->machine.account_for_embedding_in_pipeline_split = model->machine.account_for_loss_in_pipeline_split =
            false;
    }
    // The list has the layouts that can overlap.
    if (base->model.num_experts > 0)
        model->machine.overlap_moe_expert_parallel_comm = false;
    int64_t ranks = config_least_ranks(model);
    int gpus = search->options.gpus;
    TRY(config_validate(model, gpus % ranks == 0 ? (int)ranks : gpus));
    return search->options.set_vocabulary(model, &assumed_for);
}

static int refuse_size(const struct layout_search *search) {
    const struct machine *machine = search->options.machines[0];
    double room = search_room(search, 0), most_gpus = 1 << 24;
    // All ranks hold equal parts of split tensors.
    double gpus = room > 0 ? search->options.gpus * exp2(ceil(log2(fmax(search->least_bytes / room, 1.01)))) : INFINITY;
    OWNED_BY(buffer_free) struct buffer more = {0};
    if (gpus <= most_gpus)
        buffer_printf(&more, "about --gpus %.0f, or ", gpus);
    error_set_code(EXIT_CODE_USAGE,
                   "no layout fits: the smallest needs %.1f GB on a rank, %.1f GB more than %s %s; take %sa --machine "
                   "with more memory",
                   search->least_bytes / 1e9, (search->least_bytes - room) / 1e9,
                   machine->gpus > 0 ? machine->gpu : machine->name, machine->gpus > 0 ? "GPUs have" : "machines have",
                   buffer_string(&more));
    return -1;
}

// All listed layouts are refused, as `train` would do: the message is the first one's.
static int refuse_invalid(const struct layout_search *search) {
    struct plan plan;
    if (plan_layout_of(search, &search->items[0], &plan) == 0)
        return refuse_size(search);
    return error_context("none of %d layouts is valid; of the first", search->count);
}

static void count_layout(void *context, const struct plan_layout *layout) {
    (void)layout;
    ++*(int *)context;
}

// Whether this number of GPUs, part of a machine or whole machines, has a layout.
static bool has_layout(const struct layout_search *search, int gpus) {
    struct layout_space space = search->spaces[0];
    int count = 0, each = hardware_ranks(space.machine);
    if (gpus < 1 || (gpus > each && gpus % each != 0))
        return false;
    space.gpus = gpus;
    space.is_fixed[CHOICE_PRECISION] = true;
    space.fabric = hardware_fabric(space.hardware, space.machine, gpus);
    layout_list(&space, count_layout, &count);
    return count > 0;
}

// The nearest number that has a layout; of two, the smaller. If none is near, a power of two.
static int nearest_gpus(const struct layout_search *search) {
    enum { FARTHEST = 4096 };
    int gpus = search->options.gpus;
    for (int distance = 1; distance <= FARTHEST; distance++) {
        if (has_layout(search, gpus - distance))
            return gpus - distance;
        if (gpus <= INT_MAX - distance && has_layout(search, gpus + distance))
            return gpus + distance;
    }
    int power = 1 << (int)log2(gpus);
    while (power > 1 && !has_layout(search, power))
        power /= 2;
    return power;
}

static int refuse_nothing(const struct layout_search *search) {
    const struct config *model = &search->model;
    int gpus = search->options.gpus;
    if (search->count + search->hopeless == 0)
        return error_set_code(EXIT_CODE_USAGE,
                              "no layout divides --global-batch-size %" PRId64 ", %" PRId64 " layers and %" PRId64
                              " heads among %d GPUs; nearest: --global-batch-size %" PRId64 " or --gpus %d",
                              model->run.global_batch_size, config_layers(&model->model),
                              model->model.num_attention_heads, gpus,
                              (model->run.global_batch_size + gpus / 2) / gpus > 0
                                  ? (model->run.global_batch_size + gpus / 2) / gpus * gpus
                                  : gpus,
                              nearest_gpus(search));
    return search->least_bytes == 0 ? refuse_invalid(search) : refuse_size(search);
}

int search_open(struct layout_search *search, const struct search_options *options) {
    *search = (struct layout_search){.options = *options, .work = most_work * options->machine_count};
    TRY(open_model(search));
    for (int i = 0; i < options->machine_count; i++)
        TRY(plan_check_precision(&search->model, options->machines[i], options->hardware[i]));
    for (int i = 0; i < options->machine_count; i++) {
        struct layout_space *space = &search->spaces[i];
        const struct hardware *hardware = options->hardware[i];
        *space = (struct layout_space){.model = &search->model,
                                       .machine = options->machines[i],
                                       .hardware = hardware,
                                       .fabric = hardware_fabric(hardware, options->machines[i], options->gpus),
                                       .gpus = options->gpus};
        layout_space_open(space, options->base);
        estimator_open(&search->estimators[i], space);
        layout_list(space, add_layout, &(struct adding){search, i, false});
    }
    if (search->count > 0)
        qsort(search->items, (size_t)search->count, sizeof *search->items, compare_estimates);
    TRY(plan_list(search));
    TRY(plan_neighbours(search));
    propose(search);
    if (search->proposal_count == 0)
        return refuse_nothing(search);
    return 0;
}

void search_close(struct layout_search *search) {
    for (int i = 0; i < search->count; i++)
        free(search->items[i].plan);
    free(search->items);
    if (search->model.given.source)
        config_free(&search->model);
    *search = (struct layout_search){0};
}
