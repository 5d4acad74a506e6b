// The queue of events is a heap by time. See rank_queue.h.
#include "plan/rank_queue.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

struct queued_rank {
    double time, left;  // arrival of a rank's next request, and the number it still has to send
    int rank;
};

static bool is_before(const struct queued_rank *a, const struct queued_rank *b) {
    return a->time < b->time || (a->time <= b->time && a->rank < b->rank);
}

static void sift_down(struct queued_rank *heap, int count, int at) {
    for (int child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && is_before(&heap[child + 1], &heap[child]))
            child++;
        if (!is_before(&heap[child], &heap[at]))
            return;
        struct queued_rank moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
        at = child;
    }
}

// Answers the first event of the heap. A lone rank waits for each of its answers; otherwise the place's queue
// dominates.
static void serve(struct rank_queue *place, double *free_at, struct queued_rank *event) {
    double sent = fmin(place->burst, event->left);
    *free_at = fmax(*free_at, event->time) + sent * place->service;
    event->time = fmax(*free_at + place->delay, event->time + sent * (place->service + place->delay));
    event->left -= sent;
    place->served += sent;
}

double rank_queue_run(struct rank_queue *place, int ranks, rank_queue_next *next, void *context, bool stops_at_first) {
    OWNED struct queued_rank *heap = memory_alloc(sizeof *heap * (size_t)ranks);
    double free_at = 0, end = 0;
    int count = ranks;
    for (int i = 0; i < ranks; i++)
        heap[i].rank = i;
    while (count > 0) {
        struct queued_rank *first = &heap[0];
        if (first->left > 0) {
            serve(place, &free_at, first);
        } else if (!next(context, first->rank, &first->time, &first->left)) {
            end = fmax(end, first->time);
            if (stops_at_first)
                break;
            heap[0] = heap[--count];
        }
        sift_down(heap, count, 0);
    }
    return end;
}
