// Compares plans part by part. See search.h.
#include "plan/search.h"
#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

// Those of plan_list_parts, but for the messages of stages, which are part of waiting for other stages.
enum { PARTS = 7 };

// The step of the slowest stage, split into parts; the rest is the bubble.
static void take_parts(const struct plan *plan, double *parts, const char **names) {
    struct plan_part found[PLAN_PARTS];
    plan_list_parts(plan, found);
    parts[PARTS - 1] = plan->seconds;
    names[PARTS - 1] = "waiting for other stages";
    for (int i = 0; i < PARTS - 1; i++) {
        parts[i] = found[i].seconds;
        names[i] = found[i].name;
        parts[PARTS - 1] -= parts[i];
    }
    parts[PARTS - 1] = fmax(parts[PARTS - 1], 0);
}

static void append_seconds(double seconds, struct buffer *out) {
    if (seconds >= 10)
        buffer_printf(out, "%.1f s", seconds);
    else
        buffer_printf(out, seconds >= 0.01 ? "%.0f ms" : "%.1f ms", seconds * 1e3);
}

// The part with the largest difference that makes the step longer (sign 1) or shorter.
static int largest_part(const double *difference, double sign) {
    int largest = 0;
    for (int i = 1; i < PARTS; i++)
        if (sign * difference[i] > sign * difference[largest])
            largest = i;
    return largest;
}

// Appends the parts in which the first of two plans is faster, and slower.
static void append_parts(const struct plan *faster, const struct plan *slower, const char *word, struct buffer *out) {
    double a[PARTS], b[PARTS], difference[PARTS], all = slower->seconds - faster->seconds;
    const char *names[PARTS];
    take_parts(faster, a, names);
    take_parts(slower, b, names);
    for (int i = 0; i < PARTS; i++)
        difference[i] = b[i] - a[i];
    int gain = largest_part(difference, 1), loss = largest_part(difference, -1);
    append_seconds(fmax(difference[gain], 0), out);
    buffer_printf(out, " %s %s", word, names[gain]);
    difference[gain] = 0;
    int second = largest_part(difference, 1);
    if (difference[second] > 0.25 * fabs(all)) {
        buffer_append_string(out, ", ");
        append_seconds(difference[second], out);
        buffer_printf(out, " %s", names[second]);
    }
    if (-difference[loss] > 0.25 * fabs(all)) {
        buffer_append_string(out, ", but ");
        append_seconds(-difference[loss], out);
        buffer_printf(out, " %s %s", word[0] == 'l' ? "more" : "less", names[loss]);
    }
}

static void append_machines(const struct layout_search *search, const struct search_item *a,
                            const struct search_item *b, struct buffer *out) {
    buffer_printf(out, ": %.0f ms on %s instead of %.0f ms on %s", 1e3 * a->plan->seconds,
                  search_machine(search, a)->name, 1e3 * b->plan->seconds, search_machine(search, b)->name);
}

void search_why_better(const struct layout_search *search, const struct search_item *better,
                       const struct search_item *worse, const char *name, struct buffer *out) {
    double saved = 1 - search_value(search, better) / search_value(search, worse);
    const char *gain = search->options.by_cost ? "cheaper" : "faster",
               *loss = search->options.by_cost ? "dearer" : "slower";
    if (saved < 0) {
        buffer_printf(out, "%.1f %% %s than %s, but with fewer axes of parallelism", 100 * saved / (saved - 1), loss,
                      name);
        return;
    }
    buffer_printf(out, "%.1f %% %s than %s", 100 * saved, gain, name);
    if (better->machine != worse->machine) {
        append_machines(search, better, worse, out);
    } else if (saved < 0.005) {
        buffer_append_string(out, ", which is within the error of a plan");
    } else {
        buffer_append_string(out, ": ");
        append_parts(better->plan, worse->plan, "less", out);
    }
}

void search_why_worse(const struct layout_search *search, const struct search_item *worse,
                      const struct search_item *best, struct buffer *out) {
    if (worse->outcome == SEARCH_TOO_LARGE) {
        const struct plan_stage *stage = &worse->plan->stage[worse->plan->fullest];
        double bytes = (double)stage->memory.total;
        buffer_printf(out, "does not fit: a rank of stage %d needs %.1f GB, %.1f GB too much (activations %.1f GB)",
                      stage->stage, bytes / 1e9, (bytes - search_room(search, worse->machine)) / 1e9,
                      (double)stage->memory.activations / 1e9);
        if (worse->layout.expert > 1 && search->model.model.moe_expert_capacity_factor <= 0)
            buffer_append_string(out, "; ranks that share out experts have room for all rows that may come, "
                                      "--moe-expert-capacity-factor limits it");
        return;
    }
    double more = search_value(search, worse) / search_value(search, best) - 1;
    buffer_printf(out, "%+.1f %%", 100 * more);
    if (worse->machine != best->machine) {
        append_machines(search, worse, best, out);
    } else if (fabs(more) > 0.0005) {
        buffer_append_string(out, ": ");
        append_parts(best->plan, worse->plan, "more", out);
    }
}

static void append_change(struct buffer *out, const char *name, int64_t value) {
    buffer_printf(out, "%s%s %" PRId64, out->length ? ", " : "", name, value);
}

static void append_word(struct buffer *out, const char *text) {
    buffer_printf(out, "%s%s", out->length ? ", " : "", text);
}

static void append_heads(const struct plan_layout *a, const struct plan_layout *b, struct buffer *out) {
    const char *name = layout_heads_name(b);
    bool is_same = strcmp(layout_heads_name(a), name) == 0 && (b->head_ranks == b->context || a->context != b->context);
    if (a->head_ranks == b->head_ranks || is_same || a->context == 1 || b->context == 1)
        return;
    append_word(out, "--cp-comm-type ");
    buffer_append_string(out, name);
    if (b->head_ranks > 1 && b->head_ranks < b->context)
        buffer_printf(out, " of %d × %d", b->head_ranks, b->context / b->head_ranks);
}

static void append_schedule(const struct plan_layout *a, const struct plan_layout *b, struct buffer *out) {
    if (b->is_zero_bubble && !a->is_zero_bubble)
        append_word(out, "zero-bubble schedule");
    else if (a->chunks != b->chunks && b->chunks > 1)
        append_change(out, "virtual stages", b->chunks);
    else if (a->chunks != b->chunks || a->is_zero_bubble != b->is_zero_bubble)
        append_word(out, "plain 1F1B");
    if (a->ends != b->ends)
        append_word(out, b->ends == 3   ? "embedding and loss count as layers"
                         : b->ends == 2 ? "the loss counts as a layer"
                         : b->ends == 1 ? "the embedding counts as a layer"
                                        : "embedding and loss do not count as layers");
}

void search_difference(const struct plan_layout *a, const struct plan_layout *b, struct buffer *out) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    if (a->tensor != b->tensor)
        append_change(&text, "TP", b->tensor);
    if (a->context != b->context)
        append_change(&text, "CP", b->context);
    append_heads(a, b, &text);
    if (a->expert != b->expert)
        append_change(&text, "EP", b->expert);
    if (a->pipeline != b->pipeline)
        append_change(&text, "PP", b->pipeline);
    if (a->data != b->data)
        append_change(&text, "DP", b->data);
    append_schedule(a, b, &text);
    if (a->micro_batch != b->micro_batch)
        append_change(&text, "micro-batches of", b->micro_batch);
    if (a->recompute != b->recompute || a->recomputed_layers != b->recomputed_layers) {
        append_word(&text, b->recompute == LAYOUT_KEEP ? "no recompute" : layout_recompute_name(b->recompute));
        if (b->recompute == LAYOUT_BLOCK)
            buffer_printf(&text, " recompute of %" PRId64 " layers", b->recomputed_layers);
        else if (b->recompute != LAYOUT_KEEP)
            buffer_append_string(&text, " recompute");
    }
    if (a->splits_rows != b->splits_rows && (a->tensor > 1) == (b->tensor > 1))
        append_word(&text, b->splits_rows ? "sequence parallelism" : "no sequence parallelism");
    if (a->optimizer != b->optimizer)
        append_word(&text, b->optimizer == LAYOUT_WHOLE     ? "every rank holds the whole optimizer"
                           : b->optimizer == LAYOUT_SHARDED ? "no overlap with data parallelism"
                                                            : "overlap with data parallelism");
    if (a->precision != b->precision)
        append_word(&text, layout_precision_name(b->precision));
    buffer_append_string(out, buffer_string(&text));
}

struct alternative_list {
    const struct layout_search *search;
    int machine, best;
    int *items;
    int count, most;
};

static void find_neighbour(void *context, const struct plan_layout *layout) {
    struct alternative_list *finding = context;
    int item = search_find(finding->search, layout, finding->machine);
    if (item < 0 || item == finding->best || finding->count == finding->most)
        return;
    enum search_outcome outcome = finding->search->items[item].outcome;
    if (outcome == SEARCH_PLANNED || outcome == SEARCH_TOO_LARGE)
        finding->items[finding->count++] = item;
}

static double order_of(const struct layout_search *search, int item) {
    const struct search_item *found = &search->items[item];
    return found->outcome == SEARCH_PLANNED ? search_value(search, found)
                                            : 1e15 + (double)found->plan->stage[found->plan->fullest].memory.total;
}

int search_alternatives(const struct layout_search *search, int *items, int most) {
    int best = search->proposals[0];
    struct alternative_list finding = {search, search->items[best].machine, best, items, 0, most};
    layout_neighbours(&search->spaces[finding.machine], &search->items[best].layout, find_neighbour, &finding);
    for (int i = 1; i < finding.count; i++)
        for (int k = i; k > 0 && order_of(search, items[k]) < order_of(search, items[k - 1]); k--) {
            int other = items[k];
            items[k] = items[k - 1];
            items[k - 1] = other;
        }
    return finding.count;
}
