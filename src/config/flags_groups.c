// Messages about flags without a row: the lists of flags_megatron.c and flags_forks.c, each with its message.
#include "config/flags.h"

const struct flag_names flags_groups[] = {
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
_Static_assert(sizeof flags_groups / sizeof flags_groups[0] == FLAGS_GROUP_COUNT, "flags.h counts the groups");
