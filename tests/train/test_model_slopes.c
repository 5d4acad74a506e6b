// Models that no reference has, with unusual choices: the gradient of every parameter against finite differences of the
// loss, with dropout, whose masks stay the same. And every family of the goldens in 16 bits.
#include "lab.h"
#include "model/census.h"

enum { ROWS = 3, COLUMNS = 9, DECODER_COLUMNS = 5 };

static const struct {
    const char *name, *flags;
} models[] = {
    {"T5 with learned positions, biases and groups",
     "--model t5 --decoder-seq-length 5 --group-query-attention --num-query-groups 2 --add-output-bias "
     "--logits-at-once 4"},
    {"T5 with rotary positions, SwiGLU and its own output",
     "--model t5 --decoder-seq-length 5 --position-embedding-type rope --swiglu --ffn-hidden-size 10 "
     "--untie-embeddings-and-output-weights --normalization RMSNorm"},
    {"T5 with relative positions and few layers",
     "--model t5 --decoder-seq-length 5 --encoder-num-layers 3 --decoder-num-layers 1 --scale-tied-output "
     "--position-embedding-type relative --relative-attention-num-buckets 6 --relative-attention-max-distance 7"},
    {"T5 with relative positions of each layer",
     "--model t5 --decoder-seq-length 5 --encoder-num-layers 3 --decoder-num-layers 2 --relative-attention-per-layer "
     "--position-embedding-type relative --relative-attention-num-buckets 6 --relative-attention-max-distance 7"},
    {"T5 with relative positions of each layer, recomputed",
     "--model t5 --decoder-seq-length 5 --encoder-num-layers 3 --decoder-num-layers 2 --relative-attention-per-layer "
     "--position-embedding-type relative --relative-attention-num-buckets 6 --relative-attention-max-distance 7 "
     "--recompute-granularity full --recompute-num-layers 2"},
    {"BERT, post-norm with RMSNorm and no biases",
     "--model bert --norm-placement post --normalization RMSNorm --disable-bias-linear --activation relu "
     "--logits-at-once 10"},
    {"BERT with relative positions, recomputed",
     "--model bert --position-embedding-type relative --relative-attention-num-buckets 6 "
     "--relative-attention-max-distance 7 --recompute-granularity full"},
    {"BERT with rotary positions, gated",
     "--model bert --position-embedding-type rope --rotary-interleaved --rotary-percent 0.5 --gated-linear-unit"},
    {"GPT with a window, documents and partial rotation",
     "--position-embedding-type rope --rotary-percent 0.5 --sliding-window 4 --reset-attention-mask --activation silu"},
    {"GPT without positions, one group, biases on q, k and v alone",
     "--position-embedding-type none --group-query-attention --num-query-groups 1 --disable-bias-linear --add-qkv-bias "
     "--recompute-granularity selective"},
    {"GPT with relative positions and a bias at the end",
     "--position-embedding-type relative --relative-attention-num-buckets 6 --relative-attention-max-distance 7 "
     "--add-output-bias --kv-channels 6 --gated-linear-unit --activation relu"},
    {"GPT with ALiBi and a norm of words",
     "--position-embedding-type alibi --embed-layernorm --group-query-attention --num-query-groups 2 "
     "--reset-attention-mask --sliding-window 6"},
    {"GPT with ALiBi that is scaled, without biases, recomputed",
     "--position-embedding-type alibi --scale-alibi --no-norm-bias --disable-bias-linear --activation gelu "
     "--softmax-type learnable --recompute-granularity full"},
    {"GPT with a norm of words before learned positions", "--embed-layernorm --recompute-granularity selective"},
    {"GPT with parallel residuals, partial rotation and its own output",
     "--parallel-residual --position-embedding-type rope --rotary-percent 0.5 --activation gelu "
     "--untie-embeddings-and-output-weights"},
    {"GPT with parallel residuals, gated, norms of heads, no biases, recomputed",
     "--parallel-residual --swiglu --disable-bias-linear --normalization RMSNorm --qk-layernorm "
     "--recompute-granularity full"},
    {"GPT with parallel residuals and one norm, a bias at the end",
     "--parallel-residual --parallel-residual-one-norm --position-embedding-type rope --rotary-interleaved "
     "--rotary-percent 0.5 --add-output-bias --untie-embeddings-and-output-weights --recompute-granularity full"},
    {"GPT with norms of outputs, of all queries and of all keys",
     "--norm-placement output --qk-layernorm --qk-layernorm-all-heads --position-embedding-type rope "
     "--normalization RMSNorm --group-query-attention --num-query-groups 2 --swiglu"},
    {"GPT with gains of norms that differ by head",
     "--qk-layernorm --qk-layernorm-per-head --position-embedding-type rope --group-query-attention "
     "--num-query-groups 2"},
    {"GPT with norms of heads behind their rotation",
     "--qk-layernorm --qk-layernorm-after-rope --position-embedding-type rope --use-rope-scaling --rope-scaling-type "
     "yarn --rope-scaling-factor 4 --rope-original-length 4 --group-query-attention --num-query-groups 2"},
    {"GPT with norms of outputs, recomputed", "--norm-placement output --recompute-granularity full"},
    {"GPT with multipliers, norms of heads and a layer without positions",
     "--embedding-multiplier 3 --residual-multiplier 0.4 --logits-scaling 1.5 --softmax-scale 0.3 --no-rope-freq 2 "
     "--qk-layernorm --position-embedding-type rope --disable-bias-linear --normalization RMSNorm --gated-linear-unit"},
    {"GPT with a window in one layer, which has a rotary base of its own",
     "--window-size 2,0 --window-attn-skip-freq 2 --rotary-base-local 7 --position-embedding-type rope --rotary-base "
     "90 "
     "--rotary-seq-len-interpolation-factor 2"},
    {"GPT with norms before and behind sublayers, caps and sinks",
     "--norm-placement both --attn-logit-softcapping 0.7 --final-logit-softcapping 1.5 --softmax-type learnable "
     "--position-embedding-type rope --group-query-attention --num-query-groups 2 --qk-layernorm"},
    {"GPT with norms before and behind sublayers, multipliers, recomputed",
     "--norm-placement both --embedding-multiplier 3 --residual-multiplier 0.4 --position-embedding-type rope "
     "--disable-bias-linear --softmax-type learnable --attn-logit-softcapping 2 --sliding-window 3 "
     "--recompute-granularity full"},
    {"GPT with norms of outputs, multipliers and biases",
     "--norm-placement output --embedding-multiplier 3 --position-embedding-type rope --recompute-granularity "
     "selective"},
    {"GPT with experts, biases and all losses",
     "--num-experts 7 --moe-ffn-hidden-size 10 --moe-router-load-balancing-type aux_loss seq_aux_loss "
     "--moe-aux-loss-coeff 2 3 --moe-z-loss-coeff 0.5"},
    {"GPT with gated experts in groups, and shared ones, recomputed",
     "--num-experts 6 --moe-router-topk 4 --moe-router-num-groups 3 --moe-router-group-topk 2 --swiglu "
     "--disable-bias-linear --moe-shared-expert-intermediate-size 8 --moe-router-score-function sigmoid "
     "--moe-router-topk-scaling-factor 1.5 --moe-aux-loss-coeff 2 --recompute-granularity full"},
    {"GPT with experts, three losses and jitter", "--num-experts 6 --moe-router-load-balancing-type aux_loss "
                                                  "seq_aux_loss global_aux_loss --moe-aux-loss-coeff 1 2 3 "
                                                  "--moe-input-jitter-eps 0.3 --moe-router-score-function sigmoid"},
    {"GPT with experts, a loss over the global batch and jitter, recomputed",
     "--num-experts 5 --moe-router-load-balancing-type global_aux_loss --moe-aux-loss-coeff 4 --moe-input-jitter-eps "
     "0.2 --moe-shared-expert-intermediate-size 8 --disable-bias-linear --recompute-granularity full"},
    {"GPT with experts by Sinkhorn's algorithm and a z-loss",
     "--num-experts 5 --moe-router-load-balancing-type sinkhorn --moe-z-loss-coeff 0.5 --moe-router-topk 3"},
    {"GPT with one expert per token by Sinkhorn's algorithm, norms of outputs and jitter",
     "--num-experts 4 --moe-router-load-balancing-type sinkhorn --moe-router-topk 1 --norm-placement output "
     "--moe-input-jitter-eps 0.1 --recompute-granularity selective --recompute-modules moe"},
    {"GPT with experts and shared ones behind a gate",
     "--num-experts 3 --gated-linear-unit --disable-bias-linear --moe-shared-expert-intermediate-size 9 "
     "--moe-shared-expert-gate --moe-layer-freq 2"},
    {"GPT with gated experts that are bounded, biases and sinks",
     "--num-experts 5 --quick-geglu --glu-linear-offset 1 --activation-func-clamp-value 0.6 --softmax-type learnable "
     "--moe-ffn-hidden-size 10 --position-embedding-type rope --window-size 2,0 --window-attn-skip-freq 2"},
    {"GPT with a bounded gated MLP, recomputed",
     "--swiglu --glu-linear-offset -0.5 --activation-func-clamp-value 0.4 --recompute-granularity full"},
    {"GPT with experts, shared ones and multipliers",
     "--num-experts 4 --swiglu --disable-bias-linear --moe-shared-expert-intermediate-size 9 --embedding-multiplier 3 "
     "--residual-multiplier 0.4 --position-embedding-type rope --logits-scaling 1.5"},
    {"GPT with norms without biases, one for attention and MLP",
     "--no-norm-bias --parallel-residual --parallel-residual-one-norm --position-embedding-type rope "
     "--rotary-interleaved "
     "--disable-bias-linear --swiglu --sliding-window 3 --window-attn-skip-freq 2 --no-rope-freq 2 --logits-scaling "
     "0.7"},
    {"GPT with norms without biases, recomputed",
     "--no-norm-bias --qk-layernorm --position-embedding-type rope --apply-layernorm-1p --recompute-granularity full"},
    {"GPT with one expert per token, in every other layer, best kept",
     "--num-experts 3 --moe-router-topk 1 --moe-router-pre-softmax --moe-layer-freq 2 --moe-expert-capacity-factor 0.8 "
     "--moe-aux-loss-coeff 2 --moe-z-loss-coeff 0.5"},
    {"GPT with experts of a padded capacity, first kept, post-norm",
     "--num-experts 4 --moe-router-topk 3 --moe-router-score-function sqrtsoftplus --moe-layer-freq [0]+[1] "
     "--moe-expert-capacity-factor 0.7 --moe-pad-expert-input-to-capacity --moe-token-drop-policy position "
     "--moe-router-load-balancing-type seq_aux_loss --moe-aux-loss-coeff 2 --norm-placement post"},
    {"GPT with a large z-loss", "--z-loss-strength 0.5"},
    {"GPT with a z-loss, a cap and multipliers, some logits at a time",
     "--z-loss-strength 0.3 --final-logit-softcapping 1.5 --logits-scaling 1.5 --logits-at-once 7 "
     "--untie-embeddings-and-output-weights --add-output-bias"},
    {"GPT with two depths, learned positions and biases", "--mtp-num-layers 2 --mtp-loss-scaling-factor 1.7"},
    {"GPT with three depths, documents, its own output and a bias there, recomputed",
     "--mtp-num-layers 3 --mtp-loss-scaling-factor 2 --position-embedding-type rope --swiglu --normalization RMSNorm "
     "--reset-attention-mask --untie-embeddings-and-output-weights --add-output-bias --recompute-granularity full "
     "--logits-at-once 1"},
    {"GPT with a depth, multipliers, norms on both sides and caps",
     "--mtp-num-layers 1 --mtp-loss-scaling-factor 1.5 --norm-placement both --embedding-multiplier 3 "
     "--residual-multiplier 0.4 --logits-scaling 1.5 --position-embedding-type rope --disable-bias-linear "
     "--final-logit-softcapping 1.5 --sliding-window 3 --logits-at-once 7"},
    {"GPT with two depths of experts and all losses, narrow words, recomputed",
     "--mtp-num-layers 2 --mtp-loss-scaling-factor 2 --num-experts 5 --moe-ffn-hidden-size 10 --word-embedding-size 7 "
     "--moe-router-load-balancing-type aux_loss seq_aux_loss --moe-aux-loss-coeff 2 3 --moe-z-loss-coeff 0.5 "
     "--moe-shared-expert-intermediate-size 8 --disable-bias-linear --moe-layer-freq [0]+[1] "
     "--recompute-granularity full"},
    {"GPT with a dense depth behind experts, without positions",
     "--mtp-num-layers 1 --mtp-loss-scaling-factor 1 --num-experts 4 --moe-layer-freq [1]+[0] --qk-layernorm "
     "--position-embedding-type none --group-query-attention --num-query-groups 2"},
    {"GPT with two depths of latent attention and experts, recomputed",
     "--mtp-num-layers 2 --mtp-loss-scaling-factor 2 --multi-latent-attention --q-lora-rank 7 --kv-lora-rank 5 "
     "--qk-head-dim 4 --qk-pos-emb-head-dim 2 --v-head-dim 3 --position-embedding-type rope --disable-bias-linear "
     "--normalization RMSNorm --num-experts 4 --moe-router-score-function sigmoid --recompute-granularity full"},
    {"ICT with two towers and a projection", "--model ict --biencoder-projection-dim 5 --retriever-score-scaling"},
    {"ICT with one tower, recomputed",
     "--model ict --biencoder-shared-query-context-model --retriever-score-scaling --recompute-granularity full"},
    {"ICT with one post-norm tower and a projection",
     "--model ict --biencoder-shared-query-context-model --norm-placement post --biencoder-projection-dim 7 "
     "--retriever-score-scaling"},
    {"ICT with relative positions and no token types",
     "--model ict --num-token-types 0 --position-embedding-type relative --relative-attention-num-buckets 6 "
     "--relative-attention-max-distance 7 --biencoder-projection-dim 5 --retriever-score-scaling"},
};

static void open_lab(struct train_lab *lab, const char *flags) {
    char *line = memory_printf("--num-layers 2 --hidden-size 12 --num-attention-heads 4 --kv-channels 4 --seq-length 9 "
                               "--micro-batch-size 3 --padded-vocab-size 37 --max-position-embeddings 9 "
                               "--init-method-std 0.4 --ffn-hidden-size 14 %s",
                               flags);
    lab_open(lab, line);
    free(line);
}

// Always the same micro-batch.
static int next_input(void *context, struct batch *input) {
    static int32_t tokens[ROWS * COLUMNS], labels[ROWS * COLUMNS], types[ROWS * COLUMNS], starts[ROWS * COLUMNS];
    static int32_t decoder_tokens[ROWS * DECODER_COLUMNS];
    static float mask[ROWS * COLUMNS];
    static int32_t lengths[ROWS] = {9, 6, 3}, pairs[ROWS] = {1, 0, 1};
    static int32_t context_tokens[ROWS * COLUMNS], context_lengths[ROWS] = {4, 9, 7};
    static int64_t samples[ROWS] = {4, 5, 6};
    const struct train_lab *lab = context;
    enum config_form form = lab->config.model.form;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        tokens[i] = (i * 17 + 5) % 37;
        labels[i] = (i * 23 + 11) % 37;
        types[i] = i % 3 == 0;
        starts[i] = i % COLUMNS < 4 ? 0 : 4;
        mask[i] = i % 4 != 3 && (form != CONFIG_BERT || i % COLUMNS < lengths[i / COLUMNS]);
    }
    for (int i = 0; i < ROWS * DECODER_COLUMNS; i++)
        decoder_tokens[i] = (i * 7 + 3) % 37;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        context_tokens[i] = (i * 13 + 8) % 37;
    for (int i = 0; i < ROWS && form == CONFIG_ICT; i++)
        mask[i] = 1;
    *input = (struct batch){.B = ROWS,
                            .T = COLUMNS,
                            .tokens = tokens,
                            .labels = labels,
                            .loss_mask = mask,
                            .token_types = form == CONFIG_BERT ? types : NULL,
                            .lengths = form == CONFIG_GPT ? NULL : lengths,
                            .document_starts = lab->config.data.reset_attention_mask ? starts : NULL,
                            .pair_labels = form == CONFIG_BERT ? pairs : NULL,
                            .samples = samples};
    if (form == CONFIG_ICT) {
        input->context_tokens = context_tokens;
        input->context_lengths = context_lengths;
    }
    if (form == CONFIG_T5) {
        input->S = DECODER_COLUMNS;
        input->decoder_tokens = decoder_tokens;
    }
    return 0;
}

// The loss that is optimized, with the gradients left in place; a learning rate of 0 changes nothing.
static double loss_of(struct train_lab *lab) {
    struct step_source source = {.next = next_input, .context = lab, .count = 1};
    EXPECT_OK(step_train(lab->step, &source, 0, 0));
    struct step_result result = step_result(lab->step);
    struct config_balance balance = config_balance(&lab->config.model);
    const double coefficients[BALANCE_COUNT] = {balance.batch, balance.sequence, balance.global, balance.z};
    double loss = result.loss + result.pair_loss;
    for (int i = 0; i < BALANCE_COUNT; i++) {
        EXPECT(result.has_balance[i] == (lab->config.model.num_experts > 0 && coefficients[i] > 0));
        loss += coefficients[i] * result.balance[i] * (double)config_routed_layers(&lab->config.model);
    }
    EXPECT_INT(result.depths, lab->config.model.mtp_num_layers);
    for (int i = 0; i < result.depths; i++)
        loss += lab->config.model.mtp_loss_scaling_factor / result.depths * result.depth_losses[i];
    return loss;
}

static void move(struct train_lab *lab, const struct param *param, const float *from, const float *direction,
                 double step) {
    int64_t count = tensor_count(param->value);
    float *moved = memory_alloc(sizeof *moved * (size_t)count);
    for (int64_t i = 0; i < count; i++)
        moved[i] = from[i] + (float)step * direction[i];
    device_copy_in(lab->device, param->value, moved);
    device_synchronize(lab->device);
    free(moved);
}

// Along its own gradient a parameter changes the loss by the gradient's norm. Returns the relative error, 0 if the
// gradient is too small to measure (like that of the keys' biases, which is only rounding).
static double slope_error(struct train_lab *lab, const struct param *param, const float *gradient, double step) {
    int64_t count = tensor_count(param->value);
    float *value = memory_alloc(sizeof *value * (size_t)count),
          *direction = memory_alloc(sizeof *value * (size_t)count);
    double norm = 0, error = 0;
    for (int64_t i = 0; i < count; i++)
        norm += (double)gradient[i] * (double)gradient[i];
    norm = sqrt(norm);
    device_copy_out(lab->device, value, param->value);
    if (norm > 2e-3) {
        for (int64_t i = 0; i < count; i++)
            direction[i] = (float)((double)gradient[i] / norm);
        move(lab, param, value, direction, step);
        double ahead = loss_of(lab);
        move(lab, param, value, direction, -step);
        double behind = loss_of(lab);
        error = fabs((ahead - behind) / (2 * step) - norm) / (norm + 2e-2);
    }
    device_copy_in(lab->device, param->value, value);
    device_synchronize(lab->device);
    free(value);
    free(direction);
    return error;
}

TEST(slopes) {
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        struct train_lab lab;
        char *flags = memory_printf("--hidden-dropout 0.1 --attention-dropout 0.1 %s", models[m].flags);
        open_lab(&lab, flags);
        free(flags);
        EXPECT_INT(param_list_elements(step_params(lab.step)), census_parameters(&lab.config));
        (void)loss_of(&lab);
        // The loss over the global batch has the gradient of the loads of the step before.
        if (config_balance(&lab.config.model).global > 0)
            (void)loss_of(&lab);
        float *gradients = memory_alloc(sizeof *gradients * (size_t)step_params(lab.step)->total);
        for (int i = 0; i < step_params(lab.step)->count; i++) {
            const struct param *param = step_params(lab.step)->items[i];
            device_copy_out(lab.device, gradients + param->offset, param->grad);
        }
        double worst = 0;
        for (int i = 0; i < step_params(lab.step)->count; i++) {
            const struct param *param = step_params(lab.step)->items[i];
            double error = slope_error(&lab, param, gradients + param->offset, 4e-3);
            // A step may cross the kink of a ReLU, or change which experts a token goes to: beyond that the slope
            // differs. A short step does so only if it begins close to it; the error of a wrong gradient is the same
            // for all steps.
            bool has_kinks = strstr(models[m].flags, "--activation relu") || lab.config.model.num_experts > 0;
            for (double step = 5e-4; error >= 0.02 && has_kinks && step > 1e-4; step /= 2)
                error = slope_error(&lab, param, gradients + param->offset, step);
            worst = error > worst ? error : worst;
            if (!(error < 0.02))
                test_fail("%s: the slope along %s is off by %.3g", models[m].name, param->name, error);
        }
        printf("    %-62s slopes off by %.2g\n", models[m].name, worst);
        free(gradients);
        lab_close(&lab);
    }
}

// Three steps of a golden model whose master weights are the file's; losses within a bound of the file's.
static void train_rounded(const char *name, const char *flags, double bound) {
    struct golden_model g;
    golden_open(&g, name, flags, STEP_TRAIN, 2);
    for (int64_t i = 0; i < 3; i++) {
        struct step_source source = golden_source(&g);
        EXPECT_OK(step_train(g.step, &source, 2e-3, 0.1));
        struct step_result result = step_result(g.step);
        double want = (double)golden_float(&g, "losses", i);
        if (!(fabs(result.loss - want) <= bound * want))
            test_fail("%s with %s: loss of step %d is %.6f, expected %.6f", name, flags, (int)i, result.loss, want);
        EXPECT(isfinite(result.grad_norm));
    }
    golden_close(&g);
}

TEST(sixteen_bits) {
    for (int i = 0; i < GOLDEN_FAMILIES; i++) {
        train_rounded(golden_families[i], "--bf16", 2e-2);
        train_rounded(golden_families[i], "--fp16 --initial-loss-scale 256", 4e-3);
    }
}

TEST_MAIN(TEST_CASE(slopes), TEST_CASE(sixteen_bits))
