#!/usr/bin/env python3
"""Compares `bevatron plan` with step times that were measured or published.

usage: bench/plan_rows.py BEVATRON [--markdown] [--source TEXT] [ROWS.csv…]

Without a file it plans the ten models of bench/RESULTS.md on one H200. With files it plans the rows of published runs:
parameters and FLOPs where the architecture is stated, time and memory where layout and machine are stated, too. Prints
every row, then errors by source; --markdown prints the latter as in docs/internals/plan.md. --source takes the rows whose source
contains TEXT.
"""
import atexit
import collections
import concurrent.futures
import csv
import json
import math
import os
import re
import subprocess
import sys
import tempfile

import plan_latent
import plan_papers
import plan_recipes

# name, layers, hidden size, heads, length, micro-batch, vocabulary, FFN of a Llama, measured tokens/s and GB on one
# H200 in bf16 and fp8 (bench/RESULTS.md, 2026-11-16)
OURS = [
    ("gpt2-124M", 12, 768, 12, 1024, 64, 50304, "", (596085, 684471), (29.1, 25.9)),
    ("gpt2-1558M", 48, 1600, 25, 1024, 16, 50304, "", (51953, 69556), (62.4, 57.9)),
    ("gpt3-1.3B", 24, 2048, 16, 2048, 16, 50304, "", (67403, 93414), (74.0, 67.2)),
    ("megatron-1.7B", 24, 2304, 24, 2048, 12, 51200, "", (52198, 73798), (69.3, 64.9)),
    ("megatron-3.6B", 30, 3072, 32, 2048, 4, 51200, "", (23907, 33536), (73.6, 76.8)),
    ("llama-1.3B", 24, 2048, 16, 4096, 8, 32000, "5632", (61508, 84143), (73.4, 69.0)),
    ("llama7B-8layers", 8, 4096, 32, 4096, 4, 32000, "11008", (51518, 75051), (46.6, 48.0)),
]
# With experts: name, layers, hidden size, heads, width of an expert, experts, chosen, micro-batch, vocabulary; ms and GB
# in bf16 (bench/RESULTS.md, 2026-11-17); 4096 tokens.
OUR_EXPERTS = [
    ("qwen3-30B-A3B-4layers", 4, 2048, 16, 768, 128, 8, 8, 32000, 146.3, 52.9),
    ("mixtral-8x7B-2layers", 2, 4096, 32, 14336, 8, 2, 4, 32000, 191.3, 56.5),
    ("olmoe-1B-7B-8layers", 8, 2048, 16, 1024, 64, 8, 8, 50304, 300.4, 78.5),
]
LLAMA = ("--swiglu --normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights "
         "--disable-bias-linear --ffn-hidden-size ")
# Published architectures: layers, hidden size, heads, KV heads, FFN, vocabulary.
LLAMAS = {
    "LLAMA2_7B": (32, 4096, 32, 32, 11008, 32000),
    "LLAMA2_13B": (40, 5120, 40, 40, 13824, 32000),
    "LLAMA2_70B": (80, 8192, 64, 8, 28672, 32000),
    "LLAMA3_8B": (32, 4096, 32, 8, 14336, 128256),
    "LLAMA3_70B": (80, 8192, 64, 8, 28672, 128256),
    "LLAMA3.1_405B": (126, 16384, 128, 8, 53248, 128256),
    # SimuMax pads the 405B model for its runs: configs/models/llama3-405b_padding_128.json
    "llama3_405b_padded": (128, 16384, 128, 16, 53248, 128256),
}
# Qwen3 with experts: preset, layers, hidden size, heads, KV heads, width of an expert, experts, chosen; vocabulary
# 151936, heads of 128, norms of queries and keys.
QWENS = {"QWEN3_30B": ("qwen3-30b-a3b", 48, 2048, 32, 4, 768, 128, 8),
         "QWEN3_235B": ("qwen3-235b-a22b", 94, 4096, 64, 4, 1536, 128, 8)}
# SimuMax's DeepSeek, of 4 layers, the first dense: hidden size, FFN, width of an expert, experts, chosen, vocabulary,
# width of shared experts (configs/models/deepseekv2.json and v3; capacities of 1, padded).
DEEPSEEKS = {"v2": (5120, 12288, 1536, 160, 6, 102400, 3072), "v3": (7168, 18432, 2048, 256, 8, 129280, 2048)}
# What this program lacks of other models.
LACKING = {"DEEPSEEKV4": "sparse attention (DeepSeek-V4)", "NEMOTRON": "Mamba layers",
           "GPT-OSS": "sharded parameters, and ranks that share out experts are not stated"}
# MPT's: layers, hidden size, heads (llm-foundry scripts/train/yamls/pretrain); vocabulary 50368, tied.
MPTS = {"760m": (24, 1536, 12), "1b": (24, 2048, 16), "3b": (32, 2560, 20), "7b": (32, 4096, 32), "13b": (40, 5120, 40),
        "30b": (48, 7168, 56), "70b": (80, 8192, 64)}
SOURCES = {"narayanan_t1": "Narayanan 2021, table 1", "megatron2020": "Megatron-LM 2020, A100-40",
           "megatron2020_v100": "Megatron-LM 2020, V100",
           "narayanan_more": "Narayanan 2021, tables 1 and 2, other rows",
           "korthikanti_more": "Korthikanti 2022, other rows",
           "korthikanti_t5": "Korthikanti 2022, table 5", "mcore_r0.8": "Megatron-Core r0.8",
           "megascale_t2_megatron": "MegaScale 2024", "megascale_t2_megascale": "MegaScale 2024"}
# Megatron-LM 2020 (images/tables.tex, 5281919420): layers, hidden size, heads, TP, ms of a step of 8 × 1024 tokens on
# the V100 GPUs of a DGX-2.
VOLTAS = [("1.16B", 24, 1920, 15, 1, 1121), ("2.03B", 30, 2304, 18, 2, 1093), ("4.24B", 36, 3072, 24, 4, 1238),
          ("8.67B", 42, 4096, 32, 8, 1407)]
MACHINES = {"A100-80": "dgx-a100", "A100": "p4d.24xlarge", "V100": "p3dn.24xlarge", "H100": "dgx-h100", "DGX-H100": "dgx-h100",
            "H100-80GB": "dgx-h100", "H200": "dgx-h200", "B200": "dgx-b200", "DGX-B200": "dgx-b200", "DGX-B300": "dgx-b300",
            "DGX-GB200": "dgx-gb200", "DGX-GB300": "dgx-gb300", "p6-b300": "p6-b300.48xlarge"}
# Programs of 2020 to 2024 launch kernels one by one. 30 µs for each are assumed, as long as SimuMax adds to operations
# that only move data.
PYTHON = tempfile.NamedTemporaryFile("w", suffix=".yaml")
PYTHON.write("launch-us: 30\n")
PYTHON.flush()


def hardware_file(**more):
    """The name of a --hardware file with these rows."""
    file = tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False)
    atexit.register(os.unlink, file.name)
    with file:
        for key, value in more.items():
            file.write(f"{key.replace('_', '-')}: {value:g}\n")
    return file.name


# Sharded parameters are not a layout of this program. Such rows are planned with a distributed optimizer, as if their
# traffic were hidden, and counted apart.
FSDP = ", FSDP"
# Experts in fp8, as other programs have them, have a line of their own and are counted with all.
FP8_EXPERTS = ", experts in fp8"
ASSUMED = ", micro-batch 1 assumed"
# Rows that their own table contradicts.
CONTRADICTED = {"GPT OSS 120B DGX-GB300 64 MXFP8 26.06.01 EP 16":
                "its table has 20,288 tokens/s in 26.06.01, 33,166 and 33,024 in 26.06 and 26.08 with the same layout"}
# Rows that contradict their source's own recipes: what is planned instead of what the table says, and why.
DOUBTFUL = {
    "LLAMA3_70B DGX-GB300 64 MXFP8 26.02.01": ({"mbs": "1", "vp": "5"},
        "the table says micro-batches of 2 and no virtual stages, with which 4 stages idle for 27 % of a step; the recipe "
        "of that time says micro-batches of 1 and 5 virtual stages (scripts/performance/configs/llama in all commits of "
        "2026-02 and 2026-03), and is planned. The row above it cannot be either: 70B with TP 1, PP 1 and no FSDP takes "
        "437 GB of a GPU for weights, gradients and optimizer"),
    "Qwen3_30B_a3B DGX-H100 16 FP8-CS 25.11 EP 8": ({"mbs": "1", "vp": "12"},
        "the table says micro-batches of 2 and 24 virtual stages, the recipe (scripts/performance/configs/qwen3, v0.2.0) 1 and "
        "12, and is planned"),
    "Qwen3_30B_a3B DGX-H100 16 FP8 26.02.01 EP 8": ({"pp": "1", "vp": "n/a", "ep": "16"},
        "the table says two stages and EP 8, the recipe (scripts/performance/configs/qwen, v0.3.1) one and EP 16, and is "
        "planned: with two, 25.11 had 5,275 tokens/s and with one, 26.04 has 8,901; this row has 9,058"),
    "GPT OSS 120B DGX-B200 64 BF16 25.11 EP 8": ({"ep": "64"},
        "the table says EP 8, the recipe (scripts/performance/configs/gpt_oss, v0.2.0) EP 64, and is planned. A micro-batch "
        "takes 2.0 s, as on B300 with EP 64 in 26.02, and 1.2 s with EP 8 from 26.02.01 on"),
    "GPT OSS 120B DGX-H100 64 BF16 25.11 EP 8": ({"mbs": "1"},
        "the table says micro-batches of 4, the recipe (the same) of 1, and is planned. With 1, a micro-batch takes 166 ms "
        "in 25.11 and 165 to 170 ms from 26.02.01 on; with 4, a token would have taken a fifth less time"),
}
# GPUs that NVLink joins, the GB/s of each between machines (src/plan/hardware.c), and of Hybrid-EP over NVLink.
NETWORKS = {"DGX-H100": (8, 45, 295), "DGX-B200": (8, 45, 590), "DGX-B300": (8, 90, 590), "DGX-GB200": (72, 45, 590),
            "DGX-GB300": (72, 90, 590), "p6-b300": (8, 90, 590)}
FP8 = "--fp8-format hybrid "
DENSE = "--use-distributed-optimizer --tp-comm-overlap --overlap-grad-reduce --overlap-param-gather "
MXFP8 = "--bf16 --fp8-format e4m3 --fp8-recipe mxfp8 "


def plan(program, flags):
    common = "plan --json --mock-data --lr 1e-4 --train-iters 1 "
    result = subprocess.run([program] + (common + flags).split(), capture_output=True, text=True)
    if result.returncode:
        return None, result.stderr.strip().splitlines()[-1].replace("error: bevatron: ", "")
    return json.loads(result.stdout), ""


def shape(layers, hidden, heads, seq, vocab):
    return (f"--num-layers {layers} --hidden-size {hidden} --num-attention-heads {heads} --seq-length {seq} "
            f"--max-position-embeddings {seq} --vocab-size {vocab} --make-vocab-size-divisible-by 1 ")


def llama(layers, hidden, heads, groups, ffn, vocab, seq):
    return (shape(layers, hidden, heads, seq, vocab) + LLAMA +
            f"{ffn} --group-query-attention --num-query-groups {groups} --attention-dropout 0 --hidden-dropout 0 ")


def megatron_buckets(row):
    """Megatron sums gradients in buckets of 40 million, or a million for each replica if that is more; all at once if
    nothing hides them (core/distributed/distributed_data_parallel.py)."""
    if row.gpus == 1:
        return ""
    sizes = [int(n) for n in re.findall(r"--(?:tensor|pipeline)-model-parallel-size (\d+)", row.layout)]
    bucket = max(40000000, 1000000 * row.gpus // math.prod(sizes)) if "--overlap-grad-reduce" in row.layout else 10**12
    return f" --ddp-bucket-size {bucket}"


class Row:
    """A published run: `flags` say its model, `layout` how it ran; `skipped` says why it has no time."""

    def __init__(self, source, name):
        self.source, self.name = source, name
        self.flags = self.layout = self.skipped = ""
        self.contradicted = ""  # by what of its own source
        self.seconds = self.gib = self.parameters = self.active = self.flops = None
        self.published_flops = None  # what the source's own TFLOP/s and time say
        self.machine, self.gbs, self.gpus = "dgx-h100", 1, 1
        self.found = None
        self.master_ranks = self.layer_bytes = 0  # of Megatron's own memory
        self.own_bytes = None  # the same by stage
        self.logit_bytes = 0  # of a micro-batch on the last stage, in 16 bits

    def planned_gib(self):
        """Of the fullest rank. Megatron keeps masters whole, 2 bytes more than the halves here, and Transformer Engine a
        weight gradient that stays zero for each shape of weight. Megatron's loss has a softmax in fp32 beside the logits,
        and later their gradient, in 16 bits. PyTorch takes scratch memory where they were; here it is a part of its own."""
        most = 0
        for stage in self.found["stages"]:
            memory = stage["memory_bytes"]
            own = 2 * stage["parameters"] / self.master_ranks + self.layer_bytes if self.master_ranks else 0
            if self.own_bytes:
                own = self.own_bytes(stage)
            if stage is self.found["stages"][-1]:
                own += max(3 * self.logit_bytes, memory["scratch"]) - self.logit_bytes - memory["scratch"]
            most = max(most, memory["total"] + own)
        return most / 2**30

    def plan(self, program):
        if not self.flags:
            return self
        layout = self.layout
        counting = f"--nproc 1 --micro-batch-size 1 --global-batch-size {self.gbs} --bf16 "
        if self.skipped:
            layout = counting
        # Other programs keep all logits, and so did this one when its own rows were measured.
        layout += " --logits-at-once 1000000000" + megatron_buckets(self)
        self.found, why = plan(program, self.flags + layout + f" --machine {self.machine}")
        if why:
            self.skipped = why
            self.found, _ = plan(program, self.flags + counting)
        return self


def layout_of(row, machine, gpus):
    tp, pp, cp, vp = (row.get(k) or "1" for k in ("tp", "pp", "cp", "vpp" if "vpp" in row else "vp"))
    flags = f"--nproc {gpus} --tensor-model-parallel-size {tp} --pipeline-model-parallel-size {pp} "
    if cp not in ("1", "-"):
        flags += f"--context-parallel-size {cp} "
    if vp not in ("", "1", "-", "n/a") and pp != "1":
        flags += f"--num-virtual-stages-per-pipeline-rank {vp} "
    return flags


# Parameters as Narayanan et al. 2021 count them, with the last norm. Their FLOPs without recompute; of attention's
# scores, the half that a causal mask leaves, as Megatron-LM counts since 2025.
def gpt_counts(row):
    h, l, s, b, v = (int(row[k]) for k in ("hidden", "layers", "seq", "gbs", "vocab"))
    return 12 * l * h * h + 13 * l * h + (v + s) * h + 2 * h, 72 * b * s * l * h * h * (
        1 + s / (12 * h) + v / (12 * l * h))


def assume_small_batches(row, given):
    """Megatron's table of 2024 states neither micro-batch nor recompute: 1, and none."""
    row.source += ASSUMED
    row.layout = layout_of(given, row.machine, row.gpus) + (
        f"--bf16 --use-distributed-optimizer --tp-comm-overlap --overlap-grad-reduce --overlap-param-gather "
        f"--attention-dropout 0 --hidden-dropout 0 --micro-batch-size 1 --global-batch-size {row.gbs} ")
    if given["tp"] != "1":
        row.layout += "--sequence-parallel "
    return row


def old_row(given):
    row = Row(SOURCES[given["source"]], f"{given['model']} {given['gpus']}")
    row.machine, row.gbs, row.gpus = MACHINES[given["gpu"]], int(given["gbs"]), int(given["gpus"])
    row.seconds = float(given["t_iter_s"])
    if not given["vocab"]:
        row.skipped = "vocabulary and micro-batch not stated"
        return row
    row.flags = shape(given["layers"], given["hidden"], given["heads"], given["seq"], given["vocab"])
    row.parameters, row.flops = gpt_counts(given)
    if given["source"].startswith("mcore"):
        row.flags += "--untie-embeddings-and-output-weights "
        row.parameters += int(given["vocab"]) * int(given["hidden"])
    if not given["mbs"]:
        return assume_small_batches(row, given)
    # Their attention wrote its scores to memory; the network is that of Selene.
    row.layout = layout_of(given, row.machine, row.gpus) + (
        f"--hardware {PYTHON.name} --fp16 --attention-backend unfused --attention-dropout 0.1 --hidden-dropout 0.1 "
        f"--micro-batch-size {given['mbs']} --global-batch-size {given['gbs']} ")
    if given["recompute"] == "full":
        row.layout += "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 "
    elif given["recompute"].startswith("selective"):
        row.layout += "--recompute-granularity selective "
    if given["recompute"].endswith("+sp"):
        row.layout += "--sequence-parallel "
    return row


def volta_rows():
    for name, layers, hidden, heads, tp, milliseconds in VOLTAS:
        yield old_row({"source": "megatron2020_v100", "model": name, "gpus": tp, "gpu": "V100", "gbs": 8, "mbs": 8,
                       "t_iter_s": milliseconds / 1000, "vocab": 51200, "layers": layers, "hidden": hidden,
                       "heads": heads, "seq": 1024, "tp": tp, "pp": 1, "recompute": "full"})


def nemo_flags(model, seq):
    if model in plan_papers.NEMO_GPTS:
        return shape(*plan_papers.NEMO_GPTS[model], seq, 51200) + "--attention-dropout 0 --hidden-dropout 0 "
    if model.startswith("Nemotron"):
        layers, hidden, heads, groups, ffn, vocab = plan_papers.NEMOTRON
        return llama(layers, hidden, heads, groups, ffn, vocab, seq).replace("--swiglu", "--squared-relu").replace(
            "--normalization RMSNorm ", "")
    return llama(*LLAMAS[model.upper().replace("-", "_")], seq)


def nemo_rows():
    """Sharing of optimizers and hidden traffic are assumed as for Megatron-Bridge, which followed NeMo."""
    for model, gpus, gbs, mbs, seq, tp, pp, cp, vp, rate in plan_papers.NEMO:
        row = Row("NeMo 24.07", f"{model} {gpus}")
        row.gpus, row.gbs, row.seconds = gpus, gbs, gbs * seq / rate / gpus
        row.flags = nemo_flags(model, seq)
        given = {"tp": str(tp), "pp": str(pp), "cp": str(cp), "vp": str(vp)}
        row.layout = layout_of(given, row.machine, gpus) + "--bf16 " + FP8 + DENSE + (
            f"--micro-batch-size {mbs} --global-batch-size {gbs} " + ("--sequence-parallel " if tp > 1 else ""))
        yield row


def first(text):
    """The first of "664 (622)": the row's own precision, where a second one is in parentheses."""
    return text.split(" (")[0]


def simumax_file(replicas, **more):
    gradient = plan_recipes.CHECK_BYTES + (plan_recipes.SCALE_BYTES if replicas > 1 else 0)
    return hardware_file(move_us=plan_recipes.MOVE_US, loss_bytes=plan_recipes.NATIVE_LOSS_BYTES, gradient_bytes=gradient, **more)


def simumax_row(given):
    """Names say the model: llama3_70b_l12_tp1_pp2_dp4_mbc32_cef."""
    row = Row("SimuMax B200", given["model"].removesuffix("_cef"))
    row.seconds, row.gib = float(given["step_s"]), float(given["mem_gib"])
    row.gpus, row.machine = 8, "dgx-b200"
    if not given["model"].startswith("llama"):
        return deepseek_row(row, given)
    layers = int(re.search(r"_l(\d+)_", given["model"]).group(1))
    batches = int(re.search(r"mbc(\d+)", given["model"]).group(1))
    dp = int(re.search(r"dp(\d+)", given["model"]).group(1))
    kind = LLAMAS["LLAMA3_70B" if "70b" in given["model"] else "llama3_405b_padded"]
    row.gbs = batches * dp
    row.master_ranks = dp * int(given["cp"])
    row.layer_bytes = 2 * (llama_parameters(1, *kind[1:]) - llama_parameters(0, *kind[1:])) / int(given["tp"])
    row.logit_bytes = 2 * kind[5] * int(given["seq"]) // int(given["cp"]) // int(given["tp"])
    row.flags = llama(layers, *kind[1:], given["seq"])
    row.layout = layout_of(given, row.machine, 8) + (
        f"--hardware {simumax_file(row.master_ranks)} --bf16 --use-distributed-optimizer --eval-iters 0 "
        f"--micro-batch-size 1 --global-batch-size {row.gbs} ")
    if given["tp"] != "1":
        row.layout += "--sequence-parallel "
    return row


def deepseek_row(row, given):
    hidden, ffn, width, experts, chosen, vocab, shared = DEEPSEEKS["v2" if "v2" in given["model"] else "v3"]
    dp = int(re.search(r"dp(\d+)", given["model"]).group(1))
    row.gbs = dp * int(re.search(r"mbc(\d+)", given["model"]).group(1))
    # Megatron's masters are whole: 2 bytes more of what a rank updates, all experts that it holds and its part of the rest.
    moe_layers = 3 if given["pp"] == "1" else 2
    held = moe_layers * experts // int(given["ep"]) * 3 * hidden * width
    row.own_bytes = lambda stage: 2 * (held + (stage["parameters"] - held) / dp)
    row.logit_bytes = 2 * vocab * 4096
    row.flags = shape(4, hidden, 128, 4096, vocab) + LLAMA + (
        f"{ffn} --multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 "
        f"--v-head-dim 128 --qk-layernorm --moe-layer-freq [0]*1+[1]*3 --num-experts {experts} --moe-router-topk {chosen} "
        f"--moe-ffn-hidden-size {width} --moe-shared-expert-intermediate-size {shared} --moe-expert-capacity-factor 1 "
        "--moe-pad-expert-input-to-capacity --attention-dropout 0 --hidden-dropout 0 ")
    file = simumax_file(dp, host_us=plan_recipes.BF16_HOST_US, **plan_recipes.EXPERTS)
    row.layout = layout_of(given, row.machine, 8) + (
        f"--hardware {file} --bf16 --use-distributed-optimizer --eval-iters 0 --expert-model-parallel-size {given['ep']} "
        f"--micro-batch-size 1 --global-batch-size {row.gbs} ")
    return row


def qwen_counts(kind, gbs, seq):
    """Parameters, those that a token meets, and FLOPs of a step as Megatron counts them: without the router, and of
    causal attention half."""
    _, layers, hidden, heads, groups, width, experts, chosen = kind
    projections = 2 * hidden * heads * 128 + 2 * hidden * groups * 128
    expert, vocab = 3 * hidden * width, 151936
    layer = projections + experts * hidden + 2 * hidden + 2 * 128
    rest = 2 * vocab * hidden + hidden
    matmuls = layers * (projections + chosen * expert) + vocab * hidden
    return (layers * (layer + experts * expert) + rest, layers * (layer + chosen * expert) + rest,
            6 * gbs * seq * (matmuls + layers * seq * heads * 128))


def efa_recompute(name, note):
    """What awsome-distributed-ai's runs of Qwen3 compute again (qwen3-235b/benchmarks: bench_qwen3_pretrain.py and the tables'
    heads): nothing where another micro-batch hides the exchange; else attention's scores of 235B. Of 30B the table says
    nothing, but its script leaves what Megatron-Bridge's recipe has (v0.4.2, recipes/qwen/qwen3_moe.py): all layers."""
    if "overlap on" in note:
        return ""
    if name == "QWEN3_235B":
        return "--recompute-granularity selective "
    return "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 "


def qwen_row(given, source):
    row = Row(source, " ".join([given["model"], given["system"], given["gpus"], first(given["precision"]), given["release"],
                                "EP " + given["ep"]]))
    given.update(DOUBTFUL.get(row.name, ({}, ""))[0])
    name = "QWEN3_30B" if "30B" in given["model"] else "QWEN3_235B"
    kind = QWENS[name]
    more = ""
    if "overlap on" in given["note"] and given["pp"] != "1" and not given["vp"]:
        given["vp"] = "2"  # so says its script, and layers are added until the chunks have equally many
        chunks = 2 * int(given["pp"])
        layers = (kind[1] + chunks - 1) // chunks * chunks
        kind, more = (kind[0], layers, *kind[2:]), f"--num-layers {layers} "
    row.gpus, row.gbs, seq = int(given["gpus"]), int(given["gbs"]), int(given["seq"])
    row.machine = MACHINES.get(given["system"], "p5.48xlarge")
    row.parameters, row.active, row.flops = qwen_counts(kind, row.gbs, seq)
    row.flags = (f"--preset {kind[0]} --vocab-size 151936 --make-vocab-size-divisible-by 1 --seq-length {seq} "
                 f"--max-position-embeddings {seq} --attention-dropout 0 --hidden-dropout 0 " + more)
    rate = float(first(given["tokens_s_gpu"] or "0"))
    row.seconds = row.gbs * seq / rate / row.gpus if rate else float(given["step_s"] or 0)
    if row.seconds and given["tflops_gpu"]:
        row.published_flops = float(first(given["tflops_gpu"])) * 1e12 * row.gpus * row.seconds
    if "forced balance" in given["note"]:  # its command has DeepEP and micro-batches of 1
        row.seconds = row.flops / float(given["tflops_gpu"]) / 1e12 / row.gpus
        given["mbs"], given["note"] = "1", "DeepEP"
    if given["fsdp"] not in ("", "0", "-"):
        row.source += FSDP
    if not row.seconds:
        row.skipped = "micro-batch and step time not stated"
    if row.skipped:
        return row
    precision = precision_of(given["precision"])
    if precision != "--bf16 ":
        row.source += FP8_EXPERTS
        precision = MXFP8 if "MX" in given["precision"] else precision
    recipe = plan_recipes.qwen_recipe(name, given["system"], given["release"], first(given["precision"]), given)
    rows = plan_recipes.recipe_rows(recipe, first(given["precision"]), kind[-1], int(given["ep"]), NETWORKS.get(given["system"], (8, 45, 295)))
    if recipe[3]:
        # One kernel multiplies, activates and quantizes: only what comes from other ranks is quantized apart.
        rows["expert_quantize_bytes"] = plan_recipes.QUANTIZE_BYTES * 2 * kind[2] / (2 * kind[2] + 3 * kind[5])
        rows.update(plan_recipes.fp8_attention_rows(given["system"], plan_recipes.FP8_ATTENTION))
    if "tokendrop" in given["model"]:
        row.flags += "--moe-expert-capacity-factor 1 --moe-pad-expert-input-to-capacity "
    hardware = hardware_file(**rows)
    is_efa = source == "awsome-distributed-ai"
    row.layout = layout_of(given, row.machine, row.gpus) + (
        f"{precision}--hardware {hardware} --expert-model-parallel-size {given['ep']} --use-distributed-optimizer "
        f"{'' if is_efa else '--grad-reduce-in-bf16 '}--overlap-grad-reduce --overlap-param-gather --micro-batch-size {given['mbs']} --global-batch-size {row.gbs} ")
    row.layout += plan_recipes.recipe_flags(recipe)
    if first(given["tp"]) != "1":
        row.layout += "--sequence-parallel --expert-tensor-parallel-size 1 "
    if is_efa:
        row.layout += efa_recompute(name, given["note"])
    if row.source == "Megatron-MoE-ModelZoo":
        if given["tp"] == "2":  # its readme, column "recompute": norm, act
            row.layout += "--recompute-granularity selective --recompute-modules layernorm moe_act "
        elif seq > 4096:  # its command
            row.layout += "--recompute-granularity selective --recompute-modules layernorm moe "
    if kind[1] % (int(given["pp"]) * int(given["vp"] if given["vp"].isdigit() else 1)):
        row.layout += "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split "
    return row


def oss_row(given, source):
    """GPT OSS 120B: 36 layers, 128 experts of which 4 are chosen, windows of 128 in every other layer, sinks."""
    row = Row(source, " ".join([given["model"], given["system"], given["gpus"], first(given["precision"]),
                                given["release"], "EP " + given["ep"]]))
    given.update(DOUBTFUL.get(row.name, ({}, ""))[0])
    row.gpus, row.gbs, seq = int(given["gpus"]), int(given["gbs"]), int(given["seq"])
    row.machine = MACHINES[given["system"]]
    row.flags = (f"--preset gpt-oss-120b --vocab-size 201088 --make-vocab-size-divisible-by 1 --seq-length {seq} "
                 f"--max-position-embeddings {seq} --attention-dropout 0 --hidden-dropout 0 ")
    row.parameters = 116829156672  # of the published weights
    row.seconds = row.gbs * seq / float(given["tokens_s_gpu"]) / row.gpus
    precision = precision_of(given["precision"])
    row.contradicted = CONTRADICTED.get(row.name, "")
    is_fp8 = precision != "--bf16 "
    if is_fp8:
        row.source += FP8_EXPERTS
        precision = MXFP8
    recipe = plan_recipes.oss_recipe(given["system"], given["release"], is_fp8)
    hardware = hardware_file(**plan_recipes.oss_rows(recipe, given["precision"], int(given["ep"]), NETWORKS[given["system"]],
                                                     given["system"]))
    row.layout = layout_of(given, row.machine, row.gpus) + f"--hardware {hardware} " + (
        f"{precision}--grad-reduce-in-bf16 --expert-model-parallel-size {given['ep']} --use-distributed-optimizer "
        f"--overlap-grad-reduce --overlap-param-gather --micro-batch-size {given['mbs']} --global-batch-size {row.gbs} ")
    row.layout += plan_recipes.recipe_flags(recipe)
    if not recipe[0]:
        row.layout += "--recompute-granularity selective --recompute-modules layernorm moe_act "
    return row


def latent_row(given, source):
    """DeepSeek-V3 and Kimi K2."""
    release, system, note = given["release"], given["system"], given["note"]
    row = Row(source, " ".join([given["model"], system, given["gpus"], first(given["precision"]), release, "PP " + first(given["pp"]),
                                "EP " + given["ep"], note.split(", balanced")[0]]))
    row.gpus, row.gbs, seq = int(given["gpus"]), int(given["gbs"]), int(given["seq"])
    row.machine = MACHINES[system]
    model = plan_latent.name_of(given["model"])
    depths = int(model != "KIMI" and "w/o MTP" not in given["model"])
    row.flags = plan_latent.flags_of(model, depths, seq)
    row.parameters, row.active, row.flops = plan_latent.counts(model, depths, row.gbs, seq)
    rate = float(first(given["tokens_s_gpu"] or "0"))
    row.seconds = row.gbs * seq / rate / row.gpus if rate else float(given["step_s"])
    if given["tflops_gpu"]:
        row.published_flops = float(first(given["tflops_gpu"])) * 1e12 * row.gpus * row.seconds
    if given["fsdp"] not in ("", "0", "-"):
        row.source += FSDP
        row.skipped = "sharded parameters on stages whose layers are not stated"
        return row
    precision = precision_of(given["precision"])
    if precision != "--bf16 ":
        row.source += FP8_EXPERTS
        precision = MXFP8 if "MX" in given["precision"] else precision
    recipe = plan_latent.recipe(system, release, first(given["precision"]), model, note)
    rows = plan_recipes.recipe_rows(recipe, first(given["precision"]), 8, int(given["ep"]), NETWORKS[system])
    if recipe[3]:
        rows["expert_quantize_bytes"] = plan_recipes.QUANTIZE_BYTES * 2 * 7168 / (2 * 7168 + 3 * 2048)
        rows.update(plan_recipes.fp8_attention_rows(system, plan_recipes.FP8_LATENT_ATTENTION))
    tp, pp, vp = first(given["tp"]), int(first(given["pp"])), first(given["vp"])
    chunks = pp * (int(vp) if vp.isdigit() else 2 if "overlap on" in note else 1)
    row.layout = (f"--nproc {row.gpus} --tensor-model-parallel-size {tp} --pipeline-model-parallel-size {pp} "
                  f"--pipeline-model-parallel-layout {plan_latent.layout(chunks, depths)} --hardware {hardware_file(**rows)} "
                  f"{precision}--expert-model-parallel-size {given['ep']} --use-distributed-optimizer --grad-reduce-in-bf16 "
                  f"--overlap-grad-reduce --micro-batch-size {given['mbs']} --global-batch-size {row.gbs} ")
    row.layout += plan_recipes.recipe_flags(recipe) + plan_latent.recompute(system, release, first(given["precision"]), note)
    if "tokendrop" in given["model"]:
        row.flags += "--moe-expert-capacity-factor 1 --moe-pad-expert-input-to-capacity "
    if tp != "1":
        row.layout += "--sequence-parallel --expert-tensor-parallel-size 1 "
    return row


def precision_of(text):
    text = first(text)
    if text in ("BF16", "amp_bf16"):
        return "--bf16 "
    if text == "NVFP4":
        return "--bf16 --fp4-format e2m1 "
    return "--bf16 " + FP8 if text in ("FP8", "FP8-CS", "MXFP8", "FP8-MX", "amp_fp8", "FP8-tensorwise") else None


def llama_row(given, source):
    row = Row(source, " ".join([given["model"], given["system"], given["gpus"], first(given["precision"]), given["release"]]))
    name = given["model"].removesuffix(" 2-node").upper().replace("LLAMA3 ", "LLAMA3_")
    name = name.replace("LLAMA3.1_8B", "LLAMA3_8B").replace("LLAMA3.1_70B", "LLAMA3_70B")
    row.gpus, row.machine = int(given["gpus"]), MACHINES.get(given["system"], "dgx-h100")
    row.gbs = int(given["gbs"]) if given["gbs"] else 0
    kind = LLAMAS[name]
    row.flags = llama(*kind, given["seq"])
    row.parameters = llama_parameters(*kind)
    for key in ("tp", "pp", "cp", "vp", "fsdp"):
        given[key] = first(given[key])
    given.update(DOUBTFUL.get(row.name, ({}, ""))[0])
    if given["kind"] not in ("Pre-Training", "SFT"):  # SFT computes what pre-training does
        row.skipped = "fine-tuning of adapters (LoRA)"
    elif given["system"] not in MACHINES:
        row.skipped = "GPUs whose power is limited, at clocks that are not stated"
    elif not row.gbs:  # torchtitan's is one micro-batch of each replica
        row.gbs = int(given["mbs"]) * row.gpus // (int(given["tp"]) * int(given["pp"]) * int(given["cp"]))
    if given["fsdp"] not in ("", "0", "-"):
        row.source += FSDP
    if row.skipped:
        row.gbs = row.gbs or 1
        return row
    row.layout = layout_of(given, row.machine, row.gpus) + precision_of(given["precision"]) + (
        f"--hardware {hardware_file(loss_bytes=plan_recipes.LOSS_BYTES)} {DENSE}"
        f"--micro-batch-size {given['mbs']} --global-batch-size {row.gbs} ")
    if given["tp"] != "1":
        row.layout += "--sequence-parallel "
    row.seconds = row.gbs * int(given["seq"]) / float(first(given["tokens_s_gpu"])) / row.gpus
    if kind[0] % int(given["pp"]) or (given["vp"].isdigit() and kind[0] % (int(given["pp"]) * int(given["vp"]))):
        row.layout += "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split "
    return row


def llama_parameters(layers, hidden, heads, groups, ffn, vocab):
    head = hidden // heads
    layer = 2 * hidden * hidden + 2 * hidden * groups * head + 3 * hidden * ffn + 2 * hidden
    return layers * layer + 2 * vocab * hidden + hidden


def mpt_row(given):
    size, count = re.match(r"MPT-(\w+) \((\d+) params\)", given["model"]).groups()
    row = Row("llm-foundry H100" + FSDP,
              f"MPT-{size} {given['gpus']} seq {given['seq']} mbs {given['mbs']} {given['precision']}")
    layers, hidden, heads = MPTS[size]
    row.gpus, row.gbs, row.parameters = int(given["gpus"]), int(given["gbs"]), int(count)
    row.flags = shape(layers, hidden, heads, given["seq"], 50368) + (
        "--attention-dropout 0 --hidden-dropout 0 ")
    row.seconds = row.gbs * int(given["seq"]) / float(given["tokens_s_gpu"]) / row.gpus
    row.layout = f"--hardware {PYTHON.name} --nproc {row.gpus} {precision_of(given['precision'])} " + (
        "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather "
        f"--micro-batch-size {given['mbs']} --global-batch-size {row.gbs} ")
    if "ckpt True" in given["note"]:
        row.layout += "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 "
    return row


def any_row(given):
    """A row of a model, machine or layout that nothing here describes has no time, and says so."""
    try:
        return old_row(given) if "t_iter_s" in given else new_row(given)
    except (KeyError, ValueError, StopIteration, AttributeError) as problem:
        row = Row(given["source"].split(" ")[0].split("/")[-1], given["model"])
        row.skipped = f"not described here ({type(problem).__name__} {problem})"
        return row


def new_row(given):
    source, model = given["source"], given["model"]
    if "SimuMax" in source:
        return simumax_row(given)
    if model.startswith("MPT"):
        return mpt_row(given)
    if model.upper().startswith("LLAMA"):
        return llama_row(given, {"MooreThreads": "", "NVIDIA-NeMo/Megatron-Bridge": "Megatron-Bridge",
                                 "NVIDIA-NeMo/Automodel": "Automodel", "pytorch/torchtitan": "torchtitan"}[
                                     source.split(" ")[0]])
    if model.startswith("GPT OSS") and given["fsdp"] in ("", "0"):
        return oss_row(given, source.split(" ")[0].split("/")[1])
    if model.upper().startswith("QWEN3"):
        return qwen_row(given, source.split(" ")[0].split("/")[1])
    if model.upper().startswith(("DEEPSEEK V3", "DEEPSEEKV3", "KIMI")):
        return latent_row(given, source.split(" ")[0].split("/")[1])
    row = Row(source.split(" ")[0].split("/")[1], model + " " + given["gpus"])
    if model.startswith("Qwen2.5"):
        row.skipped = "fine-tuning"
        return row
    found = re.match(r"GPT-[\d.]+B \(heads (\d+) hidden (\d+) layers (\d+)\)", model)
    if not found:
        row.skipped = next(why for name, why in LACKING.items() if model.upper().startswith(name))
        row.source += FSDP if given["fsdp"] not in ("", "0", "-") and model.startswith("GPT-OSS") else ""
        return row
    heads, hidden, layers = found.groups()
    row.gbs = int(given["gbs"])
    row.flags = shape(layers, hidden, heads, given["seq"], 131072) + "--untie-embeddings-and-output-weights "
    row.parameters, row.flops = gpt_counts(
        {"hidden": hidden, "layers": layers, "seq": given["seq"], "gbs": given["gbs"], "vocab": 131072})
    row.parameters += 131072 * int(hidden)
    row.gpus = int(given["gpus"])
    full = row.flops + 72 * row.gbs * int(given["seq"])**2 * int(layers) * int(hidden) / 12
    row.seconds = full / float(given["tflops_gpu"]) / 1e12 / row.gpus  # it counts all scores
    return assume_small_batches(row, given)


def percent(planned, measured):
    return 100 * (planned / measured - 1)


def error(row):
    return percent(row.found["step_seconds"], row.seconds)


def describe(row):
    text = f"{row.source[:24]:24} {row.name[:52]:52}"
    if row.found and row.parameters:
        text += f" params {percent(row.found['parameters'], row.parameters):+6.2f} %"
    if row.found and row.flops:
        text += f" flops {percent(row.found['model_flops_per_step'], row.flops):+6.2f} %"
    if row.found and row.active:
        text += f" active {percent(row.found['active_parameters'], row.active):+6.2f} %"
    if row.published_flops:
        text += f" its own FLOPs {percent(row.published_flops, row.flops):+6.2f} %"
    if row.skipped:
        return text + f"  no time: {row.skipped}"
    if row.gib:
        planned = row.planned_gib()
        text += f" {planned:7.2f} GiB {row.gib:7.2f} {percent(planned, row.gib):+6.1f} %"
    return text + f" {row.found['step_seconds']:9.3f} s {row.seconds:9.3f} s {error(row):+6.1f} %"


def own(program):
    rows = [(kind, *model) for kind in (0, 1) for model in OURS]
    for kind, name, layers, hidden, heads, seq, batch, vocab, ffn, speeds, gigabytes in rows:
        row = Row("H200, this program", name + (" fp8" if kind else ""))
        row.flags = shape(layers, hidden, heads, seq, vocab) + (LLAMA + ffn if ffn else "") + (
            " --attention-dropout 0 --hidden-dropout 0 ")
        row.layout = f"--bf16 {FP8 if kind else ''}--micro-batch-size {batch} --global-batch-size {batch} --nproc 1 "
        row.machine, row.seconds, row.gib = "p5en.48xlarge", batch * seq / speeds[kind], gigabytes[kind] * 1e9 / 2**30
        print(describe(row.plan(program)))
    for name, layers, hidden, heads, width, experts, chosen, batch, vocab, milliseconds, gigabytes in OUR_EXPERTS:
        row = Row("H200, this program", name)
        row.flags = shape(layers, hidden, heads, 4096, vocab) + LLAMA + (
            f"{width} --num-experts {experts} --moe-router-topk {chosen} --moe-aux-loss-coeff 0.01 "
            "--attention-dropout 0 --hidden-dropout 0 ")
        row.layout = f"--bf16 --micro-batch-size {batch} --global-batch-size {batch} --nproc 1 "
        row.machine, row.seconds, row.gib = "p5en.48xlarge", milliseconds / 1000, gigabytes * 1e9 / 2**30
        print(describe(row.plan(program)))


def show_group(line, name, rows):
    errors = sorted(error(r) for r in rows if not r.skipped)
    good = sum(abs(e) <= 10 for e in errors)
    if errors:
        print(line.format(name, len(rows), len(errors), f"{good} ({100 * good / len(errors):.0f} %)",
                          f"{errors[0]:+.1f} … {errors[-1]:+.1f} %", f"{sum(errors) / len(errors):+.1f} %"))
    else:
        print(line.format(name, len(rows), 0, "–", "–", "–"))


def summary(rows, markdown):
    line = "| {} | {} | {} | {} | {} | {} |" if markdown else "{:42} {:>5} {:>6} {:>12} {:>20} {:>9}"
    print(line.format("source", "rows", "timed", "within 10 %", "smallest … largest", "mean"))
    if markdown:
        print("|---|---:|---:|---:|---:|---:|")
    sources = list(dict.fromkeys(r.source for r in rows))
    for source in sorted(sources, key=lambda s: s.endswith((FSDP, FP8_EXPERTS))):
        show_group(line, source, [r for r in rows if r.source == source])
    stated = [r for r in rows if not r.source.endswith((FSDP, ASSUMED))]
    show_group(line, "all with a stated layout", stated)
    show_group(line, "without those that their source contradicts", [r for r in stated if not r.contradicted])
    exact = [r for r in rows if r.found and r.parameters]
    equal = sum(round(r.parameters) == r.found["parameters"] for r in exact)
    counted = [percent(r.found["model_flops_per_step"], r.flops) for r in exact if r.flops]
    print(f"\nParameters are equal in {equal} of {len(exact)} rows, FLOPs within 0.1 % in "
          f"{sum(abs(e) < 0.1 for e in counted)} of {len(counted)}.")
    experts = [r for r in exact if r.active]
    equal = sum(r.active == r.found["active_parameters"] for r in experts)
    told = [percent(r.published_flops, r.flops) for r in experts if r.published_flops]
    if told:
        print(f"Parameters that a token meets are equal in {equal} of {len(experts)} rows with experts; the TFLOP/s of "
              f"{len(told)} of them, times their seconds, are {min(told):+.1f} … {max(told):+.1f} % off.")
    print()
    memory = sorted(percent(r.planned_gib(), r.gib) for r in rows if r.gib and not r.skipped)
    if memory:
        print(f"Memory of {len(memory)} rows is {memory[0]:+.1f} … {memory[-1]:+.1f} % off the published one, "
              f"{sum(abs(e) <= 3 for e in memory)} of them within 3 %.\n")
    for why, count in collections.Counter(r.skipped for r in rows if r.skipped).most_common():
        print(f"- {count} rows have no time: {why}.")
    for row in rows:
        if row.published_flops and abs(percent(row.published_flops, row.flops)) > 1.5:
            print(f"- doubtful: {row.source} {row.name}: its TFLOP/s and its seconds give "
                  f"{percent(row.published_flops, row.flops):+.1f} % of the model's FLOPs.")
        if row.contradicted:
            print(f"- contradicted: {row.source} {row.name}, {error(row):+.1f} %: {row.contradicted}.")
        if row.name in DOUBTFUL and not row.skipped:
            print(f"- doubtful: {row.source} {row.name}, {error(row):+.1f} %: {DOUBTFUL[row.name][1]}.")


def main():
    arguments = [a for a in sys.argv[1:] if a != "--markdown"]
    only = ""
    if "--source" in arguments:
        i = arguments.index("--source")
        only = arguments[i + 1]
        del arguments[i:i + 2]
    if not arguments:
        sys.exit(__doc__)
    if len(arguments) == 1:
        return own(arguments[0])
    rows = []
    for path in arguments[1:]:
        with open(path, newline="") as file:
            rows += [any_row(r) for r in csv.DictReader(file)]
    if any(r.source == SOURCES["megatron2020"] for r in rows):
        rows += [*volta_rows(), *(old_row(r) for r in plan_papers.rows()), *nemo_rows()]
    rows = [r for r in rows if only in r.source]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(lambda r: r.plan(arguments[0]), rows))
    if "--markdown" not in sys.argv:
        for row in rows:
            print(describe(row))
        print()
    summary(rows, "--markdown" in sys.argv)


if __name__ == "__main__":
    main()
