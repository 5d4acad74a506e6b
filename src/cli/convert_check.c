// Runs the input model and the written one on the same few tokens. See convert_check.h.
#include "cli/convert_check.h"

#include "base/error.h"
#include "train/model_probe.h"
#include <inttypes.h>
#include <math.h>

// Both have the same weights and differ at most by the order of summation, unless the target is only approximate.
static const double LARGEST_DIFFERENCE = 1e-5, LARGEST_NEAR = 0.1;

void convert_check_free(struct convert_check *check) {
    buffer_free(&check->skipped);
    convert_verify_free(&check->verify);
}

static int64_t tokens_of(const struct model_write *write) {
    const struct config *config = &write->source->config;
    int64_t rows = write->vocab_size > 0 ? write->vocab_size : config->model.padded_vocab_size;
    return config->data.vocab_size > 0 && config->data.vocab_size < rows ? config->data.vocab_size : rows;
}

// Logits that are not finite say nothing: such a model was broken before.
static int judge(struct convert_check *check, const struct probe *from, const struct probe *to, double largest) {
    check->difference = probe_difference(from, to);
    if (isnan(check->difference) && isnan(probe_difference(from, from))) {
        buffer_append_string(&check->skipped, "the source computes logits that are not finite numbers");
        return 0;
    }
    check->was_run = true;
    check->tokens = from->T + from->S;
    if (check->difference <= largest)
        return 0;
    return error_set("the result computes other logits than the source (relative difference %.2g, expected at most "
                     "%.2g); it was removed",
                     check->difference, largest);
}

int convert_check_compare(void *context, const struct model_pair *pair) {
    struct convert_check *check = context;
    const struct model_write *write = pair->write;
    check->was_compared = true;
    check->is_rounded = pair->tolerance > 0;
    if (!probe_fits(&write->source->config, &check->skipped))
        return 0;
    double expected = write->allows_near ? LARGEST_NEAR : LARGEST_DIFFERENCE;
    struct probe from, to;
    probe_prepare(&from, &write->source->config, tokens_of(write));
    to = from;
    struct probe_rounding rounding = {write->dtype, pair->written->config.model.apply_layernorm_1p};
    int result = probe_run(&from, write->source, write->has_dtype ? &rounding : NULL);
    if (result == 0)
        result = probe_run(&to, pair->written, NULL);
    if (result == 0)
        result = judge(check, &from, &to, pair->tolerance > 0 ? pair->tolerance : expected);
    if (result == 0 && check->verifies && check->was_run)
        result = convert_verify_run(&check->verify, pair->written, &to);
    probe_free(&from);
    probe_free(&to);
    return result;
}

void convert_check_describe(const struct convert_check *check, struct buffer *out) {
    if (!check->was_compared)
        return;
    buffer_printf(out, "read back: flags, shapes and all elements are those of the source%s",
                  check->is_rounded ? " up to rounding" : "");
    if (check->was_run)
        buffer_printf(out, ", and so are the logits of %" PRId64 " tokens (difference %.1g)", check->tokens,
                      check->difference);
    else
        buffer_printf(out, "; the forward pass was skipped: %s", buffer_string(&check->skipped));
    if (check->verify.was_run)
        buffer_printf(out,
                      "\ntransformers %s: no tensor is missing or left over, and the logits match (difference %.1g)",
                      check->verify.version, check->verify.difference);
    if (check->verify.was_run && check->verify.texts > 0)
        buffer_printf(out, "; the token ids of %d texts match", check->verify.texts);
    if (check->verify.was_run && check->verify.said.length > 0)
        buffer_printf(out, "; %s", buffer_string(&check->verify.said));
    if (!check->verify.was_run && check->verifies)
        buffer_printf(out, "\ntransformers: not run, %s",
                      check->verify.absent.length > 0 ? buffer_string(&check->verify.absent)
                                                      : "since the forward pass was skipped");
}
