// Makes a configuration complete and refuses one that contradicts itself. All contradictions are reported at once, each
// with its remedy, because a job that waited hours in a queue should not fail on them one by one.
#include "config/validate.h"
#include "base/error.h"
#include "base/file.h"
#include "base/remote/url.h"
#include "base/log.h"
#include "base/memory.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *divisors(int64_t number, char *text, size_t size) {
    enum { MOST = 1024 };  // larger ones are of no use
    size_t used = 0;
    text[0] = 0;
    for (int64_t d = 1; d <= number && d <= MOST && used < size; d++)
        if (number % d == 0) {
            int written = snprintf(text + used, size - used, "%s%" PRId64, used > 0 ? ", " : "", d);
            used += written > 0 ? (size_t)written : 0;
        }
    return text;
}

int64_t nearest_divisor(int64_t number, int64_t wanted) {
    int64_t best = 1;
    for (int64_t d = 1; d <= number && d < 2 * wanted; d++)
        if (number % d == 0 && llabs(d - wanted) < llabs(best - wanted))
            best = d;
    return best;
}

int64_t nearest_multiple(int64_t wanted, int64_t unit) {
    int64_t below = wanted / unit * unit;
    return below > 0 && wanted - below < below + unit - wanted ? below : below + unit;
}

static void validate_precision(struct config *config, struct complaints *complaints) {
    if (config->fp16 && config->bf16)
        complain(complaints, "--fp16 and --bf16 exclude each other; give one");
    if (config->fast_attention_dropout && config->deterministic_mode)
        complain(complaints, "--fast-attention-dropout and --deterministic-mode exclude each other; give one");
    config->params_dtype = config->bf16 ? "bf16" : config->fp16 ? "fp16" : "fp32";
}

// Up to three shares, of which one is above 0. As in Megatron, whatever is neither a digit nor a dot separates them,
// the quotes that a script's own quoting leaves included; letters and signs are not taken for separators.
static bool is_split(const char *text) {
    int numbers = 0;
    double sum = 0;
    while (*text) {
        size_t length = strspn(text, "0123456789.");
        char *end = NULL;
        if (length == 0 && (isalpha((unsigned char)*text) || *text == '-' || *text == '+'))
            return false;
        if (length > 0) {
            sum += strtod(text, &end);
            numbers++;
            if (end != text + length)
                return false;
        }
        text += length ? length : 1;
    }
    return numbers >= 1 && numbers <= 3 && sum > 0;
}

static void validate_fim(const struct config *config, struct complaints *complaints) {
    // BigCode's fork has no --fim-data: there a rate is enough.
    if (!config->fim_data) {
        if (flag_is_given(&config->given, "--fim-rate") && config->fim_rate > 0)
            log_warn_once("--fim-rate has no effect without --fim-data, as in Megatron-LM; give --fim-data to permute "
                          "texts");
        return;
    }
    if (config_form(config) != CONFIG_GPT)
        complain(complaints, "--fim-data is for GPT, but this is a --model %s; leave it out", config->model);
    if (config->mock_data && flag_is_given(&config->given, "--mock-data"))
        complain(complaints, "--fim-data needs texts, but --mock-data has none; give --data-path");
    if (config->fim_split_sample && !flag_is_given(&config->given, "--fim-fragment-rate"))
        complain(complaints, "--fim-split-sample needs --fim-fragment-rate, the share of fragments to permute");
    if (!config->fim_split_sample && flag_is_given(&config->given, "--fim-fragment-rate"))
        complain(complaints, "--fim-fragment-rate has no effect without --fim-split-sample; give both");
}

// The flags that name parts of datasets; each flag or its file, not both.
static bool has_weighted_splits(const struct config *config, struct complaints *complaints) {
    const struct {
        const char *flag, *path;
        int64_t count;
    } splits[] = {{"--train-weighted-split-paths", config->train_weighted_split_paths_path,
                   config->train_weighted_split_paths.count},
                  {"--valid-weighted-split-paths", config->valid_weighted_split_paths_path,
                   config->valid_weighted_split_paths.count},
                  {"--test-weighted-split-paths", config->test_weighted_split_paths_path,
                   config->test_weighted_split_paths.count}};
    bool has_some = false;
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
        has_some = has_some || splits[i].path || splits[i].count > 0;
        if (splits[i].path && splits[i].count > 0)
            complain(complaints, "%s and %s-path say the same; give one", splits[i].flag, splits[i].flag);
    }
    if (has_some && config->split)
        complain(complaints, "--split splits one --data-path; leave it out with --train-weighted-split-paths");
    return has_some;
}

static void validate_data(struct config *config, enum config_use use, struct complaints *complaints) {
    const struct string_list *own[] = {&config->train_data_path, &config->valid_data_path, &config->test_data_path};
    bool has_own = config->per_split_data_args_path != NULL;
    validate_fim(config, complaints);
    bool has_common = config->data_path.count > 0 || config->data_args_path;
    for (int i = 0; i < 3; i++)
        has_own = has_own || own[i]->count > 0;
    int sources = has_common + has_own + has_weighted_splits(config, complaints) + config->mock_data;
    if (sources == 0 && use == CONFIG_TRAIN)
        complain(
            complaints,
            "there is no data; give --data-path with a text or the PREFIX of a dataset, or --mock-data to try without");
    if (sources > 1)
        complain(complaints,
                 "--data-path, --train/valid/test-data-path, --train/valid/test-weighted-split-paths and --mock-data "
                 "exclude each other; give one");
    if (config->data_path.count > 0 && config->data_args_path)
        complain(complaints, "--data-path and --data-args-path say the same; give one");
    if (!*config->json_keys || strchr(config->json_keys, '/'))
        complain(complaints, "--json-keys \"%s\" cannot be part of a file name; rename the member in the text",
                 config->json_keys);
    bool is_bert = strcmp(config->model, "bert") == 0;
    if (config->sample_break_mode && (!is_bert || !config->bert_no_binary_head))
        complain(complaints,
                 "--sample-break-mode is for RoBERTa's samples; give --model bert --bert-no-binary-head with it");
    if (config->mask_whole_words && !config->sample_break_mode)
        complain(complaints,
                 "--mask-whole-words is RoBERTa's; give --sample-break-mode with it (BERT always masks words)");
    bool is_fairseq = config->tokenizer_type && strcmp(config->tokenizer_type, "FairseqTokenizer") == 0;
    if (config->mask_whole_words && is_fairseq && !config->vocab_file)
        complain(complaints, "--mask-whole-words needs a BPE: the tokens of a dictionary of words are words; leave it "
                             "out, or give --vocab-file and --merge-file");
    if (has_own && config->split)
        complain(complaints, "--split splits one --data-path; leave it out with --train/valid/test-data-path");
    if (config->split && !is_split(config->split))
        complain(complaints, "--split takes up to three shares, e.g. 969,30,1, not \"%s\"", config->split);
    if (has_common && !config->split && use == CONFIG_TRAIN) {
        config->split = memory_string("969, 30, 1");
        log_info("note: --split is not given; 969, 30, 1 of the documents are for training, validation and test");
    }
}

// --tokenizer-type auto: a byte-level BPE of the run's own text.
static void validate_trained_tokenizer(struct config *config, enum config_use use, struct complaints *complaints) {
    enum { LEAST = 257, USUAL = 32000 };
    if (use != CONFIG_TRAIN)
        complain(complaints, "--tokenizer-type auto is for train; leave it out: the checkpoint has the tokenizer");
    if (config->vocab_file || config->merge_file || config->tokenizer_model)
        complain(complaints, "--tokenizer-type auto trains a tokenizer and reads none; leave out --vocab-file, "
                             "--merge-file and --tokenizer-model, or name the type of their tokenizer");
    // A dry run without data has mock data in its place; the size is known.
    if (flag_is_given(&config->given, "--mock-data") && config->mock_data)
        complain(complaints, "--tokenizer-type auto needs text to learn from, but --mock-data has none; give "
                             "--vocab-size alone");
    if (config_form(config) != CONFIG_GPT)
        complain(complaints,
                 "--tokenizer-type auto makes a GPT-2 tokenizer, which lacks the special tokens of --model %s; give "
                 "--tokenizer-type and its files, e.g. BertWordPieceLowerCase with --vocab-file vocab.txt",
                 config->model);
    if (config->vocab_size == 0)
        config->vocab_size = USUAL;
    else if (config->vocab_size < LEAST)
        complain(complaints, "--tokenizer-type auto needs --vocab-size %d or more: 256 bytes and the end of documents",
                 LEAST);
}

static void validate_tokenizer(struct config *config, enum config_use use, struct complaints *complaints) {
    if (config->tokenizer_type && strcmp(config->tokenizer_type, "PretrainedFromHF") == 0) {
        free(config->tokenizer_type);
        config->tokenizer_type = memory_string("HuggingFaceTokenizer");
    }
    // As pretrain_bert.py and pretrain_t5.py have it, and pretrain_gpt.py.
    bool is_gpt = strcmp(config->model, "gpt") == 0;
    bool is_assumed = !config->tokenizer_type && (config->vocab_file || config->merge_file);
    if (is_assumed)
        config->tokenizer_type =
            memory_string(is_gpt || config->merge_file ? "GPT2BPETokenizer" : "BertWordPieceLowerCase");
    if (!config->tokenizer_type && !config->tokenizer_model && config->vocab_size == 0) {
        complain(complaints,
                 "the vocabulary is unknown; give --vocab-file and --merge-file, or --vocab-size; for text, "
                 "--tokenizer-type auto --vocab-size 32000 trains a tokenizer on it");
        return;
    }
    if (config_trains_tokenizer(config)) {
        validate_trained_tokenizer(config, use, complaints);
        return;
    }
    if (config->tokenizer_type && strcmp(config->tokenizer_type, "GPT2BPETokenizer") == 0 &&
        (!config->vocab_file || !config->merge_file))
        complain(
            complaints, "GPT2BPETokenizer needs --vocab-file and --merge-file; %s is missing%s",
            config->vocab_file ? "--merge-file" : "--vocab-file",
            is_assumed && config->vocab_file
                ? " (a vocab.txt of words has none: give --tokenizer-type BertWordPieceLowerCase, and --model bert "
                  "or t5 if it is to be one)"
                : "");
    if (config->tokenizer_type && strcmp(config->tokenizer_type, "NullTokenizer") == 0 && config->vocab_size == 0)
        complain(complaints, "NullTokenizer needs --vocab-size");
    if (config->tokenizer_type && strstr(config->tokenizer_type, "SentencePieceTokenizer") && !config->tokenizer_model)
        complain(complaints, "%s needs --tokenizer-model", config->tokenizer_type);
    static const char *const one_file[] = {"Llama2Tokenizer", "HuggingFaceTokenizer", "TikTokenizer",
                                           "FairseqTokenizer"};
    for (size_t i = 0; i < sizeof one_file / sizeof one_file[0]; i++)
        if (config->tokenizer_type && strcmp(config->tokenizer_type, one_file[i]) == 0 && !config->tokenizer_model)
            complain(complaints, "%s needs --tokenizer-model", one_file[i]);
    if (config->tokenizer_type && strncmp(config->tokenizer_type, "BertWordPiece", 13) == 0 && !config->vocab_file)
        complain(complaints, "%s needs --vocab-file vocab.txt", config->tokenizer_type);
    if (config->tokenizer_model && !config->tokenizer_type)
        complain(complaints, "--tokenizer-model needs --tokenizer-type, which says how to read it");
}

static void validate_checkpoints(struct config *config, struct complaints *complaints) {
    if (config->override_opt_param_scheduler && config->use_checkpoint_opt_param_scheduler)
        complain(complaints,
                 "--override-opt_param-scheduler and --use-checkpoint-opt_param-scheduler exclude each other; "
                 "give one");
    if (!config->load && config->finetune)
        complain(complaints, "--finetune needs --load, the checkpoint to start from");
    if (!config->load && !config->pretrained_checkpoint && config->use_checkpoint_args)
        complain(complaints, "--use-checkpoint-args needs --load, the checkpoint to take them from");
    if (!config->load && config->ckpt_step >= 0)
        complain(complaints, "--ckpt-step needs --load, the folder it is in");
    if (config->save && !*config->save)
        complain(complaints, "--save is empty; give a folder for checkpoints, or leave it out to save none");
    if (config->save && url_is_remote(config->save))
        complain(complaints, "--save %s is not a folder; give a folder, and the address with --save-to", config->save);
    if (config->save_to && !url_is_s3(config->save_to))
        complain(complaints, "--save-to %s does not begin with s3://", config->save_to);
    if (config->keep_best && !config->save)
        complain(complaints, "--keep-best needs --save, the folder for the checkpoint");
    if (config->keep_best && config->eval_iters == 0)
        complain(complaints, "--keep-best needs evaluations; leave out --eval-iters 0");
    if (config->save_to && !config->save)
        complain(complaints, "--save-to needs --save, the folder that checkpoints are written to first");
    if (config->save_fallback && (!config->save || file_is_same_path(config->save, config->save_fallback)))
        complain(complaints, "--save-fallback needs --save, and must be another folder on another file system");
    if (config->save_fallback && url_is_remote(config->save_fallback))
        complain(complaints, "--save-fallback %s is not a folder", config->save_fallback);
    bool has_wandb = config->wandb_project && *config->wandb_project;
    if (has_wandb && (!config->wandb_exp_name || !*config->wandb_exp_name))
        complain(complaints, "--wandb-project needs --wandb-exp-name, the name of the run");
    if (config->on_event && (!*config->on_event || strcmp(config->on_event, "@") == 0))
        complain(complaints, "--on-event is empty; give a shell command or @FILE, or leave it out");
    if (config->save && !config->metrics_file)
        config->metrics_file = file_join(config->save, "metrics.jsonl");
}

// What --sample-interval cannot do. Ranks that share layers, and pipelines, can.
static void validate_samples(const struct config *config, struct complaints *complaints) {
    enum config_form form = config_form(config);
    if (config->sample_interval == 0) {
        if (config->sample_prompt.count > 0)
            log_warn_once("--sample-prompt has no effect without --sample-interval");
        return;
    }
    if (form != CONFIG_GPT)
        complain(complaints,
                 "--sample-interval is for models that continue a text (gpt, opt, llama), but this is a --model %s; "
                 "leave it out",
                 config->model);
    if (config->context_parallel_size > 1)
        complain(complaints, "--sample-interval generates one token at a time, which --context-parallel-size cannot "
                             "split; leave one of them out");
    if (config->pipeline_model_parallel_size > 1 && config_chunks(config) > 1)
        complain(complaints, "--sample-interval generates with each stage once, but there are virtual stages; leave "
                             "one of them out");
}

// A short run would spend its time in evaluations.
static void scale_evaluations(struct config *config) {
    const int64_t most = 100, share = 10;
    if (flag_source(&config->given, "--eval-iters") == FLAG_FROM_DEFAULT && config->train_iters > 0)
        config->eval_iters = config->train_iters < most * share ? (config->train_iters + share - 1) / share : most;
}

int config_validate_for(struct config *config, int world_size, enum config_use use) {
    struct complaints complaints = {0};
    // The parser fills only what has a flag.
    config->rampup_start = config->rampup_increment = config->rampup_samples = config->batch_step_count = 0;
    config->lr_decay_steps = config->lr_wsd_decay_steps = config->wd_incr_steps = 0;
    config->lr_warmup_steps = 0;
    config->world_size = world_size;
    config->has_wide_experts = use == CONFIG_PLAN && config->num_experts > 0 && config->fp8_format;
    use = use == CONFIG_PLAN ? CONFIG_TRAIN : use;
    validate_family(config, &complaints);
    validate_deepspeed(config, &complaints);
    validate_model(config, &complaints);
    validate_features(config, &complaints);
    validate_precision(config, &complaints);
    validate_batches(config, use, &complaints);
    validate_pipeline(config, &complaints);
    validate_fp8(config, &complaints);
    validate_ict(config, &complaints);
    validate_experts(config, &complaints);
    validate_profile(config, &complaints);
    validate_size(config, &complaints);
    if (use == CONFIG_TRAIN) {
        validate_schedule(config, &complaints);
        scale_evaluations(config);
        validate_recovery(config, &complaints);
        validate_stops(config, &complaints);
        validate_samples(config, &complaints);
    }
    if (use != CONFIG_GENERATE)
        validate_data(config, use, &complaints);
    validate_tokenizer(config, use, &complaints);
    validate_checkpoints(config, &complaints);
    validate_inject(config, use, &complaints);
    return complaints_report(&complaints);
}

int config_check_writing(const struct config *config) {
    enum config_form form = config_form(config);
    bool is_cut = config->pipeline_model_parallel_size > 1;
    if (form == CONFIG_BERT)
        return error_set_code(EXIT_CODE_USAGE, "a BERT does not generate text; generate needs --model gpt or t5");
    if (form == CONFIG_ICT)
        return error_set_code(EXIT_CODE_USAGE,
                              "a bi-encoder (--model ict) embeds text and does not generate any; generate needs "
                              "--model gpt or t5");
    if (config->context_parallel_size > 1)
        return error_set_code(EXIT_CODE_USAGE,
                              "text cannot be generated with context parallelism; leave out --context-parallel-size");
    if (config->sequence_parallel && config->tensor_model_parallel_size > 1)
        return error_set_code(
            EXIT_CODE_USAGE,
            "text is generated one token at a time, which cannot be split; leave out --sequence-parallel");
    if (is_cut && form == CONFIG_T5)
        return error_set_code(EXIT_CODE_USAGE, "a T5 generates text without a pipeline; a checkpoint loads on any "
                                               "layout, so leave out --pipeline-model-parallel-size");
    if (is_cut && config_chunks(config) > 1)
        return error_set_code(
            EXIT_CODE_USAGE,
            "text is generated one token at a time, which passes each stage once; leave out virtual stages");
    return 0;
}

int config_validate(struct config *config, int world_size) {
    return config_validate_for(config, world_size, CONFIG_TRAIN);
}
