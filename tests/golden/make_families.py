#!/usr/bin/env python3
"""Writes more models of Hugging Face into tests/golden/foreign/, beside those of make_foreign.py and in the same form:
each in a folder beside NAME.safetensors with samples and the logits that transformers computes for them (in float64).
Every model has its own seed, so names as arguments make only those.

Needs torch, transformers and safetensors. Run from the repository's root."""
import json
import os
import shutil
import sys
import tempfile
import zlib

import torch
from safetensors.torch import load_file, save_file
import transformers as hf
from transformers.integrations.finegrained_fp8 import Fp8Dequantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

FOLDER = "tests/golden/foreign"
V, T, B = 37, 9, 2
SIZE = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20, vocab_size=V, max_position_embeddings=64)
IDS = dict(bos_token_id=0, eos_token_id=0)
NEOX = dict(SIZE, **IDS)


def rope(part=None, theta=10000.0, **more):
    return {"rope_type": "default", "rope_theta": theta, **({} if part is None else {"partial_rotary_factor": part}), **more}


MODELS = {
    "granite": lambda: hf.GraniteForCausalLM(hf.GraniteConfig(
        **SIZE, num_key_value_heads=1, rope_parameters=rope(theta=500.0), embedding_multiplier=12.0, residual_multiplier=0.22,
        logits_scaling=8.0, attention_multiplier=0.2)),
    "smollm3": lambda: hf.SmolLM3ForCausalLM(hf.SmolLM3Config(
        **dict(SIZE, num_hidden_layers=3), **IDS, pad_token_id=None, num_key_value_heads=1, no_rope_layer_interval=2,
        rope_parameters=rope(theta=500.0))),
    "smollm3_yarn": lambda: hf.SmolLM3ForCausalLM(hf.SmolLM3Config(  # its factor of scores is not for layers without positions
        **SIZE, **IDS, pad_token_id=None, num_key_value_heads=3, no_rope_layer_interval=2,
        rope_parameters=rope(1.0, 500.0, rope_type="yarn", factor=16.0, original_max_position_embeddings=4))),
    "phi3_long": lambda: hf.Phi3ForCausalLM(hf.Phi3Config(  # samples are longer than its original length
        **dict(SIZE, hidden_size=48), **IDS, pad_token_id=None, num_key_value_heads=1, original_max_position_embeddings=5, tie_word_embeddings=True,
        rope_parameters=rope(0.75, rope_type="longrope", short_factor=[1.0, 1.05, 1.1, 1.25, 1.5, 2.0], long_factor=[1, 1.5, 3.25, 8.03, 31.5, 47.77]))),
    "distilbert": lambda: hf.DistilBertForMaskedLM(hf.DistilBertConfig(
        vocab_size=V, dim=24, n_layers=2, n_heads=3, hidden_dim=20, max_position_embeddings=11, sinusoidal_pos_embds=True)),
    "gemma": lambda: hf.GemmaForCausalLM(hf.GemmaConfig(
        **SIZE, **IDS, pad_token_id=None, num_key_value_heads=1, head_dim=6, rope_parameters=rope(theta=500.0))),
    "gemma2": lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(
        **SIZE, **IDS, pad_token_id=None, num_key_value_heads=1, head_dim=6, query_pre_attn_scalar=9, sliding_window=4,
        attn_logit_softcapping=2.0, final_logit_softcapping=3.0, rope_parameters=rope(theta=500.0))),
    "gemma3_text": lambda: hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(
        **SIZE, **IDS, pad_token_id=None, num_key_value_heads=1, head_dim=6, query_pre_attn_scalar=9, sliding_window=4,
        layer_types=["full_attention", "sliding_attention"],
        # Frequencies that float32 has exactly: transformers rounds them, and normed queries and keys amplify that.
        rope_parameters={"full_attention": rope(theta=512.0, rope_type="linear", factor=2.0), "sliding_attention": rope(theta=64.0)})),
    "mixtral": lambda: hf.MixtralForCausalLM(hf.MixtralConfig(
        **dict(SIZE, num_attention_heads=4), **IDS, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, router_aux_loss_coef=0.02,
        rope_parameters=rope(theta=500.0))),
    "qwen3_moe": lambda: hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(
        **dict(SIZE, num_hidden_layers=3), **IDS, num_key_value_heads=1, head_dim=6, num_experts=4, num_experts_per_tok=3,
        moe_intermediate_size=12, norm_topk_prob=True, mlp_only_layers=[1], rope_parameters=rope(theta=500.0))),
    "qwen3_moe_all": lambda: hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(
        **dict(SIZE, hidden_size=32, num_hidden_layers=1), **IDS, num_key_value_heads=1, head_dim=6, num_experts=3, num_experts_per_tok=2,
        moe_intermediate_size=32, norm_topk_prob=True, rope_parameters=rope(theta=500.0))),
    "qwen2_moe": lambda: hf.Qwen2MoeForCausalLM(hf.Qwen2MoeConfig(
        **SIZE, **IDS, num_key_value_heads=3, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=12,
        shared_expert_intermediate_size=16, mlp_only_layers=[0], rope_parameters=rope(theta=500.0))),
    "qwen2_moe_all": lambda: hf.Qwen2MoeForCausalLM(hf.Qwen2MoeConfig(
        **dict(SIZE, num_hidden_layers=1), **IDS, num_key_value_heads=1, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=12,
        shared_expert_intermediate_size=16, rope_parameters=rope(theta=500.0))),
    "olmoe": lambda: hf.OlmoeForCausalLM(hf.OlmoeConfig(
        **SIZE, **IDS, pad_token_id=None, num_key_value_heads=1, num_experts=4, num_experts_per_tok=2,
        rope_parameters=rope(theta=500.0))),
    "olmoe_heads": lambda: hf.OlmoeForCausalLM(hf.OlmoeConfig(  # as many keys as queries
        **dict(SIZE, num_hidden_layers=1), **IDS, pad_token_id=None, num_key_value_heads=3, num_experts=3, num_experts_per_tok=2,
        tie_word_embeddings=True, rope_parameters=rope(theta=500.0))),
    "granitemoe": lambda: hf.GraniteMoeForCausalLM(hf.GraniteMoeConfig(
        **SIZE, **IDS, num_key_value_heads=1, num_local_experts=4, num_experts_per_tok=2, rope_parameters=rope(theta=500.0),
        embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=6.0, attention_multiplier=0.2, tie_word_embeddings=True)),
    "granitemoeshared": lambda: hf.GraniteMoeSharedForCausalLM(hf.GraniteMoeSharedConfig(
        **SIZE, **IDS, num_key_value_heads=3, num_local_experts=4, num_experts_per_tok=2, rope_parameters=rope(theta=500.0),
        shared_intermediate_size=14, embedding_multiplier=3.0, residual_multiplier=0.4, attention_multiplier=0.2)),
    "cohere": lambda: hf.CohereForCausalLM(hf.CohereConfig(
        **SIZE, **IDS, pad_token_id=None, num_key_value_heads=1, logit_scale=0.8333333333333334, rope_parameters=rope(theta=500.0))),
    "cohere_heads": lambda: hf.CohereForCausalLM(hf.CohereConfig(
        **dict(SIZE, num_attention_heads=4), **IDS, pad_token_id=None, num_key_value_heads=2, use_qk_norm=True, rope_parameters=rope(theta=512.0))),
    "stablelm_heads": lambda: hf.StableLmForCausalLM(hf.StableLmConfig(
        **dict(SIZE, num_attention_heads=4, hidden_size=32), **IDS, num_key_value_heads=2, use_parallel_residual=True, qk_layernorm=True,
        rope_parameters=rope(0.5, 512.0))),
    "cohere2": lambda: hf.Cohere2ForCausalLM(hf.Cohere2Config(
        **dict(SIZE, num_hidden_layers=3), **IDS, pad_token_id=None, num_key_value_heads=3, logit_scale=0.25, sliding_window=4,
        sliding_window_pattern=2, rope_parameters=rope(theta=500.0))),
    "olmo3": lambda: hf.Olmo3ForCausalLM(hf.Olmo3Config(
        **SIZE, **IDS, pad_token_id=None, num_key_value_heads=1, sliding_window=4, layer_types=["sliding_attention", "full_attention"],
        rope_parameters={"full_attention": rope(theta=512.0, rope_type="yarn", factor=8.0, original_max_position_embeddings=16),
                         "sliding_attention": rope(theta=512.0)})),
    "qwen2_windows": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(
        **SIZE, **IDS, num_key_value_heads=1, use_sliding_window=True, sliding_window=4, max_window_layers=1, rope_parameters=rope(theta=500.0))),
    "deepseek_v2": lambda: hf.DeepseekV2ForCausalLM(hf.DeepseekV2Config(
        **SIZE, **IDS, n_routed_experts=6, n_shared_experts=2, num_experts_per_tok=4, moe_intermediate_size=12, first_k_dense_replace=1,
        topk_method="group_limited_greedy", n_group=3, topk_group=2, routed_scaling_factor=1.5, q_lora_rank=None, kv_lora_rank=10,
        qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5,
        rope_parameters=rope(theta=512.0, rope_type="yarn", factor=8.0, original_max_position_embeddings=8, mscale=0.7, mscale_all_dim=1.2))),
    "deepseek_v3": lambda: hf.DeepseekV3ForCausalLM(hf.DeepseekV3Config(
        **SIZE, **IDS, num_key_value_heads=3, n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=4, moe_intermediate_size=12, first_k_dense_replace=1,
        n_group=4, topk_group=3, q_lora_rank=7, kv_lora_rank=9, qk_nope_head_dim=5, qk_rope_head_dim=4, v_head_dim=3, num_mtp_layers=0,
        rope_parameters=rope(theta=512.0))),
    "deepseek_v3_fp8": lambda: hf.DeepseekV3ForCausalLM(hf.DeepseekV3Config(
        **dict(SIZE, intermediate_size=256), **IDS, num_key_value_heads=3, n_routed_experts=2, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=12,
        first_k_dense_replace=1, n_group=1, topk_group=1, q_lora_rank=None, kv_lora_rank=8, qk_nope_head_dim=4, qk_rope_head_dim=4,
        v_head_dim=4, num_mtp_layers=0, rope_parameters=rope(theta=512.0))).to(torch.bfloat16),
    "glm": lambda: hf.GlmForCausalLM(hf.GlmConfig(  # YaRN multiplies rotated channels alone
        **SIZE, eos_token_id=0, pad_token_id=None, num_key_value_heads=1, head_dim=12,
        rope_parameters=rope(0.5, 512.0, rope_type="yarn", factor=8.0, original_max_position_embeddings=16))),
    "glm4": lambda: hf.Glm4ForCausalLM(hf.Glm4Config(
        **SIZE, eos_token_id=0, pad_token_id=None, num_key_value_heads=3, head_dim=8, attention_bias=False, rms_norm_eps=1e-5,
        rope_parameters=rope(0.5, 512.0))),
    "glm4_moe": lambda: hf.Glm4MoeForCausalLM(hf.Glm4MoeConfig(
        **SIZE, num_key_value_heads=1, head_dim=12, n_routed_experts=6, num_experts_per_tok=3, moe_intermediate_size=12, use_qk_norm=True,
        attention_bias=True, routed_scaling_factor=2.5, n_group=2, topk_group=1, num_mtp_layers=0, rope_parameters=rope(0.5, 512.0))),
    "seed_oss": lambda: hf.SeedOssForCausalLM(hf.SeedOssConfig(
        **SIZE, **IDS, pad_token_id=None, num_key_value_heads=1, head_dim=6, rope_parameters=rope(theta=500.0))),
    "seed_oss_plain": lambda: hf.SeedOssForCausalLM(hf.SeedOssConfig(
        **SIZE, **IDS, pad_token_id=None, num_key_value_heads=3, head_dim=8, attention_bias=False, mlp_bias=True,
        tie_word_embeddings=True, rope_parameters=rope(theta=500.0))),
    "iquestcoder": lambda: hf.LlamaForCausalLM(hf.IQuestCoderConfig(
        **SIZE, **IDS, num_key_value_heads=1, head_dim=6, rope_parameters=rope(theta=500.0))),
    "arcee": lambda: hf.ArceeForCausalLM(hf.ArceeConfig(
        **SIZE, **IDS, num_key_value_heads=1, rope_parameters=rope(theta=512.0, rope_type="yarn", factor=20.0, original_max_position_embeddings=16))),
    "ernie4_5": lambda: hf.Ernie4_5ForCausalLM(hf.Ernie4_5Config(
        **SIZE, **IDS, pad_token_id=None, num_key_value_heads=1, head_dim=10, use_bias=True, rope_parameters=rope(theta=500.0))),
    "helium": lambda: hf.HeliumForCausalLM(hf.HeliumConfig(
        **SIZE, **IDS, pad_token_id=None, num_key_value_heads=1, head_dim=8, attention_bias=True, rope_parameters=rope(theta=500.0))),
    "ministral": lambda: hf.MinistralForCausalLM(hf.MinistralConfig(
        **SIZE, **IDS, num_key_value_heads=1, head_dim=10, sliding_window=4, layer_types=["full_attention", "sliding_attention"],
        rope_parameters=rope(theta=500.0))),
    "jais2": lambda: hf.Jais2ForCausalLM(hf.Jais2Config(**SIZE, **IDS, num_key_value_heads=1, rope_parameters=rope(theta=500.0))),
    "hunyuan_v1_dense": lambda: hf.HunYuanDenseV1ForCausalLM(hf.HunYuanDenseV1Config(
        **SIZE, **IDS, num_key_value_heads=1, head_dim=6, rope_parameters=rope(theta=512.0, rope_type="dynamic", alpha=50.0, factor=1.0))),
    "exaone4": lambda: hf.Exaone4ForCausalLM(hf.Exaone4Config(
        **dict(SIZE, num_hidden_layers=3), **IDS, num_key_value_heads=1, sliding_window=4, sliding_window_pattern=2,
        rope_parameters=rope(theta=512.0, rope_type="llama3", factor=16.0, low_freq_factor=1.0, high_freq_factor=4.0,
                             original_max_position_embeddings=16))),
    "exaone4_whole": lambda: hf.Exaone4ForCausalLM(hf.Exaone4Config(
        **SIZE, **IDS, num_key_value_heads=3, sliding_window=None, sliding_window_pattern=None, layer_types=["full_attention"] * 2,
        tie_word_embeddings=True, rope_parameters=rope(theta=512.0))),
    "vaultgemma": lambda: hf.VaultGemmaForCausalLM(hf.VaultGemmaConfig(
        **SIZE, **IDS, pad_token_id=None, num_key_value_heads=1, head_dim=6, query_pre_attn_scalar=9, sliding_window=4,
        attn_logit_softcapping=2.0, final_logit_softcapping=3.0, rope_parameters=rope(theta=500.0))),
    "kimi_k2": lambda: hf.DeepseekV3ForCausalLM(hf.DeepseekV3Config(  # its YaRN has one bound
        **SIZE, **IDS, num_key_value_heads=3, n_routed_experts=6, n_shared_experts=1, num_experts_per_tok=3, moe_intermediate_size=12,
        first_k_dense_replace=1, n_group=1, topk_group=1, q_lora_rank=7, kv_lora_rank=9, qk_nope_head_dim=5, qk_rope_head_dim=4,
        v_head_dim=3, num_mtp_layers=0, routed_scaling_factor=2.827, rope_parameters=rope(
            theta=512.0, rope_type="yarn", factor=8.0, original_max_position_embeddings=16, beta_fast=1.0, beta_slow=1.0, mscale=1.0,
            mscale_all_dim=1.0))),
    "deepseek_v3_halves": lambda: hf.DeepseekV3ForCausalLM(hf.DeepseekV3Config(  # whose latents have another epsilon
        **SIZE, **IDS, num_key_value_heads=3, n_routed_experts=6, n_shared_experts=1, num_experts_per_tok=3, moe_intermediate_size=12,
        first_k_dense_replace=0, n_group=1, topk_group=1, q_lora_rank=None, kv_lora_rank=9, qk_nope_head_dim=5, qk_rope_head_dim=4,
        v_head_dim=3, num_mtp_layers=0, rms_norm_eps=0.1, rope_interleave=False, rope_parameters=rope(theta=512.0))),
    "glm4_moe_lite": lambda: hf.Glm4MoeLiteForCausalLM(hf.Glm4MoeLiteConfig(
        **dict(SIZE, num_hidden_layers=3), **IDS, num_key_value_heads=3, n_routed_experts=6, num_experts_per_tok=3, moe_intermediate_size=12,
        q_lora_rank=7, kv_lora_rank=9, qk_nope_head_dim=5, qk_rope_head_dim=4, v_head_dim=6, rms_norm_eps=0.1,
        mlp_layer_types=["sparse", "dense", "sparse"], rope_parameters=rope(theta=512.0))),
    "youtu": lambda: hf.YoutuForCausalLM(hf.YoutuConfig(
        **SIZE, **IDS, num_key_value_heads=3, q_lora_rank=7, kv_lora_rank=9, qk_nope_head_dim=5, qk_rope_head_dim=4, v_head_dim=6,
        rope_parameters=rope(theta=512.0))),
    "exaone_moe": lambda: hf.ExaoneMoeForCausalLM(hf.ExaoneMoeConfig(
        **dict(SIZE, num_hidden_layers=3), **IDS, num_key_value_heads=1, num_experts=6, num_experts_per_tok=3, num_shared_experts=2,
        moe_intermediate_size=12, sliding_window=4, sliding_window_pattern=2, rope_parameters=rope(theta=512.0))),
    "dots1": lambda: hf.Dots1ForCausalLM(hf.Dots1Config(
        **SIZE, num_key_value_heads=1, head_dim=12, n_routed_experts=6, n_shared_experts=2, num_experts_per_tok=3, moe_intermediate_size=12,
        norm_topk_prob=True, first_k_dense_replace=1, routed_scaling_factor=2.5, attention_bias=True, sliding_window=4, max_window_layers=1,
        rope_parameters=rope(theta=512.0))),
    "solar_open": lambda: hf.SolarOpenForCausalLM(hf.SolarOpenConfig(
        **{key: value for key, value in SIZE.items() if key != "intermediate_size"}, num_key_value_heads=1, head_dim=12, n_routed_experts=6,
        num_experts_per_tok=3, moe_intermediate_size=12, n_group=2, topk_group=1, attention_bias=True, rope_parameters=rope(theta=512.0))),
    "minimax_m2": lambda: hf.MiniMaxM2ForCausalLM(hf.MiniMaxM2Config(
        **SIZE, **IDS, num_key_value_heads=1, head_dim=12, num_local_experts=5, num_experts_per_tok=3, rope_parameters=rope(0.5, 512.0))),
    "minimax_m2_fp8": lambda: hf.MiniMaxM2ForCausalLM(hf.MiniMaxM2Config(  # as it is released, with rotary_dim
        **dict(SIZE, intermediate_size=256, num_hidden_layers=1), **IDS, num_key_value_heads=1, head_dim=12, num_local_experts=2,
        num_experts_per_tok=2, rotary_dim=6, rope_parameters=rope(theta=512.0))).to(torch.bfloat16),
    "mellum_mtp": lambda: hf.MellumForCausalLM(hf.MellumConfig(
        **dict(SIZE, num_hidden_layers=1), **IDS, pad_token_id=None, num_key_value_heads=1, head_dim=6, num_experts=3, num_experts_per_tok=2,
        moe_intermediate_size=12, sliding_window=4, num_nextn_predict_layers=1)),
    "flex_olmo": lambda: hf.FlexOlmoForCausalLM(hf.FlexOlmoConfig(
        **SIZE, **IDS, pad_token_id=None, num_key_value_heads=1, num_experts=4, num_experts_per_tok=3, rope_parameters=rope(theta=512.0))),
    "mellum": lambda: hf.MellumForCausalLM(hf.MellumConfig(
        **dict(SIZE, num_hidden_layers=3), **IDS, pad_token_id=None, num_key_value_heads=1, head_dim=6, num_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=12, sliding_window=4, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        mlp_layer_types=["dense", "sparse", "sparse"], rope_parameters={
            "full_attention": rope(theta=512.0, rope_type="yarn", factor=8.0, original_max_position_embeddings=16),
            "sliding_attention": rope(theta=64.0)})),
    "gpt_oss": lambda: hf.GptOssForCausalLM(hf.GptOssConfig(
        **SIZE, **IDS, num_key_value_heads=1, head_dim=10, num_local_experts=4, num_experts_per_tok=2, sliding_window=4, swiglu_limit=0.5,
        rope_parameters=rope(theta=500.0, rope_type="yarn", factor=8.0, original_max_position_embeddings=16, truncate=False))),
    "gpt_oss_seven": lambda: hf.GptOssForCausalLM(hf.GptOssConfig(  # the only bound that llama.cpp has
        **SIZE, **IDS, num_key_value_heads=1, head_dim=10, num_local_experts=3, num_experts_per_tok=2, sliding_window=4, swiglu_limit=7.0,
        rope_parameters=rope(theta=500.0, rope_type="yarn", factor=8.0, original_max_position_embeddings=16))),
    "gpt_oss_mxfp4": lambda: hf.GptOssForCausalLM(hf.GptOssConfig(
        **dict(SIZE, hidden_size=32, intermediate_size=64, num_hidden_layers=1), **IDS, num_key_value_heads=1, head_dim=6,
        num_local_experts=2, num_experts_per_tok=2, sliding_window=4, rope_parameters=rope(theta=512.0))).to(torch.bfloat16),
    # Every second layer, weights that do not add up to 1, and the name of num_experts that transformers 4 has.
    "qwen3_moe_sparse": lambda: hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(
        **SIZE, **IDS, num_key_value_heads=3, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=12,
        decoder_sparse_step=2, attention_bias=True, tie_word_embeddings=True, rope_parameters=rope(theta=500.0))),
    "gpt_neox": lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**NEOX, rope_parameters=rope(0.25))),
    "olmo2": lambda: hf.Olmo2ForCausalLM(hf.Olmo2Config(**SIZE, **IDS, pad_token_id=None, num_key_value_heads=1,
                                                        rope_parameters=rope(theta=500.0))),
    "falcon": lambda: hf.FalconForCausalLM(hf.FalconConfig(
        **{"ffn_hidden_size" if key == "intermediate_size" else key: value for key, value in SIZE.items()}, **IDS,
        rope_parameters=rope(theta=500.0))),
    "falcon_groups": lambda: hf.FalconForCausalLM(hf.FalconConfig(
        num_attention_heads=4, hidden_size=24, num_hidden_layers=2, vocab_size=V, max_position_embeddings=64, ffn_hidden_size=20, **IDS,
        new_decoder_architecture=True, num_kv_heads=2, rope_parameters=rope(theta=500.0))),
    "falcon_one_norm": lambda: hf.FalconForCausalLM(hf.FalconConfig(
        num_attention_heads=4, hidden_size=24, num_hidden_layers=2, vocab_size=V, max_position_embeddings=64, ffn_hidden_size=20, **IDS,
        new_decoder_architecture=True, num_ln_in_parallel_attn=1, num_kv_heads=2, bias=True, tie_word_embeddings=False, rope_parameters=rope(theta=500.0))),
    "falcon_rw": lambda: hf.FalconForCausalLM(hf.FalconConfig(  # slopes that bfloat16 has exactly, to which transformers rounds them
        num_attention_heads=3, hidden_size=24, num_hidden_layers=2, vocab_size=V, max_position_embeddings=64, ffn_hidden_size=20, **IDS,
        alibi=True, parallel_attn=False, multi_query=False, bias=True)),
    "falcon_alibi": lambda: hf.FalconForCausalLM(hf.FalconConfig(
        num_attention_heads=4, hidden_size=24, num_hidden_layers=2, vocab_size=V, max_position_embeddings=64, **IDS, alibi=True,
        new_decoder_architecture=True, num_kv_heads=2)),
    "falcon_serial": lambda: hf.FalconForCausalLM(hf.FalconConfig(
        num_attention_heads=3, hidden_size=24, num_hidden_layers=2, vocab_size=V, max_position_embeddings=64, ffn_hidden_size=20, **IDS,
        parallel_attn=False, tie_word_embeddings=False, rope_parameters=rope(theta=500.0))),
    "bloom": lambda: hf.BloomForCausalLM(hf.BloomConfig(vocab_size=V, hidden_size=24, n_layer=2, n_head=6, **IDS)),
    "bloom_untied": lambda: hf.BloomForCausalLM(hf.BloomConfig(
        vocab_size=V, hidden_size=32, n_layer=3, n_head=16, seq_length=64, layer_norm_epsilon=1e-3, tie_word_embeddings=False, **IDS)),
    "mpt": lambda: hf.MptForCausalLM(hf.MptConfig(vocab_size=V, d_model=24, n_layers=2, n_heads=3, max_seq_len=64)),
    "mpt_scaled": lambda: hf.MptForCausalLM(hf.MptConfig(
        vocab_size=V, d_model=24, n_layers=2, n_heads=6, max_seq_len=16, attn_config={"softmax_scale": 0.4}, tie_word_embeddings=False)),
    "phi": lambda: hf.PhiForCausalLM(hf.PhiConfig(**SIZE, **IDS, num_key_value_heads=1, rope_parameters=rope(0.5))),
    "gptj": lambda: hf.GPTJForCausalLM(hf.GPTJConfig(n_embd=24, n_layer=2, n_head=3, n_positions=64, vocab_size=V, rotary_dim=6, **IDS)),
    "stablelm_parallel": lambda: hf.StableLmForCausalLM(hf.StableLmConfig(
        **SIZE, **IDS, num_key_value_heads=1, use_parallel_residual=True, rope_parameters=rope(0.5))),
    "gpt_neox_serial": lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(
        **NEOX, use_parallel_residual=False, attention_bias=False, tie_word_embeddings=True, hidden_act="gelu_new",
        rope_parameters=rope(1.0, 500.0, rope_type="linear", factor=2.0))),
}


# What another program's config.json says instead.
REPLACED = {"qwen3_moe_sparse": ("num_local_experts", "num_experts"), "kimi_k2": ('"deepseek_v3"', '"kimi_k2"')}


def pack(model, folder):
    """Replaces the matrices of experts in a folder by random blocks and scales of MXFP4, and those of the model by what
    transformers makes of these, which it returns by their names."""
    state, unpacked = load_file(f"{folder}/model.safetensors"), {}
    for i, layer in enumerate(model.model.layers):
        for name in ("gate_up_proj", "down_proj"):
            full, weight = f"model.layers.{i}.mlp.experts.{name}", getattr(layer.mlp.experts, name)
            E, columns, rows = weight.shape
            blocks = torch.randint(0, 256, (E, rows, columns // 32, 16), dtype=torch.uint8)
            scales = torch.randint(120, 126, (E, rows, columns // 32), dtype=torch.uint8)
            del state[full]
            state |= {f"{full}_blocks": blocks, f"{full}_scales": scales}
            weight.data = unpacked[full] = convert_moe_packed_tensors(blocks, scales)
    save_file(state, f"{folder}/model.safetensors", {"format": "pt"})
    with open(f"{folder}/config.json") as file:
        config = json.load(file)
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
    with open(f"{folder}/config.json", "w") as file:
        json.dump(config, file, indent=2)
    return unpacked


def quantize(model, folder):
    """Replaces matrices of layers in a folder by fp8 with scales of blocks, adds a layer that predicts further tokens,
    and loads what transformers makes of the fp8 into the model."""
    state, fused = load_file(f"{folder}/model.safetensors"), {}
    for name in sorted(state):
        if state[name].dim() == 2 and ".layers." in name and ".gate." not in name:
            rows, columns = state[name].shape
            scales = torch.rand(-(-rows // 128), -(-columns // 128)) * 0.01 + 0.001
            numbers = (torch.randn(rows, columns) * 12).to(torch.float8_e4m3fn)
            state[name] = numbers
            state[f"{name}_scale_inv"] = scales
            fused[name] = Fp8Dequantize(None)._dequantize_one(numbers, scales, output_dtype=torch.bfloat16)
    plain = {name: fused.get(name, value) for name, value in state.items() if not name.endswith("_scale_inv")}
    if isinstance(model, hf.DeepseekV3ForCausalLM):
        state |= {f"model.layers.2.{name}.weight": torch.ones(3) for name in ("enorm", "self_attn.o_proj")}
    save_file(state, f"{folder}/model.safetensors", {"format": "pt"})
    with open(f"{folder}/config.json") as file:
        config = json.load(file)
    config["quantization_config"] = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    config["num_nextn_predict_layers"] = int(isinstance(model, hf.DeepseekV3ForCausalLM))
    with tempfile.TemporaryDirectory() as other:
        model.config.save_pretrained(other)
        save_file(plain, f"{other}/model.safetensors", {"format": "pt"})
        read = type(model).from_pretrained(other, dtype=torch.bfloat16)
    with open(f"{folder}/config.json", "w") as file:
        json.dump(config, file, indent=2)
    model.load_state_dict(read.state_dict())


def make(name):
    torch.manual_seed(zlib.crc32(name.encode()))
    folder = f"{FOLDER}/{name}"
    shutil.rmtree(folder, ignore_errors=True)
    model = MODELS[name]()
    with torch.no_grad():  # the initial values of norms and biases would hide mistakes
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.15 + (0.5 if parameter.dim() == 1 else 0))
        for buffer_name, buffer in model.named_buffers():
            if buffer_name.endswith("e_score_correction_bias"):
                buffer.copy_(torch.randn_like(buffer) * 0.2)
    model = model.eval()
    model.save_pretrained(folder)
    if name in REPLACED:
        with open(f"{folder}/config.json") as file:
            text = file.read()
        with open(f"{folder}/config.json", "w") as file:
            file.write(text.replace(*REPLACED[name]))
    if os.path.exists(f"{folder}/generation_config.json"):
        os.remove(f"{folder}/generation_config.json")
    if name.endswith("fp8"):
        quantize(model, folder)
    if name.endswith("mtp"):  # a layer that predicts a further token, which transformers leaves out
        state = load_file(f"{folder}/model.safetensors") | {"mtp.layers.0.input_layernorm.weight": torch.ones(24)}
        save_file(state, f"{folder}/model.safetensors", {"format": "pt"})
    unpacked = pack(model, folder) if name.endswith("mxfp4") else {}
    data = {"tokens": torch.randint(3, V, (B, T)), "labels": torch.randint(3, V, (B, T))}
    out = {key: value.to(torch.int32).contiguous() for key, value in data.items()}
    model.set_experts_implementation("eager")  # the others do not compute in float64
    out["logits"] = model.to(torch.float32).double()(input_ids=data["tokens"]).logits.detach().float().contiguous()
    save_file(out | unpacked, f"{FOLDER}/{name}.safetensors")


for name in sys.argv[1:] or MODELS:
    make(name)
