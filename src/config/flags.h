// The flags of a run: one row each, in the tables flags_*.c, one of a subject. A row says everything about its flag:
// name, field, default, range, help, and its uses. There are no other lists of flags: code that needs some of them
// iterates over the rows. Names are Megatron-LM's; where its default depends on its version, the row has that of the
// classic releases (--eval-interval 1000). Rows marked ADVANCED are not in the short --help; rows marked NOT_YET accept
// only the default, until the feature is built. Other names of these flags are in flags_synonyms.c,
// Megatron's flags without a row in flags_megatron.c.
#ifndef CONFIG_FLAGS_H
#define CONFIG_FLAGS_H

#include "config/flag.h"
#include "config/model_value.h"
#include <stddef.h>
#include <stdint.h>

// Bits of a row's `uses`.
enum flag_use {
    USE_MODEL = 1 << 0,      // describes the model: a checkpoint and a run that loads it agree on it (model/likeness.h)
    USE_FAMILY = 1 << 1,     // and if a Hugging Face family does not mention it, it has its default there
    USE_EXPERTS = 1 << 2,    // has no effect without experts
    USE_STORED = 1 << 3,     // storage of the model and its states in a checkpoint; loading weights alone converts
    USE_TOKENIZER = 1 << 4,  // text to tokens: taken from a checkpoint if it is not given
    USE_TRAINING = 1 << 5,  // used only in training: taken from a checkpoint, so that no run resumes with other dropout
    USE_WATCHED = 1 << 6,   // chooses samples or affects the update: a resumed run reports a difference in it
    // Offered by commands that do not train, like flags of the model and the tokenizer.
    USE_ANYWHERE = 1 << 7,
    USE_EVALUATE = 1 << 8,   // by evaluate: the text, and its division into samples
    USE_ESSENTIAL = 1 << 9,  // in the short --help of these commands, which take their model from a checkpoint
    USE_BENCH = 1 << 10,     // in the short --help of bench
};

// Meaning of a model's flag beyond its value (model/likeness.c).
enum flag_meaning {
    MEANS_ITSELF,
    MEANS_NOTHING,  // none alone: it is a spelling of others
    MEANS_FORM,
    MEANS_OF_ICT,
    MEANS_LAYERS,
    MEANS_ENCODER_LAYERS,
    MEANS_DECODER_LAYERS,
    MEANS_WORD_WIDTH,
    MEANS_DENSE_WIDTH,
    MEANS_HEADS,
    MEANS_GROUPS,
    MEANS_LENGTH,
    MEANS_ROPE,
    MEANS_SCALED_ROPE,
    MEANS_LOCAL_ROPE,
    MEANS_NO_ROPE,
    MEANS_RELATIVE,
    MEANS_ALIBI,
    MEANS_WINDOWS,
    MEANS_SCALE,
    MEANS_LATENT,
    MEANS_LATENT_EPSILON,
    MEANS_ACTIVATION,
    MEANS_HEAD_ACTIVATION,
    MEANS_GATE,
    MEANS_GATED,
    MEANS_QKV_BIAS,
    MEANS_ATTENTION_BIAS,
    MEANS_MLP_BIAS,
    MEANS_OUTPUT_BIAS,
    MEANS_NO_BINARY_HEAD,
    MEANS_TYPES,
    MEANS_EXPERT_LAYERS,
    MEANS_EXPERT_WIDTH,
    MEANS_SOFTMAX_ROUTER,
    MEANS_ROUTER_FACTOR,
    MEANS_ROUTER_GROUPS,
    MEANS_GROUP_BEST,
};

// Upper bounds that only prevent arithmetic overflow: real runs do not come near them.
enum { MOST_LAYERS = 100000, MOST_RANKS = 1 << 20, MOST_TOKENS = 1 << 30 };

// The rows by subject, in the order of --help; each table leads to the next.
extern const struct flag_rows flags_model, flags_experts, flags_training, flags_data, flags_checkpoints, flags_report,
    flags_machine;

extern const struct flag_alias flags_aliases[];     // of flags_synonyms.c; ends with a row without a name
extern const struct flag_synonym flags_synonyms[];  // of flags_synonyms.c; its last row has no names

// Megatron's flags without a row, from flags_megatron.c; spaces separate them.
extern const char flags_always_so[];
extern const char flags_only_speed[];
extern const char flags_no_meaning[];
extern const char flags_finer[];
extern const char flags_other_models[];
extern const char flags_torchrun[];
extern const char flags_refused[];

// Flags of Megatron's forks.
extern const char flags_forks_always_so[];
extern const char flags_forks_only_speed[];
extern const char flags_forks_no_meaning[];
extern const char flags_forks_other_models[];
extern const char flags_finetuning[];
extern const char flags_pai_dataset[];
extern const char flags_deepspeed_checkpoint[];
extern const char flags_deepspeed_experts[];
extern const char flags_distillation[];

// ---- published models by name; internal to this folder ----

struct preset {
    const char *name;
    int64_t layers, hidden, heads, positions;
    int64_t vocabulary;      // rows of the released embedding: a plan uses it as the tokenizer's size
    int64_t vocab_multiple;  // --make-vocab-size-divisible-by
    const char *kind;        // flags of its family, "--flag value …"
    const char *more;        // flags of its own, or ""
    const char *parameters;  // as published
    const char *source;
};

// A family named by --model that is another form with other flags.
struct preset_family {
    enum config_form name, form;
    const char *kind;  // "--flag value …"
};

// Row i of each table, NULL after the last.
const struct preset *preset_at(size_t i);
const struct preset_family *preset_family_at(size_t i);

#endif
