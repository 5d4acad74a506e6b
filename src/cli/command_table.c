// All commands; see commands.h.
#include "cli/commands.h"

#include <string.h>

const struct command_part command_table[] = {
    {"Data", NULL, NULL},
    {"extract", "wiki: converts a Wikipedia dump to JSON Lines", cmd_extract},
    {"tokenizer", "train|dictionary|encode|decode|convert|inspect: trains and runs tokenizers", cmd_tokenizer},
    {"preprocess", "tokenizes JSON Lines into a dataset (.bin/.idx)", cmd_preprocess},
    {"dataset", "inspect|verify|merge|peek|import: inspects, checks, joins and imports datasets", cmd_dataset},
    {"Models", NULL, NULL},
    {"train", "trains a model; resumes one with --load", cmd_train},
    {"evaluate", "computes loss and perplexity of a checkpoint", cmd_evaluate},
    {"generate", "generates text from a checkpoint", cmd_generate},
    {"checkpoint", "inspect|verify|convert|reshard|average: inspects, verifies and converts checkpoints",
     cmd_checkpoint},
    {"board", "shows the curves of all runs below a folder in a browser (--logdir DIR)", cmd_board},
    {"Machines", NULL, NULL},
    {"plan", "tells memory, time and cost of a run before it is started", cmd_plan},
    {"launch", "local|slurm|kubernetes: starts a run here or on a cluster, and restarts it when it fails", cmd_launch},
    {"preflight", "checks a machine or an allocation before a run: GPUs, network, disks, data", cmd_preflight},
    {"bench", "collectives|matmul|step: measures collectives, matmuls and training steps", cmd_bench},
    {"cluster", "prepare|create|status|ssh|logs|delete|…: manages AWS ParallelCluster and images", cmd_cluster},
    {"This program", NULL, NULL},
    {"version", "prints what was built in and which libraries this machine has", cmd_version},
    {"help", "explains a command (help train) and lists flags, presets and commands (help flags)", cmd_help},
};
const struct command_part help_topics[] = {
    {"flags", "all flags of train", NULL},
    {"presets", "published models, for --preset", NULL},
    {"commands", "every command and part, one per line", NULL},
    {"files", "where the documents and examples that came with this program are", NULL},
    {NULL, NULL, NULL},
};
const size_t command_table_count = sizeof command_table / sizeof command_table[0];

const struct command_part *command_find(const char *name) {
    for (size_t i = 0; i < command_table_count; i++)
        if (command_table[i].run && strcmp(command_table[i].name, name) == 0)
            return &command_table[i];
    return NULL;
}
