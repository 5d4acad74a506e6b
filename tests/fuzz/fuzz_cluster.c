// layer: cluster
// What other programs say, out of hostile bytes: nvidia-smi's table, NCCL's log, fi_info, and the line of a queue. What
// is read must be within the bounds that the rest of the program relies on.
#include "fuzz.h"

#include "base/memory.h"
#include "cluster/gpus.h"
#include "cluster/parallelcluster.h"
#include "cluster/transport.h"

#include <string.h>

static void try_gpus(const char *text) {
    static struct gpus gpus;
    struct buffer out = {0};
    if (gpus_parse(&gpus, text) == 0) {
        CHECK(gpus.count >= 0 && gpus.count <= MOST_GPUS);
        for (int i = 0; i < gpus.count; i++)
            CHECK(memchr(gpus.items[i].name, '\0', sizeof gpus.items[i].name) != NULL &&
                  memchr(gpus.items[i].driver, '\0', sizeof gpus.items[i].driver) != NULL);
        CHECK(gpus_faults(&gpus, 8, &out) >= 0);
        CHECK(gpus_differ(&gpus, machine_look_up("p5.48xlarge"), &out) >= 0);
    }
    buffer_free(&out);
}

static void try_queue(const char *text) {
    struct cluster_queue queue;
    if (cluster_queue_parse(&queue, text) == 0)
        CHECK(queue.type_count > 0 && queue.type_count <= QUEUE_MOST_TYPES && queue.least >= 0 &&
              queue.least <= queue.most && queue.name[0]);
    cluster_queue_free(&queue);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = memory_alloc(size + 1);
    if (size > 0)
        memcpy(text, data, size);
    try_gpus(text);
    try_queue(text);
    CHECK(transport_of_log(text) <= TRANSPORT_EFA);
    CHECK(transport_efa_interfaces(text) >= 0);
    free(text);
    return 0;
}
