// The table of a run's flags, and the subset for commands that do not train. See flags.h.
#include "config/flags.h"
#include "config/config.h"

// Messages about flags without a row: the lists of flags_megatron.c and flags_forks.c, each with its message.
static const struct flag_names flags_groups[] = {
    {flags_always_so, "is how bevatron always works; the flag is not needed", false},
    {flags_forks_always_so, "is how bevatron always works; the flag is not needed", false},
    {flags_forks_only_speed, "tunes the speed or memory of Megatron's own code and changes no numbers; ignored", false},
    {flags_forks_no_meaning, "has no meaning in bevatron; ignored", false},
    {flags_finetuning,
     "is for finetuning on questions and answers, which bevatron does not do; leave it out to pretrain", true},
    {flags_pai_dataset,
     "does not name data here; use --data-path: text (.jsonl, .txt, a folder), or the PREFIX of a dataset that "
     "`bevatron preprocess` wrote",
     true},
    {flags_pai_tokenizer,
     "is not needed: give --tokenizer-type HuggingFaceTokenizer, --tokenizer-model DIR and, for other sizes of the "
     "embedding, --padded-vocab-size",
     true},
    {flags_deepspeed_checkpoint,
     "reads a checkpoint of DeepSpeed, which bevatron cannot; convert it to Hugging Face's or Megatron's format and "
     "give --load",
     true},
    {flags_deepspeed_experts,
     "is for DeepSpeed's experts, which gate tokens in another way; use --moe-router-topk, --moe-aux-loss-coeff and "
     "--moe-expert-capacity-factor",
     true},
    {flags_forks_other_models,
     "describes a model or a loss that bevatron does not have; without it the run would be another", true},
    {flags_distillation, "is for distillation, which bevatron does not do; leave it out to train without a teacher",
     true},
    {flags_only_speed, "tunes the speed or memory of Megatron's own code and changes no numbers; ignored", false},
    {flags_no_meaning, "has no meaning in bevatron; ignored", false},
    {flags_finer, "reduces a precision that bevatron keeps; ignored", false},
    {flags_other_models, "describes a model that bevatron cannot train; without the flag it would be another model",
     true},
    {flags_torchrun,
     "is a torchrun flag; use --nproc N on one machine, mpirun or srun on several (torchrun --no-python also works, on "
     "GPUs)",
     true},
    {flags_refused, "is a Megatron flag that bevatron does not implement; it would change the run, so leave it out",
     true},
};

static const struct flag_table config_table = {.rows = {.next = &flags_model},
                                               .given = offsetof(struct config, given),
                                               .aliases = flags_aliases,
                                               .names = flags_groups,
                                               .names_count = sizeof flags_groups / sizeof flags_groups[0],
                                               .synonyms = flags_synonyms,
                                               .derived = "world_size data_parallel_size params_dtype schedule",
                                               .beside = "--nproc --dry-run --plot "};

static const struct flag_command train_command = {
    .name = "train",
    .summary = "Trains a language model on a dataset of token ids.",
    .tables = &config_table,
    .table_count = 1,
    .argument_remedy = config_argument_remedy,
    .epilogue = "Example:\n"
                "  bevatron train --preset gpt2-124m --data-path my_text_document --vocab-file vocab.json \\\n"
                "      --merge-file merges.txt --seq-length 1024 --micro-batch-size 4 --global-batch-size 64 \\\n"
                "      --train-iters 10000 --lr 6e-4 --lr-warmup-iters 200 --save out --save-interval 1000"};

struct flag_table config_flag_table(size_t base) {
    struct flag_table table = config_table;
    table.base = base;
    return table;
}

const struct flag_command *config_command(void) {
    return &train_command;
}

struct flag_table config_flag_table_for(size_t base, enum config_use use) {
    struct flag_table table = config_flag_table(base);
    if (use != CONFIG_EVALUATE && use != CONFIG_GENERATE)
        return table;
    table.offered = USE_MODEL | USE_TOKENIZER | USE_ANYWHERE | (use == CONFIG_EVALUATE ? USE_EVALUATE : 0);
    table.refusal =
        use == CONFIG_EVALUATE ? "is a flag of train, not of evaluate" : "is a flag of train, not of generate";
    table.essential = USE_ESSENTIAL;
    return table;
}
