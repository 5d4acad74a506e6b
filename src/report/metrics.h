// What is known after a training iteration, after an interval of iterations, and after an evaluation. The trainer fills
// these in, and the rest of this folder turns them into a console line, a line of JSON, TensorBoard events and a plot.
// The has_ members say which optional parts are present.
#ifndef REPORT_METRICS_H
#define REPORT_METRICS_H

#include <stdbool.h>
#include <stdint.h>

enum { METRICS_MAX_LOSSES = 18 };

struct metrics_loss {
    const char *name;  // "lm loss"; borrowed
    double value;      // mean over the iterations since the last line that were not skipped
    bool is_share;     // it is not a loss but a share in percent: "top1_acc"
};

// How evenly a layer uses its experts.
struct metrics_expert_layer {
    int64_t layer;   // its number, from 0 on; multi-token prediction continues behind the last layer
    double balance;  // the most tokens that one expert got, relative to the mean; 1 is perfect
    int64_t idle;    // experts without tokens
};

struct metrics {
    double wall_seconds;  // since the epoch, when the line is made
    int64_t iteration, train_iters;
    int64_t consumed_samples;
    int64_t skipped_samples;           // shown if above 0
    double elapsed_ms;                 // per iteration, without evaluation and saving
    double tokens_per_second;          // of the whole run; 0 if unknown
    double planned_tokens_per_second;  // what the planner expects of this batch; 0 if unknown
    double teraflops;                  // per device; with has_throughput
    double learning_rate;              // of the next update, as Megatron logs it
    double decoupled_learning_rate;    // of the input embedding and the output layer; with has_decoupled
    int64_t global_batch_size;
    struct metrics_loss losses[METRICS_MAX_LOSSES];
    int loss_count;
    double loss_scale;  // 1 if there is none
    double grad_norm;   // before clipping
    double num_zeros;
    double params_norm;
    int64_t skipped_iterations, nan_iterations;  // since the last line
    int64_t memory_bytes;                        // of the rank that uses most; 0 if unknown
    // Of the reporting rank, since the last line; with has_system.
    double processors, data_wait_ms;  // processors in use; waiting for micro-batches, per iteration
    int64_t host_memory_bytes;        // its resident set; 0 where memory_bytes is that
    // Of models with experts; 0 layers without. They are borrowed, and NULL in a copy that outlives the call.
    const struct metrics_expert_layer *expert_layers;
    int expert_layer_count;
    double expert_balance;  // mean over these layers
    int64_t idle_experts;   // of all of them
    bool is_skipped;        // this iteration made no update
    bool has_throughput, has_decoupled, has_grad_norm, has_num_zeros, has_params_norm, has_system;
};

struct metrics_eval {
    double wall_seconds;
    int64_t iteration, consumed_samples;
    const char *set;    // "validation" or "test"; of several sets, with a space and the name behind
    bool is_final;      // after training: the line says "on validation set", as for sets with names
    double elapsed_ms;  // of the whole evaluation; 0 if unknown
    struct metrics_loss losses[METRICS_MAX_LOSSES];
    int loss_count;
};

// Something that happened to a run, at one iteration. Its name is one of "started", "saved", "unsaved" (a save failed),
// "skipped", "nan", "spike", "rewind" (the run continues from an earlier iteration), "replay", "hang", and the three
// that end a start: "finished" (all iterations are done), "stopped" (by a signal, a limit of time or --exit-interval)
// and "failed".
struct metrics_event {
    const char *name;
    int64_t iteration;
    const char *text;  // one sentence
    int exit_code;     // of the process; counts if the event ends it
};
bool metrics_event_is_end(const char *name);

// A text that the model has generated after an iteration.
struct metrics_sample {
    double wall_seconds;
    int64_t iteration;
    const char *prompt, *text;  // the text follows the prompt, and does not repeat it
};

// exp(min(20, value)), as Megatron defines it.
double metrics_perplexity(double loss);

#endif
