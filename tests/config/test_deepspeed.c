// DeepSpeed's configuration file beside Megatron's flags: what it sets, what it must agree on, what is refused; and the
// other flags of Megatron-DeepSpeed.
#include "config/validate.h"

#include "base/log.h"
#include "parse_line.h"
#include "test.h"

static const char model[] = "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --mock-data "
                            "--vocab-size 64 --lr 1e-3 --micro-batch-size 2 ";
static struct config config;

static int parse(const char *flags) {
    char *line = memory_printf("%s%s", model, flags);
    int status = parse_line(&config, line);
    free(line);
    return status;
}

static int apply(const char *text) {
    struct json *file;
    EXPECT_OK(json_parse(&file, text, strlen(text), "ds.json"));
    int status = deepspeed_apply(&config, file, "ds.json");
    json_free(file);
    return status;
}

// The file of Megatron-DeepSpeed's example of a GPT of 350 million parameters, and BLOOM's.
TEST(published_files) {
    log_set_level(LOG_ERROR);
    EXPECT_OK(parse("--train-iters 9 --fp16 --global-batch-size 4 --clip-grad 1.0 --loss-scale 12"));
    EXPECT_OK(apply("{\"train_batch_size\": 4, \"train_micro_batch_size_per_gpu\": 2, \"steps_per_print\": 10, "
                    "\"zero_optimization\": {\"stage\": 1}, \"gradient_clipping\": 0.7, \"prescale_gradients\": true, "
                    "\"fp16\": {\"enabled\": true, \"loss_scale\": 0, \"loss_scale_window\": 500, \"hysteresis\": 3, "
                    "\"min_loss_scale\": 2, \"initial_scale_power\": 11}, \"bf16\": {\"enabled\": false}, "
                    "\"curriculum_learning\": {\"enabled\": false}, \"wall_clock_breakdown\": false}"));
    EXPECT(config.run.clip_grad == 0.7 && config.run.loss_scale == 0 && config.run.initial_loss_scale == 2048);
    EXPECT(config.run.min_loss_scale == 2 && config.run.loss_scale_window == 500 && config.run.hysteresis == 3);
    EXPECT_OK(config_validate(&config, 1));
    EXPECT(config.machine.zero_stage == 1 && config.machine.use_distributed_optimizer);
    // Sizes that only the file has; no clipping unless it says so.
    EXPECT_OK(parse("--train-iters 9 --bf16"));
    EXPECT_OK(apply("{\"train_batch_size\": 8, \"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 0}}"));
    EXPECT(config.run.global_batch_size == 8 && config.run.clip_grad == 0 && config.run.loss_scale_window == 1000);
    EXPECT_OK(config_validate(&config, 1));
    EXPECT(!config.machine.use_distributed_optimizer);
    EXPECT_OK(parse("--train-iters 9 --zero-stage 2 --overlap-param-gather --overlap-grad-reduce"));
    EXPECT_OK(config_validate(&config, 2));
    // Four micro-batches of two: one data-parallel rank. The stage is the file's, 0 if it has none.
    EXPECT_OK(parse("--train-iters 9 --global-batch-size 8 --zero-stage 1"));
    EXPECT_OK(apply("{\"gradient_accumulation_steps\": 4, \"fp16\": {\"enabled\": false}}"));
    EXPECT_OK(config_validate(&config, 1));
    EXPECT(config.machine.zero_stage == 0 && !config.machine.use_distributed_optimizer);
    config_free(&config);
}

TEST(what_is_refused) {
    static const char *const cases[][2] = {
        {"{\"train_batch_size\": 8}", "ds.json: train_batch_size is 8, but --global-batch-size is 4; make them equal"},
        {"{\"train_micro_batch_size_per_gpu\": 1}", "is 1, but --micro-batch-size is 2"},
        {"{\"fp16\": {\"enabled\": true}}", "has fp16 enabled and bf16 disabled, but the flags say neither"},
        {"{\"optimizer\": {}}", "ds.json: optimizer is not read; remove it and give its numbers as flags"},
        {"{\"scheduler\": {}}", "ds.json: scheduler is not read"},
        {"{\"curriculum_learning\": {\"enabled\": true}}", "curriculum_learning is enabled, which bevatron does not"},
        {"{\"compression_training\": {}}", "compression_training is not known here and could change the run"},
        {"{\"gradient_clipping\": \"auto\"}", "ds.json: gradient_clipping is not a number"},
        {"{\"gradient_clipping\": -1}", "ds.json: gradient_clipping -1: --clip-grad takes"},
        {"{\"gradient_accumulation_steps\": 3}", "3 × micro-batch size does not divide the global batch size 4"},
        {"{\"gradient_accumulation_steps\": 0.5}", "0.5 is not a whole number above 0"},
        {"{\"gradient_accumulation_steps\": \"auto\"}", "gradient_accumulation_steps is not a number; write one"},
        {"{\"fp16\": {\"enabled\": \"auto\"}}", "ds.json: fp16.enabled is neither true nor false; write one of them"},
        {"{\"elasticity\": {\"enabled\": 1}}", "ds.json: elasticity.enabled is neither true nor false"},
        {"{\"bf16\": true}", "ds.json: bf16 is not an object; write e.g. \"bf16\": {\"enabled\": false}"},
        {"{\"zero_optimization\": true}", "is not an object; write e.g. \"zero_optimization\": {\"stage\": 1}"},
        {"{\"gradient_clipping\": 1, \"gradient_clipping\": 2}", "ds.json has gradient_clipping twice; remove one"},
        {"{\"zero_optimization\": {\"stage\": 4}}", "zero_optimization.stage is 4; give 0, 1 or 2"},
        {"[1]", "ds.json is not a JSON object"},
    };
    log_set_level(LOG_ERROR);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT_OK(parse("--train-iters 9 --global-batch-size 4"));
        EXPECT_ERROR(apply(cases[i][0]), cases[i][1]);
    }
    EXPECT_OK(parse("--train-iters 9 --fp16"));
    EXPECT_ERROR(apply("{\"fp16\": {\"enabled\": true, \"initial_scale_power\": 1e9}}"), "is above 90; lower it");
    EXPECT_OK(parse("--train-iters 9 --fp16"));
    EXPECT_ERROR(apply("{\"fp16\": {\"enabled\": true, \"hysteresis\": 0.5}}"), "hysteresis 0.5 is not a whole number");
    EXPECT_OK(parse("--train-iters 9 --fp16"));
    EXPECT_ERROR(apply("{\"fp16\": {\"enabled\": true, \"consecutive_hysteresis\": true}}"),
                 "fp16.consecutive_hysteresis is not implemented; set it to false");
    EXPECT_OK(parse("--train-iters 9"));
    EXPECT_ERROR(apply("{\"gradient_accumulation_steps\": 2}"), "give the latter, micro-batch size × data-parallel");
    EXPECT_OK(parse("--train-iters 9"));
    EXPECT_ERROR(apply("{\"train_batch_size\": 1e300}"), "train_batch_size 1e+300 is not a size of a batch");
    EXPECT_OK(parse("--train-iters 9 --zero-stage 3"));
    EXPECT_OK(config_validate(&config, 1));
    EXPECT_INT(config.machine.use_distributed_optimizer, true);
    EXPECT_OK(parse("--train-iters 9 --deepspeed"));
    EXPECT_ERROR(config_validate(&config, 1), "--deepspeed needs its file; give --deepspeed_config FILE");
    EXPECT_ERROR(parse("--train-iters 9 --deepspeed --deepspeed_config /no/such/file.json"), "/no/such/file.json");
    config_free(&config);
}

TEST(schedules_in_tokens) {
    log_set_level(LOG_ERROR);
    EXPECT_OK(parse("--train-samples 1000 --lr-decay-tokens 12_800 --lr-warmup-tokens 1600 --train-tokens 3200"));
    EXPECT_OK(config_validate(&config, 1));
    EXPECT(config.run.lr_decay_steps == 800 && config.run.lr_warmup_steps == 100 && config.run.train_iters == 500);
    // 16 tokens a sample: to the nearest sample, the warmup exactly.
    EXPECT_OK(parse("--train-iters 9 --lr-decay-tokens 1000 --lr-warmup-tokens 24"));
    EXPECT_OK(config_validate(&config, 1));
    EXPECT(config.run.lr_decay_steps == 63 && config.run.lr_warmup_steps == 1.5);
    EXPECT_OK(parse("--train-iters 9 --lr-warmup-tokens 24"));
    EXPECT_ERROR(config_validate(&config, 1), "--lr-warmup-tokens needs --lr-decay-tokens");
    EXPECT_OK(parse("--train-iters 9 --lr-decay-tokens 7"));
    EXPECT_ERROR(config_validate(&config, 1), "--lr-decay-tokens 7 is less than a sample of 16 tokens; raise it");
    EXPECT_OK(parse("--train-iters 9 --lr-decay-tokens 160 --lr-warmup-tokens 160"));
    EXPECT_ERROR(config_validate(&config, 1), "the warmup of 10 samples is not shorter than --lr-decay-tokens");
    EXPECT_OK(parse("--train-iters 9 --lr-decay-tokens 160 --lr-warmup-tokens 16 --lr-warmup-fraction 0.1"));
    EXPECT_ERROR(config_validate(&config, 1), "--lr-warmup-fraction does not work with --lr-warmup-tokens");
    config_free(&config);
}

TEST(other_names) {
    log_set_level(LOG_ERROR);
    EXPECT_OK(parse("--train-iters 9 --num-key-value-heads 2 --pad-vocab-size-to 96 --lr-decay-style WSD "
                    "--lr-wsd-decay-iters 3 --lr-wsd-decay-style 1-sqrt --use-mpi --no-pipeline-parallel"));
    EXPECT_OK(config_validate(&config, 1));
    EXPECT(config.model.group_query_attention && config.model.num_query_groups == 2 &&
           config.model.padded_vocab_size == 96);
    EXPECT(strcmp(config.run.lr_wsd_decay_style, "minus_sqrt") == 0);
    EXPECT_OK(parse("--train-iters 9 --pp-partition-method type:transformer|embedding --num-layers 6 "
                    "--pipeline-model-parallel-size 4"));
    EXPECT_OK(config_validate(&config, 4));
    EXPECT_INT(config_stage_layers(&config, 0), 1);
    EXPECT_INT(config_stage_layers(&config, 1), 2);
    EXPECT_OK(parse("--train-iters 9 --pp-partition-method type:transformer|embedding"));
    EXPECT_OK(config_validate(&config, 1));
    EXPECT_OK(parse("--train-iters 9 --pp-partition-method uniform"));
    EXPECT_ERROR(config_validate(&config, 1), "--pp-partition-method uniform is not implemented; give");
    EXPECT_ERROR(parse("--train-iters 9 --position-embedding-type mrope"), "positions of images");
    EXPECT_OK(parse("--train-iters 9 --position-embedding-type rotary"));
    EXPECT(config.model.position_embedding_type == POSITIONS_ROPE);
    EXPECT_OK(parse("--train-iters 9 --max-padding-length 3 --train-mode pretrain --dataset Qwen-Pretrain-Idxmap"));
    EXPECT_ERROR(parse("--train-iters 9 --train-mode finetune"), "--train-mode is for finetuning");
    EXPECT_OK(parse("--train-iters 9 --no-train 1"));
    EXPECT(config.run.skip_train);
    EXPECT_OK(parse("--train-iters 9 --eval-only True --bf16 1"));
    EXPECT(config.run.skip_train && config.run.bf16);
    EXPECT_OK(parse("--train-iters 9 --eval-only False"));
    EXPECT(!config.run.skip_train);
    EXPECT_ERROR(parse("--train-iters 9 --no-train 2"), "unexpected argument \"2\"");
    EXPECT_ERROR(parse("--train-iters 9 --dataset LLama-SFT"), "--dataset does not name data here; use --data-path");
    EXPECT_OK(parse("--train-iters 9 --ds-sequence-parallel-size 4 --intermediate-size 96 --n-head-kv 2"));
    EXPECT_INT(config.machine.context_parallel_size, 4);
    EXPECT_STRING(config.machine.cp_comm_type.items[0], "a2a");
    EXPECT_INT(config.model.ffn_hidden_size, 96);
    EXPECT_INT(config.model.group_query_attention, true);
    EXPECT_INT(config.model.num_query_groups, 2);
    EXPECT_OK(parse("--train-iters 9 --use-torch-fsdp2 --fsdp-double-buffer --megatron-fsdp-main-grads-dtype bf16"));
    EXPECT_INT(config.machine.use_distributed_optimizer, true);
    EXPECT_OK(parse("--train-iters 9 --extra-vocab-size 3"));
    EXPECT_INT(config.data.extra_vocab_size, 3);
    EXPECT_ERROR(parse("--train-iters 9 --universal-checkpoint"), "reads a checkpoint of DeepSpeed");
    config_free(&config);
}

TEST(sizes_of_evaluations) {
    log_set_level(LOG_ERROR);
    EXPECT_OK(parse("--train-iters 9 --global-batch-size 4"));
    EXPECT_OK(config_validate(&config, 1));
    EXPECT_INT(config_eval_batch_size(&config), 4);
    EXPECT_OK(parse("--train-iters 9 --global-batch-size 4 --eval-global-batch-size 12 --eval-micro-batch-size 3"));
    EXPECT_OK(config_validate(&config, 2));
    EXPECT_INT(config_eval_batch_size(&config), 12);
    EXPECT_OK(parse("--train-iters 9 --global-batch-size 4 --eval-global-batch-size 6"));
    EXPECT_ERROR(config_validate(&config, 2),
                 "6 samples (--eval-global-batch-size) is not a multiple of --micro-batch-size × data-parallel ranks "
                 "= 2 × 2; give --eval-global-batch-size 8");
    EXPECT_OK(parse("--train-iters 9 --eval-micro-batch-size 4"));
    EXPECT_ERROR(config_validate(&config, 1),
                 "2 samples (--global-batch-size) is not a multiple of --eval-micro-batch-size × data-parallel ranks "
                 "= 4 × 1; give --eval-global-batch-size 4");
    EXPECT_OK(parse("--train-iters 9 --model bert --eval-global-batch-size 4 --eval-micro-batch-size 1"));
    EXPECT_ERROR(config_validate(&config, 1), "--eval-micro-batch-size 1 would change the loss (it is a mean of each");
    // Evaluations drop no token.
    EXPECT_OK(parse("--train-iters 9 --num-experts 4 --moe-expert-capacity-factor 1 --eval-global-batch-size 4 "
                    "--eval-micro-batch-size 1"));
    EXPECT_OK(config_validate(&config, 1));
    config_free(&config);
}

TEST_MAIN(TEST_CASE(published_files), TEST_CASE(what_is_refused), TEST_CASE(schedules_in_tokens),
          TEST_CASE(other_names), TEST_CASE(sizes_of_evaluations))
