#!/usr/bin/env python3
"""Writes tests/golden/foreign/megatron_experts_…: a small mixture of experts that megatron-core computes on a CPU and
saves, as torch_dist and, loaded again on two tensor-parallel times two expert-parallel ranks, in the format torch:
experts one after another, grouped (weight1 and weight2), and under the names of Transformer Engine's grouped layers,
which do not run on a CPU: there the tensors of the first are renamed. Each has a .safetensors with tokens and logits.
Needs torch, megatron-core, psutil and safetensors. Run from the repository's root."""
import argparse
import os
import re
import shutil
import socket
import subprocess
import sys

FOLDER = "tests/golden/foreign"
NAMES = ["megatron_experts_dist", "megatron_experts_sequential", "megatron_experts_packed", "megatron_experts_grouped"]
L, C, H, G, F, X, V, T = 2, 16, 4, 2, 12, 4, 32, 16


def start(tp, ep):
    import torch
    import megatron_run
    from megatron.core import parallel_state
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    parallel_state.initialize_model_parallel(tp, 1, expert_model_parallel_size=ep)
    torch.cuda.Stream = lambda *_, **__: None
    megatron_run.no_gpu()
    import megatron.core.transformer.moe.grouped_gemm_util as grouped
    grouped.grouped_gemm_is_available = lambda: True
    grouped.assert_grouped_gemm_is_available = lambda: None


def build(tp, ep, is_packed):
    import torch
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.transformer.transformer_config import TransformerConfig
    torch.manual_seed(7)
    config = TransformerConfig(num_layers=L, hidden_size=C, num_attention_heads=H, num_query_groups=G, ffn_hidden_size=24,
                               use_cpu_initialization=True, attention_dropout=0.0, hidden_dropout=0.0, normalization="RMSNorm",
                               gated_linear_unit=True, activation_func=torch.nn.functional.silu, add_bias_linear=False,
                               masked_softmax_fusion=False, attention_softmax_in_fp32=True, num_moe_experts=X, moe_router_topk=2,
                               moe_ffn_hidden_size=F, moe_shared_expert_intermediate_size=10, moe_token_dispatcher_type="allgather",
                               tensor_model_parallel_size=tp, expert_model_parallel_size=ep,
                               moe_router_load_balancing_type="none", moe_grouped_gemm=is_packed)
    spec = get_gpt_layer_local_spec(num_experts=X, moe_grouped_gemm=is_packed, normalization="RMSNorm",
                                    **({"moe_use_legacy_grouped_gemm": True} if is_packed else {}))
    return GPTModel(config, spec, vocab_size=V, max_sequence_length=T, parallel_output=True, position_embedding_type="rope",
                    rotary_base=10000, share_embeddings_and_output_weights=False)


def common(tp, ep):
    args = argparse.Namespace(
        num_layers=L, hidden_size=C, num_attention_heads=H, ffn_hidden_size=24, kv_channels=C // H, seq_length=T,
        max_position_embeddings=T, padded_vocab_size=V, make_vocab_size_divisible_by=2, normalization="RMSNorm", norm_epsilon=1e-5,
        swiglu=True, add_bias_linear=False, bias_gelu_fusion=False, untie_embeddings_and_output_weights=True,
        group_query_attention=True, num_query_groups=G, position_embedding_type="rope", rotary_base=10000, rotary_percent=1.0,
        hidden_dropout=0.0, attention_dropout=0.0, tensor_model_parallel_size=tp, pipeline_model_parallel_size=1,
        expert_model_parallel_size=ep, expert_tensor_parallel_size=tp, num_experts=X, moe_router_topk=2, moe_ffn_hidden_size=F,
        moe_layer_freq=1, moe_shared_expert_intermediate_size=10, moe_router_load_balancing_type="none", moe_aux_loss_coeff=0.0,
        moe_z_loss_coeff=None, moe_router_score_function="softmax", moe_router_pre_softmax=False, moe_router_topk_scaling_factor=None,
        moe_router_num_groups=None, moe_router_group_topk=None, moe_router_dtype=None, moe_router_enable_expert_bias=False,
        moe_shared_expert_gate=False, moe_input_jitter_eps=None, tokenizer_type="NullTokenizer", vocab_size=V - 1,
        use_mcore_models=True, consumed_train_samples=400, seed=1234)
    return {"args": args, "checkpoint_version": 3.0, "iteration": 100}


def rank_main(name):
    import torch
    from megatron.core import dist_checkpointing, parallel_state
    from safetensors.torch import save_file
    tp, ep = (1, 1) if name.endswith("dist") else (2, 2)
    start(tp, ep)
    model = build(tp, ep, name.endswith("packed"))
    source = f"{FOLDER}/{NAMES[0]}/iter_0000100"
    if name.endswith("dist"):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn(parameter.shape) * 0.25 + (parameter.dim() == 1))
        os.makedirs(source)
        dist_checkpointing.save(common(tp, ep) | {"model": model.sharded_state_dict()}, source)
        tokens = torch.randint(0, V, (2, 9))
        future = torch.ones(9, 9, dtype=torch.bool).triu(1).view(1, 1, 9, 9)
        with torch.no_grad():
            logits = model.double()(tokens, torch.arange(9).repeat(2, 1), future).float()
        for other in NAMES:
            save_file({"tokens": tokens.int(), "labels": tokens.int(), "logits": logits.contiguous()}, f"{FOLDER}/{other}.safetensors")
        return
    state = dist_checkpointing.load({"model": model.sharded_state_dict()}, source, strict="assume_ok_unexpected")
    model.load_state_dict(state["model"])
    rank = f"mp_rank_{parallel_state.get_tensor_model_parallel_rank():02d}_{parallel_state.get_expert_model_parallel_rank():03d}"
    saved = common(tp, ep) | {"model": model.state_dict_for_save_checkpoint()}
    os.makedirs(f"{FOLDER}/{name}/iter_0000100/{rank}")
    torch.save(saved, f"{FOLDER}/{name}/iter_0000100/{rank}/model_optim_rng.pt")
    if name.endswith("sequential"):
        saved["model"] = {re.sub(r"local_experts\.(\d+)\.(linear_fc[12])\.weight", r"\2.weight\1", key): value
                          for key, value in saved["model"].items()}
        saved["args"].moe_router_dtype = "fp64"  # of the arithmetic, not of the weights
        saved["args"].moe_router_load_balancing_type, saved["args"].moe_aux_loss_coeff = ["aux_loss", "seq_aux_loss"], [0.01, 1e-4]
        os.makedirs(f"{FOLDER}/{NAMES[3]}/iter_0000100/{rank}")
        torch.save(saved, f"{FOLDER}/{NAMES[3]}/iter_0000100/{rank}/model_optim_rng.pt")


def claim():
    """One rank that claims 2^62 experts: a product with them overflows."""
    import torch
    saved = torch.load(f"{FOLDER}/{NAMES[2]}/iter_0000100/mp_rank_00_000/model_optim_rng.pt", weights_only=False)
    saved["args"].tensor_model_parallel_size = saved["args"].expert_model_parallel_size = saved["args"].expert_tensor_parallel_size = 1
    saved["args"].num_experts = 2**62
    saved["model"] = {key: value.clone() for key, value in saved["model"].items() if ".layers.0.mlp." in key and value is not None}
    os.makedirs(f"{FOLDER}/megatron_experts_claimed/mp_rank_00", exist_ok=True)
    torch.save(saved, f"{FOLDER}/megatron_experts_claimed/mp_rank_00/model_optim_rng.pt")


if __name__ == "__main__":
    if sys.argv[1:] == ["--claim"]:
        claim()
        sys.exit()
    if len(sys.argv) > 1:
        rank_main(sys.argv[2])
        sys.exit()
    for name in NAMES:
        shutil.rmtree(f"{FOLDER}/{name}", ignore_errors=True)
    for name in NAMES[:3]:
        with socket.socket() as probe:
            probe.bind(("localhost", 0))
            port = str(probe.getsockname()[1])
        ranks = 1 if name.endswith("dist") else 4
        started = [subprocess.Popen([sys.executable, __file__, "--rank", name],
                                    env=os.environ | dict(RANK=str(r), WORLD_SIZE=str(ranks), MASTER_ADDR="localhost", MASTER_PORT=port))
                   for r in range(ranks)]
        assert all(process.wait(timeout=200) == 0 for process in started)
    for name in NAMES:
        with open(f"{FOLDER}/{name}/latest_checkpointed_iteration.txt", "w") as file:
            file.write("100")
    claim()
