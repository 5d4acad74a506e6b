// Sampling from a model. See generate.h.
#include "train/generate.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/rng.h"

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
