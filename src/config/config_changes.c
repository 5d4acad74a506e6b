// Settings in which a resumed run differs from the one that wrote its checkpoint. Such changes are allowed, and often
// intended, but an unnoticed one trains on samples twice, or on others than the log says.
#include "config/config.h"
#include "base/error.h"
#include "base/file.h"
#include <string.h>

// Flags that choose samples or make the update. Those of the model and of the schedules are checked elsewhere, and are
// errors.
static const char *const watched[] = {
    "--seed",
    "--seq-length",
    "--decoder-seq-length",
    "--global-batch-size",
    "--rampup-batch-size",
    "--step-batch-size-schedule",
    "--data-path",
    "--train-data-path",
    "--data-args-path",
    "--per-split-data-args-path",
    "--train-weighted-split-paths",
    "--train-weighted-split-paths-path",
    "--split",
    "--json-keys",
    "--mock-data",
    "--fim-data",
    "--fim-rate",
    "--fim-spm-rate",
    "--fim-split-sample",
    "--fim-fragment-rate",
    "--fim-no-prefix",
    "--fim-prefix-token",
    "--fim-middle-token",
    "--fim-suffix-token",
    "--fim-pad-token",
    "--fim-eod-token",
    "--tokenizer-type",
    "--eod-mask-loss",
    "--reset-position-ids",
    "--reset-attention-mask",
    "--mask-prob",
    "--short-seq-prob",
    "--sample-break-mode",
    "--leave-unmasked-prob",
    "--random-token-prob",
    "--mask-whole-words",
    "--titles-data-path",
    "--query-in-block-prob",
    "--use-one-sent-docs",
    "--hidden-dropout",
    "--attention-dropout",
    "--fast-attention-dropout",
    "--moe-router-load-balancing-type",
    "--moe-aux-loss-coeff",
    "--moe-z-loss-coeff",
    "--moe-input-jitter-eps",
    "--moe-expert-capacity-factor",
    "--moe-token-drop-policy",
    "--moe-router-bias-update-rate",
    "--mtp-loss-scaling-factor",
    "--clip-grad",
    "--ema-decay",
    "--eval-with-ema",
    "--sgd-momentum",
    "--lion-beta1",
    "--lion-beta2",
    "--muon-momentum",
    "--muon-nesterov",
    "--muon-scale-mode",
    "--muon-extra-scale-factor",
    "--muon-coefficient-type",
    "--muon-num-ns-steps",
    "--muon-no-split-qkv",
    "--muon-fp32-matmul-prec",
    "--adaptive-muon-beta2",
    "--adaptive-muon-eps",
    "--qk-clip",
    "--qk-clip-alpha",
    "--qk-clip-threshold",
    "--adam-beta1",
    "--adam-beta2",
    "--adam-eps",
    "--exp-avg-dtype",
    "--exp-avg-sq-dtype",
    "--bf16",
    "--fp16",
};

// ./d/x is the dataset d/x.
static bool names_same_files(const struct config *config, const struct config *before, const struct flag *flag) {
    const void *own = (const char *)config + flag->offset, *other = (const char *)before + flag->offset;
    if (flag->type == FLAG_STRING) {
        const char *const *here = own, *const *there = other;
        return *here && *there && file_is_same_path(*here, *there);
    }
    if (flag->type != FLAG_STRING_LIST)
        return false;
    const struct string_list *here = own, *there = other;
    bool same = here->count == there->count;
    for (int64_t i = 0; same && i < here->count; i++)
        same = file_is_same_path(here->items[i], there->items[i]);
    return same;
}

static void compare(const struct config *config, const struct config *before, const struct flag *flag,
                    struct buffer *out) {
    struct buffer here = {0}, there = {0};
    flag_show(flag, config, &here);
    flag_show(flag, before, &there);
    if (strcmp(buffer_string(&here), buffer_string(&there)) != 0 && !names_same_files(config, before, flag))
        buffer_printf(out, "%s%s is %s there and %s here", out->length ? ", " : "", flag->name, buffer_string(&there),
                      buffer_string(&here));
    buffer_free(&here);
    buffer_free(&there);
}

void config_list_changes(const struct config *config, const char *json, struct buffer *out) {
    struct config before;
    struct flag_table table = config_flag_table(0);
    config_defaults(&before);
    // A file of another version may say what this one does not know; what it does know is compared nevertheless.
    if (flags_read_text(config_command(), &before, "config.json", json, strlen(json)) < 0)
        error_clear();
    for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++) {
        const struct flag *flag = flag_find(&table, watched[i]);
        CHECK(flag != NULL);
        compare(config, &before, flag, out);
    }
    config_free(&before);
}
