// Parameters get their factors by name. See param_factors.h.
#include "plan/param_factors.h"
#include "base/error.h"
#include "base/words.h"
#include "config/factors.h"

#include <string.h>

static bool matches_any(const struct param_list *params, const struct factor *factor) {
    for (int i = 0; i < params->count; i++)
        if (factor_matches(factor, params->items[i]->name))
            return true;
    return false;
}

static int count_dots(const char *text, size_t length) {
    int dots = 0;
    for (size_t i = 0; i < length; i++)
        dots += text[i] == '.';
    return dots;
}

// The end of a name with that many dots; all of it if it has no more.
static const char *end_of_name(const char *name, int dots) {
    const char *at = name + strlen(name);
    while (at > name && (at[-1] != '.' || dots-- > 0))
        at--;
    return at;
}

// Megatron-LM's flag for the norms of queries and keys; see flags_aliases.c.
static const char QK_NORMS[] = "*.[qk]_layernorm.*=1";

// Compares the part after the last wildcard with the ends of names.
static int refuse(const struct param_list *params, const struct factor *factor, const char *flag, const char *item) {
    if (strcmp(flag, "--wd-mult") == 0 && strcmp(item, QK_NORMS) == 0)
        return error_set_code(EXIT_CODE_USAGE,
                              "--apply-wd-to-qk-layernorm (--wd-mult '%s'): this model has no norms of queries and "
                              "keys; give --qk-layernorm as well, or leave it out",
                              item);
    const char *end = factor->pattern + factor->length, *tail = end;
    while (tail > factor->pattern && !strchr("*?]", tail[-1]))
        tail--;
    if (tail < end && *tail == '.')
        tail++;
    struct nearest nearest = nearest_begin(tail, (size_t)(end - tail));
    for (int i = 0; i < params->count; i++)
        nearest_consider(&nearest, end_of_name(params->items[i]->name, count_dots(tail, (size_t)(end - tail))));
    const char *example = params->count > 0 ? params->items[params->count / 2]->name : "none";
    return error_set_code(EXIT_CODE_USAGE, "%s %s matches no parameter; %s %s%s train --dry-run lists all", flag, item,
                          nearest.best ? "did you mean" : "one is called", nearest.best ? nearest.best : example,
                          nearest.best ? "?" : ";");
}

static int check(const struct param_list *params, const struct string_list *items, const char *flag) {
    for (int64_t i = 0; i < items->count; i++) {
        struct factor factor;
        CHECK(factor_read(items->items[i], &factor));
        if (!matches_any(params, &factor))
            return refuse(params, &factor, flag, items->items[i]);
    }
    return 0;
}

int factors_take(const struct config *config, const struct param_list *all, struct param_list *own) {
    TRY(check(all, &config->run.lr_mult, "--lr-mult"));
    TRY(check(all, &config->run.wd_mult, "--wd-mult"));
    for (int i = 0; i < own->count; i++) {
        struct param *param = own->items[i];
        param_set_factors(
            own, param,
            (struct param_factors){.lr = factors_of(&config->run.lr_mult, param->name, 1),
                                   .decay = factors_of(&config->run.wd_mult, param->name, param->has_decay ? 1 : 0)});
    }
    return 0;
}
