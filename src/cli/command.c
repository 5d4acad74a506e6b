// Shared by the commands: failing, choosing a part, parsing and running. See commands.h.
#include "base/error.h"
#include "base/file_patience.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/phase.h"
#include "base/words.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "config/flag_docs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int command_failed(void) {
    // A failure never exits with 0, even if its message was lost.
    if (error_exit_code() == EXIT_CODE_OK)
        error_set("the command failed without a message; please report it with the command line");
    log_error("bevatron: %s", error_message());
    return error_exit_code();
}

static void print_usage(const struct command_group *group, FILE *out) {
    fprintf(out, "usage: bevatron %s %s\n\n", group->name, group->usage);
    for (const struct command_part *part = group->parts; part->name; part++)
        fprintf(out, "  %-11s %s\n", part->name, part->summary);
    fprintf(out, "\n%s\n", group->ending);
}

static void print_man(const struct command_group *group) {
    OWNED_BY(buffer_free) struct buffer out = {0}, label = {0};
    man_begin(group->name, group->summary, &out);
    buffer_printf(&out, "\\fBbevatron %s\\fR ", group->name);
    man_text(group->usage, &out);
    buffer_append_string(&out, ".SH DESCRIPTION\n");
    man_text(group->summary, &out);
    man_text(group->ending, &out);
    buffer_append_string(&out, ".SH COMMANDS\n");
    for (const struct command_part *part = group->parts; part->name; part++) {
        buffer_clear(&label);
        man_page_name(group->name, &label);
        buffer_printf(&label, "-%s(1)", part->name);
        man_item(label.data, part->summary, &out);
    }
    buffer_append_string(&out, ".SH SEE ALSO\n\\fBbevatron\\fR(1)\n");
    fputs(buffer_string(&out), stdout);
}

// The group's own part of a completion script, or its name; its parts print theirs.
static int print_parts(const struct command_group *group, enum flag_text text, char *argument) {
    OWNED_BY(buffer_free) struct buffer out = {0};
    struct completion completion = {.shell = text, .command = group->name, .out = &out};
    if (text == FLAG_TEXT_NAME) {
        buffer_printf(&out, "%s\n", group->name);
    } else {
        completion_begin(&completion);
        for (const struct command_part *part = group->parts; part->name; part++)
            completion_part(&completion, part->name, part->summary);
        completion_end(&completion);
    }
    fputs(buffer_string(&out), stdout);
    int exit_code = EXIT_CODE_OK;
    for (const struct command_part *part = group->parts; part->name && exit_code == EXIT_CODE_OK; part++) {
        char *argv[] = {(char *)(uintptr_t)part->name, argument, NULL};
        exit_code = command_part_run(part, 2, argv);
    }
    return exit_code;
}

const struct command_part *command_group_find(const struct command_group *group, const char *name) {
    struct nearest nearest = nearest_begin(name, strlen(name));
    for (const struct command_part *part = group->parts; part->name; part++) {
        if (strcmp(part->name, name) == 0)
            return part;
        nearest_consider(&nearest, part->name);
    }
    const char *remedy = command_remedy(group->name, name);
    if (!*name)
        error_set_code(EXIT_CODE_USAGE, "%s needs a command; `bevatron %s --help` lists them", group->name,
                       group->name);
    else if (remedy)
        error_set_code(EXIT_CODE_USAGE, "there is no command \"%s %s\"; %s", group->name, name, remedy);
    else
        error_set_code(EXIT_CODE_USAGE, "there is no command \"%s %s\"; %s%s%s`bevatron %s --help` lists them",
                       group->name, name, nearest.best ? "did you mean " : "", nearest.best ? nearest.best : "",
                       nearest.best ? "? " : "", group->name);
    return NULL;
}

// Runs the part that argv[1] names, or lists the parts.
static int run_group(const struct command_group *group, int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    enum flag_text text = flag_text_asked(name);
    if (text == FLAG_TEXT_MAN)
        print_man(group);
    else if (text >= FLAG_TEXT_NAME)
        return print_parts(group, text, argv[1]);
    else if (text != FLAG_TEXT_NONE)
        print_usage(group, stdout);
    if (text != FLAG_TEXT_NONE)
        return EXIT_CODE_OK;
    const struct command_part *part = command_group_find(group, name);
    if (part)
        return command_part_run(part, argc - 1, argv + 1);
    if (*name)
        (void)command_failed();
    print_usage(group, stderr);
    return EXIT_CODE_USAGE;
}

int command_part_run(const struct command_part *part, int argc, char **argv) {
    return part->main    ? part->main(argc, argv)
           : part->group ? run_group(part->group, argc, argv)
                         : command_run(part->command, argc, argv);
}

struct flag_command command_flags(const struct command *command, struct flag_table tables[2]) {
    struct flag_command flags = command->flags;
    memcpy(tables, command->tables, sizeof command->tables);
    flags.tables = tables;
    flags.table_count = tables[0].rows.count > 0 ? 1 : 0;
    if (command->shared) {
        struct flag_table *place = &tables[flags.table_count++];
        *place = command->shared(command->shared_at);
        place->offered = command->offered ? command->offered : place->offered;
    }
    if (command->tables[1].rows.count > 0)
        flags.table_count = 2;
    return flags;
}

static int run_each(const struct command *command, const char *options) {
    const struct string_list *items =
        (const struct string_list *)(const void *)(options + command->flags.positional_offset);
    int exit_code = EXIT_CODE_OK;
    for (int64_t i = 0; i < items->count; i++) {
        if (command->run_each(options, items->items[i]) == 0)
            continue;
        int code = command_failed();
        exit_code = exit_code == EXIT_CODE_OK ? code : exit_code;
    }
    return exit_code;
}

int command_run(const struct command *command, int argc, char **argv) {
    struct flag_table tables[2];
    const struct flag_command flags = command_flags(command, tables);
    struct session session;
    // Ranks first: notes about the flags are printed by rank 0 alone.
    if (command->run_ranks && session_start(&session) < 0)
        return command_failed();
    OWNED void *options = memory_alloc(command->options_bytes);
    int status = flags_parse(&flags, options, argc, argv);
    bool shows_phase = command->phase && !(command->is_in_the_way && (isatty(STDIN_FILENO) || isatty(STDOUT_FILENO)));
    struct phase *phase = status == 0 && shows_phase ? phase_begin(command->phase) : NULL;
    struct file_patience patience = {0};
    file_patience_begin(&patience);
    if (status == 0)
        status = command->run_each    ? run_each(command, options)
                 : command->run_ranks ? command->run_ranks(options, &session)
                                      : command->run(options);
    else if (status == FLAGS_HELP)
        status = EXIT_CODE_OK;
    file_patience_end(&patience);
    phase_end(phase);
    int exit_code = status >= 0 ? status : command->run_ranks ? session_failed(&session) : command_failed();
    if (command->run_ranks)
        session_close(&session);
    flags_free(&flags, options);
    return exit_code;
}

int command_check(const struct command *command, const struct command_reader *reader, int argc, char **argv) {
    struct flag_table tables[2];
    struct flag_command flags = command_flags(command, tables);
    OWNED void *options = memory_alloc(command->options_bytes);
    flags.flag_remedy = reader->flag_remedy;
    int status = flags_parse(&flags, options, argc, argv);
    if (status == 0 && reader->read)
        reader->read(reader->context, &flags, options);
    flags_free(&flags, options);
    return status;
}

void command_print_verdict(const char *kind, const char *name, const char *error) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    struct json_writer json = {.out = &text};
    json_begin_object(&json);
    json_put_string(&json, kind, name);
    json_put_bool(&json, "is_whole", !error);
    json_put_string(&json, "error", error);
    json_end_object(&json);
    puts(buffer_string(&text));
}

// ---- the table ----

// All commands; see commands.h.

static const struct command_part checkpoint_parts[] = {
    {"inspect", "prints iterations, state, files and tensors of checkpoints", .command = &cmd_checkpoint_inspect},
    {"verify", "compares every file with the size and SHA-256 in its manifest", .command = &cmd_checkpoint_verify},
    {"convert", "converts to and from Hugging Face and Megatron-LM, and to GGUF", .command = &cmd_checkpoint_convert},
    {"reshard", "copies a checkpoint into a different number of files", .command = &cmd_checkpoint_reshard},
    {"average", "averages the weights of several checkpoints", .command = &cmd_checkpoint_average},
    {0},
};
static const struct command_group checkpoint = {
    .name = "checkpoint",
    .summary = "Inspects, verifies and converts checkpoints.",
    .usage = "COMMAND …",
    .ending = "Name a checkpoint by its iter_… folder, or by the --save folder that holds it. Each command has --help.",
    .parts = checkpoint_parts,
};

static const struct command_part dataset_parts[] = {
    {"inspect", "prints documents, sequences, tokens, dtype and lengths of datasets", .command = &cmd_dataset_inspect},
    {"verify", "checks every entry and every token", .command = &cmd_dataset_verify},
    {"peek", "prints documents as ids or as text", .command = &cmd_dataset_peek},
    {"merge", "joins datasets into one", .command = &cmd_dataset_merge},
    {"import", "converts the output of fairseq-preprocess, or llm.c shards", .command = &cmd_dataset_import},
    {0},
};
static const struct command_group dataset = {
    .name = "dataset",
    .summary = "Inspects, checks, joins and imports datasets.",
    .usage = "COMMAND …",
    .ending = "Name a dataset by the path of its two files without .bin and .idx. Each command has --help.",
    .parts = dataset_parts,
};

static const struct command_part extract_parts[] = {
    {"wiki", "a Wikipedia or other MediaWiki dump to JSON Lines", .command = &cmd_extract_wiki},
    {0},
};
static const struct command_group extract = {
    .name = "extract",
    .summary = "Extracts text from dumps.",
    .usage = "wiki --input DUMP… --output FILE.jsonl [flags]",
    .ending = "`bevatron extract wiki --help` explains the flags.",
    .parts = extract_parts,
};

static const struct command_part tokenizer_parts[] = {
    {"train", "trains byte-level BPE on text", .command = &cmd_tokenizer_train},
    {"encode", "encodes text on standard input to ids", .command = &cmd_tokenizer_encode},
    {"decode", "decodes ids on standard input to text", .command = &cmd_tokenizer_decode},
    {"convert", "writes Hugging Face's tokenizer files", .command = &cmd_tokenizer_convert},
    {"inspect", "describes a tokenizer", .command = &cmd_tokenizer_inspect},
    {"dictionary", "counts the words of a text, as fairseq-preprocess does", .command = &cmd_tokenizer_dictionary},
    {0},
};
static const struct command_group tokenizer = {
    .name = "tokenizer",
    .summary = "Trains, runs, converts and describes tokenizers.",
    .usage = "COMMAND [flags]",
    .ending = "Each command has --help.",
    .parts = tokenizer_parts,
};

static const struct command_part launch_parts[] = {
    {"local", "starts ranks on this machine, and restarts them from the last checkpoint when they fail",
     .main = cmd_launch_local},
    {"slurm", "writes an sbatch script and submits it", .main = cmd_launch_slurm},
    {"kubernetes", "writes the manifest of a JobSet, Indexed Job, MPIJob or PyTorchJob and applies it",
     .main = cmd_launch_kubernetes},
    {"keeper", "for job scripts: holds checkpoints in a node's memory while ranks are restarted",
     .command = &cmd_launch_keeper},
    {"decide", "for job scripts: decides whether a run that ended is started again", .main = cmd_launch_decide},
    {"progress", "for job scripts and probes: exits with code 212 when a run makes no progress",
     .command = &cmd_launch_progress},
    {0},
};
static const struct command_group launch = {
    .name = "launch",
    .summary = "Starts a run here or on a cluster, and restarts it when it fails.",
    .usage = "WHERE [flags] [train] flags of train…",
    .ending = "Each has --help.",
    .parts = launch_parts,
};

static const struct command_part bench_parts[] = {
    {"collectives", "bandwidth between ranks, as nccl-tests prints it", .command = &bench_collectives_flags,
     .main = cmd_bench_collectives},
    {"matmul", "time and TFLOP/s of matmuls, by dtype", .command = &cmd_bench_matmul},
    {"step", "time of a training step and, on a GPU, of its parts", .command = &cmd_bench_step},
    {0},
};
static const struct command_group bench = {
    .name = "bench",
    .summary = "Measures collectives, matmuls and training steps.",
    .usage = "COMMAND …",
    .ending = "Each command has --help.",
    .parts = bench_parts,
};

static const struct command_part cluster_parts[] = {
    {"prepare", "finds subnets, a key pair, a bucket and quotas in your account, and adds them to the file",
     .main = cmd_cluster_prepare},
    {"convert", "converts an INI file of ParallelCluster 2", .command = &cmd_cluster_convert},
    {"render", "prints the configuration and its cost; creates nothing", .command = &cmd_cluster_render},
    {"create", "shows the cost, asks, and creates the cluster", .command = &cmd_cluster_create},
    {"update", "changes a running cluster to what its file says now", .command = &cmd_cluster_update},
    {"list", "lists the clusters of a region", .command = &cmd_cluster_list},
    {"status", "shows the state of the cluster, its machines and their current cost", .command = &cmd_cluster_status},
    {"ssh", "opens a shell on the head node, or a tunnel to one of its ports", .command = &cmd_cluster_ssh},
    {"logs", "shows why a cluster or its machines did not start, and what to do", .command = &cmd_cluster_logs},
    {"start", "allows the queues to start machines again", .command = &cmd_cluster_start},
    {"stop", "terminates all machines of the queues; the head node and the disks stay", .command = &cmd_cluster_stop},
    {"delete", "deletes the cluster", .command = &cmd_cluster_delete},
    {"build-image", "builds a machine image that contains bevatron", .command = &cmd_cluster_build_image},
    {"push-image", "pushes a container image to Amazon's registry (ECR) or another one",
     .command = &cmd_cluster_push_image},
    {"volume", "makes FSx for Lustre a volume claim of Kubernetes", .command = &cmd_cluster_volume},
    {"export", "exports changed files of FSx for Lustre to its S3 bucket", .command = &cmd_cluster_export},
    {0},
};
static const struct command_group cluster = {
    .name = "cluster",
    .summary = "Manages AWS ParallelCluster.",
    .usage = "COMMAND [--config FILE] [flags]",
    .ending = "These commands run pcluster (and aws for export) with your credentials. Each has --help.",
    .parts = cluster_parts,
};

const struct command_part command_table[] = {
    {.name = "Data"},
    {"extract", "wiki: converts a Wikipedia dump to JSON Lines", .group = &extract},
    {"tokenizer", "train|dictionary|encode|decode|convert|inspect: trains and runs tokenizers", .group = &tokenizer},
    {"preprocess", "tokenizes JSON Lines into a dataset (.bin/.idx)", .command = &cmd_preprocess},
    {"dataset", "inspect|verify|merge|peek|import: inspects, checks, joins and imports datasets", .group = &dataset},
    {.name = "Models"},
    {"train", "trains a model; resumes one with --load", .main = cmd_train},
    {"evaluate", "computes loss and perplexity of a checkpoint", .command = &cmd_evaluate},
    {"generate", "generates text from a checkpoint", .command = &cmd_generate},
    {"checkpoint", "inspect|verify|convert|reshard|average: inspects, verifies and converts checkpoints",
     .group = &checkpoint},
    {"board", "shows the curves of all runs below a folder in a browser (--logdir DIR)", .command = &cmd_board},
    {"migrate", "reads a script that starts Megatron-LM and prints the command for bevatron", .command = &cmd_migrate},
    {.name = "Machines"},
    {"plan", "tells memory, time and cost of a run before it is started", .command = &cmd_plan},
    {"launch", "local|slurm|kubernetes: starts a run here or on a cluster, and restarts it when it fails",
     .group = &launch},
    {"preflight", "checks a machine or an allocation before a run: GPUs, network, disks, data",
     .command = &preflight_flags, .main = cmd_preflight},
    {"bench", "collectives|matmul|step: measures collectives, matmuls and training steps", .group = &bench},
    {"cluster", "prepare|create|status|ssh|logs|delete|…: manages AWS ParallelCluster and images", .group = &cluster},
    {.name = "This program"},
    {"version", "prints what was built in and which libraries this machine has", .main = cmd_version},
    {"help", "explains a command (help train) and lists flags, presets and commands (help flags)", .main = cmd_help},
    {0},
};
// What people type who come from other programs, and what to type here.
static const struct {
    const char *words, *remedy;
    const char *group;  // "" for the first word
} other_names[] = {
    {"pretrain fit run start", "use `bevatron train`", ""},
    {"finetune fine-tune", "use `bevatron train --load MODEL --finetune`", ""},
    {"sft chat-train lora dpo rlhf",
     "bevatron pretrains; `bevatron train --load MODEL --finetune` continues a model on text", ""},
    {"chat sample infer inference complete prompt ask", "use `bevatron generate --load RUN`", ""},
    {"serve server api deploy",
     "write the model for a server with `bevatron checkpoint convert`: --to gguf for "
     "llama.cpp, --to huggingface for vLLM",
     ""},
    {"download pull fetch hub",
     "download models and datasets with `hf download ORG/NAME --local-dir FOLDER`, and name the folder", ""},
    {"upload push",
     "write the model with `bevatron checkpoint convert --to huggingface`, and upload it with `hf upload`", ""},
    {"eval test validate perplexity ppl score", "use `bevatron evaluate --load RUN`", ""},
    {"convert export import quantize", "use `bevatron checkpoint convert`, or `bevatron dataset import` for tokens",
     ""},
    {"inspect show info", "use `bevatron checkpoint inspect`, `bevatron dataset inspect` or `bevatron version`", ""},
    {"merge average", "use `bevatron dataset merge` or `bevatron checkpoint average`", ""},
    {"tokenize prepare data pack", "use `bevatron preprocess` for a dataset, `bevatron tokenizer encode` for a text",
     ""},
    {"encode decode", "use `bevatron tokenizer encode` or `bevatron tokenizer decode`", ""},
    {"wandb tensorboard watch monitor dashboard ui logs", "use `bevatron board --logdir RUN`", ""},
    {"torchrun mpirun srun accelerate deepspeed", "use `bevatron train --nproc N`, or `bevatron launch` on a cluster",
     ""},
    {"doctor check", "use `bevatron preflight`", ""},
    {"presets models", "use `bevatron help presets`", ""},
    {"demo", "run `make demo` in the source tree", ""},
    {"-v -V", "use `bevatron version`", ""},
    {"info show stats ls", "use `bevatron dataset inspect`", "dataset"},
    {"head view print", "use `bevatron dataset peek`", "dataset"},
    {"list ls show info print", "use `bevatron checkpoint inspect`", "checkpoint"},
    {"export save import quantize", "use `bevatron checkpoint convert`", "checkpoint"},
    {"merge soup", "use `bevatron checkpoint average`", "checkpoint"},
    {"check test", "use `bevatron checkpoint verify`", "checkpoint"},
    {"delete remove rm prune", "a run keeps the last N with --keep-last N; remove the others' iter_… folders",
     "checkpoint"},
    {"build fit create", "use `bevatron tokenizer train`", "tokenizer"},
};

static bool has_word(const char *words, const char *word) {
    size_t length = strlen(word);
    for (const char *at = words; *at; at += strspn(at, " ")) {
        size_t here = strcspn(at, " ");
        if (here == length && memcmp(at, word, length) == 0)
            return true;
        at += here;
    }
    return false;
}

const char *command_remedy(const char *group, const char *name) {
    for (size_t i = 0; i < sizeof other_names / sizeof other_names[0]; i++)
        if (strcmp(other_names[i].group, group) == 0 && has_word(other_names[i].words, name))
            return other_names[i].remedy;
    return NULL;
}

const struct command_part help_topics[] = {
    {.name = "flags", .summary = "all flags of train"},
    {.name = "presets", .summary = "published models, for --preset"},
    {.name = "commands", .summary = "every command and part, one per line"},
    {.name = "files", .summary = "where the documents and examples that came with this program are"},
    {0},
};

bool command_is_heading(const struct command_part *part) {
    return !part->command && !part->group && !part->main;
}

const struct command_part *command_find(const char *name) {
    for (const struct command_part *part = command_table; part->name; part++)
        if (!command_is_heading(part) && strcmp(part->name, name) == 0)
            return part;
    return NULL;
}
