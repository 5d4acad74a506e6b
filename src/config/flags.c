// The flags of a training run, one row each: name, field, default, range, help. Names are Megatron-LM's; where its
// default depends on its version, the row has that of the classic releases (--eval-interval 1000). Rows marked
// ADVANCED stay out of the short --help; of those marked NOT_YET the validation accepts only the default, until the
// feature is built.
#include "config/flags.h"
#include "config/config.h"
#include <stddef.h>

#define ADVANCED .advanced = true
#define NOT_YET .advanced = true, .not_yet = true
#define GROUP(title)                                                                                                   \
    { .name = title, .type = FLAG_GROUP }
#define ROW(flag, kind, field) .name = flag, .type = kind, .offset = offsetof(struct config, field)
// The last argument of each is the help text, followed by further members if a row needs them.
#define SWITCH(flag, field, ...)                                                                                       \
    { ROW(flag, FLAG_BOOL, field), .help = __VA_ARGS__ }
#define INT(flag, field, start, low, high, ...)                                                                        \
    { ROW(flag, FLAG_INT, field), .initial = start, .minimum = low, .maximum = high, .help = __VA_ARGS__ }
#define REAL(flag, field, start, low, high, ...)                                                                       \
    { ROW(flag, FLAG_DOUBLE, field), .initial = start, .minimum = low, .maximum = high, .help = __VA_ARGS__ }
#define TEXT(flag, field, start, value, ...)                                                                           \
    { ROW(flag, FLAG_STRING, field), .initial = start, .value_name = value, .help = __VA_ARGS__ }
#define LIST(flag, field, value, ...)                                                                                  \
    { ROW(flag, FLAG_STRING_LIST, field), .value_name = value, .help = __VA_ARGS__ }
#define CHOICE(flag, field, start, names, ...)                                                                         \
    { ROW(flag, FLAG_CHOICE, field), .initial = start, .choices = names, .help = __VA_ARGS__ }

static const char *const model_names[] = {"gpt", "llama", "opt", "bert", "roberta", "t5", NULL};
static const char *const position_names[] = {"learned_absolute", "rope", "relative", "none", NULL};
static const char *const norm_names[] = {"LayerNorm", "RMSNorm", NULL};
static const char *const placement_names[] = {"pre", "post", NULL};
static const char *const activation_names[] = {"gelu_tanh", "gelu", "relu", "silu", NULL};
static const char *const rope_scaling_names[] = {"llama3", "yarn", "dynamic", NULL};
static const char *const optimizer_names[] = {"adam", "sgd", NULL};
static const char *const lr_names[] = {"constant", "linear",           "cosine",      "inverse-square-root",
                                       "WSD",      "polynomial_decay", "exponential", NULL};
static const char *const break_names[] = {"none", "complete", "complete_doc", "eos", NULL};
static const char *const fp8_names[] = {"hybrid", NULL};
static const char *const fp8_recipe_names[] = {"delayed", "tensorwise", NULL};
static const char *const fp8_amax_names[] = {"most_recent", "max", NULL};
static const char *const wsd_names[] = {"exponential", "linear", "cosine", "minus_sqrt", NULL};
static const char *const decay_names[] = {"constant", "linear", "cosine", NULL};
static const char *const loader_names[] = {"single", "cyclic", NULL};
static const char *const format_names[] = {"bevatron", "torch",        "torch_dist", "torch_dcp",
                                           "zarr",     "fsdp_dtensor", NULL};
static const char *const log_names[] = {"megatron", "json", NULL};
static const char *const pipeline_names[] = {"1f1b", "interleaved", "zero-bubble", NULL};
static const char *const timing_names[] = {"minmax", "max", "all", NULL};
static const char *const backend_names[] = {"nccl", "mpi", "gloo", NULL};
static const char *const device_names[] = {"auto", "cpu", "cuda", NULL};
static const char *const attention_names[] = {"auto", "flash", "fused", "unfused", "local", NULL};
static const char *const granularity_names[] = {"selective", "full", NULL};
static const char *const recompute_names[] = {"uniform", "block", NULL};

static const struct flag rows[] = {
    GROUP("Model"),
    TEXT("--preset", preset, NULL, "NAME",
         "take the model's flags from a published model (`bevatron help presets` lists them); flags given here win"),
    CHOICE("--model", model, "gpt", model_names,
           "family of the model: gpt is a decoder, bert an encoder, t5 both; llama and opt are gpt, and roberta is "
           "bert, with "
           "their families' flags, which flags given here override"),
    INT("--num-layers", num_layers, NULL, 1, 100000, "transformer layers"),
    INT("--hidden-size", hidden_size, NULL, 1, 1 << 20, "width of the residual stream"),
    INT("--word-embedding-size", word_embedding_size, "0", 0, 1 << 20,
        "width of the word embeddings, projected to the hidden size and back; 0 for the hidden size itself", ADVANCED),
    INT("--ffn-hidden-size", ffn_hidden_size, NULL, 1, 1 << 22, "width inside the MLP; 4 × hidden size if not given"),
    INT("--num-attention-heads", num_attention_heads, NULL, 1, 1 << 16, "attention heads"),
    INT("--kv-channels", kv_channels, NULL, 1, 1 << 16, "width of a head; hidden size / heads if not given"),
    INT("--max-position-embeddings", max_position_embeddings, NULL, 1, 1 << 30,
        "rows of the position table; at least the sequence length, which it is if not given"),
    INT("--make-vocab-size-divisible-by", make_vocab_size_divisible_by, "128", 1, 1 << 24,
        "the vocabulary is padded to a multiple of this"),
    INT("--padded-vocab-size", padded_vocab_size, NULL, 1, INT32_MAX,
        "size of the padded vocabulary, instead of the multiple above", ADVANCED),
    REAL("--hidden-dropout", hidden_dropout, "0.1", 0, 1, "dropout of embeddings and of each sublayer's output",
         .bounds = FLAG_BELOW_MAXIMUM),
    REAL("--attention-dropout", attention_dropout, "0.1", 0, 1, "dropout of attention probabilities",
         .bounds = FLAG_BELOW_MAXIMUM),
    REAL("--init-method-std", init_method_std, "0.02", 0, 100, "standard deviation of the initial weights"),
    REAL("--norm-epsilon", norm_epsilon, "1e-5", 0, 1, "added to the variance in a norm", .bounds = FLAG_ABOVE_MINIMUM),
    CHOICE("--normalization", normalization, "LayerNorm", norm_names, "kind of norm"),
    CHOICE("--norm-placement", norm_placement, "pre", placement_names,
           "norm before each sublayer, or after its residual as in the original BERT and OPT-350M", ADVANCED),
    CHOICE("--position-embedding-type", position_embedding_type, "learned_absolute", position_names,
           "how positions enter the model"),
    SWITCH("--no-position-embedding", no_position_embedding,
           "no learned positions: the old way to say --position-embedding-type none, or beside rope", ADVANCED),
    INT("--position-offset", position_offset, "0", 0, 1 << 20,
        "rows of the position table before that of position 0; OPT and RoBERTa have 2", ADVANCED),
    INT("--rotary-base", rotary_base, "10000", 1, FLAG_ENDLESS, "base of the rotary frequencies", ADVANCED),
    REAL("--rotary-percent", rotary_percent, "1.0", 0, 1, "part of a head that is rotated",
         .bounds = FLAG_ABOVE_MINIMUM, ADVANCED),
    SWITCH("--rotary-interleaved", rotary_interleaved, "rotate pairs (2j, 2j+1) instead of halves", ADVANCED),
    REAL("--rotary-seq-len-interpolation-factor", rotary_seq_len_interpolation_factor, "1", 0, 1e6,
         "rotary positions are divided by this", .bounds = FLAG_ABOVE_MINIMUM, ADVANCED),
    SWITCH("--use-rope-scaling", use_rope_scaling,
           "stretch low rotary frequencies, as Llama 3.1 does or --rope-scaling-type says", ADVANCED),
    CHOICE("--rope-scaling-type", rope_scaling_type, "llama3", rope_scaling_names,
           "how: by wavelength, by YaRN, or dynamic, which leaves lengths up to --max-position-embeddings as they are",
           ADVANCED),
    REAL("--rope-scaling-factor", rope_scaling_factor, "8", 1, 1e6, "by how much they are stretched", ADVANCED),
    REAL("--rope-low-freq-factor", rope_low_freq_factor, "1", 0, 1e6,
         "wavelengths above the original length / this are stretched in full", .bounds = FLAG_ABOVE_MINIMUM, ADVANCED),
    REAL("--rope-high-freq-factor", rope_high_freq_factor, "4", 0, 1e6,
         "wavelengths below the original length / this stay as they are", .bounds = FLAG_ABOVE_MINIMUM, ADVANCED),
    INT("--rope-original-length", rope_original_length, "8192", 1, 1 << 30,
        "tokens of a sample before the frequencies were stretched", ADVANCED),
    REAL("--yarn-beta-fast", yarn_beta_fast, "32", 0, 1e6,
         "YaRN: channels that turn more often in the original length stay as they are", .bounds = FLAG_ABOVE_MINIMUM,
         ADVANCED),
    REAL("--yarn-beta-slow", yarn_beta_slow, "1", 0, 1e6, "YaRN: those that turn less often are stretched in full",
         .bounds = FLAG_ABOVE_MINIMUM, ADVANCED),
    REAL("--yarn-attention-factor", yarn_attention_factor, "0", 0, 1e6,
         "YaRN: queries and keys are multiplied by this; 0 for 1 + ln(factor) / 10", ADVANCED),
    INT("--relative-attention-num-buckets", relative_attention_num_buckets, "32", 4, 256,
        "buckets of distances of relative positions", ADVANCED),
    INT("--relative-attention-max-distance", relative_attention_max_distance, "128", 2, 1 << 20,
        "distance from which relative positions are all alike", ADVANCED),
    INT("--sliding-window", sliding_window, "0", 0, 1 << 30, "a token sees so many of the last tokens; 0 for all",
        ADVANCED),
    REAL("--softmax-scale", softmax_scale, NULL, 0, 1e6,
         "factor of attention scores; 1 / the root of the head's width if not given", .bounds = FLAG_ABOVE_MINIMUM,
         ADVANCED),
    SWITCH("--swiglu", swiglu, "gated MLP with SiLU instead of GELU"),
    CHOICE("--activation", activation, NULL, activation_names,
           "function inside the MLP; gelu_tanh if not given, the exact gelu without biases or their fusion", ADVANCED),
    CHOICE("--lm-head-activation", lm_head_activation, NULL, activation_names,
           "function inside BERT's head; that of the MLP if not given", ADVANCED),
    SWITCH("--gated-linear-unit", gated_linear_unit, "the MLP's activation multiplies a second projection", ADVANCED),
    SWITCH("--no-bias-gelu-fusion", no_bias_gelu_fusion, "exact (erf) GELU instead of the tanh form", ADVANCED),
    SWITCH("--disable-bias-linear", disable_bias_linear, "no biases in linear layers"),
    SWITCH("--add-qkv-bias", add_qkv_bias, "biases of queries, keys and values even so", ADVANCED),
    SWITCH("--add-attention-bias", add_attention_bias, "biases of attention's four products even so", ADVANCED),
    SWITCH("--add-mlp-bias", add_mlp_bias, "biases of the MLP even so", ADVANCED),
    SWITCH("--group-query-attention", group_query_attention, "several query heads share keys and values"),
    INT("--num-query-groups", num_query_groups, "1", 1, 1 << 16, "groups of keys and values"),
    SWITCH("--untie-embeddings-and-output-weights", untie_embeddings_and_output_weights,
           "the output layer has a matrix of its own"),
    SWITCH("--add-output-bias", add_output_bias, "the output layer has a bias; BERT's always has one", ADVANCED),
    SWITCH("--scale-tied-output", scale_tied_output, "logits are divided by the root of the hidden size, as in T5",
           ADVANCED),
    SWITCH("--apply-query-key-layer-scaling", apply_query_key_layer_scaling,
           "scale scores by 1 / layer number and back in fp32: accepted, changes no numbers", ADVANCED),
    SWITCH("--attention-softmax-in-fp32", attention_softmax_in_fp32, "accepted: the softmax always is in fp32",
           ADVANCED),
    INT("--encoder-num-layers", encoder_num_layers, NULL, 1, 100000,
        "layers of T5's encoder; --num-layers if not given", ADVANCED),
    INT("--decoder-num-layers", decoder_num_layers, NULL, 1, 100000,
        "layers of T5's decoder; --num-layers if not given", ADVANCED),
    SWITCH("--bert-no-binary-head", bert_no_binary_head, "BERT without the head that judges the order of sentences"),
    INT("--num-token-types", num_token_types, "-1", -1, 1 << 16,
        "rows of the table of token types; -1 for 2 in a BERT with its binary head, else 0", ADVANCED),

    GROUP("Length of the run and batches"),
    INT("--seq-length", seq_length, NULL, 1, 1 << 30, "tokens of a sample"),
    INT("--micro-batch-size", micro_batch_size, NULL, 1, 1 << 24, "samples a rank works on at once"),
    INT("--global-batch-size", global_batch_size, NULL, 1, 1 << 30,
        "samples of one update, over all ranks; micro-batch size × data-parallel ranks if not given"),
    LIST("--rampup-batch-size", rampup_batch_size, "START INCREMENT SAMPLES",
         "begin with batches of START and add INCREMENT in even steps over the first SAMPLES samples", .minimum = 3,
         .maximum = 3),
    TEXT("--step-batch-size-schedule", step_batch_size_schedule, NULL, "TOKENS:SIZE…", "batch size by tokens seen",
         NOT_YET),
    INT("--train-iters", train_iters, NULL, 1, FLAG_ENDLESS, "updates to train for"),
    INT("--train-samples", train_samples, NULL, 1, FLAG_ENDLESS, "samples to train for, instead of --train-iters"),
    INT("--exit-interval", exit_interval, NULL, 1, FLAG_ENDLESS,
        "save and stop when the iteration is a multiple of this"),
    REAL("--exit-duration-in-mins", exit_duration_in_mins, NULL, 0, 1e9, "save and stop after this many minutes",
         .bounds = FLAG_ABOVE_MINIMUM),
    SWITCH("--exit-signal-handler", exit_signal_handler, "on SIGTERM, save and stop"),
    SWITCH("--skip-train", skip_train, "evaluate only", ADVANCED),
    SWITCH(
        "--calculate-per-token-loss", calculate_per_token_loss,
        "optimise the mean over tokens of the global batch, not the mean of micro-batch means; for running text, where "
        "both are the same",
        ADVANCED),
    INT("--seed", seed, "1234", 1, 4294967295.0, "seed of weights, dropout and sample order"),

    GROUP("Optimizer and schedules"),
    CHOICE("--optimizer", optimizer, "adam", optimizer_names, "update rule", NOT_YET),
    REAL("--lr", lr, NULL, 0, 1e6, "highest learning rate", .bounds = FLAG_ABOVE_MINIMUM),
    REAL("--min-lr", min_lr, "0", 0, 1e6, "lowest learning rate after the warmup"),
    CHOICE("--lr-decay-style", lr_decay_style, "linear", lr_names, "shape of the learning rate after the warmup"),
    REAL("--lr-decay-power", lr_decay_power, "1", 0, 1000, "exponent of polynomial_decay, fairseq's schedule",
         .bounds = FLAG_ABOVE_MINIMUM, ADVANCED),
    INT("--lr-decay-iters", lr_decay_iters, NULL, 1, FLAG_ENDLESS,
        "updates over which it decays; --train-iters if not given"),
    INT("--lr-decay-samples", lr_decay_samples, NULL, 1, FLAG_ENDLESS,
        "samples over which it decays; --train-samples if not given"),
    REAL("--lr-warmup-fraction", lr_warmup_fraction, NULL, 0, 1, "part of the decay that is warmup",
         .bounds = FLAG_BELOW_MAXIMUM),
    INT("--lr-warmup-iters", lr_warmup_iters, "0", 0, FLAG_ENDLESS, "updates of warmup"),
    INT("--lr-warmup-samples", lr_warmup_samples, "0", 0, FLAG_ENDLESS, "samples of warmup"),
    REAL("--lr-warmup-init", lr_warmup_init, "0", 0, 1e6, "learning rate at the start of the warmup", ADVANCED),
    CHOICE("--lr-wsd-decay-style", lr_wsd_decay_style, "exponential", wsd_names, "shape of the last part of WSD",
           ADVANCED),
    INT("--lr-wsd-decay-iters", lr_wsd_decay_iters, NULL, 1, FLAG_ENDLESS, "updates of the last part of WSD", ADVANCED),
    INT("--lr-wsd-decay-samples", lr_wsd_decay_samples, NULL, 1, FLAG_ENDLESS, "samples of the last part of WSD",
        ADVANCED),
    SWITCH("--override-opt_param-scheduler", override_opt_param_scheduler,
           "on resume, the schedule given here replaces the checkpoint's", ADVANCED),
    SWITCH("--use-checkpoint-opt_param-scheduler", use_checkpoint_opt_param_scheduler,
           "on resume, the checkpoint's schedule replaces the one given here", ADVANCED),
    REAL("--weight-decay", weight_decay, "0.01", 0, 1e6, "decoupled weight decay; biases and norms have none"),
    REAL("--start-weight-decay", start_weight_decay, NULL, 0, 1e6, "weight decay at the start", ADVANCED),
    REAL("--end-weight-decay", end_weight_decay, NULL, 0, 1e6, "weight decay at the end", ADVANCED),
    CHOICE("--weight-decay-incr-style", weight_decay_incr_style, "constant", decay_names,
           "shape of the weight decay between them", ADVANCED),
    REAL("--clip-grad", clip_grad, "1.0", 0, 1e30, "largest norm of the gradient; 0 for no clipping"),
    REAL("--adam-beta1", adam_beta1, "0.9", 0, 1, "decay of the first moment", .bounds = FLAG_BELOW_MAXIMUM),
    REAL("--adam-beta2", adam_beta2, "0.999", 0, 1, "decay of the second moment", .bounds = FLAG_BELOW_MAXIMUM),
    REAL("--adam-eps", adam_eps, "1e-8", 0, 1, "added to the root of the second moment", .bounds = FLAG_ABOVE_MINIMUM),
    REAL("--sgd-momentum", sgd_momentum, "0.9", 0, 1, "momentum of --optimizer sgd", .bounds = FLAG_BELOW_MAXIMUM,
         ADVANCED),

    GROUP("Precision"),
    SWITCH("--bf16", bf16, "bfloat16 parameters and activations, fp32 master weights"),
    SWITCH("--fp16", fp16, "half-precision parameters and activations with loss scaling"),
    SWITCH("--tf32", tf32, "GPU: products of fp32 numbers may round their factors to TF32", ADVANCED),
    SWITCH("--no-cuda-graph", no_cuda_graph, "GPU: operations of a step are launched one by one, not recorded",
           ADVANCED),
    SWITCH("--deterministic-mode", deterministic_mode, "GPU: the same bits in every run, at some cost in speed",
           ADVANCED),
    REAL("--loss-scale", loss_scale, NULL, 0, 1e30, "constant loss scale for fp16; dynamic if not given",
         .bounds = FLAG_ABOVE_MINIMUM, ADVANCED),
    REAL("--initial-loss-scale", initial_loss_scale, "4294967296", 1, 1e30, "first dynamic loss scale", ADVANCED),
    REAL("--min-loss-scale", min_loss_scale, "1", 0, 1e30, "lowest dynamic loss scale", .bounds = FLAG_ABOVE_MINIMUM,
         ADVANCED),
    INT("--loss-scale-window", loss_scale_window, "1000", 1, FLAG_ENDLESS, "good updates before the scale grows",
        ADVANCED),
    INT("--hysteresis", hysteresis, "2", 1, 1 << 30, "overflows before the scale shrinks", ADVANCED),
    CHOICE("--fp8-format", fp8_format, NULL, fp8_names,
           "GPU, with --bf16: products of the blocks in 8 bits; hybrid is E4M3 forward and E5M2 for gradients"),
    CHOICE("--fp8-recipe", fp8_recipe, "delayed", fp8_recipe_names,
           "scales of 8-bit tensors: from the steps before, or measured each time", ADVANCED),
    INT("--fp8-margin", fp8_margin, "0", 0, 16, "powers of two left free above the largest magnitude expected",
        ADVANCED),
    INT("--fp8-amax-history-len", fp8_amax_history_len, "1", 1, 65536, "steps whose largest magnitudes are remembered",
        ADVANCED),
    CHOICE("--fp8-amax-compute-algo", fp8_amax_compute_algo, "most_recent", fp8_amax_names,
           "which of them sets the scale", ADVANCED),
    SWITCH("--accumulate-allreduce-grads-in-fp32", accumulate_allreduce_grads_in_fp32,
           "accepted: gradients always are accumulated and reduced in fp32", ADVANCED),
    SWITCH("--no-check-for-nan-in-loss-and-grad", no_check_for_nan_in_loss_and_grad,
           "do not stop at a loss or gradient that is not finite", ADVANCED),

    GROUP("Data and tokenizer"),
    LIST("--data-path", data_path, "PREFIX",
         "dataset: PREFIX.bin and PREFIX.idx; WEIGHT PREFIX WEIGHT PREFIX… for a blend of several"),
    TEXT("--split", split, NULL, "A,B,C", "shares of training, validation and test; 969,30,1 if not given"),
    TEXT("--data-cache-path", data_cache_path, NULL, "DIR",
         "where the sample order is cached; beside the data if not given"),
    SWITCH("--mock-data", mock_data, "made-up samples instead of a dataset"),
    LIST("--train-data-path", train_data_path, "PREFIX…", "dataset or blend of training alone", ADVANCED),
    LIST("--valid-data-path", valid_data_path, "PREFIX…", "dataset or blend of validation alone", ADVANCED),
    LIST("--test-data-path", test_data_path, "PREFIX…", "dataset or blend of the test alone", ADVANCED),
    TEXT("--data-args-path", data_args_path, NULL, "FILE", "a file with what follows --data-path", ADVANCED),
    TEXT("--per-split-data-args-path", per_split_data_args_path, NULL, "FILE",
         "a JSON file with lists for \"train\", \"valid\" and \"test\", as after --train-data-path", ADVANCED),
    SWITCH("--eod-mask-loss", eod_mask_loss, "no loss where the input is the end of a document"),
    SWITCH("--reset-position-ids", reset_position_ids, "positions begin anew after the end of a document"),
    SWITCH("--reset-attention-mask", reset_attention_mask, "no attention across the end of a document"),
    SWITCH("--no-create-attention-mask-in-dataloader", no_create_attention_mask_in_dataloader,
           "accepted: masks are never stored", ADVANCED),
    CHOICE("--dataloader-type", dataloader_type, "single", loader_names, "how samples are handed to ranks", NOT_YET),
    REAL("--mask-prob", mask_prob, "0.15", 0, 1, "part of the tokens that BERT, RoBERTa and T5 predict", ADVANCED),
    REAL("--short-seq-prob", short_seq_prob, "0.1", 0, 1, "part of BERT's and T5's samples that are short", ADVANCED),
    CHOICE("--sample-break-mode", sample_break_mode, NULL, break_names,
           "RoBERTa's samples instead of BERT's: blocks of sentences, cut so, masked anew in each epoch"),
    REAL("--leave-unmasked-prob", leave_unmasked_prob, "0.1", 0, 1, "part of RoBERTa's masked tokens that stay",
         ADVANCED),
    REAL("--random-token-prob", random_token_prob, "0.1", 0, 1, "part of RoBERTa's masked tokens that are replaced",
         ADVANCED),
    SWITCH("--mask-whole-words", mask_whole_words, "RoBERTa masks all tokens of a word or none", ADVANCED),
    INT("--encoder-seq-length", encoder_seq_length, NULL, 1, 1 << 30,
        "tokens of a sample of BERT or of T5's encoder: another name of --seq-length", ADVANCED),
    INT("--decoder-seq-length", decoder_seq_length, NULL, 1, 1 << 30,
        "tokens of a sample of T5's decoder; --seq-length if not given", ADVANCED),
    TEXT("--tokenizer-type", tokenizer_type, NULL, "NAME",
         "GPT2BPETokenizer if --vocab-file is given; `bevatron tokenizer encode --help` names all"),
    TEXT("--vocab-file", vocab_file, NULL, "FILE", "vocabulary of the tokenizer (vocab.json)"),
    TEXT("--merge-file", merge_file, NULL, "FILE", "merges of the tokenizer (merges.txt)"),
    TEXT("--tokenizer-model", tokenizer_model, NULL, "FILE",
         "tokenizer in one file (SentencePiece .model, tokenizer.json, rank file, dict.txt)"),
    INT("--vocab-size", vocab_size, NULL, 1, INT32_MAX, "size of the vocabulary where no tokenizer is read"),
    INT("--vocab-extra-ids", vocab_extra_ids, "0", 0, 1 << 20, "adds tokens <extra_id_0>…, for T5", ADVANCED),
    SWITCH("--no-legacy-tokenizer", no_legacy_tokenizer,
           "ids as Megatron core 0.15 and later give; without it as those before", ADVANCED),
    SWITCH("--tokenizer-hf-no-include-special-tokens", tokenizer_hf_no_include_special_tokens,
           "HuggingFaceTokenizer puts nothing around a text", ADVANCED),
    TEXT("--tiktoken-pattern", tiktoken_pattern, NULL, "NAME",
         "how TikTokenizer splits text: v1 or v2 as in Megatron; gpt2, cl100k, o200k, llama3, qwen", ADVANCED),
    INT("--tiktoken-num-special-tokens", tiktoken_num_special_tokens, "1000", 3, 1 << 20,
        "ids before the ranks, in Megatron's JSON form", ADVANCED),
    INT("--null-tokenizer-eod-id", null_tokenizer_eod_id, "-1", -1, INT32_MAX,
        "NullTokenizer's end of document; -1 for its last id", ADVANCED),

    GROUP("Evaluation"),
    INT("--eval-interval", eval_interval, "1000", 1, FLAG_ENDLESS, "updates between evaluations"),
    INT("--eval-iters", eval_iters, "100", 0, FLAG_ENDLESS, "batches of one evaluation; 0 for none"),

    GROUP("Checkpoints"),
    TEXT("--save", save, NULL, "DIR", "where checkpoints are written"),
    INT("--save-interval", save_interval, NULL, 1, FLAG_ENDLESS, "updates between checkpoints"),
    INT("--keep-last", keep_last, "0", 0, FLAG_ENDLESS, "checkpoints that stay; 0 for all"),
    INT("--save-retain-interval", save_retain_interval, NULL, 1, FLAG_ENDLESS,
        "checkpoints at multiples of this stay in any case", ADVANCED),
    TEXT("--load", load, NULL, "DIR", "checkpoints to go on from; the usual choice is that of --save"),
    INT("--ckpt-step", ckpt_step, "-1", -1, FLAG_ENDLESS, "iteration to load; -1 for the latest", ADVANCED),
    SWITCH("--finetune", finetune, "load weights only and begin at iteration 0"),
    SWITCH("--no-save-optim", no_save_optim, "checkpoints without the optimizer", ADVANCED),
    SWITCH("--no-save-rng", no_save_rng, "checkpoints without the random state", ADVANCED),
    SWITCH("--no-load-optim", no_load_optim, "do not load the optimizer and its schedule", ADVANCED),
    SWITCH("--no-load-rng", no_load_rng, "do not load the random state", ADVANCED),
    SWITCH("--exit-on-missing-checkpoint", exit_on_missing_checkpoint,
           "an empty --load folder is an error, not a fresh start", ADVANCED),
    SWITCH("--use-checkpoint-args", use_checkpoint_args, "take the model's flags from the checkpoint", ADVANCED),
    CHOICE("--ckpt-format", ckpt_format, "bevatron", format_names,
           "accepted: checkpoints are written in bevatron's own format", ADVANCED),
    SWITCH("--auto-detect-ckpt-format", auto_detect_ckpt_format, "accepted: the format always is detected", ADVANCED),
    SWITCH("--async-save", async_save, "write checkpoints in the background: training waits for the copy only"),
    INT("--ckpt-writers", ckpt_writers, "0", 0, FLAG_ENDLESS,
        "ranks of a pipeline stage that write at once; 0 for one per 64 MiB", ADVANCED),

    GROUP("Logging"),
    INT("--log-interval", log_interval, "100", 1, FLAG_ENDLESS, "updates between lines"),
    CHOICE("--log-format", log_format, "megatron", log_names,
           "lines as Megatron writes them, or as fairseq does with its flag of this name"),
    SWITCH("--log-throughput", log_throughput,
           "TFLOP/s per device in each line, and at its end tokens per second and the time that is left"),
    SWITCH("--log-params-norm", log_params_norm, "norm of the parameters in each line"),
    SWITCH("--log-num-zeros-in-grad", log_num_zeros_in_grad, "number of zeros in the gradient in each line"),
    SWITCH("--log-progress", log_progress, "progress.txt in the save folder", ADVANCED),
    TEXT("--metrics-file", metrics_file, NULL, "FILE",
         "one JSON object per logged iteration; metrics.jsonl in the save folder if not given"),
    INT("--timing-log-level", timing_log_level, "0", 0, 2, "how many timers are printed", ADVANCED),
    CHOICE("--timing-log-option", timing_log_option, "minmax", timing_names, "how timers of ranks are joined",
           ADVANCED),
    TEXT("--tensorboard-dir", tensorboard_dir, NULL, "DIR", "where TensorBoard files are written"),
    INT("--tensorboard-log-interval", tensorboard_log_interval, "1", 1, FLAG_ENDLESS, "updates between values",
        ADVANCED),
    INT("--tensorboard-queue-size", tensorboard_queue_size, "1000", 1, FLAG_ENDLESS,
        "values kept before they are written", ADVANCED),
    SWITCH("--log-timers-to-tensorboard", log_timers_to_tensorboard, "iteration time and throughput too", ADVANCED),
    SWITCH("--log-validation-ppl-to-tensorboard", log_validation_ppl_to_tensorboard, "perplexity too", ADVANCED),
    SWITCH("--log-memory-to-tensorboard", log_memory_to_tensorboard, "memory in use too", ADVANCED),
    SWITCH("--log-world-size-to-tensorboard", log_world_size_to_tensorboard, "number of ranks too", ADVANCED),
    SWITCH("--no-log-loss-scale-to-tensorboard", no_log_loss_scale_to_tensorboard, "leave the loss scale out",
           ADVANCED),

    GROUP("Machine and parallelism"),
    CHOICE("--device", device, "auto", device_names, "where to compute; auto takes a GPU where there is one"),
    INT("--threads", threads, "0", 0, 4096, "CPU threads of a rank; 0 for all it may use"),
    TEXT(
        "--cpu-kernels", cpu_kernels, NULL, "NAMES",
        "kernels for matrix products on the CPU, separated by commas (bevatron version lists them); the best where not "
        "given",
        ADVANCED),
    INT("--tensor-model-parallel-size", tensor_model_parallel_size, "1", 1, 1 << 20, "ranks that share each layer"),
    INT("--pipeline-model-parallel-size", pipeline_model_parallel_size, "1", 1, 1 << 20,
        "stages the layers are divided into"),
    INT("--context-parallel-size", context_parallel_size, "1", 1, 1 << 20, "ranks that share each sequence"),
    SWITCH("--sequence-parallel", sequence_parallel, "divide norms and dropout along the sequence", ADVANCED),
    INT("--num-layers-per-virtual-pipeline-stage", num_layers_per_virtual_pipeline_stage, NULL, 1, 100000,
        "layers of a chunk of the interleaved schedule", ADVANCED),
    INT("--num-virtual-stages-per-pipeline-rank", num_virtual_stages_per_pipeline_rank, NULL, 1, 100000,
        "chunks per rank of the interleaved schedule", ADVANCED),
    INT("--microbatch-group-size-per-virtual-pipeline-stage", microbatch_group_size_per_virtual_pipeline_stage, NULL, 1,
        FLAG_ENDLESS, "micro-batches that go through a chunk together; as many as stages if not given", ADVANCED),
    INT("--decoder-first-pipeline-num-layers", decoder_first_pipeline_num_layers, NULL, 1, 100000,
        "layers of the first stage, where it has others than the stages between", ADVANCED),
    INT("--decoder-last-pipeline-num-layers", decoder_last_pipeline_num_layers, NULL, 1, 100000,
        "layers of the last stage, likewise", ADVANCED),
    SWITCH("--account-for-embedding-in-pipeline-split", account_for_embedding_in_pipeline_split,
           "the first stage has one layer less, for the embedding", ADVANCED),
    SWITCH("--account-for-loss-in-pipeline-split", account_for_loss_in_pipeline_split,
           "the last stage has one layer less, for the head and the loss", ADVANCED),
    INT("--pipeline-model-parallel-split-rank", pipeline_model_parallel_split_rank, NULL, 1, 1 << 20,
        "T5: the first stage of the decoder; in proportion to the layers if not given", ADVANCED),
    CHOICE("--pipeline-schedule", pipeline_schedule, NULL, pipeline_names,
           "order of forward and backward passes; 1f1b, or interleaved with several chunks per rank, if not given",
           ADVANCED),
    SWITCH("--use-distributed-optimizer", use_distributed_optimizer, "divide the optimizer over data-parallel ranks"),
    SWITCH("--overlap-grad-reduce", overlap_grad_reduce, "reduce gradients during the backward pass", ADVANCED),
    SWITCH("--overlap-param-gather", overlap_param_gather, "gather parameters during the forward pass", ADVANCED),
    INT("--ddp-bucket-size", ddp_bucket_size, NULL, 1, FLAG_ENDLESS, "gradients that are reduced together", ADVANCED),
    INT("--ddp-num-buckets", ddp_num_buckets, NULL, 1, FLAG_ENDLESS, "how many times gradients are reduced in a step",
        ADVANCED),
    INT("--check-replicas", check_replicas, NULL, 1, FLAG_ENDLESS,
        "every so many iterations, prove that ranks which should hold the same parameters do"),
    CHOICE("--distributed-backend", distributed_backend, NULL, backend_names,
           "what carries tensors between GPUs: nccl, or it is an error (on CPUs it has no effect); mpi or gloo, MPI "
           "through the "
           "host; if not given, NCCL where every rank has a GPU of its own",
           ADVANCED),
    REAL("--distributed-timeout-minutes", distributed_timeout_minutes, "10", 0, 1e6,
         "how long a rank waits for the others", .bounds = FLAG_ABOVE_MINIMUM, ADVANCED),
    CHOICE("--attention-backend", attention_backend, "auto", attention_names,
           "accepted: bevatron picks the kernel for the shape", ADVANCED),
    CHOICE("--recompute-granularity", recompute_granularity, NULL, granularity_names,
           "recompute activations in the backward pass: attention, or whole layers"),
    CHOICE("--recompute-method", recompute_method, NULL, recompute_names, "which layers are recomputed", ADVANCED),
    INT("--recompute-num-layers", recompute_num_layers, NULL, 1, 100000, "how many layers together", ADVANCED),
    LIST("--recompute-modules", recompute_modules, "NAME…",
         "what selective recomputation covers: core_attn (attention, when none is named), mlp_act (the activation of "
         "an MLP), layernorm (norms and SwiGLU, which a GPU with room for their results does not recompute otherwise)",
         ADVANCED),
    SWITCH("--distribute-saved-activations", distribute_saved_activations, "divide saved inputs over tensor ranks",
           ADVANCED),
};

// Names of v1.1 (2020) and of the releases since, and short forms. If one old flag said several things, it has
// several rows.
static const struct flag_alias aliases[] = {
    {"--batch-size", "--micro-batch-size", NULL, "is the old name of --micro-batch-size"},
    {"--warmup", "--lr-warmup-fraction", NULL, "is the old name of --lr-warmup-fraction"},
    {"--model-parallel-size", "--tensor-model-parallel-size", NULL, "is the old name of --tensor-model-parallel-size"},
    {"--check-weight-hash-across-dp-replicas-interval", "--check-replicas", NULL, NULL},
    {"--override-lr-scheduler", "--override-opt_param-scheduler", NULL,
     "is the old name of --override-opt_param-scheduler"},
    {"--use-checkpoint-lr-scheduler", "--use-checkpoint-opt_param-scheduler", NULL,
     "is the old name of --use-checkpoint-opt_param-scheduler"},
    {"--checkpoint-activations", "--recompute-granularity", "full",
     "is now --recompute-granularity full --recompute-method uniform"},
    {"--checkpoint-activations", "--recompute-method", "uniform", NULL},
    {"--checkpoint-num-layers", "--recompute-num-layers", NULL, "is the old name of --recompute-num-layers"},
    {"--checkpoint-activations-method", "--recompute-method", NULL,
     "is now --recompute-granularity full --recompute-method"},
    {"--checkpoint-activations-method", "--recompute-granularity", "full", NULL},
    {"--activations-checkpoint-method", "--recompute-method", NULL,
     "is now --recompute-granularity full --recompute-method"},
    {"--activations-checkpoint-method", "--recompute-granularity", "full", NULL},
    {"--activations-checkpoint-granularity", "--recompute-granularity", NULL,
     "is the old name of --recompute-granularity"},
    {"--activations-checkpoint-num-layers", "--recompute-num-layers", NULL,
     "is the old name of --recompute-num-layers"},
    {"--distribute-checkpointed-activations", "--distribute-saved-activations", NULL,
     "is the old name of --distribute-saved-activations"},
    {"--fp32-allreduce", "--accumulate-allreduce-grads-in-fp32", NULL,
     "is the old name of --accumulate-allreduce-grads-in-fp32"},
    {"--min-scale", "--min-loss-scale", NULL, "is the old name of --min-loss-scale"},
    {"--tokens-per-sample", "--seq-length", NULL, "is fairseq's name of --seq-length"},
    {"--lr-scheduler", "--lr-decay-style", NULL, "is fairseq's name of --lr-decay-style"},
    {"--warmup-updates", "--lr-warmup-iters", NULL, "is fairseq's name of --lr-warmup-iters"},
    {"--total-num-update", "--lr-decay-iters", NULL, "is fairseq's name of --lr-decay-iters"},
    {"--end-learning-rate", "--min-lr", NULL, "is fairseq's name of --min-lr"},
    {"--power", "--lr-decay-power", NULL, "is fairseq's name of --lr-decay-power"},
    {"--max-update", "--train-iters", NULL, "is fairseq's name of --train-iters"},
    {"--layernorm-epsilon", "--norm-epsilon", NULL, "is the old name of --norm-epsilon"},
    {"--recompute-activations", "--recompute-granularity", "selective", NULL},
    {"--use-rotary-position-embeddings", "--position-embedding-type", "rope", NULL},
    {"--persistent-save-interval", "--save-interval", NULL, NULL},
    {"--no-pad-vocab-size", "--make-vocab-size-divisible-by", "1", NULL},
    {"--disable-pad-vocab-size", "--make-vocab-size-divisible-by", "1", NULL},
    {"--disable-log-loss-scale-to-tensorboard", "--no-log-loss-scale-to-tensorboard", NULL, NULL},
};

static const struct flag_names names[] = {
    {flags_always_so, "is how bevatron always works; the flag is not needed", false},
    {flags_only_speed, "tunes the speed or memory of Megatron's own code and changes no numbers; ignored", false},
    {flags_no_meaning, "has no meaning in bevatron; ignored", false},
    {flags_refused, "is a Megatron flag that bevatron does not implement; it would change the run, so leave it out",
     true},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct flag_table config_table = {.flags = rows,
                                               .count = COUNT(rows),
                                               .given = offsetof(struct config, given),
                                               .aliases = aliases,
                                               .alias_count = COUNT(aliases),
                                               .names = names,
                                               .names_count = COUNT(names),
                                               .derived = "world_size data_parallel_size params_dtype schedule"};

// What a model needs that is not trained: what it is, how text becomes tokens, the checkpoint and the machine.
#define MODEL_FLAGS                                                                                                    \
    "--preset --model --num-layers --hidden-size --word-embedding-size --ffn-hidden-size --num-attention-heads "       \
    "--kv-channels "                                                                                                   \
    "--max-position-embeddings --make-vocab-size-divisible-by --padded-vocab-size --norm-epsilon --normalization "     \
    "--norm-placement --position-embedding-type --no-position-embedding --position-offset --rotary-base "              \
    "--rotary-percent "                                                                                                \
    "--rotary-interleaved --rotary-seq-len-interpolation-factor --use-rope-scaling --rope-scaling-type "               \
    "--yarn-beta-fast --yarn-beta-slow --yarn-attention-factor --rope-scaling-factor "                                 \
    "--rope-low-freq-factor --rope-high-freq-factor --rope-original-length --relative-attention-num-buckets "          \
    "--relative-attention-max-distance --sliding-window --softmax-scale --swiglu --activation --lm-head-activation "   \
    "--gated-linear-unit "                                                                                             \
    "--no-bias-gelu-fusion --disable-bias-linear --add-qkv-bias --add-attention-bias --add-mlp-bias "                  \
    "--group-query-attention --num-query-groups "                                                                      \
    "--untie-embeddings-and-output-weights --add-output-bias --scale-tied-output --apply-query-key-layer-scaling "     \
    "--attention-softmax-in-fp32 --encoder-num-layers --decoder-num-layers --bert-no-binary-head --num-token-types "   \
    "--seq-length --seed --bf16 --fp16 --tokenizer-type --vocab-file --merge-file --tokenizer-model --vocab-size "     \
    "--vocab-extra-ids --no-legacy-tokenizer --null-tokenizer-eod-id --load --ckpt-step --use-checkpoint-args "        \
    "--auto-detect-ckpt-format --ckpt-format --device --threads --cpu-kernels --tensor-model-parallel-size "           \
    "--pipeline-model-parallel-size --context-parallel-size --sequence-parallel --distributed-backend "                \
    "--distributed-timeout-minutes --attention-backend"
#define DATA_FLAGS                                                                                                     \
    " --micro-batch-size --data-path --data-args-path --valid-data-path --split --data-cache-path --eod-mask-loss "    \
    "--reset-position-ids --reset-attention-mask --no-create-attention-mask-in-dataloader --mask-prob "                \
    "--short-seq-prob "                                                                                                \
    "--sample-break-mode --leave-unmasked-prob --random-token-prob --mask-whole-words"
#define STAGE_FLAGS                                                                                                    \
    " --decoder-first-pipeline-num-layers --decoder-last-pipeline-num-layers "                                         \
    "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split "                                  \
    "--pipeline-model-parallel-split-rank"

static const struct flag_command train_command = {
    .name = "train",
    .summary = "Trains a language model on a dataset of token ids.",
    .tables = &config_table,
    .table_count = 1,
    .epilogue = "Example:\n"
                "  bevatron train --preset gpt2-124m --data-path my_text_document --vocab-file vocab.json \\\n"
                "      --merge-file merges.txt --seq-length 1024 --micro-batch-size 4 --global-batch-size 64 \\\n"
                "      --train-iters 10000 --lr 6e-4 --lr-warmup-iters 200 --save out --save-interval 1000"};

struct flag_table config_flag_table(size_t base) {
    struct flag_table table = config_table;
    table.base = base;
    return table;
}

struct flag_table config_flag_table_for(size_t base, enum config_use use) {
    struct flag_table table = config_flag_table(base);
    if (use == CONFIG_EVALUATE) {
        table.offered = MODEL_FLAGS DATA_FLAGS STAGE_FLAGS;
        table.refusal = "is a flag of train, not of evaluate";
    } else if (use == CONFIG_GENERATE) {
        table.offered = MODEL_FLAGS STAGE_FLAGS;
        table.refusal = "is a flag of train, not of generate";
    }
    return table;
}

const struct flag_command *config_command(void) {
    return &train_command;
}
