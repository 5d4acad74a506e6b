#!/usr/bin/env python3
"""Writes tests/golden/foreign/megatron_dist_*: small random models of megatron-core, saved by megatron-core itself as
distributed checkpoints (torch_dist), each in a folder beside NAME.safetensors with samples and the logits it computes
for them.

megatron_dist_gpt and megatron_dist_t5 are written by one rank, megatron_dist_llama by two tensor-parallel ones, which
split embeddings, queries, keys, values and both halves of SwiGLU. megatron_dist_core19 is another Llama, written by
core 0.19, which has no common.pt: with its source in PYTHONPATH, make_distributed.py core19 1 makes it (and nothing
else). megatron_args/NAME.pt are common.pt of megatron_dist_llama with other arguments. Needs torch, megatron-core,
psutil and safetensors, and no GPU: code that asks for one gets a CPU. Run from the repository's root."""
import argparse
import contextlib
import os
import shutil
import signal
import sys

import torch
import torch.nn.functional as F

FOLDER = "tests/golden/foreign"
V, T, S, B = 38, 9, 5, 2


def no_gpu():
    import megatron.core.tensor_parallel.random as random
    torch.cuda.current_device = lambda: "cpu"
    torch.cuda.synchronize = lambda *_: None
    random.CudaRNGStatesTracker.fork = lambda self, name=None: contextlib.nullcontext()


def build(kind, ranks):
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.transformer.transformer_config import TransformerConfig
    common = dict(num_layers=3, hidden_size=16, num_attention_heads=4, use_cpu_initialization=True, attention_dropout=0.0,
                  hidden_dropout=0.0, tensor_model_parallel_size=ranks)
    if kind == "gpt":
        config = TransformerConfig(**common, bias_activation_fusion=True, activation_func=F.gelu)
        rest = dict(position_embedding_type="learned_absolute", share_embeddings_and_output_weights=True)
    else:
        config = TransformerConfig(**common, num_query_groups=2, ffn_hidden_size=24, normalization="RMSNorm",
                                   gated_linear_unit=True, activation_func=F.silu, add_bias_linear=False)
        rest = dict(position_embedding_type="rope", rotary_base=10000, share_embeddings_and_output_weights=False)
    spec = get_gpt_layer_local_spec(normalization=config.normalization)
    return config, GPTModel(config, spec, vocab_size=V, max_sequence_length=16, parallel_output=False, **rest)


def build_t5():
    """As in pretrain_t5.py. The norm after a stack is Transformer Engine's there, which needs a GPU."""
    import megatron.core.models.T5.t5_spec as spec
    from megatron.core.models.T5.t5_model import T5Model
    from megatron.core.transformer.torch_norm import WrappedTorchNorm
    from megatron.core.transformer.transformer_config import TransformerConfig
    spec.TENorm = WrappedTorchNorm
    encoder, decoder = (TransformerConfig(num_layers=n, hidden_size=8, num_attention_heads=2, ffn_hidden_size=12, attention_dropout=0.0,
                                          hidden_dropout=0.0, use_cpu_initialization=True, activation_func=F.gelu) for n in (2, 1))
    return decoder, T5Model(decoder, encoder, spec.get_t5_encoder_with_local_block_spec(2), spec.get_t5_decoder_with_local_block_spec(1),
                            vocab_size=V, max_sequence_length=16, parallel_output=False, share_embeddings_and_output_weights=True)


def t5_arguments():
    return argparse.Namespace(
        num_layers=2, encoder_num_layers=2, decoder_num_layers=1, hidden_size=8, num_attention_heads=2, ffn_hidden_size=12, kv_channels=4,
        seq_length=16, encoder_seq_length=16, decoder_seq_length=16, max_position_embeddings=16, padded_vocab_size=V,
        normalization="LayerNorm", norm_epsilon=1e-5, add_bias_linear=True, bias_gelu_fusion=False, vocab_extra_ids=2,
        position_embedding_type="learned_absolute", exit_signal=signal.SIGTERM, iteration=100, consumed_train_samples=800)


def make_t5():
    from megatron.core import dist_checkpointing, parallel_state
    from safetensors.torch import save_file
    torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    parallel_state.initialize_model_parallel(1, 1)
    no_gpu()
    torch.manual_seed(7)
    _, model = build_t5()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3 + (0.7 if parameter.dim() == 1 else 0))
        data = {"tokens": torch.randint(3, V, (B, T)), "labels": torch.randint(3, V, (B, S)), "decoder_tokens": torch.randint(3, V, (B, S))}
        nothing, future = torch.zeros(B, 1, T, T).bool(), torch.ones(S, S).triu(1).bool().expand(B, 1, S, S)
        logits = model(data["tokens"], data["decoder_tokens"], nothing, future, nothing[:, :, :S])
    folder = f"{FOLDER}/megatron_dist_t5"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(f"{folder}/iter_0000100")
    with open(f"{folder}/latest_checkpointed_iteration.txt", "w") as file:
        file.write("100")
    save_file({key: value.to(torch.int32) for key, value in data.items()} | {"logits": logits.float().contiguous()}, f"{folder}.safetensors")
    dist_checkpointing.save({"args": t5_arguments(), "checkpoint_version": 3.0, "iteration": 100, "model": model.sharded_state_dict()},
                            f"{folder}/iter_0000100")


def make_arguments():
    common = torch.load(f"{FOLDER}/megatron_dist_llama/iter_0000100/common.pt", weights_only=False)
    os.makedirs(f"{FOLDER}/megatron_args", exist_ok=True)
    for name, other in {"scaled": dict(use_rope_scaling=True, rope_scaling_factor=32.0), "none": dict(position_embedding_type="none"),
                        "window": dict(window_size=(127, 0)), "windows": dict(window_size=(127, 0), window_attn_skip_freq=[1, 0, 1]), "mrope": dict(position_embedding_type="mrope"),
                        "softmax": dict(softmax_type="off-by-one"), "both": dict(window_size=(3, 3)), "centered": dict(layernorm_zero_centered_gamma=True),
                        "experts": dict(num_experts=4),
                        "null": dict(tokenizer_type="NullTokenizer", vocab_size=37, vocab_file=None, merge_file=None)}.items():
        args = vars(common["args"]) | dict(softmax_type="vanilla", window_size=None, exit_signal=signal.SIGTERM) | other
        torch.save(common | {"args": argparse.Namespace(**args)}, f"{FOLDER}/megatron_args/{name}.pt")


def arguments(kind, config, ranks):
    is_llama = kind != "gpt"
    return argparse.Namespace(
        num_layers=3, hidden_size=16, num_attention_heads=4, ffn_hidden_size=config.ffn_hidden_size, kv_channels=4, seq_length=16,
        max_position_embeddings=16, padded_vocab_size=V, make_vocab_size_divisible_by=2, normalization=config.normalization,
        norm_epsilon=config.layernorm_epsilon, swiglu=is_llama, add_bias_linear=not is_llama, bias_gelu_fusion=not is_llama,
        untie_embeddings_and_output_weights=is_llama, group_query_attention=is_llama, num_query_groups=config.num_query_groups,
        position_embedding_type="rope" if is_llama else "learned_absolute", rotary_base=10000, rotary_percent=1.0, hidden_dropout=0.0,
        attention_dropout=0.0, tensor_model_parallel_size=ranks, pipeline_model_parallel_size=1, params_dtype=torch.float32,
        tokenizer_type="GPT2BPETokenizer", vocab_file="/nowhere/vocab.json", merge_file="/nowhere/merges.txt",
        consumed_train_samples=800, iteration=100)


def make(kind, ranks):
    from megatron.core import dist_checkpointing, parallel_state
    from safetensors.torch import save_file
    rank = int(os.environ["RANK"])
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=ranks)
    parallel_state.initialize_model_parallel(ranks, 1)
    no_gpu()
    torch.manual_seed(7)  # the same whole matrices on every rank, which takes its part
    config, model = build(kind, ranks)
    torch.manual_seed(8)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1 and not getattr(parameter, "tensor_model_parallel", False):
                parameter.add_(torch.randn_like(parameter) * 0.15)
            elif parameter.dim() == 2:
                parameter.mul_(8)
        torch.manual_seed(9)
        tokens, labels = torch.randint(3, V, (B, T)), torch.randint(3, V, (B, T))
        future = torch.ones(T, T, dtype=torch.bool).triu(1).view(1, 1, T, T)
        logits = model(tokens, torch.arange(T).repeat(B, 1), future)
    folder = f"{FOLDER}/megatron_dist_{kind}"
    if rank == 0:
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(f"{folder}/iter_0000100")
        with open(f"{folder}/latest_checkpointed_iteration.txt", "w") as file:
            file.write("100")
        save_file({"tokens": tokens.to(torch.int32), "labels": labels.to(torch.int32), "logits": logits.float().contiguous()},
                  f"{folder}.safetensors")
    torch.distributed.barrier()
    dist_checkpointing.save({"args": arguments(kind, config, ranks), "checkpoint_version": 3.0, "iteration": 100,
                             "model": model.sharded_state_dict()}, f"{folder}/iter_0000100")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "t5":
        make_t5()
    elif len(sys.argv) > 1:
        make(sys.argv[1], int(sys.argv[2]))
    else:
        import subprocess
        for kind, ranks, port in (("gpt", 1, "29611"), ("llama", 2, "29612"), ("t5", 1, "29613")):
            started = [subprocess.Popen([sys.executable, __file__, kind, str(ranks)],
                                        env=os.environ | dict(RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="localhost", MASTER_PORT=port))
                       for rank in range(ranks)]
            assert all(process.wait(timeout=120) == 0 for process in started)
        make_arguments()
