// Flags of a run that contradict each other, lack another, or have values that cannot be: one line per case, added to a
// complete run, with what the refusal says. Scripts only show one of each kind, for exit code and stderr; refusals that
// need files or a checkpoint are there, those of a layout of ranks in test_validate.c.
#include "base/log.h"
#include "parse_line.h"
#include "test.h"

static const char run[] = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 100 "
                          "--mock-data --micro-batch-size 2 --train-iters 100 --lr 1e-3 ";

struct refusal {
    const char *flags, *says;
};

static void expect_refusals(const struct refusal *refusals, size_t count) {
    struct config config = {0};
    log_set_level(LOG_ERROR);
    for (size_t i = 0; i < count; i++) {
        char *line = memory_printf("%s%s", run, refusals[i].flags);
        int status = parse_line(&config, line);
        if (status == 0)
            status = config_validate(&config, 1);
        free(line);
        if (status == 0)
            test_fail("%s is accepted", refusals[i].flags);
        if (strstr(error_message(), refusals[i].says) == NULL)
            test_fail("%s: no \"%s\" in: %s", refusals[i].flags, refusals[i].says, error_message());
        error_clear();
    }
    config_free(&config);
}
#define EXPECT_REFUSALS(...)                                                                                           \
    do {                                                                                                               \
        static const struct refusal refusals[] = {__VA_ARGS__};                                                        \
        expect_refusals(refusals, sizeof refusals / sizeof refusals[0]);                                               \
    } while (0)

TEST(values) {
    EXPECT_REFUSALS(
        {"--num-layers 20000", "--num-layers 20000 is above 16383; give fewer"},
        {"--num-attention-heads 3", "--hidden-size 64 is not a multiple of --num-attention-heads 3; nearest: "
                                    "--num-attention-heads 2 or --hidden-size 63"},
        {"--train-iters 1__0", "not \"1__0\""},
        {"--exp-avg-dtype int8", "--exp-avg-dtype takes one of fp32, bf16, fp16, fp8, not \"int8\""},
        {"--ema-decay 1", "--ema-decay takes a number, more than 0 to less than 1, not \"1\""},
        {"--ema-decay 0.99999999", "--ema-decay takes a number"}, {"--ema-decay nan", "--ema-decay takes a number"},
        {"--lion-beta2 1", "--lion-beta2 takes a number, from 0 to less than 1"},
        {"--adaptive-muon-eps 0", "--adaptive-muon-eps takes a number, more than 0"},
        {"--json-keys a/b", "cannot be part of a file name; rename the member in the text"},
        {"--tokenizer-type auto", "needs --vocab-size 257 or more"});
}

TEST(families) {
    EXPECT_REFUSALS({"--quick-geglu --swiglu",
                     "--swiglu does not work with --quick-geglu: they are two activations; leave one out"},
                    {"--squared-relu --swiglu", "--swiglu does not work with --squared-relu"},
                    {"--activation-func-clamp-value 7",
                     "needs --quick-geglu, --swiglu or --gated-linear-unit: it is about gated MLPs; give one"},
                    {"--model bert --qk-layernorm", "--qk-layernorm belongs to --model gpt; leave it out"},
                    {"--model bert --parallel-residual", "--parallel-residual belongs to --model gpt"},
                    {"--norm-placement post --parallel-residual", "--parallel-residual needs --norm-placement pre"},
                    {"--qk-layernorm-all-heads",
                     "--qk-layernorm-all-heads needs --qk-layernorm; give it, or leave --qk-layernorm-all-heads out"},
                    {"--qk-layernorm-after-rope", "--qk-layernorm-after-rope needs --qk-layernorm"},
                    {"--model bert --norm-placement output", "--norm-placement output belongs to --model gpt"},
                    {"--parallel-residual-one-norm", "--parallel-residual-one-norm needs --parallel-residual; give it"},
                    {"--residual-multiplier 0.5", "--residual-multiplier needs --disable-bias-linear"},
                    {"--embedding-multiplier 2",
                     "--embedding-multiplier needs --position-embedding-type rope, relative, alibi or none"},
                    {"--no-rope-freq 4", "--no-rope-freq needs --position-embedding-type rope; give it"});
}

TEST(experts) {
    EXPECT_REFUSALS({"--num-experts 4 --moe-router-enable-expert-bias",
                     "needs --moe-router-score-function sigmoid or sqrtsoftplus"},
                    {"--num-experts 4 --expert-model-parallel-size 2", "start a multiple of 2 ranks, or make it 1"});
}

TEST(optimizers) {
    EXPECT_REFUSALS(
        {"--optimizer muon --fp16", "--optimizer muon does not work with --fp16; give --bf16"},
        {"--optimizer adaptive_muon --fp16", "--optimizer adaptive_muon does not work with --fp16"},
        {"--muon-coefficient-type custom", "takes one of quintic, simple, polar_express"},
        {"--optimizer muon --muon-coefficient-type aol", "aol has 4 steps; more would begin again"},
        {"--optimizer muon --muon-coefficient-type cubic5 --muon-num-ns-steps 4",
         "cubic5 needs --muon-num-ns-steps 5; give it"},
        {"--qk-clip", "--qk-clip needs --optimizer muon or adaptive_muon, which updates whole matrices; give one"},
        {"--optimizer muon --qk-clip --qk-layernorm", "--qk-clip does nothing behind --qk-layernorm"},
        {"--optimizer-offload-fraction 0.5", "--optimizer-offload-fraction needs --optimizer-cpu-offload; give it"},
        {"--eval-with-ema", "--eval-with-ema needs --ema-decay, e.g. 0.999; give it"},
        {"--decoupled-min-lr 1e-4", "--decoupled-min-lr does nothing without --decoupled-lr; give both"},
        {"--min-lr 1e-3 --decoupled-lr 1e-4",
         "--min-lr 0.001 is above --decoupled-lr 0.0001; give a lower --decoupled-min-lr"});
}

TEST(inverse_cloze) {
    EXPECT_REFUSALS(
        {"--model ict --bf16 --fp8-format hybrid",
         "--fp8-format does not work with --model ict, which is not verified in fp8; leave one out"},
        {"--model ict --untie-embeddings-and-output-weights",
         "does not work with --model ict, which has no output layer"},
        {"--model ict --retriever-report-topk-accuracies many", "takes numbers from 1 to 999999999, not \"many\""},
        {"--model ict --retriever-report-topk-accuracies 1 2 3 4 5 6 7 8 9", "takes at most 8 numbers, not 9"},
        {"--query-in-block-prob 0.2",
         "--query-in-block-prob belongs to --model ict, but without --model this is a GPT"},
        {"--titles-data-path t", "--titles-data-path belongs to --model ict"});
}

TEST(data) {
    EXPECT_REFUSALS(
        {"--fim-data", "--fim-data needs texts, but --mock-data has none; give --data-path"},
        {"--fim-data --fim-split-sample x", "--fim-split-sample needs --fim-fragment-rate"},
        {"--train-weighted-split-paths t --train-weighted-split-paths-path p", ", which says the same; leave one out"},
        {"--data-path a", "--data-path, --train/valid/test-data-path, --train/valid/test-weighted-split-paths and "
                          "--mock-data exclude each other; give one"},
        {"--model bert --tokenizer-type auto", "lacks the special tokens"},
        {"--vocab-file vocab.txt", "--merge-file is missing (a vocab.txt of words has none"});
}

// Flags and words of other programs' scripts that stand for something of ours.
TEST(other_programs) {
    EXPECT_REFUSALS({"--use-alibi", "unknown flag --use-alibi; use --position-embedding-type alibi"},
                    {"--norm-target-loss", "--norm-target-loss is for finetuning on questions and answers"},
                    {"--goldfish-loss", "--goldfish-loss describes a model or a loss that bevatron does not have"},
                    {"--hybrid-layer-pattern M-M*", "--hybrid-layer-pattern: M is Mamba, which bevatron does not have"},
                    {"--hybrid-override-pattern *-*G", "--hybrid-layer-pattern: G is a gated delta net"},
                    {"--hybrid-layer-pattern *-*|-", "at \"*|-\" there is no * with - or E behind it"},
                    {"--hybrid-layer-pattern -*", "at \"-*\" there is no * with"},
                    {"--hybrid-layer-pattern *-*E", "has experts (E); give --num-experts"},
                    {"--hybrid-layer-pattern |", "--hybrid-layer-pattern names no layer"},
                    {"--hybrid-layer-pattern *-/*-/*-/*-/*-/*-/*-/*-/*-/*-", "has 9 depths; at most 8 are possible"},
                    {"--hybrid-layer-pattern *-*- --no-rope-freq 2", "--no-rope-freq counts attention and MLPs apart"},
                    {"--hybrid-layer-pattern *-*- --model bert", "--hybrid-layer-pattern describes a GPT"},
                    {"--hybrid-layer-pattern *-|*- --pipeline-model-parallel-layout Et|tL", "names the stages by |"},
                    {"--hybrid-layer-pattern *-/*E", "a depth behind / is like the last layer here: give /*-"},
                    {"examples/bert/pretrain_bert.py", "give --model bert instead of the script"},
                    {"pretrain_ict.py", "give --model ict instead of the script"},
                    {"pretrain_gpt.py", "leave the script out: --model gpt is the default"},
                    {"my_script.py", "leave the script out and choose the family with --model"},
                    {"--step-batch-size-schedule 0:2 1K:4", "quote the value of --step-batch-size-schedule"});
}

TEST_MAIN(TEST_CASE(values), TEST_CASE(families), TEST_CASE(experts), TEST_CASE(optimizers), TEST_CASE(inverse_cloze),
          TEST_CASE(data), TEST_CASE(other_programs))
