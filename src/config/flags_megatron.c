// Megatron-LM's flags without a row, for better messages than "unknown flag". Those that change no numbers are accepted
// with a note; those that would change the run are refused by name, unless they are given with Megatron's default. The
// notation is that of struct flag_names: a switch stands alone, a flag with a value has its default (if any) after =.
#include "config/flags.h"

const char flags_always_so[] =
    "--cache-mla-latents --use-cpu-initialization --cross-entropy-loss-fusion --cross-entropy-fusion-impl= "
    "--flash-attention-version= --disable-bf16-reduced-precision-matmul "
    "--use-flash-attn --te-rng-tracker --inference-rng-tracker --use-mp-args-from-checkpoint-args "
    "--verify-integrity --bias-gelu-fusion --bias-dropout-fusion --scaled-upper-triang-masked-softmax-fusion "
    "--scaled-masked-softmax-fusion --legacy-tokenizer --use-precision-aware-optimizer --no-query-key-layer-scaling "
    "--overlap-p2p-communication --log-batch-size-to-tensorboard --tokenizer-hf-include-special-tokens "
    // With --profile there is always a trace, and NVTX ranges on a GPU.
    "--use-pytorch-profiler --nvtx-ranges "
    "--yarn-correction-range-round-to-int "
    // Datasets are repeated as often as a run needs them.
    "--repeated-dataloader ";

// Values that Megatron can store in fewer bits: here they have more, and the run differs only by less rounding.
const char flags_finer[] = "--main-grads-dtype= --main-params-dtype= --megatron-fsdp-main-params-dtype= "
                           "--megatron-fsdp-main-grads-dtype= --megatron-fsdp-grad-comm-dtype= "
                           "--fp16-lm-cross-entropy --fp8-param-gather ";

// Fusions, overlap, buckets, graphs and the mechanics of saving.
const char flags_only_speed[] =
    "--mla-down-proj-fusion "
    // Where and in which pieces sharded parameters are gathered.
    "--fsdp-manual-registration --data-parallel-sharding-strategy= --outer-dp-sharding-strategy= --fsdp-double-buffer "
    "--keep-fp8-transpose-cache --enable-full-sharding-in-hsdp --torch-fsdp2-no-reshard-after-forward "
    "--megatron-fsdp-version= --megatron-fsdp-enable-fine-grained-param-gather "
    "--megatron-fsdp-max-pool-double-buffer --fsdp-db-use-persist-buf-on-alloc-fail "
    "--keep-fp8-transpose-cache-when-using-custom-fsdp "
    // Padding rows without a weight, for kernels that need whole tiles: ours do not.
    "--moe-router-padding-for-quantization --moe-router-padding-for-fp8 "
    "--tp-comm-overlap --no-tp-comm-bulk-wgrad --disable-tp-comm-bulk-wgrad --no-tp-comm-bulk-dgrad "
    "--disable-tp-comm-bulk-dgrad --no-tp-comm-overlap-ag --disable-tp-comm-overlap-ag --no-tp-comm-overlap-rs "
    "--disable-tp-comm-overlap-rs --tp-comm-overlap-rs-dgrad --no-tp-comm-split-ag --disable-tp-comm-split-ag "
    "--no-tp-comm-split-rs --disable-tp-comm-split-rs --tp-comm-bootstrap-backend= --delay-wgrad-compute "
    "--use-ring-exchange-p2p --defer-embedding-wgrad-compute --wgrad-deferral-limit= "
    "--overlap-p2p-communication-warmup-flush "
    "--init-model-with-meta-device --use-fused-weighted-squared-relu --fused-residual-rmsnorm "
    "--use-transformer-engine-op-fuser --enable-cuda-graph --cuda-graph-warmup-steps= --external-cuda-graph "
    "--cuda-graph-impl= --no-clone-scatter-output-in-embedding --disable-clone-scatter-output-in-embedding "
    "--use-te-activation-func --symmetric-ar-type= --empty-unused-memory-level= --train-sync-interval= "
    "--manual-gc --manual-gc-interval= --no-manual-gc-eval --disable-manual-gc-eval --tp-comm-overlap-cfg= "
    "--no-masked-softmax-fusion --no-bias-swiglu-fusion --no-bias-dropout-fusion --no-rope-fusion "
    "--optimizer-cuda-graph --no-pin-cpu-grads --no-pin-cpu-params --no-persist-layer-norm "
    "--no-gradient-accumulation-fusion --no-ckpt-fully-parallel-save --async-strategy= "
    "--use-persistent-ckpt-worker --async-ckpt-cpu-priority= --async-ckpt-io-priority= "
    "--async-ckpt-use-cpu-shm --ckpt-fully-parallel-load --ckpt-fully-parallel-load-exchange-algo= "
    "--ckpt-fully-parallel-load-per-rank-objects --ckpt-fully-parallel-save-process-group= "
    "--ckpt-fully-parallel-load-process-group= --ckpt-assume-constant-structure --ckpt-pg-tensors-cache-path= "
    "--ckpt-pg-tensors-cache-create --no-ckpt-load-validate-sharding-integrity "
    "--disable-ckpt-load-validate-sharding-integrity --dist-ckpt-strictness= --dist-ckpt-save-pre-mcore-014 "
    "--dist-ckpt-optim-fully-reshardable --distrib-optim-fully-reshardable-mem-efficient "
    "--no-save-tokenizer-assets --disable-save-tokenizer-assets --dist-ckpt-workers= "
    "--ckpt-fully-parallel-save --ckpt-drop-redundant-extra-state --no-align-grad-reduce "
    "--disable-align-grad-reduce --nccl-communicator-config-path= --use-tp-pp-dp-mapping "
    "--disable-gloo-process-groups --use-sharp --sharp-enabled-group= --high-priority-stream-groups=* "
    "--disable-jit-fuser --no-overlap-p2p-communication --no-scatter-gather-tensors-in-pipeline "
    "--delay-grad-reduce --no-delay-grad-reduce "
    "--ddp-pad-buckets-for-high-nccl-busbw --ddp-average-in-collective "
    "--overlap-param-gather-with-optimizer-step --no-align-param-gather --no-use-layer-wise-param-layout "
    "--use-nccl-ub --disable-symmetric-registration --create-all-gather-group --no-gradient-reduce-div-fusion "
    "--suggested-communication-unit-size= --dataloader-fast-cache-load --dataloader-defer-npy-index-mmap "
    "--num-dataset-builder-threads= --no-barrier-with-level-1-timing --cuda-graph-scope=* "
    "--cuda-graph-modules=* --no-mmap-bin-files --mmap-warmup --no-async-tensor-model-parallel-allreduce "
    "--use-contiguous-buffers-in-local-ddp --no-contiguous-buffers-in-local-ddp "
    "--no-scaled-masked-softmax-fusion --num-distributed-optimizer-instances= "
    "--pipeline-model-parallel-comm-backend= --delay-param-gather "
    "--use-contiguous-buffers-in-ddp "
    "--cpu-offloading-retain-pinned-cpu-buffers "
    "--use-torch-optimizer-for-cpu-offload --overlap-cpu-optimizer-d2h-h2d --fine-grained-activation-offloading "
    "--offload-modules=* --min-offloaded-tensor-size= --delay-offload-until-cuda-graph "
    "--delta-offload-bytes-across-pp-ranks= --activation-offload-fraction= "
    "--fine-grained-offloading-max-inflight-offloads= "
    // Experts are always grouped, and fusion and symmetric matmuls are chosen by the device.
    "--moe-grouped-gemm --moe-permute-fusion --moe-router-fusion --muon-use-syrk "
    // Transport of tokens to experts, and work overlapped with it.
    "--moe-shared-expert-overlap --use-grouped-gemm-for-shared-expert --moe-enable-deepep "
    "--moe-flex-dispatcher-backend= --moe-permute-fusion-into-hybridep --moe-hybridep-pad-uneven-dispatch-inputs "
    "--moe-flex-dispatcher-num-sms= --moe-deepep-num-sms= --moe-hybridep-num-sms= --moe-hybridep-num-blocks-permute= "
    "--moe-hybridep-num-blocks-unpermute= --moe-hybridep-num-sms-preprocessing= --moe-use-grouped-tensor "
    "--moe-single-grouped-weight --moe-single-grouped-bias --use-grouped-gemm-for-dense-mlp "
    "--overlap-dispatch-backward-with-experts-wgrad --ep-overlap-early-attn-memory-release "
    "--high-priority-a2a-comm-stream --reuse-grad-buf-for-mxfp8-param-ag ";

// Services, profilers, launchers and choices between parts of Megatron.
const char flags_no_meaning[] =
    "--config-logger-dir= "
    "--pytorch-profiler-collect-shapes --pytorch-profiler-collect-callstack --pytorch-profiler-collect-chakra "
    "--record-memory-history --memory-snapshot-path= --record-shapes "
    "--dump-param-to-param-group-map= --flight-recorder-dump-path= --flight-recorder-trace-buffer-size= "
    "--no-flight-recorder-dump-on-timeout --disable-flight-recorder-dump-on-timeout "
    "--flight-recorder-include-stack-trace --no-flight-recorder-include-only-active "
    "--disable-flight-recorder-include-only-active --no-flight-recorder-extra-dump-on-exec "
    "--disable-flight-recorder-extra-dump-on-exec --adlr-autoresume --adlr-autoresume-interval= "
    "--log-memory-interval= --log-device-memory-used --logging-level= --log-energy --otel-enabled "
    "--otel-service-name= --otel-span-groups=* "
    "--run-workload-inspector-server --no-one-logger --one-logger-project= --one-logger-run-name= "
    "--one-logger-async --app-tag-run-name= --app-tag-run-version= --enable-ft-package --calc-ft-timeouts "
    "--ft-num-warmup-iters= --rerun-mode= --enable-msc --disable-msc --allow-ambiguous-pad-tokens "
    "--use-mcore-models --enable-experimental --DDP-impl= --data-impl= "
    "--use-dist-ckpt --num-workers= --distributed-timeout-seconds-after-init= "
    "--dist-ckpt-format= --transformer-impl= --local-rank= --lazy-mpu-init --test-mode "
    "--log-max-attention-logit --enable-one-logger --one-logger-entity= --no-log-learnig-rate-to-tensorboard "
    "--s3-cache-path= --tokenizer-hf-use-fast --trust-remote-code --moe-per-layer-logging --check-for-large-grads "
    // Megatron's ModelOpt scripts: choice of its model implementation.
    "--export-force-local-attention --export-te-mcore-model --export-default-te-spec ";

// Layers that models here do not have: Mamba, linear and sparse attention, latent experts, residual streams.
const char flags_other_models[] =
    "--qk-l2-norm --attention-output-gate --experimental-attention-variant= --dsa-indexer-n-heads= "
    "--dsa-indexer-head-dim= --dsa-indexer-topk= --dsa-indexer-topk-freq=1 --dsa-indexer-skip-topk-offset=0 "
    "--dsa-indexer-loss-coeff= --dsa-indexer-use-sparse-loss --dsa-kernel-backend=none "
    "--dsa-indexer-rope-interleaved --no-dsa-indexer-rotate-activation --disable-dsa-indexer-rotate-activation "
    "--no-dsa-indexer-scoring-relu --disable-dsa-indexer-scoring-relu --dsa-indexer-k-norm-epsilon= "
    "--dsa-indexer-k-norm-fp32 --linear-conv-kernel-dim=4 --linear-key-head-dim=128 --linear-value-head-dim=128 "
    "--linear-num-key-heads=16 --linear-num-value-heads=32 --linear-attention-freq= --moe-latent-size= "
    "--moe-apply-probs-on-input --enable-mhc-connections --mhc-num-residual-streams=4 --mhc-sinkhorn-iterations=20 "
    "--mhc-init-gating-factor=0.01 --mhc-recompute-layer-num= --is-hybrid-model --mamba-state-dim=128 "
    "--mamba-head-dim=64 --mamba-num-groups=8 --mamba-num-heads= --gdp-num-householder=3 "
    "--disable-mamba-mem-eff-path --gdp-cutedsl-kernel --gdp-num-chunk-states-to-recompute=2 "
    "--mamba-training-ssm-states-dtype= --mtp-hybrid-override-pattern= --mrope-section= --spec=local "
    "--hybrid-attention-ratio=0.0 --hybrid-mlp-ratio=0.0 "
    "--heterogeneous-layers-config-path= --heterogeneous-layers-config-encoded-json= --export-model-type=GPTModel "
    "--export-qk-l2-norm --export-moe-apply-probs-on-input ";

// Flags of the launcher, which precede the script's name and are easily copied along.
const char flags_torchrun[] = "--nproc-per-node= --nnodes= --node-rank= --master-addr= --master-port= --rdzv-id= "
                              "--rdzv-backend= --rdzv-endpoint= --rdzv-conf= --standalone ";

const char flags_refused[] =
    // Model and parallelism.
    "--tensor-parallel-num-weight-shards= "
    "--max-seqlen-per-dp-cp-rank= --hybrid-context-parallel "
    "--expert-tensor-parallel-num-weight-shards= "
    "--no-initialization "
    "--mtp-standalone "
    "--mtp-use-repeated-layer --mtp-detach-heads --mtp-hsm "
    "--fp32-residual-connection --apply-residual-connection-post-layernorm "
    "--use-mup "
    "--mup-width-mult=1.0 --mup-base-hidden-size= --mup-embedding-mult=1.0 --mup-output-mult=1.0 "
    "--mup-base-head-dim= --mup-attn-scale-power=1.0 "
    "--fp8-quantizer-factory= --fp8-interval=1 "
    "--no-fp8-wgrad --disable-fp8-wgrad "
    "--use-kitchen-attention --kitchen-attention-backend=sdpa "
    "--fp4-quantizer-factory= "
    "--moe-shared-expert-glu-interleave-size= "
    "--moe-enable-routing-replay "
    "--moe-router-quantile-balancing-ema=0.0 --moe-router-force-load-balancing --moe-router-force-biased= "
    "--moe-pad-experts-for-cuda-graph-inference "
    "--gtp-remat-opt-in-modules=* "
    "--moe-ncclep-zero-copy --moe-dispatch-fwd-dtype=bf16 "
    "--moe-combine-bwd-dtype=bf16 --moe-mlp-glu-interleave-size= --moe-expert-rank-capacity-factor= "
    "--inference-cuda-graph-scope= "
    "--flash-decode "
    "--batch-invariant-mode --batch-invariant-backend=te_native --nccl-all-reduce-for-prefill "
    "--inference-fuse-tp-communication --inference-disable-triton-nvls-kernels "
    "--inference-grouped-gemm-backend=vllm --inference-moe-disable-fused-quant-kernels "
    "--inference-moe-token-dispatcher-type=nvls "
    "--mlp-chunks-for-prefill=1 --mlp-chunks-for-training=1 "
    "--moe-paged-stash "
    "--moe-paged-stash-page-size=64 --moe-paged-stash-buffer-size-factor-cuda=1.1 "
    "--moe-paged-stash-buffer-size-factor-cpu=0.0 "
    "--yarn-original-max-position-embeddings= "
    // Regularisation and optimizer hyper-parameters.
    "--no-weight-decay-cond-type= "
    // Profiling + training loop + fusions.
    "--decrease-batch-size-if-needed "
    "--gpu-sniff-test-interval= --exit-signal=SIGTERM --exit-signal-handler-for-dataloader "
    "--exit-signal-handler-for-training "
    "--result-rejected-tracker-filename= "
    // RL (GRPO).
    "--perform-rl-step --rl-prompts-per-eval=32 --grpo-prompts-per-step=32 --grpo-group-size=2 "
    "--rl-generation-lag= --rl-max-inflight-requests= --rl-submission-granularity=B "
    "--rl-consumption-granularity=B --rl-durable-rollout-bank --rl-rollout-bank-dir= "
    "--rl-rollout-bank-max-bytes=0 --grpo-iterations=2 --grpo-clamp-eps-lower=0.01 --grpo-clamp-eps-upper=0.01 "
    "--grpo-kl-beta=0.001 --grpo-entropy-term-weight=0.0 --grpo-filter-groups-with-same-reward "
    "--langrl-env-config= --rl-default-temperature=1.0 --rl-default-top-p=0 --rl-default-top-k=-1 "
    "--rl-offload-optimizer-during-inference --rl-kv-cache-management-mode=persist --rl-persist-cuda-graphs "
    "--rl-partial-rollouts --no-rl-partial-rollouts --rl-inference-logprobs-is-correction "
    "--rl-importance-sampling-truncation-coef= --rl-use-sequence-packing "
    "--rl-sequence-packing-max-sequences-per-bin=50 --rl-sequence-packing-algo=fifo --rl-training-cuda-graphs "
    "--rl-inference-tensor-model-parallel-size= --rl-inference-pipeline-model-parallel-size= "
    "--rl-inference-expert-model-parallel-size= --rl-inference-expert-tensor-model-parallel-size= "
    "--rl-inference-model-unified-memory-level=0 --rl-offload-inference-model-weights-when-idle "
    "--no-rl-offload-inference-model-weights-when-idle --refit-method=gloo --rl-verify-model-weights-swap "
    "--no-rl-verify-model-weights-swap --rl-skip-bos-token --rl-profile --rl-profile-dir= "
    "--rl-inference-parsers=* "
    // RNG and init.
    "--data-parallel-random-init --init-method-xavier-uniform "
    // LR and WD schedule.
    "--freeze-all-layers "
    // Checkpointing.
    "--save-params-interval= --save-activations-interval= --save-tokens-per-expert-interval= "
    "--save-wgrads-interval= --save-dgrads-interval= --load-main-params-from-ckpt "
    "--non-persistent-save-interval= --non-persistent-ckpt-type= --non-persistent-global-ckpt-dir= "
    "--non-persistent-local-ckpt-dir= --non-persistent-local-ckpt-algo=fully_parallel "
    "--no-use-tokenizer-model-from-checkpoint-args --disable-use-tokenizer-model-from-checkpoint-args "
    "--ckpt-convert-format= --ckpt-convert-save= --ckpt-convert-update-legacy-dist-opt-format "
    "--no-strict-fsdp-dtensor-load --disable-strict-fsdp-dtensor-load --replication --replication-jump= "
    "--replication-factor=2 --override-ckpt-iteration= "
    // Mixed precision.
    "--output-logit-dtype= "
    // Distributed.
    "--ddp-reduce-scatter-with-fp32-accumulation --gtp-remat-reduce-scatter-with-fp32-accumulation "
    "--ddp-param-name-patterns-for-fp32-local-accumulation=* --gtp-remat-nccl-ub "
    "--gtp-expert-remat-nccl-ub "
    "--fake-process-group "
    // Validation.
    "--start-eval-at-iter= --full-validation "
    "--multiple-validation-sets --validation-set-names= "
    // Data and dataloader.
    "--phase-transition-iterations= "
    "--per-dataset-sequences-path= --sample-rate=1.0 --dataloader-inter-document-masking "
    "--object-storage-cache-path= --mid-level-dataset-surplus=0.005 "
    // Tokenizer.
    "--tokenizer-metadata= --tokenizer-special-tokens= "
    "--tokenizer-sentencepiece-legacy --no-tokenizer-sentencepiece-ignore-extra-whitespaces "
    "--disable-tokenizer-sentencepiece-ignore-extra-whitespaces --tokenizer-hf-no-use-fast "
    "--null-tokenizer-pad-id=-1 --chat-template= "
    "--use-gigatoken "
    // Bi-encoder (legacy).
    "--evidence-data-path= --block-data-path= --embedding-path= "
    "--indexer-batch-size=128 --indexer-log-interval=1000 "
    // Vision (legacy).
    "--num-classes=1000 --img-h=224 --img-w=224 --num-channels=3 --patch-dim=16 --classes-fraction=1.0 "
    "--data-per-class-fraction=1.0 --no-data-sharding --head-lr-mult=1.0 --vision-pretraining "
    "--vision-pretraining-type=classify --vision-backbone-type=vit --swin-backbone-type=tiny "
    "--mask-type=random --mask-factor=1.0 --iter-per-epoch=1250 --dino-local-img-size=96 "
    "--dino-local-crops-number=10 --dino-head-hidden-size=2048 --dino-bottleneck-size=256 "
    "--dino-freeze-last-layer=1 --dino-norm-last-layer --dino-warmup-teacher-temp=0.04 "
    "--dino-teacher-temp=0.07 --dino-warmup-teacher-temp-epochs=30 "
    // Experimental attention.
    // Heterogeneous layers.
    // Logging.
    "--moe-routing-trace-path= --moe-routing-trace-max-training-iters= "
    "--moe-routing-trace-capture-logits --moe-routing-trace-capture-hidden-states "
    "--moe-routing-trace-dump-weights "
    // Logits distillation.
    "--logits-save-top-k= --logits-save-top-p= --logits-save-top-p-min-k=1 --logits-save-dir= "
    "--logits-save-dtype=fp16 --logits-load-dir= --logits-load-decode-threads=4 "
    "--logits-load-prefetch-factor=3 --logits-load-msc-prefetch-depth=2 --logits-load-kd-loss-alpha=1.0 "
    "--logits-load-ignore-errors "
    // Inference.
    "--inference-batch-times-seqlen-threshold=-1 --max-tokens-to-oom=12000 --output-bert-embeddings "
    "--bert-embedder-type=megatron --use-legacy-static-engine --inference-max-requests=8 "
    "--inference-max-seq-length=2560 --inference-dynamic-batching "
    "--inference-dynamic-batching-buffer-size-gb=40.0 --inference-dynamic-batching-paused-buffer-size-gb= "
    "--inference-dynamic-batching-mamba-memory-ratio= --inference-dynamic-batching-block-size=256 "
    "--inference-dynamic-batching-max-requests= --inference-dynamic-batching-max-tokens= "
    "--inference-dynamic-batching-num-cuda-graphs=16 --inference-dynamic-batching-track-paused-request-events "
    "--inference-dynamic-batching-track-generated-token-events --decode-only-cuda-graphs "
    "--inference-cuda-graph-all-prefills --inference-cuda-graph-max-tokens=512 "
    "--inference-dynamic-batching-unified-memory-level=0 --enable-chunked-prefill --num-speculative-tokens=0 "
    "--inference-dynamic-batching-prefix-caching --no-inference-dynamic-batching-prefix-caching "
    "--inference-dynamic-batching-prefix-caching-eviction-policy=ref_zero "
    "--inference-dynamic-batching-prefix-caching-coordinator-policy=load_balanced "
    "--inference-dynamic-batching-prefix-caching-routing-alpha=0.5 "
    "--inference-dynamic-batching-prefix-caching-mamba-gb= "
    "--inference-dynamic-batching-cuda-graph-mixed-prefill-count=16 "
    "--inference-dynamic-batching-cuda-graph-sizing-distribution=exponential "
    "--inference-dynamic-batching-sampling-backend=torch --use-same-sampling-seed-across-dp-ranks "
    "--inference-dynamic-batching-async-sched-mode=legacy "
    "--inference-dynamic-batching-logprobs-mode=raw_logprobs --inference-logging-step-interval=0 "
    "--inference-text-gen-server-logging --no-inference-text-gen-server-logging --inference-wandb-logging "
    "--no-inference-wandb-logging --inference-coordinator-port= --mamba-inference-conv-states-dtype=bf16 "
    "--mamba-inference-ssm-states-dtype=bf16 --inference-use-synchronous-zmq-collectives "
    "--no-inference-use-synchronous-zmq-collectives --inference-disable-ep-consensus "
    "--no-inference-disable-ep-consensus --inference-shards= "
    // Transformer-Engine.
    "--fp4-param-gather --te-precision-config-file= "
    // Experimental.
    "--yaml-cfg= "
    // In-process restart.
    "--inprocess-restart --inprocess-max-iterations= --inprocess-monitor-thread-interval=1.0 "
    "--inprocess-monitor-process-interval=1.0 --inprocess-progress-watchdog-interval=1.0 "
    "--inprocess-heartbeat-interval=30 --inprocess-soft-timeout=60 --inprocess-hard-timeout=90 "
    "--inprocess-heartbeat-timeout=60 --inprocess-barrier-timeout=120 --inprocess-completion-timeout=120 "
    "--inprocess-last-call-wait=1 --inprocess-termination-grace-time=1 --inprocess-granularity=node "
    "--inprocess-active-world-size= --inprocess-empty-cuda-cache "
    // Rerun engine.
    "--error-injection-rate=0 --error-injection-type=transient_error "
    // Kitchen (only if library present).
    "--kitchen-config-file= --kitchen-recipe-number= "
    // ModelOpt: distillation, quantization, finetuning.
    "--export-legacy-megatron --export-kv-cache-quant=none --export-real-quant-cfg=None --export-quant-cfg= "
    "--export-kd-teacher-load= --export-kd-teacher-model-config= --export-kd-teacher-ckpt-format= --export-kd-cfg= "
    "--finetune-hf-dataset= --finetune-data-split=train --finetune-data-files=* --qad-train-target= "
    "--freeze-base-for-mtp --export-offline-model --modelopt-enabled "
    // SFT.
    "--sft --sft-tokenizer-prompt-format=nemotron-h-aligned "
    // Fault injector.
    "--fault-injector-ranks= --fault-injector-num-ranks= --fault-injector-fault-types= "
    "--fault-injector-fault-probabilities= --fault-injector-fault-delay= "
    "--fault-injector-delay-start-iteration= --fault-injector-mtti-seconds= --fault-injector-offset-seconds= "
    "--fault-injector-seed= "
    // From v1.1 and later releases, since removed from Megatron itself.
    "--num-unique-layers= --param-sharing-style=grouped --standalone-embedding-stage "
    "--encoder-tensor-model-parallel-size=0 --retro-add-retriever "
    "--retro-project-dir= --retro-cyclic-train-iters= --retro-encoder-layers=2 --retro-num-neighbors=2 "
    "--retro-workdir= --retro-encoder-hidden-dropout=0.1 --retro-encoder-attention-dropout=0.1 "
    "--retro-num-retrieved-chunks=2 --retro-return-doc-ids --retro-attention-gate=1 "
    "--retro-no-verify-neighbor-count --retriever-seq-length=256 --report-topk-accuracies=* --faiss-use-gpu "
    "--img-dim=224 --embedding-weights-in-fp32 --fp8-e4m3 "
    "--moe-extended-tp --moe-token-dropping --moe-use-legacy-grouped-gemm "
    "--renormalize-blend-weights --tiktoken-special-tokens=* --load-model-opt-format "
    "--langrl-external-server "
    "--langrl-inference-server-conversation-template= --langrl-inference-server-type= "
    "--grpo-default-temperature=1.0 --grpo-default-top-p=0 --rl-calculate-intra-group-similarity "
    "--rl-generation-batch-size= --rl-num-parallel-generation-batches= --rl-num-parallel-generations= "
    "--rl-offload-kv-cache-during-training --rl-parallel-generation-tasks= --rl-remove-kv-cache-during-training "
    "--rl-reset-cuda-graphs --rl-sequence-packing-bin-size= --disable-chunked-prefill "
    "--inference-dynamic-batching-buffer-guaranteed-fraction= --inference-dynamic-batching-buffer-overflow-factor= "
    "--inference-dynamic-batching-chunk-size= --inference-dynamic-batching-cuda-graph-max-tokens= "
    "--inference-dynamic-batching-max-requests-override= --inference-dynamic-batching-max-tokens-override= "
    "--inference-max-batch-size= ";

// ---- flags of Megatron-LM's forks ----

// In the same notation: Megatron-DeepSpeed (Microsoft's and
// BigScience's), llm-jp, swiss-ai, BigCode and Pai-Megatron-Patch. Those that change no numbers are accepted with a
// note. The others are refused with a remedy; names that have an exact equivalent are in flags_synonyms.c.

const char flags_forks_always_so[] = "--use-mpi --sync-tp-duplicated-parameters --enable-shared-expert ";

// DeepSpeed's storage of activations, states and gradients, and kernels of others.
const char flags_forks_only_speed[] =
    "--deepspeed-activation-checkpointing --partition-activations --contigious-checkpointing --checkpoint-in-cpu "
    "--synchronize-each-layer --profile-backward --zero-reduce-scatter --zero-contigious-gradients "
    "--zero-reduce-bucket-size= --zero-allgather-bucket-size= --use-flash-attn-v1 --use-flash-attn-v2 "
    "--use-flash-attn-triton --use-flash-attn-builder --valid-num-workers= --qknorm-impl= ";

const char flags_forks_no_meaning[] =
    "--abort-on-unmet-fused-kernel-constraints --no-pipeline-parallel --log-optimizer-states-to-tensorboard "
    "--max-padding-length= --codecarbon-dir= --structured-logs --structured-logs-dir= --log-level= "
    "--log-level-replica= ";

// Finetuning on questions and answers: padded samples, losses of the answers only.
const char flags_finetuning[] = "--norm-target-loss --loss-on-targets-only --train-mode=pretrain "
                                "--source-seq-len= "
                                "--target-seq-len= --generation-length= --scalar-loss-mask= ";

// Pai's kinds of data that are tokenized already; --data-path names them.
const char flags_pai_dataset[] = "--dataset=MMAP|LLama-Pretrain-Idxmap|Mistral-Pretrain-Idxmap|Qwen-Pretrain-Idxmap ";

const char flags_deepspeed_checkpoint[] = "--universal-checkpoint ";

const char flags_deepspeed_experts[] =
    "--moe-expert-parallel-size= --moe-loss-coeff= --moe-train-capacity-factor= --moe-eval-capacity-factor= "
    "--moe-min-capacity= --create-moe-param-group --mlp-type= --disable-moe-token-dropping "
    "--disable-moe-top2-2nd-expert-sampling --use-tutel ";

// Features of other models and other losses.
const char flags_forks_other_models[] =
    "--xielu --goldfish-loss --goldfish-k= --goldfish-h= --glu-activation= "
    "--ademamix-alpha= --ademamix-beta3= --ademamix-alpha-warmup= --ademamix-beta3-warmup= "
    "--disable-vision-class-token --patch-size= --position-encoding-2d --mup --mup-attn-mult= --mup-input-mult= "
    "--no-seq-len-plus-one-tokens --bitfit ";

const char flags_distillation[] =
    "--kd --mos --kd-alpha-ce= --kd-beta-ce= --kd-temp= --load-teacher= --num-layers-teacher= --hidden-size-teacher= "
    "--num-attention-heads-teacher= --num-experts-teacher= ";
