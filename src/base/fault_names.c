// Names of kinds of faults and phases, and which of them fit together. See fault.h.
#include "base/fault.h"

#include <stddef.h>

static const struct {
    const char *name, *help;
} kinds[FAULT_KINDS] = {
    [FAULT_KILL] = {"kill", "SIGKILL: the rank dies without a message, as on a lost machine"},
    [FAULT_SEGV] = {"segv", "SIGSEGV: the rank crashes"},
    [FAULT_ABORT] = {"abort", "SIGABRT: a library gives up"},
    [FAULT_TERM] = {"term", "SIGTERM: the run saves and stops"},
    [FAULT_USR1] = {"usr1", "SIGUSR1: the scheduler's warning; the run saves and stops"},
    [FAULT_STOP] = {"stop", "SIGSTOP: the rank is suspended with all its threads"},
    [FAULT_HANG] = {"hang", "the rank waits forever; its other threads keep running"},
    [FAULT_SLOW] = {"slow", "the rank sleeps for `seconds` (default 0.1)"},
    [FAULT_NAN] = {"nan", "a gradient (phase gradients, the default), a weight (weights) or the rank's copy of the "
                          "loss (results) becomes NaN"},
    [FAULT_FLIP] = {"flip", "a bit of a weight (phase weights, the default) or of a gradient (phase gradients) flips"},
    [FAULT_ENOSPC] = {"enospc", "a write (or rename) of a checkpoint fails: no space left on device"},
    [FAULT_EIO] = {"eio", "a write (or fsync, rename) of a checkpoint fails: input/output error"},
    [FAULT_STUCK_FSYNC] = {"stuck-fsync", "an fsync of a checkpoint takes `seconds` (default: forever)"},
    [FAULT_RESET] = {"reset", "all TCP connections of the rank are reset"},
    [FAULT_CLOCK] = {"clock", "the wall clock of the rank jumps by `seconds` (default 3600; may be negative)"},
};

static const struct {
    const char *name, *help;
} phases[FAULT_PHASES] = {
    [FAULT_AT_RENDEZVOUS] = {"rendezvous", "before the rank connects to the others"},
    [FAULT_AT_LOAD] = {"load", "before the rank reads a checkpoint"},
    [FAULT_AT_STEP] = {"step", "before an iteration (the default of most kinds)"},
    [FAULT_AT_DATA] = {"data", "while it waits for a micro-batch"},
    [FAULT_AT_FORWARD] = {"forward", "before a forward pass"},
    [FAULT_AT_BACKWARD] = {"backward", "before a backward pass"},
    [FAULT_AT_GRADIENTS] = {"gradients", "after the last backward pass, before gradients are reduced"},
    [FAULT_AT_ALL_REDUCE] = {"allreduce", "at the start of an all-reduce"},
    [FAULT_AT_ALL_GATHER] = {"allgather", "at the start of an all-gather"},
    [FAULT_AT_REDUCE_SCATTER] = {"reducescatter", "at the start of a reduce-scatter"},
    [FAULT_AT_ALL_TO_ALL] = {"alltoall", "at the start of an all-to-all"},
    [FAULT_AT_BROADCAST] = {"broadcast", "at the start of a broadcast"},
    [FAULT_AT_SEND] = {"send", "before activations or gradients are sent to another stage"},
    [FAULT_AT_RECEIVE] = {"receive", "before activations or gradients are received from another stage"},
    [FAULT_AT_AGREE] = {"agree", "when ranks agree on a decision, e.g. whether to stop"},
    [FAULT_AT_OPTIMIZER] = {"optimizer", "before an update of the weights"},
    [FAULT_AT_WEIGHTS] = {"weights", "after the update"},
    [FAULT_AT_RESULTS] = {"results", "after the update, when the rank knows the loss"},
    [FAULT_AT_EVALUATE] = {"evaluate", "before each batch of an evaluation"},
    [FAULT_AT_MEMORY] = {"memory",
                         "in a checkpoint in memory: before its copy (call=1), within (call=2), after (call=3)"},
    [FAULT_AT_SAVE] = {"save", "before a checkpoint is written"},
    [FAULT_AT_WRITE] = {"write", "before each write to a file of a checkpoint"},
    [FAULT_AT_FSYNC] = {"fsync", "before each fsync of a file or folder of a checkpoint"},
    [FAULT_AT_RENAME] = {"rename", "before each rename of a file or folder of a checkpoint"},
};

const char *fault_kind_name(enum fault_kind kind) {
    return kinds[kind].name;
}

const char *fault_kind_help(enum fault_kind kind) {
    return kinds[kind].help;
}

const char *fault_phase_name(enum fault_phase phase) {
    return phases[phase].name;
}

const char *fault_phase_help(enum fault_phase phase) {
    return phases[phase].help;
}

bool fault_fits(enum fault_kind kind, enum fault_phase phase) {
    switch (kind) {
    case FAULT_NAN:
        return phase == FAULT_AT_GRADIENTS || phase == FAULT_AT_WEIGHTS || phase == FAULT_AT_RESULTS;
    case FAULT_FLIP:
        return phase == FAULT_AT_GRADIENTS || phase == FAULT_AT_WEIGHTS;
    case FAULT_ENOSPC:
        return phase == FAULT_AT_WRITE || phase == FAULT_AT_RENAME;
    case FAULT_EIO:
        return phase == FAULT_AT_WRITE || phase == FAULT_AT_FSYNC || phase == FAULT_AT_RENAME;
    case FAULT_STUCK_FSYNC:
        return phase == FAULT_AT_FSYNC;
    default:
        return true;
    }
}
