// What a cluster costs an hour, as a table. See parallelcluster.h.
#include "base/memory.h"
#include "cluster/machine.h"
#include "cluster/parallelcluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void cost_line(struct buffer *out, const char *what, const char *machine, int64_t least, int64_t most) {
    double each = machine_price(machine);
    char nodes[48], price[32] = "unknown";
    snprintf(nodes, sizeof nodes, least == most ? "%" PRId64 : "%" PRId64 "-%" PRId64, least, most);
    if (each > 0)
        snprintf(price, sizeof price, "%.3f", each);
    buffer_printf(out, "  %-26s %-18s %9s %10s %10.2f %12.2f\n", what, machine, nodes, price, each * (double)least,
                  each * (double)most);
}

void parallelcluster_cost(const struct parallelcluster *cluster, struct buffer *out) {
    double least = machine_price(cluster->head_type), most = least;
    bool is_whole = least > 0;
    buffer_printf(out, "  %-26s %-18s %9s %10s %10s %12s\n", "dollars an hour", "machine", "nodes", "each", "at least",
                  "at most");
    cost_line(out, "head node", cluster->head_type, 1, 1);
    for (int i = 0; i < cluster->queue_count; i++) {
        const struct cluster_queue *queue = &cluster->queues[i];
        char *what = memory_printf("queue %.25s%s", queue->name, queue->is_spot ? " (spot)" : "");
        double each = machine_price(queue->types[0]);
        cost_line(out, what, queue->types[0], queue->least, queue->most);
        least += each * (double)queue->least;
        most += each * (double)queue->most;
        is_whole = is_whole && each > 0;
        free(what);
    }
    buffer_printf(out, "  %-26s %-18s %9s %10s %10.2f %12.2f\n", "all", "", "", "", least, most);
    buffer_printf(out, "  %s%s\n", machine_price_note(),
                  is_whole ? "" : " Machines without a known price are not in the sum.");
}
