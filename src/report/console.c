// Megatron-LM's log lines. Widths, precisions, spaces and bars are those of its format strings, so a script reads the
// logs of both programs.
#include "report/console.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- fairseq's JSON ----

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

// "loss" and "ppl" of the language model; further losses under their own names.
static void put_losses(struct buffer *out, const struct metrics_loss *losses, int count, const char *prefix) {
    for (int i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", prefix, i == 0 ? "loss" : losses[i].name);
        put(out, name, losses[i].is_share ? losses[i].value : losses[i].value / log(2.0), 3);  // bits
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
    buffer_printf(out, ", \"lr\": \"%g\"", m->learning_rate);
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

// ---- Megatron-LM's lines ----

// C prints the sign of a NaN, Python does not.
static double without_nan_sign(double value) {
    return isnan(value) ? fabs(value) : value;
}

// In addition to Megatron's throughput, and after everything that a Megatron script may search for.
static void append_pace(struct buffer *out, const struct metrics *m) {
    double left = (double)(m->train_iters - m->iteration) * m->elapsed_ms / 1e3;
    int64_t seconds = left > 0 && left < 1e12 ? (int64_t)(left + 0.5) : 0;
    buffer_printf(out, " tokens per second: %.0f |", m->tokens_per_second);
    buffer_printf(out, " time left: %" PRId64 ":%02d:%02d |", seconds / 3600, (int)(seconds / 60 % 60),
                  (int)(seconds % 60));
}

void console_train(struct buffer *out, const struct metrics *m) {
    char time[32];
    clock_format(m->wall_seconds, time, sizeof time);
    buffer_printf(out, " [%s] iteration %8" PRId64 "/%8" PRId64 " |", time, m->iteration, m->train_iters);
    buffer_printf(out, " consumed samples: %12" PRId64 " |", m->consumed_samples);
    if (m->skipped_samples > 0)
        buffer_printf(out, " skipped samples: %12" PRId64 " |", m->skipped_samples);
    buffer_printf(out, " elapsed time per iteration (ms): %.1f |", m->elapsed_ms);
    if (m->has_throughput)
        buffer_printf(out, " throughput per GPU (TFLOP/s/GPU): %.*f |", m->teraflops < 1 ? 4 : 1, m->teraflops);
    buffer_printf(out, " learning rate: %.6E |", m->learning_rate);
    if (m->has_decoupled)
        buffer_printf(out, " decoupled learning rate: %.6E |", m->decoupled_learning_rate);
    buffer_printf(out, " global batch size: %5" PRId64 " |", m->global_batch_size);
    for (int i = 0; i < m->loss_count; i++)
        if (m->losses[i].value >= 0)  // false for NaN, which is also left out
            buffer_printf(out, " %s: %.6E |", m->losses[i].name, m->losses[i].value);
    buffer_printf(out, " loss scale: %.1f |", m->loss_scale);
    if (m->has_grad_norm)
        buffer_printf(out, " grad norm: %.3f |", without_nan_sign(m->grad_norm));
    if (m->has_num_zeros)
        buffer_printf(out, " num zeros: %.1f |", m->num_zeros);
    if (m->has_params_norm)
        buffer_printf(out, " params norm: %.3f |", without_nan_sign(m->params_norm));
    buffer_printf(out, " number of skipped iterations: %3" PRId64 " |", m->skipped_iterations);
    buffer_printf(out, " number of nan iterations: %3" PRId64 " |", m->nan_iterations);
    if (m->has_throughput)
        append_pace(out, m);
    buffer_append_byte(out, '\n');
}

static void append_dashes(struct buffer *out, size_t count) {
    for (size_t i = 0; i < count; i++)
        buffer_append_byte(out, '-');
    buffer_append_byte(out, '\n');
}

void console_eval(struct buffer *out, const struct metrics_eval *eval) {
    OWNED_BY(buffer_free) struct buffer line = {0};
    buffer_printf(&line, " validation loss at iteration %" PRId64, eval->iteration);
    if (eval->is_final || strchr(eval->set, ' '))
        buffer_printf(&line, " on %s set", eval->set);
    buffer_append_string(&line, " | ");
    for (int i = 0; i < eval->loss_count; i++) {
        double value = without_nan_sign(eval->losses[i].value);
        buffer_printf(&line, "%s value: %.6E | ", eval->losses[i].name, value);
        if (!eval->losses[i].is_score)
            buffer_printf(&line, "%s PPL: %.6E | ", eval->losses[i].name, without_nan_sign(metrics_perplexity(value)));
    }
    append_dashes(out, line.length + 1);
    buffer_append(out, line.data, line.length);
    buffer_append_byte(out, '\n');
    append_dashes(out, line.length + 1);
}

void console_sample(struct buffer *out, const struct metrics_sample *sample) {
    const char *const parts[] = {sample->prompt, sample->text};
    buffer_printf(out, " sample at iteration %" PRId64, sample->iteration);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        struct json_writer json = {.out = out};
        buffer_append_string(out, " | ");
        size_t start = out->length;
        json_cstring(&json, parts[i]);
        // U+0080 to U+009F: a terminal may interpret them as commands.
        for (size_t at = start; at + 1 < out->length; at++)
            if ((unsigned char)out->data[at] == 0xC2 && (unsigned char)out->data[at + 1] < 0xA0)
                memcpy(out->data + at, "??", 2);
    }
    buffer_append_byte(out, '\n');
}

void console_saving(struct buffer *out, double wall_seconds, int64_t iteration, const char *folder) {
    char time[32];
    clock_format(wall_seconds, time, sizeof time);
    buffer_printf(out, "[%s] saving checkpoint at iteration %7" PRId64 " to %s in bevatron format\n", time, iteration,
                  folder);
}

void console_saved(struct buffer *out, double wall_seconds, const struct console_checkpoint *checkpoint) {
    char time[32];
    clock_format(wall_seconds, time, sizeof time);
    buffer_printf(out, "  [%s] successfully saved checkpoint from iteration %7" PRId64 " to %s [ t 1/%d, p 1/%d ]\n",
                  time, checkpoint->iteration, checkpoint->folder, checkpoint->tensor_ranks,
                  checkpoint->pipeline_ranks);
}

void console_datetime(struct buffer *out, const char *event, double wall_seconds) {
    char time[32];
    clock_format(wall_seconds, time, sizeof time);
    buffer_printf(out, "[%s] datetime: %s \n", event, time);
}
