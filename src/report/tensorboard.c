// The event file and Megatron's tags. Records gather in memory and are written at each flush, whole records only, so
// the file of a killed run ends between two records or in one torn record, which TensorBoard skips.
#include "report/tensorboard.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/process.h"
#include "report/appender.h"
#include "report/event.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FLUSH_BYTES = 1 << 16 };

struct tensorboard {
    struct appender file;
    struct buffer pending;
};

static char *event_path(const char *folder) {
    char host[256];
    process_host(host, sizeof host);
    char *name =
        memory_printf("events.out.tfevents.%" PRId64 ".%s.%ld.0", (int64_t)clock_wall_seconds(), host, (long)getpid());
    char *path = file_join(folder, name);
    free(name);
    return path;
}

int tensorboard_open(struct tensorboard **board, const char *folder) {
    *board = NULL;
    TRY(file_make_folders(folder));
    char *path = event_path(folder);
    struct appender file;
    int status = appender_open(&file, path, "TensorBoard events", APPENDER_APPEND);
    free(path);
    TRY(status);
    *board = memory_alloc(sizeof **board);
    (*board)->file = file;
    event_version(&(*board)->pending, clock_wall_seconds());
    tensorboard_flush(*board);
    return 0;
}

void tensorboard_flush(struct tensorboard *board) {
    if (board->pending.length > 0)
        (void)appender_write(&board->file, board->pending.data, board->pending.length);
    buffer_clear(&board->pending);
}

void tensorboard_close(struct tensorboard *board) {
    if (!board)
        return;
    tensorboard_flush(board);
    appender_close(&board->file);
    buffer_free(&board->pending);
    free(board);
}

static void flush_if_large(struct tensorboard *board) {
    if (board->pending.length >= FLUSH_BYTES)
        tensorboard_flush(board);
}

static void write_scalar(struct tensorboard *board, const char *tag, double value, int64_t step) {
    event_scalar(&board->pending, (struct event_place){clock_wall_seconds(), step}, tag, value);
    flush_if_large(board);
}

void tensorboard_text(struct tensorboard *board, const char *tag, const char *text, int64_t step) {
    // The name format of PyTorch's writer, which existing boards and scripts look for.
    char *full = memory_printf("%s/text_summary", tag);
    event_text(&board->pending, (struct event_place){clock_wall_seconds(), step}, full, text);
    free(full);
    flush_if_large(board);
}

// Shared by both curves of a value: the x of the one over iterations and of the one over samples.
struct axes {
    int64_t iteration, samples;
};

static void both(struct tensorboard *board, const char *tag, double value, struct axes axes) {
    char *versus = memory_printf("%s vs samples", tag);
    write_scalar(board, tag, value, axes.iteration);
    write_scalar(board, versus, value, axes.samples);
    free(versus);
}

void tensorboard_train(struct tensorboard *board, const struct metrics *m, const struct tensorboard_choice *choice) {
    struct axes axes = {m->iteration, m->consumed_samples};
    both(board, "learning-rate", m->learning_rate, axes);
    if (m->has_decoupled)
        write_scalar(board, "decoupled-learning-rate", m->decoupled_learning_rate, m->iteration);
    both(board, "batch-size", (double)m->global_batch_size, axes);
    for (int i = 0; i < m->loss_count; i++)
        both(board, m->losses[i].name, m->losses[i].value, axes);
    if (m->skipped_samples > 0)
        write_scalar(board, "skipped-train-samples", (double)m->skipped_samples, m->iteration);
    if (!choice->no_loss_scale)
        both(board, "loss-scale", m->loss_scale, axes);
    if (choice->world_size > 0)
        both(board, "world-size", (double)choice->world_size, axes);
    if (m->has_grad_norm)
        both(board, "grad-norm", m->grad_norm, axes);
    if (m->has_num_zeros)
        both(board, "num-zeros", m->num_zeros, axes);
    if (m->has_params_norm)
        both(board, "params-norm", m->params_norm, axes);
    if (m->expert_layer_count > 0) {
        both(board, "expert-balance", m->expert_balance, axes);
        both(board, "idle-experts", (double)m->idle_experts, axes);
    }
}

void tensorboard_experts(struct tensorboard *board, const struct metrics *m) {
    for (int i = 0; i < m->expert_layer_count; i++) {
        const struct metrics_expert_layer *layer = &m->expert_layers[i];
        char *tag = memory_printf("expert-balance/layer-%" PRId64, layer->layer);
        write_scalar(board, tag, layer->balance, m->iteration);
        free(tag);
    }
}

void tensorboard_timers(struct tensorboard *board, const struct metrics *m) {
    struct axes axes = {m->iteration, m->consumed_samples};
    both(board, "iteration-time", m->elapsed_ms / 1000, axes);
    if (m->planned_tokens_per_second > 0)
        write_scalar(board, "planned-iteration-time",
                     m->elapsed_ms / 1000 * m->tokens_per_second / m->planned_tokens_per_second, m->iteration);
    if (m->has_throughput)
        write_scalar(board, "throughput", m->teraflops, m->iteration);
}

void tensorboard_timer(struct tensorboard *board, const char *name, double seconds, int64_t iteration) {
    char *tag = memory_printf("%s-time", name);
    write_scalar(board, tag, seconds, iteration);
    free(tag);
}

void tensorboard_eval(struct tensorboard *board, const struct metrics_eval *eval,
                      const struct tensorboard_choice *choice) {
    struct axes axes = {eval->iteration, eval->consumed_samples};
    for (int i = 0; i < eval->loss_count; i++) {
        const struct metrics_loss *loss = &eval->losses[i];
        char *tag = memory_printf("%s %s", loss->name, eval->set);
        char *ppl = memory_printf("%s ppl", tag);
        both(board, tag, loss->value, axes);
        if (choice->validation_ppl)
            both(board, ppl, metrics_perplexity(loss->value), axes);
        free(tag);
        free(ppl);
    }
}
