#!/usr/bin/env python3
"""Writes tests/golden/gpt_tiny.safetensors: a four-layer GPT in PyTorch, float32 weights, with the loss and every gradient
of its first micro-batch and the losses of ten AdamW steps, all computed in float64 so that the reference is exact.

The layout is ours: linear_qkv holds all queries, then all keys, then all values; names are Megatron's.
Needs torch and safetensors. Run from the repository's root."""
import math
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

L, C, H, V, P, T, B, STEPS = 4, 24, 3, 50, 20, 17, 3, 10
FFN = 4 * C
torch.manual_seed(20261115)
torch.set_default_dtype(torch.float64)


def shapes():
    yield "embedding.word_embeddings.weight", (V, C)
    yield "embedding.position_embeddings.weight", (P, C)
    for i in range(L):
        n = f"decoder.layers.{i}."
        yield n + "input_layernorm.weight", (C,)
        yield n + "input_layernorm.bias", (C,)
        yield n + "self_attention.linear_qkv.weight", (3 * C, C)
        yield n + "self_attention.linear_qkv.bias", (3 * C,)
        yield n + "self_attention.linear_proj.weight", (C, C)
        yield n + "self_attention.linear_proj.bias", (C,)
        yield n + "pre_mlp_layernorm.weight", (C,)
        yield n + "pre_mlp_layernorm.bias", (C,)
        yield n + "mlp.linear_fc1.weight", (FFN, C)
        yield n + "mlp.linear_fc1.bias", (FFN,)
        yield n + "mlp.linear_fc2.weight", (C, FFN)
        yield n + "mlp.linear_fc2.bias", (C,)
    yield "decoder.final_layernorm.weight", (C,)
    yield "decoder.final_layernorm.bias", (C,)


def initial(name, shape):
    x = 0.15 * torch.randn(shape)
    if "layernorm.weight" in name:
        x = 1 + x
    return x.float().double().requires_grad_(True)  # float32 values, float64 arithmetic


params = {name: initial(name, shape) for name, shape in shapes()}


def forward(tokens, labels):
    p = params
    batch, length = tokens.shape
    x = p["embedding.word_embeddings.weight"][tokens] + p["embedding.position_embeddings.weight"][:length]
    for i in range(L):
        n = f"decoder.layers.{i}."
        h = F.layer_norm(x, (C,), p[n + "input_layernorm.weight"], p[n + "input_layernorm.bias"], 1e-5)
        qkv = F.linear(h, p[n + "self_attention.linear_qkv.weight"], p[n + "self_attention.linear_qkv.bias"])
        q, k, v = (t.view(batch, length, H, C // H).transpose(1, 2) for t in qkv.split(C, dim=-1))
        scores = q @ k.transpose(-1, -2) / math.sqrt(C // H)
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -math.inf)
        a = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, C)
        x = x + F.linear(a, p[n + "self_attention.linear_proj.weight"], p[n + "self_attention.linear_proj.bias"])
        h = F.layer_norm(x, (C,), p[n + "pre_mlp_layernorm.weight"], p[n + "pre_mlp_layernorm.bias"], 1e-5)
        h = F.gelu(F.linear(h, p[n + "mlp.linear_fc1.weight"], p[n + "mlp.linear_fc1.bias"]), approximate="tanh")
        x = x + F.linear(h, p[n + "mlp.linear_fc2.weight"], p[n + "mlp.linear_fc2.bias"])
    x = F.layer_norm(x, (C,), p["decoder.final_layernorm.weight"], p["decoder.final_layernorm.bias"], 1e-5)
    logits = x @ p["embedding.word_embeddings.weight"].t()
    return F.cross_entropy(logits.view(-1, V), labels.reshape(-1))


samples = torch.randint(0, V, (STEPS * B, T + 1))
out = {"samples": samples.to(torch.int32)}
for name, value in params.items():
    out["param." + name] = value.detach().float().clone()

decayed = [p for p in params.values() if p.dim() > 1]
plain = [p for p in params.values() if p.dim() == 1]
optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
                              lr=2e-3, betas=(0.9, 0.95), eps=1e-8)
losses, norms = [], []
for step in range(STEPS):
    chunk = samples[step * B:(step + 1) * B]
    loss = forward(chunk[:, :-1], chunk[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    if step == 0:
        for name, value in params.items():
            out["grad." + name] = value.grad.float().clone()
    # Megatron's clipping: max_norm / (norm + 1e-6), which is also PyTorch's.
    norms.append(torch.nn.utils.clip_grad_norm_(list(params.values()), 1.0).item())
    losses.append(loss.item())
    optimizer.step()
out["losses"] = torch.tensor(losses, dtype=torch.float32)
out["grad_norms"] = torch.tensor(norms, dtype=torch.float32)
for name, value in params.items():
    out["final." + name] = value.detach().float().clone()
save_file(out, "tests/golden/gpt_tiny.safetensors")
print("losses", losses)
print("norms", norms)
