#!/usr/bin/env python3
"""Random models of odd shapes from transformers in bevatron: each is loaded as with --load and compared with
transformers' arithmetic in float64 on the same samples: logits within 1e-6, every gradient within 5e-5, the losses
of ten AdamW steps within 2e-5, with auxiliary losses of experts and biases that balance them, which must end up the
same to the bit; beyond a bound only within twice what transformers itself is off by in float32. Such a
result is reported with its condition: how far it moves in float64 if every weight moves by at most 2^-24 of itself, as
rounding to float32 does. Then it is converted to a checkpoint of ours and back: the same tensors bit by bit, loaded by
from_pretrained without a complaint, with the same logits.

Heads of 2 to 100 channels, wider and narrower than hidden size / heads; groups of heads; tied and untied; every rotary
scaling; sliding windows; biases anywhere; narrow embeddings and post-norm (OPT-350M); BERT with and without heads; all
MLPs of T5; whole files, shards and torch files, in fp32, bf16 and fp16.

    BEVATRON=build/release/bevatron MODEL=build/release/tests/peers_model python tests/peers/shapes_peers.py [COUNT [FAMILY…]]

(torch, transformers, safetensors; `ninja -C build/release peers_model`)"""
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
import transformers as hf
from safetensors.torch import load_file, save_file

PROGRAM = os.environ.get("BEVATRON", "build/release/bevatron")
MODEL = os.environ.get("MODEL", os.path.join(os.path.dirname(PROGRAM), "tests/peers_model"))
STEPS, LR, BETAS = 10, 2e-3, (0.9, 0.95)
BALANCE, BIAS_RATE = 0.3, 1e-3  # the coefficient of the auxiliary loss, and the step of biases that balance experts
hf.logging.set_verbosity_error()
hf.logging.disable_progress_bar()


@contextlib.contextmanager
def float64():
    """Inside, what transformers computes in float32 whatever its weights have (norms, rotary positions, softmax) is in
    float64."""
    before = torch.float32, torch.float, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = before


def run(*arguments):
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 0, f"{arguments[:3]}: {done.stderr[-2000:]}"
    return done.stdout


def rope(r, positions):
    kind = r.choice(["default", "linear", "dynamic", "llama3", "yarn", "yarn"])
    out = {"rope_type": kind, "rope_theta": r.choice([10000.0, 500000.0, 1234.0])}
    if kind != "default":
        out["factor"] = r.choice([2.0, 2.5, 8.0, 32.0])
    if kind == "llama3":
        out.update(low_freq_factor=r.choice([1.0, 0.5]), high_freq_factor=4.0, original_max_position_embeddings=positions // 2)
    if kind == "yarn":
        out["original_max_position_embeddings"] = r.choice([positions // 2, positions // 4])
        out.update(r.choice([{}, {"beta_fast": 16.0, "beta_slow": 2.0}, {"attention_factor": 1.3}, {"mscale": 0.7, "mscale_all_dim": 1.1}]))
    return out


def decoder(r):
    groups, size = r.choice([1, 2, 3]), r.choice([2, 6, 10, 20, 40, 80, 100])
    heads = groups * r.choice([1, 2, 4])
    positions = r.choice([32, 70, 4096])
    sizes = dict(num_attention_heads=heads, num_key_value_heads=groups, hidden_size=heads * r.choice([4, 7, 20]), head_dim=size,
                 num_hidden_layers=r.choice([1, 2, 4]), intermediate_size=r.choice([7, 20, 33]), vocab_size=r.choice([31, 50, 97]),
                 max_position_embeddings=positions, tie_word_embeddings=r.random() < 0.5, rope_parameters=rope(r, positions))
    if size == 2 and sizes["rope_parameters"]["rope_type"] == "dynamic":  # transformers divides by head_dim - 2
        sizes["rope_parameters"]["rope_type"] = "linear"
    return sizes


def encoder(r):
    heads, size = r.choice([1, 3, 5]), r.choice([6, 5, 20])
    return dict(num_attention_heads=heads, hidden_size=heads * size, num_hidden_layers=r.choice([1, 3]), vocab_size=r.choice([31, 50]),
                intermediate_size=r.choice([7, 20]), hidden_act=r.choice(["gelu", "gelu_new", "relu", "silu"]), hidden_dropout_prob=0,
                attention_probs_dropout_prob=0, layer_norm_eps=r.choice([1e-12, 1e-5]))


def gpt2(r):
    heads = r.choice([1, 3, 5])
    return hf.GPT2LMHeadModel(hf.GPT2Config(n_head=heads, n_embd=heads * r.choice([4, 7, 20]), n_layer=r.choice([1, 3]),
                                            n_positions=r.choice([16, 40]), vocab_size=r.choice([31, 50]), n_inner=r.choice([None, 17]),
                                            activation_function=r.choice(["gelu_new", "gelu", "relu"]), resid_pdrop=0, embd_pdrop=0,
                                            attn_pdrop=0, tie_word_embeddings=r.random() < 0.7, bos_token_id=0, eos_token_id=0))


def opt(r):
    heads, is_before = r.choice([1, 3, 5]), r.random() < 0.5
    width = heads * r.choice([4, 20])
    return hf.OPTForCausalLM(hf.OPTConfig(num_attention_heads=heads, hidden_size=width, word_embed_proj_dim=r.choice([width, 6, 30]),
                                          num_hidden_layers=r.choice([1, 3]), ffn_dim=r.choice([7, 20]), vocab_size=r.choice([31, 50]),
                                          max_position_embeddings=r.choice([16, 40]), do_layer_norm_before=is_before, dropout=0,
                                          enable_bias=r.random() < 0.7, pad_token_id=None,
                                          activation_function=r.choice(["relu", "gelu"])))


def llama(r):
    return hf.LlamaForCausalLM(hf.LlamaConfig(**decoder(r), rms_norm_eps=r.choice([1e-5, 1e-6]), attention_bias=r.random() < 0.4,
                                              mlp_bias=r.random() < 0.4))


def mistral(r):
    return hf.MistralForCausalLM(hf.MistralConfig(**decoder(r), sliding_window=r.choice([None, 1, 3, 8, 500])))


def experts(r, sizes, **more):
    """Sizes of a mixture of experts; scores that are nearly equal are rare among so few."""
    count = r.choice([3, 4, 7])
    return dict(sizes, num_experts_per_tok=r.choice([2, 3]), bos_token_id=0, eos_token_id=0, pad_token_id=None,
                **{key: count if value is None else value for key, value in more.items()})


def mixtral(r):
    return hf.MixtralForCausalLM(hf.MixtralConfig(**experts(r, decoder(r), num_local_experts=None), sliding_window=r.choice([None, 3, 8])))


def qwen3_moe(r):
    return hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(
        **experts(r, decoder(r), num_experts=None), moe_intermediate_size=r.choice([5, 16]), norm_topk_prob=r.random() < 0.5,
        decoder_sparse_step=1, mlp_only_layers=r.choice([[], [1]]), attention_bias=r.random() < 0.4))


def qwen2_moe(r):
    sizes = decoder(r)
    sizes["hidden_size"] = sizes["num_attention_heads"] * r.choice([4, 10, 20])
    del sizes["head_dim"]
    return hf.Qwen2MoeForCausalLM(hf.Qwen2MoeConfig(
        **experts(r, sizes, num_experts=None), moe_intermediate_size=r.choice([5, 16]), norm_topk_prob=r.random() < 0.5,
        shared_expert_intermediate_size=r.choice([6, 17]), decoder_sparse_step=1, mlp_only_layers=r.choice([[], [1]])))


def olmoe(r):
    sizes = decoder(r)
    sizes["hidden_size"] = sizes["num_attention_heads"] * r.choice([4, 10, 20])
    del sizes["head_dim"]
    return hf.OlmoeForCausalLM(hf.OlmoeConfig(**experts(r, sizes, num_experts=None), norm_topk_prob=r.random() < 0.5))


def gpt_oss(r):
    sizes = decoder(r)
    if sizes["rope_parameters"]["rope_type"] == "yarn":
        sizes["rope_parameters"]["truncate"] = r.random() < 0.3
    return hf.GptOssForCausalLM(hf.GptOssConfig(
        **experts(r, sizes, num_local_experts=None), layer_types=layer_types(r, sizes), sliding_window=r.choice([1, 3, 8, 500]),
        swiglu_limit=r.choice([0.3, 1.0, 7.0]), attention_bias=r.random() < 0.7))


def switched(r, sizes):
    """Windows of Qwen's: none, from a layer on, or by layer."""
    layers = sizes["num_hidden_layers"]
    return r.choice([{}, {"use_sliding_window": True, "sliding_window": r.choice([1, 3, 8]), "max_window_layers": r.choice([0, 1])},
                     {"use_sliding_window": True, "sliding_window": r.choice([2, 5]),
                      "layer_types": [r.choice(["sliding_attention", "full_attention"]) for _ in range(layers)]}])


def qwen3(r):
    sizes = decoder(r)
    return hf.Qwen3ForCausalLM(hf.Qwen3Config(**sizes, **switched(r, sizes), attention_bias=r.random() < 0.4))


def olmo3(r):
    sizes = decoder(r)
    whole = sizes.pop("rope_parameters")
    return hf.Olmo3ForCausalLM(hf.Olmo3Config(
        **sizes, layer_types=layer_types(r, sizes), sliding_window=r.choice([2, 3, 8, 500]), attention_bias=r.random() < 0.4,
        bos_token_id=0, eos_token_id=0, pad_token_id=None,
        rope_parameters={"full_attention": whole, "sliding_attention": {"rope_type": "default", "rope_theta": r.choice([500000.0, 77.0])}}))


def cohere(r):
    sizes = whole(r)
    return hf.CohereForCausalLM(hf.CohereConfig(**sizes, rope_parameters=rope(r, sizes["max_position_embeddings"]),
                                                logit_scale=r.choice([0.0625, 0.8333333333333334, 3.0]), attention_bias=r.random() < 0.3,
                                                use_qk_norm=r.random() < 0.5))


def cohere2(r):
    sizes = whole(r)
    layers = sizes["num_hidden_layers"]
    pattern = r.choice([{}, {"sliding_window_pattern": 2}, {"layer_types": ["full_attention"] * layers},
                        {"layer_types": ["sliding_attention"] * layers}])
    return hf.Cohere2ForCausalLM(hf.Cohere2Config(**sizes, **pattern, rope_parameters=rope(r, sizes["max_position_embeddings"]),
                                                  sliding_window=r.choice([1, 3, 500]), logit_scale=r.choice([0.25, 0.3])))


def granitemoe(r, kind=(hf.GraniteMoeConfig, hf.GraniteMoeForCausalLM), **more):
    sizes = decoder(r)
    sizes["hidden_size"] = sizes["num_attention_heads"] * r.choice([4, 10, 20])
    del sizes["head_dim"]
    return kind[1](kind[0](**experts(r, sizes, num_local_experts=None), **more, embedding_multiplier=r.choice([1.0, 12.0, 0.3]),
                           residual_multiplier=r.choice([1.0, 0.22]), logits_scaling=r.choice([1.0, 8.0]),
                           attention_multiplier=r.choice([0.2, 0.015625])))


def granitemoeshared(r):
    return granitemoe(r, (hf.GraniteMoeSharedConfig, hf.GraniteMoeSharedForCausalLM), shared_intermediate_size=r.choice([0, 6, 17]))


def qwen2(r):
    sizes = decoder(r)
    heads = sizes["num_attention_heads"]
    sizes["hidden_size"] = heads * r.choice([4, 10, 20])
    del sizes["head_dim"]
    return hf.Qwen2ForCausalLM(hf.Qwen2Config(**sizes, **switched(r, sizes)))


def whole(r):
    """Heads as wide as hidden size / heads."""
    sizes = decoder(r)
    del sizes["head_dim"], sizes["rope_parameters"]
    return dict(sizes, hidden_size=sizes["num_attention_heads"] * r.choice([8, 16, 40]), bos_token_id=0, eos_token_id=0, pad_token_id=None)


def part(r):
    return {"rope_type": "default", "rope_theta": r.choice([10000.0, 250000.0]), "partial_rotary_factor": r.choice([0.25, 0.5, 0.75, 1.0])}


def phi3(r):
    return hf.Phi3ForCausalLM(hf.Phi3Config(**whole(r), rope_parameters=part(r), sliding_window=r.choice([None, 1, 3, 500])))


def phi3_long(r):
    """LongRoPE: samples below, at and above the original length, with and without a factor of their own."""
    sizes, share = whole(r), r.choice([0.25, 0.5, 0.75, 1.0])
    pairs = int(sizes["hidden_size"] // sizes["num_attention_heads"] * share) // 2
    lists = {key: [round(r.uniform(1, most), r.choice([2, 9])) for _ in range(pairs)] for key, most in (("short_factor", 1.5), ("long_factor", 40))}
    more = r.choice([{}, {}, {"factor": 8.0}, {"attention_factor": 1.25}])
    return hf.Phi3ForCausalLM(hf.Phi3Config(
        **sizes, original_max_position_embeddings=r.choice([4, 5, 11, 13]), sliding_window=r.choice([None, 3, 500]),
        rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": share, **lists, **more}))


def starcoder2(r):
    sizes = whole(r)
    return hf.Starcoder2ForCausalLM(hf.Starcoder2Config(
        **sizes, rope_parameters=rope(r, sizes["max_position_embeddings"]), sliding_window=r.choice([None, 1, 3, 500]),
        use_bias=r.random() < 0.6, hidden_act=r.choice(["gelu_pytorch_tanh", "gelu", "relu"])))


def stablelm(r):
    return hf.StableLmForCausalLM(hf.StableLmConfig(**whole(r), rope_parameters=part(r), use_qkv_bias=r.random() < 0.5,
                                                    use_parallel_residual=r.random() < 0.5, qk_layernorm=r.random() < 0.5))


def nemotron(r):
    return hf.NemotronForCausalLM(hf.NemotronConfig(**whole(r), head_dim=r.choice([8, 24]), rope_parameters=part(r),
                                                    attention_bias=r.random() < 0.4, mlp_bias=r.random() < 0.4,
                                                    hidden_act=r.choice(["relu2", "gelu"])))


def gpt_bigcode(r):
    heads = r.choice([1, 3, 5])
    return hf.GPTBigCodeForCausalLM(hf.GPTBigCodeConfig(
        n_head=heads, n_embd=heads * r.choice([4, 7, 20]), n_layer=r.choice([1, 3]), n_positions=r.choice([16, 40]),
        vocab_size=r.choice([31, 50]), n_inner=r.choice([None, 17]), activation_function=r.choice(["gelu_pytorch_tanh", "gelu"]),
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, multi_query=r.random() < 0.6, tie_word_embeddings=r.random() < 0.7, bos_token_id=0,
        eos_token_id=0))


def granite(r):
    return hf.GraniteForCausalLM(hf.GraniteConfig(
        **decoder(r), embedding_multiplier=r.choice([1.0, 12.0, 0.3]), residual_multiplier=r.choice([1.0, 0.22]),
        logits_scaling=r.choice([1.0, 8.0]), attention_multiplier=r.choice([0.2, 0.015625])))


def smollm3(r):
    sizes = decoder(r)
    layers = r.choice([{}, {"no_rope_layer_interval": 2}, {"no_rope_layers": [1] * sizes["num_hidden_layers"]}])
    return hf.SmolLM3ForCausalLM(hf.SmolLM3Config(**sizes, **layers, attention_bias=r.random() < 0.4, mlp_bias=r.random() < 0.4,
                                                  bos_token_id=0, eos_token_id=0, pad_token_id=None))


def gemma(r):
    return hf.GemmaForCausalLM(hf.GemmaConfig(**decoder(r), bos_token_id=0, eos_token_id=0, pad_token_id=None))


def layer_types(r, sizes):
    """Windows in some layers: the default of the family, all, none or any."""
    layers = sizes["num_hidden_layers"]
    return r.choice([None, None, ["sliding_attention"] * layers, ["full_attention"] * layers,
                     [r.choice(["sliding_attention", "full_attention"]) for _ in range(layers)]])


def gemma_sizes(r):
    return dict(decoder(r), bos_token_id=0, eos_token_id=0, pad_token_id=None, query_pre_attn_scalar=r.choice([4, 7, 24, 256]),
                sliding_window=r.choice([2, 3, 8, 500]))


def gemma2(r):
    sizes = gemma_sizes(r)
    return hf.Gemma2ForCausalLM(hf.Gemma2Config(**sizes, layer_types=layer_types(r, sizes), attn_logit_softcapping=r.choice([None, 1.0, 5.0, 50.0]),
                                                final_logit_softcapping=r.choice([None, 2.0, 30.0])))


def gemma3_text(r):
    sizes = gemma_sizes(r)
    whole = sizes.pop("rope_parameters")
    return hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(
        **sizes, layer_types=layer_types(r, sizes), final_logit_softcapping=r.choice([None, None, 3.0]),
        rope_parameters={"full_attention": whole, "sliding_attention": {"rope_type": "default", "rope_theta": r.choice([10000.0, 77.0])}}))


def olmo2(r):
    return hf.Olmo2ForCausalLM(hf.Olmo2Config(**decoder(r), rms_norm_eps=r.choice([1e-5, 1e-6]), attention_bias=r.random() < 0.4,
                                              bos_token_id=0, eos_token_id=0, pad_token_id=None))


def falcon(r):
    if r.random() < 0.5:
        groups = r.choice([1, 2, 3])
        heads = groups * r.choice([1, 2, 4])
        return hf.FalconForCausalLM(hf.FalconConfig(
            num_attention_heads=heads, hidden_size=heads * r.choice([4, 14, 20]), num_hidden_layers=r.choice([1, 3]), num_kv_heads=groups,
            vocab_size=r.choice([31, 50]), ffn_hidden_size=r.choice([None, 17]), max_position_embeddings=64, bias=r.random() < 0.4,
            new_decoder_architecture=True, num_ln_in_parallel_attn=r.choice([None, 1, 2]), tie_word_embeddings=r.random() < 0.6,
            rope_parameters={"rope_type": "default", "rope_theta": r.choice([10000.0, 1234.0])}, bos_token_id=0, eos_token_id=0))
    heads = r.choice([1, 3, 5])
    return hf.FalconForCausalLM(hf.FalconConfig(
        num_attention_heads=heads, hidden_size=heads * r.choice([4, 14, 20]), num_hidden_layers=r.choice([1, 3]),
        vocab_size=r.choice([31, 50]), ffn_hidden_size=r.choice([None, 17]), max_position_embeddings=64, bias=r.random() < 0.4,
        multi_query=r.random() < 0.6, activation=r.choice(["gelu", "gelu_new"]), tie_word_embeddings=r.random() < 0.6,
        rope_parameters={"rope_type": "default", "rope_theta": r.choice([10000.0, 1234.0])}, bos_token_id=0, eos_token_id=0))


def falcon_alibi(r):
    """Up to nine heads: transformers rounds slopes and biases to bfloat16, which has the slopes of so few heads exactly."""
    heads, is_new = r.choice([1, 2, 3, 4, 5, 6, 8]), r.random() < 0.3
    return hf.FalconForCausalLM(hf.FalconConfig(
        num_attention_heads=heads, hidden_size=heads * r.choice([4, 14, 20]), num_hidden_layers=r.choice([1, 3]), alibi=True,
        vocab_size=r.choice([31, 50]), ffn_hidden_size=r.choice([None, 17]), max_position_embeddings=64, bias=r.random() < 0.6,
        new_decoder_architecture=is_new, parallel_attn=is_new or r.random() < 0.4, multi_query=r.random() < 0.3,
        activation=r.choice(["gelu", "gelu_new"]), tie_word_embeddings=r.random() < 0.6, bos_token_id=0, eos_token_id=0))


def bloom(r):
    heads = r.choice([1, 2, 3, 5, 6, 7, 12, 16])
    return hf.BloomForCausalLM(hf.BloomConfig(
        n_head=heads, hidden_size=heads * r.choice([4, 7, 14, 20]), n_layer=r.choice([1, 3]), vocab_size=r.choice([31, 50]),
        layer_norm_epsilon=r.choice([1e-5, 1e-3]), tie_word_embeddings=r.random() < 0.7, bos_token_id=0, eos_token_id=0))


def mpt(r):
    heads = r.choice([1, 2, 3, 5, 6, 7, 12, 16])
    return hf.MptForCausalLM(hf.MptConfig(
        n_heads=heads, d_model=heads * r.choice([4, 7, 14, 20]), n_layers=r.choice([1, 3]), vocab_size=r.choice([31, 50]),
        max_seq_len=r.choice([48, 64]), layer_norm_epsilon=r.choice([1e-5, 1e-3]), tie_word_embeddings=r.random() < 0.7,
        attn_config={"softmax_scale": r.choice([None, 0.3])}))


def phi(r):
    return hf.PhiForCausalLM(hf.PhiConfig(**whole(r), rope_parameters=r.choice([part(r), dict(part(r), rope_type="linear", factor=2.0)]),
                                          hidden_act=r.choice(["gelu_new", "gelu", "relu"])))


def gptj(r):
    heads, size = r.choice([1, 3, 5]), r.choice([4, 14, 20])
    return hf.GPTJForCausalLM(hf.GPTJConfig(
        n_head=heads, n_embd=heads * size, n_layer=r.choice([1, 3]), n_positions=r.choice([16, 40]), vocab_size=r.choice([31, 50]),
        rotary_dim=r.choice([2, 4, size]), n_inner=r.choice([None, 17]), activation_function=r.choice(["gelu_new", "gelu"]),
        tie_word_embeddings=r.random() < 0.3, bos_token_id=0, eos_token_id=0))


def gpt_neox(r):
    sizes = whole(r)
    del sizes["num_key_value_heads"]
    return hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(
        **sizes, rope_parameters=r.choice([part(r), dict(part(r), rope_type="linear", factor=2.0)]), attention_bias=r.random() < 0.7,
        use_parallel_residual=r.random() < 0.7, hidden_act=r.choice(["gelu", "gelu_new", "relu"])))


def deepseek(r, method):
    """Latent attention: heads whose queries, keys and values have odd sizes; groups of experts."""
    heads, groups, size = r.choice([1, 2, 3, 4]), r.choice([1, 2, 4]), r.choice([2, 3, 5])
    chosen = r.randint(1, groups)
    scaling = {"rope_type": "default", "rope_theta": 10000.0}
    if r.random() < 0.7:
        scaling = {"rope_type": "yarn", "rope_theta": r.choice([10000.0, 1234.0]), "factor": r.choice([2.0, 40.0]), "original_max_position_embeddings": 8}
        scaling.update(r.choice([{}, {"mscale": 0.707, "mscale_all_dim": 0.707}, {"mscale": 1.0, "mscale_all_dim": 0.5}, {"beta_fast": 16, "beta_slow": 2}]))
    return dict(vocab_size=r.choice([31, 50, 97]), hidden_size=heads * r.choice([4, 7, 20]), intermediate_size=r.choice([7, 20, 33]),
                moe_intermediate_size=r.choice([5, 16]), num_hidden_layers=r.choice([2, 3]), num_attention_heads=heads, num_key_value_heads=heads,
                n_shared_experts=r.choice([1, 2]), n_routed_experts=groups * size, n_group=groups, topk_group=chosen,
                num_experts_per_tok=min(r.choice([2, 3]), chosen * size), first_k_dense_replace=r.choice([0, 1]),
                routed_scaling_factor=r.choice([1.0, 2.5]), q_lora_rank=r.choice([None, 5, 12]), kv_lora_rank=r.choice([3, 8, 17]),
                qk_nope_head_dim=r.choice([3, 6, 16]), qk_rope_head_dim=r.choice([2, 4, 8]), v_head_dim=r.choice([2, 5, 16]),
                max_position_embeddings=32, rope_parameters=scaling, **method)


def deepseek_v2(r):
    """transformers rotates complex numbers, which must lie at even places."""
    sizes = deepseek(r, {"topk_method": r.choice(["greedy", "group_limited_greedy"])})
    sizes["kv_lora_rank"] += sizes["kv_lora_rank"] % 2
    sizes["qk_nope_head_dim"] += sizes["qk_nope_head_dim"] % 2
    return hf.DeepseekV2ForCausalLM(hf.DeepseekV2Config(**sizes))


def deepseek_v3(r):
    return biased(hf.DeepseekV3ForCausalLM(hf.DeepseekV3Config(**deepseek(r, {"num_mtp_layers": 0}), **latents(r))))


def latents(r):
    """Norms of latents have an epsilon of their own; rotation by neighbours or by halves."""
    return dict(rms_norm_eps=r.choice([1e-6, 1e-5, 1e-3]), rope_interleave=r.random() < 0.6)


def glm4_moe_lite(r):
    sizes = deepseek(r, {})
    layers = sizes["num_hidden_layers"] = r.choice([2, 3])
    dense = sizes.pop("first_k_dense_replace")
    types = r.choice([{}, {"mlp_layer_types": ["dense"] * dense + ["sparse"] * (layers - dense)}, {"mlp_layer_types": ["sparse"] + ["dense"] * (layers - 1)}])
    return biased(hf.Glm4MoeLiteForCausalLM(hf.Glm4MoeLiteConfig(**sizes, **types, **latents(r))))


def youtu(r):
    sizes = {key: value for key, value in deepseek(r, {}).items() if not key.startswith(("n_", "moe_", "topk_", "first_k", "routed_", "num_experts"))}
    return hf.YoutuForCausalLM(hf.YoutuConfig(**sizes, **latents(r), tie_word_embeddings=r.random() < 0.5, bos_token_id=0, eos_token_id=0))


def turned(r, sizes):
    """Any rotary scaling of a part of each head."""
    out = dict(rope(r, sizes["max_position_embeddings"]), partial_rotary_factor=r.choice([0.25, 0.5, 1.0]))
    sizes.update(head_dim=r.choice([16, 24, 40]), rope_parameters=out, bos_token_id=0, eos_token_id=0, pad_token_id=None)
    return sizes


def glm(r, kind=(hf.GlmConfig, hf.GlmForCausalLM)):
    return kind[1](kind[0](**turned(r, decoder(r)), attention_bias=r.random() < 0.6, rms_norm_eps=r.choice([1.5625e-07, 1e-5])))


def glm4(r):
    return glm(r, (hf.Glm4Config, hf.Glm4ForCausalLM))


def biased(model):
    """Biases that balance experts, which begin at 0."""
    for name, bias in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            bias.copy_(0.1 * torch.randn(bias.shape))
    return model


def glm4_moe(r):
    groups, size = r.choice([1, 1, 2]), r.choice([2, 3, 5])
    chosen = r.randint(1, groups)
    sizes = dict(turned(r, decoder(r)), num_hidden_layers=r.choice([2, 3]))
    return biased(hf.Glm4MoeForCausalLM(hf.Glm4MoeConfig(
        **sizes, moe_intermediate_size=r.choice([5, 16]), n_routed_experts=groups * size, n_group=groups, topk_group=chosen,
        num_experts_per_tok=min(r.choice([2, 3]), chosen * size), n_shared_experts=r.choice([1, 2]), first_k_dense_replace=r.choice([0, 1]),
        routed_scaling_factor=r.choice([1.0, 2.5]), use_qk_norm=r.random() < 0.5, attention_bias=r.random() < 0.6, num_mtp_layers=0)))


def seed_oss(r):
    has_biases = r.random() < 0.7
    return hf.SeedOssForCausalLM(hf.SeedOssConfig(
        **decoder(r), attention_bias=has_biases, attention_out_bias=has_biases and r.random() < 0.5, mlp_bias=r.random() < 0.4,
        attention_dropout=0, residual_dropout=0, bos_token_id=0, eos_token_id=0, pad_token_id=None))


def arcee(r):
    return hf.ArceeForCausalLM(hf.ArceeConfig(
        **decoder(r), attention_bias=r.random() < 0.4, mlp_bias=r.random() < 0.4, hidden_act=r.choice(["relu2", "gelu", "silu"]),
        bos_token_id=0, eos_token_id=0))


def iquestcoder(r):
    return hf.LlamaForCausalLM(hf.IQuestCoderConfig(**decoder(r), attention_bias=r.random() < 0.4, mlp_bias=r.random() < 0.4))


def ernie4_5(r):
    return hf.Ernie4_5ForCausalLM(hf.Ernie4_5Config(**decoder(r), use_bias=r.random() < 0.5, bos_token_id=0, eos_token_id=0,
                                                    pad_token_id=None))


def helium(r):
    sizes = whole(r)
    return hf.HeliumForCausalLM(hf.HeliumConfig(
        **sizes, head_dim=sizes["hidden_size"] // sizes["num_attention_heads"], attention_bias=r.random() < 0.4, mlp_bias=r.random() < 0.4,
        rope_parameters=rope(r, sizes["max_position_embeddings"])))


def ministral(r):
    sizes = decoder(r)
    types = r.choice([{}, {"layer_types": [r.choice(["sliding_attention", "full_attention"]) for _ in range(sizes["num_hidden_layers"])]}])
    return hf.MinistralForCausalLM(hf.MinistralConfig(**sizes, **types, sliding_window=r.choice([1, 3, 8, 500] + ([] if types else [None]))))


def jais2(r):
    return hf.Jais2ForCausalLM(hf.Jais2Config(
        **decoder(r), attention_bias=r.random() < 0.6, mlp_bias=r.random() < 0.6, hidden_act=r.choice(["relu2", "gelu"]),
        bos_token_id=0, eos_token_id=0))


def exaone4(r):
    sizes = decoder(r)
    layers, every = sizes["num_hidden_layers"], r.choice([2, 3, 4])
    kinds = r.choice([{"sliding_window": None, "sliding_window_pattern": None, "layer_types": ["full_attention"] * layers},
                      {"sliding_window": 3}, {"sliding_window": 500, "sliding_window_pattern": every},
                      {"sliding_window": 2, "layer_types": ["full_attention"] * layers},
                      {"sliding_window": 2, "sliding_window_pattern": "LG", "layer_types": ["sliding_attention"] * layers}])
    return hf.Exaone4ForCausalLM(hf.Exaone4Config(**sizes, **kinds, bos_token_id=0, eos_token_id=0))


def vaultgemma(r):
    sizes = gemma_sizes(r)
    return hf.VaultGemmaForCausalLM(hf.VaultGemmaConfig(
        **sizes, layer_types=layer_types(r, sizes), attn_logit_softcapping=r.choice([None, 5.0, 50.0]),
        final_logit_softcapping=r.choice([None, 2.0, 30.0])))


def rename(folder, model_type):
    config = json.load(open(f"{folder}/config.json"))
    json.dump(dict(config, model_type=model_type), open(f"{folder}/config.json", "w"))


class KimiK2(hf.DeepseekV3ForCausalLM):
    """The same model, under a model_type that transformers does not know."""

    @classmethod
    def from_pretrained(cls, source, **more):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(source, folder, dirs_exist_ok=True)
            assert json.load(open(f"{folder}/config.json"))["model_type"] == "kimi_k2"
            rename(folder, "deepseek_v3")
            return hf.DeepseekV3ForCausalLM.from_pretrained(folder, **more)

    def save_pretrained(self, folder, **more):
        kind, self.config.model_type = self.config.model_type, "deepseek_v3"
        super().save_pretrained(folder, **more)
        self.config.model_type = kind
        rename(folder, "kimi_k2")


KimiK2.__module__ = hf.DeepseekV3ForCausalLM.__module__  # where transformers looks what it can do


def kimi_k2(r):
    model = biased(KimiK2(hf.DeepseekV3Config(**deepseek(r, {"num_mtp_layers": 0}))))
    model.config.model_type = "kimi_k2"
    return model


def routed(r, **more):
    """Routers of DeepSeek-V3's: experts in groups, a bias for the choice, shared experts."""
    groups, size = r.choice([1, 1, 2]), r.choice([2, 3, 5])
    chosen = r.randint(1, groups)
    return dict(decoder(r), num_hidden_layers=r.choice([2, 3]), moe_intermediate_size=r.choice([5, 16]), n_group=groups, topk_group=chosen,
                num_experts_per_tok=min(r.choice([2, 3]), chosen * size), routed_scaling_factor=r.choice([1.0, 2.5]), bos_token_id=0,
                eos_token_id=0, pad_token_id=None, **{key: groups * size if value is None else value for key, value in more.items()})


def dots1(r):
    sizes = routed(r, n_routed_experts=None, n_shared_experts=r.choice([1, 2]))
    types = r.choice([{}, {"max_window_layers": 1}, {"layer_types": layer_types(r, sizes)}])
    return biased(hf.Dots1ForCausalLM(hf.Dots1Config(
        **sizes, **types, sliding_window=r.choice([2, 8] if types else [None, 3]), first_k_dense_replace=r.choice([0, 1]), norm_topk_prob=True,
        attention_bias=r.random() < 0.4)))


def exaone_moe(r):
    sizes = routed(r, num_experts=None, num_shared_experts=r.choice([1, 2]))
    layers, every = sizes["num_hidden_layers"], r.choice([2, 3, 4])
    kinds = r.choice([{"sliding_window": 3}, {"sliding_window": 500, "sliding_window_pattern": every},
                      {"sliding_window": 2, "layer_types": ["full_attention"] * layers}])
    types = r.choice([{}, {"first_k_dense_replace": 0}, {"mlp_layer_types": ["sparse"] + ["dense"] * (layers - 1)}])
    return biased(hf.ExaoneMoeForCausalLM(hf.ExaoneMoeConfig(**sizes, **kinds, **types)))


def solar_open(r):
    sizes = routed(r, n_routed_experts=None, n_shared_experts=r.choice([1, 2]))
    del sizes["intermediate_size"]
    return biased(hf.SolarOpenForCausalLM(hf.SolarOpenConfig(**sizes, attention_bias=r.random() < 0.5)))


def minimax_m2(r):
    sizes = turned(r, decoder(r))
    if r.random() < 0.3:  # as in the released configuration
        sizes["rotary_dim"] = int(sizes["head_dim"] * sizes["rope_parameters"].pop("partial_rotary_factor"))
    return biased(hf.MiniMaxM2ForCausalLM(hf.MiniMaxM2Config(**experts(r, sizes, num_local_experts=None))))


def flex_olmo(r):
    return hf.FlexOlmoForCausalLM(hf.FlexOlmoConfig(**experts(r, decoder(r), num_experts=None), norm_topk_prob=r.random() < 0.5,
                                                    attention_bias=r.random() < 0.4))


def mellum(r):
    sizes = decoder(r)
    whole, layers = sizes.pop("rope_parameters"), sizes["num_hidden_layers"]
    types = {"mlp_layer_types": ["sparse"] + [r.choice(["dense", "sparse"]) for _ in range(layers - 1)]} if r.random() < 0.5 else {}
    return hf.MellumForCausalLM(hf.MellumConfig(
        **experts(r, sizes, num_experts=None), **types, layer_types=layer_types(r, sizes), sliding_window=r.choice([2, 3, 8, 500]),
        moe_intermediate_size=r.choice([5, 16]), norm_topk_prob=r.random() < 0.5, attention_bias=r.random() < 0.4,
        rope_parameters={"full_attention": whole, "sliding_attention": {"rope_type": "default", "rope_theta": r.choice([10000.0, 77.0])}}))


def hunyuan_v1_dense(r):
    sizes = decoder(r)
    if sizes["head_dim"] > 2 and r.random() < 0.5:
        sizes["rope_parameters"] = {"rope_type": "dynamic", "rope_theta": 10000.0, "alpha": r.choice([1000.0, 2.5]), "factor": 1.0}
    return hf.HunYuanDenseV1ForCausalLM(hf.HunYuanDenseV1Config(**sizes, attention_bias=r.random() < 0.4, bos_token_id=0, eos_token_id=0))


def bert(r):
    kind = r.choice([hf.BertForPreTraining, hf.BertForMaskedLM])
    return kind(hf.BertConfig(**encoder(r), max_position_embeddings=r.choice([16, 40]), type_vocab_size=r.choice([2, 3])))


def megatron_bert(r):
    kind = r.choice([hf.MegatronBertForPreTraining, hf.MegatronBertForMaskedLM])
    return kind(hf.MegatronBertConfig(**encoder(r), max_position_embeddings=r.choice([16, 40])))


def distilbert(r):
    sizes = encoder(r)
    return hf.DistilBertForMaskedLM(hf.DistilBertConfig(
        n_heads=sizes["num_attention_heads"], dim=sizes["hidden_size"], n_layers=sizes["num_hidden_layers"], vocab_size=sizes["vocab_size"],
        hidden_dim=sizes["intermediate_size"], activation=sizes["hidden_act"], dropout=0, attention_dropout=0,
        max_position_embeddings=r.choice([16, 40]), sinusoidal_pos_embds=r.random() < 0.5))


def roberta(r):
    return hf.RobertaForMaskedLM(hf.RobertaConfig(**encoder(r), max_position_embeddings=r.choice([18, 42]), type_vocab_size=1))


def xlm_roberta(r):
    return hf.XLMRobertaForMaskedLM(hf.XLMRobertaConfig(**encoder(r), max_position_embeddings=r.choice([18, 42]), type_vocab_size=1))


def camembert(r):
    return hf.CamembertForMaskedLM(hf.CamembertConfig(**encoder(r), max_position_embeddings=r.choice([18, 42]), type_vocab_size=1,
                                                      bos_token_id=5, eos_token_id=6))


def mt5(r):
    model = hf.MT5ForConditionalGeneration(hf.MT5Config(
        d_model=r.choice([8, 12, 21]), num_heads=r.choice([1, 3]), d_kv=r.choice([3, 8, 20]), d_ff=r.choice([7, 20]), dropout_rate=0,
        num_layers=r.choice([1, 3]), num_decoder_layers=r.choice([1, 2]), vocab_size=r.choice([31, 50]), decoder_start_token_id=0,
        relative_attention_num_buckets=r.choice([8, 32]), feed_forward_proj=r.choice(["relu", "gated-gelu"])))
    model.lm_head.weight = torch.nn.Parameter(torch.zeros_like(model.shared.weight))
    return model


def umt5(r):
    return hf.UMT5ForConditionalGeneration(hf.UMT5Config(
        d_model=r.choice([8, 12, 21]), num_heads=r.choice([1, 3]), d_kv=r.choice([3, 8, 20]), d_ff=r.choice([7, 20]), dropout_rate=0,
        num_layers=r.choice([1, 3]), num_decoder_layers=r.choice([1, 2]), vocab_size=r.choice([31, 50]), decoder_start_token_id=0,
        relative_attention_num_buckets=r.choice([8, 32]), feed_forward_proj=r.choice(["relu", "gated-gelu"])))


def t5(r):
    is_tied = r.random() < 0.5
    model = hf.T5ForConditionalGeneration(hf.T5Config(
        d_model=r.choice([8, 12, 21]), num_heads=r.choice([1, 3]), d_kv=r.choice([3, 8, 20]), d_ff=r.choice([7, 20]), dropout_rate=0,
        num_layers=r.choice([1, 3]), num_decoder_layers=r.choice([1, 2]), vocab_size=r.choice([31, 50]), decoder_start_token_id=0,
        relative_attention_num_buckets=r.choice([8, 32]), relative_attention_max_distance=r.choice([20, 128]),
        feed_forward_proj=r.choice(["relu", "gelu", "gated-gelu", "gated-silu", "gated-relu"]), tie_word_embeddings=is_tied))
    if not is_tied:
        model.lm_head.weight = torch.nn.Parameter(torch.zeros_like(model.shared.weight))
    return model


FAMILIES = {f.__name__: f for f in (gpt2, opt, llama, mistral, qwen2, qwen3, mixtral, qwen2_moe, qwen3_moe, olmoe, gpt_oss, phi3, phi3_long, starcoder2, stablelm, nemotron, gpt_bigcode, gpt_neox, phi, gptj, granite,
                                    smollm3, gemma, gemma2, gemma3_text, olmo2, olmo3, falcon, falcon_alibi, bloom, mpt, cohere, cohere2, granitemoe,
                                    granitemoeshared, deepseek_v2, deepseek_v3, kimi_k2, dots1, solar_open, minimax_m2, flex_olmo, mellum, exaone_moe, glm4_moe_lite, youtu, glm, glm4, glm4_moe, seed_oss, arcee, iquestcoder,
                                    ernie4_5, helium, ministral, jais2, exaone4, vaultgemma, hunyuan_v1_dense, bert,
                                    megatron_bert, distilbert, roberta, xlm_roberta, camembert, t5, mt5, umt5)}


def samples(r, model, form, B, T, S):
    """The data of all steps; token 1 is padding and occurs nowhere else."""
    count, vocab, data = STEPS * B, model.config.vocab_size, {}
    columns = S if form == "t5" else T
    data["tokens"] = torch.randint(2, vocab, (count, T))
    data["labels"] = torch.randint(2, vocab, (count, columns))
    data["mask"] = (torch.rand(count, columns) < (0.8 if form == "gpt" else 0.4)).float()
    data["mask"][:, 0] = 1
    if form != "gpt":
        data["lengths"] = torch.randint(T // 2, T + 1, (count,))
        padding = torch.arange(T)[None] >= data["lengths"][:, None]
        data["tokens"][padding] = 1
        if form == "bert":
            data["mask"][padding] = 0
    if form == "t5":
        data["decoder_tokens"] = torch.randint(2, vocab, (count, S))
    if form == "bert" and getattr(model.config, "type_vocab_size", 1) > 1:
        data["types"] = torch.randint(0, 2, (count, T))
    elif form == "bert":
        data["types"] = torch.zeros(count, T, dtype=torch.long)
    if hasattr(model, "cls") and hasattr(model.cls, "seq_relationship"):
        data["pair_labels"] = torch.randint(0, 2, (count,))
    return data


def expert_count(config):
    return getattr(config, "num_local_experts", None) or config.num_experts


def balance_function(model):
    """transformers' auxiliary loss of a model with experts, if its family has one and tokens do not choose all experts:
    then it is constant, and only rounding has a gradient."""
    function = getattr(sys.modules[type(model).__module__], "load_balancing_loss_func", None)
    if model.config.model_type == "minimax_m2":  # takes a softmax of its sigmoid router's logits
        return None
    return function if function and model.config.num_experts_per_tok < expert_count(model.config) else None


def balance_of(model, logits):
    """Megatron's auxiliary loss of a layer, from its router's logits: transformers' is k times as large, because it
    counts each token k times."""
    chosen = model.config.num_experts_per_tok
    return balance_function(model)((logits,), expert_count(model.config), chosen) / chosen


def losses_of(model, form, data, rows):
    """Logits, loss, loss of sentence pairs, and the auxiliary losses of layers with experts."""
    part = {key: value[rows] for key, value in data.items()}
    T = part["tokens"].shape[1]
    arguments = {"input_ids": part["tokens"]}
    if form != "gpt":
        arguments["attention_mask"] = (torch.arange(T)[None] < part["lengths"][:, None]).long()
    if form == "t5":
        arguments["decoder_input_ids"] = part["decoder_tokens"]
    if "types" in part:
        arguments["token_type_ids"] = part["types"]
    if balance_function(model):
        arguments["output_router_logits"] = True
    out = model(**arguments)
    logits = out.prediction_logits if hasattr(out, "prediction_logits") else out.logits
    each = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), part["labels"].reshape(-1), reduction="none")
    mask = part["mask"].reshape(-1).double()
    pair = F.cross_entropy(out.seq_relationship_logits, part["pair_labels"]) if "pair_labels" in part else None
    layers = out.router_logits if balance_function(model) else ()
    balance = [balance_of(model, layer) for layer in layers]
    return logits, (each * mask).sum() / mask.sum(), pair, balance


def watch_choices(model):
    """The choices of each router that has a bias, in the order of layers, as they are made, and the bias."""
    choices = {}
    for name, module in model.named_modules():
        bias = getattr(module, "e_score_correction_bias", None)
        if bias is not None:
            router = getattr(module, "gate", module)
            router.register_forward_hook(lambda _, __, out, name=name, bias=bias: choices.update({name: (bias, out[2])}))
    return choices


def move_biases(choices):
    """As Megatron moves them, in float32: experts with fewer tokens than the mean are preferred by BIAS_RATE more."""
    with torch.no_grad():
        for bias, chosen in choices.values():
            counts = torch.bincount(chosen.reshape(-1), minlength=len(bias)).double()
            bias.copy_(bias.to(torch.float32) + torch.tensor(BIAS_RATE, dtype=torch.float32) * torch.sign(counts.mean() - counts).to(torch.float32))


def filed(model, name):
    """The name of a parameter in files, which transformers 5 keeps where it has renamed the module."""
    return name.replace("lm_head.", "embed_out.") if model.config.model_type == "gpt_neox" else name


def named(model):
    """Each parameter once, a tied one by its name in files."""
    tied, names = getattr(model, "_tied_weights_keys", None) or {}, {}
    for name, p in sorted(model.named_parameters(remove_duplicate=False), key=lambda item: item[0] in tied):
        names.setdefault(id(p), (name, p))
    return names.values()


def plainly(model):
    """Without fused kernels, which have no float64 and want certain sizes."""
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")
    return model


def attention_of(kind, source):
    """Falcon's plain attention adds the biases of ALiBi a second time (transformers 5.23), since its mask has them too."""
    return "sdpa" if getattr(kind.config_class.from_pretrained(source), "alibi", False) else "eager"


def exact_twin(kind, source):
    """The model in float64, with rotary frequencies that were computed in it."""
    read = kind.from_pretrained(source, attn_implementation=attention_of(kind, source), dtype=torch.float64)
    with float64():
        twin = kind(read.config).double()
    head = twin.get_output_embeddings()
    # T5 without a tied table has a config that says it is tied; reading its file unties it.
    if head is not None and read.get_output_embeddings().weight is not read.get_input_embeddings().weight:
        head.weight = torch.nn.Parameter(head.weight.detach().clone())
    twin.load_state_dict(read.state_dict())
    return plainly(twin).train()


def gradients_in_files(model):
    """By their names in files; experts are saved one by one where transformers has them in one tensor."""
    if not any(".experts." in name for name, _ in model.named_parameters()):
        return {filed(model, name): torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in named(model)}
    weights = {id(p): p.data for p in model.parameters()}
    for p in model.parameters():
        p.data = torch.zeros_like(p) if p.grad is None else p.grad.clone()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        found = {name: tensor for name, tensor in tensors(folder).items() if not name.endswith("e_score_correction_bias")}
    for p in model.parameters():
        p.data = weights[id(p)]
    return found


def reference(model, form, data, B):
    """Logits, gradients by name, (loss, pair loss, norm, auxiliary loss) of each step, and the biases in the end."""
    choices = watch_choices(model)
    parameters = list(model.parameters())
    is_matrix = {id(p): p.dim() > 1 and not name.endswith("bias") and "norm" not in name for name, p in model.named_parameters()}
    optimizer = torch.optim.AdamW([{"params": [p for p in parameters if is_matrix[id(p)]], "weight_decay": 0.1},
                                   {"params": [p for p in parameters if not is_matrix[id(p)]], "weight_decay": 0.0}], lr=LR, betas=BETAS, eps=1e-8)
    steps = []
    for step in range(STEPS):
        optimizer.zero_grad()
        with float64() if model.dtype == torch.float64 else contextlib.nullcontext():
            logits, loss, pair, balance = losses_of(model, form, data, slice(step * B, (step + 1) * B))
            (loss + (0 if pair is None else pair) + BALANCE * sum(balance)).backward()
        if step == 0:
            first = logits.detach().clone()
            gradients = gradients_in_files(model)
        norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0).item()
        steps.append((loss.item(), 0 if pair is None else pair.item(), norm, sum(b.item() for b in balance) / max(len(balance), 1)))
        optimizer.step()
        move_biases(choices)
    return first, gradients, steps, {name: bias.to(torch.float32) for name, (bias, _) in choices.items()}


def tensors(folder):
    out = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            out.update(load_file(f"{folder}/{name}"))
    return out


def save(r, model, folder):
    """As transformers saves it now, in one file or several, or as before safetensors. Returns how."""
    how = r.choice(["whole", "whole", "shards", "torch", "torch old"])
    if any(".experts." in name for name, _ in model.named_parameters()):  # transformers 5 has them under other names
        how = r.choice(["whole", "shards"])
    if how.startswith("torch"):
        os.makedirs(folder)
        model.config.save_pretrained(folder)
        torch.save({filed(model, name): tensor for name, tensor in model.state_dict().items()}, f"{folder}/pytorch_model.bin", _use_new_zipfile_serialization=how == "torch")
    else:
        model.save_pretrained(folder, max_shard_size="8KB" if how == "shards" else "5GB")
    if r.random() < 0.4 and (getattr(model.config, "rope_parameters", None) or {}).get("rope_type"):
        how += ", rope_scaling"
        write_old_rope(r, f"{folder}/config.json")
    return how


def write_old_rope(r, path):
    """As in files from before transformers 5: rope_theta by itself, and rope_scaling, whose kind was once called
    type."""
    config = json.load(open(path))
    scaling = config.pop("rope_parameters")
    config["rope_theta"] = scaling.pop("rope_theta")
    kind = scaling.pop("rope_type")
    if "partial_rotary_factor" in scaling:
        config["partial_rotary_factor"] = scaling.pop("partial_rotary_factor")
    config["rope_scaling"] = None if kind == "default" and config["model_type"] != "gpt_oss" else {r.choice(["type", "rope_type"]): kind, **scaling}
    json.dump(config, open(path, "w"))


def relative(a, b, least=0.0):
    return ((a.double() - b.double()).norm() / max(b.double().norm().item(), least, 1e-300)).item()


def compare(kind, found, limit, what):
    assert found < limit, f"{what}: {kind} off by {found:.3g}"
    return found


def compare_rounded(kind, found, limit, what, error):
    """Some shapes amplify the rounding of float32 beyond a bound, whoever computes: sums that cancel do, and AdamW where
    gradients are nearly 0. There, what transformers itself is off by in float32 is the measure. error(way) is that
    ("rounded"), or how far float64 is off with weights that moved by a rounding ("moved")."""
    if found < limit:
        return found
    own = error("rounded")
    print(f"{what.split(' (')[0]}: {kind} off by {found:.2g}; transformers in float32 by {own:.2g}, in float64 with moved weights by "
          f"{error('moved'):.2g}", flush=True)
    compare(kind, found, 2 * own, what)
    return found


def move_weights(model):
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1 + 2.0**-24 * (2 * torch.rand(p.shape, generator=generator, dtype=torch.float64) - 1))
    return model


def relative_losses(a, b):
    return max(max(abs(x[0] - y[0]) / y[0], abs(x[1] - y[1]), abs(x[3] - y[3]) / (y[3] or 1)) for x, y in zip(a, b, strict=True))


def is_bias(name):
    return name.endswith("e_score_correction_bias")


# Where files have the bias that is in a module of this name, if elsewhere.
BIAS_OWNERS = {"minimax_m2": lambda name: name.replace(".mlp", ".block_sparse_moe"),
               "exaone_moe": lambda name: name.removesuffix(".gate")}


def check_biases(expected, family, folder, what):
    if expected:
        run(PROGRAM, "checkpoint", "convert", "--input", f"{folder}/after", "--output", f"{folder}/after_hf", "--family", family)
        found = tensors(f"{folder}/after_hf")
    for name, bias in expected.items():
        got = found[f"{BIAS_OWNERS.get(family, lambda name: name)(name)}.e_score_correction_bias"]
        assert got.dtype == torch.float32 and torch.equal(got, bias), (what, name, got, bias)


def check_numbers(r, model, form, source, folder, what):
    B, T, S = r.choice([1, 2, 3]), r.choice([5, 11, 14]), r.choice([3, 7])
    data = samples(r, model, form, B, T, S)
    save_file({key: value.to(torch.float32 if value.is_floating_point() else torch.int32).contiguous() for key, value in data.items()},
              f"{folder}/samples.safetensors")
    out = run(MODEL, "--load", source, "--use-checkpoint-args", "--finetune", "--samples", f"{folder}/samples.safetensors", "--logits",
              f"{folder}/logits", "--gradients", f"{folder}/gradients", "--save", f"{folder}/after", "--save-interval", "10", "--no-save-optim",
              "--mock-data", "--vocab-size", str(model.config.vocab_size), "--micro-batch-size", str(B), "--seq-length", str(T), "--train-iters",
              str(STEPS), "--lr", str(LR), "--adam-beta2", "0.95", "--weight-decay", "0.1", "--clip-grad", "1.0", "--hidden-dropout", "0",
              "--attention-dropout", "0", *(["--decoder-seq-length", str(S)] if form == "t5" else []),
              *(["--moe-router-bias-update-rate", str(BIAS_RATE)] if any(map(is_bias, model.state_dict())) else []),
              *(["--moe-router-load-balancing-type", "aux_loss", "--moe-aux-loss-coeff", str(BALANCE)] if balance_function(model) else []))
    ours = [[float(word) for word in line.split()] for line in out.splitlines() if len(line.split()) == 4]
    logits, gradients, theirs, biases = reference(exact_twin(type(model), source), form, data, B)
    got = torch.frombuffer(bytearray(open(f"{folder}/logits", "rb").read()), dtype=torch.float32).reshape(logits.shape)
    seen = torch.ones(logits.shape[:2], dtype=torch.bool)
    if form == "bert":
        seen = torch.arange(T)[None] < data["lengths"][:B, None]
    others = {}  # transformers' logits, gradients and losses in other ways, if they are needed

    def other(way):
        if way not in others:
            twin = move_weights(exact_twin(type(model), source)) if way == "moved" else plainly(
                type(model).from_pretrained(source, attn_implementation=attention_of(type(model), source), dtype=torch.float32)).train()
            others[way] = reference(twin, form, data, B)
        return others[way]

    worst = [compare_rounded("logits", relative(got[seen], logits[seen]), 1e-6, what, lambda way: relative(other(way)[0][seen], logits[seen]))]
    run(PROGRAM, "checkpoint", "convert", "--input", f"{folder}/gradients", "--output", f"{folder}/gradients_hf", "--family",
        model.config.model_type)
    found, whole = tensors(f"{folder}/gradients_hf"), sum(g.norm() ** 2 for g in gradients.values()).sqrt().item()
    most = 0
    for name, gradient in gradients.items():
        if name in found:  # a key's bias has no effect: its gradient is only rounding
            least = 1e-2 if gradient.norm() < 1e-12 * whole else 1e-3  # nor have queries that see one key
            most = max(most, compare_rounded(f"gradient of {name}", relative(found[name], gradient, least * whole), 5e-5, what,
                                             lambda way, name=name, gradient=gradient, least=least: relative(other(way)[1][name], gradient, least * whole)))
    missing = [name for name, gradient in gradients.items() if name not in found and gradient.norm() > 0]
    assert not missing, (what, "no gradient of", missing)
    if os.environ.get("VERBOSE"):
        print([(f"{a[0]:.8f} {b[0]:.8f} {a[2]:.7f} {b[2]:.7f}") for a, b in zip(ours, theirs)])
    losses = compare_rounded("losses", relative_losses(ours, theirs), 2e-5, what, lambda way: relative_losses(other(way)[2], theirs))
    worst += [most, losses]
    check_biases(biases, model.config.model_type, folder, what)
    compare("gradient norms", max(abs(a[2] - b[2]) / b[2] for a, b in zip(ours, theirs)), 1e-3, what)
    return worst


def inference(model, vocab):
    generator = torch.Generator().manual_seed(1)
    inputs = {"input_ids": torch.randint(3, vocab, (2, 9), generator=generator)}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.randint(3, vocab, (2, 5), generator=generator)
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")
    with torch.no_grad():
        output = model.eval()(**inputs)
    return output.prediction_logits if "prediction_logits" in output else output.logits


def check_round_trip(model, source, folder, what):
    ours, back = f"{folder}/ours", f"{folder}/back"
    run(PROGRAM, "checkpoint", "convert", "--input", source, "--output", ours)
    run(PROGRAM, "checkpoint", "convert", "--input", ours, "--output", back)
    original, info = type(model).from_pretrained(source, output_loading_info=True)
    read, info = type(model).from_pretrained(back, output_loading_info=True)
    plainly(original), plainly(read)
    assert read.dtype == model.dtype, (what, read.dtype)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], (what, info)
    before, after = original.state_dict(), read.state_dict()
    assert before.keys() == after.keys(), (what, before.keys() ^ after.keys())
    for name, tensor in before.items():
        assert tensor.dtype == after[name].dtype and torch.equal(tensor, after[name]), (what, name)
    assert torch.equal(inference(read, model.config.vocab_size), inference(original, model.config.vocab_size)), (what, "logits")


def check(name, seed, folder):
    r = random.Random(f"{name} {seed}")
    torch.manual_seed(seed)
    model = FAMILIES[name](r)
    form = "t5" if "t5" in name else "bert" if "bert" in name else "gpt"
    with torch.no_grad():
        for parameter_name, p in model.named_parameters():
            # Wide layers must not saturate attention: there fp32 of any program is far from fp64.
            deviation = 0.25 * min(1, (16 / p.shape[-1]) ** 0.5 if p.dim() > 1 else 1)
            is_gain = (p.dim() == 1 or "norm" in parameter_name) and "weight" in parameter_name and not name.endswith(("gemma", "gemma2", "gemma3_text"))  # whose gains are kept as gain - 1
            p.copy_(torch.randn(p.shape) * deviation + (1 if is_gain else 0))
    model = model.to(r.choice([torch.float32, torch.float32, torch.bfloat16, torch.float16]))
    source = f"{folder}/theirs"
    how = save(r, model, source)
    what = f"{name} {seed} ({how}, {model.dtype}, {model.config.to_diff_dict()})"
    worst = check_numbers(r, model, form, source, folder, what)
    check_round_trip(model, source, folder, what)
    return worst


count = int(sys.argv[1]) if len(sys.argv) > 1 else 8
failed = 0
for name in sys.argv[2:] or FAMILIES:
    worst = [0, 0, 0]
    for seed in range(count):
        with tempfile.TemporaryDirectory() as folder:
            try:
                worst = [max(pair) for pair in zip(worst, check(name, seed, folder))]
            except Exception as problem:  # even of transformers: try the next shape
                failed += 1
                print(f"{name} {seed}: {problem}", flush=True)
    print(f"{name:14} {count} shapes, at most: logits {worst[0]:.1e}, gradients {worst[1]:.1e}, losses of {STEPS} steps {worst[2]:.1e}", flush=True)
sys.exit(failed > 0)
