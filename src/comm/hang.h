// Who is missing where a collective hangs. A rank that has waited for most of the deadline leaves a file in the
// folder of records, flight-RANK.jsonl: its first line says what it waits for and how many collectives of each of its
// groups it has begun, the others are its flight record. It takes the file away where the wait ends after all, so a
// file of this run means a rank that waits now. Who gives up reads its peers' first lines: a peer that has begun
// fewer collectives of the group has not come, and one without a file is lost or busy outside of collectives.
#ifndef COMM_HANG_H
#define COMM_HANG_H

#include "base/buffer.h"
#include "comm/comm.h"

// This rank waits for long: leaves its file. What cannot be written is only said.
void hang_leave(const struct comm_request *request);
// The same from a thread beside the one that the groups belong to: the first line alone, with the request's group only.
void hang_leave_name(const struct comm_request *request);
// The wait has ended after all.
void hang_forget(const struct world *world);
// Who of the group has not come, and what those who have not are doing; waits a little for the others' files.
void hang_describe(const struct comm_request *request, struct buffer *out);
// The wait has outlasted the deadline: ends the job, and says that.
_Noreturn void hang_give_up(const struct comm_request *request);

#endif
