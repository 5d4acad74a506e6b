// The trainer's single entry to all reports of a run: the console line, metrics.jsonl, TensorBoard, Prometheus, wandb,
// the command of --on-event and, on a terminal, a live view. Only the reporting rank opens one; the others pass NULL,
// which every function accepts. Nothing here can make a run fail: an output that cannot be opened, or breaks, is
// reported once, and the run continues without it. Functions may be called from any thread.
//
//     report_open(&report, &options);
//     report_run(report, iteration, config_json);
//     each iteration:            report_step(report, &metrics);      // live view, TensorBoard at its interval
//     each log interval:         report_interval(report, &metrics);  // console line, metrics.jsonl
//     after each evaluation:     report_eval(report, &eval);
//     when something happens:    report_event(report, &event);       // a checkpoint, the end of the run
//     report_close(report);
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include "base/buffer.h"
#include "base/error.h"
#include "report/metrics.h"
#include "report/on_event.h"
#include "report/prometheus.h"
#include "report/tensorboard.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

struct report;

struct report_options {
    FILE *console;                   // stdout; NULL for no lines
    const char *metrics_path;        // NULL for none
    const char *tensorboard_folder;  // NULL for none
    int64_t tensorboard_interval;    // at least 1
    struct metrics_choice tensorboard;
    bool is_fairseq;                       // console lines as fairseq's JSON instead of Megatron's
    bool no_live_view;                     // otherwise there is a live view if stderr is a terminal
    double peak_teraflops, device_bytes;   // of a device: peak, and memory in use for the live view; 0 if unknown
    int64_t first_iteration, train_iters;  // first iteration of this start, and last one of the run
    const char *job, *job_log;  // of the scheduler, for metrics.jsonl; NULL for none; they outlive the report
    int64_t ranks;
    double tokens_per_sample, flops_per_token;  // 0 if unknown
    double planned_seconds;                     // of a step; 0 without a plan
    struct on_event *on_event;                  // NULL for none; outlives the report
    struct wandb_options wandb;                 // none without a project; its choice is that of TensorBoard
    struct prometheus_options prometheus;       // without the fields that this struct has already
};

// -1 only if an output would replace a file of another kind.
int report_open(struct report **report, const struct report_options *options);
void report_close(struct report *report);

// Once per start, with the iteration after which it begins. config_json is one JSON object (config_to_json) or NULL. It
// is written to metrics.jsonl and, member by member, as text to TensorBoard.
void report_run(struct report *report, int64_t iteration, const char *config_json);
void report_step(struct report *report, const struct metrics *metrics);
void report_interval(struct report *report, const struct metrics *metrics);
// Iterations after the last interval, at the end of the run: only in metrics.jsonl, as Megatron prints no such line.
void report_rest(struct report *report, const struct metrics *metrics);
void report_eval(struct report *report, const struct metrics_eval *eval);
// The duration of a phase of a step: to TensorBoard, with tensorboard.timers above.
void report_timer(struct report *report, const char *name, double seconds, int64_t iteration);
// An event: a line in metrics.jsonl, its state in Prometheus and wandb, and the command of --on-event. The second is
// for an event whose line and command another process has already handled.
void report_event(struct report *report, const struct metrics_event *event);
void report_known_event(struct report *report, const struct metrics_event *event);
// A line of another kind for metrics.jsonl, see metrics_line_begin; frees it.
void report_line(struct report *report, struct buffer *line);
void report_sample(struct report *report, const struct metrics_sample *sample);
// Any other text for the console (checkpoint messages), ending in a newline. The live view makes room for it.
void report_print(struct report *report, const char *text);
// Prints a line of Megatron-LM's that repeats an event: it is left out where the event has a short line.
void report_print_long(struct report *report, const char *text);
// Draws the first loss over this start's iterations, as seen by report_step.
void report_plot_loss(struct report *report, FILE *out);

// ---- the end of a failed run ----

// Reports the failure of a run to its watchers: an event "failed" in metrics.jsonl, and the command of --on-event. The
// reporting rank uses its report. Any other rank adds the line to the file itself, if it can reach it, because its own
// error is often the cause and the reporting rank only sees that a rank is lost. The first line wins. A die() on any
// thread is reported too, and a fault (SIGSEGV, SIGBUS, abort) at least in the file. For a process killed by SIGKILL,
// its supervisor reports it (launch local).

struct farewell {
    struct report *report;      // of the reporting rank, NULL before it is open and on other ranks
    struct on_event *on_event;  // NULL for none
    const char *metrics_path;   // NULL for none
    int rank, ranks;
    atomic_int_fast64_t iteration;  // the last completed one
    double started;                 // set by farewell_open
    struct clock *clock;            // for the turns, see base/clock.h
    atomic_flag is_said;
};

// Makes die() and faults report. The struct must stay in place until farewell_close.
void farewell_open(struct farewell *farewell);
void farewell_close(struct farewell *farewell);

// Reports the end of the run with this error, which is the thread's: "stopped" if its code says so, else "failed",
// after "hang" or "nan" if that was the cause. Only the first call of a process has an effect.
void farewell_say(struct farewell *farewell, enum exit_code code, const char *text);

#endif
