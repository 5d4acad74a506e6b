// The ways in which a run ends before its last iteration: a signal, the time limit, a file that appears
// (--kill-switch-path, DIR/exit of --trigger-path), --exit-interval.
#ifndef TRAIN_RUN_END_H
#define TRAIN_RUN_END_H

#include "base/clock.h"
#include "base/error.h"
#include "config/config.h"
#include "parallel/mesh.h"
#include "report/report.h"
#include "step/step.h"

enum ending_kind { GO_ON, END_STOPPED, END_INTERVAL };
// Reasons that are not signals.
enum { ENDING_BY_TIME = -1, ENDING_BY_TRIGGER = 1 << 20, ENDING_BY_KILL_SWITCH };

struct ending {
    const struct config *config;
    const struct mesh *mesh;
    struct report *report;      // NULL except on the reporting rank
    double started;             // when the run did
    struct clock *clock;        // of --save-minutes
    double saved;               // by it, when the run began to train or last saved
    double save_seconds;        // how long the last save took
    bool is_save_due;           // by --save-minutes
    int64_t reason;             // the signal that ended it, or ENDING_BY_…
    bool is_save_asked;         // by a file of --trigger-path
    bool is_save_stuck;         // that file could not be removed
    struct step_source source;  // of the iteration queued last
    char text[96];              // how it ended, for those who watch it; "" if it has done all iterations
};

// Whether a signal, a file or the time limit asks the run to stop: returns the signal or ENDING_BY_…, 0 to continue.
// All ranks must decide alike, so they share their reasons first, and whether a checkpoint is due by --save-minutes,
// which the first rank decides by its clock.
int64_t ending_reason(struct ending *ending);
// Whether DIR/save of --trigger-path asks for a checkpoint, or one is due. Both need --save. All ranks call.
bool ending_wants_save(struct ending *ending);
// Removes that file, once the checkpoint is there.
void ending_save_done(struct ending *ending);
// The minutes until the next checkpoint begin.
void ending_saved(struct ending *ending, double save_seconds);
// Whether the run continues, given such a reason and --exit-interval; says so if it does not.
enum ending_kind ending_find(struct ending *ending, int64_t iteration, int64_t reason);
// The exit code of a stopped run. EXIT_CODE_STOPPED means "run me again", which only makes sense if a checkpoint was
// saved. Otherwise the exit code is the usual one of a process that was ended by a signal.
enum exit_code ending_code(const struct ending *ending);
// The source for a step: of a run that saves nothing, one that ends with a signal, as an error. It is valid until the
// next call.
struct step_source ending_source(struct ending *ending, struct step_source source);
// Sets the answer to Ctrl-C from now on, printed by one rank.
void ending_answer(const struct ending *ending, const char *doing, int64_t iteration);
// Megatron's line about an event and its time.
void ending_print(const struct ending *ending, const char *event);

#endif
