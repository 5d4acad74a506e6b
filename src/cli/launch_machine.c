// Whether the machines of a job can run it: checked before it waits in a queue and costs money.
#include "base/error.h"
#include "base/log.h"
#include "cli/launch.h"
#include "train/dry_run.h"

#include <string.h>

// What a GPU's driver, CUDA's context and its libraries take of its memory.
static const double OWN_GIB = 1;

static int refuse_old(const struct machine *machine) {
    struct buffer text = {0};
    machine_describe_old_gpus(machine, &text);
    error_set_code(EXIT_CODE_USAGE, "%s, or --device cpu", buffer_string(&text));
    buffer_free(&text);
    return -1;
}

// Measured on paper. A run that does not fit is only warned about: what the GPU keeps for itself is an estimate. What
// cannot be measured here, without the tokenizer for instance, may well run there.
static void warn_of_memory(const struct machine *machine, struct config *config, int64_t ranks) {
    struct buffer text = {0};
    double room = ((double)machine->gpu_gib - OWN_GIB) * 0x1p30;
    if (dry_run_fit(config, (int)ranks, (size_t)room, &text) < 0)
        error_clear();
    else if (text.length > 0)
        log_warn("this run may not fit the GPUs of a %s: %s", machine->name, buffer_string(&text));
    buffer_free(&text);
}

int launch_check_machine(const struct machine *machine, const char *command, struct config *config, int64_t ranks) {
    static const char *const without_gpus[] = {"preprocess", "extract",    "tokenizer",
                                               "dataset",    "checkpoint", "getdata"};
    bool is_train = strcmp(command, "train") == 0;
    if (!machine || machine->gpus == 0 || (is_train && strcmp(config->device, "cpu") == 0))
        return 0;
    for (size_t i = 0; i < sizeof without_gpus / sizeof without_gpus[0]; i++)
        if (strcmp(command, without_gpus[i]) == 0)
            return 0;
    if (machine_has_old_gpus(machine))
        return refuse_old(machine);
    if (is_train)
        warn_of_memory(machine, config, ranks);
    return 0;
}
