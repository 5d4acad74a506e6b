// The trainer's one door to everything that tells how a run goes: the console line, metrics.jsonl, TensorBoard and,
// on a terminal, a live line. Only the reporting rank opens one; the others pass NULL, which every function accepts.
// After report_open nothing here can fail a run: a sink that breaks is said once and left alone.
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
    bool no_live_line;                     // else a live line on stderr where that is a terminal
    int64_t first_iteration, train_iters;  // where this start begins, where the run ends
};

int report_open(struct report **report, const struct report_options *options);
void report_close(struct report *report);

// Once per start, with the iteration it begins after. config_json: one JSON object (config_to_json) or NULL; it goes
// into metrics.jsonl, and member by member, as text, to TensorBoard.
void report_run(struct report *report, int64_t iteration, const char *config_json);
void report_step(struct report *report, const struct metrics *metrics);
void report_interval(struct report *report, const struct metrics *metrics);
void report_eval(struct report *report, const struct metrics_eval *eval);
// Any other text for the console (checkpoint messages): the live line makes room for it. The text ends in a newline.
void report_print(struct report *report, const char *text);
// Draws the curve of the first loss of this start, as seen by report_step.
void report_plot_loss(struct report *report, FILE *out);

#endif
