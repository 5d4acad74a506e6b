// The table of machines, from EC2's own pages (2026). See machine.h.
#include "cluster/machine.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/nearest.h"

#include <string.h>
#include <strings.h>

static const struct machine machines[] = {
    // name, GPU, its compute capability × 10, how many, GiB each, processors, GiB, Gbit/s, EFA
    // Those with GPUs that are too old are here so that they are refused by name, before a job is queued.
    {"p3.2xlarge", "V100", 70, 1, 16, 8, 61, 10, 0},
    {"p3.8xlarge", "V100", 70, 4, 16, 32, 244, 10, 0},
    {"p3.16xlarge", "V100", 70, 8, 16, 64, 488, 25, 0},
    {"p3dn.24xlarge", "V100", 70, 8, 32, 96, 768, 100, 1},
    {"g4dn.xlarge", "T4", 75, 1, 16, 4, 16, 25, 0},
    {"g4dn.2xlarge", "T4", 75, 1, 16, 8, 32, 25, 0},
    {"g4dn.4xlarge", "T4", 75, 1, 16, 16, 64, 25, 0},
    {"g4dn.8xlarge", "T4", 75, 1, 16, 32, 128, 50, 1},
    {"g4dn.12xlarge", "T4", 75, 4, 16, 48, 192, 50, 1},
    {"g4dn.16xlarge", "T4", 75, 1, 16, 64, 256, 50, 1},
    {"g4dn.metal", "T4", 75, 8, 16, 96, 384, 100, 1},
    {"p4d.24xlarge", "A100", 80, 8, 40, 96, 1152, 400, 4},
    {"p4de.24xlarge", "A100", 80, 8, 80, 96, 1152, 400, 4},
    {"p5.4xlarge", "H100", 90, 1, 80, 16, 256, 100, 1},
    {"p5.48xlarge", "H100", 90, 8, 80, 192, 2048, 3200, 32},
    {"p5e.48xlarge", "H200", 90, 8, 141, 192, 2048, 3200, 32},
    {"p5en.48xlarge", "H200", 90, 8, 141, 192, 2048, 3200, 16},
    {"p6-b200.48xlarge", "B200", 100, 8, 179, 192, 2048, 3200, 8},
    {"p6-b300.48xlarge", "B300", 103, 8, 269, 192, 4096, 6400, 16},
    // One of the 18 machines of an UltraServer, whose 28.8 Tbit/s are shared out; its processors are arm64.
    {"p6e-gb200.36xlarge", "GB200", 100, 4, 185, 144, 960, 1600, 4},
    {"g5.12xlarge", "A10G", 86, 4, 22, 48, 192, 40, 1},
    {"g5.48xlarge", "A10G", 86, 8, 22, 192, 768, 100, 1},
    {"g6.48xlarge", "L4", 89, 8, 22, 192, 768, 100, 1},
    {"g6e.48xlarge", "L40S", 89, 8, 45, 192, 1536, 400, 4},
    {"c5n.18xlarge", NULL, 0, 0, 0, 72, 192, 100, 1},
    {"c6i.32xlarge", NULL, 0, 0, 0, 128, 256, 50, 1},
};
enum { MACHINES = sizeof machines / sizeof machines[0] };

const struct machine *machine_look_up(const char *name) {
    for (int i = 0; i < MACHINES; i++)
        if (strcmp(machines[i].name, name) == 0)
            return &machines[i];
    return NULL;
}

// The name that comes nearest, or the first machine with GPUs that are called so; NULL if there is none.
static const char *probably_meant(const char *name) {
    struct nearest nearest = nearest_begin(name, strlen(name));
    for (int i = 0; i < MACHINES; i++) {
        if (machine_has_old_gpus(&machines[i]))
            continue;
        // One GPU alone is not what a name of GPUs means.
        if (machines[i].gpu && machines[i].gpus > 1 && strcasecmp(machines[i].gpu, name) == 0)
            return machines[i].name;
        nearest_consider(&nearest, machines[i].name);
    }
    return nearest.best;
}

const struct machine *machine_find(const char *name) {
    const struct machine *found = machine_look_up(name);
    if (found)
        return found;
    struct buffer known = {0};
    for (int i = 0; i < MACHINES; i++)
        if (!machine_has_old_gpus(&machines[i]))
            buffer_printf(&known, "%s %s", known.length ? "," : "", machines[i].name);
    const char *meant = probably_meant(name);
    error_set_code(EXIT_CODE_USAGE, "unknown machine \"%s\"; %s%s%sknown machines:%s", name,
                   meant ? "did you mean " : "", meant ? meant : "", meant ? "? " : "", buffer_string(&known));
    buffer_free(&known);
    return NULL;
}

bool machine_has_old_gpus(const struct machine *machine) {
    return machine->gpus > 0 && machine->capability < MACHINE_OLDEST_CAPABILITY;
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
    return "On-demand list prices of us-east-1 (Linux), August 2026. Prices change and differ by region; spot and "
           "reserved "
           "capacity cost otherwise; storage and traffic are not counted.";
}

// p5e and p6e have no price on demand: they are sold by capacity block.
static const struct {
    const char *name;
    double dollars;
} prices[] = {
    {"p3dn.24xlarge", 31.212}, {"p4d.24xlarge", 21.9576}, {"p4de.24xlarge", 27.4471},    {"p5.4xlarge", 6.88},
    {"p5.48xlarge", 55.04},    {"p5en.48xlarge", 63.296}, {"p6-b200.48xlarge", 113.933}, {"p6-b300.48xlarge", 142.416},
    {"g5.12xlarge", 5.672},    {"g5.48xlarge", 16.288},   {"g6.48xlarge", 13.3504},      {"g6e.48xlarge", 30.1312},
    {"c5n.2xlarge", 0.432},    {"c5n.18xlarge", 3.888},   {"c5.xlarge", 0.17},           {"c5.2xlarge", 0.34},
    {"c5.4xlarge", 0.68},      {"c5.9xlarge", 1.53},      {"c5.18xlarge", 3.06},         {"c5.24xlarge", 4.08},
    {"c6i.4xlarge", 0.68},     {"c6i.16xlarge", 2.72},    {"c6i.32xlarge", 5.44},        {"m5.xlarge", 0.192},
    {"m5.2xlarge", 0.384},     {"m5.4xlarge", 0.768},     {"m5.8xlarge", 1.536},         {"m6i.8xlarge", 1.536},
    {"m6i.32xlarge", 6.144},   {"r5.24xlarge", 6.048},    {"t3.medium", 0.0416},
};

bool machine_is_known(const char *name) {
    return machine_look_up(name) || machine_price(name) > 0;
}

double machine_price(const char *name) {
    for (size_t i = 0; i < sizeof prices / sizeof prices[0]; i++)
        if (strcmp(prices[i].name, name) == 0)
            return prices[i].dollars;
    return 0;
}
