// Makes a configuration complete and refuses one that contradicts itself. All contradictions are reported at once, each
// with its remedy, because a job that waited hours in a queue should not fail on them one by one.
#include "config/validate.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "net/url.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *divisors(int64_t number, char *text, size_t size) {
    enum { MOST = 1024 };  // larger ones are useless
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

// Up to three shares, at least one of them above 0. As in Megatron, they are separated by anything but digits and dots,
// including quotes left over by a script's own quoting; letters and signs are not accepted as separators.
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
    if (!config->data.fim_data)
        return;
    if (config->data.mock_data && flag_is_given(&config->given, "--mock-data"))
        complain(complaints, "--fim-data needs texts, but --mock-data has none; give --data-path");
    if (config->data.fim_split_sample && !flag_is_given(&config->given, "--fim-fragment-rate"))
        complain(complaints, "--fim-split-sample needs --fim-fragment-rate, the share of fragments to permute");
    if (!config->data.fim_split_sample && flag_is_given(&config->given, "--fim-fragment-rate"))
        complain(complaints, "--fim-fragment-rate has no effect without --fim-split-sample; give both");
}

static void validate_data(struct config *config, enum config_use use, struct complaints *complaints) {
    bool has_own = config->data.per_split_data_args_path || config->data.train_data_path.count > 0 ||
                   config->data.valid_data_path.count > 0 || config->data.test_data_path.count > 0;
    bool has_parts = config->data.train_weighted_split_paths_path || config->data.valid_weighted_split_paths_path ||
                     config->data.test_weighted_split_paths_path || config->data.train_weighted_split_paths.count > 0 ||
                     config->data.valid_weighted_split_paths.count > 0 ||
                     config->data.test_weighted_split_paths.count > 0;
    validate_fim(config, complaints);
    bool has_common = config->data.data_path.count > 0 || config->data.data_args_path;
    int sources = has_common + has_own + has_parts + config->data.mock_data;
    if (sources == 0 && use == CONFIG_TRAIN)
        complain(
            complaints,
            "there is no data; give --data-path with a text or the PREFIX of a dataset, or --mock-data to try without");
    if (sources > 1)
        complain(complaints,
                 "--data-path, --train/valid/test-data-path, --train/valid/test-weighted-split-paths and --mock-data "
                 "exclude each other; give one");
    if (!*config->data.json_keys || strchr(config->data.json_keys, '/'))
        complain(complaints, "--json-keys \"%s\" cannot be part of a file name; rename the member in the text",
                 config->data.json_keys);
    if (config->data.split && !is_split(config->data.split))
        complain(complaints, "--split takes up to three shares, e.g. 969,30,1, not \"%s\"", config->data.split);
    if (has_common && !config->data.split && use == CONFIG_TRAIN)
        config->data.split = memory_string("969, 30, 1");
}

// --tokenizer-type auto: a byte-level BPE of the run's own text.
static void validate_trained_tokenizer(struct config *config, enum config_use use, struct complaints *complaints) {
    enum { LEAST = 257, USUAL = 32000 };
    if (use != CONFIG_TRAIN)
        complain(complaints, "--tokenizer-type auto is for train; leave it out: the checkpoint has the tokenizer");
    // A dry run without data uses mock data; its size is known.
    if (flag_is_given(&config->given, "--mock-data") && config->data.mock_data)
        complain(complaints, "--tokenizer-type auto needs text to learn from, but --mock-data has none; give "
                             "--vocab-size alone");
    if (config->data.vocab_size == 0)
        config->data.vocab_size = USUAL;
    else if (config->data.vocab_size < LEAST)
        complain(complaints, "--tokenizer-type auto needs --vocab-size %d or more: 256 bytes and the end of documents",
                 LEAST);
}

// Types of forks, whose files and ids are those of HuggingFaceTokenizer. Pai-Megatron-Patch takes the files from
// --load and does not pad the embedding; the sizes are those of the published tokenizers.
static void read_fork_tokenizer(struct config *config) {
    static const struct {
        const char *type;
        enum config_sizing sizing;
        int64_t size;  // 0: not Pai's
    } forks[] = {{"PretrainedFromHF", SIZING_ALL, 0},      {"HFTokenizer", SIZING_OWN, 0},
                 {"LLamaTokenizer", SIZING_OWN, 32000},    {"LLama2Tokenizer", SIZING_OWN, 32000},
                 {"MistralTokenizer", SIZING_OWN, 32000},  {"MixtralTokenizer", SIZING_OWN, 32000},
                 {"LLama3Tokenizer", SIZING_OWN, 128000},  {"Qwen2Tokenizer", SIZING_OWN, 151643},
                 {"Qwen3Tokenizer", SIZING_OWN, 151643},   {"DeepSeekV2Tokenizer", SIZING_BUT_TWO, 100000},
                 {"BaichuanTokenizer", SIZING_OWN, 64000}, {"YiTokenizer", SIZING_OWN, 64000},
                 {"FalconTokenizer", SIZING_OWN, 65024},   {"OPTTokenizer", SIZING_OWN, 50265},
                 {"QwenTokenizer", SIZING_OWN, 151851}};
    struct config_data *data = &config->data;
    data->sizing = SIZING_ALL;
    data->published_size = 0;
    for (size_t i = 0; data->tokenizer_type && i < sizeof forks / sizeof forks[0]; i++) {
        if (strcmp(data->tokenizer_type, forks[i].type) != 0)
            continue;
        const char *folder = config->run.load ? config->run.load : config->run.pretrained_checkpoint;
        free(data->tokenizer_type);
        data->tokenizer_type = memory_string("HuggingFaceTokenizer");
        data->sizing = forks[i].sizing;
        data->published_size = forks[i].size;
        if (forks[i].size && data->extra_vocab_size < 0)
            data->extra_vocab_size = 0;
        if (forks[i].size && !data->tokenizer_model && folder)
            data->tokenizer_model = memory_string(folder);
    }
}

static void validate_tokenizer(struct config *config, enum config_use use, struct complaints *complaints) {
    // The defaults of pretrain_bert.py, pretrain_t5.py and pretrain_gpt.py.
    bool is_gpt = config->model.form == CONFIG_GPT;
    bool is_assumed = !config->data.tokenizer_type && (config->data.vocab_file || config->data.merge_file);
    if (is_assumed)
        config->data.tokenizer_type =
            memory_string(is_gpt || config->data.merge_file ? "GPT2BPETokenizer" : "BertWordPieceLowerCase");
    if (!config->data.tokenizer_type && !config->data.tokenizer_model && config->data.vocab_size == 0) {
        complain(complaints,
                 "the vocabulary is unknown; give --vocab-file and --merge-file, or --vocab-size; for text, "
                 "--tokenizer-type auto --vocab-size 32000 trains a tokenizer on it");
        return;
    }
    if (config_trains_tokenizer(config)) {
        validate_trained_tokenizer(config, use, complaints);
        return;
    }
    if (config->data.tokenizer_type && strcmp(config->data.tokenizer_type, "GPT2BPETokenizer") == 0 &&
        (!config->data.vocab_file || !config->data.merge_file))
        complain(
            complaints, "GPT2BPETokenizer needs --vocab-file and --merge-file; %s is missing%s",
            config->data.vocab_file ? "--merge-file" : "--vocab-file",
            is_assumed && config->data.vocab_file
                ? " (a vocab.txt of words has none: give --tokenizer-type BertWordPieceLowerCase, and --model bert "
                  "or t5 if it is to be one)"
                : "");
    if (config->data.tokenizer_model && !config->data.tokenizer_type)
        complain(complaints, "--tokenizer-model needs --tokenizer-type, which says how to read it");
}

static void validate_checkpoints(struct config *config, struct complaints *complaints) {
    if (config->run.save && !*config->run.save)
        complain(complaints, "--save is empty; give a folder for checkpoints, or leave it out to save none");
    if (config->run.save && url_is_remote(config->run.save))
        complain(complaints, "--save %s is not a folder; give a folder, and the address with --save-to",
                 config->run.save);
    if (config->run.save_to && !url_is_s3(config->run.save_to))
        complain(complaints, "--save-to %s does not begin with s3://", config->run.save_to);
    if (config->run.save_fallback && config->run.save && file_is_same_path(config->run.save, config->run.save_fallback))
        complain(complaints, "--save-fallback must be another folder than --save, on another file system");
    if (config->run.save_fallback && url_is_remote(config->run.save_fallback))
        complain(complaints, "--save-fallback %s is not a folder", config->run.save_fallback);
    bool has_wandb = config->watch.wandb_project && *config->watch.wandb_project;
    if (has_wandb && (!config->watch.wandb_exp_name || !*config->watch.wandb_exp_name))
        complain(complaints, "--wandb-project needs --wandb-exp-name, the name of the run");
    if (config->watch.on_event && (!*config->watch.on_event || strcmp(config->watch.on_event, "@") == 0))
        complain(complaints, "--on-event is empty; give a shell command or @FILE, or leave it out");
    if (config->run.save && !config->watch.metrics_file)
        config->watch.metrics_file = file_join(config->run.save, "metrics.jsonl");
}

// A short run would spend its time on evaluations.
static void scale_evaluations(struct config *config) {
    const int64_t most = 100, share = 10;
    if (flag_source(&config->given, "--eval-iters") == FLAG_FROM_DEFAULT && config->run.train_iters > 0)
        config->run.eval_iters =
            config->run.train_iters < most * share ? (config->run.train_iters + share - 1) / share : most;
}

// Megatron-LM counts the stages of T5's encoder apart from those of its decoder; here they are in one pipeline.
static void join_encoder_stages(struct config *config, struct complaints *complaints) {
    int64_t stages = config->machine.encoder_pipeline_model_parallel_size;
    if (stages == 0)
        return;
    if (config->model.form != CONFIG_T5)
        complain(complaints, "--encoder-pipeline-model-parallel-size is for --model t5; leave it out");
    if (config->machine.pipeline_model_parallel_split_rank > 0)
        complain(complaints, "--pipeline-model-parallel-split-rank does not work with "
                             "--encoder-pipeline-model-parallel-size, which gives the same; leave one out");
    config->machine.pipeline_model_parallel_size += stages;
    config->machine.pipeline_model_parallel_split_rank = stages;
    config->machine.encoder_pipeline_model_parallel_size = 0;
}

static void validate_rank(const struct config *config, const char *text, struct complaints *complaints) {
    char *end;
    errno = 0;
    long rank = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || rank < 0)
        complain(complaints, "--profile-ranks %s is not the number of a rank; ranks are numbered from 0", text);
    else if (config->machine.world_size > 0 && rank >= config->machine.world_size)
        complain(complaints, "--profile-ranks %s: the ranks of this run are 0 to %" PRId64, text,
                 config->machine.world_size - 1);
}

// Iterations and ranks to profile; needs the number of ranks.
static void validate_profile(const struct config *config, struct complaints *complaints) {
    if (!config->watch.profile)
        return;
    if (config->watch.profile_step_end <= config->watch.profile_step_start)
        complain(complaints,
                 "--profile-step-end %" PRId64 " leaves no iteration after --profile-step-start %" PRId64
                 "; give a larger one",
                 config->watch.profile_step_end, config->watch.profile_step_start);
    for (int64_t i = 0; i < config->watch.profile_ranks.count; i++)
        validate_rank(config, config->watch.profile_ranks.items[i], complaints);
}

static const char digits[] = "0123456789";

// A positive number without a sign; *end is the text after it. -1 if there is none.
static int64_t read_number(const char *text, const char **end) {
    enum { MOST_DIGITS = 18 };
    size_t length = strspn(text, digits);
    *end = text + length;
    int64_t number = length >= 1 && length <= MOST_DIGITS ? strtoll(text, NULL, 10) : -1;
    return number > 0 ? number : -1;
}

int config_skip(const struct config *config, int64_t i, int64_t *first, int64_t *last) {
    const char *end = config->run.iterations_to_skip.items[i];
    *first = *last = read_number(end, &end);
    if (*first > 0 && *end == '-')
        *last = read_number(end + 1, &end);
    return *first > 0 && *last >= *first && !*end ? 0 : -1;
}

// The folder may be created later; an existing file of that name would never become one.
static void validate_stops(const struct config *config, struct complaints *complaints) {
    const char *folder = config->run.trigger_path;
    if (!folder)
        return;
    if (!config->run.save)
        log_info("note: the file save of --trigger-path has no effect without --save");
    if (file_exists(folder) && !file_is_folder(folder))
        complain(complaints, "--trigger-path %s is not a folder; give the folder for the files save and exit", folder);
    else if (!file_exists(folder))
        log_warn_once("the folder %s of --trigger-path does not exist; create it before a file in it is to save or end "
                      "this run",
                      folder);
}

// --iterations-to-skip and --trigger-path.
static void validate_recovery(const struct config *config, struct complaints *complaints) {
    int64_t first, last;
    for (int64_t i = 0; i < config->run.iterations_to_skip.count; i++)
        if (config_skip(config, i, &first, &last) < 0)
            complain(complaints, "--iterations-to-skip takes iterations (7) and ranges of them (7-9), not \"%s\"",
                     config->run.iterations_to_skip.items[i]);
}

int config_validate_for(struct config *config, int world_size, enum config_use use) {
    struct complaints complaints = {0};
    // The parser fills only fields with a flag.
    config->run.rampup_start = config->run.rampup_increment = config->run.rampup_samples =
        config->run.batch_step_count = 0;
    config->run.lr_decay_steps = config->run.lr_wsd_decay_steps = config->run.wd_incr_steps = 0;
    config->run.lr_warmup_steps = 0;
    config->machine.world_size = world_size;
    config->machine.has_wide_experts = use == CONFIG_PLAN && config->model.num_experts > 0 && config->run.fp8_format;
    use = use == CONFIG_PLAN ? CONFIG_TRAIN : use;
    validate_family(config, &complaints);
    join_encoder_stages(config, &complaints);
    validate_hybrid(config, &complaints);
    validate_deepspeed(config, &complaints);
    read_fork_tokenizer(config);
    validate_model(config, &complaints);
    validate_features(config, &complaints);
    config->run.params_dtype = config->run.bf16 ? "bf16" : config->run.fp16 ? "fp16" : "fp32";
    validate_batches(config, use, &complaints);
    validate_pipeline(config, &complaints);
    validate_fp8(config, &complaints);
    validate_experts(config, &complaints);
    validate_profile(config, &complaints);
    validate_size(config, &complaints);
    rules_check(rules_always, config, &complaints);
    if (use != CONFIG_GENERATE)
        rules_check(rules_of_data, config, &complaints);
    if (use == CONFIG_TRAIN) {
        derive_length_of_tokens(config);
        rules_check(rules_of_training, config, &complaints);
        validate_schedule(config, &complaints);
        scale_evaluations(config);
        validate_recovery(config, &complaints);
        validate_stops(config, &complaints);
        if (config->watch.sample_interval > 0 && config->machine.pipeline_model_parallel_size > 1 &&
            config_chunks(config) > 1)
            complain(&complaints, "--sample-interval generates with each stage once, but there are virtual stages; "
                                  "leave one of them out");
    }
    if (use != CONFIG_GENERATE)
        validate_data(config, use, &complaints);
    validate_tokenizer(config, use, &complaints);
    validate_checkpoints(config, &complaints);
    validate_inject(config, use, &complaints);
    return complaints_report(&complaints);
}

int config_check_writing(const struct config *config) {
    enum config_form form = config->model.form;
    bool is_cut = config->machine.pipeline_model_parallel_size > 1;
    if (form == CONFIG_BERT)
        return error_set_code(EXIT_CODE_USAGE, "a BERT does not generate text; generate needs --model gpt or t5");
    if (form == CONFIG_ICT)
        return error_set_code(EXIT_CODE_USAGE,
                              "a bi-encoder (--model ict) embeds text and does not generate any; generate needs "
                              "--model gpt or t5");
    if (config->machine.context_parallel_size > 1)
        return error_set_code(EXIT_CODE_USAGE,
                              "text cannot be generated with context parallelism; leave out --context-parallel-size");
    if (config->machine.sequence_parallel && config->machine.tensor_model_parallel_size > 1)
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
