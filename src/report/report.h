// The trainer's single entry to everything that reports how a run is going: the console line, metrics.jsonl,
// TensorBoard and, on a terminal, a live line. Only the reporting rank opens one; the others pass NULL, which every
// function accepts. After report_open, nothing here can make a run fail: an output that breaks is reported once and
// then left alone.
//
//     report_open(&report, &options);
//     report_run(report, iteration, config_json);
//     each iteration:            report_step(report, &metrics);      // live line, TensorBoard at its interval
//     each log interval:         report_interval(report, &metrics);  // console line, metrics.jsonl
//     after each evaluation:     report_eval(report, &eval);
//     report_close(report);
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include "report/metrics.h"
#include "report/tensorboard.h"
#include <stddef.h>
#include <stdio.h>

struct report;

struct report_options {
    FILE *console;                   // stdout; NULL for no lines
    const char *metrics_path;        // NULL for none
    const char *tensorboard_folder;  // NULL for none
    int64_t tensorboard_interval;    // at least 1
    struct tensorboard_choice tensorboard;
    bool is_fairseq;                       // console lines as fairseq's JSON instead of Megatron's
    bool no_live_line;                     // otherwise there is a live line if stderr is a terminal
    int64_t first_iteration, train_iters;  // where this start begins, and where the run ends
};

int report_open(struct report **report, const struct report_options *options);
void report_close(struct report *report);

// Once per start, with the iteration after which it begins. config_json is one JSON object (config_to_json) or NULL. It
// is written to metrics.jsonl and, member by member, as text to TensorBoard.
void report_run(struct report *report, int64_t iteration, const char *config_json);
void report_step(struct report *report, const struct metrics *metrics);
void report_interval(struct report *report, const struct metrics *metrics);
void report_eval(struct report *report, const struct metrics_eval *eval);
// Any other text for the console (checkpoint messages), ending in a newline. The live line makes room for it.
void report_print(struct report *report, const char *text);
// Draws the first loss over this start's iterations, as seen by report_step.
void report_plot_loss(struct report *report, FILE *out);

#endif
