// The axes of a layout: the flags of their values, and the configuration that they form together. See layouts.h.
#include "layouts.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

// Eight layers, heads and chunks of two sequences can be split over up to eight ranks; the vocabulary never can.
// Caps are as small as scores and logits are here. --norm-placement both is left out: with it rounding grows beyond
// the bounds within 20 steps, on one rank too if its first weights are changed by their last bit.
enum { LAYERS = 8, STAGES_LISTED = 3 };
static const char *const model_names[MODEL_COUNT] = {"gpt", "llama", "bert", "t5", "experts"};
static const char *const model_flags[MODEL_COUNT] = {
    "--num-layers 8 --num-attention-heads 8 --reset-attention-mask --z-loss-strength 0.1",
    "--num-layers 8 --num-attention-heads 16 --kv-channels 4 --group-query-attention --num-query-groups 2 --swiglu "
    "--ffn-hidden-size 48 --normalization RMSNorm --position-embedding-type rope --disable-bias-linear "
    "--untie-embeddings-and-output-weights --sliding-window 11 --window-attn-skip-freq 3 --rotary-base-local 500 "
    "--mtp-num-layers 2 --mtp-loss-scaling-factor 1 --softmax-type learnable --attn-logit-softcapping 0.02 "
    "--final-logit-softcapping 0.2",
    "--num-layers 8 --num-attention-heads 8 --model bert --norm-placement post --num-token-types 2",
    "--num-layers 4 --num-attention-heads 8 --model t5 --decoder-seq-length 16 --position-embedding-type relative",
    "--num-layers 8 --num-attention-heads 8 --swiglu --disable-bias-linear --moe-shared-expert-intermediate-size 16 "
    "--position-embedding-type rope --normalization RMSNorm --multi-latent-attention --qk-layernorm --q-lora-rank 12 "
    "--kv-lora-rank 10 --qk-head-dim 4 --qk-pos-emb-head-dim 2 --v-head-dim 3 --rotary-scaling-factor 4 "
    "--original-max-position-embeddings 8 "
    "--moe-shared-expert-gate --num-experts 24 --moe-layer-freq [0,1]*4 --moe-ffn-hidden-size 24 "
    "--moe-router-topk 2 --moe-router-load-balancing-type aux_loss seq_aux_loss global_aux_loss "
    "--moe-aux-loss-coeff 1e-2 1e-2 1e-2 --moe-input-jitter-eps 0.01 --moe-z-loss-coeff 1e-3 --mtp-num-layers 1 "
    "--mtp-loss-scaling-factor 0.5"};
// Adam divides gradients by their own size, so a gradient that is only rounding (that of a key's bias, which does not
// affect the softmax) would become an update as large as any; a larger epsilon keeps it small.
static const char *const common_flags =
    "train --mock-data --hidden-size 32 --seq-length 32 --vocab-size 97 --make-vocab-size-divisible-by 1 "
    "--tokenizer-type NullTokenizer --lr 1e-3 --clip-grad 0.5 --train-iters 20 --hidden-dropout 0.1 "
    "--attention-dropout 0.1 --adam-eps 2e-4";
static const char *const schedule_flags[] = {"", "--num-virtual-stages-per-pipeline-rank 2",
                                             "--num-virtual-stages-per-pipeline-rank 4",
                                             "--pipeline-schedule zero-bubble"};
static const char *const schedule_names[] = {"", " × 2", " × 4", " zero-bubble"};
static const int schedule_chunks[] = {1, 2, 4, 1};
static const char *const recompute_flags[] = {"", "--recompute-granularity selective", "--recompute-granularity full"};
static const char *const recompute_names[] = {"", ", recompute selective", ", recompute full"};
static const char *const method_flags[][3] = {
    {"", "", ""},
    {"", "--recompute-modules core_attn mlp_act", "--recompute-modules mlp_act"},
    {"", "--recompute-method uniform --recompute-num-layers 3 --recompute-keep-attention",
     "--recompute-method block --recompute-num-layers 1"}};
static const char *const method_names[][3] = {
    {"", "", ""}, {"", " of two modules", " of the MLP"}, {"", " by three but attention", " of one layer"}};
static const char *const saved_flags[] = {"", " --distribute-saved-activations", " --cpu-offloading"};
static const char *const saved_names[] = {"", ", saved in parts", ", saved on the host"};
static const char *const overlap_flags[] = {"", "--overlap-grad-reduce --ddp-num-buckets 7",
                                            "--overlap-grad-reduce --overlap-param-gather --ddp-num-buckets 7"};
static const char *const overlap_names[] = {"", ", gradients overlapped", ", all overlapped"};
static const char *const batch_names[] = {"", ", smaller micro-batches", ", micro-batches in groups",
                                          ", one micro-batch"};
static const char *const stage_names[] = {"", " of another first stage", " of two other stages", " of listed layers"};
static const char *const head_names[] = {"", " by heads", " by heads of neighbours"};
static const char *const dtype_flags[] = {"", "--bf16", "--fp16 --initial-loss-scale 65536"};
static const char *const dtype_names[] = {"", ", bf16", ", fp16"};

int layout_values(enum layout_axis axis) {
    static const int values[LAYOUT_AXES] = {
        [LAYOUT_MODEL] = MODEL_COUNT, [LAYOUT_SEQUENCE] = 2, [LAYOUT_SCHEDULE] = 4, [LAYOUT_OPTIMIZER] = 2,
        [LAYOUT_RECOMPUTE] = 3,       [LAYOUT_STAGES] = 4,   [LAYOUT_BATCH] = 4,    [LAYOUT_OVERLAP] = 3,
        [LAYOUT_METHOD] = 3,          [LAYOUT_SAVED] = 3,    [LAYOUT_HEADS] = 3,    [LAYOUT_DTYPE] = 3};
    return values[axis];
}

// Of 4, 6 or 8 ranks two exchange heads; other sizes have no factors, or only with more ranks than these tests have.
int layout_head_ranks(const struct layout *layout) {
    int ranks = layout->value[LAYOUT_CONTEXT];
    if (layout->value[LAYOUT_HEADS] == 0)
        return 1;
    return layout->value[LAYOUT_HEADS] == HEADS_OF_NEIGHBOURS && ranks % 2 == 0 ? 2 : ranks;
}

bool layout_is_idle(const struct layout *layout) {
    const int *v = layout->value;
    bool is_alone = v[LAYOUT_DATA] * v[LAYOUT_CONTEXT] == 1, is_full = v[LAYOUT_RECOMPUTE] == RECOMPUTE_FULL;
    bool is_interleaved = schedule_chunks[v[LAYOUT_SCHEDULE]] > 1;
    return (v[LAYOUT_TENSOR] == 1 && v[LAYOUT_SEQUENCE]) || (v[LAYOUT_CONTEXT] == 1 && v[LAYOUT_HEADS]) ||
           (v[LAYOUT_HEADS] == HEADS_OF_NEIGHBOURS && layout_head_ranks(layout) == v[LAYOUT_CONTEXT]) ||
           (v[LAYOUT_PIPELINE] == 1 && (v[LAYOUT_SCHEDULE] || v[LAYOUT_STAGES] || v[LAYOUT_BATCH] == 3)) ||
           (v[LAYOUT_STAGES] == STAGES_LISTED && v[LAYOUT_MODEL] == MODEL_T5) ||
           (is_alone && (v[LAYOUT_OPTIMIZER] || v[LAYOUT_OVERLAP])) || (v[LAYOUT_BATCH] == 2 && !is_interleaved) ||
           (v[LAYOUT_OVERLAP] == 2 && !v[LAYOUT_OPTIMIZER]) || (v[LAYOUT_METHOD] && !v[LAYOUT_RECOMPUTE]) ||
           (v[LAYOUT_SAVED] && !is_full) || (v[LAYOUT_SAVED] == 1 && (v[LAYOUT_TENSOR] == 1 || v[LAYOUT_SEQUENCE]));
}

// Micro-batches of a data-parallel rank in a step: enough to fill all stages; twice as many, with half the samples; one
// more than that, in groups that fill one more than all; or a single one. With the second, gradients are accumulated on
// every layout.
static int micro_batches(const struct layout *layout) {
    int stages = layout->value[LAYOUT_PIPELINE];
    const int counts[] = {stages, 2 * stages, 2 * stages + 1, 1};
    return counts[layout->value[LAYOUT_BATCH]];
}

int64_t layout_micro_batch(const struct layout *layout) {
    return layout->value[LAYOUT_BATCH] == 1 || layout->value[LAYOUT_BATCH] == 2 ? 1 : 2;
}

int64_t layout_global_batch(const struct layout *layout) {
    return layout_micro_batch(layout) * layout->value[LAYOUT_DATA] * micro_batches(layout);
}

int64_t layout_cost(const struct layout *layout) {
    return 4 + layout_global_batch(layout) + micro_batches(layout) + layout->ranks;
}

void layout_describe(const struct layout *layout, char *text, size_t size) {
    const int *v = layout->value;
    char expert[32] = "";
    if (v[LAYOUT_EXPERT] > 1 || v[LAYOUT_SLICES] != v[LAYOUT_TENSOR])
        snprintf(expert, sizeof expert, " with expert %d of %d", v[LAYOUT_EXPERT], v[LAYOUT_SLICES]);
    snprintf(text, size, "%s, %d ranks: tensor %d%s, context %d%s, pipeline %d%s%s, data %d%s%s%s%s%s%s%s%s",
             model_names[v[LAYOUT_MODEL]], layout->ranks, v[LAYOUT_TENSOR], v[LAYOUT_SEQUENCE] ? " with sequence" : "",
             v[LAYOUT_CONTEXT], head_names[v[LAYOUT_HEADS]], v[LAYOUT_PIPELINE], schedule_names[v[LAYOUT_SCHEDULE]],
             stage_names[v[LAYOUT_STAGES]], v[LAYOUT_DATA], expert, v[LAYOUT_OPTIMIZER] ? ", divided optimizer" : "",
             recompute_names[v[LAYOUT_RECOMPUTE]], method_names[v[LAYOUT_RECOMPUTE]][v[LAYOUT_METHOD]],
             saved_names[v[LAYOUT_SAVED]], overlap_names[v[LAYOUT_OVERLAP]], batch_names[v[LAYOUT_BATCH]],
             dtype_names[v[LAYOUT_DTYPE]]);
}

// Whether `layers` can be split evenly over stages and the chunks on each.
static bool divide(int layers, int stages, int chunks) {
    return stages == 0 ? layers == 0 : layers > 0 && layers % (stages * chunks) == 0;
}

// Another number of layers on the first stage, or on both ends.
static void add_uneven_stages(struct buffer *line, int stages, int chunks, bool has_both) {
    int first_most = has_both ? chunks : LAYERS - 1;
    for (int first = chunks; first <= first_most; first += chunks)
        for (int last = has_both ? chunks : 0; last < (has_both ? LAYERS : 1); last += chunks) {
            bool is_even = first * stages == LAYERS && (!has_both || first == last);
            if (is_even || !divide(LAYERS - first - last, stages - 1 - has_both, chunks))
                continue;
            buffer_printf(line, " --decoder-first-pipeline-num-layers %d", first);
            if (has_both)
                buffer_printf(line, " --decoder-last-pipeline-num-layers %d", last);
            return;
        }
}

// Fewer or more stages for the encoder than half of them.
static void add_uneven_split(struct buffer *line, int stages, int chunks, bool has_more) {
    for (int i = 1; i < stages; i++) {
        int split = has_more ? stages - i : i;
        if (has_more != (2 * split > stages) || 2 * split == stages || !divide(LAYERS / 2, split, chunks) ||
            !divide(LAYERS / 2, stages - split, chunks))
            continue;
        buffer_printf(line, " --pipeline-model-parallel-split-rank %d", split);
        return;
    }
}

// Layers of a chunk in turn 2, 0, 1: an end that has nothing else, and chunks that pass on what they get. What is left
// goes to the last chunk but one.
static void add_listed_layers(struct buffer *line, const struct layout *layout) {
    static const int counts[] = {2, 0, 1};
    static const int depths[MODEL_COUNT] = {[MODEL_LLAMA] = 2, [MODEL_EXPERTS] = 1};
    const int *v = layout->value;
    int left = LAYERS, all = v[LAYOUT_PIPELINE] * schedule_chunks[v[LAYOUT_SCHEDULE]];
    buffer_append_string(line, " --pipeline-model-parallel-layout E");
    for (int i = 0; i < all; i++) {
        int count = i == all - 2 ? left : i == all - 1 ? 0 : counts[i % 3] < left ? counts[i % 3] : left;
        buffer_printf(line, "%st*%d", i > 0 ? "|" : "", count);
        left -= count;
    }
    buffer_printf(line, "m*%dL", depths[v[LAYOUT_MODEL]]);
}

// -1 if there are no such stages.
static int add_stages(struct buffer *line, const struct layout *layout) {
    const int *v = layout->value;
    size_t before = line->length;
    int chunks = schedule_chunks[v[LAYOUT_SCHEDULE]];
    if (v[LAYOUT_STAGES] == 0)
        return 0;
    if (v[LAYOUT_STAGES] == STAGES_LISTED)
        add_listed_layers(line, layout);
    else if (v[LAYOUT_MODEL] == MODEL_T5)
        add_uneven_split(line, v[LAYOUT_PIPELINE], chunks, v[LAYOUT_STAGES] == 2);
    else
        add_uneven_stages(line, v[LAYOUT_PIPELINE], chunks, v[LAYOUT_STAGES] == 2);
    return line->length > before ? 0 : error_set("no uneven stages");
}

static int parse(struct config *config, const char *line, int ranks) {
    struct string_list words = {0};
    for (size_t length; *line; line += length) {
        line += strspn(line, " ");
        length = strcspn(line, " ");
        char *word = memory_printf("%.*s", (int)length, line);
        if (length > 0)
            string_list_add(&words, word);
        free(word);
    }
    int status = config_parse(config, (int)words.count, words.items);
    if (status == 0)
        status = config_validate(config, ranks);
    string_list_free(&words);
    if (status == 0)
        status = config_pad_vocab(config, config->data.vocab_size);
    return status;
}

// Model, batch and dtype. Routers of the same parameters take turns with the micro-batch.
static void begin_line(struct buffer *line, const struct reference *like, const char *more) {
    buffer_printf(line, "%s %s --micro-batch-size %lld --global-batch-size %lld %s %s", common_flags,
                  model_flags[like->model], (long long)like->micro_batch, (long long)like->global_batch,
                  dtype_flags[like->dtype], more);
    if (like->model == MODEL_EXPERTS && like->micro_batch == 1)
        buffer_append_string(line, " --moe-router-score-function sigmoid --moe-router-num-groups 3 "
                                   "--moe-router-group-topk 2 --moe-router-topk-scaling-factor 2.5");
}

// In a mixture of experts, parts of the MLP are whole modules, and latents are expanded again.
static const char *recompute_method(const struct layout *layout) {
    const int *v = layout->value;
    bool is_selective = v[LAYOUT_RECOMPUTE] == RECOMPUTE_SELECTIVE;
    if (v[LAYOUT_MODEL] == MODEL_EXPERTS && is_selective && v[LAYOUT_METHOD] == METHOD_BLOCK)
        return "--recompute-modules mlp moe shared_experts mla_up_proj";
    return method_flags[v[LAYOUT_RECOMPUTE]][v[LAYOUT_METHOD]];
}

int layout_config(struct config *config, const struct layout *layout, const char *more) {
    const int *v = layout->value;
    struct buffer line = {0};
    *config = (struct config){0};
    const struct reference like = {.model = v[LAYOUT_MODEL],
                                   .dtype = v[LAYOUT_DTYPE],
                                   .global_batch = layout_global_batch(layout),
                                   .micro_batch = layout_micro_batch(layout)};
    begin_line(&line, &like, more);
    buffer_printf(&line,
                  " --tensor-model-parallel-size %d --context-parallel-size %d --pipeline-model-parallel-size %d "
                  "--expert-model-parallel-size %d",
                  v[LAYOUT_TENSOR], v[LAYOUT_CONTEXT], v[LAYOUT_PIPELINE], v[LAYOUT_EXPERT]);
    if (v[LAYOUT_SLICES] != v[LAYOUT_TENSOR])
        buffer_printf(&line, " --expert-tensor-parallel-size %d", v[LAYOUT_SLICES]);
    bool lists_chunks = v[LAYOUT_STAGES] == STAGES_LISTED && schedule_chunks[v[LAYOUT_SCHEDULE]] > 1;
    buffer_printf(&line, " %s %s %s %s%s%s%s", lists_chunks ? "" : schedule_flags[v[LAYOUT_SCHEDULE]],
                  recompute_flags[v[LAYOUT_RECOMPUTE]], recompute_method(layout), overlap_flags[v[LAYOUT_OVERLAP]],
                  v[LAYOUT_SEQUENCE] ? " --sequence-parallel" : "",
                  v[LAYOUT_OPTIMIZER] ? " --use-distributed-optimizer" : "", saved_flags[v[LAYOUT_SAVED]]);
    if (v[LAYOUT_HEADS])
        buffer_printf(&line, " --cp-comm-type %s", v[LAYOUT_HEADS] == HEADS_OF_NEIGHBOURS ? "a2a+p2p" : "a2a");
    if (v[LAYOUT_HEADS] == HEADS_OF_NEIGHBOURS)
        buffer_printf(&line, " --hierarchical-context-parallel-sizes %d %d", layout_head_ranks(layout),
                      v[LAYOUT_CONTEXT] / layout_head_ranks(layout));
    if (v[LAYOUT_BATCH] == 2)
        buffer_printf(&line, " --microbatch-group-size-per-virtual-pipeline-stage %d", v[LAYOUT_PIPELINE] + 1);
    int status = add_stages(&line, layout);
    if (status == 0)
        status = parse(config, buffer_string(&line), layout->ranks);
    buffer_free(&line);
    return status;
}

int reference_config(struct config *config, const struct reference *reference, const char *more) {
    struct buffer line = {0};
    begin_line(&line, reference, more);
    int status = parse(config, buffer_string(&line), 1);
    buffer_free(&line);
    return status;
}
