// Flags of Megatron-LM's forks without a row, in the notation of flags_megatron.c: Megatron-DeepSpeed (Microsoft's and
// BigScience's), llm-jp, swiss-ai, BigCode and Pai-Megatron-Patch. Those that change no numbers are accepted with a
// note. The others are refused with a remedy; names that have an exact equivalent are in flags_aliases.c or
// flags_synonyms.c.
#include "config/flags.h"

const char flags_forks_always_so[] = "--use-mpi --sync-tp-duplicated-parameters --enable-shared-expert ";

// DeepSpeed's storage of activations, states and gradients, and kernels of others.
const char flags_forks_only_speed[] =
    "--deepspeed-activation-checkpointing --partition-activations --contigious-checkpointing --checkpoint-in-cpu "
    "--synchronize-each-layer --profile-backward --zero-reduce-scatter --zero-contigious-gradients "
    "--zero-reduce-bucket-size= --zero-allgather-bucket-size= --use-flash-attn-v1 --use-flash-attn-v2 "
    "--use-flash-attn-triton --use-flash-attn-builder --valid-num-workers= --qknorm-impl= ";

const char flags_forks_no_meaning[] =
    "--abort-on-unmet-fused-kernel-constraints --no-pipeline-parallel --log-optimizer-states-to-tensorboard "
    "--max-padding-length= --codecarbon-dir= --structured-logs --structured-logs-dir= --log-level= "
    "--log-level-replica= ";

// Finetuning on questions and answers: padded samples, losses of the answers only.
const char flags_finetuning[] = "--norm-target-loss --loss-on-targets-only --train-mode=pretrain "
                                "--source-seq-len= "
                                "--target-seq-len= --generation-length= --scalar-loss-mask= ";

// Pai's kinds of data that are tokenized already; --data-path names them.
const char flags_pai_dataset[] = "--dataset=MMAP|LLama-Pretrain-Idxmap|Mistral-Pretrain-Idxmap|Qwen-Pretrain-Idxmap ";

const char flags_deepspeed_checkpoint[] = "--universal-checkpoint ";

const char flags_deepspeed_experts[] =
    "--moe-expert-parallel-size= --moe-loss-coeff= --moe-train-capacity-factor= --moe-eval-capacity-factor= "
    "--moe-min-capacity= --create-moe-param-group --mlp-type= --disable-moe-token-dropping "
    "--disable-moe-top2-2nd-expert-sampling --use-tutel ";

// Features of other models and other losses.
const char flags_forks_other_models[] =
    "--use-z-loss --xielu --goldfish-loss --goldfish-k= --goldfish-h= --glu-activation= "
    "--ademamix-alpha= --ademamix-beta3= --ademamix-alpha-warmup= --ademamix-beta3-warmup= "
    "--disable-vision-class-token --patch-size= --position-encoding-2d --mup --mup-attn-mult= --mup-input-mult= "
    "--no-seq-len-plus-one-tokens --bitfit ";

const char flags_distillation[] =
    "--kd --mos --kd-alpha-ce= --kd-beta-ce= --kd-temp= --load-teacher= --num-layers-teacher= --hidden-size-teacher= "
    "--num-attention-heads-teacher= --num-experts-teacher= ";
