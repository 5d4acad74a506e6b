// Finds out who is missing when a collective hangs. A rank that has waited for most of the deadline leaves a file in
// the folder of records, flight-RANK.jsonl. Its first line says what the rank waits for and how many collectives of
// each of its groups it has begun; the other lines are its flight record. The file is removed if the wait ends after
// all, so a file of this run means a rank that is waiting now. A rank that gives up reads the first lines of its peers:
// a peer that has begun fewer collectives of the group has not arrived, and one without a file is lost, or busy outside
// of collectives.
#ifndef COMM_HANG_H
#define COMM_HANG_H

#include "base/buffer.h"
#include "comm/comm.h"

// How much of the time between two looks at the clock counts as waiting: at most a second, and a tenth of the deadline.
// A job that was suspended, or a machine that stood still, has not been waiting meanwhile.
double hang_passed(const struct world *world, double seconds);
// This rank has waited for long: leaves its file. If that cannot be written, it only says so.
void hang_leave(const struct comm_request *request);
// The same from a thread other than the one that owns the groups: only the first line, and only the request's group.
void hang_leave_name(const struct comm_request *request);
// The wait has ended after all.
void hang_forget(const struct world *world);
// Says which ranks of the group have not arrived, and what they are doing; waits a little for the others' files.
void hang_describe(const struct comm_request *request, struct buffer *out);
// The wait has outlasted the deadline: says so and ends the job.
_Noreturn void hang_give_up(const struct comm_request *request);

#endif
