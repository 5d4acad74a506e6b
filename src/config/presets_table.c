// The table of published models. Sizes are those of the papers and released configurations; tests compare every count
// of parameters with that of transformers' own model of the same configuration.
#include "config/flags.h"

#define GPT ""
#define OPT "--activation relu --position-offset 2 --attention-dropout 0 "
#define LLAMA                                                                                                          \
    "--normalization RMSNorm --swiglu true --disable-bias-linear true --position-embedding-type rope "                 \
    "--untie-embeddings-and-output-weights true --hidden-dropout 0 --attention-dropout 0 "
#define TIED_LLAMA                                                                                                     \
    "--normalization RMSNorm --swiglu true --disable-bias-linear true --position-embedding-type rope "                 \
    "--hidden-dropout 0 --attention-dropout 0 "
#define LLAMA3 LLAMA "--rotary-base 500000 --group-query-attention true --num-query-groups 8 "
#define SCALED "--use-rope-scaling true --seq-length 8192 "
#define UNTIED "--untie-embeddings-and-output-weights true "
#define QWEN TIED_LLAMA "--rotary-base 1000000 --norm-epsilon 1e-6 --group-query-attention true --seq-length 4096 "
#define QWEN2 QWEN "--add-qkv-bias true "
#define QWEN3 QWEN "--qk-layernorm true --kv-channels 128 --num-query-groups 8 "
#define MIXTRAL                                                                                                        \
    LLAMA "--rotary-base 1000000 --group-query-attention true --num-query-groups 8 --num-experts 8 --seq-length 4096 "
#define QWEN3_MOE QWEN3 UNTIED "--num-query-groups 4 --num-experts 128 --moe-router-topk 8 "
#define QWEN2_MOE QWEN2 UNTIED "--moe-shared-expert-gate true --moe-router-pre-softmax true "
#define DEEPSEEK                                                                                                       \
    LLAMA                                                                                                              \
    "--norm-epsilon 1e-6 --multi-latent-attention true --qk-layernorm true --kv-lora-rank 512 "                        \
    "--rotary-scaling-factor 40 --seq-length 4096 "
#define DEEPSEEK_V2 DEEPSEEK "--moe-router-topk 6 --moe-router-pre-softmax true --mscale 0.707 --mscale-all-dim 0.707 "
#define GLM4                                                                                                           \
    LLAMA                                                                                                              \
    "--kv-channels 128 --rotary-percent 0.5 --group-query-attention true --num-query-groups 2 --seq-length 4096 "
#define GLM45                                                                                                          \
    GLM4 "--num-query-groups 8 --rotary-base 1000000 --add-qkv-bias true --moe-router-topk 8 "                         \
         "--moe-router-score-function sigmoid --moe-router-enable-expert-bias true "
#define BIASED_ROUTER "--moe-router-score-function sigmoid --moe-router-enable-expert-bias true "
#define GPT_OSS                                                                                                        \
    "--normalization RMSNorm --quick-geglu true --glu-linear-offset 1 --activation-func-clamp-value 7 "                \
    "--softmax-type learnable --position-embedding-type rope --rotary-base 150000 --use-rope-scaling true "            \
    "--rope-scaling-type yarn --rope-scaling-factor 32 --rope-original-length 4096 "                                   \
    "--no-yarn-correction-range-round-to-int true --sliding-window 128 --window-attn-skip-freq 2 --kv-channels 64 "    \
    "--ffn-hidden-size 2880 --group-query-attention true --num-query-groups 8 --moe-router-topk 4 "                    \
    "--untie-embeddings-and-output-weights true --hidden-dropout 0 --attention-dropout 0 --seq-length 4096 "
#define PHI4_MINI                                                                                                      \
    TIED_LLAMA                                                                                                         \
    "--ffn-hidden-size 8192 --group-query-attention true --num-query-groups 8 --rotary-percent 0.75 "                  \
    "--use-rope-scaling true --rope-scaling-type longrope --rope-scaling-factor 32 --rope-original-length 4096 "       \
    "--rope-long-factor 1,1.118320672,1.250641126,1.398617824,1.564103225,1.74916897,1.956131817,2.187582649,"         \
    "2.446418898,2.735880826,3.059592084,3.421605075,3.826451687,4.279200023,4.785517845,5.351743533,5.984965424,"     \
    "6.693110555,7.485043894,8.370679318,9.36110372,10.4687158,11.70738129,13.09260651,14.64173252,16.37415215,"       \
    "18.31155283,20.47818807,22.90118105,25.61086418,28.64115884,32.03,32.1,32.13,32.23,32.6,32.61,32.64,32.66,32.7,"  \
    "32.71,32.93,32.97,33.28,33.49,33.5,44.16,47.77 --seq-length 4096 "
#define STARCODER2                                                                                                     \
    "--position-embedding-type rope --group-query-attention true --sliding-window 4096 --init-method-std 0.018042 "
#define STABLELM                                                                                                       \
    "--swiglu true --disable-bias-linear true --position-embedding-type rope --rotary-percent 0.25 "                   \
    "--untie-embeddings-and-output-weights true --hidden-dropout 0 --attention-dropout 0 "
#define NEMOTRON                                                                                                       \
    "--apply-layernorm-1p true --squared-relu true --disable-bias-linear true --position-embedding-type rope "         \
    "--rotary-percent 0.5 --untie-embeddings-and-output-weights true --hidden-dropout 0 --attention-dropout 0 "
#define NEOX                                                                                                           \
    "--parallel-residual true --activation gelu --position-embedding-type rope --rotary-percent 0.25 "                 \
    "--untie-embeddings-and-output-weights true --hidden-dropout 0 --attention-dropout 0 "
#define PHI                                                                                                            \
    "--parallel-residual true --parallel-residual-one-norm true --activation gelu_tanh --add-output-bias true "        \
    "--position-embedding-type rope --untie-embeddings-and-output-weights true --hidden-dropout 0 "                    \
    "--attention-dropout 0 "
#define FALCON                                                                                                         \
    "--parallel-residual true --activation gelu --position-embedding-type rope --disable-bias-linear true "            \
    "--group-query-attention true --hidden-dropout 0 --attention-dropout 0 "
#define BLOOM                                                                                                          \
    "--position-embedding-type alibi --embed-layernorm true --activation gelu_tanh --hidden-dropout 0 "                \
    "--attention-dropout 0 "
#define MPT                                                                                                            \
    "--position-embedding-type alibi --no-norm-bias true --disable-bias-linear true --activation gelu "                \
    "--hidden-dropout 0 --attention-dropout 0 "
#define GRANITE                                                                                                        \
    TIED_LLAMA                                                                                                         \
    "--group-query-attention true --num-query-groups 8 --embedding-multiplier 12 --residual-multiplier 0.22 "          \
    "--rotary-base 10000 --seq-length 4096 "
#define OLMO2                                                                                                          \
    LLAMA "--norm-placement output --qk-layernorm true --qk-layernorm-all-heads true --rotary-base 500000 "            \
          "--norm-epsilon 1e-6 "
#define COHERE                                                                                                         \
    "--no-norm-bias true --swiglu true --disable-bias-linear true --position-embedding-type rope "                     \
    "--rotary-interleaved true --parallel-residual true --parallel-residual-one-norm true --hidden-dropout 0 "         \
    "--attention-dropout 0 "
#define OLMO3                                                                                                          \
    OLMO2 "--sliding-window 4096 --window-attn-skip-freq 4 --rotary-base-local 500000 --use-rope-scaling true "        \
          "--rope-scaling-type yarn --rope-scaling-factor 8 --rope-original-length 8192 --seq-length 8192 "
#define GRANITE_MOE                                                                                                    \
    GRANITE "--ffn-hidden-size 512 --moe-router-topk 8 --softmax-scale 0.015625 --logits-scaling 6 --norm-epsilon "    \
            "1e-6 "
#define GEMMA                                                                                                          \
    "--normalization RMSNorm --apply-layernorm-1p true --activation gelu_tanh --gated-linear-unit true "               \
    "--disable-bias-linear true --position-embedding-type rope --norm-epsilon 1e-6 --kv-channels 256 "                 \
    "--embedding-multiplier 0 --hidden-dropout 0 --attention-dropout 0 "
#define GEMMA2 GEMMA "--norm-placement both --group-query-attention true "
#define CAPPED                                                                                                         \
    "--attn-logit-softcapping 50 --final-logit-softcapping 30 --sliding-window 4096 --window-attn-skip-freq 2 "
#define GEMMA3 GEMMA2 "--qk-layernorm true --rotary-base 1000000 --rotary-base-local 10000 --window-attn-skip-freq 6 "
#define LONG_GEMMA3 GEMMA3 "--sliding-window 1024 --rotary-seq-len-interpolation-factor 8 --seq-length 4096 "
#define EXAONE4                                                                                                        \
    TIED_LLAMA "--norm-placement output --qk-layernorm true --rotary-base 1000000 --num-query-groups 8 "               \
               "--group-query-attention true --rope-scaling-factor 16 "
#define BERT "--model bert --norm-placement post --norm-epsilon 1e-12 --activation gelu --num-token-types 2 "
#define ROBERTA                                                                                                        \
    "--model bert --norm-placement post --activation gelu --num-token-types 1 --position-offset 2 "                    \
    "--bert-no-binary-head true --sample-break-mode complete "
#define ANY_T5                                                                                                         \
    "--model t5 --normalization RMSNorm --norm-epsilon 1e-6 --disable-bias-linear true "                               \
    "--position-embedding-type relative --softmax-scale 1 "
#define T5 ANY_T5 "--activation relu --scale-tied-output true "
#define T511                                                                                                           \
    ANY_T5                                                                                                             \
    "--activation gelu_tanh --gated-linear-unit true --untie-embeddings-and-output-weights true --kv-channels 64 "

#define GPT2_PAPER "Radford et al. 2019"
#define GPT3_PAPER "Brown et al. 2020"
#define NARAYANAN "Narayanan et al. 2021"
#define OPT_PAPER "Zhang et al. 2022"
#define LLAMA1_PAPER "Touvron et al. 2023a"
#define LLAMA2_PAPER "Touvron et al. 2023b"
#define LLAMA3_PAPER "Grattafiori et al. 2024"
#define BERT_PAPER "Devlin et al. 2019"
#define ROBERTA_PAPER "Liu et al. 2019"
#define T5_PAPER "Raffel et al. 2020"
#define T511_PAPER "Shazeer 2020"
#define MIXTRAL_PAPER "Jiang et al. 2024"
#define QWEN25_PAPER "Qwen Team 2024"
#define QWEN3_PAPER "Qwen Team 2025"
#define STARCODER2_PAPER "Lozhkov et al. 2024"
#define MT5_PAPER "Xue et al. 2021"
#define UMT5_PAPER "Chung et al. 2023"
#define XLMR_PAPER "Conneau et al. 2020"
#define PYTHIA_PAPER "Biderman et al. 2023"
#define OLMO2_PAPER "Walsh et al. 2025"
#define GEMMA2_PAPER "Gemma Team 2024b"
#define GEMMA3_PAPER "Gemma Team 2025"
#define GLM4_PAPER "GLM Team 2024"
#define GLM45_PAPER "GLM-4.5 Team 2025"
#define BLOOM_PAPER "BigScience 2022"
#define FALCON_PAPER "Almazrouei et al. 2023"
#define EXAONE4_PAPER "LG AI Research 2025"
#define RELEASED "released configuration"
#define FOR_CPU "for a CPU: learns in minutes to hours"
#define FOR_GPU "for one GPU"

// The GPT-3 paper gives 13B a width of 5140, and 1.3B 24 heads of 128, which contradict its own tables; the values here
// (5120, 16 heads) are the ones commonly trained. The Megatron family has a vocabulary of 51200: 50257 padded to a
// multiple of 1024. The first rows are not published models but sizes for one machine. The vocabulary is that of the
// released embedding.
static const struct preset presets[] = {
    {"cpu-3m", 4, 192, 3, 256, 8192, 128, TIED_LLAMA, "--ffn-hidden-size 512", "3.3M", FOR_CPU},
    {"cpu-10m", 6, 320, 5, 512, 8192, 128, TIED_LLAMA, "--ffn-hidden-size 896", "10M", FOR_CPU},
    {"cpu-30m", 8, 512, 8, 512, 8192, 128, TIED_LLAMA, "--ffn-hidden-size 1408", "30M", FOR_CPU},
    {"gpu-150m", 18, 768, 12, 2048, 32000, 128, TIED_LLAMA, "--ffn-hidden-size 2048", "152M", FOR_GPU},
    {"gpu-350m", 24, 1024, 16, 2048, 32000, 128, TIED_LLAMA, "--ffn-hidden-size 2816", "341M", FOR_GPU},
    {"gpu-1b", 22, 2048, 32, 2048, 32000, 128, LLAMA,
     "--ffn-hidden-size 5632 --group-query-attention true --num-query-groups 4", "1.1B",
     "for one GPU; TinyLlama, Zhang et al. 2024"},
    {"gpt2-124m", 12, 768, 12, 1024, 50257, 128, GPT, "", "124M", GPT2_PAPER},
    {"gpt2-355m", 24, 1024, 16, 1024, 50257, 128, GPT, "", "355M", GPT2_PAPER},
    {"gpt2-774m", 36, 1280, 20, 1024, 50257, 128, GPT, "", "774M", GPT2_PAPER},
    {"gpt2-1558m", 48, 1600, 25, 1024, 50257, 128, GPT, "", "1558M", GPT2_PAPER},
    {"gpt3-125m", 12, 768, 12, 2048, 50257, 128, GPT, "", "125M", GPT3_PAPER},
    {"gpt3-126m", 12, 768, 12, 2048, 50257, 128, GPT, "", "126M", "NeMo's name of gpt3-125m"},
    {"gpt3-350m", 24, 1024, 16, 2048, 50257, 128, GPT, "", "350M", GPT3_PAPER},
    {"gpt3-760m", 24, 1536, 16, 2048, 50257, 128, GPT, "", "760M", GPT3_PAPER},
    {"gpt3-1.3b", 24, 2048, 16, 2048, 50257, 128, GPT, "", "1.3B", GPT3_PAPER},
    {"gpt3-2.7b", 32, 2560, 32, 2048, 50257, 128, GPT, "", "2.7B", GPT3_PAPER},
    {"gpt3-6.7b", 32, 4096, 32, 2048, 50257, 128, GPT, "", "6.7B", GPT3_PAPER},
    {"gpt3-13b", 40, 5120, 40, 2048, 50257, 128, GPT, "", "13B", GPT3_PAPER},
    {"gpt3-175b", 96, 12288, 96, 2048, 50257, 128, GPT, "", "175B", GPT3_PAPER},
    {"megatron-345m", 24, 1024, 16, 1024, 50304, 128, GPT, "", "345M", "megatron_lm_345m"},
    {"megatron-1.7b", 24, 2304, 24, 2048, 51200, 1024, GPT, "", "1.7B", NARAYANAN},
    {"megatron-3.6b", 30, 3072, 32, 2048, 51200, 1024, GPT, "", "3.6B", NARAYANAN},
    {"megatron-7.5b", 36, 4096, 32, 2048, 51200, 1024, GPT, "", "7.5B", NARAYANAN},
    {"megatron-gpt2-8b", 42, 4096, 32, 1024, 51200, 1024, GPT, "", "8.7B", "Megatron-LM 2020, DGX-A100 table"},
    {"megatron-18b", 40, 6144, 48, 2048, 51200, 1024, GPT, "", "18.4B", NARAYANAN},
    {"megatron-39b", 48, 8192, 64, 2048, 51200, 1024, GPT, "", "39.1B", NARAYANAN},
    {"megatron-76b", 60, 10240, 80, 2048, 51200, 1024, GPT, "", "76.1B", NARAYANAN},
    {"megatron-145b", 80, 12288, 96, 2048, 51200, 1024, GPT, "", "145.6B", NARAYANAN},
    {"megatron-310b", 96, 16384, 128, 2048, 51200, 1024, GPT, "", "310.1B", NARAYANAN},
    {"megatron-530b", 105, 20480, 128, 2048, 51200, 1024, GPT, "", "529.6B", NARAYANAN},
    {"megatron-1t", 128, 25600, 160, 2048, 51200, 1024, GPT, "", "1008.0B", NARAYANAN},
    {"opt-125m", 12, 768, 12, 2048, 50272, 8, OPT, "", "125M", OPT_PAPER},
    {"opt-350m", 24, 1024, 16, 2048, 50272, 8, OPT, "--word-embedding-size 512 --norm-placement post", "350M",
     OPT_PAPER},
    {"opt-1.3b", 24, 2048, 32, 2048, 50272, 8, OPT, "", "1.3B", OPT_PAPER},
    {"opt-2.7b", 32, 2560, 32, 2048, 50272, 8, OPT, "", "2.7B", OPT_PAPER},
    {"opt-6.7b", 32, 4096, 32, 2048, 50272, 8, OPT, "", "6.7B", OPT_PAPER},
    {"opt-13b", 40, 5120, 40, 2048, 50272, 8, OPT, "", "13B", OPT_PAPER},
    {"opt-30b", 48, 7168, 56, 2048, 50272, 8, OPT, "", "30B", OPT_PAPER},
    {"opt-66b", 64, 9216, 72, 2048, 50272, 8, OPT, "", "66B", OPT_PAPER},
    {"opt-175b", 96, 12288, 96, 2048, 50272, 8, OPT, "", "175B", OPT_PAPER},
    {"llama-7b", 32, 4096, 32, 2048, 32000, 128, LLAMA, "--ffn-hidden-size 11008 --norm-epsilon 1e-6", "6.7B",
     LLAMA1_PAPER},
    {"llama-13b", 40, 5120, 40, 2048, 32000, 128, LLAMA, "--ffn-hidden-size 13824 --norm-epsilon 1e-6", "13.0B",
     LLAMA1_PAPER},
    {"llama-33b", 60, 6656, 52, 2048, 32000, 128, LLAMA, "--ffn-hidden-size 17920 --norm-epsilon 1e-6", "32.5B",
     LLAMA1_PAPER},
    {"llama-65b", 80, 8192, 64, 2048, 32000, 128, LLAMA, "--ffn-hidden-size 22016 --norm-epsilon 1e-5", "65.2B",
     LLAMA1_PAPER},
    {"llama2-7b", 32, 4096, 32, 4096, 32000, 128, LLAMA, "--ffn-hidden-size 11008", "7B", LLAMA2_PAPER},
    {"llama2-13b", 40, 5120, 40, 4096, 32000, 128, LLAMA, "--ffn-hidden-size 13824", "13B", LLAMA2_PAPER},
    {"llama2-70b", 80, 8192, 64, 4096, 32000, 128, LLAMA,
     "--ffn-hidden-size 28672 --group-query-attention true --num-query-groups 8", "70B", LLAMA2_PAPER},
    {"llama3-8b", 32, 4096, 32, 8192, 128256, 128, LLAMA3, "--ffn-hidden-size 14336", "8B", LLAMA3_PAPER},
    {"llama3-70b", 80, 8192, 64, 8192, 128256, 128, LLAMA3, "--ffn-hidden-size 28672", "70B", LLAMA3_PAPER},
    {"llama3.1-8b", 32, 4096, 32, 131072, 128256, 128, LLAMA3, SCALED "--ffn-hidden-size 14336", "8B", LLAMA3_PAPER},
    {"llama3.1-70b", 80, 8192, 64, 131072, 128256, 128, LLAMA3, SCALED "--ffn-hidden-size 28672", "70B", LLAMA3_PAPER},
    {"llama3.1-405b", 126, 16384, 128, 131072, 128256, 128, LLAMA3, SCALED "--ffn-hidden-size 53248", "405B",
     LLAMA3_PAPER},
    {"llama3.2-1b", 16, 2048, 32, 131072, 128256, 128, TIED_LLAMA,
     SCALED "--rotary-base 500000 --rope-scaling-factor 32 --group-query-attention true --num-query-groups 8 "
            "--ffn-hidden-size 8192",
     "1.23B", "released configuration"},
    {"llama3.2-3b", 28, 3072, 24, 131072, 128256, 128, TIED_LLAMA,
     SCALED "--rotary-base 500000 --rope-scaling-factor 32 --group-query-attention true --num-query-groups 8 "
            "--ffn-hidden-size 8192",
     "3.21B", "released configuration"},
    {"mistral-7b", 32, 4096, 32, 32768, 32000, 128, LLAMA,
     "--ffn-hidden-size 14336 --group-query-attention true --num-query-groups 8 --sliding-window 4096 --seq-length "
     "8192",
     "7.3B", "Jiang et al. 2023"},
    {"mixtral-8x7b", 32, 4096, 32, 32768, 32000, 128, MIXTRAL, "--ffn-hidden-size 14336", "46.7B", MIXTRAL_PAPER},
    {"mixtral-8x22b", 56, 6144, 48, 65536, 32000, 128, MIXTRAL, "--ffn-hidden-size 16384", "141B",
     "released configuration"},
    {"qwen2.5-0.5b", 24, 896, 14, 32768, 151936, 128, QWEN2, "--num-query-groups 2 --ffn-hidden-size 4864", "0.49B",
     QWEN25_PAPER},
    {"qwen2.5-1.5b", 28, 1536, 12, 131072, 151936, 128, QWEN2, "--num-query-groups 2 --ffn-hidden-size 8960", "1.54B",
     QWEN25_PAPER},
    {"qwen2.5-3b", 36, 2048, 16, 32768, 151936, 128, QWEN2, "--num-query-groups 2 --ffn-hidden-size 11008", "3.09B",
     QWEN25_PAPER},
    {"qwen2.5-7b", 28, 3584, 28, 131072, 152064, 128, QWEN2, UNTIED "--num-query-groups 4 --ffn-hidden-size 18944",
     "7.61B", QWEN25_PAPER},
    {"qwen2.5-14b", 48, 5120, 40, 131072, 152064, 128, QWEN2,
     UNTIED "--num-query-groups 8 --ffn-hidden-size 13824 --norm-epsilon 1e-5", "14.7B", QWEN25_PAPER},
    {"qwen2.5-32b", 64, 5120, 40, 131072, 152064, 128, QWEN2,
     UNTIED "--num-query-groups 8 --ffn-hidden-size 27648 --norm-epsilon 1e-5", "32.5B", QWEN25_PAPER},
    {"qwen2.5-72b", 80, 8192, 64, 131072, 152064, 128, QWEN2,
     UNTIED "--num-query-groups 8 --ffn-hidden-size 29568 --norm-epsilon 1e-5", "72.7B", QWEN25_PAPER},
    {"qwen1.5-moe-a2.7b", 24, 2048, 16, 8192, 151936, 128, QWEN2_MOE,
     "--num-query-groups 16 --ffn-hidden-size 5632 --num-experts 60 --moe-router-topk 4 --moe-ffn-hidden-size 1408 "
     "--moe-shared-expert-intermediate-size 5632",
     "14.3B", "released configuration"},
    {"qwen2-57b-a14b", 28, 3584, 28, 131072, 151936, 128, QWEN2_MOE,
     "--num-query-groups 4 --ffn-hidden-size 18944 --num-experts 64 --moe-router-topk 8 --moe-ffn-hidden-size 2560 "
     "--moe-shared-expert-intermediate-size 20480",
     "57.4B", "Yang et al. 2024"},
    {"qwen3-0.6b", 28, 1024, 16, 40960, 151936, 128, QWEN3, "--ffn-hidden-size 3072", "0.6B", QWEN3_PAPER},
    {"qwen3-1.7b", 28, 2048, 16, 40960, 151936, 128, QWEN3, "--ffn-hidden-size 6144", "1.7B", QWEN3_PAPER},
    {"qwen3-4b", 36, 2560, 32, 40960, 151936, 128, QWEN3, "--ffn-hidden-size 9728", "4.0B", QWEN3_PAPER},
    {"qwen3-8b", 36, 4096, 32, 40960, 151936, 128, QWEN3, UNTIED "--ffn-hidden-size 12288", "8.2B", QWEN3_PAPER},
    {"qwen3-14b", 40, 5120, 40, 40960, 151936, 128, QWEN3, UNTIED "--ffn-hidden-size 17408", "14.8B", QWEN3_PAPER},
    {"qwen3-32b", 64, 5120, 64, 40960, 151936, 128, QWEN3, UNTIED "--ffn-hidden-size 25600", "32.8B", QWEN3_PAPER},
    {"qwen3-30b-a3b", 48, 2048, 32, 40960, 151936, 128, QWEN3_MOE, "--ffn-hidden-size 6144 --moe-ffn-hidden-size 768",
     "30.5B", QWEN3_PAPER},
    {"qwen3-235b-a22b", 94, 4096, 64, 40960, 151936, 128, QWEN3_MOE,
     "--ffn-hidden-size 12288 --moe-ffn-hidden-size 1536", "235B", QWEN3_PAPER},
    {"olmoe-1b-7b", 16, 2048, 16, 4096, 50304, 128, LLAMA,
     "--qk-layernorm true --qk-layernorm-all-heads true --ffn-hidden-size 1024 --num-experts 64 --moe-router-topk 8 "
     "--moe-router-pre-softmax true",
     "6.9B", "Muennighoff et al. 2024"},
    {"deepseek-v2-lite", 27, 2048, 16, 163840, 102400, 128, DEEPSEEK_V2,
     "--ffn-hidden-size 10944 --moe-ffn-hidden-size 1408 --num-experts 64 --moe-shared-expert-intermediate-size 2816 "
     "--moe-layer-freq [0]+[1]*26",
     "15.7B", "DeepSeek-AI 2024a"},
    {"deepseek-v2", 60, 5120, 128, 163840, 102400, 128, DEEPSEEK_V2,
     "--q-lora-rank 1536 --ffn-hidden-size 12288 --moe-ffn-hidden-size 1536 --num-experts 160 "
     "--moe-shared-expert-intermediate-size 3072 --moe-layer-freq [0]+[1]*59 --moe-router-num-groups 8 "
     "--moe-router-group-topk 3 --moe-router-group-best 1 --moe-router-topk-scaling-factor 16",
     "236B", "DeepSeek-AI 2024a"},
    {"deepseek-v3", 61, 7168, 128, 163840, 129280, 128, DEEPSEEK,
     "--q-lora-rank 1536 --ffn-hidden-size 18432 --moe-ffn-hidden-size 2048 --num-experts 256 --moe-router-topk 8 "
     "--moe-shared-expert-intermediate-size 2048 --moe-layer-freq [0]*3+[1]*58 --moe-router-score-function sigmoid "
     "--moe-router-enable-expert-bias true --moe-router-num-groups 8 --moe-router-group-topk 4 "
     "--moe-router-topk-scaling-factor 2.5 --mscale-all-dim 1",
     "671B", "DeepSeek-AI 2024b"},
    {"glm4-9b", 40, 4096, 32, 131072, 151552, 128, GLM4,
     "--rotary-interleaved true --ffn-hidden-size 13696 --add-qkv-bias true --norm-epsilon 1.5625e-7", "9.4B",
     GLM4_PAPER},
    {"glm4-9b-0414", 40, 4096, 32, 32768, 151552, 128, GLM4,
     "--rotary-interleaved true --norm-placement both --ffn-hidden-size 13696 --add-qkv-bias true", "9.4B", RELEASED},
    {"glm4-32b-0414", 61, 6144, 48, 32768, 151552, 128, GLM4,
     "--rotary-interleaved true --norm-placement both --ffn-hidden-size 23040", "32.6B", RELEASED},
    {"glm4.5-air", 46, 4096, 96, 131072, 151552, 128, GLM45,
     "--ffn-hidden-size 10944 --moe-ffn-hidden-size 1408 --num-experts 128 --moe-shared-expert-intermediate-size 1408 "
     "--moe-layer-freq [0]+[1]*45",
     "106.9B", GLM45_PAPER},
    {"glm4.5", 92, 5120, 96, 131072, 151552, 128, GLM45,
     "--qk-layernorm true --ffn-hidden-size 12288 --moe-ffn-hidden-size 1536 --num-experts 160 "
     "--moe-shared-expert-intermediate-size 1536 --moe-layer-freq [0]*3+[1]*89 --moe-router-topk-scaling-factor 2.5",
     "352.8B", GLM45_PAPER},
    {"kimi-k2", 61, 7168, 64, 131072, 163840, 128, DEEPSEEK BIASED_ROUTER,
     "--q-lora-rank 1536 --ffn-hidden-size 18432 --moe-ffn-hidden-size 2048 --num-experts 384 --moe-router-topk 8 "
     "--moe-shared-expert-intermediate-size 2048 --moe-layer-freq [0]+[1]*60 --moe-router-topk-scaling-factor 2.827 "
     "--rotary-base 50000 --rotary-scaling-factor 32 --yarn-beta-fast 1 --mscale-all-dim 1",
     "1026B", "Kimi Team 2025"},
    {"glm4.7-flash", 47, 2048, 20, 202752, 154880, 128, LLAMA BIASED_ROUTER,
     "--multi-latent-attention true --qk-layernorm true --q-lora-rank 768 --kv-lora-rank 512 --qk-head-dim 192 "
     "--v-head-dim 256 --latent-norm-epsilon 1e-6 --ffn-hidden-size 10240 --moe-ffn-hidden-size 1536 --num-experts 64 "
     "--moe-router-topk 4 --moe-shared-expert-intermediate-size 1536 --moe-layer-freq [0]+[1]*46 "
     "--moe-router-topk-scaling-factor 1.8 --rotary-base 1000000 --seq-length 4096",
     "29.9B", RELEASED},
    {"youtu-llm-2b", 32, 2048, 16, 131072, 128256, 128, TIED_LLAMA,
     "--multi-latent-attention true --qk-layernorm true --q-lora-rank 1536 --kv-lora-rank 512 --norm-epsilon 1e-6 "
     "--ffn-hidden-size 6144 --rotary-base 1600000 --seq-length 4096",
     "1.96B", RELEASED},
    {"k-exaone-236b-a23b", 48, 6144, 64, 262144, 153600, 128, LLAMA BIASED_ROUTER,
     "--kv-channels 128 --group-query-attention true --num-query-groups 8 --qk-layernorm true --ffn-hidden-size 18432 "
     "--moe-ffn-hidden-size 2048 --num-experts 128 --moe-router-topk 8 --moe-shared-expert-intermediate-size 2048 "
     "--moe-layer-freq [0]+[1]*47 --moe-router-topk-scaling-factor 2.5 --rotary-base 1000000 --sliding-window 128 "
     "--window-attn-skip-freq 4 --no-rope-freq 4 --seq-length 4096",
     "236.6B", RELEASED},
    {"dots.llm1", 62, 4096, 32, 32768, 152064, 128, LLAMA BIASED_ROUTER,
     "--qk-layernorm true --ffn-hidden-size 10944 --moe-ffn-hidden-size 1408 --num-experts 128 --moe-router-topk 6 "
     "--moe-shared-expert-intermediate-size 2816 --moe-layer-freq [0]+[1]*61 --moe-router-topk-scaling-factor 2.5 "
     "--rotary-base 10000000 --seq-length 4096",
     "142.8B", "Huo et al. 2025"},
    {"solar-open-100b", 48, 4096, 64, 131072, 196608, 128, LLAMA BIASED_ROUTER,
     "--kv-channels 128 --group-query-attention true --num-query-groups 8 --ffn-hidden-size 1280 --num-experts 128 "
     "--moe-router-topk 8 --moe-shared-expert-intermediate-size 1280 --rotary-base 1000000 --seq-length 4096",
     "102.6B", RELEASED},
    {"minimax-m2", 62, 3072, 48, 196608, 200064, 128, LLAMA BIASED_ROUTER,
     "--kv-channels 128 --group-query-attention true --num-query-groups 8 --qk-layernorm true "
     "--qk-layernorm-all-heads true --rotary-percent 0.5 --rotary-base 5000000 --ffn-hidden-size 1536 "
     "--num-experts 256 --moe-router-topk 8 --norm-epsilon 1e-6 --seq-length 4096",
     "228.7B", RELEASED},
    {"flex-olmo-7x7b", 32, 4096, 32, 4096, 100352, 128, OLMO2,
     "--ffn-hidden-size 11008 --num-experts 7 --moe-router-topk 5 --moe-router-pre-softmax true", "33.3B",
     "Shi et al. 2025"},
    {"mellum2-12b-a2.5b", 28, 2304, 32, 131072, 98304, 128, QWEN3_MOE,
     "--rotary-base 500000 --rotary-base-local 10000 --sliding-window 1024 --window-attn-skip-freq 4 "
     "--ffn-hidden-size 7168 --moe-ffn-hidden-size 896 --num-experts 64",
     "12.1B", "Kojic et al. 2026"},
    {"gpt-oss-20b", 24, 2880, 64, 131072, 201088, 64, GPT_OSS, "--num-experts 32", "20.9B", "OpenAI 2025"},
    {"gpt-oss-120b", 36, 2880, 64, 131072, 201088, 64, GPT_OSS, "--num-experts 128", "116.8B", "OpenAI 2025"},
    {"phi3-mini", 32, 3072, 32, 4096, 32064, 64, LLAMA, "--ffn-hidden-size 8192 --sliding-window 2047", "3.8B",
     "Abdin et al. 2024a"},
    {"phi4", 40, 5120, 40, 16384, 100352, 128, LLAMA,
     "--ffn-hidden-size 17920 --group-query-attention true --num-query-groups 10 --rotary-base 250000 --seq-length "
     "4096",
     "14.7B", "Abdin et al. 2024b"},
    {"phi4-mini", 32, 3072, 24, 131072, 200064, 64, PHI4_MINI, "", "3.8B", "Abouelenin et al. 2025"},
    {"starcoder-15b", 40, 6144, 48, 8192, 49152, 128, GPT, "--group-query-attention true --num-query-groups 1", "15.5B",
     "Li et al. 2023"},
    {"starcoder2-3b", 30, 3072, 24, 16384, 49152, 128, STARCODER2,
     "--num-query-groups 2 --rotary-base 999999.4420358813 --seq-length 4096", "3.0B", STARCODER2_PAPER},
    {"starcoder2-7b", 32, 4608, 36, 16384, 49152, 128, STARCODER2,
     "--num-query-groups 4 --rotary-base 1000000 --seq-length 4096", "7.2B", STARCODER2_PAPER},
    {"starcoder2-15b", 40, 6144, 48, 16384, 49152, 128, STARCODER2,
     UNTIED "--num-query-groups 4 --rotary-base 100000 --init-method-std 0.01275 --seq-length 4096", "16.0B",
     STARCODER2_PAPER},
    {"stablelm-3b", 32, 2560, 32, 4096, 50304, 128, STABLELM, "--ffn-hidden-size 6912", "2.8B", RELEASED},
    {"stablelm2-1.6b", 24, 2048, 32, 4096, 100352, 128, STABLELM, "--ffn-hidden-size 5632 --add-qkv-bias true", "1.64B",
     "Bellagente et al. 2024"},
    {"stablelm2-12b", 40, 5120, 32, 4096, 100352, 128, STABLELM,
     "--ffn-hidden-size 13824 --group-query-attention true --num-query-groups 8 --parallel-residual true "
     "--parallel-residual-one-norm true --qk-layernorm true --qk-layernorm-per-head true",
     "12.1B", RELEASED},
    {"minitron-4b", 32, 3072, 24, 4096, 256000, 128, NEMOTRON,
     "--ffn-hidden-size 9216 --group-query-attention true --num-query-groups 8 --init-method-std 0.0134", "4.2B",
     "Muralidharan et al. 2024"},
    {"nemotron4-15b", 32, 6144, 48, 4096, 256000, 128, NEMOTRON,
     "--ffn-hidden-size 24576 --group-query-attention true --num-query-groups 8 --init-method-std 0.0134", "15.6B",
     "Parmar et al. 2024"},
    {"nemotron4-340b", 96, 18432, 96, 4096, 256000, 128, NEMOTRON,
     "--ffn-hidden-size 73728 --group-query-attention true --num-query-groups 8 --init-method-std 0.0063", "340B",
     "Nvidia 2024"},
    {"pythia-70m", 6, 512, 8, 2048, 50304, 128, NEOX, "", "70M", PYTHIA_PAPER},
    {"pythia-160m", 12, 768, 12, 2048, 50304, 128, NEOX, "", "162M", PYTHIA_PAPER},
    {"pythia-410m", 24, 1024, 16, 2048, 50304, 128, NEOX, "", "405M", PYTHIA_PAPER},
    {"pythia-1b", 16, 2048, 8, 2048, 50304, 128, NEOX, "", "1.0B", PYTHIA_PAPER},
    {"pythia-1.4b", 24, 2048, 16, 2048, 50304, 128, NEOX, "", "1.4B", PYTHIA_PAPER},
    {"pythia-2.8b", 32, 2560, 32, 2048, 50304, 128, NEOX, "", "2.8B", PYTHIA_PAPER},
    {"pythia-6.9b", 32, 4096, 32, 2048, 50432, 128, NEOX, "", "6.9B", PYTHIA_PAPER},
    {"pythia-12b", 36, 5120, 40, 2048, 50688, 128, NEOX, "", "11.8B", PYTHIA_PAPER},
    {"gpt-neox-20b", 44, 6144, 64, 2048, 50432, 128, NEOX, "", "20.6B", "Black et al. 2022"},
    {"phi-1.5", 24, 2048, 32, 2048, 51200, 128, PHI, "--rotary-percent 0.5", "1.4B", "Li et al. 2023b"},
    {"phi-2", 32, 2560, 32, 2048, 51200, 128, PHI, "--rotary-percent 0.4", "2.8B", "Javaheripi et al. 2023"},
    {"gptj-6b", 28, 4096, 16, 2048, 50400, 32, PHI,
     "--rotary-interleaved true --rotary-percent 0.25 --disable-bias-linear true --add-mlp-bias true", "6.1B",
     "Wang et al. 2021"},
    {"falcon-7b", 32, 4544, 71, 2048, 65024, 128, FALCON "--parallel-residual-one-norm true ", "--num-query-groups 1",
     "6.9B", FALCON_PAPER},
    {"falcon-11b", 60, 4096, 32, 8192, 65024, 128, FALCON UNTIED "--parallel-residual-one-norm true ",
     "--num-query-groups 8 --rotary-base 500042", "11.1B", RELEASED},
    {"falcon-40b", 60, 8192, 128, 2048, 65024, 128, FALCON, "--num-query-groups 8", "41.3B", FALCON_PAPER},
    {"falcon-180b", 80, 14848, 232, 2048, 65024, 128, FALCON, "--num-query-groups 8", "178.6B", FALCON_PAPER},
    {"bloom-560m", 24, 1024, 16, 2048, 250880, 512, BLOOM, "", "559M", BLOOM_PAPER},
    {"bloom-1b1", 24, 1536, 16, 2048, 250880, 512, BLOOM, "", "1.1B", BLOOM_PAPER},
    {"bloom-1b7", 24, 2048, 16, 2048, 250880, 512, BLOOM, "", "1.7B", BLOOM_PAPER},
    {"bloom-3b", 30, 2560, 32, 2048, 250880, 512, BLOOM, "", "3.0B", BLOOM_PAPER},
    {"bloom-7b1", 30, 4096, 32, 2048, 250880, 512, BLOOM, "", "7.1B", BLOOM_PAPER},
    {"bloom-176b", 70, 14336, 112, 2048, 250880, 512, BLOOM, "", "176.2B", BLOOM_PAPER},
    {"mpt-7b", 32, 4096, 32, 2048, 50432, 256, MPT, "", "6.6B", "MosaicML 2023"},
    {"granite3-2b", 40, 2048, 32, 4096, 49155, 128, GRANITE,
     "--ffn-hidden-size 8192 --softmax-scale 0.015625 --logits-scaling 8", "2.5B", "Granite Team 2024"},
    {"granite3-8b", 40, 4096, 32, 4096, 49155, 128, GRANITE,
     "--ffn-hidden-size 12800 --softmax-scale 0.0078125 --logits-scaling 16", "8.2B", "Granite Team 2024"},
    {"olmo2-1b", 16, 2048, 16, 4096, 100352, 128, OLMO2, "--ffn-hidden-size 8192", "1.5B", OLMO2_PAPER},
    {"olmo2-7b", 32, 4096, 32, 4096, 100352, 128, OLMO2, "--ffn-hidden-size 11008", "7.3B", OLMO2_PAPER},
    {"olmo2-13b", 40, 5120, 40, 4096, 100352, 128, OLMO2, "--ffn-hidden-size 13824", "13.7B", OLMO2_PAPER},
    {"olmo2-32b", 64, 5120, 40, 4096, 100352, 128, OLMO2,
     "--ffn-hidden-size 27648 --group-query-attention true --num-query-groups 8", "32.2B", OLMO2_PAPER},
    {"olmo3-7b", 32, 4096, 32, 65536, 100278, 128, OLMO3, "--ffn-hidden-size 11008", "7.3B", "Olmo Team 2025"},
    {"olmo3-32b", 64, 5120, 40, 65536, 100278, 128, OLMO3,
     "--ffn-hidden-size 27648 --group-query-attention true --num-query-groups 8", "32.2B", "Olmo Team 2025"},
    {"granite3-1b-a400m", 24, 1024, 16, 4096, 49155, 128, GRANITE_MOE, "--num-experts 32", "1.3B", "Granite Team 2024"},
    {"granite3-3b-a800m", 32, 1536, 24, 4096, 49155, 128, GRANITE_MOE, "--num-experts 40", "3.3B", "Granite Team 2024"},
    {"command-r-35b", 40, 8192, 64, 131072, 256000, 128, COHERE,
     "--ffn-hidden-size 22528 --rotary-base 8000000 --logits-scaling 16 --seq-length 4096", "35.0B", RELEASED},
    {"command-r-plus-104b", 64, 12288, 96, 131072, 256000, 128, COHERE,
     "--ffn-hidden-size 33792 --group-query-attention true --num-query-groups 8 --qk-layernorm true "
     "--qk-layernorm-per-head true --rotary-base 75000000 --logits-scaling 1.2 --seq-length 4096",
     "104B", RELEASED},
    {"command-r7b", 32, 4096, 32, 132096, 256000, 128, COHERE,
     "--ffn-hidden-size 14336 --group-query-attention true --num-query-groups 8 --rotary-base 50000 --sliding-window "
     "4096 "
     "--window-attn-skip-freq 4 --no-rope-freq 4 --logits-scaling 4 --seq-length 4096",
     "8.0B", RELEASED},
    {"smollm3-3b", 36, 2048, 16, 65536, 128256, 128, TIED_LLAMA,
     "--ffn-hidden-size 11008 --group-query-attention true --num-query-groups 4 --rotary-base 5000000 --no-rope-freq 4 "
     "--norm-epsilon 1e-6 --seq-length 4096",
     "3.1B", "Bakouch et al. 2025"},
    {"gemma-2b", 18, 2048, 8, 8192, 256000, 128, GEMMA,
     "--ffn-hidden-size 16384 --group-query-attention true --num-query-groups 1", "2.5B", "Gemma Team 2024"},
    {"gemma-7b", 28, 3072, 16, 8192, 256000, 128, GEMMA, "--ffn-hidden-size 24576", "8.5B", "Gemma Team 2024"},
    {"gemma2-2b", 26, 2304, 8, 8192, 256000, 128, GEMMA2, CAPPED "--ffn-hidden-size 9216 --num-query-groups 4", "2.6B",
     GEMMA2_PAPER},
    {"gemma2-9b", 42, 3584, 16, 8192, 256000, 128, GEMMA2, CAPPED "--ffn-hidden-size 14336 --num-query-groups 8",
     "9.2B", GEMMA2_PAPER},
    {"gemma2-27b", 46, 4608, 32, 8192, 256000, 128, GEMMA2,
     CAPPED "--ffn-hidden-size 36864 --num-query-groups 16 --kv-channels 128 --softmax-scale 0.083333333333333329",
     "27.2B", GEMMA2_PAPER},
    {"gemma3-1b", 26, 1152, 4, 32768, 262144, 128, GEMMA3,
     "--ffn-hidden-size 6912 --num-query-groups 1 --sliding-window 512 "
     "--seq-length 4096",
     "1.0B", GEMMA3_PAPER},
    {"gemma3-4b", 34, 2560, 8, 131072, 262208, 64, LONG_GEMMA3, "--ffn-hidden-size 10240 --num-query-groups 4", "3.9B",
     GEMMA3_PAPER},
    {"gemma3-12b", 48, 3840, 16, 131072, 262208, 64, LONG_GEMMA3, "--ffn-hidden-size 15360 --num-query-groups 8",
     "11.8B", GEMMA3_PAPER},
    {"gemma3-27b", 62, 5376, 32, 131072, 262208, 64, LONG_GEMMA3,
     "--ffn-hidden-size 21504 --num-query-groups 16 --kv-channels 128 --softmax-scale 0.077151674981045955", "27.0B",
     GEMMA3_PAPER},
    {"seed-oss-36b", 64, 5120, 80, 524288, 155136, 128, LLAMA,
     "--ffn-hidden-size 27648 --kv-channels 128 --group-query-attention true --num-query-groups 8 --add-qkv-bias true "
     "--rotary-base 10000000 --norm-epsilon 1e-6 --seq-length 4096",
     "36.2B", RELEASED},
    {"ernie4.5-0.3b", 18, 1024, 16, 131072, 103424, 128, TIED_LLAMA,
     "--ffn-hidden-size 3072 --kv-channels 128 --group-query-attention true --num-query-groups 2 "
     "--rotary-interleaved true --rotary-base 500000 --seq-length 4096",
     "0.36B", RELEASED},
    {"helium1-2b", 24, 2560, 20, 4096, 48000, 128, LLAMA,
     "--ffn-hidden-size 7040 --rotary-interleaved true --rotary-base 100000 --norm-epsilon 1e-8", "2.2B", RELEASED},
    {"ministral-8b", 36, 4096, 32, 131072, 131072, 128, LLAMA,
     "--ffn-hidden-size 12288 --group-query-attention true --num-query-groups 8 --rotary-base 100000000 "
     "--sliding-window 32768 --window-attn-skip-freq [0,1,1,1]*9 --seq-length 4096",
     "8.0B", RELEASED},
    {"exaone4-1.2b", 30, 2048, 32, 65536, 102400, 128, EXAONE4, SCALED "--ffn-hidden-size 4096", "1.28B",
     EXAONE4_PAPER},
    {"exaone4-32b", 64, 5120, 40, 131072, 102400, 128, EXAONE4,
     SCALED UNTIED "--ffn-hidden-size 27392 --sliding-window 4096 --window-attn-skip-freq 4 --no-rope-freq 4", "32.0B",
     EXAONE4_PAPER},
    {"bert-base", 12, 768, 12, 512, 30522, 1, BERT, "", "110M", BERT_PAPER},
    {"bert-large", 24, 1024, 16, 512, 30522, 1, BERT, "", "340M", BERT_PAPER},
    {"megatron-bert-345m", 24, 1024, 16, 512, 30592, 128, "--model bert ", "", "345M", "Shoeybi et al. 2019"},
    {"roberta-base", 12, 768, 12, 512, 50265, 1, ROBERTA, "", "125M", ROBERTA_PAPER},
    {"roberta-large", 24, 1024, 16, 512, 50265, 1, ROBERTA, "", "355M", ROBERTA_PAPER},
    {"xlm-roberta-base", 12, 768, 12, 512, 250002, 1, ROBERTA, "", "278M", XLMR_PAPER},
    {"xlm-roberta-large", 24, 1024, 16, 512, 250002, 1, ROBERTA, "", "560M", XLMR_PAPER},
    {"camembert-base", 12, 768, 12, 512, 32005, 1, ROBERTA, "", "111M", "Martin et al. 2020"},
    {"t5-small", 6, 512, 8, 512, 32128, 128, T5, "", "60M", T5_PAPER},
    {"t5-base", 12, 768, 12, 512, 32128, 128, T5, "", "220M", T5_PAPER},
    {"t5-large", 24, 1024, 16, 512, 32128, 128, T5, "", "770M", T5_PAPER},
    {"t5-3b", 24, 1024, 32, 512, 32128, 128, T5, "--kv-channels 128 --ffn-hidden-size 16384", "2.8B", T5_PAPER},
    {"t5-11b", 24, 1024, 128, 512, 32128, 128, T5, "--kv-channels 128 --ffn-hidden-size 65536", "11B", T5_PAPER},
    {"t5-1.1-small", 8, 512, 6, 512, 32128, 128, T511, "--ffn-hidden-size 1024", "77M", T511_PAPER},
    {"t5-1.1-base", 12, 768, 12, 512, 32128, 128, T511, "--ffn-hidden-size 2048", "248M", T511_PAPER},
    {"t5-1.1-large", 24, 1024, 16, 512, 32128, 128, T511, "--ffn-hidden-size 2816", "783M", T511_PAPER},
    {"t5-1.1-xl", 24, 2048, 32, 512, 32128, 128, T511, "--ffn-hidden-size 5120", "2.8B", T511_PAPER},
    {"t5-1.1-xxl", 24, 4096, 64, 512, 32128, 128, T511, "--ffn-hidden-size 10240", "11B", T511_PAPER},
    {"mt5-small", 8, 512, 6, 512, 250112, 128, T511, "--ffn-hidden-size 1024", "300M", MT5_PAPER},
    {"mt5-base", 12, 768, 12, 512, 250112, 128, T511, "--ffn-hidden-size 2048", "580M", MT5_PAPER},
    {"mt5-large", 24, 1024, 16, 512, 250112, 128, T511, "--ffn-hidden-size 2816", "1.2B", MT5_PAPER},
    {"mt5-xl", 24, 2048, 32, 512, 250112, 128, T511, "--ffn-hidden-size 5120", "3.7B", MT5_PAPER},
    {"mt5-xxl", 24, 4096, 64, 512, 250112, 128, T511, "--ffn-hidden-size 10240", "13B", MT5_PAPER},
    {"umt5-small", 8, 512, 6, 512, 256384, 128, T511, "--relative-attention-per-layer true --ffn-hidden-size 1024",
     "306M", UMT5_PAPER},
    {"umt5-base", 12, 768, 12, 512, 256384, 128, T511, "--relative-attention-per-layer true --ffn-hidden-size 2048",
     "592M", UMT5_PAPER},
    {"umt5-xl", 24, 2048, 32, 512, 256384, 128, T511, "--relative-attention-per-layer true --ffn-hidden-size 5120",
     "3.7B", UMT5_PAPER},
    {"umt5-xxl", 24, 4096, 64, 512, 256384, 128, T511, "--relative-attention-per-layer true --ffn-hidden-size 10240",
     "13B", UMT5_PAPER},
};

static const struct preset_family families[] = {
    {CONFIG_LLAMA, CONFIG_GPT, LLAMA}, {CONFIG_OPT, CONFIG_GPT, OPT}, {CONFIG_ROBERTA, CONFIG_BERT, ROBERTA}};

const struct preset_family *preset_family_at(size_t i) {
    return i < sizeof families / sizeof families[0] ? &families[i] : NULL;
}

const struct preset *preset_at(size_t i) {
    return i < sizeof presets / sizeof presets[0] ? &presets[i] : NULL;
}
