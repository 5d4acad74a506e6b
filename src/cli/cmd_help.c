// bevatron help, bevatron version.
#include "base/error.h"
#include "cli/commands.h"
#include "cli/features.h"
#include "cli/help_pages.h"
#include "cli/libraries.h"
#include "config/config.h"
#include "ops/cuda_module.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

static void print_summary(void) {
    puts("bevatron: language-model pretraining in C\n");
    for (size_t i = 0; i < command_table_count; i++) {
        const struct command_part *command = &command_table[i];
        if (command->run)
            printf("  %-14s %s\n", command->name, command->summary);
        else
            puts(command->name);
    }
    puts("\nEvery command has --help. `bevatron help flags` lists all flags of train, `bevatron help presets` its "
         "presets.\n"
         "`bevatron help --man [COMMAND]` prints a manual page, `bevatron help --completion bash|zsh|fish` a script "
         "that\n"
         "completes commands and flags in that shell.\n"
         "Several ranks: bevatron train --nproc N …, mpirun -n N bevatron train …, or srun");
}

static int help_flags(bool as_markdown) {
    struct buffer text = {0};
    if (as_markdown)
        config_markdown(&text);
    else
        flags_help(config_command(), true, &text);
    fputs(buffer_string(&text), stdout);
    buffer_free(&text);
    return EXIT_CODE_OK;
}

int cmd_help(int argc, char **argv) {
    const char *topic = argc > 1 ? argv[1] : "", *detail = argc > 2 ? argv[2] : NULL;
    if (strcmp(topic, "flags") == 0)
        return help_flags(detail && strcmp(detail, "--markdown") == 0);
    if (strcmp(topic, "commands") == 0)
        return help_commands();
    if (strcmp(topic, "files") == 0)
        return help_files();
    if (strcmp(topic, "--man") == 0)
        return help_man(detail, argc > 3 ? argv[3] : NULL);
    if (strcmp(topic, "--completion") == 0)
        return help_completion(detail);
    if (strcmp(topic, "presets") == 0) {
        struct buffer text = {0};
        config_list_presets(&text);
        fputs(buffer_string(&text), stdout);
        buffer_free(&text);
    } else {
        print_summary();
    }
    return EXIT_CODE_OK;
}

// Libraries of this machine, which may differ from the build machine's.
static void print_libraries(void) {
    const struct library *list[MOST_LIBRARIES];
    int count = libraries_list(list);
    if (count > 0)
        printf("libraries, loaded when they are needed\n");
    for (int i = 0; i < count; i++) {
        struct buffer text = {0};
        library_describe(list[i], &text);
        printf("  %-10s %s\n", list[i]->name, buffer_string(&text));
        buffer_free(&text);
    }
}

// The parts in the GPU module.
static void print_module(void) {
    const struct cuda_module *module = cuda_module();
    if (module)
        printf("  %-10s yes: CUDA %s for %s\n", "CUDA", module->toolkit, module->architectures);
    else
        printf("  %-10s no\n", "CUDA");
    printf("  %-10s %s\n", "CUDNN", module && module->has_cudnn ? "yes" : "no");
    printf("  %-10s %s\n", "NCCL", module && module->nccl_library ? "yes" : "no");
}

int cmd_version(int argc, char **argv) {
    (void)argc;
    (void)argv;
    printf("bevatron %s\n", BEVATRON_VERSION);
    for (size_t i = 0; i < feature_count; i++)
        printf("  %-10s %s\n", features[i].name, features[i].is_in ? "yes" : "no");
    print_module();
    int gpus = cuda_count();
    if (gpus < 0)
        printf("  %-10s %s\n", "GPUs", error_message());
    else
        printf("  %-10s %d\n", "GPUs", gpus);
    error_clear();
    char kernels[128];
    cpu_list_kernels(kernels, sizeof kernels);
    printf("  %-10s %s\n", "kernels", kernels);
    struct utsname system;
    if (uname(&system) == 0)
        printf("  %-10s %s %s, %s\n", "system", system.sysname, system.release, system.machine);
    printf("  %-10s %s\n", "compiler", __VERSION__);
    print_libraries();
    return EXIT_CODE_OK;
}
