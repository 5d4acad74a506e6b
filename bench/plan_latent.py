"""DeepSeek-V3 and Kimi K2 in words of `bevatron plan`: their parameters, and how Megatron-Bridge and awsome-distributed-ai
run them. plan_rows.py plans their published rows with it.

Sources: scripts/performance/configs/deepseek and kimi, and recipes/deepseek and recipes/kimi, of Megatron-Bridge v0.1.0 to
v0.5.1 (25.09 is v0.1, 25.11 v0.2, 26.02 v0.3.0, 26.02.01 v0.3.1, 26.04 v0.4.0, 26.04.01 v0.4.2, 26.06 v0.5.0, 26.06.01
v0.5.1); awsome-distributed-ai 3.test_cases/megatron/megatron-bridge/dsv3 and kimi-k2, benchmarks. All force balanced routing.
"""
HIDDEN, LAYERS, FFN, WIDTH, CHOSEN = 7168, 61, 18432, 2048, 8
# Dense layers, experts, heads, vocabulary.
MODELS = {"DEEPSEEKV3": (3, 256, 128, 129280), "KIMI": (1, 384, 64, 163840)}
KIMI = ("--num-attention-heads 64 --num-experts 384 --moe-layer-freq [0]+[1]*60 --moe-router-num-groups 1 "
        "--moe-router-group-topk 1 --moe-router-topk-scaling-factor 2.827 ")
# The layers of the recipes' chunks by their number: as many as each has, and the last what is left.
EACH = {4: 16, 8: 8, 16: 4}


def name_of(model):
    return "KIMI" if model.upper().startswith("KIMI") else "DEEPSEEKV3"


def flags_of(model, depths, seq):
    dense, _, _, vocab = MODELS[model]
    return ("--preset deepseek-v3 " + (KIMI if model == "KIMI" else "") +
            f"--vocab-size {vocab} --make-vocab-size-divisible-by 1 --seq-length {seq} --max-position-embeddings {seq} "
            "--attention-dropout 0 --hidden-dropout 0 " + (f"--mtp-num-layers {depths} " if depths else ""))


def counts(model, depths, gbs, seq):
    """Parameters, those that a token meets, and FLOPs of a step as Megatron counts them: without the router, of causal
    attention half. A depth has a layer, a projection of 2 × hidden size, three norms, and uses the head again."""
    dense, experts, heads, vocab = MODELS[model]
    projections = HIDDEN * (1536 + 576) + heads * (1536 * 192 + 512 * 256 + 128 * HIDDEN)
    norms = 2 * HIDDEN + 1536 + 512
    expert = 3 * HIDDEN * WIDTH
    sparse = LAYERS - dense + depths
    rest = (LAYERS + depths) * (projections + norms) + dense * 3 * HIDDEN * FFN + sparse * (expert + experts * HIDDEN) + (
        depths * (2 * HIDDEN * HIDDEN + 3 * HIDDEN) + 2 * vocab * HIDDEN + HIDDEN)
    matmuls = (LAYERS + depths) * projections + dense * 3 * HIDDEN * FFN + sparse * (1 + CHOSEN) * expert + (
        depths * 2 * HIDDEN * HIDDEN + (1 + depths) * vocab * HIDDEN)
    scores = (LAYERS + depths) * seq * heads * (192 + 128) / 2
    return rest + sparse * experts * expert, rest + sparse * CHOSEN * expert, 6 * gbs * seq * (matmuls + scores)


def layout(chunks, depths):
    """Of Megatron-Bridge's recipes: 61 layers in 32 chunks leave the last one without any."""
    end = "m" * depths + "L"
    if chunks == 32:
        return "Et|(tt|)*30" + end
    each = EACH[chunks]
    return f"Et*{each}|(t*{each}|)*{chunks - 2}t*{LAYERS - each * (chunks - 1)}" + end


def recipe(system, release, precision, model, note):
    """Graphs, how rows go to experts of other ranks, whether that is hidden, whether one kernel computes all experts; as
    plan_recipes has them for others."""
    is_rack = system in ("DGX-GB200", "DGX-GB300")
    if note:
        return "", "all-to-all" if "NCCL" in note else "hybrid", "overlap on" in note, False
    if release < "25.11":
        return "", "hybrid" if system == "DGX-H100" else "all-to-all", system == "DGX-H100", False
    if model == "KIMI":
        return "", "hybrid", False, False
    if is_rack and release >= "26.06" and precision == "MXFP8":
        return "all", "hybrid", True, True
    if release < "26.02":
        return "attention" if system == "DGX-GB300" else "router", "hybrid", False, False
    if system == "DGX-GB200":
        return "attention", "hybrid", False, False
    if system == "DGX-B200" and release >= "26.04.01":
        return "attention", "hybrid", True, False
    if system == "DGX-B300" and release >= "26.04.01":
        return "attention", "hybrid", False, False
    return "", "hybrid", False, False


def recompute(system, release, precision, note):
    """What is computed again besides mla_up_proj, which the rows leave out."""
    if "overlap off" in note:
        return "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 "
    if system == "DGX-H100" or (system == "DGX-B200" and release >= "26.04.01") or (
            system == "DGX-GB200" and release.startswith("26.04")):
        return "--recompute-granularity selective --recompute-modules mlp_act "
    if system == "DGX-GB300" and (release < "26.02" or precision == "BF16"):
        return "--recompute-granularity selective --recompute-modules moe_act "
    return ""
