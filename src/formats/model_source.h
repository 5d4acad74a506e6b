// A model on disk in terms of our parameters: their names, shapes, and their elements one parameter at a time, so that
// a model of any size can be converted with memory for its largest tensor. It has five kinds: our own checkpoints,
// folders of Hugging Face (config.json and safetensors or torch files), checkpoints of Megatron-LM
// (mp_rank_…/model_optim_rng.pt with any tensor and pipeline parallelism, or distributed ones), files of llm.c's GPT-2,
// and RoBERTa of fairseq. Nothing in them is ever executed.
#ifndef FORMATS_MODEL_SOURCE_H
#define FORMATS_MODEL_SOURCE_H

#include "config/config.h"
#include "parallel/param.h"
#include "store/checkpoint.h"

struct source_tensor {
    const char *name;  // ours
    enum dtype dtype;
    int rank;
    int64_t shape[SHARD_MAX_RANK];
    size_t bytes;
};

// An optimizer's (Adam's) state per parameter.
enum source_state { STATE_EXP_AVG, STATE_EXP_AVG_SQ, STATE_MASTER, SOURCE_STATES };
extern const char *const source_state_names[SOURCE_STATES];  // "exp_avg", "exp_avg_sq", "master"

struct model_source {
    const char *kind;      // "bevatron", "huggingface", "megatron", "llm.c", "fairseq"
    char *path;            // the folder that was opened
    struct config config;  // the flags of the model and, if it has one, of its tokenizer; validated
    struct param_list params;
    struct source_tensor *tensors;  // one per parameter, in their order
    size_t count;
    size_t biases;                       // the last tensors are this many biases that balance experts, not parameters
    struct checkpoint_state state;       // iteration and samples; zero if the folder does not say
    struct checkpoint_file_list files;   // the tokenizer's and other files that belong to the model
    struct json *foreign_config;         // config.json of Hugging Face; NULL otherwise
    bool has_foreign_tokenizer;          // its token ids are those of the model's tokenizer
    bool has_bare_names;                 // Hugging Face: names of tensors are a base model's, without "model."
    struct buffer notes;                 // differences to the program that wrote the folder
    bool has_optimizer;                  // set by model_source_open_optimizer
    bool has_masters;                    // it keeps fp32 copies of 16-bit parameters
    bool leaves_depths;                  // see struct model_source_options
    struct buffer left;                  // files of the folder that are not among `files`, with the reasons
    const struct model_source_kind *of;  // its functions, e.g. to read tensors
    void *detail;
};

// The suffix of biases that balance experts. A requested type never rounds these tensors.
#define MODEL_EXPERT_BIAS ".mlp.router.expert_bias"
bool model_is_bias_of_experts(const char *name);

struct model_source_options {
    const char *path;
    int64_t step;             // --ckpt-step: -1 for the latest; not for Hugging Face
    int64_t attention_heads;  // for Megatron's oldest files, which lack it; 0 if not given
    bool skip_checksums;      // for our own checkpoints
    bool leaves_depths;       // multi-token prediction is left out
};

// Detects the kind of folder, reads its configuration, and checks that it has every parameter of the model in the right
// shape and nothing else. Errors name tensors that are missing, left over or of another shape.
int model_source_open(struct model_source *source, const struct model_source_options *options);
void model_source_close(struct model_source *source);  // safe on a zeroed one
// The index of a tensor; -1 if there is none.
int64_t model_source_find(const struct model_source *source, const char *name);
// Reads the elements of tensor i, row-major, into `to`, which holds its bytes.
int model_source_read(struct model_source *source, size_t i, void *to);
// Looks for an optimizer to resume with; sets has_optimizer, has_masters, and its steps and schedules in `state` and
// `config`. One that exists and cannot be used is an error; a folder without one is not.
int model_source_open_optimizer(struct model_source *source);
// Reads a state of tensor i, in the shape and order of the tensor.
int model_source_read_state(struct model_source *source, size_t i, enum source_state state, float *to);
// Fills named tensors on a device, as checkpoint_load_tensors does: all of the folder's, or, if `is_partial`, some.
int model_source_load(struct model_source *source, struct device *device, const struct checkpoint_tensor *tensors,
                      size_t count, bool is_partial);

// ---- writing ----

// Two models that must compute the same: the source, and the written one.
struct model_pair {
    const struct model_write *write;  // its source is the first
    struct model_source *written;     // the second, opened under its temporary name
    double tolerance;                 // of the second; 0: only for the order of summation
};

// The form in which gains of norms are written: the source's, as such, or as their distance from 1.
enum model_gains { GAINS_AS_THEY_ARE, GAINS_WHOLE, GAINS_CENTERED };

struct model_write {
    struct model_source *source;
    const char *folder;      // must not exist yet, or be empty; for our own format, the folder of --save
    bool has_dtype;          // otherwise every tensor keeps its own
    enum dtype dtype;        // fp32, bf16 or fp16
    bool is_q8;              // GGUF: blocks of 8-bit integers
    bool leaves_optimizer;   // our own format and Megatron's: write the weights alone
    const char *family;      // Hugging Face: NULL for the first that fits
    bool allows_near;        // a target that cannot express the model may come near
    uint64_t shard_bytes;    // limit for a file (Hugging Face) or a piece of a tensor (Megatron)
    int64_t vocab_size;      // Hugging Face: rows of the vocabulary to write; 0 for all
    enum model_gains gains;  // set by model_write_huggingface
    // Runs both models and compares their outputs, before the written one gets its name. NULL: not done.
    int (*compare)(void *context, const struct model_pair *pair);
    void *context;
};

// Our own format, with the optimizer's state if the source has it.
int model_write_ours(const struct model_write *write);
// A distributed checkpoint (torch_dist) that Megatron-LM loads on any layout, with the optimizer; `folder` is its
// --load.
int model_write_megatron(const struct model_write *write);
// config.json, model.safetensors (or several with an index) and the tokenizer's files, as from_pretrained expects them.
int model_write_huggingface(const struct model_write *write);
// Whether some family, or the requested one, can express the model.
bool model_fits_huggingface(const struct model_write *write);
// A GGUF file for llama.cpp, with the tokenizer; `folder` is its path.
int model_write_gguf(const struct model_write *write);

#endif
