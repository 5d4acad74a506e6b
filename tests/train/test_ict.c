// ICT against transformers' encoders (tests/golden/make_models.py): the scores, the loss, the top-k accuracies and
// every gradient of a micro-batch, then ten training steps; and recompute, which must not change the last bit.
#include "base/file.h"
#include "base/log.h"
#include "lab.h"
#include "train/state.h"

static const char *const kinds[] = {"ict", "ict_shared"};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

// Scores are the inner products of the embeddings returned by the step.
static void check_embeddings(const char *name, const char *more, double bound) {
    struct golden_model g;
    golden_open(&g, name, more, STEP_EVALUATE, 2);
    struct step_source source = golden_source(&g);
    EXPECT_OK(step_evaluate(g.step, &source));
    struct step_embeddings embeddings = step_evaluated_embeddings(g.step);
    int64_t B = g.config.run.micro_batch_size, E = embeddings.queries.shape[1];
    EXPECT_INT(embeddings.contexts.shape[0], B);
    EXPECT_INT(E, g.config.model.biencoder_projection_dim > 0 ? g.config.model.biencoder_projection_dim
                                                              : g.config.model.hidden_size);
    float *queries = memory_alloc(tensor_bytes(embeddings.queries)),
          *contexts = memory_alloc(tensor_bytes(embeddings.contexts));
    device_copy_out(g.device, queries, embeddings.queries);
    device_copy_out(g.device, contexts, embeddings.contexts);
    double scale = g.config.model.retriever_score_scaling ? 1 / sqrt((double)g.config.model.hidden_size) : 1;
    for (int64_t i = 0; i < B * B; i++) {
        double score = 0, want = (double)golden_float(&g, "logits", i);
        for (int64_t e = 0; e < E; e++)
            score += (double)queries[i / B * E + e] * (double)contexts[i % B * E + e];
        if (!(fabs(scale * score - want) <= bound * (1 + fabs(want))))
            test_fail("%s: score %d is %.8f, expected %.8f", name, (int)i, scale * score, want);
    }
    double loss = step_result(g.step).loss, want = (double)golden_float(&g, "losses", 0);
    EXPECT(fabs(loss - want) < bound * want);
    free(queries);
    free(contexts);
    golden_close(&g);
}

TEST(embeddings) {
    for (int i = 0; i < KINDS; i++)
        check_embeddings(kinds[i], "", 1e-5);
}

// A constant added to the embeddings of all contexts moves all scores of a query equally and does not change its loss:
// the gradients of these biases are only rounding.
static bool is_common(const char *name) {
    return strcmp(name, "context_model.projection_enc.bias") == 0 ||
           strcmp(name, "context_model.encoder.final_layernorm.bias") == 0;
}

static void check_gradients(const struct golden_model *g) {
    for (int i = 0; i < step_params(g->step)->count; i++) {
        const struct param *param = step_params(g->step)->items[i];
        double error = golden_error(g, param->grad, golden_find(g, "grad.", param->name));
        if (!is_common(param->name) && !(error < 1e-4))
            test_fail("%s: gradient of %s is off by %.3g", g->name, param->name, error);
    }
}

TEST(training) {
    for (int k = 0; k < KINDS; k++) {
        struct golden_model g;
        golden_open(&g, kinds[k], "", STEP_TRAIN, 2);
        for (int64_t i = 0; i < GOLDEN_STEPS; i++) {
            struct step_source source = golden_source(&g);
            EXPECT_OK(step_train(g.step, &source, 2e-3, 0.1));
            struct step_result result = step_result(g.step);
            if (i == 0)
                check_gradients(&g);
            double want = (double)golden_float(&g, "losses", i);
            if (!(fabs(result.loss - want) <= 2e-5 * want))
                test_fail("%s: the loss of step %d is %.8f, expected %.8f", kinds[k], (int)i, result.loss, want);
            EXPECT_NEAR(result.grad_norm, golden_float(&g, "grad_norms", i), 2e-4);
            EXPECT_INT(result.tops, 2);
            for (int t = 0; t < result.tops; t++)
                EXPECT_NEAR(result.accuracies[t], golden_float(&g, "tops", 2 * i + t), 1e-6);
        }
        golden_close(&g);
    }
}

// The losses of all steps with additional flags.
static void train_with(const char *name, const char *more, double losses[GOLDEN_STEPS]) {
    struct golden_model g;
    golden_open(&g, name, more, STEP_TRAIN, 2);
    for (int64_t i = 0; i < GOLDEN_STEPS; i++) {
        struct step_source source = golden_source(&g);
        EXPECT_OK(step_train(g.step, &source, 2e-3, 0.1));
        losses[i] = step_result(g.step).loss;
    }
    golden_close(&g);
}

TEST(recompute) {
    static const char *const ways[] = {"--recompute-granularity full", "--recompute-granularity selective"};
    for (int k = 0; k < KINDS; k++) {
        double plain[GOLDEN_STEPS], again[GOLDEN_STEPS];
        train_with(kinds[k], "", plain);
        for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
            train_with(kinds[k], ways[w], again);
            for (int i = 0; i < GOLDEN_STEPS; i++)
                EXPECT(plain[i] == again[i]);
        }
    }
}

TEST(sixteen_bits) {
    for (int k = 0; k < KINDS; k++) {
        double plain[GOLDEN_STEPS], rounded[GOLDEN_STEPS];
        train_with(kinds[k], "", plain);
        train_with(kinds[k], "--bf16", rounded);
        for (int i = 0; i < 3; i++)
            EXPECT_NEAR(rounded[i], plain[i], 0.06);
        train_with(kinds[k], "--fp16 --initial-loss-scale 256", rounded);
        for (int i = 0; i < 3; i++)
            EXPECT_NEAR(rounded[i], plain[i], 0.01);
    }
}

// In fp32: from masters, if there are any.
static void read_param(const struct train_lab *lab, const char *name, float *out) {
    struct tensor masters[PARAM_MOST_GROUPS];
    const struct param *param = param_find(step_params(lab->step), name);
    if (!param)
        test_fail("there is no %s", name);
    step_open_masters(lab->step, masters);
    struct tensor value = masters[0].data ? param_at(param, masters[0], param->offset) : param->value;
    EXPECT(value.dtype == DTYPE_F32);
    device_copy_out(lab->device, out, value);
    step_close_masters(lab->step);
}

static void expect_equal(const struct train_lab *a, const char *name, const struct train_lab *b, const char *other) {
    static float x[4096], y[4096];
    const struct param *param = param_find(step_params(a->step), name);
    EXPECT(param && shard_local_count(&param->shard) <= 4096);
    read_param(a, name, x);
    read_param(b, other, y);
    if (memcmp(x, y, sizeof *x * (size_t)shard_local_count(&param->shard)) != 0)
        test_fail("%s is not %s", name, other);
}

static void expect_drawn(const struct train_lab *ict) {
    static const char query[] = "query_model.projection_enc.weight";
    static float x[4096];
    expect_equal(ict, query, ict, "context_model.projection_enc.weight");
    read_param(ict, query, x);
    EXPECT(x[0] != 0 && x[1] != 0 && x[0] != x[1]);
}

// Every tensor of the BERT except those of its heads is in both towers, whose projections are the same random one.
static void load_bert(const char *folder, const char *more) {
    static const char size[] = "--num-layers 2 --hidden-size 12 --num-attention-heads 4 --seq-length 9 "
                               "--micro-batch-size 3 --padded-vocab-size 37 --init-method-std 0.4";
    static const char *const parts[] = {"embedding.", "encoder."};
    struct train_lab bert, ict;
    char *line = memory_printf("--model bert %s --save %s", size, folder);
    lab_open(&bert, line);
    free(line);
    struct progress_state at = {.iteration = 1};
    EXPECT_OK(state_save(&(struct run_state){.step = bert.step, .config = &bert.config, .progress = &at}));
    line = memory_printf("--model ict %s --bert-load %s --seed 77 %s", size, folder, more);
    lab_open(&ict, line);
    free(line);
    EXPECT_OK(bert_load(ict.step, &ict.config));
    int compared = 0;
    bool is_shared = ict.config.model.biencoder_shared_query_context_model;
    for (int i = 0; i < step_params(bert.step)->count; i++)
        for (size_t k = 0; k < 2; k++) {
            const char *name = step_params(bert.step)->items[i]->name;
            char *query = memory_printf("%s%s", is_shared ? "shared_model." : "query_model.", name);
            char *context = memory_printf("%s%s", is_shared ? "shared_model." : "context_model.", name);
            if (strncmp(name, parts[k], strlen(parts[k])) == 0) {
                expect_equal(&ict, query, &bert, name);
                expect_equal(&ict, context, &bert, name);
                compared++;
            }
            free(query);
            free(context);
        }
    EXPECT_INT(compared, 3 + 2 * 12 + 2);
    if (!is_shared && ict.config.model.biencoder_projection_dim > 0)
        expect_drawn(&ict);
    lab_close(&ict);
    lab_close(&bert);
}

TEST(bert_for_both_towers) {
    char folder[] = "/tmp/bevatron-test-XXXXXX";
    EXPECT(mkdtemp(folder));
    log_set_level(LOG_ERROR);
    load_bert(folder, "--biencoder-projection-dim 5");
    load_bert(folder, "--biencoder-projection-dim 5 --bf16");
    load_bert(folder, "--biencoder-shared-query-context-model");
    (void)file_remove_tree(folder);
}

TEST_MAIN(TEST_CASE(embeddings), TEST_CASE(training), TEST_CASE(recompute), TEST_CASE(sixteen_bits),
          TEST_CASE(bert_for_both_towers))
