// The table of machines, from EC2's own pages (2026). See machine.h.
#include "cluster/machine.h"
#include "base/buffer.h"
#include "base/error.h"

#include <string.h>

static const struct machine machines[] = {
    // name, GPU, how many, GiB each, processors, GiB, Gbit/s, EFA
    {"p3dn.24xlarge", "V100", 8, 32, 96, 768, 100, 1},
    {"p4d.24xlarge", "A100", 8, 40, 96, 1152, 400, 4},
    {"p4de.24xlarge", "A100", 8, 80, 96, 1152, 400, 4},
    {"p5.4xlarge", "H100", 1, 80, 16, 256, 100, 1},
    {"p5.48xlarge", "H100", 8, 80, 192, 2048, 3200, 32},
    {"p5e.48xlarge", "H200", 8, 141, 192, 2048, 3200, 32},
    {"p5en.48xlarge", "H200", 8, 141, 192, 2048, 3200, 16},
    {"p6-b200.48xlarge", "B200", 8, 179, 192, 2048, 3200, 8},
    {"p6-b300.48xlarge", "B300", 8, 269, 192, 4096, 6400, 16},
    {"g5.48xlarge", "A10G", 8, 22, 192, 768, 100, 1},
    {"g6.48xlarge", "L4", 8, 22, 192, 768, 100, 1},
    {"g6e.48xlarge", "L40S", 8, 45, 192, 1536, 400, 4},
    {"c5n.18xlarge", NULL, 0, 0, 72, 192, 100, 1},
    {"c6i.32xlarge", NULL, 0, 0, 128, 256, 50, 1},
};

const struct machine *machine_find(const char *name) {
    struct buffer known = {0};
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        if (strcmp(machines[i].name, name) == 0) {
            buffer_free(&known);
            return &machines[i];
        }
        buffer_printf(&known, "%s %s", i ? "," : "", machines[i].name);
    }
    error_set_code(EXIT_CODE_USAGE, "no machine is called \"%s\"; known are%s", name, buffer_string(&known));
    buffer_free(&known);
    return NULL;
}
