// Generation: the key/value cache changes nothing, sampling follows its distribution, and the window moves on.
#include "base/memory.h"
#include "ops/device.h"
#include "plan/setup.h"
#include "test.h"
#include "train/generate.h"
#include <string.h>

static struct device *device;
static struct world *world;
static struct step *step;
static struct config config;

enum { V = 37, P = 16 };

static void set_up_with(const char *const *flags) {
    config_defaults(&config);
    struct flag_table table = config_flag_table(0);
    for (; flags && *flags; flags += 2)
        EXPECT_OK(flag_set(&table, &config, flags[0], flags[1], FLAG_FROM_FILE));
    config.model.num_layers = 2;
    config.model.hidden_size = 24;
    config.model.num_attention_heads = 3;
    config.model.kv_channels = 8;
    config.model.ffn_hidden_size = 96;
    config.model.max_position_embeddings = P;
    config.run.seq_length = P;
    config.model.padded_vocab_size = 40;
    config.run.micro_batch_size = 1;
    config.model.init_method_std = 0.5;
    struct mesh mesh;
    EXPECT_OK(device_open(&device, &(struct device_options){.name = "cpu", .threads = 2}));
    EXPECT_OK(world_open(&world, &(struct world_options){.backend = "self"}, device));
    EXPECT_OK(mesh_place(&mesh, 0, 1, NULL));
    EXPECT_OK(mesh_connect(&mesh, world));
    EXPECT_OK(setup_step(&step, &(struct setup){&config, device, &mesh, STEP_GENERATE}));
    step_initialize(step);
}

static void set_up(void) {
    set_up_with(NULL);
}

static void tear_down(void) {
    step_close(step);
    world_close(world);
    device_close(device);
    config_free(&config);
}

// Tokens one at a time, through the cache, against all of them at once.
static void compare_cache(void) {
    int32_t tokens[P];
    float with_cache[40], whole[40];
    for (int t = 0; t < P; t++)
        tokens[t] = (t * 7 + 3) % V;
    for (int length = 1; length <= P; length++) {
        step_forget(step);
        step_logits(step, tokens, length, whole);
        step_forget(step);
        if (length > 2)
            step_logits(step, tokens, length / 2, with_cache);
        for (int t = length > 2 ? length / 2 : 0; t < length; t++)
            step_logits(step, tokens + t, 1, with_cache);
        for (int v = 0; v < 40; v++)
            EXPECT_NEAR(with_cache[v], whole[v], 2e-5);
    }
}

TEST(cache_equals_whole) {
    set_up();
    compare_cache();
    tear_down();
}

// A sink is in every softmax once, however many tokens come at a time, and windows and caps are those of training.
TEST(cache_with_sinks_and_caps) {
    static const char *const flags[] = {"--softmax-type",
                                        "learnable",
                                        "--attn-logit-softcapping",
                                        "0.7",
                                        "--final-logit-softcapping",
                                        "1.5",
                                        "--norm-placement",
                                        "both",
                                        "--sliding-window",
                                        "5",
                                        "--window-attn-skip-freq",
                                        "2",
                                        "--position-embedding-type",
                                        "rope",
                                        "--rotary-base-local",
                                        "100",
                                        NULL};
    set_up_with(flags);
    compare_cache();
    tear_down();
}

// Biases by distance count what is in the cache.
TEST(cache_with_alibi) {
    set_up_with((const char *const[]){"--position-embedding-type", "alibi", "--embed-layernorm", "true", NULL});
    compare_cache();
    tear_down();
}

// A sequence that outgrows the short frequencies is read again with the long ones.
TEST(cache_with_longrope) {
    static const char *const flags[] = {"--position-embedding-type",
                                        "rope",
                                        "--use-rope-scaling",
                                        "true",
                                        "--rope-scaling-type",
                                        "longrope",
                                        "--rope-original-length",
                                        "6",
                                        "--rope-scaling-factor",
                                        "4",
                                        "--rope-short-factor",
                                        "1,1.25,1.5,2",
                                        "--rope-long-factor",
                                        "2,5,9,40",
                                        NULL};
    set_up_with(flags);
    compare_cache();
    // With the other factors, logits are others: of 6 tokens those of the short ones, of 7 those of the long ones.
    float logits[2][2][40];
    int32_t tokens[7] = {1, 5, 9, 2, 30, 4, 17};
    for (int run = 0; run < 2; run++) {
        for (int more = 0; more < 2; more++) {
            step_forget(step);
            step_logits(step, tokens, 6 + more, logits[run][more]);
        }
        tear_down();
        const char *changed[sizeof flags / sizeof flags[0]];
        memcpy(changed, flags, sizeof flags);
        changed[13] = "7,7,7,7";
        set_up_with(changed);
    }
    EXPECT(memcmp(logits[0][0], logits[1][0], sizeof logits[0][0]) == 0);
    EXPECT(memcmp(logits[0][1], logits[1][1], sizeof logits[0][1]) != 0);
    tear_down();
}

// The cache of latent attention has latents and the keys' shared channels; keys and values are computed from it.
TEST(cache_of_latents) {
    static const char *const flags[] = {"--multi-latent-attention",
                                        "true",
                                        "--position-embedding-type",
                                        "rope",
                                        "--kv-lora-rank",
                                        "7",
                                        "--qk-head-dim",
                                        "4",
                                        "--qk-pos-emb-head-dim",
                                        "4",
                                        "--v-head-dim",
                                        "6",
                                        "--rotary-scaling-factor",
                                        "4",
                                        "--original-max-position-embeddings",
                                        "8",
                                        "--qk-layernorm",
                                        "true",
                                        "--q-lora-rank",
                                        "5",
                                        NULL};
    set_up_with(flags);
    compare_cache();
    tear_down();
    set_up_with((const char *const[]){"--multi-latent-attention", "true", "--position-embedding-type", "rope",
                                      "--qk-head-dim", "4", "--qk-pos-emb-head-dim", "4", "--v-head-dim", "11", NULL});
    compare_cache();
    tear_down();
}

struct sink {
    int32_t tokens[200];
    int count;
};

static int keep(void *context, int32_t token) {
    struct sink *sink = context;
    sink->tokens[sink->count++] = token;
    return 0;
}

static struct sink write_text(struct sampling sampling, int64_t count) {
    struct sink sink = {0};
    int32_t prompt[3] = {1, 2, 3};
    EXPECT_OK(generate_run(&(struct generate){.step = step,
                                              .prompt = prompt,
                                              .count = 3,
                                              .max_new_tokens = count,
                                              .end_token = -1,
                                              .vocab_size = V,
                                              .sampling = sampling,
                                              .accept = keep,
                                              .context = &sink}));
    return sink;
}

TEST(text_longer_than_the_window) {
    set_up();
    struct sampling sampling = {.temperature = 1, .top_p = 1, .seed = 5};
    struct sink a = write_text(sampling, 100), b = write_text(sampling, 100);
    EXPECT_INT(a.count, 100);
    for (int i = 0; i < a.count; i++) {
        EXPECT_INT(a.tokens[i], b.tokens[i]);
        EXPECT(a.tokens[i] >= 0 && a.tokens[i] < V);
    }
    sampling.seed = 6;
    b = write_text(sampling, 100);
    int same = 0;
    for (int i = 0; i < 100; i++)
        same += a.tokens[i] == b.tokens[i];
    EXPECT(same < 100);
    struct generate bad = {.step = step, .prompt = (int32_t[]){V}, .count = 1, .vocab_size = V, .accept = keep};
    EXPECT_ERROR(generate_run(&bad), "outside the model's vocabulary");
    tear_down();
}

TEST(logits_that_are_not_finite) {
    const float good[] = {-INFINITY, 0, -3}, nan[] = {0, NAN, 1}, infinite[] = {0, 1, INFINITY},
                none[] = {-INFINITY, -INFINITY, -INFINITY};
    EXPECT_OK(logits_check(good, 3));
    EXPECT_ERROR(logits_check(nan, 3), "the logit of token 1 is nan");
    EXPECT_ERROR(logits_check(infinite, 3), "the logit of token 2 is inf");
    EXPECT_ERROR(logits_check(none, 3), "not finite");
    set_up();
    const struct param_list *params = step_params(step);
    ((float *)params->items[params->count - 1]->value.data)[0] = NAN;
    struct sink sink = {0};
    struct generate generate = {.step = step,
                                .prompt = (int32_t[]){1},
                                .count = 1,
                                .max_new_tokens = 5,
                                .end_token = -1,
                                .vocab_size = V,
                                .sampling = {.is_greedy = true},
                                .accept = keep,
                                .context = &sink};
    EXPECT_ERROR(generate_run(&generate), "its weights have NaN");
    EXPECT_INT(error_exit_code(), EXIT_CODE_NOT_FINITE);
    EXPECT_INT(sink.count, 0);
    tear_down();
}

// Frequencies of 20000 draws against the probabilities.
static void check_frequencies(struct sampling sampling, const double *want) {
    enum { DRAWS = 20000, N = 5 };
    int counts[N] = {0};
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        float logits[N] = {0, logf(2), logf(3), logf(4), -1e30f};
        counts[sample_token(&sampling, logits, N, draw)]++;
    }
    for (int i = 0; i < N; i++) {
        double sigma = sqrt(want[i] * (1 - want[i]) / DRAWS);
        if (fabs((double)counts[i] / DRAWS - want[i]) > 4 * sigma + 1e-12)
            test_fail("token %d was drawn %d times of %d, expected %g", i, counts[i], DRAWS, want[i]);
    }
}

TEST(sampling) {
    check_frequencies((struct sampling){.temperature = 1, .top_p = 1}, (double[]){0.1, 0.2, 0.3, 0.4, 0});
    // Half the temperature squares the probabilities.
    check_frequencies((struct sampling){.temperature = 0.5, .top_p = 1},
                      (double[]){1 / 30.0, 4 / 30.0, 9 / 30.0, 16 / 30.0, 0});
    check_frequencies((struct sampling){.temperature = 1, .top_p = 1, .top_k = 2},
                      (double[]){0, 0, 3 / 7.0, 4 / 7.0, 0});
    // The two likeliest have 0.7, which reaches 0.6 only together.
    check_frequencies((struct sampling){.temperature = 1, .top_p = 0.6}, (double[]){0, 0, 3 / 7.0, 4 / 7.0, 0});
    check_frequencies((struct sampling){.temperature = 1, .top_p = 0.3}, (double[]){0, 0, 0, 1, 0});
    check_frequencies((struct sampling){.is_greedy = true}, (double[]){0, 0, 0, 1, 0});
    check_frequencies((struct sampling){.temperature = 0, .top_p = 1}, (double[]){0, 0, 0, 1, 0});
}

TEST_MAIN(TEST_CASE(cache_equals_whole), TEST_CASE(cache_with_sinks_and_caps), TEST_CASE(cache_with_alibi),
          TEST_CASE(cache_with_longrope), TEST_CASE(cache_of_latents), TEST_CASE(text_longer_than_the_window),
          TEST_CASE(logits_that_are_not_finite), TEST_CASE(sampling))
