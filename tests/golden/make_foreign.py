#!/usr/bin/env python3
"""Writes tests/golden/foreign/: small random models as other programs save them, each in a folder beside
NAME.safetensors with samples and the logits that the other program computes for them (in float64).

Hugging Face's are saved by transformers. Megatron-LM's are written by hand in the format of its releases: nested dicts
with the names of each era, queries, keys and values in the order of each checkpoint version, shards of tensor- and
pipeline-parallel ranks; their logits come from a forward pass written here in plain torch. megatron_v0 is a small
megatron_lm_345m v0.0. Needs torch, transformers and safetensors. Run from the repository's root."""
import argparse
import collections
import json
import math
import os
import shutil

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
import transformers as hf

FOLDER = "tests/golden/foreign"
V, T, S, B = 37, 9, 5, 2
torch.manual_seed(20261115)
shutil.rmtree(FOLDER, ignore_errors=True)
os.makedirs(FOLDER)


def samples(form):
    data = {"tokens": torch.randint(3, V, (B, T)), "labels": torch.randint(3, V, (B, S if form == "t5" else T))}
    if form == "t5":
        data["decoder_tokens"] = torch.randint(3, V, (B, S))
    if form == "bert":
        data["types"] = torch.arange(T).repeat(B, 1) // 5
    return data


def expect(name, data, logits):
    out = {key: value.to(torch.int32).contiguous() for key, value in data.items()}
    out["logits"] = logits.detach().float().contiguous()
    save_file(out, f"{FOLDER}/{name}.safetensors")


# ---- Hugging Face ----

def randomize(model):
    """The initial values of norms and biases would hide mistakes."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.15 + (0.5 if parameter.dim() == 1 else 0))


def save_hf(name, model, form="gpt", how="safetensors", dtype=torch.float32):
    randomize(model)
    model = model.to(dtype).eval()
    folder = f"{FOLDER}/{name}"
    if how == "bin":  # as before safetensors, including tied matrices twice
        os.makedirs(folder)
        model.config.save_pretrained(folder)
        torch.save(model.state_dict(), f"{folder}/pytorch_model.bin")
    elif how == "bare":  # names of the model without its head, like the hub's gpt2, and its buffers
        os.makedirs(folder)
        model.config.save_pretrained(folder)
        state = {key.removeprefix("transformer."): value.clone() for key, value in model.state_dict().items() if key != "lm_head.weight"}
        state["h.0.attn.bias"] = torch.ones(1, 1, 4, 4).tril()
        save_file(state, f"{folder}/model.safetensors", metadata={"format": "pt"})
    else:
        model.save_pretrained(folder, max_shard_size="6KB" if how == "sharded" else "5GB")
    if os.path.exists(f"{folder}/generation_config.json"):
        os.remove(f"{folder}/generation_config.json")
    data = samples(form)
    kwargs = {"input_ids": data["tokens"]}
    if form == "t5":
        kwargs["decoder_input_ids"] = data["decoder_tokens"]
    if form == "bert" and model.config.type_vocab_size > 1:
        kwargs["token_type_ids"] = data["types"]
    elif form == "bert":
        data["types"] = torch.zeros_like(data["types"])
    output = model.double()(**kwargs)
    expect(name, data, output.prediction_logits if "prediction_logits" in output else output.logits)


GPT2 = dict(n_embd=12, n_layer=2, n_head=3, n_positions=11, vocab_size=V, bos_token_id=0, eos_token_id=0)
save_hf("gpt2", hf.GPT2LMHeadModel(hf.GPT2Config(**GPT2)), how="bare")
save_hf("gpt2_untied", hf.GPT2LMHeadModel(hf.GPT2Config(**GPT2, n_inner=20, activation_function="relu", tie_word_embeddings=False)))
save_hf("opt", hf.OPTForCausalLM(hf.OPTConfig(hidden_size=12, num_hidden_layers=2, num_attention_heads=3, ffn_dim=20, vocab_size=V,
                                              max_position_embeddings=11, word_embed_proj_dim=12)), how="bin")
LLAMA = dict(hidden_size=12, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, intermediate_size=20, vocab_size=V,
             max_position_embeddings=64)
save_hf("llama", hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA, head_dim=4, rms_norm_eps=1e-5, rope_parameters={
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16})), how="sharded")
save_hf("llama_tied", hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA, tie_word_embeddings=True, rope_parameters={
    "rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0})), dtype=torch.bfloat16)
save_hf("mistral", hf.MistralForCausalLM(hf.MistralConfig(**LLAMA, head_dim=2, sliding_window=4)), how="bin", dtype=torch.float16)
save_hf("qwen2", hf.Qwen2ForCausalLM(hf.Qwen2Config(**LLAMA)))
BERT = dict(hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20, vocab_size=V, hidden_dropout_prob=0)
save_hf("bert", hf.BertForPreTraining(hf.BertConfig(**BERT, max_position_embeddings=11)), form="bert", how="bin")
save_hf("bert_mlm", hf.BertForMaskedLM(hf.BertConfig(**BERT, max_position_embeddings=11)), form="bert")
save_hf("megatron_bert", hf.MegatronBertForPreTraining(hf.MegatronBertConfig(**BERT, max_position_embeddings=11)), form="bert")
save_hf("roberta", hf.RobertaForMaskedLM(hf.RobertaConfig(**BERT, max_position_embeddings=13, type_vocab_size=1, layer_norm_eps=1e-5)),
        form="bert")
T5 = dict(d_model=12, num_heads=3, d_kv=5, d_ff=20, vocab_size=V, relative_attention_num_buckets=8, relative_attention_max_distance=20,
          decoder_start_token_id=0)
save_hf("t5", hf.T5ForConditionalGeneration(hf.T5Config(**T5, num_layers=3, num_decoder_layers=2)), form="t5")


def t5_v1_1():
    """The released ones have a separate output matrix; transformers 5 unties when it finds one in the file."""
    model = hf.T5ForConditionalGeneration(hf.T5Config(**T5, num_layers=2, feed_forward_proj="gated-gelu", tie_word_embeddings=False))
    model.lm_head.weight = torch.nn.Parameter(torch.randn(V, 12) * 0.3)
    return model


save_hf("t5_v1_1", t5_v1_1(), form="t5", how="bin")

# ---- Megatron-LM ----

C, L, H, P, VP = 12, 4, 6, 11, 40  # VP: vocabulary padded for the ranks


def weights(G, ffn, gated, bias, rope, heads=False):
    D = C // H
    out = {"word": torch.randn(VP, C) * 0.2}
    if rope:
        out["output"] = torch.randn(VP, C) * 0.2
    else:
        out["position"] = torch.randn(P, C) * 0.2
    for i in range(L):
        for key, shape in {"ln1.weight": (C,), "ln1.bias": (C,), "q.weight": (H * D, C), "k.weight": (G * D, C), "v.weight": (G * D, C),
                           "q.bias": (H * D,), "k.bias": (G * D,), "v.bias": (G * D,), "proj.weight": (C, H * D), "proj.bias": (C,),
                           "ln2.weight": (C,), "ln2.bias": (C,), "fc1.weight": (ffn * (2 if gated else 1), C), "fc1.bias": (ffn,),
                           "fc2.weight": (C, ffn), "fc2.bias": (C,)}.items():
            if key.endswith("bias") and not bias:
                continue
            out[f"{i}.{key}"] = torch.randn(shape) * 0.2 + (1 if key in ("ln1.weight", "ln2.weight") else 0)
        if heads:
            for key in ("q_norm", "k_norm"):
                out[f"{i}.{key}.weight"] = torch.randn(D) * 0.2 + 1
    out["ln.weight"] = torch.randn(C) * 0.2 + 1
    if bias:
        out["ln.bias"] = torch.randn(C) * 0.2
    return out


def rotate(x):
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[1]).double()[:, None] * 10000.0 ** (-torch.arange(half).double() / half)
    cos, sin = angles.cos()[None, :, None], angles.sin()[None, :, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def forward(w, tokens, G, gated, bias, rope, gelu):
    """GPT as Megatron computes it, in float64."""
    w = collections.defaultdict(lambda: None, {key: value.double() for key, value in w.items()})
    D, (batch, length) = C // H, tokens.shape

    def norm(x, name):
        if bias:
            return F.layer_norm(x, (C,), w[name + ".weight"], w[name + ".bias"], 1e-5)
        return rms(x, w[name + ".weight"])

    def rms(x, gain):
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * gain
    x = w["word"][tokens] + (0 if rope else w["position"][:length])
    for i in range(L):
        h = norm(x, f"{i}.ln1")
        q, k, v = (F.linear(h, w[f"{i}.{n}.weight"], w[f"{i}.{n}.bias"]).view(batch, length, -1, D) for n in "qkv")
        if w[f"{i}.q_norm.weight"] is not None:
            q, k = rms(q, w[f"{i}.q_norm.weight"]), rms(k, w[f"{i}.k_norm.weight"])
        if rope:
            q, k = rotate(q), rotate(k)
        k, v = (t.repeat_interleave(H // G, 2) for t in (k, v))
        scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(D)
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -math.inf).softmax(-1)
        a = torch.einsum("bhts,bshd->bthd", scores, v).reshape(batch, length, C)
        x = x + F.linear(a, w[f"{i}.proj.weight"], w[f"{i}.proj.bias"])
        h = F.linear(norm(x, f"{i}.ln2"), w[f"{i}.fc1.weight"], w[f"{i}.fc1.bias"])
        if gated:
            gate, up = h.chunk(2, -1)
            h = F.silu(gate) * up
        elif gelu == "squared_relu":
            h = F.relu(h).square()
        else:
            h = F.gelu(h, approximate=gelu)
        x = x + F.linear(h, w[f"{i}.fc2.weight"], w[f"{i}.fc2.bias"])
    return norm(x, "ln") @ w["output" if rope else "word"].t()


def pack_qkv(q, k, v, version, groups):
    """Rows of one rank in the order of a checkpoint version."""
    D, rest = C // H, q.shape[1:]
    q, k, v = (t.reshape(-1, D, *rest) for t in (q, k, v))
    if version == 0:
        packed = torch.cat([q, k, v])  # [3, heads, channels]
    elif version == 1:
        packed = torch.stack([q, k, v], 2)  # [heads, channels, 3]
    else:
        packed = torch.cat([q.reshape(groups, -1, D, *rest), k[:, None], v[:, None]], 1)  # [groups, q… k v, channels]
    return packed.reshape(-1, *rest)


def layer(w, i, tp, rank, version, G, gated, names):
    """Layer i of one tensor-parallel rank."""
    def cut(name, dim):
        return w[f"{i}.{name}"].chunk(tp, dim)[rank].clone()
    state = {}
    for key in ("q_norm", "k_norm"):
        if f"{i}.{key}.weight" in w:
            state[f"self_attention.{key[0]}_layernorm.weight"] = w[f"{i}.{key}.weight"].clone()
    for kind in ("weight", "bias"):
        if f"{i}.ln1.{kind}" in w:
            state[names["ln1"] + kind] = w[f"{i}.ln1.{kind}"].clone()
            state[names["ln2"] + kind] = w[f"{i}.ln2.{kind}"].clone()
        if f"{i}.q.{kind}" not in w:
            continue
        if G % tp == 0:
            state[names["qkv"] + kind] = pack_qkv(*(cut(f"{n}.{kind}", 0) for n in "qkv"), version, G // tp)
        else:  # more ranks than groups split the rows of all groups
            packed = pack_qkv(*(w[f"{i}.{n}.{kind}"] for n in "qkv"), version, G)
            state[names["qkv"] + kind] = packed.chunk(tp, 0)[rank].clone()
        if gated:
            halves = w[f"{i}.fc1.{kind}"].chunk(2, 0)
            state[names["fc1"] + kind] = torch.cat([half.chunk(tp, 0)[rank] for half in halves])
        else:
            state[names["fc1"] + kind] = cut(f"fc1.{kind}", 0)
        for ours in ("proj", "fc2"):
            state[names[ours] + kind] = cut(f"{ours}.weight", 1) if kind == "weight" else w[f"{i}.{ours}.bias"].clone()
    return state


OLD = {"ln1": "input_layernorm.", "qkv": "attention.query_key_value.", "proj": "attention.dense.", "ln2": "post_attention_layernorm.",
       "fc1": "mlp.dense_h_to_4h.", "fc2": "mlp.dense_4h_to_h."}
NEW = {"ln1": "self_attention.linear_qkv.layer_norm_", "qkv": "self_attention.linear_qkv.", "proj": "self_attention.linear_proj.",
       "ln2": "mlp.linear_fc1.layer_norm_", "fc1": "mlp.linear_fc1.", "fc2": "mlp.linear_fc2."}


class AttnBackend:
    """Stands in for an enumeration of Megatron's in the arguments; it is never read."""

    def __reduce__(self):
        return (AttnBackend, ())


AttnBackend.__module__ = "megatron.core.transformer.enums"


def save_megatron(name, version, tp=1, pp=1, vp=1, core=False, with_args=True, G=H, gated=False, rope=False, gelu="tanh",
                  iteration=100, legacy=False, dtype=torch.float32, **more):
    bias, ffn = not rope, 16 if gated else 4 * C
    w = weights(G, ffn, gated, bias, rope, heads=more.get("qk_layernorm", False))
    w = {key: value.to(dtype) for key, value in w.items()}
    release = iteration == 0
    where = f"{FOLDER}/{name}/" + ("release" if release else f"iter_{iteration:07d}")
    data = samples("gpt")
    expect(name, data, forward(w, data["tokens"], G, gated, bias, rope, gelu))
    if more.get("apply_layernorm_1p"):  # gains are saved as their distance from 1
        w = {key: value - 1 if "ln" in key and "weight" in key or "_norm" in key else value for key, value in w.items()}
    per_chunk = L // (pp * vp)
    for stage in range(pp):
        for rank in range(tp):
            chunks = []
            for chunk in range(vp):
                first = (chunk * pp + stage) * per_chunk
                stack = {}
                for n in range(per_chunk):
                    for key, value in layer(w, first + n, tp, rank, version, G, gated, NEW if core else OLD).items():
                        stack[f"layers.{n}.{key}"] = value
                is_first, is_last = stage == 0 and chunk == 0, stage == pp - 1 and chunk == vp - 1
                word = w["word"].chunk(tp, 0)[rank].clone()
                if is_last:
                    for kind in ("weight", "bias"):
                        if f"ln.{kind}" in w:
                            stack[f"final_layernorm.{kind}"] = w[f"ln.{kind}"].clone()
                if core:
                    model = collections.OrderedDict((f"decoder.{key}", value) for key, value in stack.items())
                    model["decoder.layers.0.self_attention.core_attention._extra_state"] = None
                    if is_first:
                        model["embedding.word_embeddings.weight"] = word
                        if not rope:
                            model["embedding.position_embeddings.weight"] = w["position"].clone()
                    if is_last and rope:
                        model["output_layer.weight"] = w["output"].chunk(tp, 0)[rank].clone()
                    elif is_last:
                        model["output_layer.weight"] = word
                else:
                    language = {"transformer" if version < 2 else "encoder": stack}
                    if is_first:
                        language["embedding"] = {"word_embeddings": {"weight": word}, "position_embeddings": {"weight": w["position"].clone()},
                                                 "tokentype_embeddings": {}}
                    model = {"language_model": language}
                    if is_last and pp > 1:
                        model["word_embeddings_for_head"] = {"weight": word}
                chunks.append(model)
            args = argparse.Namespace(num_layers=L, hidden_size=C, num_attention_heads=H, max_position_embeddings=P if not rope else 64,
                                      seq_length=P if not rope else 64, padded_vocab_size=VP, layernorm_epsilon=1e-5, ffn_hidden_size=ffn,
                                      hidden_dropout=0.1, attention_dropout=0.1, consumed_train_samples=3200,
                                      tokenizer_type="GPT2BPETokenizer", vocab_file="/somewhere/else/vocab.json",
                                      merge_file="/somewhere/else/merges.txt", attention_backend=AttnBackend(),
                                      params_dtype=torch.float16, **more)
            state = {"iteration": iteration, "optimizer": {"state": {0: {"exp_avg": torch.zeros(3)}}},
                     "rng_state": [{"torch_rng_state": torch.zeros(4, dtype=torch.uint8), "np_rng_state": ("MT19937", 3)}]}
            if version > 0:
                state["checkpoint_version"] = float(version)
            if with_args:
                state["args"] = args
            if vp > 1:
                state.update({f"model{n}": chunk for n, chunk in enumerate(chunks)})
            else:
                state["model"] = chunks[0]
            folder = f"{where}/mp_rank_{rank:02d}" + (f"_{stage:03d}" if pp > 1 else "")
            os.makedirs(folder)
            torch.save(state, f"{folder}/model_optim_rng.pt", _use_new_zipfile_serialization=not legacy)
    with open(f"{FOLDER}/{name}/latest_checkpointed_iteration.txt", "w") as out:
        out.write("release" if release else str(iteration))


# Pickling must find the class where it claims to be.
import sys
import types
for package in ("megatron", "megatron.core", "megatron.core.transformer", "megatron.core.transformer.enums"):
    sys.modules[package] = types.ModuleType(package)
sys.modules["megatron.core.transformer.enums"].AttnBackend = AttnBackend

save_megatron("megatron_v0", version=0, with_args=False, iteration=0, legacy=True, dtype=torch.float16)
save_megatron("megatron_v0_tp2", version=0, tp=2, legacy=True)
save_megatron("megatron_v1_tp2", version=1, tp=2, bias_gelu_fusion=False, openai_gelu=False, gelu="none")
save_megatron("megatron_v2_tp2_pp2", version=2, tp=2, pp=2, bias_gelu_fusion=True)
save_megatron("megatron_v3_vp2", version=3, pp=2, vp=2, core=True, bias_gelu_fusion=True, add_bias_linear=True)
save_megatron("megatron_v3_llama", version=3, tp=2, core=True, G=2, gated=True, rope=True, swiglu=True, group_query_attention=True,
              num_query_groups=2, add_bias_linear=False, normalization="RMSNorm", norm_epsilon=1e-5, rotary_base=10000,
              rotary_percent=1.0, untie_embeddings_and_output_weights=True, bias_gelu_fusion=False, position_embedding_type="rope")


def save_megatron_bert(name, tp):
    """Megatron's BERT, version 3, legacy names; the weights and logits are those of transformers' MegatronBert."""
    sizes = dict(BERT, num_attention_heads=4, vocab_size=40)
    model = hf.MegatronBertForPreTraining(hf.MegatronBertConfig(**sizes, max_position_embeddings=11, layer_norm_eps=1e-5)).eval()
    randomize(model)
    state, heads = model.state_dict(), 4
    data = samples("bert")
    expect(name, data, model.double()(input_ids=data["tokens"], token_type_ids=data["types"]).prediction_logits)

    def pack(parts, rank):
        """[heads, 3, channels] of one rank."""
        parts = [part.chunk(tp, 0)[rank].reshape(heads // tp, -1, *part.shape[1:]) for part in parts]
        return torch.stack(parts, 1).reshape(-1, *parts[0].shape[2:]).clone()
    for rank in range(tp):
        stack = {}
        for i in range(2):
            theirs, ours = f"bert.encoder.layer.{i}.", f"layers.{i}."
            for kind in ("weight", "bias"):
                stack[ours + "input_layernorm." + kind] = state[theirs + "attention.ln." + kind]
                stack[ours + "self_attention.query_key_value." + kind] = pack(
                    [state[theirs + f"attention.self.{n}.{kind}"] for n in ("query", "key", "value")], rank)
                stack[ours + "post_attention_layernorm." + kind] = state[theirs + "ln." + kind]
                stack[ours + "mlp.dense_h_to_4h." + kind] = state[theirs + "intermediate.dense." + kind].chunk(tp, 0)[rank].clone()
                for here, there in (("self_attention.dense.", "attention.output.dense."), ("mlp.dense_4h_to_h.", "output.dense.")):
                    value = state[theirs + there + kind]
                    stack[ours + here + kind] = value.chunk(tp, 1)[rank].clone() if kind == "weight" else value
        for kind in ("weight", "bias"):
            stack["final_layernorm." + kind] = state["bert.encoder.ln." + kind]
        embedding = {f"{n}_embeddings": {"weight": state[f"bert.embeddings.{m}_embeddings.weight"]}
                     for n, m in (("position", "position"), ("tokentype", "token_type"))}
        embedding["word_embeddings"] = {"weight": state["bert.embeddings.word_embeddings.weight"].chunk(tp, 0)[rank].clone()}
        head = {"bias": state["cls.predictions.bias"].chunk(tp, 0)[rank].clone()}
        for kind in ("weight", "bias"):
            head["dense." + kind] = state["cls.predictions.transform.dense." + kind]
            head["layernorm." + kind] = state["cls.predictions.transform.LayerNorm." + kind]
        saved = {"language_model": {"encoder": stack, "embedding": embedding,
                                    "pooler": {"dense." + kind: state["bert.pooler.dense." + kind] for kind in ("weight", "bias")}},
                 "lm_head": head, "binary_head": {kind: state["cls.seq_relationship." + kind] for kind in ("weight", "bias")}}
        args = argparse.Namespace(num_layers=2, hidden_size=12, num_attention_heads=heads, ffn_hidden_size=20, max_position_embeddings=11,
                                  seq_length=11, layernorm_epsilon=1e-5, bias_gelu_fusion=False, openai_gelu=False, bert_binary_head=True)
        folder = f"{FOLDER}/{name}/iter_0000007/mp_rank_{rank:02d}"
        os.makedirs(folder)
        torch.save({"args": args, "iteration": 7, "checkpoint_version": 3.0,
                    "model": torch.utils._pytree.tree_map(lambda t: t.float().clone(), saved)}, f"{folder}/model_optim_rng.pt")
    with open(f"{FOLDER}/{name}/latest_checkpointed_iteration.txt", "w") as out:
        out.write("7")


save_megatron_bert("megatron_v3_bert", 2)


def forward_t5(w, data, layers, relative):
    """T5 as Megatron computes it, in float64: pre-norm, learned positions or T5's distances, an output bias."""
    D = C // H

    def norm(x, name):
        return F.layer_norm(x, (C,), w[name + ".weight"], w[name + ".bias"], 1e-5)

    def heads(x, name):
        return F.linear(x, w[name + ".weight"], w[name + ".bias"]).view(*x.shape[:2], H, D)

    def attend(x, memory, name, is_causal, bias):
        q, k, v = heads(x, name + ".q"), heads(memory, name + ".k"), heads(memory, name + ".v")
        scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(D) + bias
        if is_causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -math.inf)
        a = torch.einsum("bhts,bshd->bthd", scores.softmax(-1), v).reshape(*x.shape[:2], C)
        return F.linear(a, w[name + ".proj.weight"], w[name + ".proj.bias"])

    def stack(tokens, side, memory):
        x, bias = w["word"][tokens], 0
        if relative:
            distances = torch.arange(tokens.shape[1])[None] - torch.arange(tokens.shape[1])[:, None]
            buckets = hf.models.t5.modeling_t5.T5Attention._relative_position_bucket(
                distances, bidirectional=side == "encoder", num_buckets=8, max_distance=20)
            bias = w[side + ".distances"][buckets].permute(2, 0, 1)
        else:
            x = x + w["position"][:tokens.shape[1]]
        for i in range(layers[side]):
            n = f"{side}.{i}."
            h = norm(x, n + "ln1")
            x = x + attend(h, h, n + "self", side == "decoder", bias)
            if side == "decoder":
                x = x + attend(norm(x, n + "ln_cross"), memory, n + "cross", False, 0)
            h = F.gelu(F.linear(norm(x, n + "ln2"), w[n + "fc1.weight"], w[n + "fc1.bias"]), approximate="tanh")
            x = x + F.linear(h, w[n + "fc2.weight"], w[n + "fc2.bias"])
        return norm(x, side + ".ln")
    return stack(data["decoder_tokens"], "decoder", stack(data["tokens"], "encoder", None)) @ w["word"].t() + w["bias"]


def save_megatron_t5(name, version, tp, core=False, relative=False, staged=False):
    """Megatron's T5: legacy names (inter_attention) or core's (cross_attention); keys and values of the encoder's
    output are packed by head. Staged: the encoder is one pipeline stage, the decoder another."""
    D, ffn, layers = C // H, 20, {"encoder": 3, "decoder": 2}
    w = {"word": torch.randn(VP, C) * 0.3, "bias": torch.randn(VP) * 0.2}
    if relative:
        w.update({side + ".distances": torch.randn(8, H) for side in layers})
    else:
        w["position"] = torch.randn(P, C) * 0.2
    for side, count in layers.items():
        shapes = {"ln": None}
        for i in range(count):
            for part in ("self", "cross") if side == "decoder" else ("self",):
                shapes.update({f"{i}.{part}.{n}": (C, C) for n in ("q", "k", "v", "proj")})
            shapes.update({f"{i}.{n}": None for n in ("ln1", "ln2", "ln_cross") if n != "ln_cross" or side == "decoder"})
            shapes.update({f"{i}.fc1": (ffn, C), f"{i}.fc2": (C, ffn)})
        for key, shape in shapes.items():
            w[f"{side}.{key}.weight"] = torch.randn(shape) * 0.2 if shape else torch.randn(C) * 0.2 + 1
            w[f"{side}.{key}.bias"] = torch.randn(shape[0] if shape else C) * 0.2
    data = samples("t5")
    expect(name, data, forward_t5({key: value.double() for key, value in w.items()}, data, layers, relative))

    def pack(key, parts, kind, rank):
        cut = [w[f"{key}.{n}.{kind}"].chunk(tp, 0)[rank] for n in parts]
        rest, count = cut[0].shape[1:], len(cut)
        cut = [part.reshape(H // tp, D, *rest) for part in cut]
        if version == 1:
            return torch.stack(cut, 2).reshape(-1, *rest)  # [heads, channels, count]
        return torch.stack(cut, 1).reshape(count * H // tp * D, *rest)  # [heads, count, channels]
    ours = {"self": "self_attention.", "cross": "cross_attention." if core else "inter_attention."}
    names = {"qkv": "linear_qkv." if core else "query_key_value.", "q": "linear_q." if core else "query.",
             "kv": "linear_kv." if core else "key_value.", "proj": "linear_proj." if core else "dense."}
    for rank in range(tp):
        stacks = {}
        for side, count in layers.items():
            out = stacks[side] = collections.OrderedDict()
            for i in range(count):
                key, layer_key = f"{side}.{i}", f"layers.{i}."
                last = "post_inter_attention_layernorm." if side == "decoder" else "post_attention_layernorm."
                for kind in ("weight", "bias"):
                    out[layer_key + "input_layernorm." + kind] = w[f"{key}.ln1.{kind}"]
                    out[layer_key + ("pre_mlp_layernorm." if core else last) + kind] = w[f"{key}.ln2.{kind}"]
                    out[layer_key + ours["self"] + names["qkv"] + kind] = pack(key + ".self", "qkv", kind, rank)
                    if side == "decoder":
                        out[layer_key + ("pre_cross_attn_layernorm." if core else "post_attention_layernorm.") + kind] = \
                            w[f"{key}.ln_cross.{kind}"]
                        out[layer_key + ours["cross"] + names["q"] + kind] = w[f"{key}.cross.q.{kind}"].chunk(tp, 0)[rank]
                        out[layer_key + ours["cross"] + names["kv"] + kind] = pack(key + ".cross", "kv", kind, rank)
                    for part in ("self", "cross") if side == "decoder" else ("self",):
                        value = w[f"{key}.{part}.proj.{kind}"]
                        out[layer_key + ours[part] + names["proj"] + kind] = value.chunk(tp, 1)[rank] if kind == "weight" else value
                    value = w[f"{key}.fc2.{kind}"]
                    out[layer_key + ("mlp.linear_fc1." if core else "mlp.dense_h_to_4h.") + kind] = w[f"{key}.fc1.{kind}"].chunk(tp, 0)[rank]
                    out[layer_key + ("mlp.linear_fc2." if core else "mlp.dense_4h_to_h.") + kind] = \
                        value.chunk(tp, 1)[rank] if kind == "weight" else value
            for kind in ("weight", "bias"):
                out["final_layernorm." + kind] = w[f"{side}.ln.{kind}"]
        embedding = {"word_embeddings": {"weight": w["word"].chunk(tp, 0)[rank]}}
        if not relative:
            embedding["position_embeddings"] = {"weight": w["position"]}
        if core:
            model = collections.OrderedDict((f"{side}.{key}", value) for side in stacks for key, value in stacks[side].items())
            model.update({f"embedding.{key}.weight": value["weight"] for key, value in embedding.items()})
            model["lm_head.output_layer.bias"] = w["bias"].chunk(tp, 0)[rank]
            model["decoder.layers.0.cross_attention.core_attention._extra_state"] = None
            if relative:
                model.update({f"{side}_relative_pos_emb.relative_attention_bias.weight": w[side + ".distances"] for side in layers})
        else:
            model = {"language_model": {"embedding": embedding, **stacks}, "lm_head": {"bias": w["bias"].chunk(tp, 0)[rank]}}
        args = argparse.Namespace(num_layers=3, encoder_num_layers=3, decoder_num_layers=2, hidden_size=C, num_attention_heads=H,
                                  ffn_hidden_size=ffn, kv_channels=D, max_position_embeddings=P, seq_length=P, encoder_seq_length=P,
                                  decoder_seq_length=7, layernorm_epsilon=1e-5, bias_gelu_fusion=True, vocab_extra_ids=2,
                                  relative_attention_num_buckets=8, relative_attention_max_distance=20, add_bias_linear=True)
        stages = [("", model)]
        if staged:
            stages = [("_000", {"language_model": {"embedding": embedding, "encoder": stacks["encoder"]}}),
                      ("_001", {"language_model": {"embedding": embedding, "decoder": stacks["decoder"]}, "lm_head": model["lm_head"],
                                "word_embeddings_for_head": embedding["word_embeddings"]})]
        for stage, part in stages:
            folder = f"{FOLDER}/{name}/iter_0000009/mp_rank_{rank:02d}{stage}"
            os.makedirs(folder)
            torch.save({"args": args, "iteration": 9, "checkpoint_version": float(version),
                        "model": torch.utils._pytree.tree_map(lambda t: t.float().clone() if torch.is_tensor(t) else t, part)},
                       f"{folder}/model_optim_rng.pt")
    with open(f"{FOLDER}/{name}/latest_checkpointed_iteration.txt", "w") as out:
        out.write("9")


save_megatron_t5("megatron_v1_t5_tp2", version=1, tp=2)
save_megatron_t5("megatron_v3_t5_pp2", version=3, tp=2, staged=True)
save_megatron_t5("megatron_core_t5", version=3, tp=2, core=True, relative=True)

# Later additions of Hugging Face's shapes, at the end so that the random numbers of those above do not change.
save_hf("opt_narrow", hf.OPTForCausalLM(hf.OPTConfig(hidden_size=12, num_hidden_layers=2, num_attention_heads=3, ffn_dim=20, vocab_size=V,
                                                     max_position_embeddings=11, word_embed_proj_dim=6, do_layer_norm_before=False)))
save_hf("llama_yarn", hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA, head_dim=10, attention_bias=True, rope_parameters={
    "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16})), how="sharded")
save_hf("llama_dynamic", hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA, head_dim=4, mlp_bias=True, rope_parameters={
    "rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0})))
save_hf("bert_tanh", hf.BertForMaskedLM(hf.BertConfig(**BERT, max_position_embeddings=11, hidden_act="gelu_new")), form="bert")

# ---- added later, so that the random numbers of those above do not change ----

save_hf("qwen3", hf.Qwen3ForCausalLM(hf.Qwen3Config(**LLAMA, head_dim=6)))
save_megatron("megatron_v3_nemotron", version=3, tp=2, pp=2, core=True, G=2, rope=True, gelu="squared_relu", squared_relu=True,
              apply_layernorm_1p=True, qk_layernorm=True, swiglu=False, group_query_attention=True, num_query_groups=2,
              add_bias_linear=False, normalization="RMSNorm", norm_epsilon=1e-5, rotary_base=10000, rotary_percent=1.0,
              untie_embeddings_and_output_weights=True, bias_gelu_fusion=False, position_embedding_type="rope")


# ---- families of Hugging Face with special matrices or defaults ----

def pack_matrices(name, fuse):
    """The same model with its matrices of queries, keys, values and of the gated MLP fused, or separate: variants that
    can be read too."""
    path, sizes = f"{FOLDER}/{name}/model.safetensors", (24, 8, 8)
    state = load_file(path)
    for i in range(2):
        at = f"model.layers.{i}."
        for one, many, parts in (("self_attn.qkv_proj", ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], sizes),
                                 ("mlp.gate_up_proj", ["mlp.gate_proj", "mlp.up_proj"], (20, 20))):
            if fuse:
                state[f"{at}{one}.weight"] = torch.cat([state.pop(f"{at}{n}.weight") for n in many])
            else:
                for n, part in zip(many, state.pop(f"{at}{one}.weight").split(parts)):
                    state[f"{at}{n}.weight"] = part.contiguous()
    save_file(state, path, metadata={"format": "pt"})


def mt5():
    """As released: a separate output matrix."""
    model = hf.MT5ForConditionalGeneration(hf.MT5Config(**T5, num_layers=2, num_decoder_layers=3, tie_word_embeddings=False))
    model.lm_head.weight = torch.nn.Parameter(torch.randn(V, 12) * 0.3)
    return model


WIDE = dict(LLAMA, hidden_size=24)
IDS = dict(bos_token_id=0, eos_token_id=0, pad_token_id=None)
save_hf("phi3", hf.Phi3ForCausalLM(hf.Phi3Config(**WIDE, **IDS, sliding_window=4)))
save_hf("phi3_part", hf.Phi3ForCausalLM(hf.Phi3Config(**WIDE, **IDS, tie_word_embeddings=True, rope_parameters={
    "rope_type": "default", "rope_theta": 250000.0, "partial_rotary_factor": 0.5})))
pack_matrices("phi3_part", fuse=False)
save_hf("llama_fused", hf.LlamaForCausalLM(hf.LlamaConfig(**WIDE)))
pack_matrices("llama_fused", fuse=True)
save_hf("starcoder2", hf.Starcoder2ForCausalLM(hf.Starcoder2Config(**WIDE, **IDS, sliding_window=4)))
save_hf("starcoder2_plain", hf.Starcoder2ForCausalLM(hf.Starcoder2Config(
    **WIDE, **IDS, use_bias=False, tie_word_embeddings=False, hidden_act="gelu", rope_parameters={
        "rope_type": "linear", "rope_theta": 1000.0, "factor": 2.0})))
save_hf("stablelm", hf.StableLmForCausalLM(hf.StableLmConfig(**WIDE, **IDS, use_qkv_bias=True, rope_parameters={
    "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5})))
save_hf("stablelm_quarter", hf.StableLmForCausalLM(hf.StableLmConfig(**dict(WIDE, num_attention_heads=3, num_key_value_heads=1), **IDS)))
save_hf("nemotron", hf.NemotronForCausalLM(hf.NemotronConfig(**WIDE, **IDS, head_dim=8)))
save_hf("nemotron_biases", hf.NemotronForCausalLM(hf.NemotronConfig(
    **WIDE, **IDS, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)), dtype=torch.bfloat16)
save_hf("xlm_roberta", hf.XLMRobertaForMaskedLM(hf.XLMRobertaConfig(**BERT, max_position_embeddings=13, type_vocab_size=1)), form="bert")
save_hf("camembert", hf.CamembertForMaskedLM(hf.CamembertConfig(**BERT, max_position_embeddings=13, type_vocab_size=1, bos_token_id=5,
                                                                eos_token_id=6, layer_norm_eps=1e-5)), form="bert")
save_hf("mt5", mt5(), form="t5")
save_hf("gpt_bigcode", hf.GPTBigCodeForCausalLM(hf.GPTBigCodeConfig(**GPT2)))
save_hf("gpt_bigcode_heads", hf.GPTBigCodeForCausalLM(hf.GPTBigCodeConfig(**GPT2, multi_query=False, n_inner=20)), dtype=torch.bfloat16)


def umt5(is_tied):
    """transformers 5 treats every UMT5 as tied and scales its output."""
    model = hf.UMT5ForConditionalGeneration(hf.UMT5Config(**T5, num_layers=2, num_decoder_layers=3))
    if not is_tied:
        model.lm_head.weight = torch.nn.Parameter(torch.randn(V, 12) * 0.3)
    return model


def unscale(name):
    """As released, and as transformers 4 computes it: a separate output matrix, and no scale."""
    config = json.load(open(f"{FOLDER}/{name}/config.json"))
    config["tie_word_embeddings"] = False
    json.dump(config, open(f"{FOLDER}/{name}/config.json", "w"), indent=2, sort_keys=True)
    data = load_file(f"{FOLDER}/{name}.safetensors")
    data["logits"] = data["logits"] * math.sqrt(12)
    save_file(data, f"{FOLDER}/{name}.safetensors")


save_hf("umt5", umt5(True), form="t5")
save_hf("umt5_untied", umt5(False), form="t5")
unscale("umt5_untied")

torch.manual_seed(20261118)
save_megatron("megatron_v3_one_group", version=3, tp=2, core=True, G=1, gated=True, rope=True, swiglu=True, group_query_attention=True,
              num_query_groups=1, add_bias_linear=False, normalization="RMSNorm", norm_epsilon=1e-5, rotary_base=10000,
              rotary_percent=1.0, untie_embeddings_and_output_weights=True, bias_gelu_fusion=False, position_embedding_type="rope")
