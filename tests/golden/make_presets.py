#!/usr/bin/env python3
"""Writes tests/golden/presets.txt: for every preset the vocabulary of its published model and the number of its
parameters, counted by transformers on models of the same configuration, built without memory (device meta).

Needs torch and transformers. Run from the repository's root."""
import torch
from transformers import (BloomConfig, BloomForCausalLM, MptConfig, MptForCausalLM, ExaoneMoeConfig, ExaoneMoeForCausalLM, Glm4MoeLiteConfig, Glm4MoeLiteForCausalLM, YoutuConfig, YoutuForCausalLM,
                          Dots1Config, Dots1ForCausalLM, FlexOlmoConfig, FlexOlmoForCausalLM, MellumConfig, MellumForCausalLM, MiniMaxM2Config,
                          MiniMaxM2ForCausalLM, SolarOpenConfig, SolarOpenForCausalLM,
                          Ernie4_5Config, Ernie4_5ForCausalLM, Exaone4Config, Exaone4ForCausalLM, HeliumConfig, HeliumForCausalLM,
                          MinistralConfig, MinistralForCausalLM, SeedOssConfig, SeedOssForCausalLM,
                          GlmConfig, GlmForCausalLM, Glm4Config, Glm4ForCausalLM, Glm4MoeConfig, Glm4MoeForCausalLM, DeepseekV2Config, DeepseekV2ForCausalLM, DeepseekV3Config, DeepseekV3ForCausalLM, CohereConfig, CohereForCausalLM, Cohere2Config, Cohere2ForCausalLM, GraniteMoeConfig, GraniteMoeForCausalLM, Olmo3Config, Olmo3ForCausalLM, GptOssConfig, GptOssForCausalLM, FalconConfig, FalconForCausalLM, Olmo2Config, Olmo2ForCausalLM, GPTJConfig, GPTJForCausalLM, PhiConfig, PhiForCausalLM, GemmaConfig, GemmaForCausalLM, Gemma2Config, Gemma2ForCausalLM, Gemma3TextConfig, Gemma3ForCausalLM, GraniteConfig, GraniteForCausalLM, SmolLM3Config, SmolLM3ForCausalLM,
                          BertConfig, BertForPreTraining, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM,
                          MistralConfig, MistralForCausalLM, MixtralConfig, MixtralForCausalLM, MegatronBertConfig, MegatronBertForPreTraining, OPTConfig, OPTForCausalLM,
                          RobertaConfig, RobertaForMaskedLM, T5Config, T5ForConditionalGeneration,
                          CamembertConfig, CamembertForMaskedLM, GPTBigCodeConfig, GPTBigCodeForCausalLM, MT5Config,
                          GPTNeoXConfig, GPTNeoXForCausalLM, MT5ForConditionalGeneration, NemotronConfig, NemotronForCausalLM, Phi3Config, Phi3ForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM, Qwen2MoeConfig, Qwen2MoeForCausalLM, OlmoeConfig, OlmoeForCausalLM, StableLmConfig, StableLmForCausalLM, Starcoder2Config,
                          Starcoder2ForCausalLM, UMT5Config, UMT5ForConditionalGeneration, XLMRobertaConfig, XLMRobertaForMaskedLM)

rows = []


def add(name, model, config, untied=0):
    with torch.device("meta"):
        built = model(config)
    # Some releases of transformers tie the outputs of mT5 until they find a matrix.
    if untied and built.get_output_embeddings().weight is not built.get_input_embeddings().weight:
        untied = 0
    # Tied matrices count as one parameter.
    count = sum(p.numel() for p in {id(p): p for p in built.parameters()}.values())
    rows.append((name, config.vocab_size, count + untied))


def gpt(name, layers, hidden, heads, positions, vocab=50257):
    add(name, GPT2LMHeadModel, GPT2Config(n_layer=layers, n_embd=hidden, n_head=heads, n_positions=positions, vocab_size=vocab))


for name, layers, hidden, heads in (("124m", 12, 768, 12), ("355m", 24, 1024, 16), ("774m", 36, 1280, 20), ("1558m", 48, 1600, 25)):
    gpt("gpt2-" + name, layers, hidden, heads, 1024)
for name, layers, hidden, heads in (("125m", 12, 768, 12), ("126m", 12, 768, 12), ("350m", 24, 1024, 16), ("760m", 24, 1536, 16),
                                    ("1.3b", 24, 2048, 16), ("2.7b", 32, 2560, 32), ("6.7b", 32, 4096, 32), ("13b", 40, 5120, 40),
                                    ("175b", 96, 12288, 96)):
    gpt("gpt3-" + name, layers, hidden, heads, 2048)
gpt("megatron-345m", 24, 1024, 16, 1024, 50304)
gpt("megatron-gpt2-8b", 42, 4096, 32, 1024, 51200)
for name, layers, hidden, heads in (("1.7b", 24, 2304, 24), ("3.6b", 30, 3072, 32), ("7.5b", 36, 4096, 32), ("18b", 40, 6144, 48),
                                    ("39b", 48, 8192, 64), ("76b", 60, 10240, 80), ("145b", 80, 12288, 96), ("310b", 96, 16384, 128),
                                    ("530b", 105, 20480, 128), ("1t", 128, 25600, 160)):
    gpt("megatron-" + name, layers, hidden, heads, 2048, 51200)
for name, layers, hidden, heads in (("125m", 12, 768, 12), ("1.3b", 24, 2048, 32), ("2.7b", 32, 2560, 32), ("6.7b", 32, 4096, 32),
                                    ("13b", 40, 5120, 40), ("30b", 48, 7168, 56), ("66b", 64, 9216, 72), ("175b", 96, 12288, 96)):
    add("opt-" + name, OPTForCausalLM, OPTConfig(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                                                 ffn_dim=4 * hidden, word_embed_proj_dim=hidden))
add("opt-350m", OPTForCausalLM, OPTConfig(num_hidden_layers=24, hidden_size=1024, num_attention_heads=16, ffn_dim=4096,
                                          word_embed_proj_dim=512, do_layer_norm_before=False))
for name, layers, hidden, heads, groups, ffn, vocab, tied in (
        ("cpu-3m", 4, 192, 3, 3, 512, 8192, True), ("cpu-10m", 6, 320, 5, 5, 896, 8192, True),
        ("cpu-30m", 8, 512, 8, 8, 1408, 8192, True), ("gpu-150m", 18, 768, 12, 12, 2048, 32000, True),
        ("gpu-350m", 24, 1024, 16, 16, 2816, 32000, True), ("gpu-1b", 22, 2048, 32, 4, 5632, 32000, False),
        ("llama-7b", 32, 4096, 32, 32, 11008, 32000, False), ("llama-13b", 40, 5120, 40, 40, 13824, 32000, False),
        ("llama-33b", 60, 6656, 52, 52, 17920, 32000, False), ("llama-65b", 80, 8192, 64, 64, 22016, 32000, False),
        ("llama2-7b", 32, 4096, 32, 32, 11008, 32000, False), ("llama2-13b", 40, 5120, 40, 40, 13824, 32000, False),
        ("llama2-70b", 80, 8192, 64, 8, 28672, 32000, False), ("llama3-8b", 32, 4096, 32, 8, 14336, 128256, False),
        ("llama3-70b", 80, 8192, 64, 8, 28672, 128256, False), ("llama3.1-8b", 32, 4096, 32, 8, 14336, 128256, False),
        ("llama3.1-70b", 80, 8192, 64, 8, 28672, 128256, False), ("llama3.1-405b", 126, 16384, 128, 8, 53248, 128256, False),
        ("llama3.2-1b", 16, 2048, 32, 8, 8192, 128256, True), ("llama3.2-3b", 28, 3072, 24, 8, 8192, 128256, True)):
    add(name, LlamaForCausalLM, LlamaConfig(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                                            num_key_value_heads=groups, intermediate_size=ffn, vocab_size=vocab,
                                            tie_word_embeddings=tied))
add("mistral-7b", MistralForCausalLM, MistralConfig())
for name, layers, hidden, heads, ffn in (("8x7b", 32, 4096, 32, 14336), ("8x22b", 56, 6144, 48, 16384)):
    add("mixtral-" + name, MixtralForCausalLM, MixtralConfig(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                                                             intermediate_size=ffn))
for name, layers, hidden, heads, groups, ffn, vocab in (
        ("0.5b", 24, 896, 14, 2, 4864, 151936), ("1.5b", 28, 1536, 12, 2, 8960, 151936), ("3b", 36, 2048, 16, 2, 11008, 151936),
        ("7b", 28, 3584, 28, 4, 18944, 152064), ("14b", 48, 5120, 40, 8, 13824, 152064), ("32b", 64, 5120, 40, 8, 27648, 152064),
        ("72b", 80, 8192, 64, 8, 29568, 152064)):
    add("qwen2.5-" + name, Qwen2ForCausalLM, Qwen2Config(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                                                         num_key_value_heads=groups, intermediate_size=ffn, vocab_size=vocab,
                                                         tie_word_embeddings=vocab == 151936))
for name, layers, hidden, heads, groups, ffn, experts, chosen, width, shared in (
        ("qwen1.5-moe-a2.7b", 24, 2048, 16, 16, 5632, 60, 4, 1408, 5632), ("qwen2-57b-a14b", 28, 3584, 28, 4, 18944, 64, 8, 2560, 20480)):
    add(name, Qwen2MoeForCausalLM, Qwen2MoeConfig(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                                                  num_key_value_heads=groups, intermediate_size=ffn, num_experts=experts,
                                                  num_experts_per_tok=chosen, moe_intermediate_size=width,
                                                  shared_expert_intermediate_size=shared))
for name, layers, hidden, heads, ffn, tied in (("0.6b", 28, 1024, 16, 3072, True), ("1.7b", 28, 2048, 16, 6144, True),
                                               ("4b", 36, 2560, 32, 9728, True), ("8b", 36, 4096, 32, 12288, False),
                                               ("14b", 40, 5120, 40, 17408, False), ("32b", 64, 5120, 64, 25600, False)):
    add("qwen3-" + name, Qwen3ForCausalLM, Qwen3Config(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                                                       num_key_value_heads=8, head_dim=128, intermediate_size=ffn, vocab_size=151936,
                                                       tie_word_embeddings=tied))
for name, layers, hidden, heads, ffn, width in (("30b-a3b", 48, 2048, 32, 6144, 768), ("235b-a22b", 94, 4096, 64, 12288, 1536)):
    add("qwen3-" + name, Qwen3MoeForCausalLM, Qwen3MoeConfig(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                                                             head_dim=128, intermediate_size=ffn, moe_intermediate_size=width))
add("olmoe-1b-7b", OlmoeForCausalLM, OlmoeConfig(intermediate_size=1024))
add("deepseek-v2-lite", DeepseekV2ForCausalLM, DeepseekV2Config(
    hidden_size=2048, intermediate_size=10944, moe_intermediate_size=1408, num_hidden_layers=27, num_attention_heads=16, q_lora_rank=None,
    n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6, first_k_dense_replace=1))
add("deepseek-v2", DeepseekV2ForCausalLM, DeepseekV2Config(
    hidden_size=5120, intermediate_size=12288, moe_intermediate_size=1536, num_hidden_layers=60, num_attention_heads=128,
    n_routed_experts=160, n_shared_experts=2, num_experts_per_tok=6, first_k_dense_replace=1))
add("deepseek-v3", DeepseekV3ForCausalLM, DeepseekV3Config(num_mtp_layers=0))
add("glm4-9b", GlmForCausalLM, GlmConfig())
add("glm4-9b-0414", Glm4ForCausalLM, Glm4Config())
add("glm4-32b-0414", Glm4ForCausalLM, Glm4Config(num_hidden_layers=61, hidden_size=6144, num_attention_heads=48, intermediate_size=23040,
                                                 attention_bias=False))
add("glm4.5-air", Glm4MoeForCausalLM, Glm4MoeConfig(head_dim=128, attention_bias=True, num_mtp_layers=0))
add("glm4.5", Glm4MoeForCausalLM, Glm4MoeConfig(
    num_hidden_layers=92, hidden_size=5120, intermediate_size=12288, moe_intermediate_size=1536, n_routed_experts=160, head_dim=128,
    first_k_dense_replace=3, use_qk_norm=True, attention_bias=True, num_mtp_layers=0))
add("kimi-k2", DeepseekV3ForCausalLM, DeepseekV3Config(
    num_attention_heads=64, n_routed_experts=384, first_k_dense_replace=1, vocab_size=163840, num_mtp_layers=0))
add("glm4.7-flash", Glm4MoeLiteForCausalLM, Glm4MoeLiteConfig())
add("youtu-llm-2b", YoutuForCausalLM, YoutuConfig())
add("k-exaone-236b-a23b", ExaoneMoeForCausalLM, ExaoneMoeConfig(
    num_hidden_layers=48, hidden_size=6144, intermediate_size=18432, num_attention_heads=64, num_key_value_heads=8, head_dim=128,
    moe_intermediate_size=2048, num_experts=128, vocab_size=153600))
add("dots.llm1", Dots1ForCausalLM, Dots1Config(
    hidden_size=4096, n_routed_experts=128, n_shared_experts=2, num_experts_per_tok=6, first_k_dense_replace=1))
add("solar-open-100b", SolarOpenForCausalLM, SolarOpenConfig())
add("minimax-m2", MiniMaxM2ForCausalLM, MiniMaxM2Config())
add("flex-olmo-7x7b", FlexOlmoForCausalLM, FlexOlmoConfig())
add("mellum2-12b-a2.5b", MellumForCausalLM, MellumConfig())
add("gpt-oss-20b", GptOssForCausalLM, GptOssConfig(num_hidden_layers=24, num_local_experts=32))
add("gpt-oss-120b", GptOssForCausalLM, GptOssConfig())
add("phi3-mini", Phi3ForCausalLM, Phi3Config())
add("phi4", Phi3ForCausalLM, Phi3Config(num_hidden_layers=40, hidden_size=5120, num_attention_heads=40, num_key_value_heads=10,
                                        intermediate_size=17920, vocab_size=100352, pad_token_id=0))
add("phi4-mini", Phi3ForCausalLM, Phi3Config(num_attention_heads=24, num_key_value_heads=8, vocab_size=200064, tie_word_embeddings=True,
                                             pad_token_id=0))
add("starcoder-15b", GPTBigCodeForCausalLM, GPTBigCodeConfig(n_layer=40, n_embd=6144, n_head=48, n_positions=8192, vocab_size=49152,
                                                             multi_query=True))
for name, layers, hidden, heads, groups, tied in (("3b", 30, 3072, 24, 2, True), ("7b", 32, 4608, 36, 4, True),
                                                  ("15b", 40, 6144, 48, 4, False)):
    add("starcoder2-" + name, Starcoder2ForCausalLM, Starcoder2Config(num_hidden_layers=layers, hidden_size=hidden,
                                                                      num_attention_heads=heads, num_key_value_heads=groups,
                                                                      intermediate_size=4 * hidden, tie_word_embeddings=tied))
add("stablelm-3b", StableLmForCausalLM, StableLmConfig())
add("stablelm2-1.6b", StableLmForCausalLM, StableLmConfig(num_hidden_layers=24, hidden_size=2048, intermediate_size=5632,
                                                          vocab_size=100352, use_qkv_bias=True))
add("stablelm2-12b", StableLmForCausalLM, StableLmConfig(
    num_hidden_layers=40, hidden_size=5120, intermediate_size=13824, vocab_size=100352, num_key_value_heads=8, qk_layernorm=True,
    use_parallel_residual=True))
for name, layers, hidden, heads, ffn in (("minitron-4b", 32, 3072, 24, 9216), ("nemotron4-15b", 32, 6144, 48, 24576),
                                         ("nemotron4-340b", 96, 18432, 96, 73728)):
    add(name, NemotronForCausalLM, NemotronConfig(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                                                  num_key_value_heads=8, intermediate_size=ffn, vocab_size=256000))
for name, layers, hidden, heads, vocab in (("pythia-70m", 6, 512, 8, 50304), ("pythia-160m", 12, 768, 12, 50304),
                                           ("pythia-410m", 24, 1024, 16, 50304), ("pythia-1b", 16, 2048, 8, 50304),
                                           ("pythia-1.4b", 24, 2048, 16, 50304), ("pythia-2.8b", 32, 2560, 32, 50304),
                                           ("pythia-6.9b", 32, 4096, 32, 50432), ("pythia-12b", 36, 5120, 40, 50688),
                                           ("gpt-neox-20b", 44, 6144, 64, 50432)):
    add(name, GPTNeoXForCausalLM, GPTNeoXConfig(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                                                intermediate_size=4 * hidden, vocab_size=vocab))
add("phi-1.5", PhiForCausalLM, PhiConfig())
add("phi-2", PhiForCausalLM, PhiConfig(num_hidden_layers=32, hidden_size=2560, num_attention_heads=32, intermediate_size=10240))
add("gptj-6b", GPTJForCausalLM, GPTJConfig())
add("falcon-7b", FalconForCausalLM, FalconConfig())
for name, layers, hidden, heads, norms in (("11b", 60, 4096, 32, 1), ("40b", 60, 8192, 128, 2), ("180b", 80, 14848, 232, 2)):
    add("falcon-" + name, FalconForCausalLM, FalconConfig(
        num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads, num_kv_heads=8, new_decoder_architecture=True,
        num_ln_in_parallel_attn=norms, vocab_size=65024, tie_word_embeddings=norms == 2))
for name, layers, hidden, heads in (("560m", 24, 1024, 16), ("1b1", 24, 1536, 16), ("1b7", 24, 2048, 16), ("3b", 30, 2560, 32),
                                    ("7b1", 30, 4096, 32), ("176b", 70, 14336, 112)):
    add("bloom-" + name, BloomForCausalLM, BloomConfig(n_layer=layers, hidden_size=hidden, n_head=heads, vocab_size=250880))
add("mpt-7b", MptForCausalLM, MptConfig(n_layers=32, d_model=4096, n_heads=32, vocab_size=50432))
for name, hidden, ffn in (("2b", 2048, 8192), ("8b", 4096, 12800)):
    add("granite3-" + name, GraniteForCausalLM, GraniteConfig(num_hidden_layers=40, hidden_size=hidden, num_attention_heads=32,
                                                              num_key_value_heads=8, intermediate_size=ffn, vocab_size=49155,
                                                              tie_word_embeddings=True))
for name, layers, hidden, heads, groups, ffn in (("1b", 16, 2048, 16, 16, 8192), ("7b", 32, 4096, 32, 32, 11008),
                                                 ("13b", 40, 5120, 40, 40, 13824), ("32b", 64, 5120, 40, 8, 27648)):
    add("olmo2-" + name, Olmo2ForCausalLM, Olmo2Config(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                                                       num_key_value_heads=groups, intermediate_size=ffn, vocab_size=100352))
for name, layers, hidden, heads, groups, ffn in (("7b", 32, 4096, 32, 32, 11008), ("32b", 64, 5120, 40, 8, 27648)):
    add("olmo3-" + name, Olmo3ForCausalLM, Olmo3Config(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                                                       num_key_value_heads=groups, intermediate_size=ffn, vocab_size=100278))
for name, layers, hidden, heads, count in (("1b-a400m", 24, 1024, 16, 32), ("3b-a800m", 32, 1536, 24, 40)):
    add("granite3-" + name, GraniteMoeForCausalLM, GraniteMoeConfig(
        num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads, num_key_value_heads=8, intermediate_size=512,
        num_local_experts=count, num_experts_per_tok=8, vocab_size=49155, tie_word_embeddings=True))
add("command-r-35b", CohereForCausalLM, CohereConfig())
add("command-r-plus-104b", CohereForCausalLM, CohereConfig(num_hidden_layers=64, hidden_size=12288, num_attention_heads=96, num_key_value_heads=8,
                                                           intermediate_size=33792, use_qk_norm=True))
add("command-r7b", Cohere2ForCausalLM, Cohere2Config(num_hidden_layers=32, hidden_size=4096, num_attention_heads=32, num_key_value_heads=8,
                                                     intermediate_size=14336))
add("smollm3-3b", SmolLM3ForCausalLM, SmolLM3Config())
add("gemma-2b", GemmaForCausalLM, GemmaConfig(num_hidden_layers=18, hidden_size=2048, num_attention_heads=8, num_key_value_heads=1,
                                              intermediate_size=16384))
add("gemma-7b", GemmaForCausalLM, GemmaConfig())
for name, layers, hidden, heads, groups, ffn, channels in (("2b", 26, 2304, 8, 4, 9216, 256), ("9b", 42, 3584, 16, 8, 14336, 256),
                                                           ("27b", 46, 4608, 32, 16, 36864, 128)):
    add("gemma2-" + name, Gemma2ForCausalLM, Gemma2Config(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                                                          num_key_value_heads=groups, intermediate_size=ffn, head_dim=channels))
for name, layers, hidden, heads, groups, ffn, channels, vocab in (
        ("1b", 26, 1152, 4, 1, 6912, 256, 262144), ("4b", 34, 2560, 8, 4, 10240, 256, 262208),
        ("12b", 48, 3840, 16, 8, 15360, 256, 262208), ("27b", 62, 5376, 32, 16, 21504, 128, 262208)):
    add("gemma3-" + name, Gemma3ForCausalLM, Gemma3TextConfig(
        num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads, num_key_value_heads=groups, intermediate_size=ffn,
        head_dim=channels, vocab_size=vocab))
add("seed-oss-36b", SeedOssForCausalLM, SeedOssConfig(hidden_size=5120))
add("ernie4.5-0.3b", Ernie4_5ForCausalLM, Ernie4_5Config())
add("helium1-2b", HeliumForCausalLM, HeliumConfig())
add("ministral-8b", MinistralForCausalLM, MinistralConfig(vocab_size=131072, num_hidden_layers=36, intermediate_size=12288, head_dim=128))
add("exaone4-1.2b", Exaone4ForCausalLM, Exaone4Config(num_hidden_layers=30, hidden_size=2048, num_key_value_heads=8, intermediate_size=4096,
                                                      tie_word_embeddings=True))
add("exaone4-32b", Exaone4ForCausalLM, Exaone4Config(num_hidden_layers=64, hidden_size=5120, num_attention_heads=40, num_key_value_heads=8,
                                                     intermediate_size=27392))
for name, layers, hidden, heads in (("base", 12, 768, 12), ("large", 24, 1024, 16)):
    add("bert-" + name, BertForPreTraining, BertConfig(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                                                       intermediate_size=4 * hidden))
    add("roberta-" + name, RobertaForMaskedLM, RobertaConfig(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                                                             intermediate_size=4 * hidden, vocab_size=50265, type_vocab_size=1,
                                                             max_position_embeddings=514))
    add("xlm-roberta-" + name, XLMRobertaForMaskedLM, XLMRobertaConfig(
        num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads, intermediate_size=4 * hidden, vocab_size=250002,
        type_vocab_size=1, max_position_embeddings=514))
add("camembert-base", CamembertForMaskedLM, CamembertConfig(vocab_size=32005, type_vocab_size=1, max_position_embeddings=514))
add("megatron-bert-345m", MegatronBertForPreTraining, MegatronBertConfig(vocab_size=30592))
for name, layers, hidden, heads, channels, ffn in (("small", 6, 512, 8, 64, 2048), ("base", 12, 768, 12, 64, 3072),
                                                   ("large", 24, 1024, 16, 64, 4096), ("3b", 24, 1024, 32, 128, 16384),
                                                   ("11b", 24, 1024, 128, 128, 65536)):
    add("t5-" + name, T5ForConditionalGeneration, T5Config(num_layers=layers, d_model=hidden, num_heads=heads, d_kv=channels, d_ff=ffn))
for name, layers, hidden, heads, ffn in (("small", 8, 512, 6, 1024), ("base", 12, 768, 12, 2048), ("large", 24, 1024, 16, 2816),
                                         ("xl", 24, 2048, 32, 5120), ("xxl", 24, 4096, 64, 10240)):
    # The released files have a separate output matrix, which transformers ties until it finds one.
    add("t5-1.1-" + name, T5ForConditionalGeneration,
        T5Config(num_layers=layers, d_model=hidden, num_heads=heads, d_kv=64, d_ff=ffn, feed_forward_proj="gated-gelu"),
        untied=32128 * hidden)
    add("mt5-" + name, MT5ForConditionalGeneration,
        MT5Config(num_layers=layers, d_model=hidden, num_heads=heads, d_kv=64, d_ff=ffn, vocab_size=250112,
                  tie_word_embeddings=False), untied=250112 * hidden)
    if name != "large":
        add("umt5-" + name, UMT5ForConditionalGeneration,
            UMT5Config(num_layers=layers, d_model=hidden, num_heads=heads, d_kv=64, d_ff=ffn, vocab_size=256384,
                       tie_word_embeddings=False), untied=256384 * hidden)

with open("tests/golden/presets.txt", "w") as out:
    for row in rows:
        print(*row, file=out)
