// Lists the layouts that the rules of layout.h allow. Each function makes one choice and calls the next; other rules
// are left to config_validate, which every planned layout passes.
#include "plan/layout.h"
#include "base/error.h"
#include "config/config.h"
#include "plan/plan.h"

#include <string.h>

enum { LEAST_TOKENS = 2048, MOST_TOKENS = 65536, MOST_CHUNKS = 32, MOST_MICRO_BATCH = 64 };

// Whether fp8 is allowed depends on the model and on the sizes of a rank's matmuls, which follow from these four; no
// fp8 rule depends on stages, experts per rank, recompute or the optimizer. Answers are cached: each costs a
// validation.
enum { MOST_ANSWERS = 128 };
struct fp8_answer {
    int tensor, context;
    int64_t micro_batch;
    bool splits_rows, is_allowed;
};
struct fp8_answers {
    struct fp8_answer items[MOST_ANSWERS];
    int count;
};

struct layout_listing {
    const struct layout_space *space;
    layout_taker *take;
    void *context;
    struct fp8_answers *answers;
};

static bool divides(int64_t part, int64_t whole) {
    return part > 0 && whole % part == 0;
}

// ---- what is possible ----

// Ranks take whole heads of keys and values, or equal numbers of ranks share each head and split its channels.
static bool allows_keys(const struct config *model, int64_t tensor) {
    int64_t groups = config_query_groups(&model->model);
    return divides(tensor, groups) || (divides(groups, tensor) && divides(tensor / groups, model->model.kv_channels));
}

static bool allows_tensor(const struct layout_space *space, int tensor) {
    const struct config *model = space->model;
    return divides(tensor, space->gpus) && tensor <= space->fabric.node &&
           divides(tensor, model->model.num_attention_heads) && allows_keys(model, tensor) &&
           divides(tensor, model->model.ffn_hidden_size) && divides(tensor, model->model.moe_ffn_hidden_size) &&
           divides(tensor, model->model.moe_shared_expert_intermediate_size);
}

// Ranks that exchange heads take equal parts of them. Neighbours that do so are in groups of a given size.
static bool allows_exchange(const struct config *model, int64_t tensor, int64_t context) {
    struct config config = *model;
    config.machine.context_parallel_size = context;
    int64_t ranks = tensor * config_head_ranks(&config), sizes[2];
    if (config_has_cp_comm_type(model, "a2a+p2p") &&
        (config_hierarchy(model, sizes) < 0 || sizes[0] * sizes[1] != context))
        return false;
    return ranks == tensor ||
           (divides(ranks, model->model.num_attention_heads) && divides(ranks, config_query_groups(&model->model)));
}

// allows_exchange for a size that no flag fixes; not with an encoder and decoder, nor with biases by distance.
static bool allows_heads(const struct layout_space *space, const struct plan_layout *layout) {
    const struct config *model = space->model;
    int64_t ranks = (int64_t)layout->tensor * layout->head_ranks;
    return layout->head_ranks == 1 ||
           (!space->is_fixed[CHOICE_HEADS] && divides(layout->head_ranks, layout->context) &&
            divides(ranks, model->model.num_attention_heads) && divides(ranks, config_query_groups(&model->model)) &&
            model->model.form != CONFIG_T5 && model->model.position_embedding_type != POSITIONS_RELATIVE);
}

static bool allows_context(const struct layout_space *space, const struct plan_layout *layout, int context) {
    int64_t tokens = space->model->run.seq_length;
    return divides((int64_t)layout->tensor * context, space->gpus) &&
           (context == 1 ||
            (space->model->model.form == CONFIG_GPT && divides(2 * context, tokens) &&
             tokens / context >= LEAST_TOKENS && allows_exchange(space->model, layout->tensor, context)));
}

// Layers per stage, including ends that count as layers; 0 if they do not divide.
static int64_t stage_places(const struct layout_space *space, int pipeline, int ends) {
    int64_t places = config_layers(&space->model->model) + (ends & 1) + (ends >> 1);
    return divides(pipeline, places) ? places / pipeline : 0;
}

static bool allows_pipeline(const struct layout_space *space, const struct plan_layout *layout, int pipeline,
                            int ends) {
    if (!divides((int64_t)layout->tensor * layout->context * pipeline, space->gpus))
        return false;
    if (pipeline == 1)
        return ends == 0 || space->is_fixed[CHOICE_ENDS];
    if (space->model->machine.cpu_offloading)
        return false;
    if (space->is_fixed[CHOICE_ENDS])
        return true;
    // A stage needs a layer in addition to an end that counts as one.
    return space->model->model.form != CONFIG_T5 && stage_places(space, pipeline, ends) > (ends != 0);
}

static int64_t micro_batches(const struct layout_space *space, const struct plan_layout *layout) {
    return space->model->run.global_batch_size / (layout->micro_batch * layout->data);
}

// Overlapped passes of two micro-batches need experts on several ranks and, with stages, the interleaved schedule.
static bool has_pairs(const struct layout_space *space) {
    return space->base->machine.overlap_moe_expert_parallel_comm;
}

static bool allows_expert(const struct layout_space *space, const struct plan_layout *layout, int expert) {
    if (expert == 1)
        return !has_pairs(space);
    struct config config = {.machine.tensor_model_parallel_size = layout->tensor,
                            .machine.context_parallel_size = layout->context,
                            .machine.expert_model_parallel_size = expert,
                            .model.num_experts = space->model->model.num_experts,
                            .machine.expert_tensor_parallel_size = space->model->machine.expert_tensor_parallel_size};
    struct config_expert_ranks ranks;
    return expert <= EXPERT_RANKS_MOST && config_expert_ranks(&config, layout->data, &ranks) == 0 &&
           config.model.num_experts > 0 && divides(expert, config.model.num_experts) &&
           (layout->tensor == 1 || layout->splits_rows);
}

static bool allows_chunks(const struct layout_space *space, const struct plan_layout *layout, int chunks) {
    if (chunks == 1)
        return layout->pipeline == 1 || !has_pairs(space);
    int64_t places = stage_places(space, layout->pipeline, layout->ends);
    return layout->pipeline > 1 && chunks <= MOST_CHUNKS && divides(chunks, places) &&
           micro_batches(space, layout) % layout->pipeline == 0 && !layout->is_zero_bubble;
}

static bool allows_micro_batch(const struct layout_space *space, const struct plan_layout *layout,
                               int64_t micro_batch) {
    int64_t tokens = micro_batch * space->model->run.seq_length / layout->context;
    bool is_even = !layout->splits_rows || divides(layout->tensor, tokens);
    return is_even && divides(micro_batch * layout->data, space->model->run.global_batch_size) &&
           (micro_batch == 1 || tokens <= MOST_TOKENS);
}

// Whether `train` and the machine accept a layout with this precision.
static bool is_valid(const struct layout_space *space, const struct plan_layout *layout,
                     enum layout_precision precision) {
    struct plan_layout tried = *layout;
    struct config config;
    tried.precision = precision;
    int status = layout_configure(space, &tried, &config);
    if (status == 0)
        status = plan_check_precision(&config, space->machine, space->hardware);
    error_clear();
    config_free(&config);
    return status == 0;
}

// A layout that bf16 refuses too says nothing about fp8.
static bool allows_fp8(const struct layout_listing *listing, const struct plan_layout *layout) {
    const struct layout_space *space = listing->space;
    struct fp8_answers *answers = listing->answers;
    if (space->hardware->peak[1] <= 0)
        return false;
    for (int i = 0; i < answers->count; i++) {
        const struct fp8_answer *known = &answers->items[i];
        if (known->tensor == layout->tensor && known->context == layout->context &&
            known->micro_batch == layout->micro_batch && known->splits_rows == layout->splits_rows)
            return known->is_allowed;
    }
    bool is_allowed = is_valid(space, layout, LAYOUT_FP8);
    if (answers->count < MOST_ANSWERS && (is_allowed || is_valid(space, layout, LAYOUT_BF16)))
        answers->items[answers->count++] =
            (struct fp8_answer){layout->tensor, layout->context, layout->micro_batch, layout->splits_rows, is_allowed};
    return is_allowed;
}

static bool allows_precision(const struct layout_listing *listing, const struct plan_layout *layout,
                             enum layout_precision precision) {
    const struct machine *machine = listing->space->machine;
    if (precision == LAYOUT_FP8)
        return allows_fp8(listing, layout);
    return precision == (machine->gpus == 0 ? LAYOUT_FP32 : machine_has_old_gpus(machine) ? LAYOUT_FP16 : LAYOUT_BF16);
}

// ---- one choice after the other ----

static void list_precisions(const struct layout_listing *listing, struct plan_layout layout) {
    const struct layout_space *space = listing->space;
    static const enum layout_precision precisions[] = {LAYOUT_FP32, LAYOUT_BF16, LAYOUT_FP16, LAYOUT_FP8};
    if (space->is_fixed[CHOICE_PRECISION]) {
        listing->take(listing->context, &layout);
        return;
    }
    for (size_t i = 0; i < sizeof precisions / sizeof precisions[0]; i++) {
        layout.precision = precisions[i];
        if (allows_precision(listing, &layout, layout.precision))
            listing->take(listing->context, &layout);
    }
}

static void list_recompute(const struct layout_listing *listing, struct plan_layout layout) {
    if (listing->space->is_fixed[CHOICE_RECOMPUTE]) {
        list_precisions(listing, layout);
        return;
    }
    const enum layout_recompute whole[] = {LAYOUT_KEEP, LAYOUT_SELECTIVE, LAYOUT_FULL};
    for (int i = 0; i < 3; i++) {
        layout.recompute = whole[i];
        list_precisions(listing, layout);
    }
    // A quarter, half and three quarters of the layers, if these differ.
    int64_t layers = config_layers(&listing->space->model->model) / layout.pipeline / layout.chunks, before = 0;
    layout.recompute = LAYOUT_BLOCK;
    for (int quarter = 1; quarter <= 3; quarter++) {
        layout.recomputed_layers = (layers * quarter + 3) / 4;
        if (layout.recomputed_layers > before && layout.recomputed_layers < layers)
            list_precisions(listing, layout);
        before = layout.recomputed_layers;
    }
}

static void list_chunks(const struct layout_listing *listing, struct plan_layout layout) {
    const struct layout_space *space = listing->space;
    int64_t together = space->base->machine.num_layers_per_virtual_pipeline_stage;
    if (space->is_fixed[CHOICE_CHUNKS]) {
        if (together > 0)
            layout.chunks = (int)(stage_places(space, layout.pipeline, layout.ends) / together);
        if (layout.chunks >= 1 && (layout.chunks == 1 || layout.pipeline > 1))
            list_recompute(listing, layout);
        return;
    }
    for (layout.chunks = 1; layout.chunks <= MOST_CHUNKS; layout.chunks++)
        if (allows_chunks(space, &layout, layout.chunks))
            list_recompute(listing, layout);
    layout.chunks = 1;
    layout.is_zero_bubble = true;
    if (layout.pipeline > 1 && !has_pairs(space))
        list_recompute(listing, layout);
}

static void list_micro_batches(const struct layout_listing *listing, struct plan_layout layout) {
    const struct layout_space *space = listing->space;
    if (space->is_fixed[CHOICE_MICRO_BATCH]) {
        if (allows_micro_batch(space, &layout, layout.micro_batch))
            list_chunks(listing, layout);
        return;
    }
    for (layout.micro_batch = 1; layout.micro_batch <= MOST_MICRO_BATCH; layout.micro_batch *= 2)
        if (allows_micro_batch(space, &layout, layout.micro_batch))
            list_chunks(listing, layout);
}

// Lists the choices that follow the mesh.
static void list_mesh(const struct layout_listing *listing, struct plan_layout layout) {
    const struct layout_space *space = listing->space;
    layout.data = space->gpus / (layout.tensor * layout.context * layout.pipeline);
    if (!space->is_fixed[CHOICE_ROWS])
        layout.splits_rows = layout.tensor > 1;
    if (!space->is_fixed[CHOICE_OPTIMIZER])
        layout.optimizer = layout.data * layout.context > 1 ? LAYOUT_OVERLAPPED : LAYOUT_WHOLE;
    if (space->is_fixed[CHOICE_EXPERT]) {
        if (allows_expert(space, &layout, layout.expert))
            list_micro_batches(listing, layout);
        return;
    }
    for (layout.expert = 1; layout.expert <= layout.data; layout.expert *= 2)
        if (allows_expert(space, &layout, layout.expert))
            list_micro_batches(listing, layout);
}

static void list_pipelines(const struct layout_listing *listing, struct plan_layout layout) {
    const struct layout_space *space = listing->space;
    int64_t most = config_layers(&space->model->model) + 2;
    int first = space->is_fixed[CHOICE_PIPELINE] ? layout.pipeline : 1;
    int last = space->is_fixed[CHOICE_PIPELINE] ? layout.pipeline : most < space->gpus ? (int)most : space->gpus;
    for (layout.pipeline = first; layout.pipeline <= last; layout.pipeline++) {
        int given = space->given.ends;
        bool is_fixed = space->is_fixed[CHOICE_ENDS];
        for (layout.ends = is_fixed ? given : 0; layout.ends <= (is_fixed ? given : 3); layout.ends++)
            if (allows_pipeline(space, &layout, layout.pipeline, layout.ends))
                list_mesh(listing, layout);
    }
}

static void list_contexts(const struct layout_listing *listing, struct plan_layout layout) {
    const struct layout_space *space = listing->space;
    if (space->is_fixed[CHOICE_CONTEXT]) {
        list_pipelines(listing, layout);
        return;
    }
    for (layout.context = 1; layout.context <= space->gpus; layout.context *= 2)
        if (allows_context(space, &layout, layout.context))
            list_pipelines(listing, layout);
}

void layout_list(const struct layout_space *space, layout_taker *take, void *context) {
    struct fp8_answers answers = {.count = 0};
    const struct layout_listing listing = {space, take, context, &answers};
    struct plan_layout layout = space->given;
    if (!space->is_fixed[CHOICE_RECOMPUTE])
        layout.recompute = LAYOUT_KEEP;
    layout.recomputed_layers = 0;
    if (space->is_fixed[CHOICE_TENSOR]) {
        list_contexts(&listing, layout);
        return;
    }
    for (layout.tensor = 1; layout.tensor <= space->fabric.node; layout.tensor++)
        if (allows_tensor(space, layout.tensor))
            list_contexts(&listing, layout);
}

void layout_heads(const struct layout_space *space, const struct plan_layout *layout, layout_taker *take,
                  void *context) {
    struct plan_layout changed = *layout;
    if (space->is_fixed[CHOICE_HEADS]) {
        take(context, layout);
        return;
    }
    for (changed.head_ranks = 1; changed.head_ranks < layout->context; changed.head_ranks *= 2)
        if (allows_heads(space, &changed))
            take(context, &changed);
    changed.head_ranks = layout->context;
    if (allows_heads(space, &changed))
        take(context, &changed);
}

// ---- neighbours ----

// Takes a layout whose mesh or batch was changed, if it is possible.
static void take_changed(const struct layout_listing *listing, struct plan_layout layout, enum layout_choice choice) {
    const struct layout_space *space = listing->space;
    if (space->is_fixed[choice] || layout.tensor < 1 || layout.context < 1 || layout.pipeline < 1 ||
        layout.micro_batch < 1 || (choice == CHOICE_TENSOR && !allows_tensor(space, layout.tensor)) ||
        !allows_context(space, &layout, layout.context) ||
        !allows_pipeline(space, &layout, layout.pipeline, layout.ends))
        return;
    // As many ranks exchange heads as the new mesh allows.
    while (layout.head_ranks > 1 && !allows_heads(space, &layout))
        layout.head_ranks /= 2;
    layout.data = space->gpus / (layout.tensor * layout.context * layout.pipeline);
    if (layout.tensor == 1 && !space->is_fixed[CHOICE_ROWS])
        layout.splits_rows = false;
    else if (choice == CHOICE_TENSOR && !space->is_fixed[CHOICE_ROWS])
        layout.splits_rows = true;
    if (layout.data * layout.context == 1 && !space->is_fixed[CHOICE_OPTIMIZER])
        layout.optimizer = LAYOUT_WHOLE;
    // As many ranks share out the experts as the new mesh allows.
    while (!space->is_fixed[CHOICE_EXPERT] && choice != CHOICE_EXPERT && layout.expert > 1 &&
           !allows_expert(space, &layout, layout.expert))
        layout.expert /= 2;
    if (layout.expert < 1 || !allows_expert(space, &layout, layout.expert) ||
        !allows_micro_batch(space, &layout, layout.micro_batch))
        return;
    // The number of virtual stages is lowered to one that the new mesh allows.
    while (layout.chunks > 1 && !space->is_fixed[CHOICE_CHUNKS] && !allows_chunks(space, &layout, layout.chunks))
        layout.chunks--;
    if (layout.precision == LAYOUT_FP8 && !space->is_fixed[CHOICE_PRECISION] && !allows_fp8(listing, &layout))
        return;
    listing->take(listing->context, &layout);
}

static void change_mesh(const struct layout_listing *listing, const struct plan_layout *layout) {
    static const struct {
        enum layout_choice choice;
        int tensor, context, pipeline, micro_batch;  // doubled, or with -1 halved
    } changes[] = {
        {CHOICE_TENSOR, 1, 0, 0, 0},       {CHOICE_TENSOR, -1, 0, 0, 0},   {CHOICE_TENSOR, 1, 0, -1, 0},
        {CHOICE_TENSOR, -1, 0, 1, 0},      {CHOICE_CONTEXT, 0, 1, 0, 0},   {CHOICE_CONTEXT, 0, -1, 0, 0},
        {CHOICE_PIPELINE, 0, 0, 1, 0},     {CHOICE_PIPELINE, 0, 0, -1, 0}, {CHOICE_MICRO_BATCH, 0, 0, 0, 1},
        {CHOICE_MICRO_BATCH, 0, 0, 0, -1},
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        const int steps[] = {changes[i].tensor, changes[i].context, changes[i].pipeline, changes[i].micro_batch};
        struct plan_layout changed = *layout;
        int64_t sizes[] = {changed.tensor, changed.context, changed.pipeline, changed.micro_batch};
        bool is_whole = true;
        for (int k = 0; k < 4; k++) {
            is_whole = is_whole && (steps[k] >= 0 || sizes[k] % 2 == 0);
            sizes[k] = steps[k] > 0 ? sizes[k] * 2 : steps[k] < 0 ? sizes[k] / 2 : sizes[k];
        }
        changed.tensor = (int)sizes[0];
        changed.context = (int)sizes[1];
        changed.head_ranks = layout->head_ranks == layout->context ? changed.context : layout->head_ranks;
        changed.pipeline = (int)sizes[2];
        changed.micro_batch = sizes[3];
        if (changed.pipeline == 1) {
            changed.chunks = 1;
            changed.is_zero_bubble = false;
            changed.ends = listing->space->is_fixed[CHOICE_ENDS] ? changed.ends : 0;
        }
        bool pipeline_is_fixed = steps[2] != 0 && listing->space->is_fixed[CHOICE_PIPELINE];
        if (is_whole && !pipeline_is_fixed)
            take_changed(listing, changed, changes[i].choice);
    }
}

static void change_schedule(const struct layout_listing *listing, const struct plan_layout *layout) {
    struct plan_layout changed = *layout;
    if (layout->pipeline == 1)
        return;
    changed.is_zero_bubble = false;
    for (changed.chunks = 1; changed.chunks <= MOST_CHUNKS; changed.chunks++)
        if (allows_chunks(listing->space, &changed, changed.chunks) &&
            (changed.chunks != layout->chunks || layout->is_zero_bubble))
            take_changed(listing, changed, CHOICE_CHUNKS);
    changed = *layout;
    changed.chunks = 1;
    changed.is_zero_bubble = true;
    if (!layout->is_zero_bubble && !has_pairs(listing->space))
        take_changed(listing, changed, CHOICE_CHUNKS);
    for (int ends = 0; ends <= 3; ends++) {
        changed = *layout;
        changed.ends = ends;
        if (ends != layout->ends && allows_chunks(listing->space, &changed, changed.chunks))
            take_changed(listing, changed, CHOICE_ENDS);
    }
}

struct heads_changing {
    const struct layout_listing *listing;
    int now;
};

static void change_heads(void *context, const struct plan_layout *layout) {
    const struct heads_changing *changing = context;
    if (layout->head_ranks != changing->now)
        take_changed(changing->listing, *layout, CHOICE_HEADS);
}

static void change_rest(const struct layout_listing *listing, const struct plan_layout *layout) {
    struct plan_layout changed = *layout;
    for (int recompute = LAYOUT_KEEP; recompute <= LAYOUT_FULL; recompute++) {
        changed.recompute = (enum layout_recompute)recompute;
        changed.recomputed_layers = 0;
        if (recompute != LAYOUT_BLOCK && changed.recompute != layout->recompute)
            take_changed(listing, changed, CHOICE_RECOMPUTE);
    }
    for (int doubles = 0; doubles < 2; doubles++) {
        changed = *layout;
        changed.expert = doubles ? 2 * layout->expert : layout->expert / 2;
        take_changed(listing, changed, CHOICE_EXPERT);
    }
    changed = *layout;
    changed.splits_rows = !layout->splits_rows;
    if (layout->tensor > 1)
        take_changed(listing, changed, CHOICE_ROWS);
    changed = *layout;
    for (int optimizer = LAYOUT_WHOLE; optimizer <= LAYOUT_OVERLAPPED; optimizer++) {
        changed.optimizer = (enum layout_optimizer)optimizer;
        if (changed.optimizer != layout->optimizer && layout->data * layout->context > 1)
            take_changed(listing, changed, CHOICE_OPTIMIZER);
    }
    changed = *layout;
    for (int precision = LAYOUT_FP32; precision <= LAYOUT_FP8; precision++) {
        changed.precision = (enum layout_precision)precision;
        if (changed.precision != layout->precision && allows_precision(listing, &changed, changed.precision))
            take_changed(listing, changed, CHOICE_PRECISION);
    }
}

void layout_neighbours(const struct layout_space *space, const struct plan_layout *layout, layout_taker *take,
                       void *context) {
    struct fp8_answers answers = {.count = 0};
    const struct layout_listing listing = {space, take, context, &answers};
    change_mesh(&listing, layout);
    layout_heads(space, layout, change_heads, &(struct heads_changing){&listing, layout->head_ranks});
    change_schedule(&listing, layout);
    change_rest(&listing, layout);
}
