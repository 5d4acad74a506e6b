// The cost of a cluster per hour, as a table. See parallelcluster.h.
#include "base/memory.h"
#include "cluster/machine.h"
#include "cluster/parallelcluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

// One line: price range of its machines, from the cheapest to the dearest; 0 if unknown.
struct cost_line {
    const char *what, *machine;
    int64_t least, most;
    double cheapest, dearest;
};

static void cost_line(struct buffer *out, const struct cost_line *line) {
    char nodes[48], each[32] = "unknown", least[32] = "unknown", most[32] = "unknown";
    snprintf(nodes, sizeof nodes, line->least == line->most ? "%" PRId64 : "%" PRId64 "-%" PRId64, line->least,
             line->most);
    if (line->dearest > 0) {
        snprintf(each, sizeof each, "%.3f", line->dearest);
        snprintf(least, sizeof least, "%.2f", line->cheapest * (double)line->least);
        snprintf(most, sizeof most, "%.2f", line->dearest * (double)line->most);
    }
    buffer_printf(out, "  %-26s %-18s %9s %10s %10s %12s\n", line->what, line->machine, nodes, each, least, most);
}

// A queue may get any of its types: at least the cheapest, at most the dearest. A type without a price leaves no such
// bound.
static void price_queue(const struct cluster_queue *queue, struct cost_line *line) {
    line->machine = queue->types[0];
    line->cheapest = line->dearest = machine_price(queue->types[0]);
    for (int i = 1; i < queue->type_count && line->dearest > 0; i++) {
        double each = machine_price(queue->types[i]);
        if (each > line->dearest || each <= 0) {
            line->machine = queue->types[i];
            line->dearest = each;
        }
        line->cheapest = each < line->cheapest ? each : line->cheapest;
    }
}

void parallelcluster_cost(const struct parallelcluster *cluster, struct buffer *out) {
    double head = machine_price(cluster->head_type), least = head, most = head;
    bool is_whole = head > 0;
    buffer_printf(out, "  %-26s %-18s %9s %10s %10s %12s\n", "dollars an hour", "machine", "nodes", "each", "at least",
                  "at most");
    cost_line(out, &(struct cost_line){"head node", cluster->head_type, 1, 1, head, head});
    for (int i = 0; i < cluster->queue_count; i++) {
        const struct cluster_queue *queue = &cluster->queues[i];
        char *what = memory_printf("queue %.25s%s", queue->name, queue->is_spot ? " (spot)" : "");
        struct cost_line line = {.what = what, .least = queue->least, .most = queue->most};
        price_queue(queue, &line);
        cost_line(out, &line);
        if (line.dearest > 0) {
            least += line.cheapest * (double)queue->least;
            most += line.dearest * (double)queue->most;
        }
        is_whole = is_whole && line.dearest > 0;
        free(what);
    }
    buffer_printf(out, "  %-26s %-18s %9s %10s %10.2f %12.2f\n", is_whole ? "all" : "all with a known price", "", "",
                  "", least, most);
    buffer_printf(out, "  %s%s\n", machine_price_note(),
                  is_whole ? "" : " The sum does not include machines without a known price.");
}
