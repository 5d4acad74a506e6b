// The rows of the flags of Megatron-DeepSpeed that work here, a part of the table in flags.c.
#ifndef CONFIG_FLAGS_DEEPSPEED_H
#define CONFIG_FLAGS_DEEPSPEED_H

#define DEEPSPEED_ROWS                                                                                                 \
    SWITCH("--deepspeed", deepspeed, "follow --deepspeed-config, as Megatron-DeepSpeed does", ADVANCED),               \
        TEXT("--deepspeed-config", deepspeed_config, NULL, "FILE",                                                     \
             "with --deepspeed: JSON file whose clipping, loss scale and ZeRO stage override the flags", ADVANCED),    \
        INT("--zero-stage", zero_stage, "0", 0, 3,                                                                     \
            "DeepSpeed's ZeRO: 1 and 2 mean --use-distributed-optimizer, 3 is refused", ADVANCED),                     \
        TEXT("--pp-partition-method", pp_partition_method, NULL, "METHOD",                                             \
             "DeepSpeed's split of a pipeline: type:transformer, or type:transformer|embedding, which counts "         \
             "embedding and head as layers",                                                                           \
             ADVANCED)

#define TOKEN_LENGTH_ROW                                                                                               \
    INT("--train-tokens", train_tokens, NULL, 1, FLAG_ENDLESS,                                                         \
        "end the run after this many tokens, if it has not ended earlier", ADVANCED)

#define STOP_FILE_ROWS                                                                                                 \
    TEXT("--kill-switch-path", kill_switch_path, NULL, "FILE",                                                         \
         "save and stop when this file exists; the run does not start again while it does", ADVANCED),                 \
        TEXT("--trigger-path", trigger_path, NULL, "DIR",                                                              \
             "save when DIR/save exists, and remove it; save and stop when DIR/exit exists", ADVANCED)

#define TOKEN_SCHEDULE_ROWS                                                                                            \
    INT("--lr-decay-tokens", lr_decay_tokens, NULL, 1, FLAG_ENDLESS,                                                   \
        "tokens over which the learning rate decays, instead of --lr-decay-iters or --lr-decay-samples", ADVANCED),    \
        INT("--lr-warmup-tokens", lr_warmup_tokens, NULL, 1, FLAG_ENDLESS,                                             \
            "warmup tokens, instead of --lr-warmup-iters or --lr-warmup-samples", ADVANCED)

#endif
