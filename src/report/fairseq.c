// Log lines in fairseq's JSON. See fairseq.h.
#include "report/fairseq.h"

#include "base/clock.h"
#include "base/json.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void begin(struct buffer *out, double wall_seconds, const char *logger) {
    char time[32];
    clock_format(wall_seconds, time, sizeof time);
    time[strcspn(time, ".")] = 0;
    buffer_printf(out, "%s | INFO | %s | {", time, logger);
}

// A number rounded to `digits` decimals, then written as %g.
static void put(struct buffer *out, const char *name, double value, int digits) {
    double unit = pow(10, digits);
    if (isfinite(value))
        value = nearbyint(value * unit) / unit;
    bool is_first = out->data[out->length - 1] == '{';
    buffer_printf(out, "%s\"%s\": \"%g\"", is_first ? "" : ", ", name, value);
}

static void put_exact(struct buffer *out, const char *name, double value) {
    bool is_first = out->data[out->length - 1] == '{';
    buffer_printf(out, "%s\"%s\": \"%g\"", is_first ? "" : ", ", name, value);
}

static double bits(double nats) {
    return nats / log(2.0);
}

// "loss" and "ppl" of the language model; further losses under their own names.
static void put_losses(struct buffer *out, const struct metrics_loss *losses, int count, const char *prefix) {
    for (int i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", prefix, i == 0 ? "loss" : losses[i].name);
        put(out, name, losses[i].is_share ? losses[i].value : bits(losses[i].value), 3);
        snprintf(name, sizeof name, "%sppl", prefix);
        if (i == 0)
            put(out, name, exp(losses[i].value), 2);
    }
}

void fairseq_train(struct buffer *out, const struct metrics *m, const struct fairseq_clock *clock) {
    double seconds = m->elapsed_ms / 1e3;
    begin(out, m->wall_seconds, "train_inner");
    put_losses(out, m->losses, m->loss_count, "");
    put(out, "wps", m->tokens_per_second, 1);
    put(out, "ups", seconds > 0 ? 1 / seconds : 0, 2);
    put(out, "wpb", m->tokens_per_second * seconds, 1);
    put(out, "bsz", (double)m->global_batch_size, 1);
    buffer_printf(out, ", \"num_updates\": \"%" PRId64 "\"", m->iteration);
    put_exact(out, "lr", m->learning_rate);
    if (m->has_grad_norm)
        put(out, "gnorm", m->grad_norm, 3);
    if (m->loss_scale != 1)
        put(out, "loss_scale", m->loss_scale, 4);
    put(out, "train_wall", clock->train_wall, 0);
    put(out, "wall", clock->wall, 0);
    buffer_append_string(out, "}\n");
}

void fairseq_eval(struct buffer *out, const struct metrics_eval *eval) {
    bool is_test = strncmp(eval->set, "test", 4) == 0;
    const char *name = strchr(eval->set, ' ');
    begin(out, eval->wall_seconds, name ? name + 1 : is_test ? "test" : "valid");
    put_losses(out, eval->losses, eval->loss_count, is_test ? "test_" : "valid_");
    buffer_printf(out, ", \"%snum_updates\": \"%" PRId64 "\"}\n", is_test ? "test_" : "valid_", eval->iteration);
}
