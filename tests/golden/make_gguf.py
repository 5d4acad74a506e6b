"""The expected content of GGUF files for the models in tests/golden/foreign, by llama.cpp's own package gguf: tensors
by its table of names, blocks by its quantizer; and a small file of its writer, with a value of every type, for our
reader. The rules of llama.cpp's converter (which tensors are transposed, reordered, left out or kept in fp32) are
reimplemented here.

    python tests/golden/make_gguf.py        (gguf, numpy, safetensors, sentencepiece, torch; writes tests/golden/gguf*)

gguf.txt      MODEL fp32|bf16|q8_0 NAME TYPE SHAPE SHA256; MODEL key KEY VALUE; MODEL factors NAME VALUE…
gguf_vocabulary.txt   TOKENIZER ROWS MODEL PRE and digests of tokens, types, scores and merges
gguf_q8.txt   blocks: 32 fp32 values and the 34 bytes they become, in hexadecimal
gguf_*.model  SentencePiece models like Llama's and T5's, made if they are missing
gguf.gguf     a file with all types of values and three tensors
"""
import hashlib
import json
import math
import os
import re

import gguf
import numpy as np
import sentencepiece as spm
import torch
from safetensors.torch import load_file
from sentencepiece import sentencepiece_model_pb2 as spm_proto

HERE = os.path.dirname(os.path.abspath(__file__))
A = gguf.MODEL_ARCH
MODELS = {"gpt2": A.GPT2, "gpt_bigcode": A.STARCODER, "llama": A.LLAMA, "llama_tied": A.LLAMA, "llama_yarn": A.LLAMA,
          "mistral": A.LLAMA, "mixtral": A.LLAMA, "qwen3_moe_all": A.QWEN3MOE, "qwen2_moe_all": A.QWEN2MOE, "gpt_oss_seven": A.GPT_OSS, "glm4": A.GLM4, "glm4_moe": A.GLM4_MOE, "deepseek_v3": A.DEEPSEEK2, "olmoe_heads": A.OLMOE, "qwen2": A.QWEN2, "qwen3": A.QWEN3, "phi3": A.PHI3, "starcoder2": A.STARCODER2, "stablelm": A.STABLELM, "stablelm_heads": A.STABLELM,
          "nemotron_biases": A.NEMOTRON, "bert": A.BERT, "roberta": A.BERT, "t5": A.T5, "t5_v1_1": A.T5}
TYPES = {"fp32": gguf.GGMLQuantizationType.F32, "bf16": gguf.GGMLQuantizationType.BF16, "q8_0": gguf.GGMLQuantizationType.Q8_0}


def read(folder):
    """Tensors under the names of the model with its head."""
    tensors = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            tensors.update(load_file(os.path.join(folder, name)))
        elif name.endswith(".bin"):
            tensors.update(torch.load(os.path.join(folder, name), weights_only=True))
    return tensors


def rope_of(config):
    rope = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    rope.setdefault("rope_theta", config.get("rope_theta", 10000.0))
    return rope


def permute(data, heads):
    return data.reshape(heads, 2, data.shape[0] // heads // 2, *data.shape[1:]).swapaxes(1, 2).reshape(data.shape)


def rope_factors(config):
    rope = rope_of(config)
    if rope.get("rope_type") != "llama3":
        return None
    half = (config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]) // 2
    factors = []
    for j in range(half):
        length = 2 * math.pi * rope["rope_theta"] ** (j / half)
        low = rope["original_max_position_embeddings"] / rope["low_freq_factor"]
        high = rope["original_max_position_embeddings"] / rope["high_freq_factor"]
        if length < high:
            factors.append(1.0)
        elif length > low:
            factors.append(rope["factor"])
        else:
            smooth = (rope["original_max_position_embeddings"] / length - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
            factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(factors, dtype=np.float32)


def left_out(arch, name):
    parts = (".attn.bias", ".attn.masked_bias", "position_ids", "inv_freq", "encoder.embed_tokens", "decoder.embed_tokens",
             "EncDecAttention.relative_attention_bias")
    return any(part in name for part in parts) or (arch == A.BERT and (name.startswith(("cls.", "lm_head.")) or "pooler" in name))


def convert(arch, config, name, data):
    """One of their tensors: its name before the table lookup, and its elements."""
    if arch == A.GPT2 and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
        data = data.T
    if arch == A.LLAMA and "q_proj" in name:
        data = permute(data, config["num_attention_heads"])
    if arch == A.LLAMA and "k_proj" in name:
        data = permute(data, config.get("num_key_value_heads") or config["num_attention_heads"])
    name = name.replace("e_score_correction_bias", "e_score_correction.bias")
    if arch == A.NEMOTRON and "norm" in name and name.endswith("weight"):
        data = data + np.float32(1)
    if arch == A.BERT:
        name = name.removeprefix("bert.").removeprefix("roberta.")
        if config["model_type"] == "roberta" and name == "embeddings.position_embeddings.weight":
            data = data[config["pad_token_id"] + 1:]
    # T5 scales its logits down if the output is tied; the gain of the last norm includes that.
    if arch == A.T5 and name == "decoder.final_layer_norm.weight" and config.get("scale_decoder_outputs", config["tie_word_embeddings"]):
        data = data * (np.float32(1) / np.sqrt(np.float32(config["d_model"])))
    return name, np.ascontiguousarray(data)


def type_of(name, shape, wanted):
    plain = len(shape) == 1 or name.endswith("_norm.weight") or not name.endswith(".weight")
    if plain or name in ("position_embd.weight", "token_types.weight") or name.endswith(("attn_rel_b.weight", "ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight")):
        return gguf.GGMLQuantizationType.F32
    if wanted == gguf.GGMLQuantizationType.Q8_0 and shape[-1] % 32 != 0:
        return gguf.GGMLQuantizationType.F16
    return wanted


def stack_experts(tensors):
    """Matrices of experts and norms of heads one behind the other, under the name that llama.cpp's converter gives them."""
    found, out = {}, {}
    for name, tensor in tensors.items():
        head = re.fullmatch(r"(.*_layernorm)\.norms\.(\d+)(\.weight)", name)
        if head:
            found.setdefault(head[1] + head[3], {})[int(head[2])] = tensor
            continue
        expert = re.fullmatch(r"model\.(layers\.\d+)\.(?:block_sparse_moe|mlp)\.experts\.(\d+)\.(\w+)\.weight", name)
        if not expert:
            out[name] = tensor
        else:
            layer, number, kind = expert.groups()
            merged = f"{layer}.feed_forward.experts.{kind}.weight" if kind.startswith("w") else f"model.{layer}.mlp.experts.{kind}.weight"
            found.setdefault(merged, {})[int(number)] = tensor
    return out | {name: torch.stack([experts[i] for i in range(len(experts))]) for name, experts in found.items()}


def split_pairs(tensors):
    """gpt-oss: gates and what they multiply alternate, and matrices are transposed."""
    out = {}
    for name, tensor in tensors.items():
        if name.endswith("gate_up_proj"):
            for part, begin in (("gate", 0), ("up", 1)):
                out[name.replace("gate_up_proj", part + "_proj.weight")] = tensor[:, :, begin::2].transpose(1, 2)
        elif name.endswith("gate_up_proj_bias"):
            for part, begin in (("gate", 0), ("up", 1)):
                out[name.replace("gate_up_proj_bias", part + "_proj.bias")] = tensor[:, begin::2]
        elif name.endswith("experts.down_proj"):
            out[name + ".weight"] = tensor.transpose(1, 2)
        elif name.endswith("experts.down_proj_bias"):
            out[name.replace("_bias", ".bias")] = tensor
        else:
            out[name + ".weight" if name.endswith(".sinks") else name] = tensor
    return out


def split_latents(tensors, config):
    """DeepSeek: keys and values of each head from latents, keys turned."""
    out, keys = {}, config["qk_nope_head_dim"]
    for name, tensor in tensors.items():
        if "kv_b_proj" in name:
            both = tensor.reshape(config["num_attention_heads"], keys + config["v_head_dim"], config["kv_lora_rank"])
            out[name.replace("kv_b_proj", "k_b_proj")] = both[:, :keys].transpose(1, 2)
            out[name.replace("kv_b_proj", "v_b_proj")] = both[:, keys:]
        else:
            out[name] = tensor
    return out


def tensors_of(folder, arch, config):
    count = config.get("num_hidden_layers") or config.get("n_layer") or config["num_layers"]
    table = gguf.get_tensor_name_map(arch, max(count, config.get("num_decoder_layers") or 0))
    found, tensors = {}, stack_experts(read(folder))
    if arch == A.GPT_OSS:
        tensors = split_pairs(tensors)
    if arch == A.DEEPSEEK2:
        tensors = split_latents(tensors, config)
    for name in sorted(tensors):
        if left_out(arch, name):
            continue
        theirs, data = convert(arch, config, name, tensors[name].float().numpy())
        new = None
        for candidate in (theirs, "transformer." + theirs, "model." + theirs):
            new = new or table.get_name(candidate, try_suffixes=(".weight", ".bias"))
        assert new, (folder, name)
        found[new] = data
    tied = "output.weight" not in found
    if arch in (A.STABLELM, A.NEMOTRON, A.OLMOE, A.QWEN2MOE, A.GPT_OSS) and tied:
        found["output.weight"] = found["token_embd.weight"]
    # Ours are separate where theirs are fused.
    for name in [name for name in found if arch == A.PHI3 and "attn_qkv" in name]:
        heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
        width = config["hidden_size"] // heads
        data = found.pop(name)
        for part, begin, rows in (("q", 0, heads), ("k", heads, groups), ("v", heads + groups, groups)):
            found[name.replace("attn_qkv", "attn_" + part)] = data[begin * width:(begin + rows) * width]
    return found


def keys_of(arch, config):
    prefix = gguf.MODEL_ARCH_NAMES[arch]

    def first(*names):
        return next(config[name] for name in names if config.get(name) is not None)
    heads, width = first("num_attention_heads", "n_head", "num_heads"), first("hidden_size", "n_embd", "d_model")
    positions = config.get("n_positions", config.get("max_position_embeddings", 512))
    if config["model_type"] == "roberta":
        positions -= config["pad_token_id"] + 1
    if config.get("sliding_window") and config["model_type"] in ("mistral", "phi3", "starcoder2"):
        positions = min(positions, config["sliding_window"])
    keys = {"general.architecture": prefix, f"{prefix}.context_length": positions, f"{prefix}.embedding_length": width,
            f"{prefix}.block_count": first("num_hidden_layers", "n_layer", "num_layers"), f"{prefix}.attention.head_count": heads,
            f"{prefix}.feed_forward_length": next((config[n] for n in ("intermediate_size", "n_inner", "d_ff") if config.get(n)), 4 * width)}
    rms = next((config[n] for n in ("rms_norm_eps",) if n in config), config.get("layer_norm_epsilon") if arch == A.T5 else None)
    if rms is not None:
        keys[f"{prefix}.attention.layer_norm_rms_epsilon"] = rms
    else:
        keys[f"{prefix}.attention.layer_norm_epsilon"] = first("layer_norm_epsilon", "layer_norm_eps", "norm_eps", "norm_epsilon")
    experts = config.get("num_local_experts") or config.get("num_experts") or config.get("n_routed_experts")
    if experts:
        keys |= {f"{prefix}.expert_count": experts, f"{prefix}.expert_used_count": config["num_experts_per_tok"]}
    if arch in (A.GLM4_MOE, A.DEEPSEEK2):
        keys |= {f"{prefix}.leading_dense_block_count": config["first_k_dense_replace"], f"{prefix}.expert_shared_count": config["n_shared_experts"],
                 f"{prefix}.expert_gating_func": 2, f"{prefix}.expert_weights_scale": config["routed_scaling_factor"]}
        if config["n_group"] > 1:
            keys |= {f"{prefix}.expert_group_count": config["n_group"], f"{prefix}.expert_group_used_count": config["topk_group"]}
    if arch in (A.QWEN3MOE, A.QWEN2MOE, A.GPT_OSS, A.GLM4_MOE, A.DEEPSEEK2):
        keys[f"{prefix}.expert_feed_forward_length"] = config.get("moe_intermediate_size", config["intermediate_size"])
    if arch == A.QWEN2MOE:
        keys[f"{prefix}.expert_shared_feed_forward_length"] = config["shared_expert_intermediate_size"]
    if arch == A.DEEPSEEK2:  # the cache has latents, as of one head
        latent, shared = config["kv_lora_rank"], config["qk_rope_head_dim"]
        keys |= {f"{prefix}.attention.head_count_kv": 1, f"{prefix}.attention.key_length": latent + shared, f"{prefix}.attention.value_length": latent,
                 f"{prefix}.attention.key_length_mla": config["qk_nope_head_dim"] + shared, f"{prefix}.attention.value_length_mla": config["v_head_dim"],
                 f"{prefix}.attention.kv_lora_rank": latent, f"{prefix}.rope.dimension_count": shared}
        return keys
    if arch == A.GPT_OSS:
        keys[f"{prefix}.attention.sliding_window"] = config["sliding_window"]
    if "num_key_value_heads" in config and config["model_type"] != "gpt_bigcode":
        keys[f"{prefix}.attention.head_count_kv"] = config["num_key_value_heads"]
        keys[f"{prefix}.rope.freq_base"] = rope_of(config)["rope_theta"]
        part = config.get("partial_rotary_factor", rope_of(config).get("partial_rotary_factor", 1.0))
        keys[f"{prefix}.rope.dimension_count"] = int((config.get("head_dim") or width // heads) * part)
    return keys


def blocks():
    r = np.random.default_rng(17)
    rows = [r.normal(0, scale, 32).astype(np.float32) for scale in (1, 1e-3, 1e-7, 1e-30, 300, 1e5)]
    rows += [np.zeros(32, np.float32), np.full(32, -1, np.float32), np.arange(32, dtype=np.float32) - 15.5,
             np.linspace(-127, 127, 32).astype(np.float32), (np.arange(32) / 2).astype(np.float32)]
    # Quotients that are halves, with both signs.
    halves = np.full(32, 0.5, np.float32) * np.where(np.arange(32) % 2, -1, 1).astype(np.float32) * np.arange(32).astype(np.float32)
    halves[0] = 127
    rows.append(halves)
    return rows


# ---- tokenizers ----

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def digest(items):
    """Digest of texts with their lengths, or of numbers."""
    hashed = hashlib.sha256()
    for item in items:
        if isinstance(item, str):
            item = item.encode()
        hashed.update(f"{len(item)}:".encode() + item if isinstance(item, bytes) else f"{item:.6g}\n".encode())
    return hashed.hexdigest()[:16]


def from_json(path, rows):
    data = json.load(open(path))
    model, vocab = data["model"], data["model"]["vocab"]
    pairs = [(piece, i, score) for i, (piece, score) in enumerate(vocab)] if isinstance(vocab, list) else [(k, i, 0.0) for k, i in vocab.items()]
    tokens = {i: (text, NORMAL, score) for text, i, score in pairs}
    for added in data.get("added_tokens", []):
        tokens[added["id"]] = (added["content"], CONTROL if added["special"] else USER_DEFINED, tokens.get(added["id"], (0, 0, 0.0))[2])
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model.get("merges", [])]
    unknown = model.get("unk_id") if model["type"] == "Unigram" else None
    if unknown is not None:
        tokens[unknown] = (tokens[unknown][0], UNKNOWN, tokens[unknown][2])
    if model["type"] == "WordPiece":
        mark = lambda t, kind: t if kind == CONTROL else t[2:] if t.startswith("##") else "\u2581" + t  # noqa: E731
        tokens = {i: (mark(t, kind), kind, 0.0) for i, (t, kind, _) in tokens.items()}
    return pad(tokens, rows), merges


def from_spm(path, rows):
    """Types have the same numbers there. A unigram model gives user-defined pieces a score that always wins."""
    model = spm_proto.ModelProto()
    model.ParseFromString(open(path, "rb").read())
    tokens = {}
    for i, piece in enumerate(model.pieces):
        wins = model.trainer_spec.model_type == 1 and piece.type == USER_DEFINED
        tokens[i] = (piece.piece, NORMAL if wins else piece.type, 0.1 * (len(piece.piece.encode()) - 1) if wins else piece.score)
    return pad(tokens, rows), []


def from_words(path, rows):
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    lines = open(path, encoding="utf-8").read().splitlines() + ["[BOS]", "[EOS]"]  # which Megatron adds
    tokens = {}
    for i, line in enumerate(lines):
        control = line in specials + ["[BOS]", "[EOS]"]
        tokens[i] = (line if control else line[2:] if line.startswith("##") else "\u2581" + line, CONTROL if control else NORMAL, 0.0)
    return pad(tokens, rows), []


def pad(tokens, rows):
    return [tokens.get(i, (f"[PAD{i}]", UNUSED, -10000.0)) for i in range(rows)]


# How each is described to llama.cpp: the model and its pre-tokenizer.
VOCABULARIES = [("hf/gpt2.json", "gpt2", "gpt-2"), ("hf/llama3.json", "gpt2", "llama-bpe"),
                ("gguf_bpe.model", "llama", "default"), ("hf/bert.json", "bert", "default"), ("hf/neox.json", "gpt2", "gpt-2"),
                ("spm/bpe.model", "llama", "default"), ("gguf_unigram.model", "t5", "default"), ("wordpiece/vocab.txt", "bert", "default")]


def train_spm(name, **options):
    spm.SentencePieceTrainer.train(input=os.path.join(HERE, "bpe/corpus.txt"), model_prefix=os.path.join(HERE, name), minloglevel=9, **options)
    os.remove(os.path.join(HERE, name + ".vocab"))


def vocabularies(out):
    # Like Llama's: no normalizer, byte fallback, spaces kept; and like T5's, with pieces that always win.
    if not os.path.exists(os.path.join(HERE, "gguf_bpe.model")):
        train_spm("gguf_bpe", model_type="bpe", vocab_size=420, byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                  character_coverage=0.99)
        train_spm("gguf_unigram", model_type="unigram", vocab_size=400, hard_vocab_limit=False, normalization_rule_name="identity", user_defined_symbols=["(", "the"],
                  character_coverage=0.98, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    for path, model, pre in VOCABULARIES:
        full = os.path.join(HERE, path)
        make = from_json if path.endswith(".json") else from_spm if path.endswith(".model") else from_words
        rows = len([t for t in make(full, 1 << 15)[0] if t[1] != UNUSED or not t[0].startswith("[PAD")]) + 5
        tokens, merges = make(full, rows)
        scores = digest([np.float32(t[2]) for t in tokens]) if model in ("llama", "t5") else "-"
        out.write(f"{path} {rows} {model} {pre} {digest([t[0] for t in tokens])} {digest([t[1] for t in tokens])} {scores} "
                  f"{digest(merges) if merges else '-'}\n")


def main():
    with open(os.path.join(HERE, "gguf_vocabulary.txt"), "w") as out:
        vocabularies(out)
    with open(os.path.join(HERE, "gguf.txt"), "w") as out:
        for model, arch in MODELS.items():
            folder = os.path.join(HERE, "foreign", model)
            config = json.load(open(os.path.join(folder, "config.json")))
            for key, value in keys_of(arch, config).items():
                out.write(f"{model} key {key} {value}\n")
            factors = rope_factors(config) if arch == A.LLAMA else None
            if factors is not None:
                out.write(f"{model} factors rope_freqs.weight {' '.join(f'{x:.9g}' for x in factors)}\n")
            for dtype, wanted in TYPES.items():
                if dtype != "fp32" and model not in ("gpt2", "llama", "t5_v1_1", "qwen3_moe_all"):
                    continue
                for name, data in sorted(tensors_of(folder, arch, config).items()):
                    kind = type_of(name, data.shape, wanted)
                    packed = gguf.quants.quantize(data.astype(np.float32), kind)
                    digest = hashlib.sha256(np.ascontiguousarray(packed).tobytes()).hexdigest()[:16]
                    out.write(f"{model} {dtype} {name} {kind.name} {'x'.join(map(str, data.shape))} {digest}\n")
    with open(os.path.join(HERE, "gguf_q8.txt"), "w") as out:
        for row in blocks():
            packed = gguf.quants.quantize(row, gguf.GGMLQuantizationType.Q8_0)
            out.write(f"{row.tobytes().hex()} {packed.tobytes().hex()}\n")
    writer = gguf.GGUFWriter(os.path.join(HERE, "gguf.gguf"), "test")
    writer.add_uint8("a.u8", 200)
    writer.add_int8("a.i8", -100)
    writer.add_uint16("a.u16", 60000)
    writer.add_int16("a.i16", -30000)
    writer.add_uint32("a.u32", 4000000000)
    writer.add_int32("a.i32", -2000000000)
    writer.add_float32("a.f32", 0.5)
    writer.add_bool("a.bool", True)
    writer.add_string("a.string", "grüße")
    writer.add_uint64("a.u64", 2 ** 63 + 5)
    writer.add_int64("a.i64", -2 ** 62)
    writer.add_float64("a.f64", 0.1)
    writer.add_array("a.strings", ["one", "", "three"])
    writer.add_array("a.numbers", [1, 2, 3])
    writer.add_tensor("plain", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.add_tensor("half", np.arange(5, dtype=np.float16))
    q8 = gguf.quants.quantize(np.stack([np.arange(32, dtype=np.float32), -np.ones(32, np.float32)]), gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("blocks", q8, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main()
