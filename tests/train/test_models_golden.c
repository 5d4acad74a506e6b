// Every family against transformers: logits, loss and every gradient of a micro-batch, then ten training steps; the
// same text token by token through the cache; and recompute, which must not change a single bit.
#include "golden_model.h"

// The losses of multi-token prediction, if the file has them.
static void check_depths(const struct golden_model *g, const struct step_result *result, int64_t step) {
    const struct safetensors_tensor *table = safetensors_find(&g->file, "depth_losses");
    EXPECT_INT(result->depths, table ? table->shape[1] : 0);
    for (int i = 0; i < result->depths; i++) {
        double want = (double)golden_float(g, "depth_losses", step * result->depths + i);
        if (!(fabs(result->depth_losses[i] - want) <= 2e-5 * want))
            test_fail("%s: loss of depth %d in step %d is %.8f, expected %.8f", g->name, i + 1, (int)step,
                      result->depth_losses[i], want);
    }
}

// Logits at padding have no meaning, and families differ there.
static void check_logits(const char *name, int threads) {
    struct golden_model g;
    golden_open(&g, name, "", STEP_EVALUATE, threads);
    struct step_source source = golden_source(&g);
    EXPECT_OK(step_evaluate(g.step, &source));
    // The arena was released, but nothing has been written since.
    double error = 0;
    int64_t B = g.config.run.micro_batch_size, V = step_vocabulary(g.step);
    struct tensor logits = step_evaluated_logits(g.step);
    int64_t rows = tensor_count(logits) / V / B;  // of a sample
    const int32_t *lengths = g.config.model.form == CONFIG_BERT ? golden_row(&g, "lengths", 0) : NULL;
    struct safetensors_tensor want_logits = *golden_find(&g, "", "logits"), part = want_logits;
    for (int64_t b = 0; b < B; b++) {
        int64_t count = (lengths ? lengths[b] : rows) * V, first = b * rows * V;
        part.data = want_logits.data + sizeof(float) * (size_t)first;
        part.bytes = sizeof(float) * (size_t)count;
        error = fmax(error, golden_error(&g, tensor_rows(logits, first, count), &part));
    }
    struct step_result result = step_result(g.step);
    check_depths(&g, &result, 0);
    double loss = result.loss, want = (double)golden_float(&g, "losses", 0);
    printf("    %-14s logits off by %.2g, loss by %.2g\n", name, error, fabs(loss - want) / want);
    if (!(error < 1e-5))
        test_fail("logits of %s are off by %.3g", name, error);
    EXPECT(fabs(loss - want) < 1e-5 * want);
    golden_close(&g);
}

static void check_gradients(const struct golden_model *g) {
    double worst = 0;
    for (int i = 0; i < step_params(g->step)->count; i++) {
        const struct param *param = step_params(g->step)->items[i];
        double error = golden_error(g, param->grad, golden_find(g, "grad.", param->name));
        worst = error > worst ? error : worst;
        if (!(error < 1e-4))
            test_fail("%s: gradient of %s is off by %.3g", g->name, param->name, error);
    }
    printf("    %-14s gradients off by %.2g\n", g->name, worst);
}

// The losses of routers, if the file has them.
static void check_balance(const struct golden_model *g, const struct step_result *result, int64_t step) {
    static const enum balance_kind kinds[] = {BALANCE_BATCH, BALANCE_SEQUENCE, BALANCE_Z};
    const int count = sizeof kinds / sizeof kinds[0];
    for (int i = 0; i < count && safetensors_find(&g->file, "balances"); i++) {
        double want = (double)golden_float(g, "balances", step * count + i), loss = result->balance[kinds[i]];
        EXPECT(result->has_balance[kinds[i]]);
        if (!(fabs(loss - want) <= 2e-5 * want))
            test_fail("%s: loss %d of the routers in step %d is %.8f, expected %.8f", g->name, i, (int)step, loss,
                      want);
    }
}

// The tokens of experts in a step and the bias that follows from them, exactly, if the file has them.
static void check_bias(const struct golden_model *g, const struct step_result *result, int64_t step) {
    const struct safetensors_tensor *path = safetensors_find(&g->file, "expert_bias");
    for (int64_t l = 0; path && l < path->shape[1]; l++) {
        float bias[64];
        int64_t E = path->shape[2], layers = path->shape[1];
        device_copy_out(g->device, bias, step_expert_bias(g->step, l));
        for (int64_t e = 0; e < E; e++) {
            double tokens = (double)golden_float(g, "expert_counts", (step * layers + l) * E + e);
            EXPECT_NEAR((double)result->expert_counts[l * E + e], tokens, 0);
            EXPECT_NEAR(bias[e], golden_float(g, "expert_bias", ((step + 1) * layers + l) * E + e), 0);
        }
    }
}

static void train(const char *name, const char *flags, int threads) {
    struct golden_model g;
    golden_open(&g, name, flags, STEP_TRAIN, threads);
    for (int64_t i = 0; i < GOLDEN_STEPS; i++) {
        struct step_source source = golden_source(&g);
        EXPECT_OK(step_train(g.step, &source, 2e-3, 0.1));
        struct step_result result = step_result(g.step);
        if (i == 0)
            check_gradients(&g);
        double want = (double)golden_float(&g, "losses", i), pair = (double)golden_float(&g, "pair_losses", i);
        if (!(fabs(result.loss - want) <= 2e-5 * want && fabs(result.pair_loss - pair) <= 1e-4))
            test_fail("%s: losses of step %d are %.8f and %.8f, expected %.8f and %.8f", name, (int)i, result.loss,
                      result.pair_loss, want, pair);
        EXPECT_NEAR(result.grad_norm, golden_float(&g, "grad_norms", i), 2e-4);
        check_balance(&g, &result, i);
        check_depths(&g, &result, i);
        check_bias(&g, &result, i);
    }
    golden_close(&g);
}

TEST(logits) {
    for (int i = 0; i < GOLDEN_FAMILIES; i++)
        check_logits(golden_families[i], 2);
}

TEST(training) {
    for (int i = 0; i < GOLDEN_FAMILIES; i++)
        train(golden_families[i], "", 2);
}

TEST(training_with_logits_in_parts) {
    for (int i = 0; i < GOLDEN_FAMILIES; i++)
        train(golden_families[i], "--logits-at-once 5", 2);
}

TEST(cuda) {
    if (cuda_count() == 0)
        test_skip("no GPU");
    for (int i = 0; i < GOLDEN_FAMILIES; i++) {
        check_logits(golden_families[i], 0);
        train(golden_families[i], "", 0);
        train(golden_families[i], "--logits-at-once 5", 0);
    }
}

// The first sample of the file, `piece` tokens at a time; logits of the last token of each piece equal those of the
// whole.
static void generate(const char *name, int64_t piece) {
    struct golden_model g;
    golden_open(&g, name, "", STEP_GENERATE, 2);
    int64_t V = step_vocabulary(g.step);
    int32_t *tokens = golden_row(&g, "tokens", 0);
    int64_t count = g.config.run.seq_length;
    if (step_has_encoder(g.step)) {
        step_encode(g.step, tokens, *(const int32_t *)golden_row(&g, "lengths", 0));
        tokens = golden_row(&g, "decoder_tokens", 0);
        count = g.config.run.decoder_seq_length;
    }
    const struct safetensors_tensor *whole = golden_find(&g, "", "logits");
    float *logits = memory_alloc(sizeof(float) * (size_t)V);
    for (int64_t done = 0; done < count;) {
        int64_t now = count - done < piece ? count - done : piece;
        step_logits(g.step, tokens + done, now, logits);
        done += now;
        for (int64_t v = 0; v < V; v++) {
            float want;
            memcpy(&want, whole->data + sizeof want * (size_t)((done - 1) * V + v), sizeof want);
            if (!(fabsf(logits[v] - want) < 2e-5f * (1 + fabsf(want))))
                test_fail("%s: logit %d after %d tokens is %.7f, expected %.7f", name, (int)v, (int)done,
                          (double)logits[v], (double)want);
        }
    }
    free(logits);
    golden_close(&g);
}

TEST(cache) {
    for (int i = 0; i < GOLDEN_FAMILIES; i++) {
        if (strstr(golden_families[i], "bert"))
            continue;
        generate(golden_families[i], 1);
        generate(golden_families[i], 3);
        generate(golden_families[i], 100);
    }
}

TEST(bert_does_not_generate) {
    struct golden_model g = {.name = "bert"};
    EXPECT_OK(safetensors_open(&g.file, "tests/golden/models/bert.safetensors"));
    golden_parse(&g, "");
    struct mesh mesh;
    EXPECT_OK(device_open(&g.device, &(struct device_options){.name = "cpu", .threads = 1}));
    EXPECT_OK(mesh_place(&mesh, 0, 1, NULL));
    EXPECT_ERROR(setup_step(&g.step, &(struct setup){&g.config, g.device, &mesh, STEP_GENERATE}),
                 "does not generate text");
    golden_close(&g);
}

static int next_one(void *context, struct batch *input) {
    *input = *(const struct batch *)context;
    return 0;
}

// Logits (T, V) of one row of tokens, in which documents begin according to starts and positions.
static float *logits_of(struct golden_model *g, int32_t *tokens, int64_t T, int32_t *starts, int32_t *positions) {
    static int32_t labels[64];
    static float mask[64];
    struct batch input = {.B = 1,
                          .T = T,
                          .tokens = tokens,
                          .positions = positions,
                          .labels = labels,
                          .loss_mask = mask,
                          .document_starts = starts};
    struct step_source source = {.next = next_one, .context = &input, .count = 1};
    EXPECT_OK(step_evaluate(g->step, &source));
    float *logits = memory_alloc(sizeof(float) * (size_t)(T * step_vocabulary(g->step)));
    device_copy_out(g->device, logits, step_evaluated_logits(g->step));
    return logits;
}

// A document after another one in a row gives the same as alone: --reset-attention-mask with --reset-position-ids.
TEST(documents_are_apart) {
    static const char *const families[] = {"gpt2", "opt", "llama2", "mistral"};
    static int32_t starts[11] = {0, 0, 0, 0, 4, 4, 4, 4, 4, 9, 9}, positions[11] = {0, 1, 2, 3, 0, 1, 2, 3, 4, 0, 1};
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        struct golden_model g;
        golden_open(&g, families[i], "--reset-attention-mask", STEP_EVALUATE, 2);
        int32_t *tokens = golden_row(&g, "tokens", 0);
        int64_t V = step_vocabulary(g.step);
        float *whole = logits_of(&g, tokens, 11, starts, positions), *alone = logits_of(&g, tokens + 4, 5, NULL, NULL);
        for (int64_t n = 0; n < 5 * V; n++)
            if (!(fabsf(whole[4 * V + n] - alone[n]) < 2e-5f * (1 + fabsf(alone[n]))))
                test_fail("%s: logit %d is %.7f behind another document and %.7f alone", families[i], (int)n,
                          (double)whole[4 * V + n], (double)alone[n]);
        free(whole);
        free(alone);
        golden_close(&g);
    }
}

// Two steps with dropout; returns all weights.
static float *weights_after(const char *name, const char *flags, int64_t *count, size_t *activations) {
    struct golden_model g;
    char *more = memory_printf("--hidden-dropout 0.1 --attention-dropout 0.2 %s", flags);
    golden_open(&g, name, more, STEP_TRAIN, 2);
    for (int i = 0; i < 2; i++) {
        struct step_source source = golden_source(&g);
        EXPECT_OK(step_train(g.step, &source, 2e-3, 0.1));
    }
    *count = tensor_count(step_values(g.step));
    *activations = step_memory(g.step)->activations;
    float *values = memory_alloc(sizeof(float) * (size_t)*count);
    device_copy_out(g.device, values, step_values(g.step));
    golden_close(&g);
    free(more);
    return values;
}

TEST(recompute_changes_nothing) {
    static const char *const families[] = {"gpt2", "llama2", "bert", "t5"};
    static const char *const ways[] = {
        "--recompute-granularity selective",
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 2",
        "--recompute-granularity full --recompute-method block --recompute-num-layers 1"};
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        int64_t count, other_count;
        size_t plain, less;
        float *expected = weights_after(families[i], "", &count, &plain);
        for (size_t j = 0; j < sizeof ways / sizeof ways[0]; j++) {
            float *actual = weights_after(families[i], ways[j], &other_count, &less);
            EXPECT_INT(other_count, count);
            if (memcmp(actual, expected, sizeof(float) * (size_t)count) != 0)
                test_fail("%s with %s has other weights", families[i], ways[j]);
            if (j != 2)
                EXPECT(less < plain);
            free(actual);
        }
        free(expected);
    }
}

static double first_loss(const char *name, const char *flags) {
    struct golden_model g;
    golden_open(&g, name, flags, STEP_EVALUATE, 2);
    struct step_source source = golden_source(&g);
    EXPECT_OK(step_evaluate(g.step, &source));
    double loss = step_result(g.step).loss;
    golden_close(&g);
    return loss;
}

// Activations kept by a training step.
static size_t kept_bytes(const char *name, const char *flags) {
    struct golden_model g;
    golden_open(&g, name, flags, STEP_TRAIN, 2);
    size_t bytes = step_memory(g.step)->activations;
    golden_close(&g);
    return bytes;
}

// Logits in parts are the same ones but for the rounding of other matmul kernels for few rows, and are not kept.
TEST(parts_change_no_loss) {
    for (int i = 0; i < GOLDEN_FAMILIES; i++) {
        const char *name = golden_families[i], *flags = "--logits-at-once 4";
        double whole = first_loss(name, "");
        EXPECT(fabs(first_loss(name, flags) - whole) <= 2e-7 * whole);
        EXPECT(kept_bytes(name, flags) < kept_bytes(name, ""));
    }
}

TEST_MAIN(TEST_CASE(logits), TEST_CASE(training), TEST_CASE(training_with_logits_in_parts),
          TEST_CASE(parts_change_no_loss), TEST_CASE(cache), TEST_CASE(bert_does_not_generate),
          TEST_CASE(documents_are_apart), TEST_CASE(recompute_changes_nothing), TEST_CASE(cuda))
