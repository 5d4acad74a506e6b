// Notices waits that do not end, and finds out who is missing. A rank that has waited for most of the deadline leaves a
// file in the folder of records, flight-RANK.jsonl. Its first line says what the rank waits for and how many
// collectives of each of its groups it has begun; the other lines are its flight record. The file is removed if the
// wait ends after all, so a file of this run means a rank that is waiting now. A rank that gives up reads the first
// lines of its peers: a peer that has begun fewer collectives of the group has not arrived, and one without a file is
// lost, or busy outside of collectives.
#ifndef COMM_HANG_H
#define COMM_HANG_H

#include "base/buffer.h"
#include "comm/comm.h"

// The stopwatch of a wait for a collective (comm_wait), for one that the device waits for (struct watch), or for ranks
// that work with files (struct pulse).
struct stopwatch {
    const char *files;  // the ranks' work with files; NULL: the wait is for a collective
    double waited;      // seconds so far
    double looked;      // when it was last looked at; 0: not yet
    bool has_left;      // this rank has left its file
};
// Looks at the clock: leaves this rank's file after most of the deadline, so that all waiting ranks have left theirs
// before the first one gives up and reads them. Ends the job after the whole deadline. Of the time between two looks,
// at most a second and a tenth of the deadline count: time in which the job or its machine was suspended does not count
// as waiting. Call with the watch's lock; if there are `files`, from any thread that owns the request's group.
void stopwatch_look(struct stopwatch *stopwatch, const struct comm_request *request);
// Ends the wait; the next one begins with the next look.
void stopwatch_reset(struct stopwatch *stopwatch, const struct world *world);
// Sets the folder of the files; see record_folder in comm.h.
void hang_choose_folder(struct world *world, const struct world_options *options);
// Frees its name; removes a folder of this run that is empty.
void hang_drop_folder(struct world *world);
// Seconds that the rank at this place of a group waits before it reads the others' files. The first one to read them
// ends the job, so the file system does not have to serve all of them at once.
double hang_turn(int place, int world_size);
// How long it then waits for missing files. Waiting ranks leave theirs at three quarters of the deadline; only a short
// deadline may pass before all have.
double hang_patience(double deadline_seconds);
// Describes the ranks of the group that have not arrived, and their current work; waits for its turn, and a little for
// the others' files.
void hang_describe(const struct comm_request *request, struct buffer *out);

#endif
