// Settings in which a resumed run differs from the one that wrote its checkpoint. Flags that choose samples or affect
// the update may change, often intentionally, but an unnoticed change trains on samples twice, or on others than the
// log says. The format of stored states may not change. The model and the schedules are compared elsewhere.
#include "config/config.h"
#include "config/flags.h"
#include "base/error.h"
#include "base/file.h"
#include <string.h>

// ./d/x is the same dataset as d/x.
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
    config_defaults(&before);
    // A file of another version may have unknown members; the known ones are still compared.
    if (flags_read_text(config_command(), &before, "config.json", json, strlen(json)) < 0)
        error_clear();
    const struct flag *flag;
    for (size_t i = 0; (flag = flag_at(&before.given.rows, i)); i++)
        if (flag->uses & USE_WATCHED)
            compare(config, &before, flag, out);
    config_free(&before);
}

// Flags of one optimizer do not affect the states of another.
static bool is_storage_of(const struct config *config, const char *name) {
    bool is_adaptive = strcmp(config->run.optimizer, "adaptive_muon") == 0;
    if (strcmp(name, "--muon-scalar-optimizer") == 0)
        return is_adaptive || strcmp(config->run.optimizer, "muon") == 0;
    return is_adaptive || strcmp(name, "--adaptive-muon-moment2-method") != 0;
}

int config_check_storage(const struct config *config, const struct json *object, const char *name) {
    struct config before;
    struct buffer differences = {0};
    const struct flag *flag;
    config_defaults(&before);
    int status = config_from_json(&before, object);
    for (size_t i = 0; status == 0 && (flag = flag_at(&before.given.rows, i)); i++)
        if ((flag->uses & USE_STORED) && is_storage_of(config, flag->name))
            compare(config, &before, flag, &differences);
    if (status < 0)
        error_context("%s", name);
    else if (differences.length > 0)
        status = error_set("this run cannot resume from %s: %s; give the checkpoint's value or --use-checkpoint-args, "
                           "or start from its weights, converted, with --finetune",
                           name, buffer_string(&differences));
    buffer_free(&differences);
    config_free(&before);
    return status;
}
