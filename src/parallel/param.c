// The list of parameters and its flat layout. See param.h.
#include "parallel/param.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static const struct param_group usual = {
    .name = "usual", .replicas = MESH_REPLICAS, .slices = AXES(AXIS_TENSOR), .lr_multiplier = 1};

struct param_group *param_list_usual(struct param_list *list) {
    if (list->group_count == 0)
        list->groups[list->group_count++] = usual;
    return &list->groups[0];
}

int param_list_group(struct param_list *list, const struct param_group *group) {
    (void)param_list_usual(list);
    for (int i = 0; i < list->group_count; i++)
        if (strcmp(list->groups[i].name, group->name) == 0)
            return i;
    CHECK(list->group_count < PARAM_MOST_GROUPS);
    CHECK((group->replicas ^ group->slices) == MESH_STAGE && !(group->replicas & group->slices));
    list->groups[list->group_count] = *group;
    return list->group_count++;
}

static char *name_in_scope(const struct param_list *list, const char *name) {
    return memory_printf("%s%s", list->scope ? list->scope : "", name);
}

struct param *param_add(struct param_list *list, const char *name, struct shard shard, enum init_kind init,
                        double standard_deviation) {
    (void)param_list_usual(list);
    MEMORY_GROW(list->items, list->count, list->capacity);
    struct param *param = memory_alloc(sizeof *param);
    *param = (struct param){.name = name_in_scope(list, name),
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
    char *full = name_in_scope(list, name);
    struct param *param = param_find(list, full);
    free(full);
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

// Places the parameters of one kind in a group from `next` on, first those that other stages also hold; returns their
// end.
static int64_t place(struct param_list *list, int group, bool has_decay, enum kind kind, int64_t next) {
    int64_t first = list->groups[group].first, unit = list->groups[group].unit;
    for (int i = 0; i < 2 * list->count; i++) {
        struct param *param = list->items[i % list->count];
        bool is_turn = param->is_shared == (i < list->count);
        if (param->group != group || param->has_decay != has_decay || kind_of(param) != kind || !is_turn)
            continue;
        param->offset = next;
        int64_t at = next - first, last = param_end(param) - 1 - first;
        if (unit > 0 && last > at && at / unit != last / unit)
            param->offset = first + (at / unit + 1) * unit;
        next = param_end(param);
    }
    return next;
}

static int compare_offsets(const void *a, const void *b) {
    const struct param *x = *(struct param *const *)a, *y = *(struct param *const *)b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static void order(struct param_list *list) {
    list->ordered = memory_realloc(list->ordered, sizeof *list->ordered * (size_t)(list->count + 1));
    for (int i = 0; i < list->count; i++)
        list->ordered[i] = list->items[i];
    qsort(list->ordered, (size_t)list->count, sizeof(struct param *), compare_offsets);
}

int param_list_beyond(const struct param_list *list, int64_t element) {
    int first = 0, end = list->count;
    while (first < end) {
        int middle = first + (end - first) / 2;
        if (param_end(list->ordered[middle]) > element)
            end = middle;
        else
            first = middle + 1;
    }
    return first;
}

void param_list_layout(struct param_list *list) {
    (void)param_list_usual(list);
    list->total = 0;
    for (int i = 0; i < list->group_count; i++) {
        struct param_group *group = &list->groups[i];
        group->first = list->total;
        group->counted_first = place(list, i, true, KIND_COPY, group->first);
        group->whole_first = place(list, i, true, KIND_SPLIT, group->counted_first);
        group->summed_first = place(list, i, true, KIND_WHOLE, group->whole_first);
        group->decayed = place(list, i, true, KIND_SUMMED, group->summed_first);
        group->summed_end = place(list, i, false, KIND_SUMMED, group->decayed);
        group->whole_end = place(list, i, false, KIND_WHOLE, group->summed_end);
        group->end = place(list, i, false, KIND_SPLIT, group->whole_end);
        int64_t multiple = group->multiple > 0 ? group->multiple : 1, length = group->end - group->first;
        group->end = group->first + (length + multiple - 1) / multiple * multiple;
        list->total = group->end;
    }
    order(list);
}

struct tensor param_at(const struct param *param, struct tensor buffer, int64_t offset) {
    char *data = (char *)buffer.data + (size_t)offset * dtype_bytes(buffer.dtype);
    int64_t rows = shard_local_size(&param->shard, 0), columns = shard_local_size(&param->shard, 1);
    if (param->shard.rank == 3)
        return tensor_3d(data, buffer.dtype, rows, columns, shard_local_size(&param->shard, 2));
    return param->shard.rank == 1 ? tensor_1d(data, buffer.dtype, rows) : tensor_2d(data, buffer.dtype, rows, columns);
}

struct tensor param_in(const struct param *param, struct tensor flat) {
    return param_at(param, flat, param->offset);
}

void param_list_bind(struct param_list *list, struct tensor values, struct tensor grads) {
    CHECK(tensor_count(values) == list->total && (!grads.data || tensor_count(grads) == list->total));
    for (int i = 0; i < list->count; i++) {
        struct param *param = list->items[i];
        param->value = param_in(param, values);
        param->grad = grads.data ? param_in(param, grads) : (struct tensor){0};
    }
}

void param_list_share(struct param_list *list, const struct param_list *owner) {
    CHECK(list->count == owner->count);
    for (int i = 0; i < list->count; i++) {
        const struct param *own = owner->items[i];
        CHECK(strcmp(list->items[i]->name, own->name) == 0 &&
              shard_local_count(&list->items[i]->shard) == shard_local_count(&own->shard));
        list->items[i]->value = own->value;
        list->items[i]->grad = (struct tensor){0};
    }
}

static struct param_factors usual_factors(const struct param *param) {
    return (struct param_factors){.lr = 1, .decay = param->has_decay ? 1 : 0};
}

static bool are_equal(struct param_factors a, struct param_factors b) {
    return !(a.lr < b.lr || a.lr > b.lr || a.decay < b.decay || a.decay > b.decay);
}

struct param_factors param_factors(const struct param_list *list, const struct param *param) {
    return param->factors > 0 ? list->factors[param->factors - 1] : usual_factors(param);
}

void param_set_factors(struct param_list *list, struct param *param, struct param_factors factors) {
    param->factors = 0;
    if (are_equal(factors, usual_factors(param)))
        return;
    for (int i = 0; i < list->factors_count; i++)
        if (are_equal(factors, list->factors[i]))
            param->factors = i + 1;
    if (param->factors > 0)
        return;
    list->factors = memory_realloc(list->factors, sizeof *list->factors * (size_t)(list->factors_count + 1));
    list->factors[list->factors_count++] = factors;
    param->factors = list->factors_count;
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
    free(list->factors);
    free(list->ordered);
    *list = (struct param_list){0};
}
