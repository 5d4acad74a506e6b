#!/usr/bin/env python3
"""One training step of PyTorch on a GPU, for comparison with bevatron bench step: compiled, bf16 autocast over fp32 weights, cuDNN
attention, fused AdamW, gradients clipped. With --floor also the least a step can take: its matrix products and its attention
alone, as PyTorch runs them in short bursts, and the bytes that must move at the speed of a copy; with --load the same once
more on a GPU at its power limit, where training runs, with joules. One line of JSON each.

usage: torch_step.py [--floor] [--load] [--muon] [--recompute] [--float8 RECIPE] [--warm N] [--steps N] [--dropout RATE] [--after FILE] [--limit SECONDS]
                     [--energy] [--experts N --chosen K --width F] [--latent RANK] [--eager] NAME LAYERS HIDDEN HEADS SEQUENCE BATCH VOCABULARY [gpt|llama]

With --latent blocks have multi-head latent attention as one writes it down: scores, softmax and values one after the
other, 128 channels of keys and values a head and 64 that heads share. --eager compiles nothing.

With --after nothing touches the GPU until FILE is there: PyTorch is imported meanwhile, which takes as long as many steps,
and another program can have the GPU for itself. --limit counts from then. With --recompute blocks are checkpointed, for long
sequences: each block is compiled, and the head with its loss, instead of the whole model.
"""
import argparse
import ctypes
import gc
import json
import os
import signal
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint


def gated_width(hidden):
    """The width of a Llama MLP: 8/3 of the hidden size, rounded up to a multiple of 256."""
    return int(8 * hidden / 3 + 255) // 256 * 256


def rotate(x, angles):
    cosine, sine = angles
    low, high = x.chunk(2, dim=-1)
    return torch.cat((low * cosine - high * sine, high * cosine + low * sine), dim=-1).to(x.dtype)


class Experts(nn.Module):
    """SwiGLU experts without a capacity: rows sorted by expert, a grouped matmul for each layer of theirs."""

    def __init__(self, hidden, width, count, chosen):
        super().__init__()
        self.count, self.chosen = count, chosen
        self.router = nn.Linear(hidden, count, bias=False)
        self.fc1 = nn.Parameter(torch.empty(count, hidden, 2 * width))
        self.fc2 = nn.Parameter(torch.empty(count, width, hidden))

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        logits = self.router(rows).float()
        best, experts = logits.topk(self.chosen)
        experts = experts.flatten()
        order = experts.argsort(stable=True)
        source = order // self.chosen
        counts = torch.histc(experts.float(), bins=self.count, min=0, max=self.count - 1)
        ends = counts.to(torch.int32).cumsum(0, dtype=torch.int32)
        gate, up = torch._grouped_mm(rows[source].bfloat16(), self.fc1.bfloat16(), offs=ends).chunk(2, dim=-1)
        out = torch._grouped_mm(functional.silu(gate) * up, self.fc2.bfloat16(), offs=ends)
        out = out * best.softmax(dim=-1).flatten()[order, None].to(out.dtype)
        balance = self.count * (logits.softmax(dim=-1).mean(dim=0) * counts / experts.numel()).sum()
        return torch.zeros_like(rows, dtype=out.dtype).index_add(0, source, out).view(x.shape), balance


class Latent(nn.Module):
    """Latent attention of DeepSeek-V2 without a latent for queries, unfused."""

    OWN, SHARED, VALUE = 128, 64, 128

    def __init__(self, hidden, heads, rank):
        super().__init__()
        self.heads, self.rank = heads, rank
        self.q = nn.Linear(hidden, heads * (self.OWN + self.SHARED), bias=False)
        self.down = nn.Linear(hidden, rank + self.SHARED, bias=False)
        self.norm = nn.RMSNorm(rank, eps=1e-5)
        self.up = nn.Linear(rank, heads * (self.OWN + self.VALUE), bias=False)

    def forward(self, x, angles):
        batch, length, _ = x.shape
        q = self.q(x).view(batch, length, self.heads, -1)
        latent, shared = self.down(x).split((self.rank, self.SHARED), dim=-1)
        key, value = self.up(self.norm(latent)).view(batch, length, self.heads, -1).split((self.OWN, self.VALUE), dim=-1)
        shared = rotate(shared[:, :, None], angles).expand(-1, -1, self.heads, -1)
        q = torch.cat((q[..., :self.OWN], rotate(q[..., self.OWN:], angles)), dim=-1).transpose(1, 2)
        key = torch.cat((key, shared), dim=-1).transpose(1, 2)
        scores = q @ key.transpose(2, 3) * (self.OWN + self.SHARED) ** -0.5
        hidden = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(hidden, float("-inf")).softmax(dim=-1, dtype=torch.float32).to(q.dtype)
        return (weights @ value.transpose(1, 2).to(q.dtype)).transpose(1, 2).reshape(batch, length, -1)


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        hidden, is_llama = shape.hidden, shape.kind == "llama"
        self.heads, self.is_llama, self.dropout = shape.heads, is_llama, shape.dropout
        self.experts = self.latent = None
        norm = nn.RMSNorm if is_llama else nn.LayerNorm
        self.norm1, self.norm2 = norm(hidden, eps=1e-5), norm(hidden, eps=1e-5)
        if shape.latent:
            self.latent = Latent(hidden, shape.heads, shape.latent)
        else:
            self.qkv = nn.Linear(hidden, 3 * hidden, bias=not is_llama)
        self.proj = nn.Linear(shape.heads * Latent.VALUE if shape.latent else hidden, hidden, bias=not is_llama)
        if shape.experts:
            self.experts = Experts(hidden, shape.width, shape.experts, shape.chosen)
            return
        width = gated_width(hidden) if is_llama else 4 * hidden
        self.fc1 = nn.Linear(hidden, 2 * width if is_llama else width, bias=not is_llama)
        self.fc2 = nn.Linear(width, hidden, bias=not is_llama)

    def attend(self, x, angles):
        batch, length, hidden = x.shape
        if self.latent is not None:
            return self.proj(self.latent(x, angles))
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, hidden // self.heads).unbind(dim=2)
        if self.is_llama:
            q, k = rotate(q, angles), rotate(k, angles)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        out = functional.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
        return self.proj(out.transpose(1, 2).reshape(batch, length, hidden))

    def forward(self, x, angles):
        x = x + functional.dropout(self.attend(self.norm1(x), angles), self.dropout)
        if self.experts is not None:
            out, balance = self.experts(self.norm2(x))
            return x + functional.dropout(out, self.dropout), balance
        inner = self.fc1(self.norm2(x))
        if self.is_llama:
            gate, up = inner.chunk(2, dim=-1)
            inner = functional.silu(gate) * up
        else:
            inner = functional.gelu(inner, approximate="tanh")
        return x + functional.dropout(self.fc2(inner), self.dropout), 0


class Model(nn.Module):
    def __init__(self, shape):
        super().__init__()
        hidden, heads, length = shape.hidden, shape.heads, shape.sequence
        self.is_llama, self.dropout, self.recomputes = shape.kind == "llama", shape.dropout, shape.recompute
        self.tokens = nn.Embedding(shape.vocabulary, hidden)
        self.positions = None if self.is_llama else nn.Embedding(length, hidden)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = (nn.RMSNorm if self.is_llama else nn.LayerNorm)(hidden, eps=1e-5)
        self.head = nn.Linear(hidden, shape.vocabulary, bias=False)
        if not self.is_llama:
            self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
        size = Latent.SHARED if shape.latent else hidden // heads
        angle = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(0, size, 2) / size)
        self.register_buffer("cosine", angle.cos()[None, :, None])
        self.register_buffer("sine", angle.sin()[None, :, None])

    def forward(self, tokens, labels):
        x = self.tokens(tokens)
        if self.positions is not None:
            x = x + self.positions.weight
        x = functional.dropout(x, self.dropout)
        balance = 0
        for block in self.blocks:
            angles = (self.cosine, self.sine)
            x, more = checkpoint(block, x, angles, use_reentrant=False) if self.recomputes else block(x, angles)
            balance = balance + more
        return self.loss(x, labels) + 0.01 * balance

    def loss(self, x, labels):
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.view(-1))


class Energy:
    """Joules the GPU in use has used, by its driver's counter; None where there is no such counter."""

    def __init__(self):
        self.device = None
        try:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
            device = ctypes.c_void_p()
            # Which card is the first of CUDA's is CUDA_VISIBLE_DEVICES' to say, which NVML does not know.
            card = torch.cuda.get_device_properties(0)
            place = f"{card.pci_domain_id:08x}:{card.pci_bus_id:02x}:{card.pci_device_id:02x}.0".encode()
            if self.nvml.nvmlInit_v2() == 0 and self.nvml.nvmlDeviceGetHandleByPciBusId_v2(place, ctypes.byref(device)) == 0:
                self.device = device
        except (OSError, AttributeError):
            pass

    def joules(self):
        millijoules = ctypes.c_ulonglong()
        if self.device and self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.device, ctypes.byref(millijoules)) == 0:
            return millijoules.value / 1e3
        return None


def make_optimizers(model, muon):
    matrices = [p for name, p in model.named_parameters() if muon and p.ndim == 2 and name.startswith("blocks.")]
    assert bool(matrices) == muon
    others = [p for p in model.parameters() if all(p is not m for m in matrices)]
    optimizers = [torch.optim.AdamW(others, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)]
    if muon:
        optimizers.append(torch.optim.Muon(matrices, lr=1e-4, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"))
    return optimizers


def in_float8(model, recipe):
    """torchao's float8 training of all linear layers but the head."""
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training
    convert_to_float8_training(model, config=Float8LinearConfig.from_recipe_name(recipe),
                               module_filter_fn=lambda module, name: isinstance(module, nn.Linear) and "head" not in name)


def time_step(shape, steps, energy):
    torch.manual_seed(0)
    # Weights are drawn where they will be used: the CPU would take a minute for some billions.
    with torch.device("cuda"):
        model = Model(shape)
    if shape.float8:
        in_float8(model, shape.float8)
    torch.cuda.reset_peak_memory_stats()
    optimizers = make_optimizers(model, shape.muon)
    compiled = model if shape.recompute or shape.eager else torch.compile(model)
    if shape.recompute:
        model.loss = torch.compile(model.loss)
        for block in model.blocks:
            block.compile()
    tokens = torch.randint(0, shape.vocabulary, (shape.batch, shape.sequence), device="cuda")
    labels = torch.randint(0, shape.vocabulary, (shape.batch, shape.sequence), device="cuda")

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(tokens, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss

    start = time.time()
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        for _ in range(shape.warm):
            step()
        torch.cuda.synchronize()
        warm = time.time() - start
        # As in a training run, nothing waits for the GPU between steps.
        before = energy.joules() if energy else None
        start = time.time()
        for _ in range(steps):
            loss = step()
        torch.cuda.synchronize()
        seconds = (time.time() - start) / steps
        after = energy.joules() if energy else None
    name = "PyTorch" if shape.eager else "PyTorch compiled"
    line = {"name": f"torchao {shape.float8}" if shape.float8 else name, "config": shape.name, "step_s": round(seconds, 4),
            "tokens_per_second": round(shape.batch * shape.sequence / seconds, 1), "loss": round(loss.item(), 4),
            "device_gb": round(torch.cuda.max_memory_allocated() / 1e9, 2), "first_steps_s": round(warm, 1)}
    if before is not None and after is not None:
        line["joules_per_token"] = round((after - before) / (steps * shape.batch * shape.sequence), 6)
    return line


def milliseconds(run, repeats=9):
    """The median, since a run now and then waits for the host, which is no property of the GPU."""
    for _ in range(3):
        run()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    marks[0].record()
    for mark in marks[1:]:
        run()
        mark.record()
    torch.cuda.synchronize()
    return statistics.median(before.elapsed_time(after) for before, after in zip(marks, marks[1:]))


def under_load(energy):
    """All in turn where the GPU runs at its power limit, as in a training step."""
    def measure(runs, seconds=2.0):
        def round_of_all():
            for run in runs:
                run()
            torch.cuda.synchronize()

        start = time.time()
        while time.time() - start < 0.7:  # until the clock is the one that the limit leaves
            round_of_all()
        before, start, rounds = energy.joules(), time.time(), 0
        while time.time() - start < seconds:
            round_of_all()
            rounds += 1
        return (time.time() - start) * 1e3 / rounds, (energy.joules() - before) / rounds
    return measure


def in_bursts(runs):
    return sum(milliseconds(run) for run in runs), 0


def products(rows, out, inner):
    """y = x w', dx = dy w and dw = dy' x of one linear layer, into memory that was taken before."""
    x, w, dy = (0.05 * torch.randn(a, b, device="cuda", dtype=torch.bfloat16)
                for a, b in ((rows, inner), (out, inner), (rows, out)))
    y, dx, dw = torch.empty_like(dy), torch.empty_like(x), torch.empty_like(w)
    return [lambda a=a, b=b, d=d: torch.matmul(a, b, out=d) for a, b, d in ((x, w.t(), y), (dy, w, dx), (dy.t(), x, dw))]


def attentions(shape):
    """Forward, and backward alone."""
    size = (shape.batch, shape.heads, shape.sequence, shape.hidden // shape.heads)
    q, k, v = (torch.randn(size, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))

    def attend():
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    out = attend()
    dout = torch.randn_like(out)
    return [attend, lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)]


def time_floor(shape, name, measure):
    """The parts of a step alone, as `measure` has them: (milliseconds, joules) of some calls."""
    rows, hidden, layers = shape.batch * shape.sequence, shape.hidden, shape.layers
    is_llama = shape.kind == "llama"
    width = gated_width(hidden) if is_llama else 4 * hidden
    linears = ((3 * hidden, hidden), (hidden, hidden), (2 * width if is_llama else width, hidden), (hidden, width))
    totals = {"products": [0, 0], "attention": [0, 0], "bytes": [0, 0]}

    def add(part, times, runs):
        for i, value in enumerate(measure(runs)):
            totals[part][i] += times * value

    for out, inner in linears:
        add("products", layers, products(rows, out, inner))
    add("products", 1, products(rows, shape.vocabulary, hidden))
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        add("attention", layers, attentions(shape))
    source = torch.empty(2**31, device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    parameters = layers * sum(out * inner for out, inner in linears) + shape.vocabulary * hidden * (2 if is_llama else 1)
    # Adam on fp32 state; norms with residuals forward and backward; the activation the same; softmax and its gradient.
    moved = 30 * parameters + layers * rows * 2 * (16 * hidden + (6 if is_llama else 3) * width) + 6 * rows * shape.vocabulary
    add("bytes", moved / (2 * source.numel()), [lambda: target.copy_(source)])
    total = sum(ms for ms, _ in totals.values())
    line = {"name": name, "config": shape.name, "step_s": round(total / 1e3, 4),
            "tokens_per_second": round(rows / total * 1e3, 1)}
    for part, (ms, joules) in totals.items():
        line[part + "_ms"] = round(ms, 2)
        if joules:
            line[part + "_j"] = round(joules, 1)
    joules = sum(joules for _, joules in totals.values())
    if joules:
        line["joules_per_token"] = round(joules / rows, 6)
    line["copy_gb_per_s"] = round(moved / totals["bytes"][0] / 1e6)
    return line


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--floor", action="store_true")
    parser.add_argument("--load", action="store_true", help="the floor's parts for two seconds each")
    parser.add_argument("--muon", action="store_true", help="torch.optim.Muon for the matrices of the blocks")
    parser.add_argument("--float8", metavar="RECIPE", help="torchao's float8 training: tensorwise or rowwise")
    parser.add_argument("--experts", type=int, default=0, metavar="N", help="experts of each layer instead of its MLP")
    parser.add_argument("--chosen", type=int, default=2, metavar="K", help="experts of a token")
    parser.add_argument("--width", type=int, default=0, metavar="F", help="of an expert")
    parser.add_argument("--recompute", action="store_true", help="checkpoint every block")
    parser.add_argument("--warm", type=int, default=3, metavar="N", help="steps before those that are timed")
    parser.add_argument("--latent", type=int, default=0, metavar="RANK", help="of multi-head latent attention, unfused")
    parser.add_argument("--eager", action="store_true", help="do not compile")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--dropout", type=float, default=0.0, metavar="RATE", help="of the stream and of attention")
    parser.add_argument("--after", metavar="FILE", help="begin when FILE is there")
    parser.add_argument("--limit", type=int, default=0, metavar="SECONDS", help="end this long after that in any case")
    parser.add_argument("--energy", action="store_true", help="joules a token as well")
    parser.add_argument("name")
    for name in ("layers", "hidden", "heads", "sequence", "batch", "vocabulary"):
        parser.add_argument(name, type=int)
    parser.add_argument("kind", nargs="?", default="gpt", choices=("gpt", "llama"))
    shape = parser.parse_args()
    if shape.experts and (shape.kind != "llama" or shape.floor or shape.load or shape.muon):
        parser.error("--experts is for llama, without --floor, --load and --muon")
    if shape.latent and (shape.kind != "llama" or shape.floor or shape.load):
        parser.error("--latent is for llama, without --floor and --load")
    parent = os.getppid()
    while shape.after and not os.path.exists(shape.after):
        if parent == 1 or os.getppid() != parent:
            sys.exit("torch_step.py: the program that should have said when to begin is gone")
        time.sleep(0.02)
    # The signal's default action, so that it ends a process that waits for the GPU inside a library too.
    signal.alarm(shape.limit)
    torch.set_float32_matmul_precision("high")
    # The step first: it is what is compared, and the floor may take the rest of the time.
    print(json.dumps(time_step(shape, shape.steps, Energy() if shape.energy else None)), flush=True)
    torch.compiler.reset()
    gc.collect()
    torch.cuda.empty_cache()
    if shape.floor:
        time.sleep(1)  # short bursts on a GPU that has rested
        print(json.dumps(time_floor(shape, "floor", in_bursts)), flush=True)
    if shape.load and Energy().joules() is not None:
        print(json.dumps(time_floor(shape, "floor under load", under_load(Energy()))), flush=True)


if __name__ == "__main__":
    main()
