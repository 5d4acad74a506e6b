// Layouts as flags, and which of them are fixed. See layout.h; layout_list.c has the rules.
#include "plan/layout.h"
#include "base/error.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// The flags that fix a choice.
static const char *const fixing[CHOICE_COUNT][6] = {
    [CHOICE_TENSOR] = {"--tensor-model-parallel-size"},
    [CHOICE_CONTEXT] = {"--context-parallel-size"},
    [CHOICE_HEADS] = {"--cp-comm-type", "--hierarchical-context-parallel-sizes"},
    [CHOICE_EXPERT] = {"--expert-model-parallel-size"},
    [CHOICE_PIPELINE] = {"--pipeline-model-parallel-size"},
    [CHOICE_CHUNKS] = {"--num-virtual-stages-per-pipeline-rank", "--num-layers-per-virtual-pipeline-stage",
                       "--pipeline-schedule", "--pipeline-model-parallel-layout"},
    [CHOICE_ENDS] = {"--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split",
                     "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers",
                     "--pipeline-model-parallel-split-rank", "--pipeline-model-parallel-layout"},
    [CHOICE_MICRO_BATCH] = {"--micro-batch-size"},
    [CHOICE_RECOMPUTE] = {"--recompute-granularity"},
    [CHOICE_ROWS] = {"--sequence-parallel"},
    [CHOICE_OPTIMIZER] = {"--use-distributed-optimizer", "--overlap-grad-reduce", "--overlap-param-gather"},
    [CHOICE_PRECISION] = {"--bf16", "--fp16", "--fp8-format", "--tf32"},
};

static bool is(const char *text, const char *name) {
    return text && strcmp(text, name) == 0;
}

void layout_space_open(struct layout_space *space, const struct config *base) {
    space->base = base;
    for (int choice = 0; choice < CHOICE_COUNT; choice++) {
        space->is_fixed[choice] = false;
        for (int i = 0; i < 6 && fixing[choice][i]; i++)
            space->is_fixed[choice] = space->is_fixed[choice] || flag_is_given(&base->given, fixing[choice][i]);
    }
    space->given = (struct plan_layout){
        .tensor = (int)base->machine.tensor_model_parallel_size,
        .context = (int)base->machine.context_parallel_size,
        .pipeline = (int)base->machine.pipeline_model_parallel_size,
        .head_ranks = 1,
        .data = 1,
        .expert = (int)base->machine.expert_model_parallel_size,
        .chunks = (int)config_chunks(base),
        .is_zero_bubble = is(base->machine.pipeline_schedule, "zero-bubble"),
        .ends = base->machine.account_for_embedding_in_pipeline_split | base->machine.account_for_loss_in_pipeline_split
                                                                            << 1,
        .micro_batch = base->run.micro_batch_size,
        .recompute = is(base->machine.recompute_granularity, "full")        ? LAYOUT_FULL
                     : is(base->machine.recompute_granularity, "selective") ? LAYOUT_SELECTIVE
                                                                            : LAYOUT_KEEP,
        .splits_rows = base->machine.sequence_parallel,
        .optimizer = !base->machine.use_distributed_optimizer ? LAYOUT_WHOLE
                     : base->machine.overlap_grad_reduce      ? LAYOUT_OVERLAPPED
                                                              : LAYOUT_SHARDED,
        .precision = base->run.fp8_format ? LAYOUT_FP8
                     : base->run.bf16     ? LAYOUT_BF16
                     : base->run.fp16     ? LAYOUT_FP16
                                          : LAYOUT_FP32,
    };
}

bool layout_is_same(const struct plan_layout *a, const struct plan_layout *b) {
    return a->tensor == b->tensor && a->context == b->context && a->head_ranks == b->head_ranks &&
           a->pipeline == b->pipeline && a->chunks == b->chunks && a->expert == b->expert &&
           a->is_zero_bubble == b->is_zero_bubble && a->ends == b->ends && a->micro_batch == b->micro_batch &&
           a->recompute == b->recompute && a->recomputed_layers == b->recomputed_layers &&
           a->splits_rows == b->splits_rows && a->optimizer == b->optimizer && a->precision == b->precision;
}

bool layout_needs_less(const struct plan_layout *a, const struct plan_layout *b) {
    struct plan_layout like = *b;
    bool recomputes_more =
        a->recompute > b->recompute || (a->recompute == b->recompute && a->recomputed_layers >= b->recomputed_layers);
    like.micro_batch = a->micro_batch;
    like.recompute = a->recompute;
    like.recomputed_layers = a->recomputed_layers;
    return a->micro_batch <= b->micro_batch && recomputes_more && layout_is_same(a, &like);
}

// ---- flags ----

struct flag_writer {
    const struct layout_space *space;
    struct layout_flag *flags;
    int count;
};

static void add(struct flag_writer *writer, enum layout_choice choice, const char *name, const char *value) {
    if (writer->space->is_fixed[choice])
        return;
    struct layout_flag *flag = &writer->flags[writer->count++];
    flag->name = name;
    snprintf(flag->value, sizeof flag->value, "%s", value);
}

static void add_number(struct flag_writer *writer, enum layout_choice choice, const char *name, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    add(writer, choice, name, text);
}

static void add_heads(struct flag_writer *writer, const struct plan_layout *layout) {
    char sizes[24];
    if (layout->head_ranks == 1)
        return;
    add(writer, CHOICE_HEADS, "--cp-comm-type", layout_heads_name(layout));
    snprintf(sizes, sizeof sizes, "%d %d", layout->head_ranks, layout->context / layout->head_ranks);
    if (layout->head_ranks < layout->context)
        add(writer, CHOICE_HEADS, "--hierarchical-context-parallel-sizes", sizes);
}

static void add_pipeline(struct flag_writer *writer, const struct plan_layout *layout) {
    if (layout->pipeline == 1)
        return;
    add_number(writer, CHOICE_PIPELINE, "--pipeline-model-parallel-size", layout->pipeline);
    if (layout->chunks > 1)
        add_number(writer, CHOICE_CHUNKS, "--num-virtual-stages-per-pipeline-rank", layout->chunks);
    if (layout->is_zero_bubble)
        add(writer, CHOICE_CHUNKS, "--pipeline-schedule", "zero-bubble");
    if (layout->ends & 1)
        add(writer, CHOICE_ENDS, "--account-for-embedding-in-pipeline-split", "");
    if (layout->ends & 2)
        add(writer, CHOICE_ENDS, "--account-for-loss-in-pipeline-split", "");
}

static void add_recompute(struct flag_writer *writer, const struct plan_layout *layout) {
    if (layout->recompute == LAYOUT_KEEP)
        return;
    add(writer, CHOICE_RECOMPUTE, "--recompute-granularity",
        layout->recompute == LAYOUT_SELECTIVE ? "selective" : "full");
    if (layout->recompute == LAYOUT_BLOCK) {
        add(writer, CHOICE_RECOMPUTE, "--recompute-method", "block");
        add_number(writer, CHOICE_RECOMPUTE, "--recompute-num-layers", layout->recomputed_layers);
    }
}

int layout_flags(const struct layout_space *space, const struct plan_layout *layout, struct layout_flag *flags) {
    struct flag_writer writer = {.space = space, .flags = flags};
    if (layout->tensor > 1)
        add_number(&writer, CHOICE_TENSOR, "--tensor-model-parallel-size", layout->tensor);
    if (layout->splits_rows)
        add(&writer, CHOICE_ROWS, "--sequence-parallel", "");
    if (layout->context > 1)
        add_number(&writer, CHOICE_CONTEXT, "--context-parallel-size", layout->context);
    add_heads(&writer, layout);
    if (layout->expert > 1)
        add_number(&writer, CHOICE_EXPERT, "--expert-model-parallel-size", layout->expert);
    add_pipeline(&writer, layout);
    add_number(&writer, CHOICE_MICRO_BATCH, "--micro-batch-size", layout->micro_batch);
    add_recompute(&writer, layout);
    if (layout->optimizer != LAYOUT_WHOLE)
        add(&writer, CHOICE_OPTIMIZER, "--use-distributed-optimizer", "");
    if (layout->optimizer == LAYOUT_OVERLAPPED) {
        add(&writer, CHOICE_OPTIMIZER, "--overlap-grad-reduce", "");
        add(&writer, CHOICE_OPTIMIZER, "--overlap-param-gather", "");
    }
    if (layout->precision == LAYOUT_BF16 || layout->precision == LAYOUT_FP8)
        add(&writer, CHOICE_PRECISION, "--bf16", "");
    if (layout->precision == LAYOUT_FP16)
        add(&writer, CHOICE_PRECISION, "--fp16", "");
    if (layout->precision == LAYOUT_FP8)
        add(&writer, CHOICE_PRECISION, "--fp8-format", "hybrid");
    return writer.count;
}

void layout_append_flags(const struct layout_space *space, const struct plan_layout *layout, struct buffer *out) {
    struct layout_flag flags[LAYOUT_MOST_FLAGS];
    int count = layout_flags(space, layout, flags);
    for (int i = 0; i < count; i++)
        buffer_printf(out, "%s%s%s%s", i ? " " : "", flags[i].name, flags[i].value[0] ? " " : "", flags[i].value);
}

int layout_configure(const struct layout_space *space, const struct plan_layout *layout, struct config *config) {
    struct flag_table table = config_flag_table(0);
    struct layout_flag flags[LAYOUT_MOST_FLAGS];
    int count = layout_flags(space, layout, flags), status = 0;
    config_copy(config, space->base);
    for (int i = 0; i < count && status == 0; i++)
        status =
            flag_set(&table, config, flags[i].name, flags[i].value[0] ? flags[i].value : "true", FLAG_FROM_COMMAND);
    log_hush(true);
    if (status == 0)
        status = config_validate(config, space->gpus);
    log_hush(false);
    config->model.padded_vocab_size = space->model->model.padded_vocab_size;
    return status;
}

const char *layout_heads_name(const struct plan_layout *layout) {
    return layout->head_ranks == 1 ? "p2p" : layout->head_ranks == layout->context ? "a2a" : "a2a+p2p";
}

const char *layout_recompute_name(enum layout_recompute recompute) {
    static const char *const names[] = {"none", "selective", "block", "full"};
    return names[recompute];
}

const char *layout_optimizer_name(enum layout_optimizer optimizer) {
    static const char *const names[] = {"whole", "sharded", "sharded, overlapped"};
    return names[optimizer];
}

const char *layout_precision_name(enum layout_precision precision) {
    static const char *const names[] = {"fp32", "bf16", "fp16", "fp8"};
    return names[precision];
}
