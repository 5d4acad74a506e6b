#!/usr/bin/env python3
"""Writes files of llm.c: tests/golden/foreign/llmc_{fp32,bf16}.bin, a small random GPT-2 in its checkpoint format, each
beside NAME.safetensors with samples and the logits that transformers computes with the same weights (in float64); and
tests/golden/import/llmc_*.bin, shards of tokens whose documents begin with a delimiter. llm.c's train_gpt2.c was seen
to read such files and compute the same loss. Needs numpy, torch, transformers and safetensors. Run from the
repository's root."""
import numpy as np
import torch
import transformers as hf
from safetensors.torch import save_file

L, C, H, T, V, PADDED, B, S = 2, 16, 4, 16, 37, 40, 2, 9
LAYER = ["ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight", "attn.c_proj.bias",
         "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias"]


def numbers(*first):
    header = np.zeros(256, np.int32)
    header[:len(first)] = first
    return header.tobytes()


def model(name, version, dtype):
    torch.manual_seed(version)
    gpt = hf.GPT2LMHeadModel(hf.GPT2Config(n_layer=L, n_embd=C, n_head=H, n_positions=T, vocab_size=V)).eval()
    with torch.no_grad():
        for parameter in gpt.parameters():
            parameter.copy_((torch.randn_like(parameter) * 0.15 + (0.5 if parameter.dim() == 1 else 0)).to(dtype))
    state = gpt.state_dict()
    words = state["transformer.wte.weight"]
    tensors = [torch.cat([words, torch.zeros(PADDED - V, C)]), state["transformer.wpe.weight"]]
    for kind in LAYER:
        for layer in range(L):
            tensor = state[f"transformer.h.{layer}.{kind}"]
            tensors.append(tensor.t() if tensor.dim() == 2 else tensor)  # transformers keeps them (in, out)
    tensors += [state["transformer.ln_f.weight"], state["transformer.ln_f.bias"]]
    with open(f"tests/golden/foreign/{name}", "wb") as file:
        file.write(numbers(20240326, version, T, V, L, H, C, PADDED))
        for tensor in tensors:
            tensor = tensor.to(dtype).contiguous()
            file.write((tensor.view(torch.int16) if dtype == torch.bfloat16 else tensor).numpy().tobytes())
    tokens, labels = torch.randint(3, V, (B, S)), torch.randint(3, V, (B, S))
    with torch.no_grad():
        logits = torch.cat([gpt.double()(tokens).logits, torch.zeros(B, S, PADDED - V)], dim=2)
    save_file({"tokens": tokens.to(torch.int32), "labels": labels.to(torch.int32), "logits": logits.float().contiguous()},
              f"tests/golden/foreign/{name}.safetensors")


def shard(name, tokens, magic=20240520, version=1, dtype=np.uint16):
    with open(f"tests/golden/import/llmc_{name}.bin", "wb") as file:
        file.write(numbers(magic, version, len(tokens)) + np.array(tokens, dtype).tobytes())


model("llmc_fp32.bin", 3, torch.float32)
model("llmc_bf16.bin", 5, torch.bfloat16)
# Four documents, the second across the shards, the third empty.
stream = [50256, 11, 12, 13, 50256, 21, 22, 23, 24, 50256, 50256, 31]
shard("1", stream[:7])
shard("2", stream[7:])
shard("wide", [128000 if token == 50256 else token + 70000 for token in stream], 20240801, 7, np.uint32)
