// Validation: derived values, against numbers computed by hand or by a simpler loop, and contradictions, which are
// refused with a sentence that names the flags.
#include "parse_line.h"
#include "test.h"
#include "base/log.h"
#include "base/memory.h"
#include "config/config.h"

static struct config config;

static int parse(const char *line) {
    return parse_line(&config, line);
}

// A complete run to which a case adds flags.
#define MODEL "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 100 "
#define DATA "--mock-data "
#define BY_ITERS MODEL DATA "--micro-batch-size 2 --train-iters 100 --lr 1e-3 "
#define BY_SAMPLES MODEL DATA "--micro-batch-size 2 --lr 1e-3 "

static int validate(const char *line, int world_size) {
    TRY(parse(line));
    return config_validate(&config, world_size);
}

TEST(derives_the_model) {
    EXPECT_OK(validate(BY_ITERS, 1));
    EXPECT_INT(config.model.ffn_hidden_size, 256);
    EXPECT_INT(config.model.kv_channels, 16);
    EXPECT_INT(config.model.max_position_embeddings, 32);
    EXPECT_INT(config.run.global_batch_size, 2);
    EXPECT_STRING(config.run.params_dtype, "fp32");
    EXPECT(config.watch.metrics_file == NULL && config.data.split == NULL);
    EXPECT_OK(validate(BY_ITERS "--kv-channels 7 --ffn-hidden-size 100 --num-attention-heads 5 --bf16", 1));
    EXPECT_INT(config.model.kv_channels, 7);
    EXPECT_STRING(config.run.params_dtype, "bf16");
    EXPECT_OK(validate(BY_ITERS "--save out/ck --save-interval 5", 1));
    EXPECT_OK(validate(BY_ITERS "--save out/ck", 1));
    EXPECT_STRING(config.watch.metrics_file, "out/ck/metrics.jsonl");
}

// Like Megatron: a project needs a name for the run. Scripts may give an empty one.
TEST(wandb) {
    EXPECT_OK(validate(BY_ITERS "--wandb-project p --wandb-exp-name n --wandb-save-dir d --wandb-entity e", 1));
    EXPECT_STRING(config.watch.wandb_project, "p");
    EXPECT_OK(validate(BY_ITERS "--wandb-project= --save run", 1));
    EXPECT_ERROR(validate(BY_ITERS "--wandb-project p --save run", 1), "--wandb-project needs --wandb-exp-name");
    EXPECT_OK(validate(BY_ITERS "--wandb-project p --wandb-exp-name n", 1));
    EXPECT_ERROR(validate(BY_ITERS "--on-event=", 1), "--on-event is empty");
    EXPECT_ERROR(validate(BY_ITERS "--prometheus-port 70000", 1), "--prometheus-port");
}

TEST(derives_batches) {
    EXPECT_OK(validate(BY_ITERS, 4));
    EXPECT_INT(config.machine.data_parallel_size, 4);
    EXPECT_INT(config.run.global_batch_size, 8);
    EXPECT_OK(validate(BY_ITERS "--global-batch-size 24", 4));
    EXPECT_INT(config.run.global_batch_size, 24);
    EXPECT_INT(config_global_batch_size(&config, 12345), 24);
    EXPECT_ERROR(validate(BY_ITERS "--global-batch-size 20", 4),
                 "--global-batch-size 20 is not a multiple of micro-batch size × data-parallel ranks = 2 × 4; make it");
}

// Samples of the schedules: B = 8, so 100 iterations are 800 samples.
TEST(derives_schedules) {
    EXPECT_OK(validate(
        BY_ITERS "--global-batch-size 8 --lr-warmup-iters 10 --lr-decay-style WSD --lr-wsd-decay-iters 20", 1));
    EXPECT_INT(config.run.lr_decay_iters, 100);
    EXPECT_INT(config.run.lr_decay_steps, 800);
    EXPECT(config.run.lr_warmup_steps == 80);
    EXPECT_INT(config.run.lr_wsd_decay_steps, 160);
    EXPECT_INT(config.run.wd_incr_steps, 800);
    EXPECT(config.run.start_weight_decay == 0.01 && config.run.end_weight_decay == 0.01);
    EXPECT_OK(validate(BY_ITERS "--global-batch-size 8 --lr-decay-iters 33 --lr-warmup-fraction 0.3", 1));
    EXPECT_INT(config.run.lr_decay_steps, 264);
    EXPECT_NEAR(config.run.lr_warmup_steps, 79.2, 1e-15);
    // fairseq's schedule may end before its warmup does.
    EXPECT_OK(validate(BY_ITERS "--lr-warmup-iters 240 --lr-decay-style polynomial_decay", 1));
    EXPECT(config.run.lr_warmup_steps == 480);
    EXPECT_OK(validate(BY_SAMPLES
                       "--train-samples 1000 --global-batch-size 16 --lr-warmup-samples 48 --start-weight-decay 0 "
                       "--end-weight-decay 0.1 --weight-decay-incr-style cosine",
                       1));
    EXPECT_INT(config.run.train_iters, 62);
    EXPECT_INT(config.run.lr_decay_steps, 1000);
    EXPECT(config.run.lr_warmup_steps == 48 && config.run.start_weight_decay == 0 &&
           config.run.end_weight_decay == 0.1);
    EXPECT_INT(config.run.wd_incr_steps, 1000);
    // Validating again changes nothing.
    EXPECT_OK(config_validate(&config, 1));
    EXPECT_INT(config.run.train_iters, 62);
}

// Megatron's loop, one iteration at a time.
static int64_t simulate(int64_t start, int64_t increment, int64_t samples, int64_t size, int64_t train_samples) {
    int64_t consumed = 0, iterations = 0, k = (size - start) / increment;
    while (k > 0 && consumed <= samples) {
        int64_t step = (int64_t)((double)consumed / ((double)samples / (double)k));
        consumed += start + step * increment;
        iterations++;
    }
    return iterations + (train_samples > consumed ? (train_samples - consumed) / size : 0);
}

TEST(rampup) {
    EXPECT_OK(
        validate(BY_SAMPLES "--train-samples 1000000 --global-batch-size 1024 --rampup-batch-size 16 8 300000", 2));
    // 126 steps of 2380.95 samples.
    EXPECT_INT(config_global_batch_size(&config, 0), 16);
    EXPECT_INT(config_global_batch_size(&config, 2380), 16);
    EXPECT_INT(config_global_batch_size(&config, 2381), 24);
    EXPECT_INT(config_global_batch_size(&config, 297620), 1016);
    EXPECT_INT(config_global_batch_size(&config, 300000), 1024);
    EXPECT_INT(config_global_batch_size(&config, 300001), 1024);
    EXPECT_INT(config.run.train_iters, simulate(16, 8, 300000, 1024, 1000000));
    static const int64_t cases[][5] = {
        {2, 2, 1000, 64, 5000},      {2, 2, 7, 64, 5000}, {4, 4, 99999, 32, 100000},  {64, 2, 1000, 64, 5000},
        {2, 62, 123456, 64, 200000}, {2, 2, 1, 64, 500},  {6, 2, 1234567, 8, 2000000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int64_t *c = cases[i];
        char *line = memory_printf(BY_SAMPLES "--rampup-batch-size %" PRId64 " %" PRId64 " %" PRId64
                                              " --global-batch-size %" PRId64 " --train-samples %" PRId64,
                                   c[0], c[1], c[2], c[3], c[4]);
        EXPECT_OK(validate(line, 1));
        free(line);
        EXPECT_INT(config.run.train_iters, simulate(c[0], c[1], c[2], c[3], c[4]));
    }
    // A ramp-up of 10^15 samples in steps of 1 is computed without iterating.
    EXPECT_OK(validate(MODEL DATA "--micro-batch-size 1 --lr 1 --train-samples 2000000000000000 --global-batch-size 4 "
                                  "--rampup-batch-size 1 1 1000000000000000",
                       1));
    EXPECT(config.run.train_iters > 800000000000000 && config.run.train_iters < 900000000000000);
}

// Numbers in a list are read like those of other flags.
TEST(rampup_with_underscores) {
    EXPECT_OK(
        validate(BY_SAMPLES "--train-samples 6_348_800 --global-batch-size 16 --rampup-batch-size 0_8 8 9_765", 1));
    EXPECT(config.run.rampup_start == 8 && config.run.rampup_increment == 8 && config.run.rampup_samples == 9765);
    EXPECT_INT(config.run.train_samples, 6348800);
    EXPECT_ERROR(validate(BY_SAMPLES "--train-samples 64 --global-batch-size 16 --rampup-batch-size 8 8 9_", 1),
                 "three whole numbers above 0");
}

TEST(contradictions) {
    static const char *const bad[][2] = {
        {BY_ITERS "--num-attention-heads 5", "--hidden-size 64 is not a multiple of --num-attention-heads 5"},
        {BY_ITERS "--max-position-embeddings 31", "--seq-length 32 is above --max-position-embeddings 31"},
        {BY_ITERS "--fp16 --bf16", "--fp16 does not work with --bf16; leave one out"},
        {BY_ITERS "--hidden-size 16388", "a head is 4097 channels wide"},
        {BY_ITERS "--num-layers 16384", "--num-layers 16384 is above 16383"},
        {BY_ITERS "--num-attention-heads 65536 --kv-channels 1", "--num-attention-heads 65536 is above 65535"},
        {BY_ITERS "--hidden-size 1048576 --num-attention-heads 4096 --num-layers 16000", "TB is the most"},
        {BY_ITERS "--padded-vocab-size 2147483647 --hidden-size 262144 --kv-channels 1", "TB is the most"},
        {BY_ITERS "--micro-batch-size 1000000 --seq-length 1000000", "TB is the most"},
        {BY_ITERS "--kv-channels 4097", "a head is 4097 channels wide"},
        {BY_ITERS "--train-samples 100", "--train-iters and --train-samples exclude each other"},
        {BY_SAMPLES, "the length of the run is missing"},
        {BY_SAMPLES "--train-samples 1", "is less than one batch"},
        {BY_ITERS "--lr-decay-samples 10", "--lr-decay-samples needs --train-samples; with --train-iters"},
        {BY_SAMPLES "--train-samples 100 --lr-warmup-iters 1", "--lr-warmup-iters does not work with --train-samples"},
        {BY_SAMPLES "--train-samples 100 --lr-decay-iters 1", "--lr-decay-iters does not work with --train-samples"},
        {BY_ITERS "--lr-warmup-iters 5 --lr-warmup-fraction 0.1",
         "--lr-warmup-fraction does not work with --lr-warmup-iters"},
        {BY_ITERS "--lr-warmup-iters 100", "--lr-warmup-iters 100 must be below --train-iters 100, which"},
        {BY_ITERS "--lr-warmup-iters 60 --lr-decay-iters 50",
         "--lr-warmup-iters 60 must be below --lr-decay-iters 50, which it is part of; shorten it or raise "
         "--lr-decay-iters"},
        {BY_SAMPLES "--train-samples 100 --lr-warmup-samples 100",
         "--lr-warmup-samples 100 must be below --train-samples 100, which"},
        {BY_SAMPLES "--train-samples 100 --lr-decay-samples 80 --lr-warmup-samples 90",
         "--lr-warmup-samples 90 must be below --lr-decay-samples 80, which"},
        {BY_ITERS "--min-lr 2e-3", "--min-lr 0.002 is above --lr 0.001"},
        {BY_ITERS "--lr-warmup-init 1", "--lr-warmup-init 1 is above --lr 0.001"},
        {BY_ITERS "--lr-decay-style WSD", "WSD needs --lr-wsd-decay-iters or --lr-wsd-decay-samples"},
        {BY_ITERS "--lr-decay-style WSD --lr-wsd-decay-iters 0", "without a last part it is --lr-decay-style constant"},
        {BY_ITERS "--lr-decay-style WSD --lr-wsd-decay-iters 101",
         "--lr-wsd-decay-iters 101 is longer than the whole, --train-iters 100; shorten it"},
        {BY_ITERS "--start-weight-decay 0.1", "do nothing with --weight-decay-incr-style constant"},
        {BY_ITERS "--weight-decay-incr-style linear --end-weight-decay 1", "needs --start-weight-decay and"},
        {BY_ITERS "--weight-decay-incr-style linear --start-weight-decay 1 --end-weight-decay 0", "only grows"},
        {BY_ITERS "--rampup-batch-size 2 2 10 --global-batch-size 8", "--rampup-batch-size needs --train-samples"},
        {BY_SAMPLES "--train-samples 99 --rampup-batch-size 2 x 10", "three whole numbers"},
        {BY_SAMPLES "--train-samples 99 --rampup-batch-size 2 4 10 --global-batch-size 8", "does not reach"},
        {BY_SAMPLES "--train-samples 99 --rampup-batch-size 10 2 10 --global-batch-size 8", "starts at 10, above"},
        {BY_SAMPLES "--train-samples 99 --rampup-batch-size 3 5 10 --global-batch-size 8", "must be multiples of 2"},
        {MODEL DATA "--micro-batch-size 1 --lr 1 --train-samples 9999999999 --rampup-batch-size 1 1 99 "
                    "--global-batch-size 1000002",
         "makes more than 1000000 steps"},
        {BY_ITERS "--data-path d", "--train/valid/test-weighted-split-paths and --mock-data exclude each other"},
        {MODEL "--micro-batch-size 1 --train-iters 1 --lr 1", "there is no data"},
        {MODEL "--micro-batch-size 1 --train-iters 1 --lr 1 --data-path d --data-args-path f",
         "--data-path does not work with --data-args-path, which says the same"},
        {MODEL "--micro-batch-size 1 --train-iters 1 --lr 1 --data-path d --train-data-path e", "exclude each other"},
        {BY_ITERS "--sample-break-mode complete", "--sample-break-mode needs --model bert --bert-no-binary-head"},
        {BY_ITERS "--model bert --sample-break-mode complete",
         "needs --model bert --bert-no-binary-head: it is for RoBERTa's samples"},
        {BY_ITERS "--model bert --bert-no-binary-head --mask-whole-words",
         "--mask-whole-words needs --sample-break-mode"},
        {BY_ITERS "--split a,b", "--split takes up to three shares, e.g. 969,30,1, not \"a,b\""},
        {BY_ITERS "--split 0,0,0", "--split takes"},
        {BY_ITERS "--split 1,2,3,4", "--split takes"},
        {BY_ITERS "--split 1.2.3", "--split takes"},
        {BY_ITERS "--vocab-file v.json",
         "GPT2BPETokenizer needs --vocab-file and --merge-file; --merge-file is missing"},
        {MODEL DATA "--train-iters 9 --lr 1", "--micro-batch-size is missing"},
        {MODEL DATA "--micro-batch-size 1 --train-iters 9", "--lr is missing"},
        {BY_ITERS "--train-iters 4611686018427387000 --global-batch-size 64", "more samples than can be counted"},
    };
    log_set_level(LOG_ERROR);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EXPECT_ERROR(validate(bad[i][0], 1), bad[i][1]);
        EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
    }
    EXPECT_ERROR(validate(BY_ITERS "--tensor-model-parallel-size 2", 3),
                 "3 ranks are not a multiple of tensor × pipeline");
    log_set_level(LOG_INFO);
}

// Flags that contradict the model's flags, and flags that these imply.
TEST(models) {
    static const char *const bad[][2] = {
        {"--swiglu --activation relu", "--swiglu does not work with --activation relu"},
        {"--group-query-attention --num-query-groups 3", "is not a multiple of --num-query-groups 3"},
        {"--position-embedding-type rope --rotary-percent 0.1", "rotation needs pairs"},
        {"--use-rope-scaling --rope-high-freq-factor 0.5", "--rope-high-freq-factor must be above"},
        {"--position-embedding-type relative --relative-attention-num-buckets 7", "must be even"},
        {"--position-embedding-type relative --relative-attention-max-distance 16", "above half of it"},
        {"--sliding-window 4 --window-attn-skip-freq [1,0,1]", "a list of 0 and 1 for each of the 2 layers"},
        {"--sliding-window 4 --window-attn-skip-freq 0", "is neither a number nor a list"},
        {"--window-size 4", "--window-size 4 is not LEFT,0"},
        {"--window-size 4,4", "is not LEFT,0"},
        {"--window-size (4,0", "is not LEFT,0"},
        {"--window-size 4,0x", "is not LEFT,0"},
        {"--window-size 4,0 --sliding-window 4", "is --sliding-window 5, not 4; leave one out"},
        {"--rotary-base-local 100", "--rotary-base-local belongs to --sliding-window"},
        {"--rotary-base-local 100 --sliding-window 4", "belongs to --position-embedding-type rope"},
        {"--model t5 --reset-attention-mask", "--reset-attention-mask belongs to --model gpt"},
        {"--model t5 --norm-placement post", "--norm-placement post does not work with --model t5; leave it out"},
        {"--lm-head-activation relu", "--lm-head-activation belongs to --model bert"},
        {"--use-rope-scaling --rope-scaling-type yarn --rotary-base 1.5", "yarn needs a --rotary-base of at least 2"},
        {"--use-rope-scaling --rope-scaling-type yarn --yarn-beta-slow 33", "--yarn-beta-fast must not be below"},
        {"--num-token-types 2", "--num-token-types belongs to --model bert"},
        {"--model bert --num-token-types 0", "BERT's binary head needs token types"},
        {"--model bert --untie-embeddings-and-output-weights", "shares the embedding's matrix"},
        {"--decoder-seq-length 4", "--decoder-seq-length belongs to --model t5, but without --model this is a GPT"},
        {"--decoder-num-layers 4", "give --model t5, or leave --decoder-num-layers out"},
        {"--model gpt --decoder-seq-length 4", "--decoder-seq-length belongs to --model t5; leave it out"},
        {"--model bert --decoder-num-layers 4", "--decoder-num-layers belongs to --model t5; leave it out"},
        {"--mask-prob 0.15", "--mask-prob belongs to --model bert or --model t5, but without --model"},
        {"--short-seq-prob 0.1", "give --model bert or --model t5, or leave --short-seq-prob out"},
        {"--bert-no-binary-head", "give --model bert, or leave --bert-no-binary-head out"},
        {"--leave-unmasked-prob 0.1", "give --model bert, or leave"},
        {"--model t5 --decoder-seq-length 100000", "--decoder-seq-length 100000 is above"},
        {"--encoder-seq-length 7", "are the same thing"},
        {"--scale-tied-output --untie-embeddings-and-output-weights", "--scale-tied-output does not work with"},
        {"--swiglu --hidden-size 16", "is too small for the default width of SwiGLU"},
    };
    log_set_level(LOG_ERROR);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *line = memory_printf("%s %s", BY_ITERS, bad[i][0]);
        EXPECT_ERROR(validate(line, 1), bad[i][1]);
        free(line);
    }
    EXPECT_OK(validate(BY_ITERS "--swiglu --hidden-size 4096 --num-attention-heads 32", 1));
    EXPECT_INT(config.model.ffn_hidden_size, 10880);
    EXPECT(config_activation(&config.model) == ACTIVATION_SILU);
    EXPECT_OK(validate(BY_ITERS "--disable-bias-linear --no-position-embedding", 1));
    EXPECT(config_activation(&config.model) == ACTIVATION_GELU);
    EXPECT(config.model.position_embedding_type == POSITIONS_NONE);
    EXPECT_OK(validate(BY_ITERS "--use-rotary-position-embeddings --no-position-embedding", 1));
    EXPECT(config.model.position_embedding_type == POSITIONS_ROPE);
    EXPECT_OK(validate(BY_ITERS "--window-size 127,0", 1));
    EXPECT(config.model.sliding_window == 128 && !config_mixes_windows(&config.model));
    EXPECT_OK(validate(BY_ITERS "--window-size (-1,0)", 1));
    EXPECT_INT(config.model.sliding_window, 0);
    EXPECT_OK(validate(BY_ITERS "--num-layers 7 --sliding-window 9 --window-attn-skip-freq 3", 1));
    for (int64_t i = 0; i < 7; i++)
        EXPECT_INT(config_layer_window(&config.model, i), i % 3 == 2 ? 0 : 9);
    EXPECT(config_mixes_windows(&config.model));
    EXPECT_OK(validate(BY_ITERS "--num-layers 3 --sliding-window 9 --window-attn-skip-freq [1]*2+[0]", 1));
    EXPECT(config_layer_window(&config.model, 1) == 9 && config_layer_window(&config.model, 2) == 0);
    EXPECT_OK(validate(BY_ITERS "--checkpoint-activations", 1));
    EXPECT_STRING(config.machine.recompute_method, "uniform");
    EXPECT_INT(config.machine.recompute_num_layers, 1);
    EXPECT_OK(validate(BY_ITERS "--model t5 --encoder-num-layers 3", 1));
    EXPECT_INT(config_encoder_layers(&config.model), 3);
    EXPECT_INT(config_decoder_layers(&config.model), config.model.num_layers);
    EXPECT_INT(config.run.decoder_seq_length, config.run.seq_length);
    // An explicit --model decides, and a flag without effect is not an error.
    EXPECT_OK(validate(BY_ITERS "--model gpt --mask-prob 0.15 --short-seq-prob 0.1 --bert-no-binary-head", 1));
    EXPECT_OK(validate(BY_ITERS "--model t5 --mask-prob 0.15 --bert-no-binary-head", 1));
    EXPECT_OK(validate(BY_ITERS "--model roberta --mask-prob 0.15 --random-token-prob 0.1", 1));
    EXPECT_OK(validate(BY_ITERS "--preset bert-base --mask-prob 0.15", 1));
    EXPECT_OK(validate(BY_ITERS "--load run --use-checkpoint-args --mask-prob 0.15", 1));
    EXPECT_OK(validate(BY_ITERS "--vocab-extra-ids 100", 1));
    log_set_level(LOG_INFO);
}

// Without a named tokenizer, pretrain_bert.py and pretrain_t5.py use another one than pretrain_gpt.py.
#define SINKHORN "--moe-router-load-balancing-type sinkhorn "
TEST(experts) {
    EXPECT_OK(validate(
        BY_ITERS "--num-experts 4 --moe-grouped-gemm --moe-token-dispatcher-type alltoall "
                 "--moe-permute-fusion --moe-router-fusion --moe-router-dtype fp32 --expert-tensor-parallel-size 1",
        1));
    EXPECT(config.model.moe_router_topk == 2 && config_expert_width(&config.model) == 256 &&
           config_expert_layers(&config.model) == 2);
    EXPECT_OK(validate(BY_ITERS "--num-experts 4 --moe-router-pre-softmax --moe-router-score-function sigmoid", 1));
    struct config_balance balance = config_balance(&config.model);
    EXPECT(balance.batch == 0 && balance.sequence == 0 && balance.z == 0);
    EXPECT_OK(validate(BY_ITERS "--num-experts 4 --moe-router-load-balancing-type seq_aux_loss aux_loss "
                                "--moe-aux-loss-coeff 1e-2 1e-3 --moe-z-loss-coeff 1e-4",
                       1));
    balance = config_balance(&config.model);
    EXPECT(balance.batch == 1e-3 && balance.sequence == 1e-2 && balance.z == 1e-4);
    EXPECT_OK(validate(BY_ITERS "--num-experts 4 --moe-router-load-balancing-type global_aux_loss "
                                "--moe-aux-loss-coeff 1e-2 --moe-input-jitter-eps 0.01",
                       1));
    EXPECT(config_balance(&config.model).global == 1e-2 && config.model.moe_input_jitter_eps == 0.01);
    EXPECT_OK(validate(BY_ITERS "--num-experts 4 " SINKHORN, 1));
    EXPECT(config_has_sinkhorn(&config.model) && config.model.moe_router_pre_softmax);
    EXPECT_OK(validate(BY_ITERS "--num-experts 4 --moe-router-topk 1 " SINKHORN, 1));
    EXPECT(config.model.moe_router_score_function == ROUTER_SIGMOID);
    static const struct {
        const char *flags, *message;
    } refused[] = {
        {"--moe-router-topk 5", "--moe-router-topk 5 is above --num-experts 4"},
        {"--moe-router-topk 1", "needs --moe-router-pre-softmax or --moe-router-score-function sigmoid"},
        {"--moe-router-dtype fp64", "routers compute in fp32"},
        {"--moe-router-num-groups 2", "--moe-router-num-groups needs --moe-router-group-topk"},
        {"--moe-router-num-groups 3 --moe-router-group-topk 1", "nearest: --moe-router-num-groups 2"},
        {"--moe-router-num-groups 2 --moe-router-group-topk 3", "is above --moe-router-num-groups 2"},
        {"--moe-router-num-groups 4 --moe-router-group-topk 1", "cannot be shared by --moe-router-group-topk 1"},
        {"--moe-router-load-balancing-type quantile_balancing",
         "give aux_loss, seq_aux_loss, global_aux_loss, sinkhorn"},
        {SINKHORN "aux_loss --moe-aux-loss-coeff 0 0", "goes with no loss; give it alone"},
        {SINKHORN "--moe-aux-loss-coeff 1e-2", "leave out --moe-aux-loss-coeff"},
        {SINKHORN "--moe-expert-capacity-factor 1", "--moe-expert-capacity-factor does not work with"},
        {SINKHORN "--moe-router-score-function sigmoid --moe-router-enable-expert-bias", "balances experts itself"},
        {SINKHORN "--moe-router-num-groups 2 --moe-router-group-topk 1", "chooses among all experts"},
        {SINKHORN "--moe-router-topk-scaling-factor 2", "--moe-router-topk-scaling-factor does not work with"},
        {SINKHORN "--moe-router-topk 1 --moe-router-score-function sqrtsoftplus",
         "--moe-router-score-function sigmoid"},
        {"--moe-input-jitter-eps 1", "--moe-input-jitter-eps"},
        {"--moe-router-load-balancing-type aux_loss aux_loss --moe-aux-loss-coeff 1 2", "is given twice"},
        {"--moe-router-load-balancing-type aux_loss seq_aux_loss", "give one for each"},
        {"--moe-aux-loss-coeff 1e-2 1e-3", "but there is one loss"},
        {"--moe-aux-loss-coeff -1", "is not a coefficient"},
        {"--moe-layer-freq 0", "is neither a number nor a list"},
        {"--moe-layer-freq [0,1,1]", "for each of the 2 layers"},
        {"--moe-layer-freq [0]*2", "gives no layer experts"},
        {"--moe-layer-freq ([0]+[1", "is neither a number nor a list"},
        {"--moe-pad-expert-input-to-capacity", "needs --moe-expert-capacity-factor"},
        {"--moe-shared-expert-intermediate-size 8", "needs --disable-bias-linear, as in Megatron"},
        {"--moe-shared-expert-gate", "needs --moe-shared-expert-intermediate-size"},
        {"--moe-router-enable-expert-bias", "needs --moe-router-score-function sigmoid or sqrtsoftplus"},
        {"--moe-use-upcycling", "needs --load"},
        {"--moe-use-upcycling --load x --moe-ffn-hidden-size 3", "give the dense --ffn-hidden-size"},
        {"--moe-use-upcycling --load x --moe-upcycling-granularity 2", "leave out --moe-upcycling-granularity"},
        {"--moe-use-upcycling --load x --disable-bias-linear --moe-shared-expert-intermediate-size 8",
         "does not work with --moe-shared-expert-intermediate-size"},
        {"--model bert --bert-no-binary-head", "--num-experts belongs to --model gpt"},
        {"--parallel-residual", "--parallel-residual does not work with --num-experts"},
        {"--bf16 --fp8-format e4m3 --fp8-recipe mxfp8 --moe-ffn-hidden-size 40",
         "--fp8-format needs multiples of 16, but this rank's part of an expert's width is 40"},
        {"--bf16 --fp8-format hybrid --moe-ffn-hidden-size 24", "an expert's width is 24"},
        {"--expert-tensor-parallel-size 2",
         "does not divide --tensor-model-parallel-size 1; nearest: --expert-tensor-parallel-size 1"},
        {"--seq-length 1048576 --max-position-embeddings 1048576 --micro-batch-size 1024",
         "make --micro-batch-size, --moe-router-topk,"},
        {"--num-experts 128 --micro-batch-size 1048576 --moe-pad-expert-input-to-capacity "
         "--moe-expert-capacity-factor 64",
         "places at the experts of a rank"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        char *line = memory_printf(BY_ITERS "--num-experts 4 %s", refused[i].flags);
        EXPECT_ERROR(validate(line, 1), refused[i].message);
        free(line);
    }
    EXPECT_ERROR(validate(BY_ITERS "--num-experts 4 --moe-ffn-hidden-size 6 --tensor-model-parallel-size 4", 4),
                 "--moe-ffn-hidden-size 6 cannot be shared");
    bool layers[7];
    EXPECT_OK(config_parse_layer_freq("([0]*2+[1,0])*1 + [1]*3", layers, 7));
    EXPECT(!layers[0] && !layers[1] && layers[2] && !layers[3] && layers[4] && layers[5] && layers[6]);
    EXPECT_OK(config_parse_layer_freq("3", layers, 7));
    EXPECT(layers[0] && !layers[1] && !layers[2] && layers[3] && layers[6]);
}

TEST(ranks_that_share_out_experts) {
    static const struct {
        const char *flags, *message;
        int ranks;
    } shared_out[] = {
        {"--expert-model-parallel-size 3", "nearest: --expert-model-parallel-size 2", 3},
        {"--expert-model-parallel-size 4", "start a multiple of 4 ranks", 2},
        {"--expert-model-parallel-size 2 --tensor-model-parallel-size 2",
         "needs a multiple of 2 data-parallel ranks, not 1; start a multiple of 4 ranks, or make it 1", 2},
        {"--expert-model-parallel-size 4 --context-parallel-size 2", "start a multiple of 4 ranks, or make it 2", 2},
        {"--num-experts 6 --expert-model-parallel-size 3 --context-parallel-size 2", "nor is a multiple of the 1", 6},
        {"--expert-tensor-parallel-size 1 --tensor-model-parallel-size 2", "give --sequence-parallel", 2},
        {"--expert-tensor-parallel-size 3 --tensor-model-parallel-size 4 --sequence-parallel",
         "nearest: --expert-tensor-parallel-size 2", 4},
        {"--expert-tensor-parallel-size 2 --tensor-model-parallel-size 4 --sequence-parallel --moe-ffn-hidden-size 3",
         "--moe-ffn-hidden-size 3 cannot be shared by --expert-tensor-parallel-size 2", 4},
        {"--num-experts 256 --expert-model-parallel-size 256 --moe-router-topk 8 --micro-batch-size 131072 "
         "--seq-length 128",
         "places at the experts of a rank", 256},
        {"--expert-model-parallel-size 2 --sample-interval 1", "--sample-interval does not work with", 2},
        {"--expert-model-parallel-size 257", "from 1 to 256", 2},
    };
    for (size_t i = 0; i < sizeof shared_out / sizeof shared_out[0]; i++) {
        char *line = memory_printf(BY_ITERS "--num-experts 4 %s", shared_out[i].flags);
        EXPECT_ERROR(validate(line, shared_out[i].ranks), shared_out[i].message);
        free(line);
    }
    EXPECT_OK(validate(BY_ITERS "--num-experts 4 --moe-expert-capacity-factor 1 --context-parallel-size 2 "
                                "--expert-model-parallel-size 2",
                       2));
    EXPECT_OK(validate(BY_ITERS "--num-experts 4 --expert-model-parallel-size 2", 4));
    EXPECT_INT(config.machine.data_parallel_size, 4);
    EXPECT_ERROR(validate(BY_ITERS "--expert-model-parallel-size 2", 2), "needs --num-experts");
}

TEST(depths) {
    EXPECT_OK(validate(BY_ITERS, 1));
    EXPECT(config.model.mtp_num_layers == 0 && config.model.mtp_loss_scaling_factor == 0.1);
    EXPECT_OK(validate(BY_ITERS "--mtp-num-layers 2 --num-experts 4 --moe-layer-freq [0,1]", 1));
    EXPECT(config_expert_layers(&config.model) == 1 && config_routed_layers(&config.model) == 3);
    EXPECT_OK(validate(BY_ITERS "--mtp-num-layers 2 --num-experts 4 --moe-layer-freq [1,0]", 1));
    EXPECT_INT(config_routed_layers(&config.model), 1);
    static const struct {
        const char *flags, *message;
    } refused[] = {
        {"--model bert --bert-no-binary-head", "--mtp-num-layers belongs to --model gpt"},
        {"--model t5 --decoder-seq-length 8", "--mtp-num-layers belongs to --model gpt"},
        {"--norm-placement post", "does not work with --norm-placement post; give another"},
        {"--position-embedding-type relative", "give rope, learned_absolute or none"},
        {"--seq-length 2", "leaves no token to predict in sequences of --seq-length 2; give fewer"},
        {"--mtp-use-repeated-layer", "is a Megatron flag that bevatron does not implement"},
        {"--mtp-num-layers 9", "from 0 to 8"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        char *line = memory_printf(BY_ITERS "--mtp-num-layers 2 %s", refused[i].flags);
        EXPECT_ERROR(validate(line, 1), refused[i].message);
        free(line);
    }
}

TEST(tokenizers_of_models) {
    static const char *const rows[][2] = {{"--model gpt --merge-file m", "GPT2BPETokenizer"},
                                          {"--model bert", "BertWordPieceLowerCase"},
                                          {"--model t5", "BertWordPieceLowerCase"},
                                          {"--model bert --merge-file m", "GPT2BPETokenizer"},
                                          {"--model bert --tokenizer-type BertWordPieceCase", "BertWordPieceCase"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *line = memory_printf(BY_ITERS "--decoder-seq-length 8 --vocab-file v %s", rows[i][0]);
        EXPECT_OK(parse(line));
        (void)config_validate(&config, 1);  // --decoder-seq-length is only T5's
        EXPECT_STRING(config.data.tokenizer_type, rows[i][1]);
        free(line);
    }
}

TEST(not_implemented) {
    static const char *const bad[][2] = {
        {"--recompute-activations --recompute-modules core_attn attention",
         "--recompute-modules attention cannot be recomputed alone"},
        {"--overlap-param-gather", "--overlap-param-gather needs --use-distributed-optimizer"},
        {"--dataloader-type cyclic", "--dataloader-type cyclic"},
        {"--calculate-per-token-loss --model bert", "--calculate-per-token-loss belongs to --model gpt or t5"},
    };
    log_set_level(LOG_ERROR);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *line = memory_printf("%s %s", BY_ITERS, bad[i][0]);
        EXPECT_ERROR(validate(line, 1), bad[i][1]);
        free(line);
    }
    // Their defaults, and flags that change no numbers, are accepted.
    EXPECT_OK(validate(
        BY_ITERS "--normalization LayerNorm --optimizer adam --tensor-model-parallel-size 1 --num-query-groups 1 "
                 "--overlap-grad-reduce --async-save --ckpt-format torch --attention-backend flash "
                 "--apply-query-key-layer-scaling --recompute-num-layers 1 --calculate-per-token-loss --eod-mask-loss",
        1));
    log_set_level(LOG_INFO);
}

// Like Megatron: anything that is not a digit or a dot separates, even quotes left by a script.
static int check_writing(const char *line, int world_size) {
    TRY(validate(line, world_size));
    return config_check_writing(&config);
}

TEST(models_that_write) {
    EXPECT_OK(check_writing(BY_ITERS "--sequence-parallel", 1));  // one rank splits nothing
    EXPECT_OK(check_writing(BY_ITERS "--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2", 4));
    EXPECT_ERROR(check_writing(BY_ITERS "--model bert", 1), "generate needs --model gpt or t5");
    EXPECT_ERROR(check_writing(BY_ITERS "--context-parallel-size 2", 2), "leave out --context-parallel-size");
    EXPECT_ERROR(check_writing(BY_ITERS "--tensor-model-parallel-size 2 --sequence-parallel", 2),
                 "leave out --sequence-parallel");
    EXPECT_ERROR(check_writing(BY_ITERS "--model t5 --decoder-seq-length 8 --pipeline-model-parallel-size 2", 2),
                 "leave out --pipeline-model-parallel-size");
    EXPECT_ERROR(check_writing(BY_ITERS "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
                                        "--num-layers 4 --global-batch-size 4",
                               2),
                 "leave out virtual stages");
}

TEST(splits) {
    static const char *const good[] = {"'99,1,0'", "99,1,0", "\"969/30/1\"", "[949,50,1]", "99%,1%", "(.9;.1)", "100"};
    static const char *const bad[] = {"99,1,0,0", "", "''", "0,0,0", "1e3,1", "-1,2", "1.2.3,1", "a,b"};
    log_set_level(LOG_ERROR);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        EXPECT_OK(parse(MODEL "--data-path d --micro-batch-size 1 --train-iters 1 --lr 1"));
        struct flag_table table = config_flag_table(0);
        EXPECT_OK(flag_set(&table, &config, "--split", good[i], FLAG_FROM_COMMAND));
        EXPECT_OK(config_validate(&config, 1));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EXPECT_OK(parse(MODEL "--data-path d --micro-batch-size 1 --train-iters 1 --lr 1"));
        struct flag_table table = config_flag_table(0);
        EXPECT_OK(flag_set(&table, &config, "--split", bad[i], FLAG_FROM_COMMAND));
        EXPECT_ERROR(config_validate(&config, 1), "--split takes up to three shares");
    }
    log_set_level(LOG_INFO);
}

TEST(all_at_once) {
    EXPECT_OK(parse("--micro-batch-size 2 --fp16 --bf16"));
    EXPECT_ERROR(config_validate(&config, 1), "problems with the flags:\n  1. --num-layers is missing");
    static const char *const parts[] = {"--hidden-size is missing", "--num-attention-heads is missing",
                                        "--seq-length is missing",  "--fp16 does not work with --bf16",
                                        "length of the run",        "--lr is missing",
                                        "there is no data",         "the vocabulary is unknown"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!strstr(error_message(), parts[i]))
            test_fail("\"%s\" lacks \"%s\"", error_message(), parts[i]);
}

TEST(sizes) {
    EXPECT_OK(validate(BY_ITERS "--kv-channels 256 --num-layers 16383", 1));
    EXPECT_OK(validate(BY_ITERS "--kv-channels 4096", 1));
    EXPECT_OK(validate(BY_ITERS "--hidden-size 65535 --num-attention-heads 65535", 1));
    // 530 billion parameters, a size that was trained: 11 TB.
    EXPECT_OK(validate(BY_ITERS "--num-layers 105 --hidden-size 20480 --num-attention-heads 128 --seq-length 2048", 1));
    EXPECT_OK(config_pad_vocab(&config, 50257));
    // The vocabulary comes last, from the tokenizer.
    EXPECT_OK(validate(BY_ITERS "--hidden-size 1048576 --ffn-hidden-size 64 --kv-channels 16", 1));
    EXPECT_ERROR(config_pad_vocab(&config, 20000000), "TB is the most");
    EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
    // Every rank needs rows of the vocabulary: of 9, four ranks would get 3, 3, 3 and none.
    EXPECT_OK(validate(
        BY_ITERS "--num-attention-heads 4 --tensor-model-parallel-size 4 --make-vocab-size-divisible-by 1", 4));
    EXPECT_ERROR(config_pad_vocab(&config, 9), "a vocabulary of 9 tokens leaves nothing for the last of "
                                               "--tensor-model-parallel-size 4 ranks; give --padded-vocab-size 12");
    EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
    config.model.padded_vocab_size = 0;
    EXPECT_OK(config_pad_vocab(&config, 10));
    // Every flag at its maximum: no arithmetic overflows.
    EXPECT_ERROR(validate(BY_ITERS "--num-layers 100000 --hidden-size 1048576 --ffn-hidden-size 4194304 "
                                   "--num-attention-heads 65536 --kv-channels 65536 --padded-vocab-size 2147483647",
                          1),
                 "4 problems");
}

TEST(other_uses) {
    EXPECT_OK(parse(MODEL));
    EXPECT_OK(config_validate_for(&config, 1, CONFIG_GENERATE));
    EXPECT_INT(config.model.kv_channels, 16);
    EXPECT_INT(config.run.micro_batch_size, 1);
    EXPECT_OK(parse(MODEL "--data-path d --micro-batch-size 3"));
    log_set_level(LOG_ERROR);
    EXPECT_OK(config_validate_for(&config, 2, CONFIG_EVALUATE));
    log_set_level(LOG_INFO);
    EXPECT_INT(config.run.global_batch_size, 6);
    EXPECT(config.data.split == NULL);
    EXPECT_OK(parse(MODEL));
    EXPECT_OK(config_validate_for(&config, 1, CONFIG_EVALUATE));
    log_set_level(LOG_ERROR);
    EXPECT_OK(validate(MODEL "--data-path d --micro-batch-size 2 --train-iters 100 --lr 1e-3", 1));
    log_set_level(LOG_INFO);
    EXPECT_STRING(config.data.split, "969, 30, 1");
    EXPECT_OK(parse("--num-layers 2"));
    EXPECT_ERROR(config_validate_for(&config, 1, CONFIG_GENERATE), "--hidden-size is missing");
    EXPECT_OK(parse(MODEL DATA "--micro-batch-size 1 --skip-train"));
    EXPECT_OK(config_validate(&config, 1));
    config_free(&config);
}

TEST_MAIN(TEST_CASE(derives_the_model), TEST_CASE(wandb), TEST_CASE(derives_batches), TEST_CASE(derives_schedules),
          TEST_CASE(rampup), TEST_CASE(rampup_with_underscores), TEST_CASE(contradictions), TEST_CASE(models),
          TEST_CASE(experts), TEST_CASE(ranks_that_share_out_experts), TEST_CASE(depths),
          TEST_CASE(tokenizers_of_models), TEST_CASE(not_implemented), TEST_CASE(models_that_write), TEST_CASE(splits),
          TEST_CASE(all_at_once), TEST_CASE(sizes), TEST_CASE(other_uses))
