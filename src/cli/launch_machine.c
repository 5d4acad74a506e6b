// Whether the machines of a job can run it: checked before it waits in a queue and costs money.
#include "base/error.h"
#include "base/log.h"
#include "cli/launch.h"
#include "plan/plan.h"
#include "train/dry_run.h"

#include <string.h>

// Memory of a GPU taken by its driver, CUDA's context and its libraries.
static const double OWN_GIB = 1;

static int refuse_old(const struct machine *machine) {
    struct buffer text = {0};
    machine_describe_old_gpus(machine, &text);
    error_set_code(EXIT_CODE_USAGE, "%s, or --device cpu", buffer_string(&text));
    buffer_free(&text);
    return -1;
}

// The first GPUs with fp8 are those of compute capability 8.9.
static int check_fp8(const struct machine *machine, const struct config *config) {
    enum { FIRST_WITH_FP8 = 89 };
    if (!config->run.fp8_format)
        return 0;
    if (config->model.num_experts > 0 && !machine_trains_experts8(machine))
        return error_set_code(EXIT_CODE_USAGE,
                              "the %s GPUs of a %s have no fp8 matmuls of experts; leave out --fp8-format, or choose a "
                              "machine with H100 or H200 GPUs",
                              machine->gpu, machine->name);
    if (machine->capability >= FIRST_WITH_FP8)
        return 0;
    return error_set_code(EXIT_CODE_USAGE,
                          "the %s GPUs of a %s have no fp8; leave out --fp8-format, or choose a machine with L4, L40S, "
                          "H100 or newer GPUs",
                          machine->gpu, machine->name);
}

static int check_recipe(const struct machine *machine, const struct config *config) {
    const char *missing = plan_missing_matmuls(config, machine);
    if (!missing)
        return config_check_whole_blocks(config);
    return error_set_code(
        EXIT_CODE_USAGE, "the %s GPUs of a %s have no %s matmuls; %s, or choose a machine with %s GPUs", machine->gpu,
        machine->name, missing,
        config->run.fp4_format ? "leave out --fp4-format" : "give --fp8-format hybrid --fp8-recipe delayed",
        strcmp(missing, "blockwise fp8") == 0 ? "H100 or H200" : "B200 or newer");
}

// A plan's estimate. A run that cannot be planned here, e.g. without the tokenizer, may still run there.
static int check_memory(const struct launch_place *place, struct config *config) {
    const struct machine *machine = place->machine;
    struct buffer text = {0};
    double room = ((double)machine->gpu_gib - OWN_GIB) * 0x1p30;
    int status = 0;
    if (dry_run_fit(config, (int)place->ranks, (size_t)room, &text) < 0)
        error_clear();
    else if (text.length > 0 && place->may_not_fit)
        log_warn("this run may not fit the GPUs of a %s: %s", machine->name, buffer_string(&text));
    else if (text.length > 0)
        status = error_set_code(EXIT_CODE_USAGE,
                                "this run does not fit the GPUs of a %s: %s; --allow-out-of-memory launches it anyway",
                                machine->name, buffer_string(&text));
    buffer_free(&text);
    return status;
}

int launch_check_machine(const struct launch_place *place, struct launch_command *command, struct config *config) {
    static const char *const without_gpus[] = {"preprocess", "extract",    "tokenizer",
                                               "dataset",    "checkpoint", "getdata"};
    const struct machine *machine = place->machine;
    bool is_train = strcmp(command->rest[0], "train") == 0;
    if (!machine || machine->gpus == 0 || (is_train && strcmp(config->machine.device, "cpu") == 0))
        return 0;
    for (size_t i = 0; i < sizeof without_gpus / sizeof without_gpus[0]; i++)
        if (strcmp(command->rest[0], without_gpus[i]) == 0)
            return 0;
    if (machine_has_old_gpus(machine))
        return refuse_old(machine);
    if (!is_train)
        return 0;
    TRY(check_fp8(machine, config));
    TRY(check_recipe(machine, config));
    TRY(check_memory(place, config));
    launch_command_add(command, "--machine", machine->name);
    return 0;
}
