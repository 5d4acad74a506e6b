// bevatron checkpoint convert: models of Hugging Face and Megatron-LM into checkpoints of ours, and ours (or
// Megatron's) into folders that transformers' from_pretrained loads.

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include "cli/commands.h"
#include "cli/convert_check.h"
#include "config/flag_rows.h"
#include "data/extract/inputs.h"
#include "formats/hf_surroundings.h"
#include "formats/model_source.h"
#include "formats/contents.h"
#include "model/census.h"
#include "data/tokenizer/tokenizer.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct checkpoint_convert_options {
    struct flag_given given;
    char *input, *output, *to, *dtype, *family, *max_shard_size;
    char *tokenizer_type, *vocab_file, *merge_file, *tokenizer_model, *eod_token;
    int64_t ckpt_step, vocab_size, num_attention_heads;
    bool json, allow_inexact, verify, no_tokenizer, weights_only;
};

#define FLAG_STRUCT struct checkpoint_convert_options

static const struct flag_refusal refused_targets[] = {
    {.name = "hf", .means = "huggingface"},
    {.name = "transformers", .means = "huggingface"},
    {.name = "safetensors", .reason = "give huggingface, whose weights are safetensors"},
    {.name = "llama.cpp", .reason = "give gguf"},
    {.name = "nemo", .reason = "give huggingface, which NeMo imports"},
    {.name = "vllm", .reason = "give huggingface, which vLLM reads"},
    {.name = "onnx", .reason = "give huggingface, and convert that folder with Optimum"},
    {.name = "pytorch", .reason = "give huggingface"},
    {0},
};

// Their names in other converters.
static const struct flag_synonym synonyms[] = {
    {"--load --load-dir --model --model-path --checkpoint --ckpt --src --source --from-path", "--input", NULL},
    {"--save --save-dir --output-dir --out --dest --outfile", "--output", NULL},
    {"--target-format --format --saver --to-format", "--to", NULL},
    {"--outtype --torch-dtype --precision", "--dtype", NULL},
    {0},
};

static const char *const target_names[] = {"bevatron", "huggingface", "megatron", "gguf", NULL};
static const char *const dtype_names[] = {"fp32", "bf16", "fp16", "q8_0", NULL};

static const struct flag rows[] = {
    TEXT("--input", input, NULL, "DIR",
         "model to read: a --save or iter_… folder, a Hugging Face folder (config.json), a Megatron-LM checkpoint "
         "(mp_rank_…/model_optim_rng.pt, or torch_dist), a fairseq RoBERTa (model.pt), or an llm.c GPT-2 file"),
    TEXT("--output", output, NULL, "DIR", "path to write, which must not exist yet: a folder, or a file for gguf"),
    CHOICE(
        "--to", to, NULL, target_names,
        "format to write; default: gguf for an --output that ends in .gguf, otherwise huggingface for bevatron's own "
        "input and bevatron for others",
        .refusals = refused_targets),
    CHOICE("--dtype", dtype, NULL, dtype_names,
           "dtype of the written tensors; default: each keeps its own. q8_0 (blocks of 8-bit integers) is for gguf"),
    TEXT("--family", family, NULL, "NAME",
         "Hugging Face's model_type to write, e.g. llama or qwen3_moe; an unknown name lists all that can be written; "
         "default: that of the source, otherwise the first that fits the model"),
    TEXT("--max-shard-size", max_shard_size, "5GB", "SIZE",
         "maximum size of one Hugging Face file, or of one piece of a Megatron-LM tensor (at most 1 GiB), in MB or GB "
         "(10^6 or 10^9 bytes)"),
    INT("--vocab-size", vocab_size, "0", 0, INT32_MAX,
        "for Hugging Face: write this many vocabulary rows, without padding; 0 to write all rows"),
    TEXT("--tokenizer-type", tokenizer_type, NULL, "NAME",
         "tokenizer to write with the model, if the input has none (Megatron-LM, llm.c); default with --vocab-file: "
         "GPT2BPETokenizer"),
    TEXT("--vocab-file", vocab_file, NULL, "FILE", "vocabulary of the tokenizer (vocab.json, vocab.txt)"),
    TEXT("--merge-file", merge_file, NULL, "FILE", "merges of the tokenizer (merges.txt)"),
    TEXT("--tokenizer-model", tokenizer_model, NULL, "FILE",
         "tokenizer file (SentencePiece .model, tokenizer.json, rank file)"),
    TEXT("--eod-token", eod_token, NULL, "TEXT",
         "end-of-document token, as spelled in the vocabulary; default: the tokenizer's own"),
    SWITCH("--no-tokenizer", no_tokenizer, "write the model without a tokenizer"),
    INT("--ckpt-step", ckpt_step, "-1", -1, FLAG_ENDLESS, "iteration to read; -1 for the latest"),
    INT("--num-attention-heads", num_attention_heads, "0", 0, 65535,
        "attention heads, for the oldest Megatron-LM checkpoints, which do not store them; 0 to assume heads of 64 "
        "channels"),
    SWITCH("--weights-only", weights_only,
           "leave the optimizer state out of what is written for bevatron or Megatron-LM; default: it is converted, so "
           "that "
           "the run resumes"),
    SWITCH("--verify", verify,
           "for Hugging Face: load the result with transformers and compare its logits with ours. Runs $PYTHON, or "
           "python3; skipped with a note if it has no transformers"),
    SWITCH("--allow-inexact", allow_inexact,
           "also write a model that the target can only approximate (a BERT whose head and blocks have different "
           "activations, a tokenizer that llama.cpp reads differently); prints the difference of the logits"),
    SWITCH("--json", json, "print the result as one JSON object"),
};

static int parse_size(const char *text, uint64_t *bytes) {
    char plain[64], *end = plain;
    double number = number_plain(text, plain, sizeof plain) ? strtod(plain, &end) : 0;
    double unit = strcmp(end, "GB") == 0 ? 1e9 : strcmp(end, "MB") == 0 ? 1e6 : 0;
    if (!(number > 0) || unit == 0 || number * unit > 1e18)
        return error_set_code(EXIT_CODE_USAGE, "--max-shard-size takes a size, e.g. 5GB or 200MB, not \"%s\"", text);
    *bytes = (uint64_t)(number * unit);
    return 0;
}

static enum dtype dtype_of(const char *name) {
    return strcmp(name, "bf16") == 0 ? DTYPE_BF16 : strcmp(name, "fp16") == 0 ? DTYPE_F16 : DTYPE_F32;
}

static void print_result(const struct checkpoint_convert_options *options, const struct model_write *write,
                         const char *to) {
    const struct model_source *source = write->source;
    const struct convert_check *check = write->context;
    int64_t parameters = census_parameters(&source->config);
    OWNED_BY(buffer_free) struct buffer text = {0};
    log_status(NULL);  // the result starts on a new line
    if (!options->json) {
        convert_check_describe(check, &text);
        printf("%s: %s, %zu tensors, %" PRId64 " parameters → %s: %s\n", options->input, source->kind, source->count,
               parameters, options->output, to);
        if (text.length > 0)
            puts(buffer_string(&text));
        return;
    }
    struct json_writer json = {.out = &text};
    json_begin_object(&json);
    json_put_string(&json, "from", source->kind);
    json_put_string(&json, "to", to);
    json_put_int(&json, "tensors", (int64_t)source->count);
    json_put_int(&json, "parameters", parameters);
    json_put_bool(&json, "read_back", check->was_compared);
    json_key(&json, "logits_difference");
    if (check->was_run)
        json_double(&json, check->difference);
    else
        json_null(&json);
    json_put_string(&json, "transformers", check->verify.was_run ? check->verify.version : NULL);
    json_put_string(&json, "transformers_warnings",
                    check->verify.said.length > 0 ? buffer_string(&check->verify.said) : NULL);
    json_key(&json, "transformers_logits_difference");
    if (check->verify.was_run)
        json_double(&json, check->verify.difference);
    else
        json_null(&json);
    json_end_object(&json);
    puts(buffer_string(&text));
}

// A tokenizer that does not fit the model's vocabulary belongs to another model.
static int check_tokenizer(const struct config *config) {
    struct tokenizer *tokenizer;
    struct tokenizer_options options = tokenizer_options_of(config);
    options.vocab_size = 0;  // the model's, which may be padded
    TRY(tokenizer_open(&tokenizer, &options));
    int64_t size = tokenizer_vocab_size(tokenizer);
    tokenizer_free(tokenizer);
    if (size > config->model.padded_vocab_size)
        return error_set("the tokenizer has %" PRId64 " tokens, and the model's vocabulary only %" PRId64
                         ": it belongs to another model",
                         size, config->model.padded_vocab_size);
    return 0;
}

// Removes the input's tokenizer; the model's other files stay.
static void drop_tokenizer(struct model_source *source) {
    struct checkpoint_file_list kept = {0};
    for (size_t i = 0; i < source->files.count; i++) {
        const struct checkpoint_file *file = &source->files.items[i];
        bool is_config = file->path == hf_surroundings_config(&source->files);
        if (hf_surroundings_is_role(file->role) && !hf_surroundings_is_of_tokenizer(file->path))
            checkpoint_file_list_add(&kept, is_config ? HF_ROLE_WEIGHTS : file->role, file->path);
    }
    checkpoint_file_list_free(&source->files);
    source->files = kept;
    source->has_foreign_tokenizer = false;
}

// Replaces the input's tokenizer by the given one.
static int use_tokenizer(const struct checkpoint_convert_options *options, struct model_source *source) {
    const struct {
        const char *flag, *file;
    } given[] = {{"--vocab-file", options->vocab_file},
                 {"--merge-file", options->merge_file},
                 {"--tokenizer-model", options->tokenizer_model}};
    const char *type = options->tokenizer_type;
    struct flag_table table = config_flag_table(0);
    if (options->eod_token)
        TRY(flag_set(&table, &source->config, "--eod-token", options->eod_token, FLAG_FROM_COMMAND));
    bool is_given = type || options->vocab_file || options->merge_file || options->tokenizer_model;
    if (options->no_tokenizer && is_given)
        return error_set_code(EXIT_CODE_USAGE, "--no-tokenizer and a tokenizer exclude each other");
    if (options->no_tokenizer) {
        char **const texts[] = {&source->config.data.tokenizer_type, &source->config.data.tokenizer_model,
                                &source->config.data.vocab_file, &source->config.data.merge_file,
                                &source->config.data.eod_token};
        drop_tokenizer(source);
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
            free(*texts[i]);
            *texts[i] = NULL;
        }
        if (source->config.data.vocab_size == 0)
            source->config.data.vocab_size = source->config.model.padded_vocab_size;
    }
    if (!is_given)
        return 0;
    if (!type && (!options->vocab_file || !options->merge_file))
        return error_set_code(EXIT_CODE_USAGE, "give the kind of the tokenizer's files with --tokenizer-type");
    TRY(flag_set(&table, &source->config, "--tokenizer-type", type ? type : "GPT2BPETokenizer", FLAG_FROM_COMMAND));
    drop_tokenizer(source);
    source->config.data.decoder_start_token = -1;
    if (!options->eod_token) {  // an id of the removed tokenizer
        free(source->config.data.eod_token);
        source->config.data.eod_token = NULL;
    }
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        if (!given[i].file)
            continue;
        TRY(flag_set(&table, &source->config, given[i].flag, given[i].file, FLAG_FROM_COMMAND));
        hf_surroundings_add_tokenizer(&source->files, given[i].flag + 2, given[i].file);
    }
    return check_tokenizer(&source->config);
}

static int write_model(const struct model_write *write, const char *to) {
    if (strcmp(to, "gguf") == 0)
        return model_write_gguf(write);
    if (write->is_q8)
        return error_set_code(EXIT_CODE_USAGE, "--dtype q8_0 is for --to gguf");
    if (strcmp(to, "megatron") == 0)
        return model_write_megatron(write);
    return strcmp(to, "huggingface") == 0 ? model_write_huggingface(write) : model_write_ours(write);
}

// Formats without multi-token prediction get the rest of the model.
static int leave_depths(const struct model_write *write, const char *to, struct model_source_options options) {
    bool is_kept = strcmp(to, "bevatron") == 0 || strcmp(to, "megatron") == 0;
    if (write->source->config.model.mtp_num_layers == 0 || is_kept ||
        (strcmp(to, "huggingface") == 0 && model_fits_huggingface(write)))
        return 0;
    log_warn("multi-token prediction (--mtp-num-layers %" PRId64
             ") is left out: the target has no place for it; --to bevatron and --to megatron keep it",
             write->source->config.model.mtp_num_layers);
    model_source_close(write->source);
    options.leaves_depths = true;
    return model_source_open(write->source, &options);
}

// The format given by --to or the ending of --output; NULL for the usual one. All formats but GGUF are folders, for
// which a file name is a mistake.
static int choose_target(const struct checkpoint_convert_options *options, const char **to) {
    static const char *const gguf[] = {".gguf", NULL};
    static const char *const others[] = {".safetensors", ".bin", ".pt",  ".pth",  ".ckpt", ".ggml", ".onnx",
                                         ".h5",          ".npz", ".zip", ".json", ".txt",  NULL};
    bool is_gguf = ending_is_among(options->output, gguf);
    *to = options->to ? options->to : is_gguf ? "gguf" : NULL;
    if ((*to && strcmp(*to, "gguf") == 0) || !(is_gguf || ending_is_among(options->output, others)))
        return 0;
    return error_set_code(EXIT_CODE_USAGE,
                          "--output %s is the name of a file, and %s%s is a folder; give a folder's name%s",
                          options->output, *to ? "--to " : "what is written", *to ? *to : "",
                          is_gguf ? ", or leave --to out" : ", or MODEL.gguf for llama.cpp");
}

static int convert(void *context) {
    const struct checkpoint_convert_options *options = context;
    const char *to;
    if (!options->input || !options->output)
        return error_set_code(EXIT_CODE_USAGE, "give the model with --input DIR and the target with --output DIR");
    TRY(choose_target(options, &to));
    OWNED_BY(model_source_close) struct model_source source = {0};
    const struct model_source_options input = {
        .path = options->input, .step = options->ckpt_step, .attention_heads = options->num_attention_heads};
    TRY(model_source_open(&source, &input));
    bool is_ours = strcmp(source.kind, "bevatron") == 0;
    to = to ? to : is_ours ? "huggingface" : "bevatron";
    OWNED_BY(convert_check_free) struct convert_check check = {.verifies = options->verify};
    struct model_write write = {.source = &source,
                                .folder = options->output,
                                .has_dtype = options->dtype != NULL,
                                .dtype = options->dtype ? dtype_of(options->dtype) : DTYPE_F32,
                                .is_q8 = options->dtype && strcmp(options->dtype, "q8_0") == 0,
                                .leaves_optimizer = options->weights_only || (is_ours && strcmp(to, "bevatron") == 0),
                                .family = options->family,
                                .allows_near = options->allow_inexact,
                                .vocab_size = options->vocab_size,
                                .compare = convert_check_compare,
                                .context = &check};
    TRY(leave_depths(&write, to, input));
    int result = parse_size(options->max_shard_size, &write.shard_bytes);
    if (result == 0 && options->verify && strcmp(to, "huggingface") != 0)
        result = error_set_code(EXIT_CODE_USAGE, "--verify runs transformers, which reads --to huggingface only");
    if (result == 0)
        result = use_tokenizer(options, &source);
    if (result == 0 && strcmp(to, "bevatron") == 0)
        result = contents_check_free(options->output, "--output");
    if (result == 0)
        result = write_model(&write, to);
    if (result == 0 && source.notes.length > 0)
        log_warn("%s", buffer_string(&source.notes));
    if (result == 0 && strcmp(to, "gguf") != 0 && source.left.length > 0)
        log_info("note: these files of %s were not copied: %s", options->input, buffer_string(&source.left));
    if (result == 0)
        print_result(options, &write, to);
    return result;
}

const struct command cmd_checkpoint_convert = {
    .flags =
        {.name = "checkpoint convert",
         .argument_flag = "--input",
         .summary =
             "Converts Hugging Face, Megatron-LM, fairseq and llm.c models to bevatron, and all of them to Hugging "
             "Face, Megatron-LM or GGUF. Never executes anything in a file.",
         .epilogue =
             "Examples:\n"
             "  bevatron checkpoint convert --input gpt2 --output run          # then: train --load run --finetune\n"
             "  bevatron checkpoint convert --input run --output hf --dtype bf16 --verify\n"
             "  bevatron checkpoint convert --input run --output model.gguf --dtype q8_0    # for llama.cpp\n"
             "  bevatron checkpoint convert --input megatron_lm_345m --output hf --to huggingface \\\n"
             "      --vocab-file vocab.json --merge-file merges.txt --vocab-size 50257\n"},
    .tables = {{FLAG_TABLE(rows), .synonyms = synonyms}},
    .options_bytes = sizeof(struct checkpoint_convert_options),
    .run = convert,
    .phase = "converting the model",
};
