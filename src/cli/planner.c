// Plans a run at its start. See planner.h.
#include "cli/planner.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "plan/hardware.h"
#include "plan/plan.h"
#include "plan/steady.h"

#include <stdio.h>
#include <string.h>

// Machines of EC2's Nitro system name their type.
static const char PRODUCT_NAME[] = "/sys/devices/virtual/dmi/id/product_name";

const struct machine *planner_own_machine(void) {
    char name[64] = "";
    FILE *file = fopen(PRODUCT_NAME, "re");
    if (!file)
        return NULL;
    if (!fgets(name, sizeof name, file))
        name[0] = '\0';
    fclose(file);
    name[strcspn(name, "\n")] = '\0';
    return machine_look_up(name);
}

// A 40-GiB GPU reports 39.
bool planner_machine_of(const char *description, int ranks, struct machine *found) {
    int gib = 0;
    const char *memory = strstr(description, " GiB"), *name = peak_name(description);
    while (memory && memory > description && memory[-1] >= '0' && memory[-1] <= '9')
        memory--;
    if (!name || !memory || sscanf(memory, "%d GiB", &gib) != 1)
        return false;
    *found = (struct machine){.name = name,
                              .gpu = name,
                              .capability = machine_gpu_capability(name),
                              .gpus = ranks,
                              .gpu_gib = gib == 39 ? 40 : gib,
                              .joined = ranks};
    return true;
}

// The network between machines is unknown in that case.
static bool find_by_gpu(const struct device *device, int ranks, int local_ranks, struct machine *found) {
    char text[128];
    if (device->ops->is_host_memory || local_ranks < ranks)
        return false;
    device_describe(device, text, sizeof text);
    return planner_machine_of(text, ranks, found);
}

// A planned step reaches the phases of a real one. Faults are for the real one, messages too.
static int plan_hushed(struct plan *plan, const struct plan_options *options) {
    const char *label = run_position_set_phase("planning");
    log_hush(true);
    fault_suspend(true);
    int status = plan_make(plan, options);
    fault_suspend(false);
    log_hush(false);
    run_position_set_phase(label);
    return status;
}

// Bounds the delay of a start: 20,000 passes of a layer take a second or two.
static bool is_quick(const struct config *config) {
    const int64_t most_passes = 20000;
    int64_t count = config->run.global_batch_size / (config->run.micro_batch_size * config->machine.data_parallel_size);
    const struct schedule_shape shape = {
        .kind = config_chunks(config) > 1 ? SCHEDULE_INTERLEAVED : SCHEDULE_1F1B,
        .stages = (int)config->machine.pipeline_model_parallel_size,
        .micro_batches = (int)count,
        .group = (int)config->machine.microbatch_group_size_per_virtual_pipeline_stage,
    };
    return steady_passes(&shape) * config_layers(&config->model) <= most_passes;
}

// Whether the ranks are placed as in the plan: on all of a machine's GPUs, or on a part of one machine's.
static bool is_as_planned(const struct machine *machine, const struct device *device, int ranks, int local_ranks) {
    if (device->ops->is_host_memory != (machine->gpus == 0))
        return false;
    return ranks <= local_ranks || local_ranks == hardware_ranks(machine);
}

static void plan_run(const struct planner *planner, const struct config *config, const struct device *device,
                     struct planned *planned) {
    const struct run_machine *at = planner->context;
    struct machine found;
    const struct machine *machine = at->named;
    int ranks = (int)config->machine.world_size;
    if (!machine && find_by_gpu(device, ranks, at->local_ranks, &found))
        machine = &found;
    if (!machine || !is_as_planned(machine, device, ranks, at->local_ranks) || !is_quick(config))
        return;
    OWNED_BY(config_free) struct config copy = {0};
    struct plan plan;
    config_copy(&copy, config);
    if (plan_hushed(&plan, &(struct plan_options){.config = &copy, .ranks = ranks, .machine = machine}) == 0) {
        *planned =
            (struct planned){.seconds = plan.seconds, .tokens = plan.tokens, .compute = plan_slowest(&plan)->compute};
        snprintf(planned->machine, sizeof planned->machine, "%s", machine->name);
    }
    // Not all machines and layouts can be planned; the run continues without a plan.
    error_clear();
}

struct planner planner_open(const struct run_machine *machine) {
    return (struct planner){.plan = plan_run, .context = machine};
}
