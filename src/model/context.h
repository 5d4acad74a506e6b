// Attention over sequences that several ranks share (context parallelism). Each rank has the queries, keys and values
// of its own chunks; keys and values of all are gathered and put in the order of the sequence, and each chunk of
// queries attends to what it may see of them. Gradients of keys and values are summed and go back to their owners.
// Gathered keys are not kept: the backward pass gathers them again, so that a rank keeps its share alone.
//
// Where a rank has its sequences for itself there is one chunk, and nothing is gathered.
#ifndef MODEL_CONTEXT_H
#define MODEL_CONTEXT_H

#include "model/layer.h"

// The queries of one chunk: rows [first_row, first_row + B T) of a pass, T of each sequence. `end` is how many tokens
// of the sequence there are up to its last query, those in a cache included.
struct chunk {
    int64_t first_row, B, T, end;
};
struct chunk pass_chunk(const struct pass *pass, int which);
int pass_chunks(const struct pass *pass);
// The chunk's rows of a tensor with one for each of the pass's.
struct tensor chunk_rows(const struct chunk *chunk, struct tensor x);
// How many tokens a whole sequence has of which a rank has T.
int64_t pass_whole_length(const struct pass *pass, int64_t T);

// Keys and values of all ranks that share the sequence, on their way.
struct gathered {
    struct tensor kv;     // (B whole T, …): in the order of the sequences; the last columns are keys and values
    struct tensor parts;  // (B whole T, W): in the order of ranks
    struct comm_request request;
    bool is_flying, is_in_order;
};
// The last W columns of `packed` (B T, …) are this rank's keys and values. Memory comes from scratch and must stay for
// as long as the keys are used.
struct gathered context_gather_start(const struct pass *pass, struct tensor packed, int64_t W);
// Waits for them the first time; packed itself where nothing is shared.
struct tensor context_gathered(const struct pass *pass, struct gathered *gathered);

// Where the queries of a chunk write gradients of the first `keys` tokens' keys and values: memory from scratch (B
// keys, W), or dpacked (B T, …) itself where nothing is shared.
struct tensor context_gradient(const struct pass *pass, struct tensor dpacked, int64_t keys, int64_t W);
// The last W columns of dpacked become the sums of what all chunks of all ranks wrote for this rank's tokens.
void context_scatter(const struct pass *pass, struct tensor dpacked, int64_t W,
                     const struct tensor parts[CONTEXT_MOST_CHUNKS]);

#endif
