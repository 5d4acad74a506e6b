// The rules between flags. See validate.h. Sorted by subject.
#include "config/flags.h"
#include "config/validate.h"

#define NEEDS .kind = RULE_NEEDS, .flags
#define BELONGS .kind = RULE_BELONGS, .flags
#define EXCLUDES .kind = RULE_EXCLUDES, .flags
#define IDLE .kind = RULE_IDLE, .flags
#define IDLE_WITH .kind = RULE_IDLE_WITH, .flags

#define SINKHORN "--moe-router-load-balancing-type sinkhorn"
#define LONGROPE "--position-embedding-type rope --use-rope-scaling --rope-scaling-type longrope"

const struct flag_rule rules_always[] = {
    // Features of only some forms of model.
    {BELONGS = "--position-embedding-type alibi", "--model gpt", "; give learned_absolute or rope, or relative for T5"},
    {BELONGS = "--reset-attention-mask, --reset-position-ids, --eod-mask-loss, --word-embedding-size, --num-experts, "
               "--sliding-window, --attn-logit-softcapping, --final-logit-softcapping, --softmax-type learnable, "
               "--multi-latent-attention, --mtp-num-layers, --fp4-format, --no-norm-bias, "
               "--qk-layernorm, --norm-placement output|both, --parallel-residual, --logits-scaling, "
               "--no-rope-freq, --embedding-multiplier, --residual-multiplier, --z-loss-strength",
     "--model gpt"},
    {BELONGS = "--embed-layernorm", "--model gpt",
     "; leave it out (a BERT with --norm-placement post has a norm of embeddings anyway)"},
    {BELONGS = "--rope-scaling-type longrope", "--model gpt", .when = LONGROPE},
    {BELONGS = "--calculate-per-token-loss", "--model gpt|t5",
     ": the losses of BERT and ICT are means of each micro-batch, in Megatron too"},
    {BELONGS = "--lm-head-activation", "--model bert"},
    {EXCLUDES = "--norm-placement post", "--model t5", "; leave it out"},
    {EXCLUDES = "--untie-embeddings-and-output-weights", "--model bert",
     ", whose output layer shares the embedding's matrix; leave it out"},
    {EXCLUDES = "--untie-embeddings-and-output-weights, --add-output-bias, --scale-tied-output", "--model ict",
     ", which has no output layer"},
    {EXCLUDES = "--pipeline-model-parallel-size", "--model ict",
     ", which compares the embeddings of both towers in one pass"},
    {EXCLUDES = "--context-parallel-size", "--model ict",
     ", which embeds a text by its first token: only one rank would have it"},
    {EXCLUDES = "--fp8-format", "--model ict", ", which is not verified in fp8"},
    {EXCLUDES = "--titles-data-path",
     "--train-data-path, --per-split-data-args-path, --train-weighted-split-paths, --train-weighted-split-paths-path",
     ": it has the titles of one dataset; give a single --data-path with it", .when = "--model ict"},

    // Positions and attention.
    {NEEDS = "--relative-attention-per-layer", "--position-embedding-type relative"},
    {NEEDS = "--scale-alibi", "--position-embedding-type alibi"},
    {NEEDS = "--no-rope-freq", "--position-embedding-type rope"},
    {NEEDS = "--rope-scaling-type longrope", "--rope-long-factor", "; give a number for each rotated pair of channels",
     .when = LONGROPE},
    {BELONGS = "--rope-short-factor, --rope-long-factor", LONGROPE},
    {NEEDS = "--window-attn-skip-freq", "--sliding-window", "; give it or --window-size too"},
    {BELONGS = "--rotary-base-local", "--sliding-window", ": it is for layers with a window"},
    {BELONGS = "--rotary-base-local", "--position-embedding-type rope"},
    {EXCLUDES = "--attn-logit-softcapping", "--position-embedding-type relative|alibi"},
    {EXCLUDES = "--cp-comm-type a2a|a2a+p2p", "--model t5, --position-embedding-type relative", "; give p2p",
     .when = "--context-parallel-size"},
    {NEEDS = "--cp-comm-type a2a+p2p", "--hierarchical-context-parallel-sizes",
     "; give A B, with A × B = --context-parallel-size: A neighbours exchange heads; or --cp-comm-type a2a or p2p",
     .when = "--context-parallel-size"},
    {EXCLUDES = "--scale-tied-output", "--untie-embeddings-and-output-weights"},
    {EXCLUDES = "--z-loss-strength", "--mtp-num-layers", ", whose losses have none in llm-jp's Megatron-LM"},

    // Latent attention.
    {BELONGS = "--rope-type yarn", "--multi-latent-attention",
     "; give --use-rope-scaling --rope-scaling-type yarn instead"},
    {IDLE = "--q-lora-rank, --kv-lora-rank, --qk-head-dim, --qk-pos-emb-head-dim, --v-head-dim, --rope-type rope, "
            "--rotary-scaling-factor, --original-max-position-embeddings, --mscale, --mscale-all-dim, "
            "--latent-norm-epsilon, --latent-rotary-halves, --recompute-modules mla_up_proj",
     "--multi-latent-attention"},
    {IDLE_WITH = "--rotary-scaling-factor", "--rope-type rope", "; give --rope-type yarn",
     .when = "--multi-latent-attention"},
    {NEEDS = "--multi-latent-attention", "--position-embedding-type rope"},
    {EXCLUDES = "--use-rope-scaling", "--multi-latent-attention", "; give --rotary-scaling-factor instead"},
    {EXCLUDES = "--yarn-attention-factor", "--multi-latent-attention", "; give --mscale and --mscale-all-dim instead"},
    {EXCLUDES = "--rotary-percent", "--multi-latent-attention", "; give --qk-pos-emb-head-dim instead"},
    {EXCLUDES = "--rotary-interleaved, --rotary-seq-len-interpolation-factor, --rotary-base-local, --no-rope-freq, "
                "--add-qkv-bias, --softmax-type learnable, --parallel-residual",
     "--multi-latent-attention"},
    {EXCLUDES = "--qk-layernorm-per-head, --qk-layernorm-all-heads, --qk-layernorm-after-rope",
     "--multi-latent-attention", ", where --qk-layernorm normalizes latents"},

    // Blocks.
    {EXCLUDES = "--embed-layernorm", "--embedding-multiplier", ": the norm sets the size of embeddings"},
    {EXCLUDES = "--embed-layernorm", "--word-embedding-size, --mtp-num-layers"},
    {NEEDS = "--qk-layernorm-all-heads, --qk-layernorm-per-head, --qk-layernorm-after-rope", "--qk-layernorm"},
    {EXCLUDES = "--qk-layernorm-per-head, --qk-layernorm-after-rope", "--qk-layernorm-all-heads"},
    {NEEDS = "--parallel-residual", "--norm-placement pre"},
    {NEEDS = "--parallel-residual-one-norm", "--parallel-residual"},
    {EXCLUDES = "--parallel-residual-one-norm", "--fp8-format"},
    {EXCLUDES = "--parallel-residual", "--num-experts"},
    {EXCLUDES = "--no-norm-bias", "--normalization RMSNorm", ", which has no bias"},
    {NEEDS = "--embedding-multiplier, --residual-multiplier", "--disable-bias-linear",
     ": biases of what is added to the residual stream would have to be multiplied too",
     .when = "--norm-placement pre"},
    {EXCLUDES = "--embedding-multiplier, --residual-multiplier", "--add-attention-bias, --add-mlp-bias",
     ": biases of what is added to the residual stream would have to be multiplied too",
     .when = "--norm-placement pre"},
    {EXCLUDES = "--embedding-multiplier, --residual-multiplier, --mtp-num-layers", "--norm-placement post",
     "; give another"},
    {NEEDS = "--embedding-multiplier", "--position-embedding-type rope|relative|alibi|none",
     ": positions must not be added to words"},
    {EXCLUDES = "--mtp-num-layers", "--position-embedding-type relative", "; give rope, learned_absolute or none"},
    {IDLE = "--mtp-loss-scaling-factor", "--mtp-num-layers"},
    {EXCLUDES = "--swiglu, --squared-relu, --quick-geglu", "--activation gelu_tanh|gelu|relu"},
    {EXCLUDES = "--swiglu", "--squared-relu, --quick-geglu, --activation squared_relu|quick_gelu",
     ": they are two activations"},
    {EXCLUDES = "--squared-relu", "--quick-geglu, --activation silu|quick_gelu", ": they are two activations"},
    {EXCLUDES = "--quick-geglu", "--activation silu|squared_relu", ": they are two activations"},
    {NEEDS = "--glu-linear-offset, --activation-func-clamp-value", "--quick-geglu, --swiglu, --gated-linear-unit",
     ": it is about gated MLPs"},

    // Experts.
    {NEEDS = "--moe-use-upcycling, --expert-model-parallel-size, --overlap-moe-expert-parallel-comm", "--num-experts"},
    {IDLE = "--recompute-modules moe|moe_act|shared_experts", "--num-experts", ": every MLP is dense",
     .uses = USE_EXPERTS},
    {IDLE = "--moe-router-group-best", "--moe-router-num-groups", .when = "--num-experts"},
    {NEEDS = "--moe-router-num-groups", "--moe-router-group-topk", .when = "--num-experts"},
    {NEEDS = "--moe-router-group-topk", "--moe-router-num-groups", .when = "--num-experts"},
    {NEEDS = "--moe-router-topk 1", "--moe-router-pre-softmax, --moe-router-score-function sigmoid|sqrtsoftplus",
     ": with a softmax over one chosen expert the weight is always 1 and has no gradient", .when = "--num-experts"},
    {IDLE_WITH = "--moe-router-pre-softmax", "--moe-router-score-function sigmoid|sqrtsoftplus", ", as in Megatron",
     .when = "--num-experts"},
    {NEEDS = "--moe-router-enable-expert-bias", "--moe-router-score-function sigmoid|sqrtsoftplus",
     ": scores that do not depend on each other, as in Megatron", .when = "--num-experts"},
    {IDLE = "--moe-router-bias-update-rate", "--moe-router-enable-expert-bias", .when = "--num-experts"},
    {EXCLUDES = "--moe-router-enable-expert-bias", SINKHORN, ", which balances experts itself",
     .when = "--num-experts"},
    {EXCLUDES = "--moe-router-num-groups", SINKHORN, ", which chooses among all experts", .when = "--num-experts"},
    {EXCLUDES = "--moe-router-topk-scaling-factor", SINKHORN, .when = "--num-experts"},
    {NEEDS = "--moe-shared-expert-gate", "--moe-shared-expert-intermediate-size", .when = "--num-experts"},
    {NEEDS = "--moe-shared-expert-intermediate-size", "--disable-bias-linear", ", as in Megatron",
     .when = "--num-experts"},
    {EXCLUDES = "--moe-shared-expert-intermediate-size", "--add-mlp-bias", ", as in Megatron", .when = "--num-experts"},
    {EXCLUDES = "--sample-interval", "--expert-model-parallel-size"},
    {NEEDS = "--overlap-moe-expert-parallel-comm", "--expert-model-parallel-size", ", ranks that share out the experts",
     .when = "--num-experts"},
    {EXCLUDES = "--overlap-moe-expert-parallel-comm", "--cpu-offloading",
     ", which does not keep the inputs of two micro-batches apart"},
    {IDLE = "--moe-upcycling-granularity", "--moe-use-upcycling", .when = "--num-experts"},
    {NEEDS = "--moe-use-upcycling", "--load, --pretrained-checkpoint", ", the dense checkpoint to start from",
     .when = "--num-experts"},
    {EXCLUDES = "--moe-use-upcycling", "--moe-shared-expert-intermediate-size", ", which nothing could be made of",
     .when = "--num-experts"},

    // Optimizers.
    {EXCLUDES = "--optimizer muon|adaptive_muon", "--fp16", "; give --bf16, or train in fp32"},
    {NEEDS = "--muon-coefficient-type cubic5", "--muon-num-ns-steps 5", .when = "--optimizer muon|adaptive_muon"},
    {IDLE_WITH = "--exp-avg-dtype, --exp-avg-sq-dtype", "--optimizer lion|sgd", "; it is for Adam"},
    {IDLE = "--qk-clip-alpha, --qk-clip-threshold", "--qk-clip"},
    {NEEDS = "--qk-clip", "--optimizer muon|adaptive_muon", ", which updates whole matrices"},
    {NEEDS = "--optimizer-offload-fraction", "--optimizer-cpu-offload"},
    {NEEDS = "--eval-with-ema", "--ema-decay", ", e.g. 0.999"},
    {NEEDS = "--overlap-param-gather", "--use-distributed-optimizer"},
    {NEEDS = "--overlap-param-gather", "--overlap-grad-reduce"},

    // Recompute.
    {EXCLUDES = "--moe-layer-recompute", "--recompute-granularity full", ", which recomputes experts as well"},
    {EXCLUDES = "--recompute-modules mlp", "--fp8-format", "; give mlp_act"},
    {IDLE = "--cpu-offloading, --recompute-keep-attention, --recompute-method, --recompute-num-layers, "
            "--distribute-saved-activations",
     "--recompute-granularity full"},
    {IDLE = "--recompute-modules", "--recompute-granularity selective"},
    {IDLE = "--cpu-offloading-num-layers", "--cpu-offloading"},
    {EXCLUDES = "--cpu-offloading", "--pipeline-model-parallel-size",
     "; leave it out, or use --context-parallel-size for long sequences", .when = "--recompute-granularity full"},
    {EXCLUDES = "--cpu-offloading", "--distribute-saved-activations", .when = "--recompute-granularity full"},

    // Precision.
    {EXCLUDES = "--fp16", "--bf16"},
    {EXCLUDES = "--fast-attention-dropout", "--deterministic-mode"},
    {IDLE = "--grad-reduce-in-bf16", "--bf16"},
    {NEEDS = "--fp8-format, --fp4-format", "--bf16", ": it is for the matmuls of a bf16 model"},
    {NEEDS = "--fp8-format e4m3", "--fp8-recipe blockwise|mxfp8", "; give --fp8-format hybrid"},
    {BELONGS = "--fp8-fast-input-gradients", "--fp8-format --fp8-recipe delayed|tensorwise"},
    {NEEDS = "--fp8-output-proj", "--fp8-format"},
    {NEEDS = "--fp8-output-proj", "--fp8-recipe delayed|tensorwise"},
    {EXCLUDES = "--fp8-output-proj", "--mtp-num-layers", ": this is not verified"},
    {IDLE_WITH = "--logits-at-once", "--fp8-output-proj", ", which keeps all logits"},
    {EXCLUDES = "--fp4-format", "--fp8-format, --fp8-output-proj"},
    {EXCLUDES = "--num-experts, --multi-latent-attention, --parallel-residual-one-norm, --mtp-num-layers, "
                "--replay-check, --glu-linear-offset, --activation-func-clamp-value",
     "--fp4-format", ": this is not verified"},
    {IDLE = "--num-layers-at-start-in-bf16, --num-layers-at-end-in-bf16", "--first-last-layers-bf16"},
    {IDLE = "--first-last-layers-bf16", "--fp8-format, --fp4-format"},

    // The pipeline.
    {NEEDS = "--pipeline-model-parallel-layout, --pipeline-model-parallel-split-rank, "
             "--num-layers-per-virtual-pipeline-stage, --decoder-first-pipeline-num-layers, "
             "--decoder-last-pipeline-num-layers, --account-for-embedding-in-pipeline-split, "
             "--account-for-loss-in-pipeline-split",
     "--pipeline-model-parallel-size", ", which makes stages; give 2 or more"},
    {BELONGS = "--pipeline-model-parallel-split-rank", "--model t5", ": other models have one stack of layers"},
    {EXCLUDES = "--pipeline-model-parallel-layout, --decoder-first-pipeline-num-layers, "
                "--decoder-last-pipeline-num-layers, --account-for-embedding-in-pipeline-split, "
                "--account-for-loss-in-pipeline-split",
     "--model t5", "; give --pipeline-model-parallel-split-rank"},
    {EXCLUDES = "--account-for-embedding-in-pipeline-split, --account-for-loss-in-pipeline-split",
     "--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers",
     ": both choose the layers of the first and the last stage"},
    {EXCLUDES = "--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers, "
                "--account-for-embedding-in-pipeline-split, --account-for-loss-in-pipeline-split, "
                "--num-layers-per-virtual-pipeline-stage, --num-virtual-stages-per-pipeline-rank",
     "--pipeline-model-parallel-layout", ", which says the layers of every chunk"},
    {EXCLUDES = "--num-layers-per-virtual-pipeline-stage", "--num-virtual-stages-per-pipeline-rank",
     ": both say the number of chunks"},

    // Tokenizers.
    {EXCLUDES = "--vocab-file, --merge-file, --tokenizer-model", "--tokenizer-type auto",
     ", which trains a tokenizer; leave it out, or name the type of its tokenizer"},
    {NEEDS = "--tokenizer-type auto", "--model gpt",
     "; it makes a GPT-2 tokenizer, which lacks the special tokens of others; give another type and its files, e.g. "
     "BertWordPieceLowerCase with --vocab-file vocab.txt"},
    {NEEDS = "--tokenizer-type NullTokenizer", "--vocab-size", "; give it"},
    {NEEDS = "--tokenizer-type SentencePieceTokenizer|GPTSentencePieceTokenizer|Llama2Tokenizer|HuggingFaceTokenizer|"
             "TikTokenizer|FairseqTokenizer",
     "--tokenizer-model", "; give it"},
    {NEEDS = "--tokenizer-type BertWordPieceLowerCase|BertWordPieceCase", "--vocab-file", "; give its vocab.txt"},

    // Checkpoints.
    {EXCLUDES = "--override-opt_param-scheduler", "--use-checkpoint-opt_param-scheduler"},
    {NEEDS = "--finetune", "--load", ", the checkpoint to start from"},
    {NEEDS = "--use-checkpoint-args", "--load, --pretrained-checkpoint", ", the checkpoint to take them from"},
    {NEEDS = "--ckpt-step", "--load", ", the folder it is in"},
    {NEEDS = "--save-to", "--save", ", the folder that checkpoints are written to first"},
    {NEEDS = "--keep-best", "--save", ", the folder for the checkpoint"},
    {EXCLUDES = "--keep-best", "--eval-iters 0", ": the best checkpoint is that of an evaluation"},
    {NEEDS = "--save-fallback", "--save"},
    {0}};

const struct flag_rule rules_of_data[] = {
    {BELONGS = "--fim-data", "--model gpt"},
    {IDLE = "--fim-rate", "--fim-data", ", as in Megatron-LM"},
    {EXCLUDES = "--train-weighted-split-paths", "--train-weighted-split-paths-path", ", which says the same"},
    {EXCLUDES = "--valid-weighted-split-paths", "--valid-weighted-split-paths-path", ", which says the same"},
    {EXCLUDES = "--test-weighted-split-paths", "--test-weighted-split-paths-path", ", which says the same"},
    {IDLE_WITH = "--split",
     "--train-data-path, --valid-data-path, --test-data-path, --per-split-data-args-path, "
     "--train-weighted-split-paths, --valid-weighted-split-paths, --test-weighted-split-paths, "
     "--train-weighted-split-paths-path, --valid-weighted-split-paths-path, --test-weighted-split-paths-path",
     ": it splits one --data-path"},
    {EXCLUDES = "--data-path", "--data-args-path", ", which says the same"},
    {NEEDS = "--sample-break-mode", "--model bert --bert-no-binary-head", ": it is for RoBERTa's samples"},
    {NEEDS = "--mask-whole-words", "--sample-break-mode", ": it is RoBERTa's (BERT always masks words)"},
    {NEEDS = "--mask-whole-words", "--vocab-file",
     ", a BPE: the tokens of a dictionary of words are words; give it and --merge-file, or leave the flag out",
     .when = "--tokenizer-type FairseqTokenizer"},
    {0}};

const struct flag_rule rules_of_training[] = {
    // Batches and schedules.
    {NEEDS = "--rampup-batch-size, --step-batch-size-schedule", "--train-samples",
     ", a run counted in samples; give it instead of --train-iters"},
    {EXCLUDES = "--step-batch-size-schedule", "--rampup-batch-size"},
    {EXCLUDES = "--lr-decay-iters, --lr-warmup-iters, --lr-wsd-decay-iters", "--train-samples",
     "; give the flag that counts samples"},
    {NEEDS = "--lr-decay-samples, --lr-warmup-samples, --lr-wsd-decay-samples", "--train-samples",
     "; with --train-iters, give the flag that counts iterations"},
    {NEEDS = "--lr-warmup-tokens", "--lr-decay-tokens", ", the length of which it is part"},
    {EXCLUDES = "--lr-warmup-fraction", "--lr-warmup-iters, --lr-warmup-samples, --lr-warmup-tokens"},
    {NEEDS = "--lr-decay-style WSD", "--lr-wsd-decay-iters, --lr-wsd-decay-samples",
     ", the length of its last part; without a last part it is --lr-decay-style constant", .when = "--lr"},

    // Rewinding, and faults.
    {NEEDS = "--replay-check, --nan-policy rewind-and-skip, --spike-policy rewind-and-skip", "--save",
     ", the folder of the checkpoints to go back to"},
    {EXCLUDES = "--replay-check", "--fp8-format", ", whose scales see every pass"},
    {EXCLUDES = "--nan-policy rewind-and-skip, --spike-policy rewind-and-skip", "--no-save-optim",
     ": it needs the optimizer in its checkpoints; leave --no-save-optim out"},
    {NEEDS = "--inject-kinds", "--inject-count, --inject", ", the number of faults to draw"},
    {NEEDS = "--inject, --inject-count", "--allow-injected-faults",
     ": it makes the run fail on purpose; give both if you mean it"},

    // Tasks and samples.
    {IDLE = "--eval-tasks-interval, --eval-tasks-limit, --eval-task-data, --eval-task-file", "--eval-tasks"},
    {NEEDS = "--eval-tasks", "--eval-task-data", ", the folder of their public files"},
    {BELONGS = "--eval-tasks", "--model gpt", ", models that continue a text"},
    {IDLE = "--sample-prompt", "--sample-interval"},
    {BELONGS = "--sample-interval", "--model gpt", ", models that continue a text"},
    {EXCLUDES = "--sample-interval", "--context-parallel-size", ", which cannot split one token at a time"},
    {0}};
