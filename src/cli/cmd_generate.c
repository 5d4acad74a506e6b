// bevatron generate: text from a checkpoint, for a prompt or for every line of stdin.
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/phase.h"
#include "base/progress.h"
#include "base/screen.h"
#include "cli/commands.h"
#include "cli/saved_model.h"
#include "cli/session.h"
#include "config/config.h"
#include "config/flag_rows.h"
#include "data/sample/vocabulary.h"
#include "data/tokenizer/tokenizer.h"
#include "plan/setup.h"
#include "train/datasets.h"
#include "train/generate.h"
#include "train/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct generate_options {
    struct flag_given given;
    char *prompt;
    int64_t max_new_tokens;
    int64_t num_samples;
    bool greedy;
    double temperature;
    int64_t top_k;
    double top_p;
    bool ignore_eod;
    bool json;
    struct config config;
};

#define FLAG_STRUCT struct generate_options

static const struct flag own_flags[] = {
    GROUP("Generation"),
    TEXT("--prompt", prompt, NULL, NULL, "text to continue; default: every line of standard input is a prompt"),
    INT("--max-new-tokens", max_new_tokens, "128", 1, 1 << 24, "maximum number of new tokens"),
    INT("--num-samples", num_samples, "1", 1, 1 << 20, "continuations per prompt"),
    SWITCH("--greedy", greedy, "always take the most likely token"),
    REAL("--temperature", temperature, "1.0", 0, 100,
         "divide the logits by this: lower is more conservative, higher more varied; 0 is greedy"),
    INT("--top-k", top_k, "0", 0, 1 << 30, "sample from the k most likely tokens; 0 for all"),
    REAL("--top-p", top_p, "1.0", 0, 1,
         "sample from the most likely tokens that together have this probability; 1 or 0 for all tokens"),
    SWITCH("--ignore-eod", ignore_eod, "continue after the end-of-document token"),
    SWITCH("--json", json, "print one JSON object per sample, when it is complete"),
};

// Their names in llama.cpp, vLLM, Hugging Face and nanoGPT.
static const struct flag_synonym synonyms[] = {
    {"-m --checkpoint --ckpt", "--load", NULL},
    {"-n --max-length --max-tokens --max-new --n-predict --num-tokens --tokens-to-generate --length",
     "--max-new-tokens", "counted without the prompt"},
    {"--num-return-sequences --n-samples --num-sequences", "--num-samples", NULL},
    {"--file --prompt-file --prompts --input-file", NULL, "give the file on standard input: every line is a prompt"},
    {"--stream --streaming --interactive --chat", NULL,
     "leave it out: texts appear as they are written, and on a terminal without --prompt you are asked for prompts"},
    {"--stop --stop-words --stop-strings --stop-sequences --eos-token", NULL,
     "a text ends with the end-of-document token, or after --max-new-tokens"},
    {"--do-sample", NULL, "leave it out: tokens are drawn unless --greedy is given"},
    {"--temp", "--temperature", NULL},
    {"-p --start --text --input --inputs --query", "--prompt", NULL},
    {"--ignore-eos", "--ignore-eod", NULL},
    {"--num-beams --beam --beam-size", NULL, "beam search does not exist here; give --greedy, or --num-samples"},
    {0},
};

// State for continuing every prompt. All ranks of a model compute every token; the first one reads and writes.
struct author {
    const struct generate_options *options;
    struct step *step;
    const struct tokenizer *tokenizer;
    struct group *ranks;
    struct token_stream stream;  // output of the present text
    struct buffer text;          // with --json, the present text without its prompt
    int64_t tokens;              // number of new tokens of the present text
    int64_t given;               // number of its prompt's tokens
    bool asks;                   // a person types prompts and reads the texts
    bool is_told_of_window;      // the user knows that the text exceeds the model's window
    struct progress progress;
};

static bool writes(const struct author *author) {
    return group_rank(author->ranks) == 0;
}

static int write_text(const struct buffer *text) {
    // Stops generating if the reader is gone.
    bool is_written = fwrite(buffer_string(text), 1, text->length, stdout) == text->length && fflush(stdout) == 0;
    return is_written ? 0 : error_set("cannot write the text to standard output: %s", strerror(errno));
}

// The text continues, but the model no longer sees all of it.
static void tell_of_window(struct author *author) {
    int64_t window = step_window(author->step);
    if (author->is_told_of_window || author->given + author->tokens <= window)
        return;
    author->is_told_of_window = true;
    log_warn_once("the text is longer than the model's %lld positions: whenever they run out, only its last %lld "
                  "tokens are read again; give a smaller --max-new-tokens, or a model with more positions",
                  (long long)window, (long long)((window + 1) / 2));
}

static int write_token(void *context, int32_t token) {
    struct author *author = context;
    if (!writes(author))
        return 0;
    author->tokens++;
    tell_of_window(author);
    progress_update(&author->progress, (double)author->tokens, NULL);
    if (author->options->json)
        return token_stream_add(&author->stream, token, &author->text);
    OWNED_BY(buffer_free) struct buffer text = {0};
    TRY(token_stream_add(&author->stream, token, &text));
    return write_text(&text);
}

// A complete sample.
struct generated {
    const char *prompt;
    size_t prompt_length;
    int64_t prompt_tokens;
    int64_t number;  // number of this sample for its prompt
    double seconds;
};

static int write_json(struct author *author, const struct generated *sample) {
    TRY(token_stream_end(&author->stream, &author->text));
    OWNED_BY(buffer_free) struct buffer line = {0};
    struct json_writer json = {.out = &line};
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {{"sample", sample->number},
                   {"seed", author->options->config.run.seed + sample->number},
                   {"prompt_tokens", sample->prompt_tokens},
                   {"tokens", author->tokens}};
    json_begin_object(&json);
    json_key(&json, "prompt");
    json_string(&json, sample->prompt, sample->prompt_length);
    json_key(&json, "text");
    json_string(&json, buffer_string(&author->text), author->text.length);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        json_put_int(&json, numbers[i].key, numbers[i].value);
    json_put_bool(&json, "is_ended", author->tokens < author->options->max_new_tokens);
    json_put_double(&json, "seconds", sample->seconds);
    json_end_object(&json);
    buffer_append_byte(&line, '\n');
    return write_text(&line);
}

static int write_end(struct author *author) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    int status = token_stream_end(&author->stream, &text);
    buffer_append(&text, "\n", 1);
    if (status == 0)
        status = write_text(&text);
    return status;
}

// Megatron's T5 begins with the beginning-of-text token, the original with padding.
static int32_t start_token(const struct generate_options *options, const struct tokenizer *tokenizer) {
    const struct config *config = &options->config;
    if (config->data.decoder_start_token >= 0 || config->model.form != CONFIG_T5)
        return (int32_t)config->data.decoder_start_token;
    OWNED_BY(sample_vocabulary_free) struct sample_vocabulary vocabulary = {0};
    sample_vocabulary_make(&vocabulary, tokenizer);
    return vocabulary.bos >= 0 ? vocabulary.bos : vocabulary.pad;
}

static int continue_prompt(struct author *author, const char *prompt, size_t length) {
    const struct generate_options *options = author->options;
    const struct tokenizer *tokenizer = author->tokenizer;
    struct tokenizer_encoder *encoder;
    OWNED_BY(token_list_free) struct token_list ids = {0};
    TRY(tokenizer_encoder_create(&encoder, tokenizer));
    int status = tokenizer_encode(encoder, prompt, length, &ids);
    tokenizer_encoder_free(encoder);
    // An empty prompt begins a document, as after the end of another one.
    if (status == 0 && ids.count == 0 && tokenizer_eod(tokenizer) < 0)
        status = error_set_code(EXIT_CODE_USAGE, "the prompt is empty, and this tokenizer has no end-of-document "
                                                 "token; give a prompt, or name the token with --eod-token");
    if (status == 0 && ids.count == 0)
        token_list_append(&ids, tokenizer_eod(tokenizer));
    for (int64_t i = 0; i < options->num_samples && status == 0; i++) {
        double started = clock_seconds();
        author->stream = (struct token_stream){.tokenizer = tokenizer};
        author->tokens = 0;
        author->given = options->config.model.form == CONFIG_T5 ? 1 : ids.count;
        // The answer of an encoder-decoder is printed alone, a continuation after its prompt.
        if (options->config.model.form != CONFIG_T5 && writes(author)) {
            if (!options->json)
                fwrite(prompt, 1, length, stdout);
            token_stream_begin(&author->stream, ids.ids, ids.count);
        }
        progress_begin(&author->progress, "generating", "tokens", (double)options->max_new_tokens);
        // Text printed on a terminal shows enough progress.
        author->progress.is_quiet = !writes(author) || !screen_is_live() || (!options->json && isatty(STDOUT_FILENO));
        struct generate generate = {
            .step = author->step,
            .prompt = ids.ids,
            .count = ids.count,
            .max_new_tokens = options->max_new_tokens,
            .end_token = options->ignore_eod ? -1 : tokenizer_eod(tokenizer),
            .start_token = start_token(options, tokenizer),
            .vocab_size = tokenizer_vocab_size(tokenizer),
            .sampling = {.is_greedy = options->greedy,
                         .temperature = options->temperature,
                         .top_k = options->top_k,
                         .top_p = options->top_p,
                         .seed = (uint64_t)options->config.run.seed + (uint64_t)i},
            .accept = write_token,
            .context = author,
        };
        status = generate_run(&generate);
        log_status(NULL);
        if (status == 0 && writes(author) && options->json)
            status = write_json(author, &(struct generated){prompt, length, ids.count, i, clock_seconds() - started});
        else if (status == 0 && writes(author))
            status = write_end(author);
        else if (writes(author) && !options->json)
            fputc('\n', stdout);
        token_stream_free(&author->stream);
        buffer_free(&author->text);
    }
    return status;
}

enum { PROMPT_LIMIT_BYTES = 1 << 26, NO_PROMPT = -1, PROMPT_TOO_LONG = -2 };

// Reads the next line of standard input without its end; returns its length, or one of the above.
static int64_t read_prompt(char **line, size_t *capacity) {
    size_t length = 0;
    int byte;
    while ((byte = getc(stdin)) != EOF && byte != '\n') {
        if (length == PROMPT_LIMIT_BYTES)
            return PROMPT_TOO_LONG;
        if (length == *capacity) {
            *capacity = 2 * *capacity + 1024;
            *line = memory_realloc(*line, *capacity);
        }
        (*line)[length++] = (char)byte;
    }
    return byte == EOF && length == 0 ? NO_PROMPT : (int64_t)length;
}

// The next prompt, which only the first rank can read: its length, or one of the above. All ranks get a copy. A person
// may type for longer than any deadline.
static int64_t share_line(struct author *author, char **line, size_t *capacity) {
    comm_patience_begin(author->ranks, "reading the next prompt");
    if (author->asks)
        (void)(fputs("> ", stdout) < 0 || fflush(stdout));
    int64_t length = writes(author) ? read_prompt(line, capacity) : NO_PROMPT;
    if (author->asks && length == NO_PROMPT)
        (void)putchar('\n');
    comm_broadcast_i64(author->ranks, &length, 1, 0, "length of the prompt");
    comm_patience_end(author->ranks);
    if (length <= 0)
        return length;
    size_t words = ((size_t)length + sizeof(int64_t) - 1) / sizeof(int64_t);
    if (*capacity < words * sizeof(int64_t)) {
        *capacity = words * sizeof(int64_t);
        *line = memory_realloc(*line, *capacity);
    }
    OWNED int64_t *copy = memory_alloc(words * sizeof *copy);
    if (writes(author))
        memcpy(copy, *line, (size_t)length);
    comm_broadcast_i64(author->ranks, copy, (int)words, 0, "prompt");
    memcpy(*line, copy, (size_t)length);
    return length;
}

static int continue_lines(struct author *author) {
    char *line = NULL;
    size_t capacity = 0;
    int status = 0;
    int64_t length = NO_PROMPT;
    author->asks = writes(author) && !author->options->json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    if (author->asks)
        log_info("type the beginning of a text and press Enter; Ctrl-D ends");
    while (status == 0 && (length = share_line(author, &line, &capacity)) >= 0)
        status = continue_prompt(author, length > 0 ? line : "", (size_t)length);
    free(line);
    if (status == 0 && length == PROMPT_TOO_LONG)
        return error_set_code(EXIT_CODE_BAD_DATA,
                              "a prompt on standard input is longer than %d bytes; give one per line",
                              PROMPT_LIMIT_BYTES);
    return status;
}

static int run_model(struct generate_options *options, struct session *session, struct saved_model *saved) {
    const struct tokenizer *tokenizer = saved->tokenizer;
    struct author author = {.options = options, .tokenizer = tokenizer};
    TRY(session_open(session, &options->config));
    comm_patience_begin(session->mesh.all, "loading the checkpoint");
    TRY(found_checkpoint_verify(&saved->found, &session->mesh));
    struct phase *phase = phase_begin("preparing the model and its memory");
    int opened =
        setup_step(&author.step, &(struct setup){&options->config, session->device, &session->mesh, STEP_GENERATE});
    phase_end(phase);
    TRY(opened);
    author.ranks = world_group_all(session->world);
    int status =
        state_load_found(&(struct run_state){.step = author.step, .config = &options->config}, &saved->found, false);
    if (status == 0) {
        comm_patience_end(session->mesh.all);
        status = options->prompt ? continue_prompt(&author, options->prompt, strlen(options->prompt))
                                 : continue_lines(&author);
        // All ranks have the same text, so errors in it are errors on all of them.
        if (status < 0)
            error_mark_shared();
    }
    step_close(author.step);
    return status;
}

static int run_generation(void *context, struct session *session) {
    struct generate_options *options = context;
    OWNED_BY(saved_model_free) struct saved_model saved = {.found.hold = -1};
    TRY(saved_model_find(&saved, &options->config, session, CONFIG_GENERATE));
    if (!saved.tokenizer)
        return error_set_code(EXIT_CODE_USAGE,
                              "generating text needs the tokenizer, and %s has none: give --vocab-file and "
                              "--merge-file, or --tokenizer-type and --tokenizer-model",
                              options->config.run.load);
    return run_model(options, session, &saved);
}

static struct flag_table model_flags(size_t base) {
    return config_flag_table_for(base, CONFIG_GENERATE);
}

static const char *prompt_remedy(const char *argument) {
    return strchr(argument, ' ') ? "the text to continue is --prompt TEXT, the folder of a run --load FOLDER" : NULL;
}

const struct command cmd_generate = {
    .flags = {.name = "generate",
              .argument_flag = "--load",
              .argument_remedy = prompt_remedy,
              .summary =
                  "Generates text from a checkpoint. The model's and tokenizer's flags come from the checkpoint.",
              .epilogue = "Example:\n  bevatron generate --load run --prompt \"Once upon a time\" --max-new-tokens 100 "
                          "--top-p 0.9\n"},
    .tables = {{FLAG_TABLE(own_flags), .synonyms = synonyms}},
    .shared = model_flags,
    .shared_at = OFFSET(config),
    .options_bytes = sizeof(struct generate_options),
    .run_ranks = run_generation,
};
