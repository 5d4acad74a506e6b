// State of a supervisor that does not live as long as the run, kept between attempts in a small file: see restarts.h
// for its decisions. Next to the file, STATE.lifeline is where the run reports progress (lifeline.h).
#ifndef CLI_RESTARTS_FILE_H
#define CLI_RESTARTS_FILE_H

#include "base/buffer.h"
#include "cli/restarts.h"

struct restarts_file {
    const char *path;
    const char *job;       // job of these attempts: another job starts the file over; at most 63 bytes
    const char *save;      // folder of the run's checkpoints; NULL for none
    const char *fallback;  // of --save-fallback; NULL for none
    const char *journal;   // a file that records progress, for commands without checkpoints; NULL for none
    bool keeps_memory;     // the run resumes from memory, which is lost with the allocation
    int64_t most;          // restarts within the window
    double window_seconds;
};

// Records the start of an attempt. If the previous one has no end, e.g. because its machine died, that is decided
// first, and anything but RESTARTS_AGAIN means that the run is given up. -1 if the file cannot be written.
int restarts_file_begin(const struct restarts_file *file, enum restarts_decision *decision);

struct restarts_end {
    enum restarts_decision decision;
    int exit_code;         // of the job if it ends here
    bool is_nothing_lost;  // the attempt has not completed an iteration, or memory has what it computed: it may be
                           // repeated on the same machines
    double delay;          // before the repetition
};
// Decides on an attempt that ended with this code.
int restarts_file_end(const struct restarts_file *file, int exit_code, struct restarts_end *end);

// The contents of the file, as text and back. -1 if the text is not a state.
struct restarts_state {
    struct restarts restarts;
    char job[64];
    bool is_running;    // an attempt has begun and not ended
    char progress[80];  // progress of the run when it began: an iteration, or a hash of the journal
};
void restarts_state_write(const struct restarts_state *state, struct buffer *out);
int restarts_state_read(struct restarts_state *state, const char *text, size_t length, const char *name);

#endif
