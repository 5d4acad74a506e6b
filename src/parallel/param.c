// The list of parameters and its flat layout. See param.h.
#include "parallel/param.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

struct param *param_add(struct param_list *list, const char *name, struct shard shard, enum init_kind init,
                        double standard_deviation) {
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 64;
        list->items = memory_realloc(list->items, sizeof *list->items * (size_t)list->capacity);
    }
    struct param *param = memory_alloc(sizeof *param);
    *param = (struct param){.name = memory_string(name),
                            .shard = shard,
                            .init = init,
                            .standard_deviation = standard_deviation,
                            .has_decay = shard.rank > 1};
    list->items[list->count++] = param;
    return param;
}

struct param *param_find(const struct param_list *list, const char *name) {
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->items[i]->name, name) == 0)
            return list->items[i];
    return NULL;
}

struct param *param_obtain(struct param_list *list, const char *name, struct shard shard, enum init_kind init,
                           double standard_deviation) {
    struct param *param = param_find(list, name);
    return param ? param : param_add(list, name, shard, init, standard_deviation);
}

enum kind { KIND_COPY, KIND_SPLIT, KIND_WHOLE, KIND_SUMMED };

static enum kind kind_of(const struct param *param) {
    CHECK(!param->is_copy || param->has_decay);
    if (param->is_copy)
        return KIND_COPY;
    if (param->shard.parts > 1)
        return KIND_SPLIT;
    return param->sums_gradient ? KIND_SUMMED : KIND_WHOLE;
}

int64_t param_end(const struct param *param) {
    int64_t count = shard_local_count(&param->shard);
    return param->offset + (count + PARAM_ALIGNMENT - 1) / PARAM_ALIGNMENT * PARAM_ALIGNMENT;
}

// Places the parameters of one kind from `next` on, beginning with those that other stages hold too; returns where they
// end.
static int64_t place(struct param_list *list, bool has_decay, enum kind kind, int64_t next) {
    for (int i = 0; i < 2 * list->count; i++) {
        struct param *param = list->items[i % list->count];
        bool is_turn = param->is_shared == (i < list->count);
        if (param->has_decay != has_decay || kind_of(param) != kind || !is_turn)
            continue;
        param->offset = next;
        next = param_end(param);
    }
    return next;
}

void param_list_layout(struct param_list *list) {
    list->counted_first = place(list, true, KIND_COPY, 0);
    list->whole_first = place(list, true, KIND_SPLIT, list->counted_first);
    list->summed_first = place(list, true, KIND_WHOLE, list->whole_first);
    list->decayed = place(list, true, KIND_SUMMED, list->summed_first);
    list->summed_end = place(list, false, KIND_SUMMED, list->decayed);
    list->whole_end = place(list, false, KIND_WHOLE, list->summed_end);
    list->total = place(list, false, KIND_SPLIT, list->whole_end);
}

void param_list_pad(struct param_list *list, int64_t multiple) {
    list->total = (list->total + multiple - 1) / multiple * multiple;
}

struct tensor param_in(const struct param *param, struct tensor flat) {
    char *data = (char *)flat.data + (size_t)param->offset * dtype_bytes(flat.dtype);
    int64_t rows = shard_local_size(&param->shard, 0), columns = shard_local_size(&param->shard, 1);
    return param->shard.rank == 1 ? tensor_1d(data, flat.dtype, rows) : tensor_2d(data, flat.dtype, rows, columns);
}

void param_list_bind(struct param_list *list, struct tensor values, struct tensor grads) {
    CHECK(tensor_count(values) == list->total && (!grads.data || tensor_count(grads) == list->total));
    for (int i = 0; i < list->count; i++) {
        struct param *param = list->items[i];
        param->value = param_in(param, values);
        param->grad = grads.data ? param_in(param, grads) : (struct tensor){0};
    }
}

int64_t param_list_elements(const struct param_list *list) {
    int64_t elements = 0;
    for (int i = 0; i < list->count; i++)
        elements += shard_local_count(&list->items[i]->shard);
    return elements;
}

void param_list_free(struct param_list *list) {
    for (int i = 0; i < list->count; i++) {
        free(list->items[i]->name);
        free(list->items[i]);
    }
    free(list->items);
    *list = (struct param_list){0};
}
