#!/usr/bin/env python3
"""Writes tests/golden/models/mtp.safetensors and mtp_moe.safetensors: small models with multi-token prediction, written
out in float64 from the equations of the DeepSeek-V3 report (section 2.2) and what Megatron-LM does at the end of a
sequence. Nothing of transformers is used. The files are like those of make_models.py, with the losses of each depth.

Needs torch and safetensors. Run from the repository's root."""
import math
import os
import torch
from safetensors.torch import save_file

STEPS, B, T, V = 10, 3, 11, 37
torch.set_default_dtype(torch.float64)


class Model:
    """Parameters in our names, and the arithmetic on them. A dict of choices says which kind of model it is."""

    def __init__(self, **choices):
        self.__dict__.update(choices)
        self.params = {}
        C = self.C
        self.add("embedding.word_embeddings.weight", V, C)
        if not self.rope:
            self.add("embedding.position_embeddings.weight", T, C)
        for i in range(self.L):
            self.add_block(f"decoder.layers.{i}", i in self.expert_layers)
        self.add_norm("decoder.final_layernorm")
        if self.untied:
            self.add("output_layer.weight", V, C)
        for k in range(self.D):
            self.add_norm(f"mtp.layers.{k}.enorm")
            self.add_norm(f"mtp.layers.{k}.hnorm")
            self.add(f"mtp.layers.{k}.eh_proj.weight", C, 2 * C)
            self.add_block(f"mtp.layers.{k}.transformer_layer", self.L - 1 in self.expert_layers)
            self.add_norm(f"mtp.layers.{k}.final_layernorm")

    def add(self, name, *shape, mean=0.0):
        value = (torch.randn(shape) * 0.25 + mean).float().double()
        self.params[name] = value.requires_grad_()

    def add_norm(self, name):
        self.add(name + ".weight", self.C, mean=1.0)
        if self.biases:
            self.add(name + ".bias", self.C)

    def add_linear(self, name, rows, columns):
        self.add(name + ".weight", rows, columns)
        if self.biases:
            self.add(name + ".bias", rows)

    def add_block(self, name, has_experts):
        C, q, kv = self.C, self.H * self.head, self.G * self.head
        self.add_norm(name + ".input_layernorm")
        self.add_linear(name + ".self_attention.linear_qkv", q + 2 * kv, C)
        self.add_linear(name + ".self_attention.linear_proj", C, q)
        self.add_norm(name + ".pre_mlp_layernorm")
        gates = 2 if self.gated else 1
        if has_experts:
            self.add(name + ".mlp.router.weight", self.E, C)
            self.add(name + ".mlp.experts.linear_fc1.weight", self.E, gates * self.FE, C)
            self.add(name + ".mlp.experts.linear_fc2.weight", self.E, C, self.FE)
        else:
            self.add_linear(name + ".mlp.linear_fc1", gates * self.F, C)
            self.add_linear(name + ".mlp.linear_fc2", C, self.F)

    def norm(self, name, x):
        gain = self.params[name + ".weight"]
        if not self.biases:  # RMSNorm
            return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * gain
        centered = x - x.mean(-1, keepdim=True)
        return centered / torch.sqrt((centered * centered).mean(-1, keepdim=True) + 1e-5) * gain + self.params[name + ".bias"]

    def linear(self, name, x):
        y = x @ self.params[name + ".weight"].T
        return y + self.params[name + ".bias"] if self.biases else y

    def activate(self, x):
        if not self.gated:
            return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
        gate, up = x[..., :x.shape[-1] // 2], x[..., x.shape[-1] // 2:]
        return gate * torch.sigmoid(gate) * up

    def rotate(self, x):
        """Positions are columns, also in depths. x (B, T, heads, head)."""
        half = self.head // 2
        angles = torch.arange(T)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        cos, sin = angles.cos()[None, :, None], angles.sin()[None, :, None]
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def attend(self, name, x):
        D, H, G = self.head, self.H, self.G
        qkv = self.linear(name + ".linear_qkv", x)
        q = qkv[..., :H * D].reshape(B, T, H, D)
        k = qkv[..., H * D:(H + G) * D].reshape(B, T, G, D)
        v = qkv[..., (H + G) * D:].reshape(B, T, G, D)
        if self.rope:
            q, k = self.rotate(q), self.rotate(k)
        heads = []
        for h in range(H):
            g = h // (H // G)
            scores = q[:, :, h] @ k[:, :, g].transpose(1, 2) / math.sqrt(D)
            scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), -math.inf)
            heads.append(scores.softmax(-1) @ v[:, :, g])
        return self.linear(name + ".linear_proj", torch.cat(heads, -1))

    def route(self, name, x):
        """Softmax over the chosen experts; the three losses of routers as Megatron defines them."""
        rows = x.reshape(B * T, self.C)
        logits = rows @ self.params[name + ".router.weight"].T
        best, chosen = logits.topk(self.K, 1)
        shares = best.softmax(1)
        out = []
        for n in range(B * T):
            row = torch.zeros(self.C)
            for j in range(self.K):
                e = chosen[n, j]
                inner = self.activate(self.params[name + ".experts.linear_fc1.weight"][e] @ rows[n])
                row = row + shares[n, j] * (self.params[name + ".experts.linear_fc2.weight"][e] @ inner)
            out.append(row)
        all_shares = logits.softmax(1)
        mask = torch.zeros_like(logits).scatter(1, chosen, 1.0)

        def balance(first, end):
            count = end - first
            return self.E / (self.K * count ** 2) * (mask[first:end].sum(0) * all_shares[first:end].sum(0)).sum()
        self.balances.append(torch.stack([balance(0, B * T), sum(balance(b * T, (b + 1) * T) for b in range(B)) / B,
                                          (logits.logsumexp(1) ** 2).mean()]))
        return torch.stack(out).reshape(B, T, self.C)

    def block(self, name, x):
        x = x + self.attend(name + ".self_attention", self.norm(name + ".input_layernorm", x))
        y = self.norm(name + ".pre_mlp_layernorm", x)
        if name + ".mlp.router.weight" in self.params:
            return x + self.route(name + ".mlp", y)
        return x + self.linear(name + ".mlp.linear_fc2", self.activate(self.linear(name + ".mlp.linear_fc1", y)))

    def embed(self, tokens, positions):
        x = self.params["embedding.word_embeddings.weight"][tokens]
        return x if self.rope else x + self.params["embedding.position_embeddings.weight"][positions]

    def losses(self, tokens, labels, mask):
        """Logits of the next token; the loss of the model, then of each depth."""
        self.balances = []
        output = self.params["output_layer.weight" if self.untied else "embedding.word_embeddings.weight"]
        h = self.embed(tokens, torch.arange(T).expand(B, T))
        for i in range(self.L):
            h = self.block(f"decoder.layers.{i}", h)
        h = self.norm("decoder.final_layernorm", h)
        logits = h @ output.T
        losses = [mean_loss(logits, labels, mask)]
        for k in range(1, self.D + 1):
            name = f"mtp.layers.{k - 1}"
            later = torch.zeros(B, T, dtype=torch.int64)
            positions, targets, counts = torch.zeros_like(later), torch.zeros_like(later), torch.zeros(B, T)
            for t in range(T - k):  # token t sees token t + k, and is to predict what that one is
                later[:, t], positions[:, t] = tokens[:, t + k], t + k
                targets[:, t], counts[:, t] = labels[:, t + k], mask[:, t + k]
            both = torch.cat([self.norm(name + ".enorm", self.embed(later, positions)), self.norm(name + ".hnorm", h)], -1)
            h = self.block(name + ".transformer_layer", both @ self.params[name + ".eh_proj.weight"].T)
            h = self.norm(name + ".final_layernorm", h)
            losses.append(mean_loss(h @ output.T, targets, counts))
        return logits, losses


def mean_loss(logits, labels, mask):
    each = logits.logsumexp(-1) - logits.gather(-1, labels[..., None])[..., 0]
    return (each * mask).sum() / mask.sum()


COMMON = f"--seq-length {T} --micro-batch-size {B} --padded-vocab-size {V} --hidden-dropout 0 --attention-dropout 0 "
BALANCE = [0.02, 0.01, 0.001]
MODELS = {
    "mtp": (dict(C=14, L=2, H=2, G=2, head=5, F=19, D=2, rope=False, gated=False, biases=True, untied=False, factor=0.7,
                 expert_layers=[]),
            f"--num-layers 2 --hidden-size 14 --num-attention-heads 2 --kv-channels 5 --ffn-hidden-size 19 "
            f"--max-position-embeddings {T} --mtp-num-layers 2 --mtp-loss-scaling-factor 0.7"),
    "mtp_moe": (dict(C=12, L=2, H=4, G=2, head=4, F=13, FE=7, E=5, K=2, D=2, rope=True, gated=True, biases=False,
                     untied=True, factor=0.3, expert_layers=[1]),
                f"--num-layers 2 --hidden-size 12 --num-attention-heads 4 --kv-channels 4 --ffn-hidden-size 13 "
                f"--max-position-embeddings {T} --group-query-attention --num-query-groups 2 --swiglu "
                f"--normalization RMSNorm --position-embedding-type rope --disable-bias-linear "
                f"--untie-embeddings-and-output-weights --num-experts 5 --moe-ffn-hidden-size 7 --moe-layer-freq [0,1] "
                f"--moe-router-load-balancing-type aux_loss seq_aux_loss --moe-aux-loss-coeff {BALANCE[0]} {BALANCE[1]} "
                f"--moe-z-loss-coeff {BALANCE[2]} --mtp-num-layers 2 --mtp-loss-scaling-factor 0.3"),
}


def make(name):
    torch.manual_seed(20261117)
    choices, flags = MODELS[name]
    model = Model(**choices)
    params = model.params
    rows = STEPS * B
    data = {"tokens": torch.randint(0, V, (rows, T)), "labels": torch.randint(0, V, (rows, T)),
            "mask": (torch.rand(rows, T) < 0.8).double()}
    out = {"param." + n: p.detach().clone().float() for n, p in params.items()}
    optimizer = torch.optim.AdamW([{"params": [p for p in params.values() if p.dim() > 1], "weight_decay": 0.1},
                                   {"params": [p for p in params.values() if p.dim() == 1], "weight_decay": 0.0}],
                                  lr=2e-3, betas=(0.9, 0.95), eps=1e-8)
    losses, norms, balances = [], [], []
    for step in range(STEPS):
        part = slice(step * B, (step + 1) * B)
        logits, parts = model.losses(data["tokens"][part], data["labels"][part], data["mask"][part])
        total = parts[0] + model.factor / model.D * sum(parts[1:])
        if model.balances:
            balance = torch.stack(model.balances)
            total = total + (balance * torch.tensor(BALANCE)).sum()
            balances.append(balance.mean(0).detach())
        optimizer.zero_grad()
        total.backward()
        if step == 0:
            out["logits"] = logits.detach().float()
            out.update({"grad." + n: p.grad.clone().float() for n, p in params.items()})
        norms.append(torch.nn.utils.clip_grad_norm_(list(params.values()), 1.0).item())
        losses.append([x.item() for x in parts])
        optimizer.step()
    if balances:
        out["balances"] = torch.stack(balances).float()
    table = torch.tensor(losses).float()
    out["losses"], out["depth_losses"] = table[:, 0], table[:, 1:]
    out["pair_losses"], out["grad_norms"] = torch.zeros(STEPS).float(), torch.tensor(norms).float()
    for k, v in data.items():
        out["data." + k] = v.float() if v.is_floating_point() else v.to(torch.int32)
    path = f"tests/golden/models/{name}.safetensors"
    save_file({k: v.contiguous() for k, v in out.items()}, path, metadata={"flags": COMMON + flags})
    print(f"{name:8} {os.path.getsize(path)} bytes, losses of the last step", [round(x, 4) for x in losses[-1]])


for model_name in MODELS:
    make(model_name)
