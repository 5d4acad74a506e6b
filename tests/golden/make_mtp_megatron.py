#!/usr/bin/env python3
"""Writes tests/golden/models/mtp_megatron.safetensors: a small Llama with multi-token prediction that megatron-core
itself computes, on a CPU in float64. The file is like those of make_mtp.py: logits, losses and every gradient of a first
batch, and the losses of ten AdamW steps.

Needs torch, megatron-core (0.16.1) and safetensors. Run from the repository's root."""
import os
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import megatron_run

STEPS, B, T, V, C, H, G, HEAD, FFN, DEPTHS, FACTOR = 10, 3, 11, 37, 12, 4, 2, 4, 13, 2, 0.4
FLAGS = f"--seq-length {T} --micro-batch-size {B} --padded-vocab-size {V} --hidden-dropout 0 --attention-dropout 0 " \
    f"--num-layers 2 --hidden-size {C} --num-attention-heads {H} --kv-channels {HEAD} --ffn-hidden-size {FFN} --swiglu " \
    f"--max-position-embeddings {T} --group-query-attention --num-query-groups {G} --normalization RMSNorm " \
    "--position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights " \
    f"--mtp-num-layers {DEPTHS} --mtp-loss-scaling-factor {FACTOR}"


def build():
    from megatron.core import parallel_state
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec, get_gpt_mtp_block_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.transformer.transformer_config import TransformerConfig
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29631", RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group("gloo")
    parallel_state.initialize_model_parallel()
    config = TransformerConfig(num_layers=2, hidden_size=C, num_attention_heads=H, num_query_groups=G, kv_channels=HEAD,
                               ffn_hidden_size=FFN, normalization="RMSNorm", gated_linear_unit=True, activation_func=F.silu,
                               add_bias_linear=False, use_cpu_initialization=True, attention_dropout=0.0, hidden_dropout=0.0,
                               params_dtype=torch.float64, pipeline_dtype=torch.float64, masked_softmax_fusion=False,
                               bias_activation_fusion=False, apply_rope_fusion=False, mtp_num_layers=DEPTHS,
                               mtp_loss_scaling_factor=FACTOR)
    spec = get_gpt_layer_local_spec(normalization="RMSNorm")
    model = GPTModel(config, spec, vocab_size=V, max_sequence_length=T, parallel_output=True, position_embedding_type="rope",
                     rotary_base=10000, share_embeddings_and_output_weights=False,
                     mtp_block_spec=get_gpt_mtp_block_spec(config, spec, use_transformer_engine=False))
    return model.double()


def rows_of(name, value):
    """Queries, keys and values, which Megatron keeps group by group, one kind after the other."""
    if ".linear_qkv." not in name:
        return value
    groups = value.reshape(G, H // G + 2, HEAD, C)
    return torch.cat([groups[:, :-2].reshape(-1, C), groups[:, -2].reshape(-1, C), groups[:, -1].reshape(-1, C)])


def losses_of(model, tokens, labels, mask):
    from megatron.core.transformer.multi_token_prediction import MTPLossLoggingHelper
    positions = torch.arange(T).expand(B, T)
    hidden = torch.ones(1, 1, T, T).triu(1).bool()
    each = model(tokens, positions, hidden, labels=labels, loss_mask=mask)
    depths = MTPLossLoggingHelper.tracker["values"].clone()
    MTPLossLoggingHelper.clean_loss_in_tracker()
    return (each * mask).sum() / mask.sum(), depths


def main():
    megatron_run.no_gpu()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(20261118)
    model = build()
    params = {}
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_((torch.randn(p.shape) * 0.25 + (p.dim() == 1)).float().double())
            # Its checkpoints have the first name, newer releases' modules the second.
            params[name.replace(".mtp_model_layer.", ".transformer_layer.")] = p
    rows = STEPS * B
    data = {"tokens": torch.randint(0, V, (rows, T)), "labels": torch.randint(0, V, (rows, T)),
            "mask": (torch.rand(rows, T) < 0.8).double()}
    out = {"param." + n: rows_of(n, p.detach()).clone().float() for n, p in params.items()}
    seen = []  # what the output layer gave, (T, B, V): for the depths, then for the next token
    model.output_layer.register_forward_hook(lambda _module, _inputs, result: seen.append(result[0].detach()))
    optimizer = torch.optim.AdamW([{"params": [p for p in params.values() if p.dim() > 1], "weight_decay": 0.1},
                                   {"params": [p for p in params.values() if p.dim() == 1], "weight_decay": 0.0}],
                                  lr=2e-3, betas=(0.9, 0.95), eps=1e-8)
    losses, depth_losses, norms = [], [], []
    for step in range(STEPS):
        part = slice(step * B, (step + 1) * B)
        optimizer.zero_grad()
        loss, depths = losses_of(model, *(data[k][part] for k in ("tokens", "labels", "mask")))
        loss.backward()
        if step == 0:
            out["logits"] = seen[DEPTHS].transpose(0, 1).float()
            out.update({"grad." + n: rows_of(n, p.grad).clone().float() for n, p in params.items()})
        norms.append(torch.nn.utils.clip_grad_norm_(list(params.values()), 1.0).item())
        losses.append(loss.item())
        depth_losses.append(depths)
        optimizer.step()
    out["losses"], out["depth_losses"] = torch.tensor(losses).float(), torch.stack(depth_losses).float()
    out["pair_losses"], out["grad_norms"] = torch.zeros(STEPS).float(), torch.tensor(norms).float()
    for k, v in data.items():
        out["data." + k] = v.float() if v.is_floating_point() else v.to(torch.int32)
    path = "tests/golden/models/mtp_megatron.safetensors"
    save_file({k: v.contiguous() for k, v in out.items()}, path, metadata={"flags": FLAGS})
    print(os.path.getsize(path), "bytes, losses of the last step", losses[-1], depth_losses[-1].tolist())


main()
