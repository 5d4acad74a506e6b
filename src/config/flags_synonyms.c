// Names of a run's flags in other programs: Hugging Face's Trainer, nanoGPT, llm.c, fairseq, NeMo, DeepSpeed,
// torchtitan, LitGPT, axolotl and forks of Megatron-LM. These names are not accepted, because their units and defaults
// differ too often; the error says what to use instead, by meaning rather than by spelling. Names of Megatron or of
// this program do not belong here.
#include "config/flags.h"

#define DATASET "text (.jsonl, .txt, a folder), or the PREFIX of a dataset that `bevatron preprocess` wrote"

const struct flag_synonym flags_synonyms[] = {
    // Learning rate and schedule.
    {"--learning-rate --max-lr --peak-lr --base-lr --lr-max --max-learning-rate --peak-learning-rate", "--lr", NULL},
    {"--min-learning-rate --lr-min --eta-min --lr-end --final-lr", "--min-lr", NULL},
    {"--min-lr-ratio --min-lr-rate --lr-min-ratio --learning-rate-decay-frac --final-lr-fraction", "--min-lr",
     "a learning rate, not a share: the share × --lr"},
    {"--warmup-steps --num-warmup-steps --warmup-iters --warmup-iterations --lr-warmup-steps --lr-warmup-updates "
     "--warmup-num-steps",
     "--lr-warmup-iters", NULL},
    {"--warmup-ratio --warmup-fraction --lr-warmup-ratio --warmup-proportion --warmup-pct", "--lr-warmup-fraction",
     "the fraction of --lr-decay-iters, by default of --train-iters"},
    {"--warmup-tokens", "--lr-warmup-tokens", NULL},
    {"--decay-tokens", "--lr-decay-tokens", NULL},
    {"--lr-scheduler-type --lr-scheduler-name --lr-schedule --lr-decay --decay-lr --scheduler --schedule",
     "--lr-decay-style", "constant, linear, cosine, WSD or another shape"},
    {"--lr-decay-steps --decay-steps --decay-iters --lr-decay-updates", "--lr-decay-iters", NULL},
    // Length of the run.
    {"--num-epochs --num-train-epochs --max-epochs --max-epoch --n-epochs --train-epochs --epoch", "--epochs", NULL},
    {"--max-steps --num-steps --train-steps --num-train-steps --max-train-steps --training-steps --total-steps --steps "
     "--max-iters --max-iterations --iterations --num-iterations --num-updates --max-updates",
     "--train-iters", NULL},
    {"--num-tokens --total-tokens --max-train-tokens --token-budget", "--tokens", NULL},
    {"--max-tokens", "--tokens",
     "tokens of the run; fairseq's --max-tokens, of a batch, is --micro-batch-size × --seq-length"},
    {"--early-stopping --early-stop --early-stopping-patience --early-stopping-threshold --patience", NULL,
     "early stopping is not offered: choose the length with --epochs; --keep-best keeps the checkpoint with the lowest "
     "validation loss"},
    // torchtitan's. Others are found by their last part.
    {"--checkpoint.interval", "--save-interval", "iterations between checkpoints"},
    {"--checkpoint.enable --checkpoint.enable-checkpoint --checkpoint.folder --job.dump-folder", "--save", "a folder"},
    {"--model.name --model.flavor", "--preset", "a published size (`bevatron help presets`)"},
    {"--optimizer.name", "--optimizer", "adam, whose weight decay is decoupled as AdamW's"},
    {"--lr-scheduler.decay-type", "--lr-decay-style", "constant, linear, cosine, WSD or another shape"},
    {"--validation.freq --validation.interval", "--eval-interval", "iterations between evaluations"},
    {"--validation.steps", "--eval-iters", "batches per evaluation"},
    {"--activation-checkpoint.mode", "--recompute-granularity", "full or selective"},
    {"--mixed-precision-param", "--bf16 or --fp16", "switches; without them everything is fp32"},
    {"--data-parallel-shard-degree --data-parallel-replicate-degree", "--use-distributed-optimizer",
     "the data-parallel size follows from the number of ranks"},
    {"--enable-tensorboard", "--tensorboard-dir", NULL},
    {"--enable-wandb", "--wandb-project", "with --wandb-exp-name"},
    // Batches.
    {"--per-device-train-batch-size --per-gpu-train-batch-size --train-micro-batch-size-per-gpu --local-batch-size "
     "--device-batch-size --batch-size-per-gpu --per-device-batch-size --micro-bsz --mbs",
     "--micro-batch-size", NULL},
    {"--train-batch-size --total-batch-size --effective-batch-size --global-bsz --gbs", "--global-batch-size",
     "samples, not tokens, of one update over all ranks"},
    {"--gradient-accumulation-steps --grad-accumulation-steps --gradient-accumulation --grad-accum-steps --grad-accum "
     "--accumulation-steps --accum-steps --accumulate-grad-batches --update-freq --gas",
     "--global-batch-size", "--micro-batch-size × data-parallel ranks × the accumulation steps"},
    {"--per-device-eval-batch-size --eval-batch-size --val-batch-size", "--eval-global-batch-size",
     "samples of all ranks; by default those of training"},
    // Model.
    {"--block-size --context-length --context-size --context-window --ctx-len --ctx-size --n-ctx --n-positions "
     "--max-seq-len --max-seq-length --max-sequence-length --model-max-length --max-length --sequence-length --seq-len "
     "--sequence-len --seqlen --cutoff-len",
     "--seq-length", NULL},
    {"--n-layer --n-layers --num-hidden-layers --layers --depth", "--num-layers", NULL},
    {"--encoder-layers --num-encoder-layers", "--encoder-num-layers", "for T5; for BERT use --num-layers"},
    {"--decoder-layers --num-decoder-layers", "--num-layers", "for GPT; for T5's decoder use --decoder-num-layers"},
    {"--n-head --n-heads --num-heads --attention-heads --heads --decoder-attention-heads --encoder-attention-heads",
     "--num-attention-heads", NULL},
    {"--num-kv-heads --n-kv-heads --n-kv-head --kv-heads --n-query-groups "
     "--multi-query-group-num",
     "--group-query-attention and --num-query-groups", "a switch, and the number of key/value heads"},
    {"--n-embd --n-embed --d-model --dim --model-dim --hidden-dim --embed-dim --embedding-dim --embedding-size "
     "--decoder-embed-dim --encoder-embed-dim",
     "--hidden-size", NULL},
    {"--n-inner --d-ff --ffn-dim --ffn-size --ffn-hidden-dim --mlp-dim --mlp-hidden-size "
     "--ffn-embed-dim --decoder-ffn-embed-dim --encoder-ffn-embed-dim",
     "--ffn-hidden-size", NULL},
    {"--head-dim --head-size --d-head --d-kv", "--kv-channels", NULL},
    {"--rope-theta --rope-base --rope-freq-base --rotary-emb-base --theta", "--rotary-base", NULL},
    {"--rotary-pct --partial-rotary-factor", "--rotary-percent", "from 0 to 1"},
    {"--rotary-scale-factor", "--rotary-seq-len-interpolation-factor", "the factor that positions are divided by"},
    {"--alibi --use-alibi", "--position-embedding-type alibi", NULL},
    {"--rotary-dim", "--rotary-percent", "rotated channels / --kv-channels"},
    {"--rope --use-rope --rotary --use-rotary", "--position-embedding-type rope", NULL},
    {"--dropout --dropout-rate --dropout-p --resid-pdrop --embd-pdrop --resid-dropout --residual-dropout",
     "--hidden-dropout and --attention-dropout", "each defaults to 0.1; other programs often use 0"},
    {"--attn-dropout --attn-pdrop --attention-probs-dropout-prob", "--attention-dropout", NULL},
    {"--hidden-dropout-prob", "--hidden-dropout", NULL},
    {"--router-aux-loss-coef", "--moe-aux-loss-coeff", NULL},
    {"--geglu", "--gated-linear-unit and --activation gelu", "or gelu_tanh"},
    {"--bias --use-bias --add-bias", "--disable-bias-linear", "by default linear layers have biases"},
    {"--tie-word-embeddings --tie-embeddings --tie-weights --weight-tying --share-embeddings "
     "--share-decoder-input-output-embed",
     "--untie-embeddings-and-output-weights", "by default they are tied"},
    {"--rms-norm-eps --layer-norm-eps --layer-norm-epsilon --norm-eps --ln-eps", "--norm-epsilon", NULL},
    {"--norm-type --use-rmsnorm --rms-norm --rmsnorm", "--normalization", "LayerNorm or RMSNorm"},
    {"--hidden-act --activation-function --activation-fn", "--activation",
     "gelu_tanh, gelu, relu, squared_relu, silu, quick_gelu"},
    {"--initializer-range --init-std", "--init-method-std", NULL},
    {"--model-name-or-path --model-name --model-path --pretrained-model --pretrained-model-name-or-path --base-model "
     "--init-from --pretrained",
     "--load",
     "a folder of Hugging Face, Megatron-LM or bevatron, with --use-checkpoint-args; --preset has published sizes"},
    {"--model-type --arch --model-size", "--preset",
     "a published size (`bevatron help presets`), or --model, a family"},
    {"--lora --use-lora --lora-r --lora-rank --lora-alpha --lora-dropout --lora-target-modules --qlora --use-dora "
     "--peft "
     "--use-peft --peft-type --adapter --load-in-4bit --load-in-8bit",
     NULL, "adapters (LoRA) are not offered: training changes all weights; --load with --finetune continues a model"},
    {"--push-to-hub --push-to-hub-model-id --hub-model-id --hub-token --hub-strategy --hub-private-repo --hf-token "
     "--hf-repo",
     NULL,
     "nothing is sent to a hub: `bevatron checkpoint convert` writes a folder for Hugging Face, and `hf upload` "
     "sends it"},
    // Optimizer.
    {"--grad-clip --max-grad-norm --clip-norm --max-norm --grad-norm-clip --gradient-clip --gradient-clipping "
     "--gradient-clip-val "
     "--clip-gradients",
     "--clip-grad", "0 for no clipping"},
    {"--beta1 --beta-1 --adam-b1", "--adam-beta1", NULL},
    {"--beta2 --beta-2 --adam-b2", "--adam-beta2", NULL},
    {"--betas --adam-betas", "--adam-beta1 and --adam-beta2", NULL},
    {"--adam-epsilon --eps --epsilon --optimizer-eps", "--adam-eps", NULL},
    {"--wd --l2 --weight-decay-rate", "--weight-decay", NULL},
    {"--optim --optimizer-name --optimizer-type", "--optimizer", "adam, whose weight decay is decoupled as AdamW's"},
    {"--momentum", "--sgd-momentum", NULL},
    {"--cpu-optimizer --use-cpu-adam", "--optimizer-cpu-offload", NULL},
    {"--use-bnb-optimizer", "--exp-avg-dtype fp8 and --exp-avg-sq-dtype fp8", "moments in 8 bits"},
    {"--reset-progress --reset-iteration", "--finetune", "which loads weights and starts at iteration 0"},
    {"--reset-optimizer --reset-lr-scheduler --no-load-lr-state", "--no-load-optim",
     "or --finetune, which starts at iteration 0"},
    // Precision and speed.
    {"--dtype --torch-dtype --param-dtype --precision --mixed-precision --amp --use-amp", "--bf16 or --fp16",
     "switches; without them everything is fp32"},
    {"--bfloat16 --use-bf16", "--bf16", NULL},
    {"--float16 --half --use-fp16 --half-precision", "--fp16", NULL},
    {"--allow-tf32 --use-tf32", "--tf32", NULL},
    {"--fp8 --use-fp8 --enable-fp8", "--fp8-format hybrid", "with --bf16, on a GPU"},
    {"--gradient-checkpointing --grad-checkpointing --activation-checkpointing "
     "--activation-checkpoint",
     "--recompute-granularity", "full recomputes whole layers, selective only attention"},
    {"--compile --torch-compile --use-compile --flash --flash-attention --use-flash-attention "
     "--use-flash-attention-2 --attn-implementation",
     NULL, "leave it out: bevatron chooses the kernels"},
    // Data and tokenizer.
    {"--data --training.dataset --data-dir --dataset-name --dataset-path --dataset-dir --data-prefix --train-file "
     "--train-data "
     "--train-data-dir --train-path --train-bin --input-data",
     "--data-path", DATASET},
    {"--validation-file --valid-data --val-data --val-path --valid-path --val-data-path --validation-data-path "
     "--eval-data --eval-file --val-bin",
     "--valid-data-path", "with --train-data-path instead of --data-path; each is " DATASET},
    {"--val-fraction --valid-fraction --validation-fraction --eval-fraction --validation-split --val-split "
     "--valid-split --train-split --test-split --validation-split-percentage "
     "--val-split-fraction --test-size",
     "--split", "shares of training, validation and test, e.g. 949,50,1"},
    {"--tokenizer --tokenizer-name --tokenizer-path --tokenizer-dir", "--tokenizer-type and --tokenizer-model",
     "e.g. HuggingFaceTokenizer and a tokenizer.json"},
    {"--vocab --vocab-path --vocabulary", "--vocab-file", NULL},
    {"--merges --merges-file --bpe-file", "--merge-file", NULL},
    {"--padded-vocab", "--padded-vocab-size", NULL},
    {"--pad-to-multiple-of --pad-vocab-to-multiple-of --pad-vocab-size-to-multiple-of",
     "--make-vocab-size-divisible-by", NULL},
    {"--dataloader-num-workers --num-data-workers --data-workers --workers --num-proc --preprocessing-num-workers",
     NULL, "leave it out: a thread of each rank prepares its samples"},
    {"--json-key --text-key --text-column --text-column-name --text-field", "--json-keys", NULL},
    {"--packing --pack --sample-packing --sequence-packing --eval-packing --pack-sequences --multipack", NULL,
     "leave it out: documents are packed into samples of --seq-length tokens; --reset-attention-mask keeps them apart"},
    {"--shuffle --shuffle-data --shuffle-dataset", NULL, "leave it out: documents are shuffled, by --seed"},
    {"--data-path2", "--data-path", "weights and prefixes, e.g. 0.7 a_text_document 0.3 b_text_document"},
    {"--data-file-list", "--data-args-path", "a file with weights and prefixes"},
    {"--enable-gpt-oss", "--preset gpt-oss-20b", "or its flags for YaRN with another size (`bevatron help presets`)"},
    {"--random-seed --data-seed --rng-seed --manual-seed", "--seed", NULL},
    // Evaluation.
    {"--eval-steps --eval-every --eval-freq --eval-frequency --eval-every-steps --evaluation-interval --val-interval "
     "--val-check-interval --val-loss-every --validate-interval --validate-interval-updates --validation-interval",
     "--eval-interval", "iterations between evaluations; --eval-iters is their length in batches"},
    {"--eval-batches --eval-max-steps --max-eval-batches --limit-val-batches --val-iters --val-max-steps",
     "--eval-iters", "batches per evaluation; --eval-interval is the number of iterations between them"},
    {"--do-eval --eval-strategy --evaluation-strategy", "--eval-interval", "and --eval-iters 0 for no evaluation"},
    {"--skip-train-iteration-range", "--iterations-to-skip",
     "the iterations that are skipped count, unlike in Megatron-DeepSpeed"},
    {"--do-train", NULL, "leave it out: train trains, and --skip-train only evaluates"},
    {"--only-eval", "--skip-train", NULL},
    // Checkpoints.
    {"--output-dir --out-dir --output --output-path --out --save-dir --save-path --checkpoint-dir --checkpoint-path "
     "--ckpt-dir --results-dir --run-dir --default-root-dir",
     "--save", "a folder; --save-interval sets how often"},
    {"--save-steps --save-every --save-freq --save-frequency --save-interval-updates --checkpoint-interval "
     "--checkpoint-every --checkpoint-freq --checkpointing-steps --ckpt-interval",
     "--save-interval", "iterations between checkpoints"},
    {"--save-total-limit --save-top-k --keep-last-n-checkpoints --keep-last-k --keep-latest-k --keep-interval-updates "
     "--max-checkpoints --keep-checkpoints",
     "--keep-last", NULL},
    {"--save-best --save-best-only --load-best-model-at-end --metric-for-best-model --greater-is-better "
     "--keep-best-checkpoints",
     "--keep-best", NULL},
    {"--resume-from --resume-from-checkpoint --resume-path --auto-resume --restore --restore-file --continue "
     "--load-checkpoint --load-dir --load-path --checkpoint --ckpt --ckpt-path",
     "--load", "the folder that --save wrote; its latest checkpoint is resumed"},
    // Logs.
    {"--logging-steps --logging-interval --log-every --log-every-n-steps --log-freq --log-frequency --log-steps "
     "--print-freq --print-every",
     "--log-interval", NULL},
    {"--quiet --silent --verbose --debug --verbosity", "--log-interval",
     "iterations between lines; --log-arguments lists all flags"},
    {"--logging-dir --log-dir --tensorboard-logdir --tb-dir --tensorboard", "--tensorboard-dir", NULL},
    {"--report-to", "--tensorboard-dir",
     "TensorBoard files; --wandb-project writes an offline run for `wandb sync`; nothing is sent to a service"},
    {"--wandb --use-wandb --wandb-log", "--wandb-project",
     "an offline run that `wandb sync` uploads; it needs --wandb-exp-name, too"},
    {"--wandb-run-name --run-name", "--wandb-exp-name", "with --wandb-project"},
    {"--wandb-group-name", NULL, "leave it out: runs are not grouped"},
    {"--wandb-dir", "--wandb-save-dir", NULL},
    {"--wandb-team --wandb-org --wandb-organization", "--wandb-entity", NULL},
    // Ranks and devices.
    {"--tp --tp-size --tensor-parallel --tensor-parallel-size --tensor-parallel-degree", "--tensor-model-parallel-size",
     NULL},
    {"--pp --pp-size --pipeline-parallel --pipe-parallel-size --pipeline-parallel-size --pipeline-parallel-degree",
     "--pipeline-model-parallel-size", NULL},
    {"--cp --cp-size --context-parallel --context-parallel-degree", "--context-parallel-size", NULL},
    {"--dp --dp-size --data-parallel-size --data-parallel-degree", NULL,
     "leave it out: the data-parallel size follows from the number of ranks"},
    {"--num-gpus --gpus --n-gpus --n-gpu --ngpus --devices --num-devices --num-processes --world-size", "--nproc",
     "ranks on this machine, one per GPU; on several machines use mpirun or srun"},
    {"--num-nodes --nodes", NULL,
     "leave it out: mpirun, srun or `bevatron launch` start the ranks of several machines"},
    {"--use-deepspeed --ds-config --zero --zero-optimization --fsdp", "--use-distributed-optimizer",
     "ZeRO stage 1; tensor and pipeline parallelism split the parameters"},
    {"--distributed --ddp", NULL, "leave it out: mpirun, srun and torchrun are recognized"},
    {"--cpu --use-cpu --no-cuda", "--device cpu", NULL},
    {"--gpu --cuda --use-gpu --use-cuda --accelerator", "--device cuda", NULL},
    {0},
};
