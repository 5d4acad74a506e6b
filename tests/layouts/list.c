// The list of layouts, and a sample of it that has every pair of values that occurs together. See layouts.h.
#include "layouts.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>

// Number of times that values of two axes occur together.
struct pairs {
    int count[LAYOUT_AXES][MOST_RANKS + 1][LAYOUT_AXES][MOST_RANKS + 1];
};

static int *pair_of(struct pairs *pairs, const struct layout *layout, int a, int b) {
    return &pairs->count[a][layout->value[a]][b][layout->value[b]];
}

// In the sample all sizes that are not powers of two count as the same, so that not each of them must occur with
// everything else, and so do all numbers of ranks that share out experts.
static struct layout by_kind(const struct layout *layout) {
    struct layout kind = *layout;
    for (int axis = LAYOUT_TENSOR; axis <= LAYOUT_DATA; axis++)
        if ((kind.value[axis] & (kind.value[axis] - 1)) != 0)
            kind.value[axis] = 3;
    kind.value[LAYOUT_EXPERT] = kind.value[LAYOUT_EXPERT] > 1 ? 2 : 1;
    kind.value[LAYOUT_SLICES] = kind.value[LAYOUT_SLICES] != layout->value[LAYOUT_TENSOR];
    return kind;
}

// And 16 bits are combined with what affects rounding, not with everything else.
static bool is_counted(int a, int b) {
    return b != LAYOUT_DTYPE || a == LAYOUT_MODEL || a == LAYOUT_SEQUENCE || a == LAYOUT_OPTIMIZER;
}

static int new_pairs(struct pairs *pairs, const struct layout *layout) {
    int found = 0;
    for (int a = 0; a < LAYOUT_AXES; a++)
        for (int b = a + 1; b < LAYOUT_AXES; b++)
            found += is_counted(a, b) && *pair_of(pairs, layout, a, b) == 0;
    return found;
}

static void count_pairs(struct pairs *pairs, const struct layout *layout) {
    for (int a = 0; a < LAYOUT_AXES; a++)
        for (int b = a + 1; b < LAYOUT_AXES; b++)
            ++*pair_of(pairs, layout, a, b);
}

static bool is_legal(const struct layout *layout) {
    struct config config;
    if (layout_is_idle(layout))
        return false;
    bool is_good = layout_config(&config, layout, "") == 0;
    config_free(&config);
    error_clear();
    return is_good;
}

static void add(struct layout_list *list, struct layout layout) {
    list->items = memory_realloc(list->items, sizeof *list->items * (size_t)(list->count + 1));
    layout.number = list->count + 1;
    list->items[list->count++] = layout;
}

// How much a value of an axis is needed with those of the axes before it: a new pair outweighs all others, and rare
// pairs weigh more.
static double wanted(struct pairs *pairs, const struct layout *layout, int axis) {
    double sum = 0;
    for (int a = 0; a < axis; a++) {
        int count = *pair_of(pairs, layout, a, axis);
        sum += count == 0 ? LAYOUT_AXES : 1.0 / (1 + count);
    }
    return sum;
}

// Gives a layout its values of the paired axes. False if no combination is legal.
static bool choose_paired(struct pairs *pairs, struct layout *layout) {
    for (int axis = LAYOUT_PAIRED; axis < LAYOUT_DTYPE; axis++) {
        double most = -1;
        int best = 0;
        for (int value = 0; value < layout_values((enum layout_axis)axis); value++) {
            layout->value[axis] = value;
            double score = wanted(pairs, layout, axis);
            if (score > most && is_legal(layout)) {
                most = score;
                best = value;
            }
        }
        if (most < 0)
            return false;
        layout->value[axis] = best;
    }
    return true;
}

// Gives the axes [first, end) combination `number` of their values. False if there is no such number.
static bool take_setting(struct layout *layout, int first, int end, int number) {
    for (int axis = first; axis < end; axis++) {
        layout->value[axis] = number % layout_values((enum layout_axis)axis);
        number /= layout_values((enum layout_axis)axis);
    }
    return number == 0;
}

// All settings of the axes from LAYOUT_SEQUENCE to LAYOUT_PAIRED for one mesh.
static void add_settings(struct layout_list *list, struct pairs *pairs, struct layout layout) {
    for (int i = 0; take_setting(&layout, LAYOUT_SEQUENCE, LAYOUT_PAIRED, i); i++) {
        struct layout tried = layout;
        if (layout_is_idle(&tried) || !choose_paired(pairs, &tried))
            continue;
        count_pairs(pairs, &tried);
        add(list, tried);
    }
}

// The same for each number of ranks that may share out experts.
static void add_expert_sizes(struct layout_list *list, struct pairs *pairs, struct layout layout) {
    int tensor = layout.value[LAYOUT_TENSOR];
    bool has_experts = layout.value[LAYOUT_MODEL] == MODEL_EXPERTS;
    int most = has_experts ? layout.ranks / layout.value[LAYOUT_PIPELINE] : 1;
    for (int slices = has_experts ? 1 : tensor; slices <= tensor; slices++)
        for (int ranks = 1; ranks * slices <= most || ranks == 1; ranks++) {
            layout.value[LAYOUT_EXPERT] = ranks;
            layout.value[LAYOUT_SLICES] = slices;
            add_settings(list, pairs, layout);
        }
}

// Verifies that the list, whose pairs these are, lacks none that any legal layout has.
static int check_pairs(const struct layout_list *list, struct pairs *pairs) {
    char text[256];
    for (int i = 0; i < list->count; i++) {
        struct layout layout = list->items[i];
        for (int n = 0; take_setting(&layout, LAYOUT_PAIRED, LAYOUT_DTYPE, n); n++)
            if (!layout_is_idle(&layout) && new_pairs(pairs, &layout) > 0 && is_legal(&layout)) {
                layout_describe(&layout, text, sizeof text);
                return error_set("the list has not all pairs of %s", text);
            }
    }
    return 0;
}

// Whether the one-rank run for a layout is already in the sample.
static bool has_reference(const struct layout_list *list, const struct layout *layout) {
    for (int i = 0; i < list->count; i++) {
        const struct layout *other = &list->items[i];
        if (other->is_in_sample && other->value[LAYOUT_MODEL] == layout->value[LAYOUT_MODEL] &&
            other->value[LAYOUT_DTYPE] == layout->value[LAYOUT_DTYPE] &&
            layout_global_batch(other) == layout_global_batch(layout) &&
            layout_micro_batch(other) == layout_micro_batch(layout))
            return true;
    }
    return false;
}

// New pairs that a layout adds for its cost, including the cost of the one-rank run if it is new.
static double gain(const struct layout_list *list, struct pairs *pairs, const struct layout *layout) {
    struct layout kind = by_kind(layout);
    int found = layout->ranks == 1 ? 0 : new_pairs(pairs, &kind);
    if (found == 0)
        return 0;
    int64_t alone =
        has_reference(list, layout) ? 0 : layout_global_batch(layout) * (layout->value[LAYOUT_DTYPE] ? 2 : 1);
    return (double)found / (double)(layout_cost(layout) + alone);
}

// Adds the layout with the highest gain until there is none.
static void choose_sample(struct layout_list *list) {
    struct pairs *pairs = memory_alloc(sizeof *pairs);
    for (int i = 0; i < list->count; i++)
        list->items[i].is_in_sample = false;
    for (struct layout *best = list->items; best;) {
        double most = 0;
        best = NULL;
        for (int i = 0; i < list->count; i++) {
            struct layout *layout = &list->items[i];
            double found = gain(list, pairs, layout);
            if (found > most) {
                most = found;
                best = layout;
            }
        }
        if (best) {
            struct layout kind = by_kind(best);
            count_pairs(pairs, &kind);
            best->is_in_sample = true;
        }
    }
    free(pairs);
}

// Repeats the sample in the other dtypes.
static void add_dtypes(struct layout_list *list) {
    int count = list->count;
    for (int dtype = 1; dtype < layout_values(LAYOUT_DTYPE); dtype++)
        for (int i = 0; i < count; i++) {
            struct layout layout = list->items[i];
            layout.value[LAYOUT_DTYPE] = dtype;
            if (layout.is_in_sample && is_legal(&layout))
                add(list, layout);
        }
}

int layouts_make(struct layout_list *list) {
    struct pairs *pairs = memory_alloc(sizeof *pairs);
    *list = (struct layout_list){0};
    for (int model = 0; model < MODEL_COUNT; model++) {
        struct config config;
        struct layout alone = {.value = {model, 1, 1, 1, 1, 1, 1}, .ranks = 1};
        int status = layout_config(&config, &alone, "");
        config_free(&config);
        TRY(status);
        for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
            for (int tensor = 1; tensor <= ranks; tensor++)
                for (int context = 1; tensor * context <= ranks; context++)
                    for (int pipeline = 1; tensor * context * pipeline <= ranks; pipeline++) {
                        int data = ranks / (tensor * context * pipeline);
                        if (tensor * context * pipeline * data == ranks)
                            add_expert_sizes(
                                list, pairs,
                                (struct layout){.value = {model, tensor, context, pipeline, data}, .ranks = ranks});
                    }
    }
    int status = check_pairs(list, pairs);
    free(pairs);
    TRY(status);
    choose_sample(list);
    add_dtypes(list);
    choose_sample(list);
    return 0;
}

void layouts_free(struct layout_list *list) {
    free(list->items);
    *list = (struct layout_list){0};
}

void layouts_write(const struct layout_list *list, FILE *file) {
    for (int i = 0; i < list->count; i++) {
        const struct layout *layout = &list->items[i];
        fprintf(file, "%d %d %d", layout->number, layout->ranks, layout->is_in_sample);
        for (int axis = 0; axis < LAYOUT_AXES; axis++)
            fprintf(file, " %d", layout->value[axis]);
        fprintf(file, "\n");
    }
}

int layouts_read(struct layout_list *list, FILE *file) {
    *list = (struct layout_list){0};
    struct layout layout;
    int is_in_sample;
    while (fscanf(file, "%d %d %d", &layout.number, &layout.ranks, &is_in_sample) == 3) {
        layout.is_in_sample = is_in_sample;
        for (int axis = 0; axis < LAYOUT_AXES; axis++)
            if (fscanf(file, "%d", &layout.value[axis]) != 1)
                return error_set("layout %d ends after %d values", layout.number, axis);
        int number = layout.number;
        add(list, layout);
        list->items[list->count - 1].number = number;
    }
    return list->count > 0 ? 0 : error_set("the list of layouts is empty; make it with: layouts list");
}
