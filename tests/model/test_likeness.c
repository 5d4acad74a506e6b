// Whether two configurations describe the same model: by their flags, however they are spelled.
#include "config/flags.h"
#include "config/parse_line.h"
#include "model/likeness.h"
#include "test.h"

static struct config config;

static int parse(const char *line) {
    return parse_line(&config, line);
}

// Whether a checkpoint of one run has the model of another, by their flags.
static int check_flags(const char *there, const char *here) {
    struct buffer text = {0};
    struct json_writer writer = {.out = &text};
    struct json *object = NULL;
    EXPECT_OK(parse(there));
    config_to_json(&config, &writer);
    EXPECT_OK(json_parse(&object, buffer_string(&text), text.length, "x"));
    EXPECT_OK(parse(here));
    int status = likeness_check_json(object, &config, false, "x");
    json_free(object);
    buffer_free(&text);
    return status;
}

// A model with other flags that mean the same is the same; one that only looks similar is not.
TEST(json_of_other_spellings) {
#define ROPE "--hidden-size 32 --num-attention-heads 4 --kv-channels 8 --position-embedding-type rope "
#define EXPERTS "--num-layers 4 --ffn-hidden-size 8 --num-experts 4 "
    EXPECT_OK(check_flags("", ""));
    EXPECT_OK(check_flags("--activation squared_relu", "--squared-relu"));
    EXPECT_OK(check_flags("--squared-relu --no-bias-gelu-fusion", "--squared-relu"));
    EXPECT_OK(check_flags("--activation silu --gated-linear-unit", "--swiglu"));
    EXPECT_OK(check_flags("--activation gelu", "--no-bias-gelu-fusion"));
    EXPECT_OK(check_flags("--disable-bias-linear --add-attention-bias --add-mlp-bias --swiglu", "--swiglu"));
    EXPECT_OK(
        check_flags("--num-attention-heads 8 --group-query-attention --num-query-groups 8", "--num-attention-heads 8"));
    EXPECT_OK(check_flags("--model t5 --num-layers 4 --decoder-num-layers 4", "--model t5 --num-layers 4"));
    EXPECT_OK(check_flags("--model bert --num-token-types 2", "--model bert"));
    // Flags say nothing without what they are about.
    EXPECT_OK(check_flags("--rotary-base 5 --rope-low-freq-factor 2 --scale-alibi --relative-attention-num-buckets 8 "
                          "--kv-lora-rank 5 --rotary-base-local 7 --glu-linear-offset 1 --biencoder-projection-dim 3",
                          ""));
    EXPECT_OK(check_flags(ROPE "--rotary-percent 0.51", ROPE "--rotary-percent 0.5"));
    EXPECT_OK(check_flags(ROPE "--yarn-beta-fast 3 --rope-scaling-factor 4", ROPE));
    EXPECT_OK(check_flags("",
                          "--moe-router-topk 3 --moe-layer-freq 2 --moe-ffn-hidden-size 8 --moe-router-num-groups 2 "
                          "--moe-router-score-function sigmoid --moe-expert-capacity-factor 1"));
    EXPECT_OK(check_flags("--num-layers 4 --sliding-window 9 --window-attn-skip-freq [1,0]*2",
                          "--num-layers 4 --sliding-window 9 --window-attn-skip-freq 2"));
    EXPECT_OK(check_flags("--num-layers 4 --window-attn-skip-freq [0]*4 --sliding-window 9", "--num-layers 4"));
    EXPECT_ERROR(
        check_flags("--num-layers 4 --sliding-window 9 --window-attn-skip-freq 2", "--num-layers 4 --sliding-window 9"),
        "--window-attn-skip-freq is 2 there and None here");
    EXPECT_OK(check_flags(EXPERTS "--moe-layer-freq [0,1]*2", EXPERTS "--moe-layer-freq [0,1,0,1]"));
    EXPECT_OK(check_flags(EXPERTS "--moe-layer-freq [1]*4", EXPERTS));
    EXPECT_OK(check_flags(EXPERTS "--moe-router-topk-scaling-factor 1", EXPERTS));
    // A capacity acts in training alone.
    EXPECT_OK(check_flags(EXPERTS, EXPERTS "--moe-expert-capacity-factor 1 --moe-token-drop-policy position"));
    EXPECT_OK(check_flags(EXPERTS "--moe-expert-capacity-factor 1 --moe-pad-expert-input-to-capacity", EXPERTS));
    EXPECT_OK(check_flags(EXPERTS "--moe-ffn-hidden-size 8", EXPERTS));
    EXPECT_ERROR(check_flags(EXPERTS "--moe-layer-freq [0,1]*2", EXPERTS),
                 "--moe-layer-freq is [0,1]*2 there and 1 here");
    EXPECT_ERROR(check_flags(EXPERTS "--moe-router-topk-scaling-factor 2", EXPERTS),
                 "--moe-router-topk-scaling-factor is 2 there and 1 here");
    EXPECT_ERROR(check_flags(EXPERTS "--moe-ffn-hidden-size 16", EXPERTS),
                 "--moe-ffn-hidden-size is 16 there and 8 here");
    EXPECT_ERROR(check_flags(EXPERTS "--moe-router-pre-softmax", EXPERTS), "--moe-router-pre-softmax is true there");
    EXPECT_ERROR(check_flags(EXPERTS, EXPERTS "--moe-router-topk 3"), "--moe-router-topk is 2 there and 3 here");
    EXPECT_ERROR(check_flags("", EXPERTS), "--num-experts is None there and 4 here");
    EXPECT_ERROR(check_flags("--swiglu", "--activation silu"), "--gated-linear-unit is true there and false here");
    EXPECT_ERROR(check_flags("--activation squared_relu", ""), "--activation is squared_relu there and gelu_tanh here");
    // Without biases GELU has another form, which is the only difference here.
    EXPECT_ERROR(check_flags("--disable-bias-linear --add-attention-bias --add-mlp-bias", ""),
                 "--activation is gelu there and gelu_tanh here");
    EXPECT_ERROR(
        check_flags("--num-attention-heads 8 --group-query-attention --num-query-groups 4", "--num-attention-heads 8"),
        "--num-query-groups is 4 there and 8 here");
    EXPECT_ERROR(check_flags("--model t5 --num-layers 4 --decoder-num-layers 2", "--model t5 --num-layers 4"),
                 "--decoder-num-layers is 2 there and 4 here");
    EXPECT_ERROR(check_flags("--model bert --bert-no-binary-head", "--model bert"),
                 "--bert-no-binary-head is true there and false here");
    config_free(&config);
}

// The configuration in a checkpoint: a missing field has its default, a hostile one is an error.
TEST(json_of_others) {
    static const struct {
        const char *json, *message;
    } rows[] = {{"{\"num_layers\": 2}", "x holds another model: --hidden-size is None there and 8 here; give"},
                {"{\"num_layers\": [2]}", "x: the configuration's \"num_layers\" is neither a number nor a text"},
                {"{\"num_layers\": -2}", "x: --num-layers takes a whole number"},
                {"[1]", "not a JSON object"}};
    EXPECT_OK(parse("--num-layers 2 --hidden-size 8"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct json *object = NULL;
        EXPECT_OK(json_parse(&object, rows[i].json, strlen(rows[i].json), "x"));
        EXPECT_ERROR(likeness_check_json(object, &config, false, "x"), rows[i].message);
        json_free(object);
    }
    config_free(&config);
}

// Sets a flag to another value than it has.
static void change(struct config *other, const struct flag *flag) {
    struct flag_table table = config_flag_table(0);
    struct buffer text = {0};
    const void *slot = (const char *)other + flag->offset;
    if (flag->type == FLAG_BOOL)
        buffer_append_string(&text, *(const bool *)slot ? "false" : "true");
    else if (flag->type == FLAG_INT)
        buffer_printf(&text, "%lld", *(const long long *)slot + (*(const long long *)slot < flag->maximum ? 1 : -1));
    else if (flag->type == FLAG_DOUBLE)
        buffer_printf(&text, "%.17g", *(const double *)slot < flag->maximum ? *(const double *)slot + 0.25 : 0.5);
    else if (flag->type == FLAG_ENUM) {
        const char *has = flag_value_text(flag, *(const int *)slot), *name = NULL;
        for (size_t i = 0; (name = flag_choice_at(flag, i)) && strcmp(name, has ? has : "gelu_tanh") == 0; i++)
            ;
        buffer_append_string(&text, name);
    } else
        buffer_append_string(&text, strstr(flag->name, "factor") ? "2,2,2,2" : "[1,0]*2");
    EXPECT_OK(flag_set(&table, other, flag->name, buffer_string(&text), FLAG_FROM_COMMAND));
    buffer_free(&text);
}

// Each flag of the model makes another one of at least one of these.
TEST(no_flag_goes_unnoticed) {
#define SIZE "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --kv-channels 8 --ffn-hidden-size 64 "
#define SCALED SIZE "--position-embedding-type rope --use-rope-scaling --max-position-embeddings 64 "
#define LATENT                                                                                                         \
    SIZE "--position-embedding-type rope --multi-latent-attention --qk-pos-emb-head-dim 8 --rotary-scaling-factor 4 "
    static const char *const models[] = {
        SIZE,
        SCALED "--rope-scaling-type llama3 --rope-original-length 128",
        SCALED "--rope-scaling-type yarn --rope-original-length 512 --yarn-beta-fast 2 --yarn-beta-slow 0.5 "
               "--no-yarn-correction-range-round-to-int",
        SCALED "--rope-scaling-type longrope --rope-original-length 32",
        LATENT "--original-max-position-embeddings 512 --no-yarn-correction-range-round-to-int",
        SIZE "--position-embedding-type relative --sliding-window 2 --rotary-base-local 100",
        SIZE "--position-embedding-type alibi --swiglu",
        SIZE "--disable-bias-linear --num-query-groups 2 --group-query-attention",
        SIZE "--num-experts 4 --moe-router-num-groups 2 --moe-router-group-topk 1 --moe-layer-freq [0]+[1]*3",
        SIZE "--model bert",
        SIZE "--model t5",
        SIZE "--model ict"};
    struct flag_table table = config_flag_table(0);
    const struct flag *flag;
    for (size_t i = 0; (flag = flag_at(&table.rows, i)); i++) {
        if (!(flag->uses & USE_MODEL))
            continue;
        size_t noticed = 0;
        for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
            struct config other;
            struct buffer text = {0};
            EXPECT_OK(parse(models[m]));
            config_copy(&other, &config);
            likeness_compare(&config, &other, LIKENESS_SAME, &text);
            EXPECT_STRING(buffer_string(&text), "");
            change(&other, flag);
            likeness_compare(&config, &other, LIKENESS_SAME, &text);
            noticed += text.length > 0;
            buffer_free(&text);
            config_free(&other);
        }
        if (noticed == 0)
            test_fail("%s goes unnoticed", flag->name);
    }
    config_free(&config);
}

// Settings that a run that begins with weights may change, and settings that it may not.
TEST(weights_of_others) {
    static const struct {
        const char *there, *here, *message;  // "": the same
        enum likeness kind;
    } rows[] = {
        {ROPE "--max-position-embeddings 64", ROPE "--max-position-embeddings 32", "", LIKENESS_WEIGHTS},
        {"--max-position-embeddings 64", "--max-position-embeddings 32",
         "--max-position-embeddings is 64 there and 32 here", LIKENESS_WEIGHTS},
        {ROPE "--max-position-embeddings 64", ROPE "--max-position-embeddings 32",
         "--max-position-embeddings is 64 there and 32 here", LIKENESS_SAME},
        {ROPE "--use-rope-scaling --rope-scaling-type yarn", ROPE, "--use-rope-scaling is true there and false here",
         LIKENESS_WEIGHTS},
        {"--position-embedding-type alibi", "--position-embedding-type none",
         "--position-embedding-type is alibi there and none here", LIKENESS_WEIGHTS},
        {"--quick-geglu --glu-linear-offset 1 --activation-func-clamp-value 7", "--quick-geglu",
         "--glu-linear-offset is 1 there and 0 here, --activation-func-clamp-value is 7 there and None here",
         LIKENESS_WEIGHTS},
        {"--model bert --lm-head-activation gelu", "--model bert",
         "--lm-head-activation is gelu there and gelu_tanh here", LIKENESS_WEIGHTS},
        {"--model bert --lm-head-activation gelu", "--model bert", "", LIKENESS_NEAR},
        {"--model t5 --scale-tied-output", "--model t5", "--scale-tied-output is true there and false here",
         LIKENESS_WEIGHTS},
        {"--model bert", "--model bert --num-token-types 0", "", LIKENESS_WRITTEN},
        {"--model bert --bert-no-binary-head --lm-head-activation gelu", "--model ict --biencoder-projection-dim 4", "",
         LIKENESS_WEIGHTS},
        {"--model bert", "--model ict", "--model is bert there and ict here", LIKENESS_SAME},
        {"--num-attention-heads 4 --swiglu", "--num-attention-heads 4", "", LIKENESS_HEADS},
        {"--num-attention-heads 4", "--num-attention-heads 4 --group-query-attention --num-query-groups 2",
         "--num-query-groups is 4 there and 2 here", LIKENESS_HEADS},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct config there;
        struct buffer text = {0};
        EXPECT_OK(parse(rows[i].there));
        config_copy(&there, &config);
        EXPECT_OK(parse(rows[i].here));
        likeness_compare(&there, &config, rows[i].kind, &text);
        EXPECT_STRING(buffer_string(&text), rows[i].message);
        buffer_free(&text);
        config_free(&there);
    }
    config_free(&config);
}

TEST_MAIN(TEST_CASE(json_of_other_spellings), TEST_CASE(json_of_others), TEST_CASE(no_flag_goes_unnoticed),
          TEST_CASE(weights_of_others))
