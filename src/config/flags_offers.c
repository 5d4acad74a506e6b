// The flags of a run that commands other than train have: those that mean something where nothing is trained. A flag
// that describes the model belongs in MODEL_FLAGS; a test sees to it.
#include "config/config.h"

// What a model needs that is not trained: what it is, how text becomes tokens, the checkpoint and the machine.
#define MODEL_FLAGS                                                                                                    \
    "--preset --model --num-layers --hidden-size --word-embedding-size --ffn-hidden-size --num-attention-heads "       \
    "--kv-channels --max-position-embeddings --make-vocab-size-divisible-by --padded-vocab-size --norm-epsilon "       \
    "--normalization --norm-placement --position-embedding-type --no-position-embedding --position-offset "            \
    "--rotary-base --rotary-percent --rotary-interleaved --rotary-seq-len-interpolation-factor --use-rope-scaling "    \
    "--rope-scaling-type --yarn-beta-fast --yarn-beta-slow --yarn-attention-factor --rope-scaling-factor "             \
    "--rope-low-freq-factor --rope-high-freq-factor --rope-original-length --rope-short-factor --rope-long-factor "    \
    "--relative-attention-num-buckets "                                                                                \
    "--relative-attention-max-distance --relative-attention-per-layer --scale-alibi "                                  \
    "--sliding-window --softmax-scale --swiglu --embed-layernorm "                                                     \
    "--window-size --window-attn-skip-freq --rotary-base-local --attn-logit-softcapping --final-logit-softcapping "    \
    "--multi-latent-attention --q-lora-rank --kv-lora-rank --latent-norm-epsilon --latent-rotary-halves "              \
    "--qk-head-dim --qk-pos-emb-head-dim --v-head-dim "                                                                \
    "--rope-type --rotary-scaling-factor --original-max-position-embeddings --mscale --mscale-all-dim "                \
    "--softmax-type --quick-geglu --glu-linear-offset --activation-func-clamp-value "                                  \
    "--activation --lm-head-activation --gated-linear-unit --squared-relu --apply-layernorm-1p --qk-layernorm "        \
    "--qk-layernorm-all-heads --qk-layernorm-per-head --qk-layernorm-after-rope --parallel-residual "                  \
    "--parallel-residual-one-norm "                                                                                    \
    "--embedding-multiplier "                                                                                          \
    "--residual-multiplier --logits-scaling "                                                                          \
    "--no-rope-freq --no-norm-bias --no-yarn-correction-range-round-to-int "                                           \
    "--no-bias-gelu-fusion --openai-gelu --onnx-safe --use-legacy-models --disable-bias-linear --add-qkv-bias "        \
    "--add-attention-bias --add-mlp-bias --group-query-attention --num-query-groups "                                  \
    "--untie-embeddings-and-output-weights --add-output-bias --scale-tied-output --apply-query-key-layer-scaling "     \
    "--attention-softmax-in-fp32 --encoder-num-layers --decoder-num-layers --bert-no-binary-head "                     \
    "--num-token-types --biencoder-projection-dim --biencoder-shared-query-context-model --retriever-score-scaling "   \
    "--mtp-num-layers --num-experts --moe-layer-freq --moe-ffn-hidden-size --moe-router-topk "                         \
    "--moe-router-score-function "                                                                                     \
    "--moe-router-pre-softmax --moe-router-topk-scaling-factor --moe-router-num-groups --moe-router-group-best "       \
    "--moe-router-group-topk "                                                                                         \
    "--moe-router-dtype --moe-expert-capacity-factor --moe-pad-expert-input-to-capacity --moe-token-drop-policy "      \
    "--moe-router-enable-expert-bias "                                                                                 \
    "--moe-shared-expert-intermediate-size --moe-shared-expert-gate --expert-tensor-parallel-size "                    \
    "--moe-token-dispatcher-type "                                                                                     \
    "--seq-length --seed --bf16 --fp16 --tokenizer-type --vocab-file --merge-file "                                    \
    "--tokenizer-model --vocab-size --vocab-extra-ids --no-legacy-tokenizer --null-tokenizer-eod-id --eod-token "      \
    "--decoder-start-token --load --checkpoint-cache-path --endpoint-url "                                             \
    "--ckpt-step --use-checkpoint-args --auto-detect-ckpt-format --ckpt-format --device --threads --cpu-kernels "      \
    "--tensor-model-parallel-size --pipeline-model-parallel-size --context-parallel-size --cp-comm-type "              \
    "--hierarchical-context-parallel-sizes --expert-model-parallel-size --sequence-parallel "                          \
    "--distributed-backend --distributed-timeout-minutes --attention-backend "
// What an evaluation needs besides: the text, and how samples are made of it.
#define DATA_FLAGS                                                                                                     \
    "--micro-batch-size --data-path --data-args-path --valid-data-path --split --data-cache-path --json-keys "         \
    "--eod-mask-loss --reset-position-ids --reset-attention-mask --no-create-attention-mask-in-dataloader "            \
    "--mask-prob "                                                                                                     \
    "--short-seq-prob --sample-break-mode --leave-unmasked-prob --random-token-prob --mask-whole-words "               \
    "--titles-data-path --query-in-block-prob --use-one-sent-docs --retriever-report-topk-accuracies "
// How a pipeline's stages share the layers.
#define STAGE_FLAGS                                                                                                    \
    "--decoder-first-pipeline-num-layers --decoder-last-pipeline-num-layers "                                          \
    "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split "                                  \
    "--pipeline-model-parallel-layout --pipeline-model-parallel-split-rank "

// What is given to a command whose model comes from a checkpoint with its flags.
#define ESSENTIAL_FLAGS                                                                                                \
    "--load --ckpt-step --seq-length --bf16 --fp16 --seed --tokenizer-type --vocab-file --merge-file "                 \
    "--tokenizer-model --device --threads --tensor-model-parallel-size --pipeline-model-parallel-size "

struct flag_table config_flag_table_for(size_t base, enum config_use use) {
    struct flag_table table = config_flag_table(base);
    if (use == CONFIG_EVALUATE) {
        table.offered = MODEL_FLAGS DATA_FLAGS STAGE_FLAGS;
        table.refusal = "is a flag of train, not of evaluate";
        table.essential = ESSENTIAL_FLAGS "--data-path --split --micro-batch-size ";
    } else if (use == CONFIG_GENERATE) {
        table.offered = MODEL_FLAGS STAGE_FLAGS;
        table.refusal = "is a flag of train, not of generate";
        table.essential = ESSENTIAL_FLAGS;
    }
    return table;
}
