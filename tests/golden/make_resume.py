#!/usr/bin/env python3
"""Writes tests/golden/resume/NAME: small GPTs that megatron-core trained for five iterations on a CPU and saved with
their optimizers (see megatron_run.py), each beside NAME.safetensors with the states that its optimizer then had, as
STATE.NAME in our names and order. Needs torch, megatron-core, psutil and safetensors. Run from the repository's
root."""
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
         ("dist_bf16_dp2", "llama", "bfloat16", 1, 2, True, "fully_reshardable")]


def in_our_order(run, name, tensor):
    """Queries, keys and values are together by group there, and apart here."""
    if "linear_qkv.weight" not in name and "linear_qkv.bias" not in name:
        return tensor
    groups, queries, channels = (2, 2, run.hidden // 4) if run.kind == "llama" else (4, 1, run.hidden // 4)
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


def states(run):
    import torch
    result = {}
    inner = run.optimizer.chained_optimizers[0]
    if run.distributed:
        flat = inner.get_parameter_state_dp_zero()
        if flat is None:
            return {}
        values = next(iter(flat[0].values()))
    for name, parameter in run.model.named_parameters():
        if run.distributed:
            first, last, _ = inner.buffers[0].param_index_map[parameter]
            found = {key: values[key][first:last].view(parameter.shape) for key in ("exp_avg", "exp_avg_sq", "param")}
            found["master"] = found.pop("param")
        else:
            main = getattr(parameter, "main_param", parameter)
            found = {key: inner.optimizer.state[main][key] for key in ("exp_avg", "exp_avg_sq")}
            if run.dtype != torch.float32:
                found["master"] = main.detach()
        for key, tensor in found.items():
            result[f"{key}.{name}"] = in_our_order(run, name, whole(run, name, parameter, tensor)).contiguous().clone()
    return result


def rank_main(name):
    import torch
    from safetensors.torch import save_file
    import megatron_run
    _, kind, dtype, tp, dp, distributed, form = next(case for case in CASES if case[0] == name)
    megatron_run.start(tp)
    run = megatron_run.Run(kind, getattr(torch, dtype), tp, dp, distributed, iterations=20, layers=1 if form == "torch" else 2, hidden=8, ffn=12, vocabulary=12, length=8)
    torch.manual_seed(3)
    for _ in range(5):
        run.step(torch.randint(0, run.vocabulary, (run.batch, run.length + 1)))
    run.save_torch(f"{FOLDER}/{name}") if form == "torch" else run.save_dist(f"{FOLDER}/{name}", form)
    found = states(run)
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
        shutil.rmtree(f"{FOLDER}/{case[0]}", ignore_errors=True)
        with socket.socket() as probe:
            probe.bind(("localhost", 0))
            port = str(probe.getsockname()[1])
        started = [subprocess.Popen([sys.executable, __file__, "--rank", case[0]],
                                    env=os.environ | dict(RANK=str(r), WORLD_SIZE=str(case[3] * case[4]), MASTER_ADDR="localhost",
                                                          MASTER_PORT=port)) for r in range(case[3] * case[4])]
        assert all(process.wait(timeout=600) == 0 for process in started)
    spoil()
