// All families. Names of tensors and members are transformers'; ours are those of docs/internals/models.md.
#include "checkpoint/hf_family.h"

#include "base/buffer.h"
#include "base/memory.h"
#include "checkpoint/hf_tables.h"
#include <string.h>

// Of several families that can express a model, the first is written.
const struct hf_family *hf_family_at(size_t i) {
    const struct hf_families tables[] = {hf_families_learned(), hf_families_rotary(), hf_families_encoders()};
    for (size_t t = 0; t < COUNT(tables); t++) {
        if (i < tables[t].count)
            return &tables[t].items[i];
        i -= tables[t].count;
    }
    return NULL;
}

const struct hf_family *hf_family_find(const char *model_type) {
    const struct hf_family *family = NULL;
    for (size_t i = 0; (family = hf_family_at(i)); i++)
        if (strcmp(family->model_type, model_type) == 0)
            return family;
    return NULL;
}

char *hf_family_list(void) {
    struct buffer text = {0};
    const struct hf_family *family = NULL;
    for (size_t i = 0; (family = hf_family_at(i)); i++)
        buffer_printf(&text, "%s%s", i > 0 ? ", " : "", family->model_type);
    char *list = memory_string(buffer_string(&text));
    buffer_free(&text);
    return list;
}

bool hf_family_has_rope_kind(const struct hf_family *family, const char *kind) {
    size_t length = strlen(kind);
    for (const char *word = family->rope_kinds; word && *word; word += strspn(word, " ")) {
        size_t total = strcspn(word, " ");
        if (total == length && strncmp(word, kind, length) == 0)
            return true;
        word += total;
    }
    return !family->rope_kinds;
}
