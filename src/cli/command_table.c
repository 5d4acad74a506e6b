// All commands; see commands.h.
#include "cli/commands.h"

#include <string.h>

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
