// Which elements of the flat buffers (see param.h) a rank's optimizer holds, where the optimizer is divided among the
// ranks that hold the same parameters (ZeRO-1). It is one formula.
//
// The flat buffer is cut into buckets of the same length, but for the last, which is shorter; gradients are reduced and
// values gathered one bucket at a time. Every bucket is cut into `parts` pieces of the same length, and part r has the
// r-th piece of every bucket, whatever parameters lie there. Its own buffers (moments, master weights) hold its
// pieces one after the other, total / parts elements. With one part the pieces are the buckets, and a part's own buffer
// is laid out as the flat one.
#ifndef PARALLEL_PIECES_H
#define PARALLEL_PIECES_H

#include <stdbool.h>
#include <stdint.h>

struct pieces {
    int64_t total;    // elements of the flat buffer, a multiple of parts * PARAM_ALIGNMENT
    int64_t bucket;   // elements of every bucket but the last, a multiple of the same
    int parts, part;  // this is part `part`; set it to ask about another rank's
};

// A stretch of elements that is contiguous in the flat buffer and in the part's own.
struct piece {
    int64_t flat_offset;   // in the flat buffer
    int64_t local_offset;  // in the buffers of the part that holds it
    int64_t count;
};

// What the total must be a multiple of, so that it divides among so many parts.
int64_t pieces_multiple(int parts);
// Buckets of about `bucket` elements. A total that does not divide is a broken invariant.
struct pieces pieces_make(int64_t total, int64_t bucket, int parts, int part);

int64_t pieces_local_count(const struct pieces *pieces);  // elements of a part's own buffers
int64_t pieces_bucket_count(const struct pieces *pieces);
// Bucket number i: where it begins in the flat buffer, and its length.
struct piece pieces_bucket(const struct pieces *pieces, int64_t i);
// The part's piece of bucket number i.
struct piece pieces_own(const struct pieces *pieces, int64_t i);

// The part's runs of the flat range from *at to end, in increasing order of both offsets: gives the next one and moves
// *at behind it; false where there is none left. A parameter's range is its offset and shard_local_count.
//     for (int64_t at = first; pieces_next(pieces, &at, end, &run);)
bool pieces_next(const struct pieces *pieces, int64_t *at, int64_t end, struct piece *run);

#endif
