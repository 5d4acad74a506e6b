// The memory of a micro-batch. See batch.h.
#include "data/batch.h"

#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

#define RULE(id, name, type, columns, readers, given_with, decoders)                                                   \
    [BATCH_##id] = {SHAPE_##columns,  READER_##readers, BATCH_##given_with,                                            \
                    BATCH_##decoders, ELEMENT_##type,   sizeof(BATCH_C_##type)},
static const struct batch_rule rules[BATCH_FIELD_COUNT] = {BATCH_FIELDS(RULE)};

const struct batch_rule *batch_rule(enum batch_field field) {
    CHECK(field < BATCH_FIELD_COUNT);
    return &rules[field];
}

struct batch_form batch_form(const struct batch *batch) {
    struct batch_form form = {.B = batch->B, .T = batch->T, .S = batch->S};
    for (int i = 0; i < BATCH_FIELD_COUNT; i++)
        form.fields |= (uint32_t)(batch->fields[i] != NULL) << i;
    return form;
}

bool batch_form_is_same(const struct batch_form *a, const struct batch_form *b) {
    return a->B == b->B && a->T == b->T && a->S == b->S && a->depths == b->depths && a->whole == b->whole &&
           a->near == b->near && a->fields == b->fields;
}

int64_t batch_columns(const struct batch_form *form, enum batch_shape shape) {
    bool has_decoder = form->fields & BATCH_BIT(DECODER_TOKENS), has_context = form->fields & BATCH_BIT(CONTEXT_TOKENS);
    if (shape == SHAPE_LABELS)
        shape = has_decoder ? SHAPE_DECODER : has_context ? SHAPE_SAMPLES : SHAPE_TOKENS;
    if (shape == SHAPE_WHOLE)
        return form->whole;
    if (shape == SHAPE_NEAR)
        return form->near;
    return shape == SHAPE_TOKENS || shape == SHAPE_DEPTHS ? form->T : shape == SHAPE_DECODER ? form->S : 1;
}

int64_t batch_elements(const struct batch_form *form, enum batch_field field) {
    enum batch_shape shape = batch_rule(field)->shape;
    if (!(form->fields >> field & 1))
        return 0;
    int64_t times = shape == SHAPE_DEPTHS ? form->depths : 1;
    return shape == SHAPE_TOTALS ? BATCH_TOTALS : times * form->B * batch_columns(form, shape);
}

static size_t field_bytes(const struct batch_form *form, int field) {
    return (size_t)batch_elements(form, (enum batch_field)field) * rules[field].element_bytes;
}

size_t batch_block_bytes(const struct batch_form *form) {
    size_t bytes = 0;
    for (int i = 0; i < BATCH_FIELD_COUNT; i++)
        bytes += field_bytes(form, i);
    return bytes;
}

struct batch batch_in_block(const struct batch_form *form, void *block) {
    struct batch batch = {.B = form->B, .T = form->T, .S = form->S};
    unsigned char *at = block;
    for (int i = 0; i < BATCH_FIELD_COUNT; i++) {
        size_t bytes = field_bytes(form, i);
        batch.fields[i] = bytes > 0 ? at : NULL;
        at += bytes;
    }
    return batch;
}

void batch_allocate(struct batch *batch, const struct batch_form *form, int64_t rows) {
    struct batch_form whole = *form;
    whole.B = rows;
    whole.fields |= BATCH_BIT(SAMPLES);
    *batch = (struct batch){.B = rows, .T = form->T, .S = form->S};
    for (int i = 0; i < BATCH_FIELD_COUNT; i++)
        if (whole.fields >> i & 1)
            batch->fields[i] = memory_alloc(field_bytes(&whole, i));
}

void batch_free(struct batch *batch) {
    for (int i = 0; i < BATCH_FIELD_COUNT; i++)
        free(batch->fields[i]);
    *batch = (struct batch){0};
}

struct batch batch_row(const struct batch *batch, int64_t row) {
    struct batch_form form = batch_form(batch);
    form.B = 1;
    struct batch result = {.B = 1, .T = batch->T, .S = batch->S};
    for (int i = 0; i < BATCH_FIELD_COUNT; i++)
        if (batch->fields[i])
            result.fields[i] = (unsigned char *)batch->fields[i] + (size_t)row * field_bytes(&form, i);
    return result;
}

static void count_up(int32_t *values, int64_t count) {
    for (int64_t i = 0; values && i < count; i++)
        values[i] = (int32_t)i;
}

// The length is 1, not 0: attention over no keys is undefined.
void batch_clear_row(const struct batch *batch, int64_t number) {
    struct batch row = batch_row(batch, number);
    struct batch_form form = batch_form(&row);
    for (int i = 0; i < BATCH_FIELD_COUNT; i++)
        if (row.fields[i])
            memset(row.fields[i], 0, field_bytes(&form, i));
    count_up(row.positions, row.T);
    count_up(row.decoder_positions, row.S);
    if (row.lengths)
        *row.lengths = 1;
    if (row.context_lengths)
        *row.context_lengths = 1;
    *row.samples = -1;
}
