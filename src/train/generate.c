// Sampling from a model, also while it is trained. See generate.h.
#include "train/generate.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/phase.h"
#include "base/rng.h"
#include "data/tokenizer/tokenizer.h"
#include "plan/setup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct token_choice {
    float logit;
    int32_t token;
};

// Most likely first; among equals the smaller token, so that the order is the same everywhere.
static int compare_choices(const void *a, const void *b) {
    const struct token_choice *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return x->token < y->token ? -1 : x->token > y->token;
}

int32_t logits_likeliest(const float *logits, int64_t vocab_size) {
    int64_t best = 0;
    for (int64_t i = 1; i < vocab_size; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

int logits_check(const float *logits, int64_t vocab_size) {
    bool is_possible = false;
    int64_t bad = -1;
    for (int64_t i = 0; i < vocab_size && bad < 0; i++) {
        // A logit of minus infinity rules a token out.
        if (isnan(logits[i]) || logits[i] == INFINITY)
            bad = i;
        is_possible = is_possible || isfinite(logits[i]);
    }
    if (bad < 0 && is_possible)
        return 0;
    return error_set_code(EXIT_CODE_NOT_FINITE,
                          "the model's output is not finite (the logit of token %lld is %g): its weights have NaN or "
                          "infinity, or overflow in this precision; load an earlier checkpoint",
                          (long long)(bad < 0 ? 0 : bad), (double)logits[bad < 0 ? 0 : bad]);
}

// A number in [0, 1) that depends only on seed and draw.
static double uniform(uint64_t seed, uint64_t draw) {
    struct philox random = philox4x32(seed, (uint32_t)draw, (uint32_t)(draw >> 32), 0x67656e65u, 0);
    return ((double)(random.word[0] >> 5) * 67108864.0 + (double)(random.word[1] >> 6)) / 9007199254740992.0;
}

int32_t sample_token(const struct sampling *sampling, float *logits, int64_t vocab_size, uint64_t draw) {
    if (sampling->is_greedy || sampling->temperature <= 0 || sampling->top_k == 1)
        return logits_likeliest(logits, vocab_size);
    OWNED struct token_choice *choices = memory_alloc(sizeof *choices * (size_t)vocab_size);
    OWNED double *weights = memory_alloc(sizeof *weights * (size_t)vocab_size);
    for (int64_t i = 0; i < vocab_size; i++)
        choices[i] = (struct token_choice){.logit = logits[i], .token = (int32_t)i};
    qsort(choices, (size_t)vocab_size, sizeof *choices, compare_choices);
    int64_t count = sampling->top_k > 0 && sampling->top_k < vocab_size ? sampling->top_k : vocab_size;
    double total = 0;
    for (int64_t i = 0; i < count; i++) {
        weights[i] = exp(((double)choices[i].logit - (double)choices[0].logit) / sampling->temperature);
        total += weights[i];
    }
    if (sampling->top_p > 0 && sampling->top_p < 1) {
        double kept = 0, limit = sampling->top_p * total;
        int64_t n = 0;
        while (n < count && kept < limit)
            kept += weights[n++];
        count = n;
        total = kept;
    }
    double target = uniform(sampling->seed, draw) * total;
    int64_t pick = 0;
    for (double sum = weights[0]; pick < count - 1 && sum <= target; sum += weights[pick])
        pick++;
    return choices[pick].token;
}

// All tokens so far, including the prompt.
struct token_history {
    int32_t *tokens;
    int64_t count;
};

// When the positions run out, the later half of what the model can see is read again from position 0.
static void feed(struct step *step, const struct token_history *history, int64_t fresh, float *logits) {
    int64_t window = step_window(step);
    if (fresh <= step_window_left(step)) {
        step_logits(step, history->tokens + history->count - fresh, fresh, logits);
        return;
    }
    int64_t keep = history->count < window / 2 ? history->count : (window + 1) / 2;
    step_forget(step);
    step_logits(step, history->tokens + history->count - keep, keep, logits);
}

static int check_prompt(const struct generate *generate) {
    int64_t window = step_window(generate->step);
    bool is_answer = step_has_encoder(generate->step);
    if (generate->count < 1)
        return error_set("the prompt has no tokens; give at least one");
    for (int64_t i = 0; i < generate->count; i++)
        if (generate->prompt[i] < 0 || generate->prompt[i] >= generate->vocab_size)
            return error_set("token %d of the prompt is outside the model's vocabulary of %lld; use the tokenizer that "
                             "the model was trained with",
                             generate->prompt[i], (long long)generate->vocab_size);
    if (is_answer && generate->count > window)
        return error_set("the prompt has %lld tokens, and the encoder reads %lld; give a shorter one, or a larger "
                         "--max-position-embeddings",
                         (long long)generate->count, (long long)window);
    if (is_answer && (generate->start_token < 0 || generate->start_token >= generate->vocab_size))
        return error_set("T5's decoder needs a start token; give --decoder-start-token");
    return 0;
}

// The decoder's tokens before the first new one: the prompt or, if an encoder reads that, the start token.
static struct token_history begin(const struct generate *generate) {
    bool is_answer = step_has_encoder(generate->step);
    struct token_history history = {.count = is_answer ? 1 : generate->count};
    history.tokens = memory_alloc(sizeof(int32_t) * (size_t)(history.count + generate->max_new_tokens));
    memcpy(history.tokens, is_answer ? &generate->start_token : generate->prompt,
           sizeof(int32_t) * (size_t)history.count);
    if (is_answer)
        step_encode(generate->step, generate->prompt, generate->count);
    else
        step_forget(generate->step);
    return history;
}

int generate_run(const struct generate *generate) {
    struct step *step = generate->step;
    TRY(check_prompt(generate));
    struct token_history history = begin(generate);
    OWNED float *logits = memory_alloc(sizeof(float) * (size_t)step_vocabulary(step));
    int64_t fresh = history.count;
    int status = 0;
    for (int64_t i = 0; i < generate->max_new_tokens; i++) {
        feed(step, &history, fresh, logits);
        status = logits_check(logits, generate->vocab_size);
        if (status < 0)
            break;
        int32_t token = sample_token(&generate->sampling, logits, generate->vocab_size, (uint64_t)i);
        history.tokens[history.count++] = token;
        fresh = 1;
        if (token == generate->end_token)
            break;
        status = generate->accept(generate->context, token);
        if (status < 0)
            break;
    }
    free(history.tokens);
    return status;
}

struct sampler {
    struct sampler_options options;
    struct config config;  // as it is for one token at a time
    struct step *step;
    struct token_list *prompts;  // (count)
    int64_t count;
};

static const char *prompt_text(const struct sampler *sampler, int64_t i) {
    const struct string_list *given = &sampler->options.config->watch.sample_prompt;
    return i < given->count ? given->items[i] : "";
}

static int encode_prompts(struct sampler *sampler) {
    const struct tokenizer *tokenizer = sampler->options.tokenizer;
    struct tokenizer_encoder *encoder;
    int64_t given = sampler->options.config->watch.sample_prompt.count;
    TRY(tokenizer_encoder_create(&encoder, tokenizer));
    sampler->count = given > 0 ? given : 1;
    sampler->prompts = memory_alloc(sizeof *sampler->prompts * (size_t)sampler->count);
    int status = 0;
    for (int64_t i = 0; i < sampler->count && status == 0; i++) {
        const char *text = prompt_text(sampler, i);
        struct token_list *ids = &sampler->prompts[i];
        status = tokenizer_encode(encoder, text, strlen(text), ids);
        if (status < 0)
            status = error_context("--sample-prompt \"%s\"", text);
        // An empty prompt begins a document, which is what follows the end of one.
        if (status == 0 && ids->count == 0 && tokenizer_eod(tokenizer) >= 0)
            token_list_append(ids, tokenizer_eod(tokenizer));
        else if (status == 0 && ids->count == 0)
            status = error_set_code(EXIT_CODE_USAGE, "this tokenizer has no end-of-document token to start a sample "
                                                     "with; give a --sample-prompt, or name the token with "
                                                     "--eod-token");
    }
    tokenizer_encoder_free(encoder);
    return status;
}

// Room for the longest prompt and what follows it; beyond that generation forgets the beginning.
static int64_t find_window(const struct sampler *sampler) {
    int64_t longest = 0, most = sampler->config.model.max_position_embeddings;
    for (int64_t i = 0; i < sampler->count; i++)
        longest = sampler->prompts[i].count > longest ? sampler->prompts[i].count : longest;
    longest += sampler->config.watch.sample_tokens;
    return longest < most ? longest : most;
}

// The flags that split a sequence or a step say nothing about one token.
static void prepare_config(struct sampler *sampler) {
    config_copy(&sampler->config, sampler->options.config);
    sampler->config.machine.sequence_parallel = false;
    free(sampler->config.run.fp8_format);
    free(sampler->config.run.fp4_format);
    free(sampler->config.machine.pipeline_schedule);
    sampler->config.run.fp8_format = sampler->config.run.fp4_format = sampler->config.machine.pipeline_schedule = NULL;
}

static int open_step(struct sampler *sampler) {
    const struct setup setup = {&sampler->config, sampler->options.device, sampler->options.mesh, STEP_GENERATE};
    struct step_options options = setup_options(&setup);
    options.weights_of = sampler->options.step;
    options.largest.T = find_window(sampler);
    IN_PHASE("preparing the samples");
    return setup_open(&sampler->step, &setup, &options) < 0 ? error_context("for the texts of --sample-interval") : 0;
}

int sampler_open(struct sampler **result, const struct sampler_options *options) {
    *result = NULL;
    if (options->config->watch.sample_interval == 0)
        return 0;
    if (!options->tokenizer)
        return error_set_code(EXIT_CODE_USAGE,
                              "--sample-interval needs the tokenizer: give --vocab-file and --merge-file");
    struct sampler *sampler = memory_alloc(sizeof *sampler);
    *sampler = (struct sampler){.options = *options};
    prepare_config(sampler);
    int status = encode_prompts(sampler);
    if (status < 0)
        error_mark_shared();  // all ranks have the same prompts
    else
        status = open_step(sampler);
    if (status == 0)
        *result = sampler;
    else
        sampler_close(sampler);
    return status;
}

void sampler_close(struct sampler *sampler) {
    if (!sampler)
        return;
    step_close(sampler->step);
    for (int64_t i = 0; i < sampler->count; i++)
        token_list_free(&sampler->prompts[i]);
    free(sampler->prompts);
    config_free(&sampler->config);
    free(sampler);
}

struct sample_text {
    struct token_stream stream;
    struct buffer text;
};

static int add_token(void *context, int32_t token) {
    struct sample_text *sample = context;
    return token_stream_add(&sample->stream, token, &sample->text);
}

static int generate_text(struct sampler *sampler, int64_t i, struct sample_text *sample) {
    const struct token_list *prompt = &sampler->prompts[i];
    const struct tokenizer *tokenizer = sampler->options.tokenizer;
    token_stream_begin(&sample->stream, prompt->ids, prompt->count);
    TRY(generate_run(&(struct generate){.step = sampler->step,
                                        .prompt = prompt->ids,
                                        .count = prompt->count,
                                        .max_new_tokens = sampler->config.watch.sample_tokens,
                                        .end_token = tokenizer_eod(tokenizer),
                                        .vocab_size = tokenizer_vocab_size(tokenizer),
                                        .sampling = {.is_greedy = sampler->config.watch.sample_temperature <= 0,
                                                     .temperature = sampler->config.watch.sample_temperature,
                                                     .top_p = 1,
                                                     .seed = (uint64_t)sampler->config.run.seed},
                                        .accept = add_token,
                                        .context = sample}));
    return token_stream_end(&sample->stream, &sample->text);
}

void sampler_run(struct sampler *sampler, int64_t iteration, struct report *report) {
    IN_PHASE("generating the samples");
    step_settle(sampler->options.step);
    for (int64_t i = 0; i < sampler->count; i++) {
        struct sample_text sample = {.stream = {.tokenizer = sampler->options.tokenizer}};
        // All ranks have the same tokens, so what is wrong with them is wrong on all of them.
        if (generate_text(sampler, i, &sample) < 0) {
            log_warn_once("no sample at this iteration: %s", error_message());
            error_clear();
        } else {
            report_sample(report, &(struct metrics_sample){.wall_seconds = clock_wall_seconds(),
                                                           .iteration = iteration,
                                                           .prompt = prompt_text(sampler, i),
                                                           .text = buffer_string(&sample.text)});
        }
        token_stream_free(&sample.stream);
        buffer_free(&sample.text);
    }
}
