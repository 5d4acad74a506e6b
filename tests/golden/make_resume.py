#!/usr/bin/env python3
"""Writes tests/golden/resume/NAME: small GPTs that megatron-core trained for five iterations on a CPU and saved with
their optimizers (see megatron_run.py), each beside NAME.safetensors with the states that its optimizer then had, as
STATE.NAME in our names and order. Needs torch, megatron-core, psutil and safetensors, and for the formats of earlier
releases OLD_MEGATRON and OLDER_MEGATRON, folders with megatron-core 0.12 and 0.10 (pip install --no-deps --target). Run
from the repository's root."""
import os
import shutil
import socket
import subprocess
import sys

FOLDER = "tests/golden/resume"
# Name, kind, 16 bits, tensor- and data-parallel ranks, distributed optimizer, format.
CASES = [("torch_bf16_tp2", "llama", "bfloat16", 2, 1, False, "torch"),
         ("torch_buffers", "gpt", "bfloat16", 1, 2, True, "torch"),
         ("torch_fp16", "gpt", "float16", 1, 1, False, "torch"),
         ("torch_experts_ep2", "llama_experts", "bfloat16", 1, 2, False, "torch"),
         ("torch_experts_ep2_buffers", "llama_experts", "bfloat16", 1, 4, True, "torch"),
         ("dist_bf16_dp2", "llama", "bfloat16", 1, 2, True, "fully_reshardable"),
         ("dist_buckets_tp2", "llama", "bfloat16", 2, 1, True, "dp_reshardable"),
         ("dist_buckets_dp2", "gpt", "float16", 1, 2, True, "dp_reshardable"),
         ("dist_buckets_pp2", "gpt", "bfloat16", 1, 1, True, "dp_reshardable"),
         ("dist_flat_tp2", "llama", "bfloat16", 2, 1, True, "fully_sharded_model_space"),
         ("dist_old_buckets_dp2", "gpt", "bfloat16", 1, 2, True, "fully_sharded_bucket_space")]
LAYERS = {"dist_buckets_tp2": 1, "dist_buckets_dp2": 1, "dist_old_buckets_dp2": 1}
STAGES = {"dist_buckets_pp2": 2}
BUCKETS = {"dist_buckets_dp2": 300}
EXPERT_RANKS = {"torch_experts_ep2": 2, "torch_experts_ep2_buffers": 2}  # among the data-parallel ones


def in_our_order(run, name, tensor):
    """Queries, keys and values are together by group there, and apart here."""
    if "linear_qkv.weight" not in name and "linear_qkv.bias" not in name:
        return tensor
    groups, queries, channels = (2, 2, run.hidden // 4) if run.kind.startswith("llama") else (4, 1, run.hidden // 4)
    parts = tensor.reshape(groups, queries + 2, channels, -1)
    apart = [parts[:, :queries], parts[:, queries:queries + 1], parts[:, queries + 1:]]
    return __import__("torch").cat([part.reshape(-1, part.shape[-1]) for part in apart]).reshape(tensor.shape)


def whole(run, name, parameter, tensor):
    """Joins the shards of tensor-parallel ranks."""
    import torch
    if run.tp == 1 or not getattr(parameter, "tensor_model_parallel", False):
        return tensor
    parts = [torch.empty_like(tensor) for _ in range(run.tp)]
    torch.distributed.all_gather(parts, tensor.contiguous())
    if "linear_fc1" in name and run.kind == "llama":  # halves of each rank
        parts = [part.chunk(2)[half] for half in range(2) for part in parts]
    return torch.cat(parts, dim=parameter.partition_dim)


def of_range(inner, parameter):
    """What this rank has of a parameter's states."""
    if hasattr(inner, "_get_main_param_and_optimizer_states"):
        return inner._get_main_param_and_optimizer_states(parameter)
    group, place = inner.model_param_group_index_map[parameter]  # up to core 0.10
    main = inner.optimizer.param_groups[group]["params"][place]
    return {"param": main} | inner.optimizer.state[main]


def from_ranges(inner, parameter, key):
    """Joins the ranges that data-parallel ranks have of a state, as bits."""
    import torch
    full = torch.zeros(parameter.numel())
    if parameter in inner.model_param_gbuf_map:
        part = inner._get_model_param_range_map(parameter)["param"]
        full[part.start:part.end] = of_range(inner, parameter)[key].detach()
    torch.distributed.all_reduce(full.view(torch.int32), group=inner.data_parallel_group)
    return full.view(parameter.shape)


def states(run):
    import torch
    result = {}
    for name, parameter in run.model.named_parameters():
        inner = getattr(run.optimizer, "chained_optimizers", [run.optimizer])[not getattr(parameter, "allreduce", True)]
        if run.distributed:
            found = {key: from_ranges(inner, parameter, key) for key in ("exp_avg", "exp_avg_sq", "param")}
            found["master"] = found.pop("param")
        else:
            main = getattr(parameter, "main_param", parameter)
            found = {key: inner.optimizer.state[main][key] for key in ("exp_avg", "exp_avg_sq")}
            if run.dtype != torch.float32:
                found["master"] = main.detach()
        first = torch.distributed.get_rank() // run.tp * run.layers // run.pp if run.pp > 1 else 0
        parts = name.split(".")
        name = ".".join(str(int(part) + first) if part.isdigit() else part for part in parts)
        if run.pp > 1 and name == "output_layer.weight":
            continue  # the second copy of a tied embedding
        for key, tensor in found.items():
            result[f"{key}.{name}"] = in_our_order(run, name, whole(run, name, parameter, tensor)).contiguous().clone()
    return result


def join_experts(run, found):
    """Those of all ranks, in one tensor for each layer."""
    import torch
    from megatron.core import parallel_state
    all_found = [None] * run.ep
    torch.distributed.all_gather_object(all_found, found, group=parallel_state.get_expert_model_parallel_group())
    joined = {}
    for part in all_found:
        for name, tensor in part.items():
            before, _, after = name.partition("local_experts.")
            if after:
                joined.setdefault(before + after.partition(".")[2], []).append(tensor)
            else:
                joined[name] = tensor
    return {name: torch.stack(value) if isinstance(value, list) else value for name, value in joined.items()}


def rank_main(name):
    import torch
    from safetensors.torch import save_file
    import megatron_run
    _, kind, dtype, tp, dp, distributed, form = next(case for case in CASES if case[0] == name)
    pp, ep = STAGES.get(name, 1), EXPERT_RANKS.get(name, 1)
    megatron_run.start(tp, pp, ep)
    run = megatron_run.Run(kind, getattr(torch, dtype), tp, dp, distributed, iterations=20, layers=LAYERS.get(name, 1 if form == "torch" else 2), hidden=8, ffn=12, vocabulary=12, length=8, pp=pp,
                           bucket=BUCKETS.get(name), ep=ep)
    torch.manual_seed(3)
    for _ in range(5):
        run.step_on_noise() if pp > 1 else run.step(torch.randint(0, run.vocabulary, (run.batch, run.length + 1)))
    run.save_torch(f"{FOLDER}/{name}") if form == "torch" else run.save_dist(f"{FOLDER}/{name}", form)
    found = states(run) if ep == 1 else join_experts(run, states(run))
    if pp > 1:
        all_found = [None] * pp
        torch.distributed.all_gather_object(all_found, found)
        found = {key: tensor for part in all_found for key, tensor in part.items()}
    if torch.distributed.get_rank() == 0:
        save_file(found, f"{FOLDER}/{name}.safetensors")


def spoil():
    """Files that must be refused: two fp32 copies exchanged, states of another optimizer."""
    import torch
    for name in ("exchanged", "sgd"):
        state = torch.load(f"{FOLDER}/torch_fp16/iter_0000005/mp_rank_00/model_optim_rng.pt", weights_only=False)
        inner, copies = state["optimizer"]["optimizer"], state["optimizer"]["fp32_from_fp16_params"]
        if name == "exchanged":
            copies[1][0], copies[1][1] = copies[1][1], copies[1][0]
        else:
            inner["state"] = {i: {"momentum_buffer": states["exp_avg"]} for i, states in inner["state"].items()}
        os.makedirs(f"{FOLDER}/{name}/mp_rank_00", exist_ok=True)
        torch.save(state, f"{FOLDER}/{name}/mp_rank_00/model_optim_rng.pt")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--rank":
        rank_main(sys.argv[2])
        sys.exit()
    if sys.argv[1:] == ["spoil"]:
        spoil()
        sys.exit()
    for case in CASES:
        if len(sys.argv) > 1 and case[0] not in sys.argv[1:]:
            continue
        folder = {"fully_sharded_model_space": "OLD_MEGATRON", "fully_sharded_bucket_space": "OLDER_MEGATRON"}.get(case[6])
        if folder and folder not in os.environ:
            print(f"{case[0]} is left as it is: {folder} is not set")
            continue
        shutil.rmtree(f"{FOLDER}/{case[0]}", ignore_errors=True)
        ranks = case[3] * case[4] * STAGES.get(case[0], 1)
        release = {"PYTHONPATH": os.environ[folder]} if folder else {}
        with socket.socket() as probe:
            probe.bind(("localhost", 0))
            port = str(probe.getsockname()[1])
        started = [subprocess.Popen([sys.executable, __file__, "--rank", case[0]],
                                    env=os.environ | release | dict(RANK=str(r), WORLD_SIZE=str(ranks), MASTER_ADDR="localhost",
                                                                    MASTER_PORT=port)) for r in range(ranks)]
        assert all(process.wait(timeout=200) == 0 for process in started)
    spoil()
