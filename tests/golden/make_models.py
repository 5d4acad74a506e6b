#!/usr/bin/env python3
"""Writes tests/golden/models/*.safetensors: for each family a tiny random model made by transformers, in our names and
packing, with the logits, the loss and every gradient of a first batch and the losses of ten AdamW steps. Weights are
float32, arithmetic is float64 where transformers allows it. Shapes are odd on purpose: heads wider or narrower than
C / H, groups of heads, samples of several lengths.

The flags of the same model here are in the file's metadata. Needs torch, transformers and safetensors. Run from
the repository's root; names of families as arguments make only those."""
import os
import sys
import torch
import torch.nn.functional as F
import transformers as hf
from safetensors.torch import save_file

STEPS, B, T, S, V = 10, 3, 11, 7, 37
torch.set_default_dtype(torch.float64)


def cat(*tensors):
    return torch.cat(tensors, 0)


def norm(out, name, module):
    out[name + ".weight"] = module.weight
    if getattr(module, "bias", None) is not None:
        out[name + ".bias"] = module.bias


def linear(out, name, *modules):
    """Rows of several linear layers, stacked."""
    out[name + ".weight"] = [m.weight for m in modules]
    if modules[0].bias is not None:
        out[name + ".bias"] = [m.bias for m in modules]


def map_gpt2(m):
    out = {"embedding.word_embeddings.weight": m.transformer.wte.weight,
           "embedding.position_embeddings.weight": m.transformer.wpe.weight}

    def conv(name, module):  # (in, out), transposed
        out[name + ".weight"] = (module.weight, "transpose")
        out[name + ".bias"] = module.bias
    for i, b in enumerate(m.transformer.h):
        n = f"decoder.layers.{i}."
        norm(out, n + "input_layernorm", b.ln_1)
        conv(n + "self_attention.linear_qkv", b.attn.c_attn)
        conv(n + "self_attention.linear_proj", b.attn.c_proj)
        norm(out, n + "pre_mlp_layernorm", b.ln_2)
        conv(n + "mlp.linear_fc1", b.mlp.c_fc)
        conv(n + "mlp.linear_fc2", b.mlp.c_proj)
    norm(out, "decoder.final_layernorm", m.transformer.ln_f)
    return out


def map_opt(m):
    d = m.model.decoder
    out = {"embedding.word_embeddings.weight": d.embed_tokens.weight,
           "embedding.position_embeddings.weight": d.embed_positions.weight}
    first, second = ("input", "pre_mlp") if d.layers[0].do_layer_norm_before else ("post_attention", "post_mlp")
    if d.project_in is not None:
        linear(out, "embedding.projection", d.project_in)
        linear(out, "lm_head.projection", d.project_out)
    for i, b in enumerate(d.layers):
        n = f"decoder.layers.{i}."
        norm(out, n + first + "_layernorm", b.self_attn_layer_norm)
        linear(out, n + "self_attention.linear_qkv", b.self_attn.q_proj, b.self_attn.k_proj, b.self_attn.v_proj)
        linear(out, n + "self_attention.linear_proj", b.self_attn.out_proj)
        norm(out, n + second + "_layernorm", b.final_layer_norm)
        linear(out, n + "mlp.linear_fc1", b.fc1)
        linear(out, n + "mlp.linear_fc2", b.fc2)
    if d.final_layer_norm is not None:
        norm(out, "decoder.final_layernorm", d.final_layer_norm)
    return out


def map_llama(m):
    out = {"embedding.word_embeddings.weight": m.model.embed_tokens.weight}
    for i, b in enumerate(m.model.layers):
        n = f"decoder.layers.{i}."
        is_pre = hasattr(b, "input_layernorm")  # otherwise norms of the sublayers' results
        if is_pre:
            norm(out, n + "input_layernorm", b.input_layernorm)
        else:
            norm(out, n + "post_mlp_layernorm", b.post_feedforward_layernorm)
        linear(out, n + "self_attention.linear_qkv", b.self_attn.q_proj, b.self_attn.k_proj, b.self_attn.v_proj)
        linear(out, n + "self_attention.linear_proj", b.self_attn.o_proj)
        if hasattr(b.self_attn, "q_norm"):
            norm(out, n + "self_attention.q_layernorm", b.self_attn.q_norm)
            norm(out, n + "self_attention.k_layernorm", b.self_attn.k_norm)
        norm(out, n + ("pre_mlp_layernorm" if is_pre else "post_attention_layernorm"), b.post_attention_layernorm)
        if hasattr(b.mlp, "experts"):
            out[n + "mlp.router.weight"] = b.mlp.gate.weight
            out[n + "mlp.experts.linear_fc1.weight"] = b.mlp.experts.gate_up_proj
            out[n + "mlp.experts.linear_fc2.weight"] = b.mlp.experts.down_proj
        shared = b.mlp
        if hasattr(b.mlp, "experts"):
            shared = getattr(b.mlp, "shared_experts", getattr(b.mlp, "shared_expert", None))
        if hasattr(b.mlp, "shared_expert_gate"):
            out[n + "mlp.shared_experts.gate_weight"] = b.mlp.shared_expert_gate.weight
        if shared is not None:
            where = "mlp.shared_experts." if shared is not b.mlp else "mlp."
            linear(out, n + where + "linear_fc1", shared.gate_proj, shared.up_proj)
            linear(out, n + where + "linear_fc2", shared.down_proj)
    norm(out, "decoder.final_layernorm", m.model.norm)
    if m.lm_head.weight is not m.model.embed_tokens.weight:
        out["output_layer.weight"] = m.lm_head.weight
    return out


def map_nemotron(m):
    out = {"embedding.word_embeddings.weight": m.model.embed_tokens.weight, "output_layer.weight": m.lm_head.weight}
    for i, b in enumerate(m.model.layers):
        n = f"decoder.layers.{i}."
        norm(out, n + "input_layernorm", b.input_layernorm)
        linear(out, n + "self_attention.linear_qkv", b.self_attn.q_proj, b.self_attn.k_proj, b.self_attn.v_proj)
        linear(out, n + "self_attention.linear_proj", b.self_attn.o_proj)
        norm(out, n + "pre_mlp_layernorm", b.post_attention_layernorm)
        linear(out, n + "mlp.linear_fc1", b.mlp.up_proj)
        linear(out, n + "mlp.linear_fc2", b.mlp.down_proj)
    norm(out, "decoder.final_layernorm", m.model.norm)
    return out


def map_neox(m):
    out = {"embedding.word_embeddings.weight": m.gpt_neox.embed_in.weight, "output_layer.weight": m.lm_head.weight}
    for i, b in enumerate(m.gpt_neox.layers):
        n = f"decoder.layers.{i}."
        norm(out, n + "input_layernorm", b.input_layernorm)
        packed = b.attention.query_key_value  # query, key and value of each head
        out[n + "self_attention.linear_qkv.weight"] = (packed.weight, m.config.num_attention_heads)
        out[n + "self_attention.linear_qkv.bias"] = (packed.bias, m.config.num_attention_heads)
        linear(out, n + "self_attention.linear_proj", b.attention.dense)
        norm(out, n + "pre_mlp_layernorm", b.post_attention_layernorm)
        linear(out, n + "mlp.linear_fc1", b.mlp.dense_h_to_4h)
        linear(out, n + "mlp.linear_fc2", b.mlp.dense_4h_to_h)
    norm(out, "decoder.final_layernorm", m.gpt_neox.final_layer_norm)
    return out


def map_encoder(base, is_pre):
    e = base.embeddings
    out = {"embedding.word_embeddings.weight": e.word_embeddings.weight,
           "embedding.position_embeddings.weight": e.position_embeddings.weight,
           "embedding.tokentype_embeddings.weight": e.token_type_embeddings.weight}
    if not is_pre:
        norm(out, "embedding.layernorm", e.LayerNorm)
    for i, b in enumerate(base.encoder.layer):
        n = f"encoder.layers.{i}."
        a = b.attention
        linear(out, n + "self_attention.linear_qkv", a.self.query, a.self.key, a.self.value)
        linear(out, n + "self_attention.linear_proj", a.output.dense)
        linear(out, n + "mlp.linear_fc1", b.intermediate.dense)
        linear(out, n + "mlp.linear_fc2", b.output.dense)
        if is_pre:
            norm(out, n + "input_layernorm", a.ln)
            norm(out, n + "pre_mlp_layernorm", b.ln)
        else:
            norm(out, n + "post_attention_layernorm", a.output.LayerNorm)
            norm(out, n + "post_mlp_layernorm", b.output.LayerNorm)
    if is_pre:
        norm(out, "encoder.final_layernorm", base.encoder.ln)
    return out


def map_bert(m):
    base = m.roberta if hasattr(m, "roberta") else m.bert
    out = map_encoder(base, isinstance(m, hf.MegatronBertForPreTraining))
    if hasattr(m, "roberta"):
        h = m.lm_head
        linear(out, "lm_head.dense", h.dense)
        norm(out, "lm_head.layer_norm", h.layer_norm)
        out["output_layer.bias"] = h.bias
    else:
        h = m.cls.predictions
        linear(out, "lm_head.dense", h.transform.dense)
        norm(out, "lm_head.layer_norm", h.transform.LayerNorm)
        out["output_layer.bias"] = h.bias
        linear(out, "pooler.dense", base.pooler.dense)
        linear(out, "binary_head", m.cls.seq_relationship)
    return out


class Towers(torch.nn.Module):
    """ICT: encoders of queries and contexts, or one for both; the first token's last state, projected or not."""

    def __init__(self, encoders, width, projection, scale):
        super().__init__()
        self.encoders, self.scale = torch.nn.ModuleList(encoders), scale
        self.projections = torch.nn.ModuleList([torch.nn.Linear(width, projection) for _ in encoders if projection])

    def embed(self, which, tokens, lengths):
        which = min(which, len(self.encoders) - 1)
        mask = (torch.arange(T)[None] < lengths[:, None]).long()
        first = self.encoders[which](input_ids=tokens, attention_mask=mask).last_hidden_state[:, 0]
        return self.projections[which](first) if len(self.projections) else first

    def forward(self, part):
        queries = self.embed(0, part["tokens"], part["lengths"])
        contexts = self.embed(1, part["context_tokens"], part["context_lengths"])
        return self.scale * queries @ contexts.t()

    def set_attn_implementation(self, kind):
        for encoder in self.encoders:
            encoder.set_attn_implementation(kind)


def map_towers(m):
    out = {}
    scopes = ["shared_model."] if len(m.encoders) == 1 else ["query_model.", "context_model."]
    for i, (scope, encoder) in enumerate(zip(scopes, m.encoders)):
        own = map_encoder(encoder, isinstance(encoder, hf.MegatronBertModel))
        if len(m.projections):
            linear(own, "projection_enc", m.projections[i])
        out.update({scope + n: e for n, e in own.items()})
    return out


def map_t5(m):
    out = {"embedding.word_embeddings.weight": m.shared.weight}
    for side, stack in (("encoder", m.encoder), ("decoder", m.decoder)):
        for i, b in enumerate(stack.block):
            n = f"{side}.layers.{i}."
            a = b.layer[0].SelfAttention
            if a.has_relative_attention_bias:
                where = n + "self_attention." if m.config.model_type == "umt5" else side + "."
                out[where + "relative_attention_bias.weight"] = a.relative_attention_bias.weight
            norm(out, n + "input_layernorm", b.layer[0].layer_norm)
            linear(out, n + "self_attention.linear_qkv", a.q, a.k, a.v)
            linear(out, n + "self_attention.linear_proj", a.o)
            if side == "decoder":
                c = b.layer[1].EncDecAttention
                norm(out, n + "pre_cross_attn_layernorm", b.layer[1].layer_norm)
                linear(out, n + "cross_attention.linear_q", c.q)
                linear(out, n + "cross_attention.linear_kv", c.k, c.v)
                linear(out, n + "cross_attention.linear_proj", c.o)
            f = b.layer[-1].DenseReluDense
            norm(out, n + "pre_mlp_layernorm", b.layer[-1].layer_norm)
            linear(out, n + "mlp.linear_fc1", *([f.wi_0, f.wi_1] if hasattr(f, "wi_0") else [f.wi]))
            linear(out, n + "mlp.linear_fc2", f.wo)
        norm(out, side + ".final_layernorm", stack.final_layer_norm)
    if m.lm_head.weight is not m.shared.weight:
        out["output_layer.weight"] = m.lm_head.weight
    return out


def flat(entry, pick):
    """The tensor of an entry of a map: values or gradients."""
    if isinstance(entry, list):
        return cat(*[pick(p) for p in entry])
    if isinstance(entry, tuple) and entry[1] != "transpose":
        whole, heads = pick(entry[0]), entry[1]
        parts = whole.view(heads, 3, whole.shape[0] // heads // 3, *whole.shape[1:])
        return cat(*[parts[:, k].reshape(whole.shape[0] // 3, *whole.shape[1:]) for k in range(3)])
    if isinstance(entry, tuple):
        return pick(entry[0]).t().contiguous()
    return pick(entry)


COMMON = f"--seq-length {T} --micro-batch-size {B} --padded-vocab-size {V} --hidden-dropout 0 --attention-dropout 0 "
BALANCE = [0.3, 0.2, 0.1]  # coefficients of the losses of mixtral's routers, over the batch and each sequence, and of z
BIAS_RATE = 1 / 32
LLAMA = "--normalization RMSNorm --swiglu --disable-bias-linear --position-embedding-type rope "


def gpt2(activation):
    c = hf.GPT2Config(vocab_size=V, n_positions=13, n_embd=15, n_layer=2, n_head=3, n_inner=22,
                      activation_function=activation, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    flags = "--num-layers 2 --hidden-size 15 --num-attention-heads 3 --ffn-hidden-size 22 --max-position-embeddings 13 "
    return hf.GPT2LMHeadModel(c), map_gpt2, flags + ("--no-bias-gelu-fusion" if activation == "gelu" else "")


def opt(words):
    """The 350M is the one with narrow word embeddings and post-norm."""
    c = hf.OPTConfig(vocab_size=V, hidden_size=14, word_embed_proj_dim=words, num_hidden_layers=2, ffn_dim=19,
                     num_attention_heads=2, max_position_embeddings=12, dropout=0, attention_dropout=0,
                     activation_function="relu", pad_token_id=1, do_layer_norm_before=words == 14)
    flags = "--num-layers 2 --hidden-size 14 --num-attention-heads 2 --ffn-hidden-size 19 --max-position-embeddings 12 " \
            "--position-offset 2 --activation relu" + (f" --word-embedding-size {words} --norm-placement post" if words < 14 else "")
    return hf.OPTForCausalLM(c), map_opt, flags


def llama(kind):
    grouped, head = not kind.startswith("llama1"), 8 if kind == "llama3" else 4
    rope = {"rope_type": "default", "rope_theta": 500.0}
    if kind == "llama3":
        rope = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 200}
    if kind == "yarn":
        rope = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "beta_fast": 8.0, "beta_slow": 2.0,
                "original_max_position_embeddings": 64}
    c = hf.LlamaConfig(vocab_size=V, hidden_size=18, intermediate_size=23, num_hidden_layers=2, num_attention_heads=6,
                       num_key_value_heads=2 if grouped else 6, head_dim=head, max_position_embeddings=256,
                       rope_parameters=rope, tie_word_embeddings=kind == "llama3", rms_norm_eps=1e-5,
                       attention_bias=kind == "llama1_biases", mlp_bias=kind in ("llama1_biases", "yarn"))
    flags = LLAMA + f"--num-layers 2 --hidden-size 18 --num-attention-heads 6 --kv-channels {head} " \
        "--ffn-hidden-size 23 --max-position-embeddings 256 --rotary-base 500 "
    if grouped:
        flags += "--group-query-attention --num-query-groups 2 "
    if kind == "llama3":
        flags += "--use-rope-scaling --rope-original-length 200"
    elif kind == "yarn":
        flags += "--use-rope-scaling --rope-scaling-type yarn --rope-scaling-factor 4 --yarn-beta-fast 8 --yarn-beta-slow 2 " \
            "--rope-original-length 64 --add-mlp-bias --untie-embeddings-and-output-weights"
    elif kind == "llama1_biases":
        flags += "--add-attention-bias --add-mlp-bias --untie-embeddings-and-output-weights"
    else:
        flags += "--untie-embeddings-and-output-weights"
    return hf.LlamaForCausalLM(c), map_llama, flags


def mistral():
    c = hf.MistralConfig(vocab_size=V, hidden_size=12, intermediate_size=17, num_hidden_layers=2, num_attention_heads=3,
                         num_key_value_heads=1, head_dim=6, max_position_embeddings=64, sliding_window=4,
                         rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, tie_word_embeddings=False)
    flags = LLAMA + "--num-layers 2 --hidden-size 12 --num-attention-heads 3 --kv-channels 6 --ffn-hidden-size 17 " \
        "--max-position-embeddings 64 --group-query-attention --num-query-groups 1 --sliding-window 4 " \
        "--norm-epsilon 1e-6 --untie-embeddings-and-output-weights"
    return hf.MistralForCausalLM(c), map_llama, flags


def qwen2():
    c = hf.Qwen2Config(vocab_size=V, hidden_size=16, intermediate_size=17, num_hidden_layers=2, num_attention_heads=4,
                       num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True,
                       rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
    flags = LLAMA + "--num-layers 2 --hidden-size 16 --num-attention-heads 4 --ffn-hidden-size 17 --add-qkv-bias " \
        "--max-position-embeddings 64 --group-query-attention --num-query-groups 2 --norm-epsilon 1e-6"
    return hf.Qwen2ForCausalLM(c), map_llama, flags


def windows():
    """Qwen2 with a window in some layers."""
    c = hf.Qwen2Config(vocab_size=V, hidden_size=16, intermediate_size=17, num_hidden_layers=3, num_attention_heads=4,
                       num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True, use_sliding_window=True,
                       sliding_window=4, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                       rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
    flags = LLAMA + "--num-layers 3 --hidden-size 16 --num-attention-heads 4 --ffn-hidden-size 17 --add-qkv-bias " \
        "--max-position-embeddings 64 --group-query-attention --num-query-groups 2 --norm-epsilon 1e-6 --window-size 3,0 " \
        "--window-attn-skip-freq 2"
    return hf.Qwen2ForCausalLM(c), map_llama, flags


def qwen3():
    c = hf.Qwen3Config(vocab_size=V, hidden_size=16, intermediate_size=17, num_hidden_layers=2, num_attention_heads=4,
                       num_key_value_heads=2, head_dim=6, max_position_embeddings=64, tie_word_embeddings=True,
                       rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
    flags = LLAMA + "--num-layers 2 --hidden-size 16 --num-attention-heads 4 --kv-channels 6 --ffn-hidden-size 17 " \
        "--qk-layernorm --max-position-embeddings 64 --group-query-attention --num-query-groups 2 --norm-epsilon 1e-6"
    return hf.Qwen3ForCausalLM(c), map_llama, flags


def mixtral():
    c = hf.MixtralConfig(vocab_size=V, hidden_size=12, intermediate_size=9, num_hidden_layers=2, num_attention_heads=3,
                         num_key_value_heads=1, head_dim=6, max_position_embeddings=64, sliding_window=None,
                         num_local_experts=5, num_experts_per_tok=2, tie_word_embeddings=False,
                         rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
    flags = LLAMA + "--num-layers 2 --hidden-size 12 --num-attention-heads 3 --kv-channels 6 --ffn-hidden-size 9 " \
        "--max-position-embeddings 64 --group-query-attention --num-query-groups 1 --norm-epsilon 1e-5 " \
        "--untie-embeddings-and-output-weights --num-experts 5 --moe-router-load-balancing-type aux_loss seq_aux_loss " \
        f"--moe-aux-loss-coeff {BALANCE[0]} {BALANCE[1]} --moe-z-loss-coeff {BALANCE[2]}"
    return hf.MixtralForCausalLM(c), map_llama, flags


def qwen3_moe():
    """The first layer is dense; the weights of the chosen experts do not add up to 1."""
    c = hf.Qwen3MoeConfig(vocab_size=V, hidden_size=16, intermediate_size=17, num_hidden_layers=3, num_attention_heads=4,
                          num_key_value_heads=2, head_dim=6, max_position_embeddings=64, tie_word_embeddings=True,
                          num_experts=6, num_experts_per_tok=3, moe_intermediate_size=7, norm_topk_prob=False,
                          mlp_only_layers=[0], decoder_sparse_step=1,
                          rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
    flags = LLAMA + "--num-layers 3 --hidden-size 16 --num-attention-heads 4 --kv-channels 6 --ffn-hidden-size 17 " \
        "--qk-layernorm --max-position-embeddings 64 --group-query-attention --num-query-groups 2 --norm-epsilon 1e-6 " \
        "--num-experts 6 --moe-router-topk 3 --moe-ffn-hidden-size 7 --moe-router-pre-softmax --moe-layer-freq [0]+[1]*2"
    return hf.Qwen3MoeForCausalLM(c), map_llama, flags


def qwen2_moe():
    """A shared expert behind a gate."""
    c = hf.Qwen2MoeConfig(vocab_size=V, hidden_size=16, intermediate_size=17, num_hidden_layers=2, num_attention_heads=4,
                          num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True, num_experts=5,
                          num_experts_per_tok=2, moe_intermediate_size=7, shared_expert_intermediate_size=11,
                          norm_topk_prob=False, rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
    flags = LLAMA + "--num-layers 2 --hidden-size 16 --num-attention-heads 4 --ffn-hidden-size 17 --add-qkv-bias " \
        "--max-position-embeddings 64 --group-query-attention --num-query-groups 2 --norm-epsilon 1e-6 " \
        "--num-experts 5 --moe-ffn-hidden-size 7 --moe-router-pre-softmax --moe-shared-expert-intermediate-size 11 " \
        "--moe-shared-expert-gate"
    return hf.Qwen2MoeForCausalLM(c), map_llama, flags


def glm4_moe():
    """Sigmoids, groups of experts and shared experts, as in DeepSeek-V3, with a usual attention."""
    c = hf.Glm4MoeConfig(vocab_size=V, hidden_size=16, intermediate_size=17, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, head_dim=8, max_position_embeddings=64, tie_word_embeddings=False,
                         n_routed_experts=8, n_shared_experts=2, num_experts_per_tok=2, moe_intermediate_size=5,
                         n_group=4, topk_group=1, routed_scaling_factor=1.5, norm_topk_prob=True,
                         first_k_dense_replace=1, attention_bias=True, use_qk_norm=False, partial_rotary_factor=0.5,
                         rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5})
    flags = LLAMA + "--num-layers 2 --hidden-size 16 --num-attention-heads 4 --kv-channels 8 --ffn-hidden-size 17 " \
        "--add-qkv-bias --rotary-percent 0.5 --max-position-embeddings 64 --group-query-attention --num-query-groups 2 " \
        "--norm-epsilon 1e-5 --untie-embeddings-and-output-weights --num-experts 8 --moe-ffn-hidden-size 5 " \
        "--moe-router-score-function sigmoid --moe-router-num-groups 4 --moe-router-group-topk 1 " \
        "--moe-router-topk-scaling-factor 1.5 --moe-shared-expert-intermediate-size 10 --moe-layer-freq [0,1]"
    return hf.Glm4MoeForCausalLM(c), map_llama, flags


def glm4_moe_bias():
    """The same with a bias that balances experts. Multiples of small powers of two, so that fp32 holds its path exactly."""
    model, mapping, flags = glm4_moe()
    for b in model.model.layers[1:]:
        b.mlp.gate.e_score_correction_bias.copy_(torch.randint(-16, 17, (8,)) / 64)
    return model, mapping, flags + f" --moe-router-enable-expert-bias --moe-router-bias-update-rate {BIAS_RATE}"


def nemotron():
    c = hf.NemotronConfig(vocab_size=V, hidden_size=16, intermediate_size=21, num_hidden_layers=2, num_attention_heads=4,
                          num_key_value_heads=2, head_dim=4, max_position_embeddings=64, partial_rotary_factor=0.5,
                          norm_eps=1e-5, hidden_act="relu2", tie_word_embeddings=False)
    flags = "--num-layers 2 --hidden-size 16 --num-attention-heads 4 --ffn-hidden-size 21 --squared-relu " \
        "--apply-layernorm-1p --disable-bias-linear --position-embedding-type rope --rotary-percent 0.5 " \
        "--max-position-embeddings 64 --group-query-attention --num-query-groups 2 --untie-embeddings-and-output-weights"
    return hf.NemotronForCausalLM(c), map_nemotron, flags


def gpt_neox():
    c = hf.GPTNeoXConfig(vocab_size=V, hidden_size=24, intermediate_size=19, num_hidden_layers=2, num_attention_heads=3,
                         max_position_embeddings=64, layer_norm_eps=1e-5, bos_token_id=0, eos_token_id=0,
                         rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.25})
    flags = "--num-layers 2 --hidden-size 24 --num-attention-heads 3 --ffn-hidden-size 19 --max-position-embeddings 64 " \
        "--parallel-residual --activation gelu --position-embedding-type rope --rotary-base 500 --rotary-percent 0.25 " \
        "--untie-embeddings-and-output-weights"
    return hf.GPTNeoXForCausalLM(c), map_neox, flags


def map_gemma(m):
    out = {"embedding.word_embeddings.weight": m.model.embed_tokens.weight}
    for i, b in enumerate(m.model.layers):
        n = f"decoder.layers.{i}."
        norm(out, n + "input_layernorm", b.input_layernorm)
        linear(out, n + "self_attention.linear_qkv", b.self_attn.q_proj, b.self_attn.k_proj, b.self_attn.v_proj)
        linear(out, n + "self_attention.linear_proj", b.self_attn.o_proj)
        if hasattr(b.self_attn, "q_norm"):
            norm(out, n + "self_attention.q_layernorm", b.self_attn.q_norm)
            norm(out, n + "self_attention.k_layernorm", b.self_attn.k_norm)
        norm(out, n + "post_attention_layernorm", b.post_attention_layernorm)
        norm(out, n + "pre_mlp_layernorm", b.pre_feedforward_layernorm)
        linear(out, n + "mlp.linear_fc1", b.mlp.gate_proj, b.mlp.up_proj)
        linear(out, n + "mlp.linear_fc2", b.mlp.down_proj)
        norm(out, n + "post_mlp_layernorm", b.post_feedforward_layernorm)
    norm(out, "decoder.final_layernorm", m.model.norm)
    return out


GEMMA = "--normalization RMSNorm --apply-layernorm-1p --activation gelu_tanh --gated-linear-unit --disable-bias-linear " \
    "--position-embedding-type rope --norm-epsilon 1e-6 --norm-placement both --hidden-size 16 --num-attention-heads 4 " \
    "--kv-channels 6 --ffn-hidden-size 17 --max-position-embeddings 64 --group-query-attention --num-query-groups 2 " \
    "--embedding-multiplier 4 --softmax-scale 0.3333333333333333 "


def gemma2():
    c = hf.Gemma2Config(vocab_size=V, hidden_size=16, intermediate_size=17, num_hidden_layers=2, num_attention_heads=4,
                        num_key_value_heads=2, head_dim=6, max_position_embeddings=64, query_pre_attn_scalar=9, sliding_window=4,
                        attn_logit_softcapping=2.0, final_logit_softcapping=3.0, pad_token_id=None,
                        rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
    flags = GEMMA + "--num-layers 2 --window-size 3,0 --window-attn-skip-freq 2 --attn-logit-softcapping 2 " \
        "--final-logit-softcapping 3"
    return hf.Gemma2ForCausalLM(c), map_gemma, flags


def gemma3():
    c = hf.Gemma3TextConfig(vocab_size=V, hidden_size=16, intermediate_size=17, num_hidden_layers=3, num_attention_heads=4,
                            num_key_value_heads=2, head_dim=6, max_position_embeddings=64, query_pre_attn_scalar=9,
                            sliding_window=4, sliding_window_pattern=3, pad_token_id=None,
                            rope_parameters={"full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0},
                                             "sliding_attention": {"rope_type": "default", "rope_theta": 90.0}})
    flags = GEMMA + "--num-layers 3 --sliding-window 4 --window-attn-skip-freq 3 --rotary-base-local 90 " \
        "--rotary-seq-len-interpolation-factor 2 --qk-layernorm"
    return hf.Gemma3ForCausalLM(c), map_gemma, flags


def map_phi(m):
    out = {"embedding.word_embeddings.weight": m.model.embed_tokens.weight}
    for i, b in enumerate(m.model.layers):
        n = f"decoder.layers.{i}."
        norm(out, n + "input_layernorm", b.input_layernorm)
        linear(out, n + "self_attention.linear_qkv", b.self_attn.q_proj, b.self_attn.k_proj, b.self_attn.v_proj)
        linear(out, n + "self_attention.linear_proj", b.self_attn.dense)
        linear(out, n + "mlp.linear_fc1", b.mlp.fc1)
        linear(out, n + "mlp.linear_fc2", b.mlp.fc2)
    norm(out, "decoder.final_layernorm", m.model.final_layernorm)
    linear(out, "output_layer", m.lm_head)
    return out


def phi():
    c = hf.PhiConfig(vocab_size=V, hidden_size=24, intermediate_size=19, num_hidden_layers=2, num_attention_heads=3,
                     num_key_value_heads=1, max_position_embeddings=64, layer_norm_eps=1e-5, bos_token_id=0, eos_token_id=0,
                     rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5})
    flags = "--num-layers 2 --hidden-size 24 --num-attention-heads 3 --ffn-hidden-size 19 --max-position-embeddings 64 " \
        "--parallel-residual --parallel-residual-one-norm --position-embedding-type rope --rotary-base 500 --rotary-percent 0.5 " \
        "--group-query-attention --num-query-groups 1 --add-output-bias --untie-embeddings-and-output-weights"
    return hf.PhiForCausalLM(c), map_phi, flags


def like_llama(kind):
    """Llama's layers with one thing more."""
    config, model = {"granite": (hf.GraniteConfig, hf.GraniteForCausalLM), "smollm3": (hf.SmolLM3Config, hf.SmolLM3ForCausalLM),
                     "gemma": (hf.GemmaConfig, hf.GemmaForCausalLM), "olmo2": (hf.Olmo2Config, hf.Olmo2ForCausalLM)}[kind]
    more = {"granite": dict(embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=8.0, attention_multiplier=0.2),
            "smollm3": dict(no_rope_layer_interval=2), "gemma": {}, "olmo2": {}}[kind]
    c = config(vocab_size=V, hidden_size=16, intermediate_size=17, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
               head_dim=6, max_position_embeddings=64, tie_word_embeddings=True, rms_norm_eps=1e-6, bos_token_id=0, eos_token_id=0,
               pad_token_id=None, rope_parameters={"rope_type": "default", "rope_theta": 500.0}, **more)
    flags = LLAMA + "--num-layers 3 --hidden-size 16 --num-attention-heads 4 --kv-channels 6 --ffn-hidden-size 17 --rotary-base 500 " \
        "--max-position-embeddings 64 --group-query-attention --num-query-groups 2 --norm-epsilon 1e-6 "
    if kind == "gemma":
        flags = flags.replace("--swiglu", "--activation gelu_tanh --gated-linear-unit")
    return model(c), map_llama, flags + {
        "granite": "--embedding-multiplier 12 --residual-multiplier 0.22 --logits-scaling 8 --softmax-scale 0.2",
        "smollm3": "--no-rope-freq 2", "olmo2": "--norm-placement output --qk-layernorm --qk-layernorm-all-heads", "gemma": "--apply-layernorm-1p --embedding-multiplier 4"}[kind]


BERT = "--model bert --num-layers 2 --hidden-size 15 --num-attention-heads 3 --ffn-hidden-size 22 --activation gelu "


def bert(kind):
    size = dict(vocab_size=V, hidden_size=15, num_hidden_layers=2, num_attention_heads=3, intermediate_size=22,
                hidden_act="gelu", hidden_dropout_prob=0, attention_probs_dropout_prob=0, pad_token_id=1)
    if kind in ("bert", "bert_tanh"):
        size["hidden_act"] = "gelu" if kind == "bert" else "gelu_new"
        c = hf.BertConfig(max_position_embeddings=13, type_vocab_size=2, layer_norm_eps=1e-12, **size)
        return hf.BertForPreTraining(c), map_bert, (BERT if kind == "bert" else BERT.replace("gelu", "gelu_tanh")) + \
            "--max-position-embeddings 13 --norm-placement post --norm-epsilon 1e-12"
    if kind == "megatron_bert":
        c = hf.MegatronBertConfig(max_position_embeddings=13, type_vocab_size=2, layer_norm_eps=1e-5, **size)
        return hf.MegatronBertForPreTraining(c), map_bert, BERT + "--max-position-embeddings 13"
    c = hf.RobertaConfig(max_position_embeddings=15, type_vocab_size=1, layer_norm_eps=1e-5, **size)
    return hf.RobertaForMaskedLM(c), map_bert, BERT + "--max-position-embeddings 13 --norm-placement post " \
        "--position-offset 2 --bert-no-binary-head --num-token-types 1"


def ict(kind):
    """Megatron's own: two pre-norm towers with a projection. And one post-norm tower, whose scores are scaled."""
    size = dict(vocab_size=V, hidden_size=15, num_hidden_layers=2, num_attention_heads=3, intermediate_size=22,
                hidden_act="gelu", hidden_dropout_prob=0, attention_probs_dropout_prob=0, pad_token_id=1,
                max_position_embeddings=13, type_vocab_size=2)
    flags = BERT.replace("--model bert", "--model ict") + "--max-position-embeddings 13 " \
        "--retriever-report-topk-accuracies 1 2 "
    if kind == "ict":
        towers = [hf.MegatronBertModel(hf.MegatronBertConfig(layer_norm_eps=1e-5, **size), add_pooling_layer=False)
                  for _ in range(2)]
        return Towers(towers, 15, 7, 1.0), map_towers, flags + "--biencoder-projection-dim 7"
    tower = hf.BertModel(hf.BertConfig(layer_norm_eps=1e-12, **size), add_pooling_layer=False)
    return Towers([tower], 15, 0, 15 ** -0.5), map_towers, flags + "--biencoder-shared-query-context-model " \
        "--retriever-score-scaling --norm-placement post --norm-epsilon 1e-12"


def t5(kind):
    config, model = (hf.UMT5Config, hf.UMT5ForConditionalGeneration) if kind == "umt5" else (hf.T5Config, hf.T5ForConditionalGeneration)
    c = config(vocab_size=V, d_model=14, d_kv=5, d_ff=19, num_layers=2, num_decoder_layers=3, num_heads=3,
               relative_attention_num_buckets=8, relative_attention_max_distance=9, dropout_rate=0,
               feed_forward_proj="relu" if kind == "t5" else "gated-gelu", tie_word_embeddings=kind == "t5")
    m = model(c)
    flags = "--model t5 --num-layers 2 --decoder-num-layers 3 --hidden-size 14 --num-attention-heads 3 --kv-channels 5 " \
        "--ffn-hidden-size 19 --position-embedding-type relative --relative-attention-num-buckets 8 " \
        "--relative-attention-max-distance 9 --normalization RMSNorm --norm-epsilon 1e-6 --disable-bias-linear " \
        f"--softmax-scale 1 --max-position-embeddings {T} --decoder-seq-length {S} "
    if kind == "t5":
        return m, map_t5, flags + "--activation relu --scale-tied-output"
    if kind == "umt5":
        return m, map_t5, flags + "--activation gelu_tanh --gated-linear-unit --scale-tied-output --relative-attention-per-layer"
    m.lm_head.weight = torch.nn.Parameter(torch.zeros(V, 14))
    return m, map_t5, flags + "--activation gelu_tanh --gated-linear-unit --untie-embeddings-and-output-weights"


FAMILIES = {
    "gpt2": lambda: gpt2("gelu_new"), "gpt2_erf": lambda: gpt2("gelu"), "opt": lambda: opt(14), "opt_narrow": lambda: opt(9),
    "llama1": lambda: llama("llama1"), "llama2": lambda: llama("llama2"), "llama3": lambda: llama("llama3"),
    "llama_yarn": lambda: llama("yarn"), "llama_biases": lambda: llama("llama1_biases"), "bert_tanh": lambda: bert("bert_tanh"),
    "mistral": mistral, "nemotron": nemotron, "qwen2": qwen2, "windows": windows, "gemma2": gemma2, "gemma3": gemma3, "qwen3": qwen3, "gpt_neox": gpt_neox, "phi": phi,
    "granite": lambda: like_llama("granite"), "smollm3": lambda: like_llama("smollm3"), "gemma": lambda: like_llama("gemma"),
    "olmo2": lambda: like_llama("olmo2"),
    "mixtral": mixtral, "qwen3_moe": qwen3_moe, "qwen2_moe": qwen2_moe, "glm4_moe": glm4_moe,
    "glm4_moe_bias": glm4_moe_bias,
    "bert": lambda: bert("bert"), "megatron_bert": lambda: bert("megatron_bert"),
    "roberta": lambda: bert("roberta"), "t5": lambda: t5("t5"), "t5_v1_1": lambda: t5("t5_v1_1"), "umt5": lambda: t5("umt5"),
    "ict": lambda: ict("ict"), "ict_shared": lambda: ict("ict_shared"),
}


def make_data(form):
    """Samples of all steps; token 1 is padding and occurs nowhere else."""
    rows, data = STEPS * B, {}
    data["tokens"] = torch.randint(2, V, (rows, T))
    columns = S if form == "t5" else T
    data["labels"] = torch.randint(2, V, (rows, columns))
    data["mask"] = (torch.rand(rows, columns) < (0.8 if form == "gpt" else 0.4)).double()
    data["mask"][:, 0] = 1
    if form != "gpt":
        data["lengths"] = torch.randint(T // 2, T + 1, (rows,))
        padding = torch.arange(T)[None] >= data["lengths"][:, None]
        data["tokens"][padding] = 1
        if form == "bert":
            data["mask"][padding] = 0
    if form == "t5":
        data["decoder_tokens"] = torch.randint(2, V, (rows, S))
    if form == "ict":
        data["context_tokens"] = torch.randint(2, V, (rows, T))
        data["context_lengths"] = torch.randint(T // 2, T + 1, (rows,))
        data["context_tokens"][torch.arange(T)[None] >= data["context_lengths"][:, None]] = 1
        data["labels"], data["mask"] = torch.zeros(rows, dtype=torch.int64), torch.ones(rows)
    return data


class Routers:
    """The losses of a Mixtral's routers as Megatron defines them, which transformers pools over all layers."""

    def __init__(self, model):
        self.logits = []
        self.K = model.config.num_experts_per_tok
        for b in model.model.layers:
            b.mlp.gate.register_forward_hook(lambda _m, _in, out: self.logits.append(out[0]))

    def layer(self, logits):
        E = logits.shape[1]
        shares = logits.softmax(1)
        chosen = F.one_hot(logits.topk(self.K, 1).indices, E).sum(1).double()

        def balance(p, mask):
            return E / (self.K * len(p) ** 2) * (mask.sum(0) * p.sum(0)).sum()
        rows = [slice(b * T, (b + 1) * T) for b in range(B)]
        return torch.stack([balance(shares, chosen), sum(balance(shares[r], chosen[r]) for r in rows) / B,
                            (logits.logsumexp(1) ** 2).mean()])

    def take(self):
        """The three losses of each layer, (layers, 3)."""
        losses = torch.stack([self.layer(x) for x in self.logits])
        self.logits.clear()
        return losses


class Biases:
    """The bias of routers as DeepSeek-V3 and Megatron move it after a step: by a rate, towards experts with fewer tokens
    than the mean."""

    def __init__(self, model):
        self.gates = [b.mlp.gate for b in model.model.layers if hasattr(b.mlp, "gate")]
        self.chosen, self.counts, self.path = [], [], [self.now()]
        for gate in self.gates:
            gate.register_forward_hook(lambda _m, _in, out: self.chosen.append(out[2]))

    def now(self):
        return torch.stack([gate.e_score_correction_bias.clone() for gate in self.gates])

    def move(self):
        counts = []
        for gate, chosen in zip(self.gates, self.chosen):
            count = torch.bincount(chosen.reshape(-1), minlength=gate.num_experts).double()
            gate.e_score_correction_bias += BIAS_RATE * torch.sign(count.mean() - count)
            counts.append(count)
        self.chosen.clear()
        self.counts.append(torch.stack(counts))
        self.path.append(self.now())


def losses_of(model, form, data, rows):
    """Logits and the loss of some rows, as defined in this program: means over counted tokens, and over pairs."""
    part = {k: v[rows] for k, v in data.items()}
    if form == "ict":
        scores = model(part)
        return scores, F.cross_entropy(scores, torch.arange(B)), None
    arguments = {"input_ids": part["tokens"]}
    if form != "gpt":
        arguments["attention_mask"] = (torch.arange(T)[None] < part["lengths"][:, None]).long()
    if form == "t5":
        arguments["decoder_input_ids"] = part["decoder_tokens"]
    if "types" in part:
        arguments["token_type_ids"] = part["types"]
    out = model(**arguments)
    logits = out.prediction_logits if hasattr(out, "prediction_logits") else out.logits
    each = F.cross_entropy(logits.reshape(-1, V), part["labels"].reshape(-1), reduction="none")
    mask = part["mask"].reshape(-1)
    loss = (each * mask).sum() / mask.sum()
    pair = None
    if "pair_labels" in part:
        pair = F.cross_entropy(out.seq_relationship_logits, part["pair_labels"])
    return logits, loss, pair


def make(name):
    torch.manual_seed(20261115)
    model, mapping, flags = FAMILIES[name]()
    form = "ict" if "--model ict" in flags else "t5" if "--model t5" in flags else "bert" if "--model bert" in flags else "gpt"
    model.set_attn_implementation("eager")
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")  # the others have no float64
    with torch.no_grad():
        for n, p in model.named_parameters():
            is_gain = p.dim() == 1 and "weight" in n
            p.copy_((torch.randn(p.shape) * 0.25 + (1 if is_gain else 0)).float().double())
    model.train()
    data = make_data(form)
    if name in ("bert", "bert_tanh", "megatron_bert"):
        data["types"] = torch.randint(0, 2, (STEPS * B, T))
        data["pair_labels"] = torch.randint(0, 2, (STEPS * B,))
    names = mapping(model)
    out = {"param." + n: flat(e, lambda p: p.detach().clone().float()) for n, e in names.items()}
    parameters = list({id(p): p for p in model.parameters()}.values())
    mapped = sum(flat(e, lambda p: p).numel() for e in names.values())
    assert name == "roberta" or mapped == sum(p.numel() for p in parameters), (mapped, [n for n, _ in model.named_parameters()])
    optimizer = torch.optim.AdamW([{"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
                                   {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}],
                                  lr=2e-3, betas=(0.9, 0.95), eps=1e-8)
    losses, pairs, norms, tops, balances = [], [], [], [], []
    routers = Routers(model) if name == "mixtral" else None
    biases = Biases(model) if name == "glm4_moe_bias" else None
    for step in range(STEPS):
        logits, loss, pair = losses_of(model, form, data, slice(step * B, (step + 1) * B))
        optimizer.zero_grad()
        total = loss if pair is None else loss + pair
        if routers:
            balance = routers.take()
            total = total + (balance * torch.tensor(BALANCE)).sum()
            balances.append(balance.mean(0).detach())
        total.backward()
        if step == 0:
            out["logits"] = logits.detach().float()
            for n, e in names.items():
                out["grad." + n] = flat(e, lambda p: (p.grad if p.grad is not None else torch.zeros_like(p)).clone().float())
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, 1.0).item())
        losses.append(loss.item())
        pairs.append(0 if pair is None else pair.item())
        if form == "ict":
            ranks = (logits > logits.diagonal()[:, None]).sum(1)
            tops.append([(ranks < k).double().mean().item() for k in (1, 2)])
        optimizer.step()
        if biases:
            biases.move()
    if biases:
        out["expert_bias"], out["expert_counts"] = torch.stack(biases.path).float(), torch.stack(biases.counts).float()
    if balances:
        out["balances"] = torch.stack(balances).float()
    if tops:
        out["tops"] = torch.tensor(tops).float()
    out["losses"], out["pair_losses"] = torch.tensor(losses).float(), torch.tensor(pairs).float()
    out["grad_norms"] = torch.tensor(norms).float()
    for k, v in data.items():
        out["data." + k] = v.float() if v.is_floating_point() else v.to(torch.int32)
    path = f"tests/golden/models/{name}.safetensors"
    save_file({k: v.contiguous() for k, v in out.items()}, path, metadata={"flags": COMMON + flags})
    print(f"{name:14} {os.path.getsize(path):7} bytes, {mapped} parameters, losses", [round(x, 4) for x in losses])


for family in sys.argv[1:] or FAMILIES:
    make(family)
