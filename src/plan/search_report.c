// Tables, sentences, JSON and a file of flags. See search.h.
#include "plan/search.h"
#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ALTERNATIVES = 32 };

static const struct search_item *proposal(const struct layout_search *search, int i) {
    return &search->items[search->proposals[i]];
}

static double days_of(const struct search_item *item, double tokens) {
    return tokens / (item->plan->tokens / item->plan->seconds) / 86400;
}

static double dollars_of(const struct layout_search *search, const struct search_item *item, double tokens) {
    return days_of(item, tokens) * 24 * item->plan->nodes * search_machine(search, item)->dollars;
}

static double fullest_bytes(const struct search_item *item) {
    return (double)item->plan->stage[item->plan->fullest].memory.total;
}

// The best of each machine and precision follow the first proposals in any order: a proposal is compared with the next
// only if it is faster, or of the same machine and precision.
static bool is_ranked_before(const struct layout_search *search, const struct search_item *item,
                             const struct search_item *next) {
    return search_value(search, item) <= search_value(search, next) ||
           (item->machine == next->machine && item->layout.precision == next->layout.precision);
}

// Explains proposal i: its saving compared to the next, or its loss compared to the first.
static void append_why(const struct layout_search *search, int i, struct buffer *out) {
    char name[16];
    int next = i + 1 < search->proposal_count ? i + 1 : 0;
    snprintf(name, sizeof name, "%d", next + 1);
    if (search->proposal_count == 1)
        buffer_append_string(out, "the only mesh that was found to fit");
    else if (next > 0 && is_ranked_before(search, proposal(search, i), proposal(search, next)))
        search_why_better(search, proposal(search, i), proposal(search, next), name, out);
    else {
        buffer_append_string(out, "against 1: ");
        search_why_worse(search, proposal(search, i), proposal(search, 0), out);
    }
}

// ---- text ----

static void append_heading(const struct layout_search *search, struct buffer *out) {
    const struct config *model = &search->model;
    const struct machine *first = search->options.machines[0];
    int too_large = search_count(search, SEARCH_TOO_LARGE), planned = search_count(search, SEARCH_PLANNED);
    buffer_printf(out, "%.4g parameters, %" PRId64 " samples of %" PRId64 " tokens a step, on %d GPU%s",
                  search->estimators[0].parameters, model->run.global_batch_size, model->run.seq_length,
                  search->options.gpus, search->options.gpus == 1 ? "" : "s");
    if (search->options.machine_count == 1)
        buffer_printf(out, " of %d × %s", proposal(search, 0)->plan->nodes, first->name);
    buffer_printf(out, "\n%d layouts keep the rules; of these %d were planned, and %d of them fit. ", search->count,
                  planned + too_large, planned);
    buffer_printf(out, "%d more are too large by a formula and were not planned.\n", search->hopeless);
    buffer_printf(
        out,
        "Rules: sizes divide; TP stays inside the NVLink domain (%d GPUs); a context-parallel rank keeps 2048 "
        "tokens; flags that were given stay.\n\n",
        search->spaces[0].fabric.node);
}

static void append_row(const struct layout_search *search, int i, double tokens, struct buffer *out) {
    const struct search_item *item = proposal(search, i);
    const struct plan_layout *layout = &item->layout;
    char chunks[16], recompute[24];
    snprintf(chunks, sizeof chunks, layout->is_zero_bubble ? "zb" : "%d", layout->chunks);
    snprintf(recompute, sizeof recompute, layout->recompute == LAYOUT_BLOCK ? "%s %" PRId64 : "%s",
             layout_recompute_name(layout->recompute), layout->recomputed_layers);
    buffer_printf(out, "%2d %10.1f %5.1f %6.1f %4d %3d %3d %3d %3s %5d %4" PRId64 "  %-9s  %-19s  %-4s", i + 1,
                  item->plan->seconds * 1e3, 100 * plan_mfu(item->plan), fullest_bytes(item) / 1e9, layout->tensor,
                  layout->context, layout->expert, layout->pipeline, chunks, layout->data, layout->micro_batch,
                  recompute, layout_optimizer_name(layout->optimizer), layout_precision_name(layout->precision));
    if (search->options.machine_count > 1)
        buffer_printf(out, "  %-18s", search_machine(search, item)->name);
    if (tokens > 0)
        buffer_printf(out, " %7.1f", days_of(item, tokens));
    if (tokens > 0 && dollars_of(search, item, tokens) > 0)
        buffer_printf(out, " %12.0f", dollars_of(search, item, tokens));
    else if (search->options.by_cost)
        buffer_printf(out, " %12.4f", search_value(search, item));
    buffer_append_string(out, "\n");
}

static void append_table(const struct layout_search *search, double tokens, struct buffer *out) {
    buffer_append_string(out,
                         " #    step ms MFU %     GB   TP  CP  EP  PP  VP    DP  MBS  recompute  optimizer            "
                         "in  ");
    if (search->options.machine_count > 1)
        buffer_append_string(out, "  machine           ");
    if (tokens > 0)
        buffer_append_string(out, "    days      dollars");
    else if (search->options.by_cost)
        buffer_append_string(out, " dollars/step");
    buffer_append_string(out, "\n");
    for (int i = 0; i < search->proposal_count; i++)
        append_row(search, i, tokens, out);
    buffer_append_string(out, "\n");
}

static void append_proposals(const struct layout_search *search, struct buffer *out) {
    for (int i = 0; i < search->proposal_count; i++) {
        const struct search_item *item = proposal(search, i);
        buffer_printf(out, "%d. ", i + 1);
        append_why(search, i, out);
        buffer_append_string(out, "\n   ");
        if (search->options.machine_count > 1)
            buffer_printf(out, "--machine %s ", search_machine(search, item)->name);
        layout_append_flags(&search->spaces[item->machine], &item->layout, out);
        buffer_append_string(out, "\n");
    }
}

// Data parallelism alone, which users try first, is often not listed.
static void append_plain_data(const struct layout_search *search, struct buffer *out) {
    const struct search_item *best = proposal(search, 0);
    const struct layout_space *space = &search->spaces[best->machine];
    struct plan_layout plain = best->layout;
    if (plain.tensor * plain.context * plain.expert * plain.pipeline == 1 || space->is_fixed[CHOICE_TENSOR] ||
        space->is_fixed[CHOICE_PIPELINE] || space->is_fixed[CHOICE_CONTEXT])
        return;
    plain.tensor = plain.context = plain.expert = plain.pipeline = 1;
    plain.data = search->options.gpus;
    plain.optimizer = LAYOUT_OVERLAPPED;
    double bytes = estimate_state_bytes(&search->estimators[best->machine], &plain);
    if (bytes > search_room(search, best->machine))
        buffer_printf(out,
                      "   data parallelism alone: does not fit: weights, gradients and a sharded optimizer take %.1f "
                      "GB of a rank, %.1f GB too much\n",
                      bytes / 1e9, (bytes - search_room(search, best->machine)) / 1e9);
}

// Explains why tensor parallelism is not wider.
static void append_limit(struct buffer *out, int tensor, const struct layout_space *space) {
    if (space->machine->gpus > 0)
        buffer_printf(out, "   TP %d: not tried, because NVLink joins %d GPUs\n", tensor, space->fabric.node);
    else
        buffer_printf(out, "   TP %d: not tried, because its ranks would be on %d machines\n", tensor, tensor);
}

static void append_alternatives(const struct layout_search *search, struct buffer *out) {
    const struct search_item *best = proposal(search, 0);
    int items[ALTERNATIVES], count = search_alternatives(search, items, ALTERNATIVES);
    if (count > 0)
        buffer_append_string(out, "\n1 with one change:\n");
    for (int i = 0; i < count; i++) {
        const struct search_item *item = &search->items[items[i]];
        buffer_append_string(out, "   ");
        search_difference(&best->layout, &item->layout, out);
        buffer_append_string(out, ": ");
        search_why_worse(search, item, best, out);
        buffer_append_string(out, "\n");
    }
    int wider = 2 * best->layout.tensor;
    if (count > 0 && wider > search->spaces[best->machine].fabric.node && wider <= search->options.gpus &&
        !search->spaces[best->machine].is_fixed[CHOICE_TENSOR])
        append_limit(out, wider, &search->spaces[best->machine]);
    append_plain_data(search, out);
}

void search_describe(const struct layout_search *search, double tokens, struct buffer *out) {
    append_heading(search, out);
    append_table(search, tokens, out);
    append_proposals(search, out);
    append_alternatives(search, out);
    if (tokens > 0 || search->options.by_cost)
        buffer_printf(out, "note: %s\n", machine_price_note());
}

// ---- JSON ----

static void write_text(struct json_writer *w, const char *name, struct buffer *text) {
    json_put_string(w, name, buffer_string(text));
    buffer_free(text);
}

static void write_layout(struct json_writer *w, const struct layout_search *search, const struct search_item *item) {
    const struct plan_layout *layout = &item->layout;
    struct buffer flags = {0};
    json_put_string(w, "machine", search_machine(search, item)->name);
    json_put_int(w, "tensor", layout->tensor);
    json_put_int(w, "context", layout->context);
    if (!search->spaces[item->machine].is_fixed[CHOICE_HEADS])
        json_put_string(w, "cp_comm_type", layout_heads_name(layout));
    json_put_int(w, "expert", layout->expert);
    json_put_int(w, "pipeline", layout->pipeline);
    json_put_int(w, "virtual_stages", layout->chunks);
    json_put_int(w, "data", layout->data);
    json_put_int(w, "micro_batch_size", layout->micro_batch);
    json_put_bool(w, "zero_bubble", layout->is_zero_bubble);
    json_put_string(w, "recompute", layout_recompute_name(layout->recompute));
    json_put_bool(w, "sequence_parallel", layout->splits_rows);
    json_put_string(w, "optimizer", layout_optimizer_name(layout->optimizer));
    json_put_string(w, "precision", layout_precision_name(layout->precision));
    layout_append_flags(&search->spaces[item->machine], layout, &flags);
    write_text(w, "flags", &flags);
    json_put_double(w, "memory_bytes", fullest_bytes(item));
    json_put_int(w, "fullest_stage", item->plan->stage[item->plan->fullest].stage);
    json_put_bool(w, "fits", item->outcome == SEARCH_PLANNED);
    if (item->outcome == SEARCH_PLANNED) {
        json_put_double(w, "step_seconds", item->plan->seconds);
        json_put_double(w, "mfu", plan_mfu(item->plan));
    }
}

void search_write_proposal(const struct layout_search *search, int i, double tokens, struct json_writer *w) {
    const struct search_item *item = proposal(search, i);
    struct buffer why = {0};
    json_begin_object(w);
    write_layout(w, search, item);
    json_put_int(w, "nodes", item->plan->nodes);
    if (tokens > 0) {
        json_put_double(w, "days", days_of(item, tokens));
        json_put_double(w, "dollars", dollars_of(search, item, tokens));
    }
    append_why(search, i, &why);
    write_text(w, "why", &why);
    json_end_object(w);
}

static void write_alternatives(struct json_writer *w, const struct layout_search *search) {
    const struct search_item *best = proposal(search, 0);
    int items[ALTERNATIVES], count = search_alternatives(search, items, ALTERNATIVES);
    json_key(w, "alternatives");
    json_begin_array(w);
    for (int i = 0; i < count; i++) {
        const struct search_item *item = &search->items[items[i]];
        struct buffer change = {0}, why = {0};
        json_begin_object(w);
        search_difference(&best->layout, &item->layout, &change);
        write_text(w, "change", &change);
        write_layout(w, search, item);
        search_why_worse(search, item, best, &why);
        write_text(w, "why", &why);
        json_end_object(w);
    }
    json_end_array(w);
}

void search_write_json(const struct layout_search *search, double tokens, struct buffer *out) {
    struct json_writer w = {.out = out, .indent = 2};
    json_begin_object(&w);
    json_put_int(&w, "gpus", search->options.gpus);
    json_put_string(&w, "ranked_by", search->options.by_cost ? "cost" : "time");
    json_put_int(&w, "listed", search->count);
    json_put_int(&w, "planned", search_count(search, SEARCH_PLANNED));
    json_put_int(&w, "too_large", search_count(search, SEARCH_TOO_LARGE));
    json_put_int(&w, "too_large_by_formula", search->hopeless);
    json_key(&w, "proposals");
    json_begin_array(&w);
    for (int i = 0; i < search->proposal_count; i++)
        search_write_proposal(search, i, tokens, &w);
    json_end_array(&w);
    write_alternatives(&w, search);
    json_end_object(&w);
    buffer_append_string(out, "\n");
}

// ---- a file of flags ----

static void append_value(const struct flag *flag, const struct config *config, struct buffer *out) {
    const void *slot = (const char *)config + flag->offset;
    if (flag->type == FLAG_STRING_LIST) {
        const struct string_list *list = slot;
        buffer_append_string(out, "[");
        for (int64_t i = 0; i < list->count; i++) {
            buffer_append_string(out, i ? ", " : "");
            flag_quote(list->items[i], out);
        }
        buffer_append_string(out, "]");
    } else if (flag->type == FLAG_STRING || flag->type == FLAG_CHOICE) {
        flag_quote(*(char *const *)slot, out);
    } else if (flag->type == FLAG_ENUM) {
        flag_quote(flag_value_text(flag, *(const int *)slot), out);
    } else {
        flag_format(flag, config, out);
    }
}

void search_write_config(const struct layout_search *search, struct buffer *out) {
    const struct search_item *best = proposal(search, 0);
    const struct config *base = search->options.base;
    struct flag_table table = config_flag_table(0);
    struct layout_flag flags[LAYOUT_MOST_FLAGS];
    buffer_printf(out, "# %d GPUs of %d × %s; planned: %.1f ms a step, %.1f GB of a rank, MFU %.1f %%\n",
                  search->options.gpus, best->plan->nodes, search_machine(search, best)->name,
                  best->plan->seconds * 1e3, fullest_bytes(best) / 1e9, 100 * plan_mfu(best->plan));
    const struct flag *flag;
    for (size_t i = 0; (flag = flag_at(&table.rows, i)); i++) {
        if (flag->type == FLAG_GROUP || !flag_is_given(&base->given, flag->name))
            continue;
        buffer_printf(out, "%s: ", flag->name + 2);
        if (strcmp(flag->name, "--model") == 0 && search->options.family)
            flag_quote(search->options.family, out);
        else
            append_value(flag, base, out);
        buffer_append_string(out, "\n");
    }
    int count = layout_flags(&search->spaces[best->machine], &best->layout, flags);
    for (int i = 0; i < count; i++)
        buffer_printf(out, "%s: %s\n", flags[i].name + 2, flags[i].value[0] ? flags[i].value : "true");
}
