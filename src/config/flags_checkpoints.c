// The flags of checkpoints. See flags.h.
#include "config/config.h"
#include "config/flag_rows.h"
#include "config/flags.h"

#define FLAG_STRUCT struct config

static const struct flag rows[] = {
    GROUP("Checkpoints"),
    TEXT("--save", run.save, NULL, "DIR",
         "folder for checkpoints, written at the end, on a stop, and every --save-interval iterations or "
         "--save-minutes"),
    TEXT("--save-to", run.save_to, NULL, "URL",
         "copy checkpoints from --save to s3://BUCKET/PREFIX in the background; --keep-last applies there too"),
    INT("--save-interval", run.save_interval, NULL, 1, FLAG_ENDLESS,
        "iterations between checkpoints; default: every --save-minutes"),
    REAL("--save-minutes", run.save_minutes, "10", 0, 1e9,
         "without --save-interval: minutes between checkpoints, each of which replaces the one before; at least 20 "
         "times as long as a save takes, unless given. 0 for none"),
    SWITCH("--keep-best", run.keep_best,
           "also save whenever the validation loss is the lowest so far, and never remove that checkpoint"),
    SWITCH("--resume", run.resume, "resume from the latest checkpoint in --save, or start if it has none"),
    TEXT(
        "--save-fallback", run.save_fallback, NULL, "DIR",
        "folder for a checkpoint that cannot be written to --save; a run that resumes from --save takes the newer one"),
    REAL("--save-retry-minutes", run.save_retry_minutes, "1440", 0, 1e9,
         "keep training and retry while checkpoints cannot be saved; end the run after this many minutes. 0 ends it at "
         "the first failure",
         ADVANCED),
    REAL("--last-save-minutes", run.last_save_minutes, "30", 0, 1e9,
         "minutes for which the last checkpoint, at the end or on a stop, is retried before the run fails", ADVANCED),
    INT("--keep-last", run.keep_last, "0", 0, FLAG_ENDLESS, "number of last checkpoints to keep; 0 for all"),
    INT("--save-retain-interval", run.save_retain_interval, NULL, 1, FLAG_ENDLESS,
        "always keep checkpoints at multiples of this iteration", ADVANCED),
    TEXT("--load", run.load, NULL, "DIR",
         "folder of checkpoints, or a Hugging Face or Megatron-LM model; train resumes the latest, or starts if there "
         "is none. s3://BUCKET/PREFIX of --save-to is downloaded first",
         .uses = USE_ANYWHERE | USE_ESSENTIAL),
    TEXT("--pretrained-checkpoint", run.pretrained_checkpoint, NULL, "DIR",
         "initial weights from bevatron, Hugging Face or Megatron-LM, used while --load has no checkpoint"),
    TEXT("--checkpoint-cache-path", run.checkpoint_cache_path, NULL, "DIR",
         "folder that --load s3://… downloads to. Default: bevatron/checkpoints in $XDG_CACHE_HOME or ~/.cache",
         ADVANCED, .uses = USE_ANYWHERE),
    TEXT("--endpoint-url", run.endpoint_url, NULL, "URL",
         "S3 service to use for s3:// in place of AWS. Default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL", ADVANCED,
         .uses = USE_ANYWHERE),
    TEXT("--bert-load", run.bert_load, NULL, "DIR",
         "ICT: weights of a BERT from bevatron, Hugging Face or Megatron-LM for both towers of a new run", ADVANCED),
    INT("--ckpt-step", run.ckpt_step, "-1", -1, FLAG_ENDLESS, "iteration to load; -1 for the latest", ADVANCED,
        .uses = USE_ANYWHERE | USE_ESSENTIAL),
    SWITCH("--finetune", run.finetune, "load weights only and start at iteration 0"),
    SWITCH("--no-save-optim", run.no_save_optim, "do not save the optimizer state", ADVANCED),
    SWITCH("--no-save-rng", run.no_save_rng, "do not save the random state", ADVANCED),
    SWITCH("--no-load-optim", run.no_load_optim, "do not load the optimizer state and its schedule", ADVANCED),
    SWITCH("--no-load-rng", run.no_load_rng, "do not load the random state", ADVANCED),
    SWITCH("--exit-on-missing-checkpoint", run.exit_on_missing_checkpoint,
           "fail if the --load folder has no checkpoint", ADVANCED),
    SWITCH("--allow-changed-data", run.allow_changed_data,
           "resume even if a dataset or the tokenizer has changed since the checkpoint was saved; use datasets that "
           "another tokenizer made",
           ADVANCED, .uses = USE_EVALUATE),
    CHOICE("--check-data", run.check_data, "pieces", ONE_OF("pieces", "full"),
           "how a resumed run compares datasets with its checkpoint's: files over 32 MiB by 64 pieces, or by all bytes",
           ADVANCED),
    SWITCH("--use-checkpoint-args", run.use_checkpoint_args, "take the model's flags from the checkpoint", ADVANCED,
           .uses = USE_ANYWHERE),
    CHOICE("--ckpt-format", run.ckpt_format, "bevatron",
           ONE_OF("bevatron", "torch", "torch_dist", "torch_dcp", "zarr", "fsdp_dtensor"),
           "accepted: checkpoints are written in bevatron's own format", ADVANCED, .uses = USE_ANYWHERE),
    SWITCH("--auto-detect-ckpt-format", run.auto_detect_ckpt_format, "accepted: the format is always detected",
           ADVANCED, .uses = USE_ANYWHERE),
    SWITCH("--async-save", run.async_save,
           "write checkpoints in the background; training waits only for the copy in memory"),
    SWITCH("--checkpoint-in-memory", run.checkpoint_in_memory,
           "with launch local or slurm: also keep each rank's state in host memory, so that a restart after a lost "
           "rank costs "
           "seconds and at most two iterations"),
    INT("--checkpoint-in-memory-interval", run.memory_interval, "1", 1, FLAG_ENDLESS,
        "iterations between checkpoints in host memory", ADVANCED),
    INT("--ckpt-writers", run.ckpt_writers, "0", 0, FLAG_ENDLESS,
        "ranks of a pipeline stage that write at the same time; 0 for one per 64 MiB", ADVANCED),
};

const struct flag_rows flags_checkpoints = {rows, sizeof rows / sizeof rows[0], &flags_report};
