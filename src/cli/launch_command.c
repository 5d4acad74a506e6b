// Separates a launcher's flags from those of the launched command. See launch.h.
#include "base/environment.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/words.h"
#include "cli/commands.h"
#include "cli/launch.h"
#include "cluster/shell.h"
#include "plan/plan.h"
#include "train/automatic.h"
#include "train/dry_run.h"
#include "train/saver.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// ---- variables of the ranks ----

// The environment of launched ranks: --env and --export, and the variables that configuration files refer to. A job may
// start hours later, on another machine, from a shell with other variables, so the values of a file's ${NAME} at
// submission are written into the job.

// Sets one NAME=VALUE of the list for files read after this.
static void set_pair(const char *pair) {
    size_t length = strcspn(pair, "=");
    if (pair[length] != '=' || !shell_is_name(pair, length))
        return;  // refused by the code that writes the job
    OWNED char *name = memory_printf("%.*s", (int)length, pair);
    environment_set(name, pair + length + 1);
}

// NAME=VALUE, or NAME with its present value.
static int add_item(struct string_list *environment, const char *item) {
    size_t length = strcspn(item, "=");
    if (strcmp(item, "ALL") == 0)
        return 0;
    if (strcmp(item, "NONE") == 0 || strcmp(item, "NIL") == 0)
        return error_set_code(EXIT_CODE_USAGE,
                              "--export %s would take PATH and LD_LIBRARY_PATH from the ranks; name the variables to "
                              "set: --export NAME=VALUE,NAME",
                              item);
    if (!shell_is_name(item, length))
        return error_set_code(EXIT_CODE_USAGE,
                              "--export \"%s\" is neither NAME nor NAME=VALUE; a value that contains a comma goes "
                              "with --env NAME=VALUE",
                              item);
    const char *value = item[length] ? item + length + 1 : environment_find(item);
    if (!value)
        return error_set_code(EXIT_CODE_USAGE, "--export %s: the variable is not set here; give %s=VALUE", item, item);
    OWNED char *pair = memory_printf("%.*s=%s", (int)length, item, value);
    string_list_add(environment, pair);
    return 0;
}

int launch_export(const struct string_list *exported, struct string_list *environment) {
    for (int64_t i = 0; i < exported->count; i++)
        for (const char *at = exported->items[i]; *at;) {
            size_t length = strcspn(at, ",");
            OWNED char *item = memory_printf("%.*s", (int)length, at);
            TRY(length > 0 ? add_item(environment, item) : 0);
            at += length + (at[length] == ',');
        }
    for (int64_t i = 0; i < environment->count; i++)
        set_pair(environment->items[i]);
    return 0;
}

static bool has_pair(const struct string_list *environment, const char *pair) {
    size_t length = strcspn(pair, "=") + 1;
    for (int64_t i = 0; i < environment->count; i++)
        if (strncmp(environment->items[i], pair, length) == 0)
            return true;
    return false;
}

void launch_export_found(struct string_list *environment) {
    char *pair;
    for (size_t i = 0; (pair = environment_found(i)) != NULL; i++) {
        if (!has_pair(environment, pair))
            string_list_add(environment, pair);
        free(pair);
    }
}

// ---- the machines of a job ----

// Whether the machines of a job can run it: checked before it waits in a queue and costs money.

// Memory of a GPU taken by its driver, CUDA's context and its libraries.
static const double OWN_GIB = 1;

static int refuse_old(const struct machine *machine) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    machine_describe_old_gpus(machine, &text);
    error_set_code(EXIT_CODE_USAGE, "%s, or --device cpu", buffer_string(&text));
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
static int check_memory(const struct launch_job *job, struct config *config) {
    const struct machine *machine = job->machine;
    OWNED_BY(buffer_free) struct buffer text = {0};
    double room = ((double)machine->gpu_gib - OWN_GIB) * 0x1p30;
    int status = 0;
    if (dry_run_fit(config, (int)(job->nodes * job->ranks_per_node), (size_t)room, &text) < 0)
        error_clear();
    else if (text.length > 0 && job->may_not_fit)
        log_warn("this run may not fit the GPUs of a %s: %s", machine->name, buffer_string(&text));
    else if (text.length > 0)
        status = error_set_code(EXIT_CODE_USAGE,
                                "this run does not fit the GPUs of a %s: %s; --allow-out-of-memory launches it anyway",
                                machine->name, buffer_string(&text));
    return status;
}

int launch_check_machine(const struct launch_job *job, struct launch_command *command, struct config *config) {
    static const char *const without_gpus[] = {"preprocess", "extract",    "tokenizer",
                                               "dataset",    "checkpoint", "getdata"};
    const struct machine *machine = job->machine;
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
    TRY(check_memory(job, config));
    launch_command_add(command, "--machine", machine->name);
    return 0;
}

// ---- the command line ----

// The commands that can be launched. getdata is part of launch kubernetes.
static const struct launched {
    const char *name;
    bool is_checked;  // its flags are parsed here
} commands[] = {
    {"train", false},   {"preprocess", true},  {"extract", false}, {"evaluate", true},
    {"generate", true}, {"preflight", true},   {"bench", true},    {"tokenizer", false},
    {"dataset", false}, {"checkpoint", false}, {"getdata", false},
};

static const struct launched *find_command(const char *word) {
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, word) == 0)
            return &commands[i];
    return NULL;
}

// The launcher's row of an argument, NULL if it is not one of its flags; *has_value: the argument contains the value.
static const struct flag *own_row(const struct flag_table *own, const char *argument, bool *has_value) {
    size_t length = strcspn(argument, "=");
    *has_value = argument[length] == '=';
    if (strncmp(argument, "--", 2) != 0)
        return NULL;
    OWNED char *name = memory_printf("%.*s", (int)length, argument);
    return flag_find(own, name);
}

// Separates the launcher's own flags from the others by the rows of its table. A command's name ends the launcher's
// flags. Without a name, and with preprocess and getdata, flags of both kinds may be mixed. The strings remain argv's.
static void split(struct launch_command *command, const struct flag_table *own, int argc, char **argv) {
    // Room for launch_command_add, twice.
    size_t room = sizeof(char *) * (size_t)(argc + 6);
    *command = (struct launch_command){.own = memory_alloc(room), .rest = memory_alloc(room), .default_name = "train"};
    command->own[command->own_count++] = argv[0];
    command->rest[command->rest_count++] = command->default_name;
    for (int i = 1; i < argc; i++) {
        bool has_value;
        const struct flag *row = own_row(own, argv[i], &has_value);
        if (!row && command->rest_count == 1 && find_command(argv[i])) {
            command->rest[0] = argv[i];
            // getdata is part of the launcher, flags and all; preprocess shares no flag with a launcher.
            if (strcmp(argv[i], "getdata") == 0 || strcmp(argv[i], "preprocess") == 0)
                continue;
            while (++i < argc)
                command->rest[command->rest_count++] = argv[i];
            break;
        }
        if (!row && !(command->rest_count == 1 && flag_text_asked(argv[i]) != FLAG_TEXT_NONE)) {
            command->rest[command->rest_count++] = argv[i];
            continue;
        }
        command->own[command->own_count++] = argv[i];
        bool is_switch = !row || row->type == FLAG_BOOL || row->type == FLAG_BOOL_OFF;
        if (is_switch || has_value)
            continue;
        if (row->type != FLAG_STRING_LIST) {
            if (i + 1 < argc)
                command->own[command->own_count++] = argv[++i];
            continue;
        }
        while (i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0 && !find_command(argv[i + 1]))
            command->own[command->own_count++] = argv[++i];
    }
}

void launch_command_add(struct launch_command *command, const char *flag, const char *value) {
    // execv and similar functions take char *, but change nothing.
    command->rest[command->rest_count++] = (char *)(uintptr_t)flag;
    command->rest[command->rest_count++] = (char *)(uintptr_t)value;
}

static struct flag_command train_command(const struct flag_table *table) {
    return (struct flag_command){
        .name = "train", .summary = "", .tables = table, .table_count = 1, .argument_remedy = config_argument_remedy};
}

int launch_check_name(const struct launch_command *command, const char *hidden) {
    // Without a command's name the words are those of train, which takes only flags.
    const char *word = command->rest[0] == command->default_name && command->rest_count > 1 ? command->rest[1] : "-";
    if (*word == '-' || strchr(word, '=') || config_argument_remedy(word))
        return 0;
    struct nearest nearest = nearest_begin(word, strlen(word));
    OWNED_BY(buffer_free) struct buffer names = {0};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (hidden && strcmp(commands[i].name, hidden) == 0)
            continue;
        nearest_consider(&nearest, commands[i].name);
        buffer_printf(&names, "%s%s", names.length ? ", " : "", commands[i].name);
    }
    int status = error_set_code(EXIT_CODE_USAGE, "there is no command \"%s\" to launch; %s%s%sthere are %s", word,
                                nearest.best ? "did you mean " : "", nearest.best ? nearest.best : "",
                                nearest.best ? "? " : "", buffer_string(&names));
    return status;
}

// One row as typed. A value that starts with two dashes must follow an equals sign.
static void write_row(struct string_list *out, const struct flag *flag, const void *base) {
    const char *value = (const char *)base + flag->offset;
    OWNED_BY(buffer_free) struct buffer text = {0};
    if (flag->type == FLAG_STRING_LIST) {
        const struct string_list *items = (const struct string_list *)(const void *)value;
        if (items->count > 0)
            string_list_add(out, flag->name);
        for (int64_t i = 0; i < items->count; i++)
            string_list_add(out, items->items[i]);
    } else if (flag->type == FLAG_BOOL || flag->type == FLAG_BOOL_OFF) {
        bool is_said = *(const bool *)value == (flag->type == FLAG_BOOL);
        buffer_printf(&text, "%s%s", flag->name, is_said ? "" : "=false");
        string_list_add(out, buffer_string(&text));
    } else {
        flag_format(flag, base, &text);
        const char *written = buffer_string(&text);
        if (strncmp(written, "--", 2) == 0) {
            OWNED char *joined = memory_printf("%s=%s", flag->name, written);
            string_list_add(out, joined);
        } else {
            string_list_add(out, flag->name);
            string_list_add(out, written);
        }
    }
}

// Puts flags from files before the command's own, where they take effect as before, and drops --config.
static void write_out(void *context, const struct flag_command *flags, const void *options) {
    struct launch_command *command = context;
    if (!command->is_elsewhere)
        return;
    for (size_t t = 0; t < flags->table_count; t++) {
        const struct flag_table *table = &flags->tables[t];
        const char *base = (const char *)options + table->base;
        const struct flag_given *given = (const struct flag_given *)(const void *)(base + table->given);
        const struct flag *flag;
        for (size_t i = 0; (flag = flag_at(&table->rows, i)); i++)
            if (given->source[i] == FLAG_FROM_FILE)
                write_row(&command->written, flag, base);
    }
    size_t room = (size_t)command->rest_count + (size_t)command->written.count + 6;
    char **rest = memory_alloc(sizeof *rest * room);
    int count = 0, i = 1;
    rest[count++] = command->rest[0];
    for (int64_t w = 0; w < command->written.count; w++)
        rest[count++] = command->written.items[w];
    for (; i < command->rest_count; i++) {
        if (strcmp(command->rest[i], "--config") == 0)
            i++;
        else if (strncmp(command->rest[i], "--config=", 9) != 0)
            rest[count++] = command->rest[i];
    }
    free(command->rest);
    command->rest = rest;
    command->rest_count = count;
}

// Whether the words after the command's name ask for its help, or a part's: `bench matmul --help`.
static bool asks_for_help(const struct launch_command *command) {
    for (int i = 1; i < command->rest_count; i++)
        if (flag_text_asked(command->rest[i]) != FLAG_TEXT_NONE)
            return true;
    return false;
}

// The last file of --config; NULL if there is none.
static const char *config_of(const struct launch_command *command) {
    const char *path = NULL;
    for (int i = 1; i < command->rest_count; i++) {
        bool is_next = strcmp(command->rest[i], "--config") == 0 && i + 1 < command->rest_count;
        path = is_next                                          ? command->rest[i + 1]
               : strncmp(command->rest[i], "--config=", 9) == 0 ? command->rest[i] + 9
                                                                : path;
    }
    return path;
}

// Takes the parsed flags of a command: writes out those from files, and notes the journal of preprocess.
struct launch_reading {
    struct launch_command *command;
    char **journal;
};

static void read_flags(void *context, const struct flag_command *flags, const void *options) {
    const struct launch_reading *reading = context;
    if (strcmp(flags->name, "preprocess") != 0)
        return;
    write_out(reading->command, flags, options);
    *reading->journal = preprocess_journal(options);
}

int launch_check(struct launch_command *command, char **journal) {
    const struct launched *launched = find_command(command->rest[0]);
    const struct command_part *part = command_find(command->rest[0]);
    char **words = command->rest;
    int count = command->rest_count;
    *journal = NULL;
    // Not getdata, and the flags of train are checked with the job.
    if (!part || strcmp(part->name, "train") == 0)
        return 0;
    bool asks = asks_for_help(command), is_preprocess = strcmp(part->name, "preprocess") == 0;
    // Without a part the command itself lists its parts.
    bool has_part = count > 1 && flag_text_asked(words[1]) == FLAG_TEXT_NONE;
    const struct command_part *called = part;
    if (part->group && (has_part || !asks)) {
        called = command_group_find(part->group, has_part ? words[1] : "");
        TRY(called ? 0 : -1);
    }
    if (asks && !is_preprocess)
        return command_part_run(part, count, words) == EXIT_CODE_OK ? FLAGS_HELP : -1;
    if (!launched->is_checked || (!is_preprocess && command->is_elsewhere && config_of(command)))
        return 0;
    int skipped = called != part;
    struct launch_reading reading = {command, journal};
    return command_check(called->command, &(struct command_reader){command->flag_remedy, read_flags, &reading},
                         count - skipped, words + skipped);
}

// An example file has a comment with its command: the message about missing machines quotes it.
static void name_command(const char *path, struct buffer *out) {
    enum { LARGEST_BYTES = 1 << 20 };
    static const char begin[] = "# bevatron launch ";
    OWNED_BY(buffer_free) struct buffer text = {0};
    const char *line = path && file_read_all(path, LARGEST_BYTES, &text) == 0 ? strstr(buffer_string(&text), begin) : 0;
    if (line)
        buffer_printf(out, "; %s is meant for `%.*s`", path, (int)strcspn(line + 2, "\r\n"), line + 2);
    error_clear();
}

static bool asks_for_machines(const struct launch_command *command) {
    static const char *const flags[] = {"--nodes", "--machine", "--gpus-per-node", "--ntasks-per-node", "--gpus"};
    for (int i = 1; i < command->own_count; i++)
        for (size_t k = 0; k < sizeof flags / sizeof flags[0]; k++)
            if (strncmp(command->own[i], flags[k], strlen(flags[k])) == 0)
                return true;
    return false;
}

static int check_ranks(const struct config *config, const struct launch_command *command, int64_t ranks) {
    int64_t parts = config_model_ranks(config);
    OWNED_BY(buffer_free) struct buffer example = {0};
    bool is_whole = ranks % parts == 0;
    if (is_whole && asks_for_machines(command))
        return 0;
    name_command(config_of(command), &example);
    if (is_whole)
        log_info("note: the job is one rank on one machine; --nodes N --machine TYPE ask for more%s",
                 buffer_string(&example));
    else
        error_set_code(EXIT_CODE_USAGE,
                       "the flags split the model over %" PRId64
                       " ranks (tensor × pipeline × context parallelism), and the job has %" PRId64
                       "; give --nodes N --machine TYPE with %" PRId64 " GPUs or a multiple of it%s",
                       parts, ranks, parts, buffer_string(&example));
    return is_whole ? 0 : -1;
}

int launch_config(struct config *config, struct launch_command *command, int64_t ranks) {
    const struct flag_table table = config_flag_table(0);
    struct flag_command train = train_command(&table);
    train.flag_remedy = command->flag_remedy;
    int status = flags_parse(&train, config, command->rest_count, command->rest);
    if (status == 0 && command->takes_machines)
        status = check_ranks(config, command, ranks);
    TRY(status);
    write_out(command, &train, config);
    TRY(config_apply_preset(config));
    // The run itself chooses values that are not given.
    struct automatic open;
    TRY(automatic_begin(&open, config));
    return config_validate(config, (int)ranks);
}

int launch_refuse_memory(const struct config *config) {
    return config->run.checkpoint_in_memory
               ? error_set_code(EXIT_CODE_USAGE, "--checkpoint-in-memory works with launch local and, outside "
                                                 "containers, launch slurm: a process outlives "
                                                 "the ranks and keeps their memory; leave it out")
               : 0;
}

int launch_resume(struct launch_command *command, const struct config *config) {
    struct config run = *config;
    if (config->run.save && !config->run.load) {
        launch_command_add(command, "--load", config->run.save);
        run.run.load = config->run.save;
    }
    bool is_copy = config->run.load && config->run.save_to && file_is_same_path(config->run.load, config->run.save_to);
    if (config->run.save && config->run.load && !is_copy && !file_is_same(config->run.load, config->run.save))
        log_warn("a restart cannot resume from --load %s; give --pretrained-checkpoint %s --load %s, so that the same "
                 "command starts and resumes",
                 config->run.load, config->run.load, config->run.save);
    return command->is_elsewhere ? 0 : save_folder_check(&run);
}

int launch_run(const struct launch_call *call, int argc, char **argv) {
    struct config config = {0};
    struct launch_command command;
    split(&command, call->flags->tables, argc, argv);
    int status = flags_parse(call->flags, call->options, command.own_count, command.own), exit_code = EXIT_CODE_OK;
    if (status == 0)
        status = exit_code = call->launch(call->options, &command, &config);
    if (status < 0)
        exit_code = command_failed();
    const struct flag_table table = config_flag_table(0);
    const struct flag_command train = train_command(&table);
    flags_free(&train, &config);
    flags_free(call->flags, call->options);
    free(command.own);
    free(command.rest);
    string_list_free(&command.written);
    return exit_code;
}
