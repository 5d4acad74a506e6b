// Models with fp8 matmuls: they learn like in bf16, in every form; recompute changes no bit; an evaluation between
// steps is in bf16; a resumed run is equal bit for bit; flags that do not work with fp8 are refused.
// cost: 10
// parts: 2
#include "lab.h"
#include "step/internal.h"
#include "store/temporary.h"
#include "train/state.h"

enum { ROWS = 2, COLUMNS = 16, STEPS = 25 };

static void open_lab(struct train_lab *lab, const char *flags, const char *more, int micro_batches) {
    char *line = memory_printf("--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --bf16 "
                               "--micro-batch-size 2 --padded-vocab-size 48 --max-position-embeddings 16 "
                               "--hidden-dropout 0 --attention-dropout 0 --ffn-hidden-size 64 --global-batch-size %d "
                               "%s %s",
                               ROWS * micro_batches, flags, more);
    lab_open(lab, line);
    free(line);
}

struct feed {
    enum config_form form;
    int64_t next;    // micro-batches so far
    int64_t unlike;  // every this many is different: one token repeated, with its own ranges
};

static int next_input(void *context, struct batch *input) {
    static int32_t tokens[ROWS * COLUMNS], labels[ROWS * COLUMNS];
    static float mask[ROWS * COLUMNS];
    static int64_t samples[ROWS] = {4, 5};
    struct feed *feed = context;
    bool is_unlike = feed->unlike && ++feed->next % feed->unlike == 0;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        tokens[i] = is_unlike ? 7 : (i * 17 + 5) % 47;
        labels[i] = is_unlike ? 9 : (i * 23 + 11) % 47;
        mask[i] = 1;
    }
    *input = (struct batch){
        .B = ROWS, .T = COLUMNS, .tokens = tokens, .labels = labels, .loss_mask = mask, .samples = samples};
    if (feed->form == CONFIG_T5) {
        input->S = COLUMNS;
        input->decoder_tokens = labels;
    }
    return 0;
}

struct curve {
    double first, last, evaluated;
};

static struct curve train_with(const char *flags, const char *more, int micro_batches) {
    struct train_lab lab;
    struct curve curve = {0};
    open_lab(&lab, flags, more, micro_batches);
    struct feed feed = {.form = lab.config.model.form, .unlike = micro_batches > 1 ? micro_batches : 0};
    struct step_source source = {.next = next_input, .context = &feed, .count = micro_batches};
    for (int i = 0; i < STEPS; i++) {
        EXPECT_OK(step_train(lab.step, &source, 3e-3, 0));
        curve.last = step_result(lab.step).loss;
        curve.first = i == 0 ? curve.last : curve.first;
    }
    EXPECT_OK(step_evaluate(lab.step, &source));
    curve.evaluated = step_result(lab.step).loss;
    lab_close(&lab);
    return curve;
}

static struct curve train(const char *flags, const char *more) {
    return train_with(flags, more, 1);
}

static const char *const models[] = {
    "",
    "--position-embedding-type rope --swiglu --normalization RMSNorm --disable-bias-linear "
    "--untie-embeddings-and-output-weights --group-query-attention --num-query-groups 1",
    "--model bert --norm-placement post --bert-no-binary-head --activation gelu",
    "--model t5 --position-embedding-type relative --activation relu --gated-linear-unit",
};

TEST(models_learn_in_8_bits) {
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct curve half = train(models[i], ""), eighth = train(models[i], "--fp8-format hybrid");
        struct curve current = train(models[i], "--fp8-format hybrid --fp8-recipe tensorwise");
        struct curve blocks = train(models[i], "--fp8-format e4m3 --fp8-recipe mxfp8");
        EXPECT(fabs(blocks.last - half.last) < 0.05 * half.first && blocks.first != half.first);
        // No size here is that of a whole block.
        blocks = train(models[i], "--fp8-format e4m3 --fp8-recipe blockwise");
        EXPECT(fabs(blocks.last - half.last) < 0.05 * half.first && blocks.first != half.first);
        struct curve output = train(models[i], "--fp8-format hybrid --fp8-output-proj");
        printf("    %.4f to %.4f in bf16, %.4f and %.4f in fp8, %.4f with the output layer\n", half.first, half.last,
               eighth.last, current.last, output.last);
        EXPECT(fabs(output.last - half.last) < 0.05 * half.first && output.first != eighth.first);
        EXPECT(half.last < 0.8 * half.first);
        EXPECT(fabs(eighth.first - half.first) < 0.01 * half.first && eighth.first != half.first);
        EXPECT(fabs(eighth.last - half.last) < 0.05 * half.first);
        EXPECT(fabs(current.last - half.last) < 0.05 * half.first);
        EXPECT(fabs(eighth.evaluated - eighth.last) < 0.15 * half.first);
    }
}

TEST(decoders_learn_in_4_bits) {
    for (int i = 0; i < 2; i++) {
        struct curve half = train(models[i], ""), quarter = train(models[i], "--fp4-format e2m1");
        struct curve again = train(models[i], "--fp4-format e2m1 --recompute-granularity full");
        printf("    %.4f to %.4f in bf16, %.4f in fp4\n", half.first, half.last, quarter.last);
        EXPECT(fabs(quarter.first - half.first) < 0.02 * half.first && quarter.first != half.first);
        EXPECT(fabs(quarter.last - half.last) < 0.1 * half.first);
        EXPECT(quarter.last == again.last && quarter.evaluated == again.evaluated);
    }
}

// Also with micro-batches whose ranges differ: a recomputed one is stored with the range of the first time.
TEST(recompute_changes_nothing) {
    static const char *const recipes[] = {"--fp8-format hybrid", "--fp8-format hybrid --fp8-recipe tensorwise",
                                          "--fp8-format hybrid --fp8-recipe mxfp8"};
    for (int i = 0; i < 12; i++) {
        const char *model = models[i % 2], *recipe = recipes[i / 2 % 3];
        int micro_batches = i < 6 ? 1 : 3;
        char *full = memory_printf("%s --recompute-granularity full", recipe);
        char *selective = memory_printf("%s --recompute-granularity selective", recipe);
        struct curve kept = train_with(model, recipe, micro_batches), all = train_with(model, full, micro_batches);
        struct curve some = train_with(model, selective, micro_batches);
        EXPECT(kept.last == all.last && kept.last == some.last && kept.evaluated == all.evaluated);
        free(full);
        free(selective);
    }
}

// Mixtures of experts: some without rows, capacities that leave a number of places that is no multiple of 16, and
// biases, with which nothing is fused; gates with a limit and an offset, as gpt-oss has them, with biases and without.
static const char *const mixtures[] = {
    "--num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 48 --moe-aux-loss-coeff 1e-2 --swiglu "
    "--disable-bias-linear --position-embedding-type rope --normalization RMSNorm",
    "--num-experts 16 --moe-router-topk 3 --moe-ffn-hidden-size 32 --moe-expert-capacity-factor 1.3 "
    "--activation gelu",
    "--num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 48 --quick-geglu --glu-linear-offset 1 "
    "--activation-func-clamp-value 0.4 --position-embedding-type rope --normalization RMSNorm --softmax-type learnable",
    "--num-experts 5 --moe-router-topk 2 --moe-ffn-hidden-size 32 --swiglu --glu-linear-offset 0.5 "
    "--activation-func-clamp-value 0.3 --disable-bias-linear",
};
enum { MIXTURES = sizeof mixtures / sizeof mixtures[0] };

TEST(experts_learn_in_8_bits) {
    for (int i = 0; i < MIXTURES; i++)
        for (int micro_batches = 1; micro_batches <= 3; micro_batches += 2) {
            struct curve half = train_with(mixtures[i], "", micro_batches);
            struct curve delayed = train_with(mixtures[i], "--fp8-format hybrid", micro_batches);
            struct curve current =
                train_with(mixtures[i], "--fp8-format hybrid --fp8-recipe tensorwise", micro_batches);
            printf("    %.4f to %.4f in bf16, %.4f and %.4f in fp8\n", half.first, half.last, delayed.last,
                   current.last);
            EXPECT(half.last < 0.8 * half.first);
            EXPECT(fabs(delayed.first - half.first) < 0.01 * half.first && delayed.first != half.first);
            EXPECT(fabs(delayed.last - half.last) < 0.05 * half.first);
            EXPECT(fabs(current.last - half.last) < 0.05 * half.first);
            struct curve full =
                train_with(mixtures[i], "--fp8-format hybrid --recompute-granularity full --recompute-method uniform",
                           micro_batches);
            struct curve some =
                train_with(mixtures[i], "--fp8-format hybrid --recompute-granularity selective --recompute-modules moe",
                           micro_batches);
            EXPECT(delayed.last == full.last && delayed.last == some.last && delayed.evaluated == full.evaluated);
        }
}

// By blocks of 32, which fit such small models; tests/parallel/test_latent.sh has those of 128. The last is DeepSeek-V3
// in small: latent attention, groups of experts that are chosen with a bias, shared experts beside them, and a layer
// that predicts the token after next.
#define DEEPSEEK                                                                                                       \
    "--multi-latent-attention --q-lora-rank 64 --kv-lora-rank 32 --qk-head-dim 32 --qk-pos-emb-head-dim 32 "           \
    "--v-head-dim 32 --hidden-size 64 --qk-layernorm --swiglu "                                                        \
    "--disable-bias-linear --position-embedding-type rope --normalization RMSNorm --num-experts 8 "                    \
    "--moe-router-topk 2 --moe-ffn-hidden-size 32 --moe-layer-freq [0,1] --moe-router-score-function sigmoid "         \
    "--moe-router-enable-expert-bias --moe-router-num-groups 4 --moe-router-group-topk 2 "                             \
    "--moe-router-topk-scaling-factor 2.5 --moe-shared-expert-intermediate-size 64 --mtp-num-layers 1 "
static const struct {
    const char *model, *recipe;
} block_mixtures[] = {
    {"--num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 64 --moe-aux-loss-coeff 1e-2 --swiglu "
     "--disable-bias-linear --position-embedding-type rope --normalization RMSNorm",
     "--fp8-format e4m3 --fp8-recipe mxfp8"},
    {"--num-experts 16 --moe-router-topk 3 --moe-ffn-hidden-size 32 --moe-expert-capacity-factor 1.3 --activation gelu",
     "--fp8-format hybrid --fp8-recipe mxfp8"},
    {"--num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 32 --quick-geglu --glu-linear-offset 1 "
     "--activation-func-clamp-value 0.4 --moe-expert-capacity-factor 1 --moe-pad-expert-input-to-capacity",
     "--fp8-format e4m3 --fp8-recipe mxfp8"},
    {DEEPSEEK, "--fp8-format e4m3 --fp8-recipe mxfp8"},
};
enum { BLOCK_MIXTURES = sizeof block_mixtures / sizeof block_mixtures[0] };

TEST(experts_learn_by_blocks) {
    for (int i = 0; i < BLOCK_MIXTURES; i++) {
        const char *model = block_mixtures[i].model, *recipe = block_mixtures[i].recipe;
        int micro_batches = i % 2 ? 1 : 3;
        char *again = memory_printf("%s --recompute-granularity %s", recipe,
                                    i < 2 ? "full --recompute-method uniform" : "selective --recompute-modules moe");
        struct curve half = train_with(model, "", micro_batches), blocks = train_with(model, recipe, micro_batches);
        struct curve recomputed = train_with(model, again, micro_batches);
        printf("    %.4f to %.4f in bf16, %.4f to %.4f with %s\n", half.first, half.last, blocks.first, blocks.last,
               recipe);
        EXPECT(half.last < 0.8 * half.first);
        EXPECT(fabs(blocks.first - half.first) < 0.01 * half.first && blocks.first != half.first);
        EXPECT(fabs(blocks.last - half.last) < 0.05 * half.first);
        EXPECT(blocks.last == recomputed.last && blocks.evaluated == recomputed.evaluated);
        free(again);
    }
}

// Latent attention, with and without a latent of queries and norms of latents, and with experts.
static const char *const latents[] = {
    "--multi-latent-attention --q-lora-rank 64 --kv-lora-rank 32 --qk-head-dim 16 --qk-pos-emb-head-dim 32 "
    "--v-head-dim 16 --qk-layernorm --position-embedding-type rope --normalization RMSNorm --swiglu "
    "--disable-bias-linear",
    "--multi-latent-attention --kv-lora-rank 32 --qk-head-dim 16 --qk-pos-emb-head-dim 32 --v-head-dim 32 "
    "--position-embedding-type rope --activation gelu",
    "--multi-latent-attention --q-lora-rank 32 --kv-lora-rank 48 --qk-head-dim 24 --qk-pos-emb-head-dim 16 "
    "--v-head-dim 8 --qk-layernorm --position-embedding-type rope --swiglu --disable-bias-linear --num-experts 4 "
    "--moe-router-topk 2 --moe-ffn-hidden-size 32 --moe-layer-freq [0,1] --norm-placement both",
};
enum { LATENTS = sizeof latents / sizeof latents[0] };

// Ways to recompute in turn, the projections always.
static void expect_recompute(const char *model, const char *recipe, int micro_batches, struct curve kept) {
    static const char *const ways[] = {"full --recompute-method uniform", "selective",
                                       "selective --recompute-modules mla_up_proj core_attn mlp_act"};
    static size_t turn;
    const char *two[] = {"selective --recompute-modules mla_up_proj", ways[turn++ % 3]};
    for (int i = 0; i < 2; i++) {
        char *flags = memory_printf("%s --recompute-granularity %s", recipe, two[i]);
        struct curve again = train_with(model, flags, micro_batches);
        EXPECT(again.last == kept.last && again.evaluated == kept.evaluated);
        free(flags);
    }
}

TEST(latent_attention_learns_in_8_bits) {
    static const char *const recipes[] = {"", "--fp8-format hybrid", "--fp8-format hybrid --fp8-recipe tensorwise",
                                          "--fp8-format e4m3 --fp8-recipe mxfp8"};
    for (int i = 0; i < LATENTS; i++) {
        const char *model = latents[i];
        int micro_batches = i == 0 ? 3 : 1;
        struct curve half = train_with(model, "", micro_batches);
        EXPECT(half.last < 0.8 * half.first);
        for (int k = 0; k < 4; k++) {
            if (k == 3 && i == 2)  // its latents are not multiples of 32
                continue;
            struct curve curve = k == 0 ? half : train_with(model, recipes[k], micro_batches);
            printf("    %.4f to %.4f %s\n", curve.first, curve.last, recipes[k]);
            EXPECT(fabs(curve.first - half.first) < 0.01 * half.first && (curve.first != half.first) == (k > 0));
            EXPECT(fabs(curve.last - half.last) < 0.05 * half.first);
            expect_recompute(model, recipes[k], micro_batches, curve);
        }
    }
}

// All projections of the latents are quantized, and those that read the same input have one range for it.
TEST(projections_of_latents_are_in_8_bits) {
    for (int i = 0; i < LATENTS; i++) {
        struct train_lab lab;
        struct feed feed = {.form = CONFIG_GPT};
        struct step_source source = {.next = next_input, .context = &feed, .count = 1};
        open_lab(&lab, latents[i], "--fp8-format hybrid", 1);
        EXPECT_OK(step_train(lab.step, &source, 3e-3, 0));
        step_settle(lab.step);
        const struct fp8 *fp8 = &lab.step->chunks[0].model.fp8;
        int projections = 0;
        for (int k = 0; k < fp8->count; k++) {
            const char *name = fp8->layers[k].weight->name;
            bool is_second = strstr(name, "linear_kv_down_proj") != NULL;
            projections += strstr(name, ".self_attention.linear_") != NULL;
            for (int role = 0; role < FP8_ROLES; role++) {
                const float *range = (const float *)fp8->ranges.data + (k * FP8_ROLES + role) * RANGE_LENGTH;
                EXPECT((range[RANGE_SCALE] == 1) == (is_second && role == FP8_INPUT));
            }
        }
        EXPECT_INT(projections, i == 1 ? 2 * 4 : 2 * 5);
        lab_close(&lab);
    }
}

TEST(a_history_of_several_steps_and_a_margin) {
    struct curve half = train("", "");
    struct curve careful = train("", "--fp8-format hybrid --fp8-amax-history-len 4 --fp8-amax-compute-algo max "
                                     "--fp8-margin 1");
    EXPECT(fabs(careful.last - half.last) < 0.05 * half.first);
}

// ---- the first and last layers in bf16 ----

// One step of a model of three layers whose middle ones add nothing: their last matrices are 0, so what is before and
// behind them sees the same numbers in any precision. Appends the gradients of those layers to
// `middle`, and all others to `others`.
static double step_around(const char *model, const char *flags, struct buffer *others, struct buffer *middle) {
    struct train_lab lab;
    char *more = memory_printf("--num-layers 3 %s", flags);
    open_lab(&lab, model, more, 1);
    const struct param_list *params = step_params(lab.step);
    for (int i = 0; i < params->count; i++) {
        const char *name = params->items[i]->name;
        if (strstr(name, ".layers.1.") && (strstr(name, "linear_proj.weight") || strstr(name, "linear_fc2.weight")))
            device_zero(lab.device, params->items[i]->value);
    }
    struct feed feed = {.form = lab.config.model.form};
    EXPECT_OK(step_train(lab.step, &(struct step_source){.next = next_input, .context = &feed, .count = 1}, 0, 0));
    double loss = step_result(lab.step).loss;
    step_settle(lab.step);
    for (int i = 0; i < params->count; i++)
        buffer_append(strstr(params->items[i]->name, ".layers.1.") ? middle : others, params->items[i]->grad.data,
                      tensor_bytes(params->items[i]->grad));
    lab_close(&lab);
    free(more);
    return loss;
}

static bool is_equal(const struct buffer *a, const struct buffer *b) {
    return a->length == b->length && memcmp(a->data, b->data, a->length) == 0;
}

TEST(first_and_last_layers_stay_in_bf16) {
    static const char *const recipes[] = {"--fp8-format hybrid", "--fp8-format hybrid --fp8-recipe tensorwise",
                                          "--fp8-format hybrid --fp8-recipe mxfp8", "--fp4-format e2m1"};
    for (int i = 0; i < 14; i++) {
        bool is_fp4 = i == 2 || i == 5;  // of decoders without experts
        const char *model = i < 12 ? models[i / 3] : mixtures[0];
        const char *recipe = recipes[is_fp4 ? 3 : i < 12 ? i % 3 : i % 2];
        char *kept = memory_printf("%s --first-last-layers-bf16", recipe);
        struct buffer half[2] = {{0}}, mixed[2] = {{0}}, eighth[2] = {{0}};
        double want = step_around(model, "", &half[0], &half[1]);
        EXPECT(step_around(model, kept, &mixed[0], &mixed[1]) == want);
        EXPECT(is_equal(&half[0], &mixed[0]) && !is_equal(&half[1], &mixed[1]));
        EXPECT(step_around(model, recipe, &eighth[0], &eighth[1]) != want && !is_equal(&half[0], &eighth[0]));
        for (int k = 0; k < 2; k++) {
            buffer_free(&half[k]);
            buffer_free(&mixed[k]);
            buffer_free(&eighth[k]);
        }
        free(kept);
    }
}

// With none at the start and two at the end, only the first of three layers is in fp8; in each of two stacks.
TEST(layers_in_bf16_are_counted) {
    struct train_lab lab;
    open_lab(&lab, models[3],
             "--num-layers 3 --fp8-format hybrid --first-last-layers-bf16 --num-layers-at-start-in-bf16 0 "
             "--num-layers-at-end-in-bf16 2",
             1);
    const struct fp8 *fp8 = &lab.step->chunks[0].model.fp8;
    enum { ENCODER = 4, DECODER = 7 };  // two matrices of an MLP, two of attention, and three of cross-attention
    EXPECT_INT(fp8->count, ENCODER + DECODER);
    for (int i = 0; i < fp8->count; i++)
        EXPECT(strstr(fp8->layers[i].weight->name, ".layers.0.") != NULL);
    lab_close(&lab);
}

// ---- stopping and resuming ----

enum { BEFORE = 3, AFTER = 3 };

struct fp8_stretch {
    struct step_result results[AFTER];
    struct buffer state;  // weights and both moments
};

// Every second micro-batch differs from the others, so each step has other ranges.
static void go_on(struct train_lab *lab, int64_t done, int steps, struct fp8_stretch *stretch) {
    struct feed feed = {.form = lab->config.model.form, .next = done, .unlike = 2};
    struct step_source source = {.next = next_input, .context = &feed, .count = 1};
    for (int i = 0; i < steps; i++) {
        EXPECT_OK(step_train(lab->step, &source, 3e-3, 0.1));
        stretch->results[i] = step_result(lab->step);
    }
    step_settle(lab->step);
    const struct optimizer_state *states = step_optimizer(lab->step, 0)->states;
    const struct tensor parts[] = {step_values(lab->step), states[0].tensor, states[1].tensor};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        buffer_append(&stretch->state, parts[i].data, tensor_bytes(parts[i]));
}

static bool is_same(const struct fp8_stretch *a, const struct fp8_stretch *b) {
    bool is = a->state.length == b->state.length && memcmp(a->state.data, b->state.data, a->state.length) == 0;
    for (int i = 0; i < AFTER; i++)
        is = is && a->results[i].loss == b->results[i].loss && a->results[i].grad_norm == b->results[i].grad_norm;
    return is;
}

// Some steps of a run with these flags, then a save, then more steps.
static void run_through(const char *model, const char *flags, const char *folder, struct fp8_stretch *rest) {
    struct train_lab lab;
    struct fp8_stretch first = {0};
    char *more = memory_printf("%s --save %s --save-interval 3", flags, folder);
    open_lab(&lab, model, more, 1);
    go_on(&lab, 0, BEFORE, &first);
    EXPECT_OK(state_save(&(struct run_state){
        .step = lab.step, .config = &lab.config, .progress = &(struct progress_state){.iteration = BEFORE}}));
    *rest = (struct fp8_stretch){0};
    go_on(&lab, BEFORE, AFTER, rest);
    buffer_free(&first.state);
    lab_close(&lab);
    free(more);
}

// The same steps by a run that resumes from the save. With `forgets`, it loses its ranges.
static void run_again(const char *model, const char *flags, const char *folder, bool forgets,
                      struct fp8_stretch *rest) {
    struct train_lab lab;
    struct progress_state progress = {0};
    char *path = checkpoint_path(folder, BEFORE);
    open_lab(&lab, model, flags, 1);
    EXPECT_OK(
        state_load(&(struct run_state){.step = lab.step, .config = &lab.config, .progress = &progress}, path, true));
    EXPECT_INT(progress.iteration, BEFORE);
    if (forgets)
        fp8_reset(&lab.step->chunks[0].model.fp8, lab.device);
    *rest = (struct fp8_stretch){0};
    go_on(&lab, BEFORE, AFTER, rest);
    lab_close(&lab);
    free(path);
}

TEST(a_resumed_run_goes_on_bit_for_bit) {
    static const struct {
        const char *flags;
        bool is_delayed;
    } recipes[] = {{"--fp8-format hybrid", true},
                   {"--fp8-format hybrid --fp8-amax-history-len 4 --fp8-amax-compute-algo max", true},
                   {"--fp8-format hybrid --fp8-recipe tensorwise", false},
                   {"--fp8-format hybrid --num-layers 3 --first-last-layers-bf16", true},
                   {"--fp8-format e4m3 --fp8-recipe mxfp8", false}};
    for (int i = 0; i < 22; i++) {
        int recipe = i < 18 ? i % 3 : i < 21 ? 3 : 4;
        const char *const others[] = {mixtures[0], latents[0], mixtures[0],
                                      models[1],   latents[0], block_mixtures[0].model};
        const char *model = i < 12 ? models[i / 3] : others[i < 18 ? i / 3 - 4 : i - 16],
                   *flags = recipes[recipe].flags;
        struct temporary folder = temporary_create();
        struct fp8_stretch through, resumed, forgetful;
        run_through(model, flags, folder.path, &through);
        run_again(model, flags, folder.path, false, &resumed);
        run_again(model, flags, folder.path, true, &forgetful);
        EXPECT(is_same(&through, &resumed));
        EXPECT(is_same(&through, &forgetful) == !recipes[recipe].is_delayed);
        buffer_free(&through.state);
        buffer_free(&resumed.state);
        buffer_free(&forgetful.state);
        temporary_remove(&folder);
    }
}

// Such a run continues like one that has lost them: its first step measures.
TEST(a_run_resumes_without_ranges_too) {
    static const char *const saved[] = {"", "--fp8-format hybrid --fp8-amax-history-len 4",
                                        "--fp8-format hybrid --first-last-layers-bf16 --num-layers-at-end-in-bf16 0"};
    const char *flags = "--fp8-format hybrid";
    for (int i = 0; i < 3; i++) {
        struct temporary folder = temporary_create();
        struct fp8_stretch through, resumed, forgetful;
        run_through("", saved[i], folder.path, &through);
        run_again("", flags, folder.path, false, &resumed);
        run_again("", flags, folder.path, true, &forgetful);
        EXPECT(is_same(&resumed, &forgetful) && !is_same(&resumed, &through));
        buffer_free(&resumed.state);
        // Saved ranges do not disturb a run in bf16.
        run_again("", "", folder.path, false, &resumed);
        EXPECT(is_same(&resumed, &through) == (i == 0));
        buffer_free(&through.state);
        buffer_free(&resumed.state);
        buffer_free(&forgetful.state);
        temporary_remove(&folder);
    }
}

static int validate(const char *flags) {
    char *line = memory_printf("train --mock-data --train-iters 10 --lr 1e-3 --vocab-size 100 --num-layers 2 "
                               "--hidden-size 64 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2 %s",
                               flags);
    struct config config;
    struct string_list words = {0};
    for (char *word = line, *next; word; word = next) {
        next = strchr(word, ' ');
        if (next)
            *next++ = '\0';
        if (*word)
            string_list_add(&words, word);
    }
    int status = config_parse(&config, (int)words.count, words.items);
    if (status == 0)
        status = config_validate(&config, 1);
    config_free(&config);
    string_list_free(&words);
    free(line);
    return status;
}

TEST(flags_that_do_not_fit_are_refused) {
    EXPECT_OK(validate("--bf16 --fp8-format hybrid"));
    EXPECT_ERROR(validate("--fp8-format hybrid"), "--bf16");
    EXPECT_ERROR(validate("--bf16 --fp8-format e4m3"), "hybrid");
    // Blocks end early only where no rank splits a size.
    EXPECT_OK(validate("--bf16 --fp8-format e4m3 --fp8-recipe blockwise"));
    EXPECT_ERROR(validate("--bf16 --fp8-format e4m3 --fp8-recipe blockwise --tensor-model-parallel-size 2"),
                 "multiples of 128 where ranks split a size");
    EXPECT_ERROR(validate("--bf16 --fp8-format e4m3 --fp8-recipe blockwise --hidden-size 72"), "multiples of 16, but");
    EXPECT_ERROR(validate("--bf16 --fp8-format e4m3 --fp8-recipe mxfp8 --fp8-output-proj"),
                 "--fp8-output-proj needs --fp8-recipe delayed or tensorwise");
    EXPECT_ERROR(validate("--bf16 --fp8-output-proj"), "--fp8-output-proj needs --fp8-format");
    EXPECT_ERROR(validate("--bf16 --fp8-format hybrid --fp8-output-proj --padded-vocab-size 40"), "divisible-by 16,");
    EXPECT_ERROR(validate("--bf16 --fp8-format hybrid --hidden-size 72"), "--hidden-size is 72");
    EXPECT_ERROR(validate("--bf16 --fp8-format hybrid --ffn-hidden-size 100"), "--ffn-hidden-size is 100");
    EXPECT_ERROR(validate("--bf16 --fp8-format hybrid --seq-length 20"), "40 tokens");
    const char *latent = "--bf16 --fp8-format hybrid --multi-latent-attention --position-embedding-type rope "
                         "--q-lora-rank 48 --kv-lora-rank 32 --qk-head-dim 16 --qk-pos-emb-head-dim 16 --v-head-dim 16";
    static const char *const wrong[][2] = {{"--q-lora-rank 40", "--q-lora-rank is 40"},
                                           {"--kv-lora-rank 24", "--kv-lora-rank is 24"},
                                           {"--qk-pos-emb-head-dim 10", "--qk-pos-emb-head-dim is 42"},
                                           {"--v-head-dim 6", "this rank's values is 24"}};
    EXPECT_OK(validate(latent));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char *flags = memory_printf("%s %s", latent, wrong[i][0]);
        EXPECT_ERROR(validate(flags), wrong[i][1]);
        free(flags);
    }
    const char *dense = "only if all MLPs are routed experts";
    EXPECT_ERROR(validate("--bf16 --fp8-format hybrid --swiglu --glu-linear-offset 1"), dense);
    EXPECT_ERROR(validate("--bf16 --fp8-format hybrid --swiglu --activation-func-clamp-value 7 --num-experts 4 "
                          "--moe-layer-freq [0,1]"),
                 dense);
    EXPECT_ERROR(validate("--bf16 --fp8-format hybrid --swiglu --activation-func-clamp-value 7 --num-experts 4 "
                          "--disable-bias-linear --moe-shared-expert-intermediate-size 32"),
                 dense);
    // A width that no layer has does not matter.
    EXPECT_OK(validate("--bf16 --fp8-format hybrid --ffn-hidden-size 100 --num-experts 4 --moe-ffn-hidden-size 32"));
    EXPECT_ERROR(validate("--bf16 --fp8-format hybrid --ffn-hidden-size 100 --num-experts 4 --moe-ffn-hidden-size 32 "
                          "--moe-layer-freq [0,1]"),
                 "--ffn-hidden-size is 100");
    EXPECT_ERROR(validate("--bf16 --fp8-format hybrid --ffn-hidden-size 100 --num-experts 4"), "expert's width is 100");
    EXPECT_OK(validate("--bf16 --fp8-format hybrid --fp8-fast-input-gradients"));
    EXPECT_ERROR(validate("--bf16 --fp8-format hybrid --fp8-recipe mxfp8 --fp8-fast-input-gradients"), "leave it out");
    EXPECT_ERROR(validate("--bf16 --fp8-fast-input-gradients"),
                 "belongs to --fp8-format --fp8-recipe delayed or tensorwise");
    EXPECT_OK(validate("--bf16 --fp4-format e2m1 --fp4-recipe nvfp4"));
    EXPECT_OK(validate("--bf16 --fp8-format hybrid --first-last-layers-bf16 --num-layers-at-end-in-bf16 0"));
    EXPECT_OK(validate("--bf16 --first-last-layers-bf16"));
    EXPECT_ERROR(validate("--bf16 --fp8-format hybrid --first-last-layers-bf16"), "and the model has 2");
    EXPECT_ERROR(validate("--bf16 --fp4-format e2m1 --first-last-layers-bf16 --num-layers-at-start-in-bf16 0 "
                          "--num-layers-at-end-in-bf16 3"),
                 "keeps 0 layers at the start and 3 at the end");
    EXPECT_ERROR(validate("--bf16 --fp8-format hybrid --first-last-layers-bf16 --num-layers-at-start-in-bf16 -1"),
                 "--num-layers-at-start-in-bf16");
    EXPECT_ERROR(validate("--fp4-format e2m1"), "--bf16");
    EXPECT_ERROR(validate("--bf16 --fp4-format e2m1 --fp8-format hybrid"), "leave one out");
    EXPECT_ERROR(validate("--bf16 --fp4-format e2m1 --model bert"), "--fp4-format belongs to --model gpt");
    EXPECT_ERROR(validate("--bf16 --fp4-format e2m1 --ffn-hidden-size 144"), "--fp4-format needs multiples of 32");
}

TEST_MAIN(TEST_CASE(models_learn_in_8_bits), TEST_CASE(decoders_learn_in_4_bits), TEST_CASE(experts_learn_in_8_bits),
          TEST_CASE(experts_learn_by_blocks), TEST_CASE(first_and_last_layers_stay_in_bf16),
          TEST_CASE(layers_in_bf16_are_counted), TEST_CASE(latent_attention_learns_in_8_bits),
          TEST_CASE(projections_of_latents_are_in_8_bits), TEST_CASE(recompute_changes_nothing),
          TEST_CASE(a_history_of_several_steps_and_a_margin), TEST_CASE(a_resumed_run_goes_on_bit_for_bit),
          TEST_CASE(a_run_resumes_without_ranges_too), TEST_CASE(flags_that_do_not_fit_are_refused))
