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
