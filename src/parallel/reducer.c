// Bucketed gradient reduction. See reducer.h.
#include "parallel/reducer.h"

enum { BUCKETS_IN_FLIGHT = 4 };

void reducer_sum_gradients(const struct mesh *mesh, struct tensor grads) {
    struct group *group = mesh->replicas;
    if (group_size(group) == 1)
        return;
    struct comm_request flying[BUCKETS_IN_FLIGHT];
    int64_t total = tensor_count(grads), started = 0, finished = 0;
    for (int64_t first = 0; first < total; first += REDUCER_BUCKET_ELEMENTS, started++) {
        if (started - finished == BUCKETS_IN_FLIGHT)
            comm_wait(&flying[finished++ % BUCKETS_IN_FLIGHT]);
        int64_t count = total - first < REDUCER_BUCKET_ELEMENTS ? total - first : REDUCER_BUCKET_ELEMENTS;
        flying[started % BUCKETS_IN_FLIGHT] =
            comm_all_reduce_start(group, tensor_rows(grads, first, count), REDUCE_SUM, "gradients");
    }
    while (finished < started)
        comm_wait(&flying[finished++ % BUCKETS_IN_FLIGHT]);
}
