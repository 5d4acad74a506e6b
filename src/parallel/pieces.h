// The elements of a group of parameters (param.h) that a rank's optimizer holds when the optimizer is split among the
// ranks that hold the same parameters (ZeRO-1). It is a single formula.
//
// The group's range of the flat buffers is cut into buckets of equal length, except that the last may be shorter.
// Gradients are reduced and values gathered one bucket at a time. Every bucket is cut into `parts` pieces of equal
// length, and part r holds the r-th piece of every bucket, whatever parameters lie there. Its own buffers (moments,
// master weights) hold its pieces in order, total / parts elements. With a single part, the pieces are the buckets, and
// the part's own buffer has the layout of the group's range.
#ifndef PARALLEL_PIECES_H
#define PARALLEL_PIECES_H

#include "parallel/param.h"

struct pieces {
    int64_t first;    // start of the group in the flat buffers
    int64_t total;    // elements of the group; a multiple of parts * PARAM_ALIGNMENT
    int64_t bucket;   // elements of every bucket but the last; a multiple of the same
    int parts, part;  // this is part `part`; change it to ask about another rank's
};

// A run of elements that is contiguous both in the flat buffer and in the part's own.
struct piece {
    int64_t flat_offset;   // in the flat buffer
    int64_t local_offset;  // in the buffers of the part that holds it
    int64_t count;
};

// The total must be a multiple of this to be split among this many parts.
int64_t pieces_multiple(int parts);
// Buckets of about `bucket` elements of a group that begins at 0. A total that cannot be divided is a broken invariant.
struct pieces pieces_make(int64_t total, int64_t bucket, int parts, int part);

// How a group is split.
struct division {
    int parts, part;
    int64_t bucket;
    bool keeps_whole;  // every parameter lies in a single piece
};
// Lays the list out so that its groups can be split, and sets the pieces of each. To keep parameters whole, pieces are
// at least as long as the group's longest parameter, longer if that leaves fewer gaps, and padded by gaps.
void pieces_divide(struct param_list *list, const struct division *divisions, struct pieces *pieces);

int64_t pieces_local_count(const struct pieces *pieces);  // elements of a part's own buffers
int64_t pieces_bucket_count(const struct pieces *pieces);
// Bucket number i: where it begins in the flat buffer, and its length.
struct piece pieces_bucket(const struct pieces *pieces, int64_t i);
// The part's piece of bucket number i.
struct piece pieces_own(const struct pieces *pieces, int64_t i);

// Iterates over the part's runs in the flat range from *at to end, both in the group, in increasing order of both
// offsets: sets *run to the next one and *at to its end; returns false after the last. A parameter's range is its
// offset and shard_local_count.
//     for (int64_t at = first; pieces_next(pieces, &at, end, &run);)
bool pieces_next(const struct pieces *pieces, int64_t *at, int64_t end, struct piece *run);

#endif
