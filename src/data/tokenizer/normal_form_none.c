// Stands in for normal_form.c in a build without utf8proc.
#include "data/tokenizer/normal_form.h"
#include "base/error.h"

int normal_form_require(void) {
    return error_set("this build lacks Unicode normalization, which this tokenizer needs; install utf8proc (Debian: "
                     "apt-get install libutf8proc-dev) and build again, or tokenize on a machine that has it");
}

struct normal_form_pairs *normal_form_pairs_create(const struct unicode_table *known) {
    (void)known;
    return NULL;
}

void normal_form_pairs_free(struct normal_form_pairs *pairs) {
    (void)pairs;
}

void normal_form_apply(const struct normal_form_rules *rules, const uint32_t *in, size_t count,
                       struct character_list *out) {
    (void)rules, (void)in, (void)count, (void)out;
    die("normal_form_apply without normal_form_require");
}

int normal_form_last_class(const struct unicode_table *known, uint32_t character) {
    (void)known, (void)character;
    die("normal_form_last_class without normal_form_require");
}
