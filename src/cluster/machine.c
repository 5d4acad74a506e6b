// The table of machines: EC2's from its own pages (2026), NVIDIA's from data sheets. See machine.h.
#include "cluster/machine.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/words.h"

#include <string.h>
#include <strings.h>

// Prices are from github.com/skypilot-org/skypilot-catalog, which reads EC2's price list, 2026-08-22. p5e and p6e have
// none on demand: they are sold by capacity block.
static const struct machine machines[] = {
    // name, GPU, its compute capability × 10, how many, GiB each, processors, GiB, Gbit/s, EFA, GPUs joined, network,
    // dollars an hour Machines whose GPUs are too old are listed so that they are refused by name, before a job is
    // queued.
    {"p3.2xlarge", "V100", 70, 1, 16, 8, 61, 10, 0, 1, NETWORK_ETHERNET, 0},
    {"p3.8xlarge", "V100", 70, 4, 16, 32, 244, 10, 0, 4, NETWORK_ETHERNET, 0},
    {"p3.16xlarge", "V100", 70, 8, 16, 64, 488, 25, 0, 8, NETWORK_ETHERNET, 0},
    {"p3dn.24xlarge", "V100", 70, 8, 32, 96, 768, 100, 1, 8, NETWORK_EFA, 31.212},
    {"g4dn.xlarge", "T4", 75, 1, 16, 4, 16, 25, 0, 1, NETWORK_ETHERNET, 0},
    {"g4dn.2xlarge", "T4", 75, 1, 16, 8, 32, 25, 0, 1, NETWORK_ETHERNET, 0},
    {"g4dn.4xlarge", "T4", 75, 1, 16, 16, 64, 25, 0, 1, NETWORK_ETHERNET, 0},
    {"g4dn.8xlarge", "T4", 75, 1, 16, 32, 128, 50, 1, 1, NETWORK_EFA, 0},
    {"g4dn.12xlarge", "T4", 75, 4, 16, 48, 192, 50, 1, 4, NETWORK_EFA, 3.912},
    {"g4dn.16xlarge", "T4", 75, 1, 16, 64, 256, 50, 1, 1, NETWORK_EFA, 0},
    {"g4dn.metal", "T4", 75, 8, 16, 96, 384, 100, 1, 8, NETWORK_EFA, 7.824},
    {"p4d.24xlarge", "A100", 80, 8, 40, 96, 1152, 400, 4, 8, NETWORK_EFA, 21.9576},
    {"p4de.24xlarge", "A100", 80, 8, 80, 96, 1152, 400, 4, 8, NETWORK_EFA, 27.4471},
    {"p5.4xlarge", "H100", 90, 1, 80, 16, 256, 100, 1, 1, NETWORK_EFA, 6.88},
    {"p5.48xlarge", "H100", 90, 8, 80, 192, 2048, 3200, 32, 8, NETWORK_EFA, 55.04},
    {"p5e.48xlarge", "H200", 90, 8, 141, 192, 2048, 3200, 32, 8, NETWORK_EFA, 0},
    {"p5en.48xlarge", "H200", 90, 8, 141, 192, 2048, 3200, 16, 8, NETWORK_EFA, 63.296},
    {"p6-b200.48xlarge", "B200", 100, 8, 179, 192, 2048, 3200, 8, 8, NETWORK_EFA, 113.933},
    {"p6-b300.48xlarge", "B300", 103, 8, 269, 192, 4096, 6400, 16, 8, NETWORK_EFA, 142.416},
    // One of the 18 machines of an UltraServer, with its share of 28.8 Tbit/s; its processors are arm64.
    {"p6e-gb200.36xlarge", "GB200", 100, 4, 185, 144, 960, 1600, 4, 72, NETWORK_EFA, 0},
    {"g5.xlarge", "A10G", 86, 1, 22, 4, 16, 10, 0, 1, NETWORK_ETHERNET, 1.006},
    {"g5.2xlarge", "A10G", 86, 1, 22, 8, 32, 10, 0, 1, NETWORK_ETHERNET, 1.212},
    {"g5.4xlarge", "A10G", 86, 1, 22, 16, 64, 25, 0, 1, NETWORK_ETHERNET, 1.624},
    {"g5.8xlarge", "A10G", 86, 1, 22, 32, 128, 25, 1, 1, NETWORK_EFA, 2.448},
    {"g5.12xlarge", "A10G", 86, 4, 22, 48, 192, 40, 1, 4, NETWORK_EFA, 5.672},
    {"g5.16xlarge", "A10G", 86, 1, 22, 64, 256, 25, 1, 1, NETWORK_EFA, 4.096},
    {"g5.24xlarge", "A10G", 86, 4, 22, 96, 384, 50, 1, 4, NETWORK_EFA, 8.144},
    {"g5.48xlarge", "A10G", 86, 8, 22, 192, 768, 100, 1, 8, NETWORK_EFA, 16.288},
    {"g6.xlarge", "L4", 89, 1, 22, 4, 16, 10, 0, 1, NETWORK_ETHERNET, 0.8048},
    {"g6.12xlarge", "L4", 89, 4, 22, 48, 192, 40, 1, 4, NETWORK_EFA, 4.6016},
    {"g6.24xlarge", "L4", 89, 4, 22, 96, 384, 50, 1, 4, NETWORK_EFA, 6.6752},
    {"g6.48xlarge", "L4", 89, 8, 22, 192, 768, 100, 1, 8, NETWORK_EFA, 13.3504},
    {"g6e.xlarge", "L40S", 89, 1, 45, 4, 32, 20, 0, 1, NETWORK_ETHERNET, 1.861},
    {"g6e.12xlarge", "L40S", 89, 4, 45, 48, 384, 100, 1, 4, NETWORK_EFA, 10.4926},
    {"g6e.24xlarge", "L40S", 89, 4, 45, 96, 768, 200, 2, 4, NETWORK_EFA, 15.0656},
    {"g6e.48xlarge", "L40S", 89, 8, 45, 192, 1536, 400, 4, 8, NETWORK_EFA, 30.1312},
    // CPU nodes.
    {"c5n.18xlarge", NULL, 0, 0, 0, 72, 192, 100, 1, 1, NETWORK_EFA, 3.888},
    {"c6i.32xlarge", NULL, 0, 0, 0, 128, 256, 50, 1, 1, NETWORK_EFA, 5.44},
    {"c7i.48xlarge", NULL, 0, 0, 0, 192, 384, 50, 1, 1, NETWORK_EFA, 8.568},
    // NVIDIA's own machines, from its data sheets (2020 to 2026); InfiniBand. Of NVL72 racks, one of their 18 machines.
    {"dgx-a100", "A100", 80, 8, 80, 256, 2048, 1600, 0, 8, NETWORK_INFINIBAND, 0},
    {"dgx-h100", "H100", 90, 8, 80, 224, 2048, 3200, 0, 8, NETWORK_INFINIBAND, 0},
    {"dgx-h200", "H200", 90, 8, 141, 224, 2048, 3200, 0, 8, NETWORK_INFINIBAND, 0},
    {"dgx-b200", "B200", 100, 8, 180, 224, 2048, 3200, 0, 8, NETWORK_INFINIBAND, 0},
    {"dgx-b300", "B300", 103, 8, 269, 224, 2048, 6400, 0, 8, NETWORK_INFINIBAND, 0},
    {"dgx-gb200", "GB200", 100, 4, 185, 144, 960, 1600, 0, 72, NETWORK_INFINIBAND, 0},
    {"dgx-gb300", "GB300", 103, 4, 278, 144, 960, 3200, 0, 72, NETWORK_INFINIBAND, 0},
};
enum { MACHINES = sizeof machines / sizeof machines[0] };

const struct machine *machine_look_up(const char *name) {
    for (int i = 0; i < MACHINES; i++)
        if (strcmp(machines[i].name, name) == 0)
            return &machines[i];
    return NULL;
}

// Whether the name contains that of a GPU, e.g. "h100x" and "nvidia-h100". Two letters could be anything.
static bool names_gpu(const char *name, const char *gpu) {
    size_t length = strlen(gpu), typed = strlen(name);
    for (size_t i = 0; length > 2 && i + length <= typed; i++)
        if (strncasecmp(name + i, gpu, length) == 0)
            return true;
    return false;
}

// The largest machine of a family, e.g. of p5 or g6; NULL if there is no family of that name.
static const char *largest_of_family(const char *name) {
    size_t length = strlen(name);
    const struct machine *largest = NULL;
    for (int i = 0; i < MACHINES; i++)
        if (strncmp(machines[i].name, name, length) == 0 && machines[i].name[length] == '.' &&
            !machine_has_old_gpus(&machines[i]) && (!largest || machines[i].gpus > largest->gpus))
            largest = &machines[i];
    return largest ? largest->name : NULL;
}

// The first machine whose GPUs have this name, the largest of the family, the machine with the nearest name, or the
// first machine whose GPU's name is contained in the name; NULL if there is none.
static const char *probably_meant(const char *name) {
    if (largest_of_family(name))
        return largest_of_family(name);
    struct nearest nearest = nearest_begin(name, strlen(name));
    const struct machine *named = NULL;
    for (int i = 0; i < MACHINES; i++) {
        if (machine_has_old_gpus(&machines[i]))
            continue;
        nearest_consider(&nearest, machines[i].name);
        // The name of a GPU does not mean a machine with a single one.
        if (!machines[i].gpu || machines[i].gpus == 1)
            continue;
        if (strcasecmp(machines[i].gpu, name) == 0)
            return machines[i].name;
        // A GB200 is not a B200.
        if (names_gpu(name, machines[i].gpu) && (!named || strlen(machines[i].gpu) > strlen(named->gpu)))
            named = &machines[i];
    }
    return nearest.best || !named ? nearest.best : named->name;
}

const struct machine *machine_find(const char *name) {
    const struct machine *found = machine_look_up(name);
    if (found)
        return found;
    const char *meant = probably_meant(name);
    if (meant) {
        error_set_code(EXIT_CODE_USAGE,
                       "unknown machine \"%s\"; did you mean %s? `bevatron plan --machine x` lists the known machines",
                       name, meant);
        return NULL;
    }
    OWNED_BY(buffer_free) struct buffer known = {0};
    for (int i = 0; i < MACHINES; i++)
        if (!machine_has_old_gpus(&machines[i]))
            buffer_printf(&known, "%s %s", known.length ? "," : "", machines[i].name);
    error_set_code(EXIT_CODE_USAGE, "unknown machine \"%s\"; known machines:%s", name, buffer_string(&known));
    return NULL;
}

bool machine_has_old_gpus(const struct machine *machine) {
    return machine->gpus > 0 && machine->capability < MACHINE_OLDEST_CAPABILITY;
}

int machine_gpu_capability(const char *gpu) {
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++)
        if (machines[i].gpu && strcmp(machines[i].gpu, gpu) == 0)
            return machines[i].capability;
    return MACHINE_OLDEST_CAPABILITY;
}

bool machine_trains_experts8(const struct machine *machine) {
    return machine->gpus == 0 || machine->capability == 90;
}

void machine_describe_old_gpus(const struct machine *machine, struct buffer *out) {
    buffer_printf(out,
                  "the GPUs of a %s (%s, compute capability %d.%d) are too old: they lack bf16; bevatron needs compute "
                  "capability "
                  "%d.%d (A100 or later); use e.g. a p4d.24xlarge or a g5.12xlarge",
                  machine->name, machine->gpu, machine->capability / 10, machine->capability % 10,
                  MACHINE_OLDEST_CAPABILITY / 10, MACHINE_OLDEST_CAPABILITY % 10);
}

const char *machine_price_note(void) {
    return "On-demand list prices of us-east-1 (Linux), 2026-08-22. Prices change and differ by region; spot and "
           "reserved "
           "capacity cost otherwise; storage and traffic are not counted.";
}

const char *machine_unpriced_note(const struct machine *machine) {
    if (strncmp(machine->name, "dgx-", 4) == 0)
        return "NVIDIA publishes no price of its machines; give yours as price in a --hardware file";
    if (strcmp(machine->name, "p5e.48xlarge") == 0)
        return "p5e.48xlarge has no on-demand price: it is sold by capacity block, those with 8 H200 at $43.26 an hour "
               "in "
               "us-east-2 in late 2024; give yours as price in a --hardware file";
    if (strncmp(machine->name, "p6e-", 4) == 0)
        return "p6e machines have no on-demand price: they are sold by capacity block; give yours as price in a "
               "--hardware "
               "file";
    return "the price of this machine is not known; give it as price in a --hardware file";
}

// Prices of machines without a row above, e.g. head nodes.
static const struct {
    const char *name;
    double dollars;
} prices[] = {
    {"c5.xlarge", 0.17},    {"c5.2xlarge", 0.34},   {"c5.4xlarge", 0.68},    {"c5.9xlarge", 1.53},
    {"c5.18xlarge", 3.06},  {"c5.24xlarge", 4.08},  {"c5n.2xlarge", 0.432},  {"c6i.4xlarge", 0.68},
    {"c6i.16xlarge", 2.72}, {"m5.xlarge", 0.192},   {"m5.2xlarge", 0.384},   {"m5.4xlarge", 0.768},
    {"m5.8xlarge", 1.536},  {"m6i.8xlarge", 1.536}, {"m6i.32xlarge", 6.144}, {"r5.24xlarge", 6.048},
    {"t3.medium", 0.0416},
};

bool machine_is_known(const char *name) {
    return machine_look_up(name) || machine_price(name) > 0;
}

double machine_price(const char *name) {
    const struct machine *machine = machine_look_up(name);
    if (machine)
        return machine->dollars;
    for (size_t i = 0; i < sizeof prices / sizeof prices[0]; i++)
        if (strcmp(prices[i].name, name) == 0)
            return prices[i].dollars;
    return 0;
}
