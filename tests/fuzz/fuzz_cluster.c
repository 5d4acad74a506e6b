// layer: cluster
// Output of other programs from hostile bytes: nvidia-smi's table, NCCL's log, fi_info, squeue and scontrol; the line
// of a queue, INI files, and options for sbatch. The values must be within the bounds that the rest of the program
// relies on.
#include "fuzz.h"

#include "base/memory.h"
#include "cluster/machine.h"
#include "cluster/parallelcluster.h"
#include "cluster/slurm.h"

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

// Whatever an INI file contains, its short file has one value per line.
static void try_ini(const char *text, size_t length) {
    struct ini_document document;
    struct buffer out = {0}, notes = {0};
    if (ini_parse(&document, text, length, "x.ini") == 0 && ini_convert(&document, "x.ini", &out, &notes) == 0)
        for (size_t i = 0; i < out.length; i++)
            CHECK(out.data[i] == '\n' || (unsigned char)out.data[i] >= 0x20);
    ini_free(&document);
    buffer_free(&out);
    buffer_free(&notes);
}

// Whatever is passed through, an sbatch line begins with an option, and there are no others.
static void try_slurm(const char *text) {
    static const struct slurm_job job = {.launch.name = "train"};
    struct slurm_state state;
    struct buffer out = {0};
    if (slurm_pass_options(&job, text, &out) == 0)
        for (const char *line = buffer_string(&out); *line; line = strchr(line, '\n') + 1)
            CHECK((strncmp(line, "#SBATCH -", 9) == 0 || strncmp(line, "#SBATCH \"-", 10) == 0) && strchr(line, '\n'));
    else
        CHECK(out.length == 0);
    buffer_free(&out);
    if (slurm_read_state(text, &state))
        CHECK(state.state[0] && state.exit_code >= 0 && state.exit_code < 256 &&
              memchr(state.state, '\0', sizeof state.state) && memchr(state.reason, '\0', sizeof state.reason));
    CHECK(slurm_read_kill_wait(text) >= 0);
    struct slurm_ticket ticket;
    if (slurm_read_ticket(text, &ticket) == 0)
        CHECK(ticket.number[0] && (!ticket.cluster || ticket.cluster[0]));
    slurm_ticket_free(&ticket);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = memory_alloc(size + 1);
    if (size > 0)
        memcpy(text, data, size);
    try_gpus(text);
    try_queue(text);
    try_ini((const char *)data, size);
    try_slurm(text);
    CHECK(transport_of_log(text) <= TRANSPORT_EFA);
    CHECK(transport_efa_interfaces(text) >= 0);
    free(text);
    return 0;
}
