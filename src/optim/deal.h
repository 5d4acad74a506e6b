// Assigns pieces of work to ranks, in an order. The most expensive piece is assigned first, each to the rank with the
// least work so far: no rank has more than 4/3 of the optimum, and little more than its share if there are many pieces.
// The result depends only on the arguments, so ranks with the same list agree without a message.
//
// The work is done in rounds; ranks exchange inputs before and results after each. A round has as many consecutive
// pieces as its limits allow, so that memory for two rounds is enough.
#ifndef OPTIM_DEAL_H
#define OPTIM_DEAL_H

#include <stdint.h>

struct deal_item {
    double cost;
    int64_t room;    // its part of a rank's limit
    int64_t own;     // its part of the limit of all ranks together
    int64_t number;  // the caller's; items of the same cost are in its order
    // Set:
    int owner;
    int64_t round;
};

struct deal_limits {
    int ranks;
    int64_t most_room;   // of a rank in a round; a single item may have more
    int64_t most_own;    // of all items of a round, with the same exception; 0: no limit
    int64_t most_items;  // of a round; 0: any
};

// Sorts the items by round and cost, and sets owners: the first rank has the most work. Returns the number of rounds.
int64_t deal_work(struct deal_item *items, int64_t count, const struct deal_limits *limits);

#endif
