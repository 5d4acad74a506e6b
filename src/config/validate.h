// Shared by the files of the validation: the list of complaints, and the steps in order. Each step derives as much as
// it can even after a complaint, so that one error does not hide the next.
#ifndef CONFIG_VALIDATE_H
#define CONFIG_VALIDATE_H

#include "config/complaints.h"
#include "config/config.h"

// The divisors of a number up to 1024, as many as fit into the text: "1, 2, 3, 6". Returns the text.
const char *divisors(int64_t number, char *text, size_t size);
// The divisor of a number, and the multiple above 0 of a unit, nearest to the wanted value.
int64_t nearest_divisor(int64_t number, int64_t wanted);
int64_t nearest_multiple(int64_t wanted, int64_t unit);

// Flags that the model's family does not have, and families that are not named.
void validate_family(const struct config *config, struct complaints *complaints);
// In config_layers.c: the layers that --hybrid-layer-pattern names.
void validate_hybrid(struct config *config, struct complaints *complaints);
// The form of the model; completes its sizes.
void validate_model(struct config *config, struct complaints *complaints);
// In deepspeed.c: the effect of --zero-stage and --pp-partition-method here.
void validate_deepspeed(struct config *config, struct complaints *complaints);
// Data-parallel size, batch sizes and ramp-up; needs world_size.
void validate_batches(struct config *config, enum config_use use, struct complaints *complaints);
// In batch_steps.c: reads --step-batch-size-schedule, and counts the iterations of --train-samples with it.
void validate_batch_steps(struct config *config, struct complaints *complaints);
int64_t batch_steps_iterations(const struct config *config);
// The stages of a pipeline and their schedule; needs the model and the batch sizes.
void validate_pipeline(const struct config *config, struct complaints *complaints);
// Limits of the operations and of memory; needs the model, the batch sizes and, once it is known, the vocabulary.
void validate_size(const struct config *config, struct complaints *complaints);
// Length of the run, learning-rate and weight-decay schedules; needs the batch sizes.
void validate_schedule(struct config *config, struct complaints *complaints);
// --tokens as iterations or samples; needs the batch sizes.
void derive_length_of_tokens(struct config *config);
// Sizes that fp8 and fp4 matmuls can have; needs the model and the batch sizes.
void validate_fp8(const struct config *config, struct complaints *complaints);
// Rotary positions (validate_attention.c); completes the factor of LongRoPE.
void validate_rope(struct config *config, struct complaints *complaints);
// The attention of tokens (validate_attention.c).
void validate_attention(struct config *config, struct complaints *complaints);
// Sizes of mixtures of experts, and the ranks that they are split over; needs the model.
void validate_experts(struct config *config, struct complaints *complaints);
// Injected faults; needs the number of ranks and the length of the run.
void validate_inject(const struct config *config, enum config_use use, struct complaints *complaints);
// Refuses flags of features that are not implemented, and names those without effect.
void validate_features(const struct config *config, struct complaints *complaints);

// Rules between flags, as rows: one flag needs, belongs to or excludes another, or has no effect without or with it.
// Rules that need computation are in validate_*.c.
//
// A row is written as on a command line. A term, "--gated-linear-unit", "--softmax-type learnable" or "--model bert
// --bert-no-binary-head", holds if each of its flags holds: one with values ("--optimizer muon|adaptive_muon") if it
// has one of them (a list: contains), one without if it differs from its default. Commas separate terms.

enum rule_kind {
    RULE_NEEDS,      // refused unless one of the others holds
    RULE_BELONGS,    // like RULE_NEEDS, but useless without it: the remedy is to leave it out
    RULE_EXCLUDES,   // refused together with one of the others
    RULE_IDLE,       // a warning if the user gave it and none of the others holds
    RULE_IDLE_WITH,  // a warning if the user gave it and one of the others holds
};

struct flag_rule {
    enum rule_kind kind;
    const char *flags;   // terms; the rule holds for each of them
    const char *others;  // terms
    const char *why;     // appended to the others, e.g. ", the folder of …"; with ";" it has the remedy, too
    const char *when;    // terms; the rule applies if one of them holds. NULL: always
    unsigned uses;       // the rule also holds for each flag that has one of these (enum flag_use)
};

// The tables (rules_table.c); each ends with a row without flags. Those of training apply only to CONFIG_TRAIN, those
// of data not to CONFIG_GENERATE: other commands read the same files and do not use these flags.
extern const struct flag_rule rules_always[], rules_of_data[], rules_of_training[];

void rules_check(const struct flag_rule *rules, const struct config *config, struct complaints *complaints);

// DeepSpeed's configuration file (--deepspeed --deepspeed_config FILE) in a run of Megatron-DeepSpeed. There DeepSpeed
// clips gradients, scales the loss and shards states by its file, whatever Megatron's flags are, so here the file wins,
// too, with a note where a flag differs. Its batch sizes and its precision must equal those of the flags. Members that
// tune speed or logs are ignored; unknown members, and those that would change the run, are refused by name.

// Reads config->machine.deepspeed_config if --deepspeed is given; config_apply_preset calls this.
int config_apply_deepspeed(struct config *config);
// Applies a file that has been read; errors call it `name`.
int deepspeed_apply(struct config *config, const struct json *file, const char *name);

#endif
