"""How Megatron-Bridge runs models with experts, as its recipes say (scripts/performance/configs of v0.1.0 to v0.5.0), in
words of `bevatron plan`: rows of a --hardware file and flags. plan_rows.py plans its published rows with them.

A release's recipes are those of a tag: 25.09 is v0.1, 25.11 v0.2, 26.02 v0.3.0, 26.02.01 v0.3.1, 26.04 v0.4.0, 26.04.01
v0.4.2, 26.06 v0.5.
"""
# Transformer Engine launches a matmul for each expert: SimuMax's times of them on a B200 (tests/plan/test_grouped.c).
EXPERTS = {"expert-rows": 170, "expert-inner": 376, "expert-us": 9.3, "permute": 0.75}
# SimuMax adds 30 µs to operations that only move data, as it measured them on a B200 (configs/system/b200_bf16_ceperm.json,
# 2026-05: bandwidth, latency_us); moves to the order of experts and back reach 0.501 / 0.666 of what others do (permute).
MOVE_US = 30
# Where micro-batches are small, Python itself is the limit, which routing keeps from running ahead. An operation of a
# plan stands for several of Megatron's. Rows with micro-batches of 1 say how long it takes for one: Qwen3 30B and 235B on
# B200 take 8.8 ms for a layer with a graph of the router and 11.1 ms without one, in MXFP8; 30B on H100 takes 9.6 ms
# (26.04) with one scale for each tensor, which needs fewer kernels. bf16 is taken to need as many as that.
HOST_US = {"MXFP8": 170, "FP8": 150, "BF16": 150}
BF16_HOST_US = HOST_US["BF16"]
# To hide what goes to other ranks behind another micro-batch, Megatron calls the parts of layers one by one and computes
# gradients of weights apart: the same model takes 1.43 times as long on B300 that way in 26.02 as on B200 without.
HIDING = 1.43
# The part of a layer's 54 operations that stays outside of CUDA graphs: of none, of the router, of attention and router.
OUTSIDE = {"": 1, "router": 0.82, "attention": 0.45, "all": 0}
# Bytes that kernels of the loss move for each logit beyond the 6 of this program: Transformer Engine's scale the gradient
# once more (cross_entropy_fusion_impl "te", which all recipes have); Megatron-Core's own write fp32 copies: 6 for the
# maximum, 8 for the exponential, 8 to divide, 6 backward (core/fusions/fused_cross_entropy.py, each compiled alone).
LOSS_BYTES, NATIVE_LOSS_BYTES = 10 - 6, 28 - 6
# Bytes that Megatron-Core moves for each gradient in fp32 once a step (core_v0.15.0, core/distributed/param_and_grad_buffer.py):
# it zeroes them, computes their norm to find what is not a number, and scales them where there are several replicas.
CHECK_BYTES, SCALE_BYTES = 4 + 4, 8
# Attention in MXFP8 (fp8_dot_product_attention, from 26.06 on in recipes with one kernel for all experts; of DeepSeek-V3
# only on GB300): how much faster it is than in bf16, forward and backward, with 4096 tokens (cudnn-frontend
# benchmark/sdpa_benchmark_training/results, 2026-04: heads of 128; of 192 and 128 in latent attention; of 64).
FP8_ATTENTION = {"DGX-GB200": (1.20, 0.92), "DGX-GB300": (1.33, 0.92), "DGX-B300": (1.33, 0.92)}
FP8_LATENT_ATTENTION = {"DGX-GB300": (1.58, 1.33)}
FP8_NARROW_ATTENTION = {"DGX-GB200": (1.0, 0.97), "DGX-GB300": (1.15, 0.98)}
# TFLOP/s of attention in bf16 (src/plan/hardware.c).
ATTENTION = {"DGX-GB200": (1490, 1160), "DGX-GB300": (1775, 1270), "DGX-B300": (1310, 945)}
# Bytes for each element that a matmul of experts reads: separate kernels read 16 bits and write 8 in rows and columns.
QUANTIZE_BYTES = 4


def seen_by(places, chosen):
    """Of `places`, how many the `chosen` experts of a token are in, if they are drawn from all."""
    return places * (1 - (1 - 1 / places)**chosen)


def once_to_each(chosen, ranks, joined, network, link=590):
    """DeepEP and Hybrid-EP send a token once to each rank that NVLink joins, however many of its experts are there, and
    once to each other machine. Hybrid-EP's kernels send at 738 GB/s on 8 GB200 (DeepEP pull request 420), an eighth of it
    to themselves, and bring back at 520 / 616 of that: 590 GB/s of NVLink on average, where SimuMax's all-to-all reaches
    0.89 × 606; half of that is assumed for H100, whose NVLink has half the rate. They take rows from where they are, which is half of all moves to the order of experts and back. Between
    machines they reach what all-to-all does (DeepEP's README: 43 to 58 GB/s of 50 on H100)."""
    near = min(ranks, joined)
    rows = {"link_gigabytes": round(link / 0.89 * chosen / seen_by(near, chosen) * near / ranks, 1),
            "permute": 2 * EXPERTS["permute"]}
    if ranks > joined:
        machines = ranks // joined
        sent = seen_by(machines, chosen) * (machines - 1) / machines
        rows["network_gigabytes"] = round(network * chosen * (machines - 1) / machines / sent, 1)
        rows["exchange_gigabytes"] = 0
    return rows


def qwen_recipe(model, system, release, precision, given):
    """Graphs, how rows go to experts of other ranks, whether that is hidden, and whether one kernel computes all
    experts."""
    if "note" in given and "Megatron-MoE-ModelZoo" in given["source"]:
        note = given["note"]
        return "", "hybrid" if "DeepEP" in note else "all-to-all", "overlap" in note, False
    if "awsome-distributed-ai" in given["source"]:
        return "", "all-to-all", "overlap on" in given["note"], False
    is_rack = system in ("DGX-GB200", "DGX-GB300")
    is_small, is_fp8 = model == "QWEN3_30B", precision != "BF16"
    if is_fp8 and release >= "26.06" and (is_rack or (system == "DGX-B300" and is_small)):
        return "all", "hybrid", True, True
    graphs, sent, hides = "", "all-to-all", False
    if release < "25.11":  # drops tokens beyond capacities, so that graphs hold whole layers
        graphs = "all"
    elif is_rack:
        graphs, sent = "attention", "hybrid"
        if is_small and is_fp8:
            graphs = "router"
    elif system == "DGX-B300":
        graphs = "router" if is_small else ""
        sent = "hybrid" if is_small or release >= "26.04.01" else "all-to-all"
        hides = not is_small and release < "26.04"
    elif system == "DGX-B200" and is_small:
        graphs, sent = ("router", "all-to-all") if release <= "26.02" else ("attention", "hybrid")
    elif system == "DGX-H100":
        sent = "all-to-all" if release < "26.02" else "hybrid"
        hides = given["pp"] != "1"
    return graphs, sent, hides, False


def kind_of(precision):
    return "MXFP8" if "MX" in precision else "BF16" if precision == "BF16" else "FP8"


def fp8_attention_rows(system, gains):
    """Rows of attention in MXFP8 where the recipe has it."""
    if system not in gains:
        return {}
    (forward, backward), (faster, also) = ATTENTION[system], gains[system]
    return {"attention_forward_tflops": forward * faster, "attention_backward_tflops": backward * also}


def recipe_rows(recipe, precision, chosen, ranks, machine):
    """The rows of a --hardware file; `machine` says how many GPUs NVLink joins, and the GB/s of each between machines
    and of NVLink."""
    graphs, sent, hides, is_fused = recipe
    rows = dict(EXPERTS) if not is_fused else {"permute": EXPERTS["permute"]}
    rows["loss_bytes"] = LOSS_BYTES
    rows["move_us"], rows["host_us"] = MOVE_US * OUTSIDE[graphs], HOST_US[kind_of(precision)] * OUTSIDE[graphs]
    if "FP8" in precision:  # these rates stand for experts in fp8, which are not this program's
        rows["expert_quantize_bytes"] = QUANTIZE_BYTES
    if hides:
        rows["host_us"] *= HIDING
    if sent == "hybrid":
        rows.update(once_to_each(chosen, ranks, *machine))
    return rows


# Megatron-Core adds the last biases of experts expert by expert, with kernels of PyTorch's, and limits what their
# activations read outside of the fused kernel (core_v0.15.0 to core_v0.19.0: TEGroupedMLP._apply_bias in
# core/transformer/moe/experts.py, weighted_bias_quick_geglu_impl in core/fusions/fused_bias_geglu.py). Bytes that these
# read and write for each element: t + b * p is 12 forward and 16 backward in bf16, 28 and 40 where p, the weight of an
# expert, is fp32, as Hybrid-EP wants it; two clamps and a concatenation are 16 and 20, and 16 where computed again.
BIAS_BYTES, WIDE_BIAS_BYTES, LIMIT_BYTES, AGAIN_BYTES = 12 + 16, 28 + 40, 16 + 20, 16
# YaRN scales cosines, which the fused rotation does not know (core/models/common/embeddings/rope_utils.py: mscale != 1):
# PyTorch's kernels multiply, negate, join, add and join again, 24 bytes forward and 26 backward, instead of 4 and 4.
ROPE_BYTES = 24 + 26 - 8
# The recipes of GPT OSS (scripts/performance/configs/gpt_oss). Others than GB300 and B300 compute norms and activations
# again and have no CUDA graphs; those two have them of attention and router.
OSS_GRAPHS = ("DGX-GB300", "DGX-B300")
# With Hybrid-EP: B300 from 26.04 on, GB200 and B200 in 26.04 (v0.4.0) but not in 26.04.01 (v0.4.2). GB200 hides rows behind
# another micro-batch from 26.04 on.
OSS_HYBRID = {"26.04": ("DGX-GB200", "DGX-B200", "DGX-B300"), "26.04.01": ("DGX-B300",), "26.06": ("DGX-B300",)}
OSS_FUSED = ("DGX-GB200", "DGX-GB300")  # in fp8, from 26.06 on


def oss_recipe(system, release, is_fp8):
    if is_fp8 and system in OSS_FUSED:
        return "all", "hybrid", True, True
    graphs = "attention" if system in OSS_GRAPHS else ""
    hides = system == "DGX-GB200" and release >= "26.04"
    return graphs, "hybrid" if system in OSS_HYBRID.get(release, ()) else "all-to-all", hides, False


def oss_rows(recipe, precision, ranks, machine, system):
    graphs, sent, _, is_fused = recipe
    rows = recipe_rows(recipe, precision, 4, ranks, machine)
    rows["rope_bytes"] = ROPE_BYTES
    if is_fused:  # and attention in fp8, whose backward pass computes what windows hide (the same tables)
        rows.update(fp8_attention_rows(system, FP8_NARROW_ATTENTION))
        rows["outside_window"] = 1  # as wide as the model: two of five results are quantized apart
        rows["expert_quantize_bytes"] = QUANTIZE_BYTES * 2 / 5
    else:
        rows["expert_bias_bytes"] = WIDE_BIAS_BYTES if sent == "hybrid" else BIAS_BYTES
        rows["expert_limit_bytes"] = LIMIT_BYTES + (0 if graphs else AGAIN_BYTES)
    return rows


def recipe_flags(recipe):
    return "--overlap-moe-expert-parallel-comm " if recipe[2] else ""
