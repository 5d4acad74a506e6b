// The description of a training run. Each field is a flag with _ for -: --num-layers is model.num_layers, but --model
// is model.form. The meaning, range and default of a flag are defined once, in the tables (flags.c); this header
// only gives the types.
//
// Conventions: a number that is not given and has no default is 0, a string NULL, a list empty; where 0 is a legal
// value, a comment says what means "not given". After config_validate the fields are consistent and complete:
// everything below "derived" is set, and sizes that have a default (ffn_hidden_size, global_batch_size, train_iters, …)
// hold it. Strings are owned; config_free releases them. Nothing here depends on the rank: every rank holds the same
// config.
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include "base/json.h"
#include "config/model_value.h"
#include "config/flag.h"
#include <stdbool.h>
#include <stdint.h>

enum { CONFIG_MOST_BATCH_STEPS = 64 };

// What is done with it: batches, length, optimizer, precision, evaluation, checkpoints.
struct config_run {
    // Batches and length of the run.
    int64_t seq_length;          // for T5: the encoder's
    int64_t encoder_seq_length;  // seq_length
    int64_t decoder_seq_length;  // seq_length if not given
    int64_t micro_batch_size;
    int64_t global_batch_size;             // micro_batch_size × data_parallel_size if not given
    struct string_list rampup_batch_size;  // START INCREMENT SAMPLES, see rampup_start below
    char *step_batch_size_schedule;
    int64_t train_iters;    // derived from train_samples if those are given
    int64_t train_samples;  // 0: the run is counted in iterations
    int64_t train_tokens;   // the run ends after this many at the latest; 0: no such end
    double tokens,
        epochs;  // length of the run, converted to train_iters or train_samples; 0: not given
    int64_t exit_interval;
    double exit_duration_in_mins;           // 0: no limit
    char *kill_switch_path, *trigger_path;  // a file, and a folder for files, that the run polls for; see run_end.h
    bool exit_signal_handler;
    bool skip_train;
    bool calculate_per_token_loss;

    // Optimizer.
    char *optimizer;  // "adam" | "sgd" | "lion" | "muon" | "adaptive_muon"
    double lr, min_lr;
    double decoupled_lr;                  // of the input embedding and the output layer; 0: lr
    double decoupled_min_lr;              // min_lr if not given
    struct string_list lr_mult, wd_mult;  // PATTERN=FACTOR, see factors.h
    char *lr_decay_style;  // "constant" | "linear" | "cosine" | "inverse-square-root" | "WSD" | "polynomial_decay" | …
    double lr_decay_power;  // of polynomial_decay
    int64_t lr_decay_iters, lr_decay_samples;
    double lr_warmup_fraction;
    int64_t lr_warmup_iters, lr_warmup_samples;
    int64_t lr_decay_tokens, lr_warmup_tokens;  // 0: see the fields above
    double lr_warmup_init;
    char *lr_wsd_decay_style;  // "exponential" | "linear" | "cosine" | "minus_sqrt"
    int64_t lr_wsd_decay_iters, lr_wsd_decay_samples;
    bool override_opt_param_scheduler;        // the command line's schedule wins over the checkpoint's
    bool use_checkpoint_opt_param_scheduler;  // the checkpoint's wins
    double weight_decay;
    double start_weight_decay;  // weight_decay if the style is constant
    double end_weight_decay;
    char *weight_decay_incr_style;  // "constant" | "linear" | "cosine"
    double clip_grad;               // 0 for no clipping
    double adam_beta1, adam_beta2, adam_eps;
    char *exp_avg_dtype;     // "fp32" | "bf16" | "fp8"; of Adam's moments
    char *exp_avg_sq_dtype;  // the same names
    bool optimizer_cpu_offload;
    double optimizer_offload_fraction;
    double ema_decay;  // 0: no moving average of the weights
    bool eval_with_ema;
    double sgd_momentum;
    double lion_beta1, lion_beta2;
    double muon_momentum;
    bool muon_nesterov;
    char *muon_scale_mode;        // "spectral" | "unit_rms_norm" | "shape_scaling"
    char *muon_coefficient_type;  // "quintic" | "simple" | … , see optim/newton_schulz.c
    int64_t muon_num_ns_steps;
    double muon_extra_scale_factor;
    bool muon_no_split_qkv;
    char *muon_fp32_matmul_prec;         // "low" | "medium" | "high"
    char *muon_tp_mode;                  // "duplicated"; the result is the same on every layout
    char *adaptive_muon_moment2_method;  // "adamuon" | "normuon"
    double adaptive_muon_beta2;
    double adaptive_muon_eps;
    char *muon_scalar_optimizer;  // "adam" | "lion"
    bool qk_clip;
    double qk_clip_alpha, qk_clip_threshold;

    // Precision.
    bool fp16, bf16, tf32;
    bool fast_attention_dropout;
    double loss_scale;  // 0: dynamic
    double initial_loss_scale, min_loss_scale;
    int64_t loss_scale_window;
    int64_t hysteresis;
    char *fp8_format;  // "e4m3" | "hybrid", or NULL for no fp8 matmuls
    char *fp8_recipe;  // "delayed" | "tensorwise" | "blockwise" | "mxfp8"
    bool fp8_output_proj, fp8_fast_input_gradients;
    int64_t fp8_margin;  // powers of two left free above the largest magnitude
    int64_t fp8_amax_history_len;
    char *fp8_amax_compute_algo;  // "most_recent" | "max"
    char *fp4_format;             // "e2m1", or NULL for no fp4 matmuls
    char *fp4_recipe;             // "nvfp4"
    bool first_last_layers_bf16;  // no fp8 or fp4 in this many layers at each end:
    int64_t num_layers_at_start_in_bf16, num_layers_at_end_in_bf16;
    bool accumulate_allreduce_grads_in_fp32, grad_reduce_in_bf16;
    struct string_list iterations_to_skip;  // numbers and ranges, see config_skip

    // Evaluation.
    int64_t eval_iters, eval_interval;
    int64_t eval_global_batch_size, eval_micro_batch_size;  // 0: as training
    struct string_list retriever_report_topk_accuracies;    // ICT: numbers, see config_top

    // Checkpoints.
    char *save;
    char *save_to;        // s3:// address that checkpoints are copied to, or NULL
    char *save_fallback;  // folder for checkpoints that cannot be written to `save`, or NULL
    double save_retry_minutes, last_save_minutes;
    int64_t save_interval;  // 0: every save_minutes
    double save_minutes;
    bool resume, keep_best;
    int64_t keep_last;             // number of checkpoints to keep; 0 for all
    int64_t save_retain_interval;  // multiples of it are kept whatever keep_last is; 0 for none
    char *load;
    char *pretrained_checkpoint;  // initial weights if `load` has no checkpoint
    char *bert_load;              // ICT: a BERT for both towers, if there are no other initial weights
    int64_t ckpt_step;            // -1: the latest
    char *checkpoint_cache_path;  // folder for checkpoints from S3; NULL for the user's cache
    char *endpoint_url;           // of S3; NULL for the environment's
    bool finetune;
    bool no_save_optim, no_save_rng, no_load_optim, no_load_rng;
    bool exit_on_missing_checkpoint;
    bool allow_changed_data;
    char *check_data;  // "pieces" | "full"
    bool use_checkpoint_args;
    char *ckpt_format;  // "bevatron"
    bool auto_detect_ckpt_format;
    bool async_save;
    bool checkpoint_in_memory;
    int64_t memory_interval;  // iterations between checkpoints in host memory
    int64_t ckpt_writers;     // number of ranks of a stage that write a checkpoint; 0: chosen by its size

    // Derived by config_validate, undefined before it.
    const char *params_dtype;  // "fp32" | "bf16" | "fp16"; not owned
    // From --step-batch-size-schedule: once `samples` are consumed, a batch has `size`.
    struct config_batch_step {
        int64_t samples, size;
    } batch_steps[CONFIG_MOST_BATCH_STEPS];
    int64_t batch_step_count;  // 0: none
    int64_t rampup_start;      // 0: no ramp-up, every batch has global_batch_size
    int64_t rampup_increment;
    int64_t rampup_samples;
    // The learning-rate and weight-decay schedules, counted in samples as Megatron counts them.
    int64_t lr_decay_steps;
    double lr_warmup_steps;  // not rounded if it is a fraction of lr_decay_steps
    int64_t lr_wsd_decay_steps;
    int64_t wd_incr_steps;
    bool moe_use_upcycling;
    int64_t moe_upcycling_granularity;
    int64_t seed;
};

enum config_sizing {
    SIZING_ALL,
    SIZING_OWN,      // without added tokens, as forks of Megatron count
    SIZING_BUT_TWO,  // as Pai-Megatron-Patch counts DeepSeek's
};

// Data and tokenizer.
struct config_data {
    struct string_list data_path, train_data_path, valid_data_path, test_data_path;
    char *data_args_path;  // a file with the words of data_path
    char *per_split_data_args_path;
    // Groups of datasets with portions of them, see data/sample/split.h, or files with such groups.
    struct string_list train_weighted_split_paths, valid_weighted_split_paths, test_weighted_split_paths;
    char *train_weighted_split_paths_path, *valid_weighted_split_paths_path, *test_weighted_split_paths_path;
    char *split;  // "969, 30, 1" if data_path is given without it in training
    char *data_cache_path;
    char *json_keys;  // the member of JSON Lines that holds the text
    bool mock_data;
    bool fim_data;  // fill in the middle, see data/sample/source.h
    double fim_rate, fim_spm_rate, fim_fragment_rate;
    char *fim_split_sample, *fim_no_prefix;  // NULL for none
    char *fim_prefix_token, *fim_middle_token, *fim_suffix_token, *fim_pad_token, *fim_eod_token;
    char *dataloader_type;  // "single"
    bool reset_position_ids, reset_attention_mask, eod_mask_loss;
    bool no_create_attention_mask_in_dataloader;
    double mask_prob, short_seq_prob;
    char *sample_break_mode;  // NULL for samples of BERT
    double leave_unmasked_prob, random_token_prob;
    bool mask_whole_words;
    char *titles_data_path;  // ICT: NULL for contexts without titles
    double query_in_block_prob;
    bool use_one_sent_docs;
    char *tokenizer_type, *tokenizer_model, *vocab_file, *merge_file;
    int64_t vocab_size;  // 0: the tokenizer's
    int64_t vocab_extra_ids;
    int64_t extra_vocab_size;  // rows of the embedding beyond the tokenizer's tokens; -1: padded to a multiple
    // Derived by config_validate, undefined before it.
    enum config_sizing sizing;  // the tokens that the embedding has rows for, before it is padded
    int64_t published_size;     // tokens of the published tokenizer that a fork's type names; 0: unknown
    bool no_legacy_tokenizer;
    bool tokenizer_hf_no_include_special_tokens;
    char *tiktoken_pattern;
    int64_t tiktoken_num_special_tokens;
    int64_t null_tokenizer_eod_id;  // -1: not given
    char *eod_token;                // NULL: the tokenizer's own
    int64_t decoder_start_token;    // of T5; -1: the vocabulary's beginning-of-text token
};

// Device, parallelism and memory, and faults to inject.
struct config_machine {
    // Machine, parallelism and memory.
    char *device;       // "auto" | "cpu" | "cuda"
    int64_t threads;    // CPU threads of a rank; 0 for all available
    char *cpu_kernels;  // for matmuls, by name; NULL for the best on this processor
    int64_t tensor_model_parallel_size, pipeline_model_parallel_size;
    int64_t context_parallel_size;
    struct string_list cp_comm_type;                         // one for all layers, or one for each; see below
    struct string_list hierarchical_context_parallel_sizes;  // of a2a+p2p, see below
    int64_t expert_model_parallel_size;                      // ranks that the experts are split over
    bool overlap_moe_expert_parallel_comm;
    bool sequence_parallel;
    int64_t num_layers_per_virtual_pipeline_stage;
    int64_t num_virtual_stages_per_pipeline_rank;
    int64_t microbatch_group_size_per_virtual_pipeline_stage;  // 0: the number of stages
    int64_t decoder_first_pipeline_num_layers;                 // of the first and last stage; 0: the same as the others
    int64_t decoder_last_pipeline_num_layers;
    bool account_for_embedding_in_pipeline_split;  // the embedding counts as a layer of the first stage,
    bool account_for_loss_in_pipeline_split;       // the head as one of the last
    char *pipeline_model_parallel_layout;          // see pipeline_layout.h; NULL: by the fields above
    int64_t encoder_pipeline_model_parallel_size;  // T5: stages of the encoder, before those of the decoder
    int64_t pipeline_model_parallel_split_rank;    // T5: the first stage of the decoder; 0: in proportion to layers
    char *pipeline_schedule;                       // NULL | "1f1b" | "interleaved" | "zero-bubble"
    bool use_distributed_optimizer, overlap_grad_reduce, overlap_param_gather;
    bool deepspeed;
    char *deepspeed_config;     // a DeepSpeed file, see deepspeed.c
    int64_t zero_stage;         // ZeRO stage, 0 for none; the file's takes precedence
    char *pp_partition_method;  // NULL | "type:transformer" | "type:transformer|embedding"
    int64_t ddp_bucket_size, ddp_num_buckets;
    char *distributed_backend;  // NULL | "nccl" | "mpi" | "gloo"
    double distributed_timeout_minutes;
    char *attention_backend;
    char *recompute_granularity;                                              // NULL | "selective" | "full"
    char *recompute_method;                                                   // NULL | "uniform" | "block"
    int64_t recompute_num_layers, cpu_offloading_num_layers, logits_at_once;  // 0: all layers; as many as take 1 GiB
    struct string_list recompute_modules;  // see validate_recompute; empty for core_attn
    bool distribute_saved_activations, recompute_keep_attention, cpu_offloading, moe_layer_recompute;

    // Fault injection, see inject.h.
    struct string_list inject, inject_kinds;
    int64_t inject_seed, inject_count;
    bool allow_injected_faults;
    char *moe_token_dispatcher_type;      // changes nothing
    int64_t expert_tensor_parallel_size;  // see config_expert_slices
    bool deterministic_mode, no_cuda_graph;

    // Derived by config_validate, undefined before it.
    bool has_wide_experts;  // only in plans: experts in 16 bits despite --fp8-format; rates account for fp8
    int64_t world_size;
    int64_t data_parallel_size;  // world_size / config_model_ranks
};

// What is logged, checked and watched, and what happens then.
struct config_watch {
    // Logging.
    int64_t log_interval;
    char *log_format;  // "megatron" | "json"
    bool log_params_norm, log_throughput, log_num_zeros_in_grad, log_progress;
    bool no_live_view;
    bool log_arguments;
    int64_t timing_log_level;
    char *timing_log_option;
    bool profile;
    int64_t profile_step_start, profile_step_end;  // iterations after the first up to and including the second
    struct string_list profile_ranks;              // numbers; empty for all
    char *profile_dir;                             // NULL for the folder of --save, or another existing one
    bool log_straggler;
    int64_t straggler_minmax_count;
    int64_t straggler_ctrlr_port;  // 0 for none
    bool disable_straggler_on_startup;
    char *tensorboard_dir;
    int64_t tensorboard_log_interval;
    int64_t tensorboard_queue_size;
    bool log_timers_to_tensorboard;
    bool no_log_loss_scale_to_tensorboard;
    bool log_validation_ppl_to_tensorboard;
    bool log_memory_to_tensorboard, log_world_size_to_tensorboard;
    char *on_event;  // a shell command
    char *prometheus_textfile, *prometheus_host;
    int64_t prometheus_port;  // 0 for none
    char *wandb_project, *wandb_exp_name, *wandb_save_dir, *wandb_entity;
    char *metrics_file;  // JSON lines; by default metrics.jsonl in the save folder, NULL without one
    bool no_check_for_nan_in_loss_and_grad;
    char *nan_policy;    // "stop" | "skip" | "rewind-and-skip"
    char *spike_policy;  // "none" | "warn" | "rewind-and-skip"
    double spike_threshold;
    int64_t rewind_iterations;  // used if given
    int64_t skip_batches;       // used if given
    int64_t max_rewinds;
    int64_t sample_interval;  // 0: no samples
    struct string_list sample_prompt;
    int64_t sample_tokens;
    double sample_temperature;  // 0: greedy
    char *eval_tasks, *eval_task_data, *eval_task_file;
    int64_t eval_tasks_interval, eval_tasks_limit;
    int64_t check_replicas;
    int64_t replay_check;  // every N iterations; 0: never
    double start_timeout_minutes, step_timeout_minutes, save_timeout_minutes, load_timeout_minutes;  // 0: no limit
};

struct config {
    struct flag_given given;  // which flags the user gave
    struct config_model model;
    struct config_run run;
    struct config_data data;
    struct config_machine machine;
    struct config_watch watch;
};

// The rows of all flags above, for a struct config at offset 0. A command with flags of its own includes a struct
// config in its options, and this table, with its base, besides its own.
struct flag_table config_flag_table(size_t base);
// The name of a value of a field that is an enum: CONFIG_NAME(model.activation, ACTIVATION_GELU) is "gelu". NULL for
// the value of a field that is not given.
#define CONFIG_NAME(field, value) config_name_of(offsetof(struct config, field), (int)(value))
const char *config_name_of(size_t field, int value);
// Sets a flag to a number from another program's file.
int config_take(struct config *config, const char *flag, const char *text);
int config_take_number(struct config *config, const char *flag, int64_t number);
// Sets a flag to a choice of the program: the user has not given it.
int config_choose(struct config *config, const char *flag, const char *text);
int config_choose_number(struct config *config, const char *flag, double number);

// The purpose of the config; decides which flags are required.
enum config_use {
    CONFIG_TRAIN,     // everything
    CONFIG_EVALUATE,  // model and tokenizer; data if it is given; no schedule
    CONFIG_GENERATE,  // model and tokenizer
    CONFIG_PLAN,      // everything, and experts in fp8 as in other trainers
};
// The table for a command that only evaluates or generates: flags without meaning there are refused.
struct flag_table config_flag_table_for(size_t base, enum config_use use);

// The remedy for an argument of train that is not a flag: names of Megatron's scripts say which model they train. NULL
// if there is none.
const char *config_argument_remedy(const char *argument);

// The command "train": only the flags of struct config.
const struct flag_command *config_command(void);

// Parses argv[1…argc) (argv[0] is the command's name) and applies the preset. Returns 0, FLAGS_HELP if help was
// printed, or -1. config_free must follow in every case. Contradictions are left to config_validate.
int config_parse(struct config *config, int argc, char **argv);
// All defaults, as from an empty command line.
void config_defaults(struct config *config);
void config_free(struct config *config);
// Makes a deep copy, to be freed, overwriting `copy`.
void config_copy(struct config *copy, const struct config *config);

// Sets every flag that is not given to the value from config->model.preset (if not NULL) and the family named by
// --model, then applies the file of --deepspeed. After this the family is gpt, bert or t5. config_parse calls this;
// commands with a flag_command of their own call it after flags_parse.
int config_apply_preset(struct config *config);
// Keeps one of tokens, epochs, train_iters and train_samples; a usage error if the command line gives several.
int config_choose_length(struct config *config);
// Appends a table of the presets with their sizes, for users.
void config_list_presets(struct buffer *out);
// Name of preset i, NULL after the last.
const char *config_preset_name(size_t i);
// The parameters of preset i as published, "1.1B", for users and tests.
const char *config_preset_parameters(size_t i);
// The vocabulary of a preset's published model; 0 for an unknown name.
int64_t config_preset_vocabulary(const char *name);

// Sets the derived fields, and refuses contradictory and unimplemented settings: all complaints in one message, each
// with its remedy. world_size is the number of ranks.
int config_validate(struct config *config, int world_size);
int config_validate_for(struct config *config, int world_size, enum config_use use);
// The iterations of entry i of --iterations-to-skip, "N" or "N-M"; -1 if it is neither.
int config_skip(const struct config *config, int64_t i, int64_t *first, int64_t *last);
// Whether a model of this kind can generate text on this layout; a config of an evaluation may ask that too.
int config_check_writing(const struct config *config);

// padded_vocab_size = ceil(vocab_size / m)·m with m = make_vocab_size_divisible_by,
// unless --padded-vocab-size was given, which is then checked against the tokenizer's vocab_size.
int config_pad_vocab(struct config *config, int64_t vocab_size);

// What follows from the model and its layout together; model_value.h has what follows from the model alone.

// Maximal number of ranks that the experts are split over.
enum { EXPERT_RANKS_MOST = 256 };
// The i-th of the top-k accuracies that ICT reports.
enum { CONFIG_MOST_TOPS = 8 };
int64_t config_top(const struct config *config, int64_t i);
// Number of tensor-parallel ranks that share a head of keys and values: 1 unless there are more ranks than such heads.
int64_t config_kv_ranks(const struct config *config);
// The pipeline (config_pipeline.c): the chunks of each stage, the layers of a stage, the first stage with decoder
// layers of a T5 (0 if there is only one stage, and for other models), and the layers of each stack in a chunk.
int64_t config_chunks(const struct config *config);
int64_t config_stage_layers(const struct config *config, int64_t stage);
// The layers of a stage, plus an embedding or a head that counts as a layer; chunks divide this evenly.
int64_t config_stage_places(const struct config *config, int64_t stage);
bool config_weighs_ends(const struct config *config);  // --account-for-…-in-pipeline-split
int64_t config_split_stage(const struct config *config);
// A chunk has layers of one stack, of both if it is the whole of a T5, or, at an end that counts as a layer, none.
struct config_chunk {
    int64_t encoder_first, encoder_count, decoder_first, decoder_count;
    bool begins, ends;  // its stack: it has the embeddings before the first layer, the head after the last one
    int64_t depths;     // of multi-token prediction, after the last layer
};
struct config_chunk config_chunk(const struct config *config, int64_t number);
struct config_chunk config_whole(const struct config_model *model);  // the whole model, for any pipeline
// Whether all blocks of --fp8-recipe blockwise or mxfp8 are whole, which GPUs require.
int config_check_whole_blocks(const struct config *config);
// Whether --first-last-layers-bf16 keeps this layer of a stack of `layers` in bf16.
bool config_layer_is_bf16(const struct config *config, int64_t layer, int64_t layers);
// Whether `load` is the dense checkpoint of --moe-use-upcycling; if not, `pretrained_checkpoint` may be.
bool config_upcycles_load(const struct config *config);
// Number of tensor-parallel ranks that split each expert.
int64_t config_expert_slices(const struct config *config);
// Number of ranks along each axis that the experts are split over: first ranks of the tensor axis that do not split the
// same expert, then context-parallel, then data-parallel ranks, as in Megatron. -1 without a message if they do not
// divide the axes.
struct config_expert_ranks {
    int64_t tensor, context, data;
};
int config_expert_ranks(const struct config *config, int64_t data_ranks, struct config_expert_ranks *ranks);

// --tokenizer-type auto: train trains a tokenizer on its text. vocab_size is then its maximal number of tokens.
bool config_trains_tokenizer(const struct config *config);

// Number of ranks that work on the same samples: the product of all mesh axes but the data-parallel one.
int64_t config_model_ranks(const struct config *config);
// Number of ranks that one copy of the model needs, its experts included.
int64_t config_least_ranks(const struct config *config);

// The size of the global batch that begins after consumed_samples (with ramp-up), and the number of iterations in
// train_samples.
bool config_batch_varies(const struct config *config);
int64_t config_global_batch_size(const struct config *config, int64_t consumed_samples);
int64_t config_eval_batch_size(const struct config *config);  // samples of one iteration of an evaluation

// The reference page of all flags, docs/flags.md.
void config_markdown(struct buffer *out);

// Megatron's argument dump, sorted: two spaces, the name, dots to column 48, the value. Folded, it has only flags that
// were given or differ from their defaults, and counts the omitted ones.
void config_dump(const struct config *config, bool is_folded, struct buffer *out);

// All fields as one JSON object: {"num_layers": 12, …}; unset ones are null.
void config_to_json(const struct config *config, struct json_writer *writer);
// Takes the fields of the model (and the tokenizer) from such an object, for flags that the user did not give.
int config_from_json(struct config *config, const struct json *object);
// Compares the fields of the model's storage format, which a run that resumes with its optimizer must share; -1, naming
// every difference, if there are any. `name` is the object's file.
int config_check_storage(const struct config *config, const struct json *object, const char *name);
// Whether such an object's run stored its norms' gains as their distance from 1.
bool config_json_is_centered(const struct json *object);
// The learning-rate and weight-decay schedules as one JSON object; config_to_json writes it as its member "schedule".
void config_schedule_to_json(const struct config *config, struct json_writer *writer);
// For a resumed run: its schedules must equal those of such an object, unless --override-opt_param-scheduler keeps the
// flags' or --use-checkpoint-opt_param-scheduler takes the object's. -1, naming every difference, if they do not.
int config_match_schedule(struct config *config, const struct json *object, const char *name);
// Appends the run's other differences from the configuration in `json` (the text of a config.json): "--seed is 1234
// there and 99 here, …". Nothing if samples and updates are the same.
void config_list_changes(const struct config *config, const char *json, struct buffer *out);

// ---- ranks that exchange heads ----

// Attention across the context-parallel ranks of a layer (--cp-comm-type): all gather keys and values, all exchange
// heads (a2a), or groups of neighbours exchange heads and gather keys and values of their heads from the other groups
// (a2a+p2p). The first is the last with groups of one rank, the second with one group of all.

// Number of neighbouring ranks of a layer that exchange heads, 1 if none do; and the maximum over all layers.
int64_t config_layer_head_ranks(const struct config *config, int64_t layer);
int64_t config_head_ranks(const struct config *config);
// Both for layers with several groups of several ranks each (a2a+p2p); 1 if no layer has them.
int64_t config_near_ranks(const struct config *config);
// Whether some layer has this --cp-comm-type.
bool config_has_cp_comm_type(const struct config *config, const char *type);
// The two --hierarchical-context-parallel-sizes: the ranks of a group, and the groups. -1 if they are not two sizes.
int config_hierarchy(const struct config *config, int64_t sizes[2]);
// One of them: a whole number of 1 or more. -1 for any other text.
int config_hierarchy_size(const char *text, int64_t *size);

#endif
