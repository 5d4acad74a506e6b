#!/usr/bin/env python3
"""A small GPT that megatron-core trains on a CPU, and its checkpoints. Used by make_resume.py and by
tests/peers/megatron_resume_peers.py.

megatron-core asks for GPUs throughout its optimizers: they get a CPU instead (class Cpu), and nothing else is changed.
"""
import argparse
import contextlib
import inspect
import os
import warnings

import numpy
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

warnings.simplefilter("ignore")


class Cpu(TorchFunctionMode):
    """Tensors for "cuda" are made on the CPU, and say that they are on a GPU when they are asked for their type."""
    def __torch_function__(self, function, types, arguments=(), options=None):
        options = dict(options or {})
        if "cuda" in str(options.get("device", "")):
            options["device"] = "cpu"
        if function is torch.Tensor.cuda:
            return arguments[0]
        result = function(*arguments, **options)
        if function is torch.Tensor.type and isinstance(result, str):
            return result.replace("torch.", "torch.cuda.")
        return result


def keep_steps():
    """The distributed optimizer expects fused Adam, which has no step for each parameter. torch's own has one, which is
    loaded with the parameter groups; where states are copied, it stays."""
    from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer
    if not hasattr(DistributedOptimizer, "_set_main_param_and_optimizer_states"):
        return
    copy = DistributedOptimizer._set_main_param_and_optimizer_states

    def copy_states(self, parameter, tensors):
        copy(self, parameter, {"step": self._get_main_param_and_optimizer_states(parameter)["step"]} | tensors)
    DistributedOptimizer._set_main_param_and_optimizer_states = copy_states


def older_releases():
    """What releases up to 0.13 need to save with today's torch and NumPy, and with an Adam that is not fused."""
    import megatron.core.dist_checkpointing.strategies.filesystem_async as files
    import megatron.core.optimizer.distrib_optimizer as distributed
    if not hasattr(distributed.DistributedOptimizer, "get_parameter_state_fs_bucket_space"):
        return
    distributed.quantize_param_shard = lambda *_: None  # called without fp8, too
    numpy.product = numpy.prod
    write = files._write_item
    import torch.distributed.checkpoint.filesystem as own
    none = (own._StorageWriterTransforms(),)  # releases up to 0.10 do not pass them
    files._write_item = lambda *arguments: write(*(none if len(arguments) == 4 else ()), *arguments, own.SerializationFormat.TORCH_SAVE)
    state_of = distributed.DistributedOptimizer.get_parameter_state_fs_bucket_space

    def without_steps(self):
        state = state_of(self)
        for buckets in (bucket for key in state if isinstance(key, int) for bucket in state[key].values()):
            for tensors in (tensors for bucket in buckets for tensors in bucket):
                tensors.pop("step", None)
        return state
    distributed.DistributedOptimizer.get_parameter_state_fs_bucket_space = without_steps


def no_gpu():
    import megatron.core.tensor_parallel.random as random
    torch.cuda.current_device = lambda: "cpu"
    torch.cuda.synchronize = lambda *_: None
    random.CudaRNGStatesTracker.fork = lambda self, name=None: contextlib.nullcontext()
    keep_steps()
    older_releases()
    import megatron.core.transformer.moe.moe_utils as utils
    utils.te_general_gemm = None  # not defined without Transformer Engine, and asked for
    Cpu().__enter__()


def arguments(run):
    """What Megatron-LM would have as its arguments."""
    is_llama = run.kind.startswith("llama")
    depths = dict(mtp_num_layers=run.depths, mtp_loss_scaling_factor=0.1) if run.depths else {}
    experts = dict(num_experts=4, expert_model_parallel_size=run.ep, moe_router_topk=2, moe_ffn_hidden_size=run.ffn // 2, moe_shared_expert_intermediate_size=20,
                   moe_layer_freq=1, moe_router_load_balancing_type="none", moe_aux_loss_coeff=0.0) if run.has_experts else {}
    return argparse.Namespace(
        **depths, **experts,
        num_layers=run.layers, hidden_size=run.hidden, num_attention_heads=4, ffn_hidden_size=run.ffn, kv_channels=run.hidden // 4,
        seq_length=run.length, max_position_embeddings=run.length, padded_vocab_size=run.vocabulary, make_vocab_size_divisible_by=2,
        normalization="RMSNorm" if is_llama else "LayerNorm", norm_epsilon=1e-5, swiglu=is_llama, add_bias_linear=not is_llama,
        bias_gelu_fusion=not is_llama, untie_embeddings_and_output_weights=is_llama, group_query_attention=is_llama,
        num_query_groups=2 if is_llama else 1, position_embedding_type="rope" if is_llama else "learned_absolute", rotary_base=10000,
        rotary_percent=1.0, hidden_dropout=0.0, attention_dropout=0.0, tensor_model_parallel_size=run.tp, pipeline_model_parallel_size=run.pp,
        params_dtype=run.dtype, bf16=run.dtype == torch.bfloat16, fp16=run.dtype == torch.float16, tokenizer_type="NullTokenizer",
        vocab_size=run.vocabulary - 1, transformer_impl="local", use_mcore_models=True, micro_batch_size=run.batch // run.dp,
        global_batch_size=run.batch, train_iters=run.iterations, lr=2e-3, min_lr=2e-4, lr_decay_style="cosine", lr_warmup_iters=10,
        lr_decay_iters=None, lr_warmup_fraction=None, weight_decay=0.1, adam_beta1=0.9, adam_beta2=0.95, adam_eps=1e-8, clip_grad=1.0,
        optimizer="adam", seed=1234, use_distributed_optimizer=run.distributed, data_parallel_size=run.dp,
        iteration=run.iteration, consumed_train_samples=run.iteration * run.batch, consumed_valid_samples=0, skipped_train_samples=0)


class Run:
    def __init__(self, kind="gpt", dtype=torch.float32, tp=1, dp=1, distributed=False, iterations=100, layers=2, hidden=32, ffn=None,
                 vocabulary=64, length=32, batch=4, pp=1, bucket=None, ep=1):
        self.kind, self.dtype, self.tp, self.dp, self.distributed, self.iterations = kind, dtype, tp, dp, distributed, iterations
        self.layers, self.hidden, self.vocabulary, self.length, self.batch = layers, hidden, vocabulary, length, batch
        self.pp, self.bucket = pp, bucket  # stages, of which only parameters are here; elements of a bucket
        self.ffn = ffn or (3 * hidden // 2 if kind.startswith("llama") else 4 * hidden)
        self.has_experts = kind == "llama_experts"
        self.depths = 2 if kind == "llama_mtp" else None  # multi-token prediction
        self.ep = ep  # expert-parallel ranks, among the data-parallel ones
        self.iteration = 0
        self.build()

    def build(self):
        from megatron.core import parallel_state
        from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
        import megatron.core.models.gpt.gpt_layer_specs as specs
        from megatron.core.models.gpt.gpt_model import GPTModel
        from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
        from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
        from megatron.core.transformer.module import Float16Module
        from megatron.core.transformer.transformer_config import TransformerConfig
        is_llama = self.kind.startswith("llama")
        torch.manual_seed(7)  # the same whole matrices on every rank, which takes its part
        half = dict(bf16=self.dtype == torch.bfloat16, fp16=self.dtype == torch.float16)
        experts = dict(num_moe_experts=4, expert_model_parallel_size=self.ep, moe_router_topk=2, moe_ffn_hidden_size=self.ffn // 2, moe_token_dispatcher_type="allgather",
                       moe_shared_expert_intermediate_size=20, moe_router_load_balancing_type="none") if self.has_experts else {}
        choices = dict(num_query_groups=2, normalization="RMSNorm", gated_linear_unit=True, activation_func=F.silu,
                       add_bias_linear=False) if is_llama else dict(bias_activation_fusion=True, activation_func=F.gelu)
        config = TransformerConfig(num_layers=self.layers, hidden_size=self.hidden, num_attention_heads=4, ffn_hidden_size=self.ffn,
                                   use_cpu_initialization=True, attention_dropout=0.0, hidden_dropout=0.0, params_dtype=self.dtype,
                                   pipeline_dtype=self.dtype, tensor_model_parallel_size=self.tp,
                                   pipeline_model_parallel_size=self.pp, attention_softmax_in_fp32=True,
                                   masked_softmax_fusion=False, **half, **choices, **experts,
                                   **(dict(mtp_num_layers=self.depths, mtp_loss_scaling_factor=0.1) if self.depths else {}))
        more = dict(num_experts=4, moe_grouped_gemm=False) if self.has_experts else {}
        takes_norm = "normalization" in inspect.signature(specs.get_gpt_layer_local_spec).parameters
        spec = specs.get_gpt_layer_local_spec(**more, **({"normalization": config.normalization} if takes_norm else {}))
        depths = dict(mtp_block_spec=specs.get_gpt_mtp_block_spec(config, spec, use_transformer_engine=False)) if self.depths else {}
        self.model = GPTModel(config, spec, vocab_size=self.vocabulary, max_sequence_length=self.length, parallel_output=True,
                              position_embedding_type="rope" if is_llama else "learned_absolute", rotary_base=10000,
                              share_embeddings_and_output_weights=not is_llama, **depths,
                              pre_process=parallel_state.is_pipeline_first_stage(), post_process=parallel_state.is_pipeline_last_stage())
        torch.manual_seed(8)
        with torch.no_grad():
            for parameter in self.model.parameters():
                if parameter.dim() == 1 and not getattr(parameter, "tensor_model_parallel", False):
                    parameter.add_(torch.randn_like(parameter) * 0.1)
            torch.manual_seed(9 + parallel_state.get_expert_model_parallel_rank())
            for parameter in self.model.parameters() if self.ep > 1 else []:
                if not getattr(parameter, "allreduce", True):  # experts, which began alike on all ranks
                    parameter.add_(torch.randn_like(parameter) * 0.02)
        inner = Float16Module(config, self.model) if half["bf16"] or half["fp16"] else self.model
        self.ddp = DistributedDataParallel(config, DistributedDataParallelConfig(
            use_distributed_optimizer=self.distributed, grad_reduce_in_fp32=True, overlap_grad_reduce=self.bucket is not None,
            bucket_size=self.bucket), inner)
        self.optimizer = get_megatron_optimizer(OptimizerConfig(
            optimizer="adam", lr=2e-3, min_lr=2e-4, weight_decay=0.1, adam_beta1=0.9, adam_beta2=0.95, adam_eps=1e-8, clip_grad=1.0,
            params_dtype=self.dtype, use_distributed_optimizer=self.distributed, initial_loss_scale=2**12, **half), [self.ddp])
        steps = self.iterations * self.batch
        self.scheduler = OptimizerParamScheduler(
            self.optimizer, init_lr=0.0, max_lr=2e-3, min_lr=2e-4, lr_warmup_steps=10 * self.batch, lr_decay_steps=steps,
            lr_decay_style="cosine", start_wd=0.1, end_wd=0.1, wd_incr_steps=steps, wd_incr_style="constant")
        self.rank = parallel_state.get_data_parallel_rank()

    def step(self, rows):
        """rows: (batch, length + 1) tokens of one iteration. Returns its loss."""
        from megatron.core.distributed.finalize_model_grads import finalize_model_grads
        part = self.batch // self.dp
        mine = rows[self.rank * part:(self.rank + 1) * part]
        tokens, labels = mine[:, :-1], mine[:, 1:]
        self.ddp.zero_grad_buffer()
        self.optimizer.zero_grad()
        future = torch.ones(self.length, self.length, dtype=torch.bool).triu(1).view(1, 1, self.length, self.length)
        loss = self.ddp(tokens, torch.arange(self.length).repeat(part, 1), future, labels=labels).float().mean()
        (self.optimizer.scale_loss(loss)).backward()
        finalize_model_grads([self.ddp])
        done, norm, _ = self.optimizer.step()
        self.scheduler.step(increment=self.batch) if done else None
        self.iteration += 1
        total = loss.detach().clone()
        torch.distributed.all_reduce(total)
        return total.item() / torch.distributed.get_world_size()

    def step_on_noise(self):
        """An update with random gradients, for a stage that cannot compute its own alone."""
        for parameter in self.model.parameters():
            parameter.main_grad.copy_(torch.randn(parameter.shape))
        self.optimizer.step()
        self.scheduler.step(increment=self.batch)
        self.iteration += 1

    # ---- checkpoints as Megatron-LM's training/checkpointing.py writes them ----

    def common(self):
        return {"args": arguments(self), "checkpoint_version": 3.0, "iteration": self.iteration,
                "opt_param_scheduler": self.scheduler.state_dict(), "num_floating_point_operations_so_far": 1e12}

    def save_torch(self, folder):
        from megatron.core import parallel_state
        path = f"{folder}/iter_{self.iteration:07d}/mp_rank_{parallel_state.get_tensor_model_parallel_rank():02d}"
        state = self.common() | {"model": self.ddp.module.state_dict_for_save_checkpoint() if self.dtype == torch.float32
                                 else self.ddp.module.state_dict_for_save_checkpoint(), "optimizer": self.optimizer.state_dict()}
        if self.ep > 1:
            path += f"_{parallel_state.get_expert_model_parallel_rank():03d}"
        if parallel_state.get_expert_data_parallel_rank() == 0 if self.ep > 1 else self.rank == 0:
            os.makedirs(path, exist_ok=True)
            torch.save(state, f"{path}/model_optim_rng.pt")
        if self.distributed:
            os.makedirs(path, exist_ok=True)
            self.optimizer.save_parameter_state(f"{path}/distrib_optim.pt")
        self.mark(folder)

    def sharded(self, kind, is_loading=False):
        metadata = {"distrib_optim_sharding_type": kind} if kind else {}
        metadata |= {"chained_optim_avoid_prefix": True}
        # Releases up to 0.13 take the kind as an argument of its own.
        is_old = kind and "metadata" not in inspect.signature(self.inner_optimizer().sharded_state_dict).parameters
        choice = {"sharding_type": kind} if is_old else {"metadata": metadata}
        model = self.ddp.module.sharded_state_dict(metadata=None if is_old else metadata)
        return self.common() | {"model": model, "optimizer": self.optimizer.sharded_state_dict(model, is_loading=is_loading, **choice)}

    def inner_optimizer(self):
        return self.optimizer.chained_optimizers[0] if hasattr(self.optimizer, "chained_optimizers") else self.optimizer

    def save_dist(self, folder, kind):
        from megatron.core import dist_checkpointing
        path = f"{folder}/iter_{self.iteration:07d}"
        if torch.distributed.get_rank() == 0:
            os.makedirs(path, exist_ok=True)
        torch.distributed.barrier()
        has_content = "content_metadata" in inspect.signature(dist_checkpointing.save).parameters
        content = {"content_metadata": {"distrib_optim_sharding_type": kind}} if kind and has_content else {}
        dist_checkpointing.save(self.sharded(kind), path, **content)
        self.mark(folder)

    def load_dist(self, folder, iteration, kind):
        from megatron.core import dist_checkpointing
        for inner in self.optimizer.chained_optimizers if self.distributed else []:
            inner._init_optimizer_states_with_dummy_values()  # as torch's own Adam needs it
        state = dist_checkpointing.load(self.sharded(kind, True), f"{folder}/iter_{iteration:07d}", strict="assume_ok_unexpected")
        self.ddp.module.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        # Without fused Adam, all parameters share one step here, which then grows with each of them.
        for inner in self.optimizer.chained_optimizers if self.distributed else []:
            for states in inner.optimizer.state.values():
                states["step"] = states["step"].clone()
        self.scheduler.load_state_dict(state["opt_param_scheduler"])
        self.iteration = state["iteration"]
        return state

    def mark(self, folder):
        torch.distributed.barrier()
        if torch.distributed.get_rank() == 0:
            with open(f"{folder}/latest_checkpointed_iteration.txt", "w") as file:
                file.write(str(self.iteration))
        torch.distributed.barrier()


def start(tp=1, pp=1, ep=1):
    from megatron.core import parallel_state
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    parallel_state.initialize_model_parallel(tp, pp, expert_model_parallel_size=ep)
    no_gpu()
