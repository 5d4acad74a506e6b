// Samples of a run. See sampler.h.
#include "train/sampler.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/phase.h"
#include "data/tokenizer/tokenizer.h"
#include "plan/setup.h"
#include "train/generate.h"

#include <stdlib.h>
#include <string.h>

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
