"""Published runs that are in no file of rows: the other rows of the tables of Narayanan et al. 2021 and Korthikanti et al.
2022, and NeMo's table of 2024. plan_rows.py plans them beside the files. No constant was chosen with them in view.

Seconds of Narayanan's are those that their TFLOP/s give, with all that is computed again; of Korthikanti's 2240 GPUs, those
that MFU gives.
"""
# Layers, hidden size, heads.
SHAPES = {"3.6B": (30, 3072, 32), "39B": (48, 8192, 64), "310B": (96, 16384, 128), "1T": (128, 25600, 160),
          "22B": (48, 6144, 64), "175B": (96, 12288, 96), "530B": (105, 20480, 128)}
# Model, TP, PP, virtual stages, GPUs, micro-batch, batch, TFLOP/s (table 1; table 2's PTD-P, which states TP × PP, and whose
# virtual stages are those of table 1).
NARAYANAN = [("3.6B", 2, 1, 1, 64, 16, 512, 138), ("39B", 8, 2, 1, 512, 4, 1536, 138), ("310B", 8, 16, 2, 1920, 1, 2160, 155),
             ("1T", 8, 64, 1, 3072, 1, 3072, 163), ("175B", 8, 12, 1, 384, 1, 1536, 153), ("175B", 8, 12, 1, 768, 1, 1536, 149),
             ("175B", 8, 12, 1, 1536, 1, 1536, 141), ("530B", 8, 35, 3, 560, 1, 2240, 171),
             ("530B", 8, 35, 3, 1120, 1, 2240, 167), ("530B", 8, 35, 3, 2240, 1, 2240, 159)]
# Model, PP, virtual stages, GPUs, micro-batch, batch, seconds with full recompute (table 5).
KORTHIKANTI = [("22B", 1, 1, 8, 4, 4, 1.42), ("175B", 8, 3, 64, 1, 64, 18.13), ("530B", 35, 3, 280, 1, 280, 49.05),
               ("1T", 64, 1, 512, 1, 512, 94.42)]
# 530B on 2240 GPUs: what is computed again, and MFU (its abstract).
EIGHTFOLD = [("selective+sp", 0.542), ("full", 0.421)]
# NeMo 24.07 on DGX H100 in fp8: model, GPUs, batch, micro-batch, length, TP, PP, CP, virtual stages, tokens/s of a GPU.
NEMO = [("GPT3-5B", 64, 2048, 4, 2048, 1, 1, 1, 1, 23406), ("GPT3-20B", 64, 256, 2, 2048, 2, 1, 1, 1, 5851),
        ("GPT3-175B", 128, 256, 1, 2048, 4, 8, 1, 6, 716), ("GPT3-175B", 512, 2048, 2, 2048, 4, 8, 1, 6, 825),
        ("Llama2-7B", 8, 128, 1, 4096, 1, 1, 1, 1, 16934), ("Llama2-13B", 16, 128, 1, 4096, 1, 4, 1, 10, 8715),
        ("Llama2-70B", 64, 128, 1, 4096, 4, 4, 1, 20, 1728), ("Nemotron-340B", 128, 32, 1, 4096, 8, 8, 1, 12, 326),
        ("Llama3-8B", 8, 128, 1, 8192, 1, 1, 2, 1, 12273), ("Llama3-70B", 64, 128, 1, 8192, 4, 4, 2, 5, 1524)]
# GPT-3's of NeMo: layers, hidden size, heads; vocabulary 51200. Its TFLOP/s and tokens/s give their FLOPs.
NEMO_GPTS = {"GPT3-5B": (24, 4096, 32), "GPT3-20B": (44, 6144, 48), "GPT3-175B": (96, 12288, 96)}
NEMOTRON = (96, 18432, 96, 8, 73728, 256000)  # and KV heads, FFN, vocabulary; squared ReLU


def flops(layers, hidden, batch, passes):
    """Of a step with so many passes, a backward pass counting as two; 2048 tokens, vocabulary 51200 (of which nothing is
    computed again)."""
    return 24 * passes * batch * 2048 * layers * hidden**2 * (1 + 2048 / 6 / hidden + 51200 / 4 / passes / layers / hidden)


def rows():
    """In the form of a file of rows of the papers."""
    for model, tp, pp, vpp, gpus, mbs, gbs, rate in NARAYANAN:
        layers, hidden, _ = SHAPES[model]
        yield row("narayanan_more", model, (tp, pp, vpp, gpus, mbs, gbs), "full", flops(layers, hidden, gbs, 4) / rate / 1e12 / gpus)
    for model, pp, vpp, gpus, mbs, gbs, seconds in KORTHIKANTI:
        yield row("korthikanti_more", model, (8, pp, vpp, gpus, mbs, gbs), "full", seconds)
    for recompute, mfu in EIGHTFOLD:
        yield row("korthikanti_more", "530B", (8, 35, 3, 2240, 1, 2240), recompute, flops(105, 20480, 2240, 3) / 2240 / 312e12 / mfu)


def row(source, model, layout, recompute, seconds):
    layers, hidden, heads = SHAPES[model]
    tp, pp, vpp, gpus, mbs, gbs = layout
    return {"source": source, "model": model + " " + recompute, "gpu": "A100-80", "gpus": gpus, "layers": layers, "hidden": hidden,
            "heads": heads, "seq": 2048, "vocab": 51200, "tp": str(tp), "pp": str(pp), "vpp": str(vpp), "mbs": mbs, "gbs": gbs,
            "recompute": recompute, "t_iter_s": seconds}
