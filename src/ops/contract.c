// Checks calls of operations against the rows of their contracts. A mismatch is a bug of ours, so the entry points die.
#include "ops/contract.h"
#include "base/error.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { DESCRIPTION_BYTES = 160 };

void contract_begin(struct contract_call *call, struct device *device, const struct contract *contract,
                    const void *op) {
    call->device = device;
    call->contract = contract;
    call->op = op;
    call->known = 0;
    call->dtype = DTYPE_COUNT;
    call->any = NULL;
}

void contract_set(struct contract_call *call, char letter, int64_t size) {
    call->known |= (uint64_t)1 << LETTER(letter);
    call->sizes[LETTER(letter)] = size;
}

bool contract_row_holds(const struct contract_row *row, const void *op) {
    const char *at = (const char *)op + row->condition_offset;
    if (!row->condition)
        return true;
    if (row->condition_values) {
        int value;
        memcpy(&value, at, sizeof value);
        return (value >= 0 && value < 32 && row->condition_values >> value & 1) != row->is_unless;
    }
    uint64_t value = 0;
    memcpy(&value, at, row->condition_bytes < sizeof value ? row->condition_bytes : sizeof value);
    return (value != 0) != row->is_unless;
}

// A dimension as number + slope * (size of the unknown letter); `unknown` is 0 if all letters are known.
struct dimension {
    int64_t number, slope;
    char unknown;
};

// Moves past the dimension's text.
static struct dimension dimension_read(const struct contract_call *call, const char **text) {
    struct dimension dimension = {0};
    const char *at = *text;
    for (int sign = 1;; sign = *at++ == '+' ? 1 : -1) {
        int64_t term = sign;
        char unknown = 0;
        for (; *at && *at != ' ' && *at != '+' && *at != '-'; at++) {
            if (*at <= '9')
                term *= *at - '0';
            else if (call->known >> LETTER(*at) & 1)
                term *= call->sizes[LETTER(*at)];
            else
                unknown = *at;
        }
        if (unknown) {
            dimension.unknown = unknown;
            dimension.slope += term;
        } else {
            dimension.number += term;
        }
        if (*at != '+' && *at != '-')
            break;
    }
    *text = *at ? at + 1 : at;
    return dimension;
}

// An unknown letter gets the size that makes the dimension fit.
static bool dimension_fits(struct contract_call *call, const char **text, int64_t size) {
    struct dimension dimension = dimension_read(call, text);
    if (!dimension.unknown)
        return dimension.number == size;
    int64_t rest = size - dimension.number;
    if (dimension.slope == 0 || rest % dimension.slope != 0 || rest / dimension.slope < 0)
        return false;
    contract_set(call, dimension.unknown, rest / dimension.slope);
    return true;
}

static bool shape_is_same(const struct tensor *a, const struct tensor *b) {
    bool is_same = a->rank == b->rank;
    for (int i = 0; is_same && i < a->rank; i++)
        is_same = a->shape[i] == b->shape[i];
    return is_same;
}

static int64_t count_of(const struct tensor *t) {
    int64_t count = 1;
    for (int i = 0; i < t->rank; i++)
        count *= t->shape[i];
    return count;
}

// Continues after a dimension that does not fit, so that the message has the sizes of the others.
static bool shape_fits(struct contract_call *call, const char *shape, const struct tensor *t) {
    if (*shape == '*') {
        call->any = call->any ? call->any : t;
        return shape_is_same(t, call->any);
    }
    if (*shape == '#') {
        shape++;
        return dimension_fits(call, &shape, count_of(t));
    }
    bool fits = true;
    int i = 0;
    for (; *shape && i < t->rank; i++) {
        // Fast path: a single letter.
        if ((shape[1] == ' ' || !shape[1]) && *shape > '9') {
            if (!(call->known >> LETTER(*shape) & 1))
                contract_set(call, *shape, t->shape[i]);
            fits &= call->sizes[LETTER(*shape)] == t->shape[i];
            shape += shape[1] ? 2 : 1;
        } else {
            fits &= dimension_fits(call, &shape, t->shape[i]);
        }
    }
    return fits && i == t->rank && !*shape;
}

static bool strides_fit(const struct contract_row *row, const struct tensor *t) {
    int64_t expected = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        bool is_last = i == t->rank - 1;
        if (t->shape[i] != 1 && t->stride[i] != expected &&
            (!row->is_strided || is_last || t->stride[i] < t->shape[t->rank - 1]))
            return false;
        expected *= t->shape[i];
    }
    return true;
}

static bool agrees(const struct contract_row *row, enum dtype dtype) {
    return row->dtypes & AGREES && FLOATS >> dtype & 1 && !(row->dtypes & OR_F32 && dtype == DTYPE_F32);
}

static bool dtype_fits(struct contract_call *call, const struct contract_row *row, enum dtype dtype) {
    if (!(row->dtypes >> dtype & 1))
        return false;
    if (!agrees(row, dtype))
        return true;
    call->dtype = call->dtype == DTYPE_COUNT ? dtype : call->dtype;
    return call->dtype == dtype;
}

static bool is_computed(const struct contract_call *call, const struct contract_row *row, enum dtype dtype) {
    return !(row->dtypes & COMPUTED) || call->dtype == dtype || call->device->ops->supports(call->device, dtype);
}

static const char *name_of(const struct contract_row *row) {
    const char *dot = strrchr(row->name, '.');
    return row->called ? row->called : dot ? dot + 1 : row->name;
}

// The dtypes that an operand may have: its own if that is one of them.
static void describe_dtypes(const struct contract_call *call, const struct contract_row *row, const struct tensor *t,
                            char *text, size_t size) {
    size_t length = 0;
    bool must_agree = row->dtypes & AGREES && call->dtype != DTYPE_COUNT;
    enum dtype own = must_agree && agrees(row, t->dtype) ? call->dtype : t->dtype;
    bool has_own = t->data && row->dtypes >> own & 1;
    text[0] = '\0';
    for (int dtype = 0; dtype < DTYPE_COUNT && length < size; dtype++) {
        bool is_named = has_own ? dtype == (int)own : must_agree ? dtype == (int)call->dtype : row->dtypes >> dtype & 1;
        if (is_named)
            length += (size_t)snprintf(text + length, size - length, "%s%s", length > 0 ? "/" : "",
                                       dtype_name((enum dtype)dtype));
    }
}

// Letters without a size are printed as letters.
static void describe_shape(const struct contract_call *call, const char *shape, char *text, size_t size) {
    const char *separator = "";
    size_t length = 0;
    shape += *shape == '#';
    while (*shape && length < size) {
        const char *start = shape;
        struct dimension dimension = dimension_read(call, &shape);
        int characters = (int)(shape - start - (*shape != '\0'));
        if (dimension.unknown)
            length += (size_t)snprintf(text + length, size - length, "%s%.*s", separator, characters, start);
        else
            length += (size_t)snprintf(text + length, size - length, "%s%lld", separator, (long long)dimension.number);
        separator = ", ";
    }
}

static bool refuse(const struct contract_call *call, const struct contract_row *row, const struct tensor *t, char *text,
                   size_t size) {
    char got[DESCRIPTION_BYTES], dtypes[DESCRIPTION_BYTES], shape[DESCRIPTION_BYTES];
    const char *operation = call->contract->operation, *name = name_of(row);
    tensor_describe(*t, got, sizeof got);
    bool is_unknown = row->dtypes & COMPUTED && call->dtype == DTYPE_COUNT && !(row->dtypes >> t->dtype & 1);
    if (t->data && (is_unknown || !is_computed(call, row, t->dtype))) {
        (void)snprintf(text, size, "%s: %s is %s, which %s does not compute in", operation, name, got,
                       call->device->ops->name);
        return true;
    }
    describe_dtypes(call, row, t, dtypes, sizeof dtypes);
    if (*row->shape == '*')
        tensor_describe(*call->any, shape, sizeof shape);
    else
        describe_shape(call, row->shape, shape, sizeof shape);
    (void)snprintf(text, size, "%s: %s is %s, expected %s (%s)", operation, name, got, dtypes, shape);
    return true;
}

static bool refuses_operand(struct contract_call *call, const struct contract_row *row, const struct tensor *t,
                            char *text, size_t size) {
    if (!t->data && row->is_optional)
        return false;
    bool fits = t->data && is_computed(call, row, t->dtype) && dtype_fits(call, row, t->dtype);
    fits &= shape_fits(call, row->shape, t);
    return fits && strides_fit(row, t) ? false : refuse(call, row, t, text, size);
}

// Strided views are compared by address only: slices of one packed tensor interleave without sharing elements.
static bool overlap(const struct tensor *a, const struct tensor *b) {
    static const struct contract_row contiguous = {0};
    if (!a->data || !b->data)
        return false;
    if (!strides_fit(&contiguous, a) || !strides_fit(&contiguous, b))
        return a->data == b->data;
    uintptr_t first = (uintptr_t)a->data, second = (uintptr_t)b->data;
    return first < second + tensor_bytes(*b) && second < first + tensor_bytes(*a);
}

static bool refuses_pair(const struct contract_call *call, const struct contract_row *row, char *text, size_t size) {
    const struct tensor *a = contract_operand(row, call->op);
    const struct tensor *b = (const struct tensor *)(const void *)((const char *)call->op + row->other_offset);
    const char *rest = "";
    if (row->kind == CONTRACT_APART_OR_SAME && a->data == b->data) {
        if (!a->data || a->dtype == b->dtype)
            return false;
        rest = " but not the dtype";
    } else if (!overlap(a, b)) {
        return false;
    }
    const struct contract_row other = {.name = row->other};
    (void)snprintf(text, size, "%s: %s and %s share memory%s", call->contract->operation, name_of(row), name_of(&other),
                   rest);
    return true;
}

static bool refuses_dropout(struct contract_call *call, const struct contract_row *row, char *text, size_t size) {
    const struct dropout *dropout = (const void *)((const char *)call->op + row->offset);
    const char *rule = !(dropout->rate > 0 && dropout->rate < 1) ? "the dropout rate must be at least 0 and below 1"
                       : dropout->site >= 65536                  ? "the dropout site must be below 65536"
                       : dropout->first_head < 0                 ? "the first head must not be negative"
                                                                 : NULL;
    if (dropout->rate == 0)
        return false;
    if (rule) {
        (void)snprintf(text, size, "%s: %s", call->contract->operation, rule);
        return true;
    }
    const struct contract_row ids = {
        .name = "row_ids", .called = "dropout.row_ids", .shape = row->shape, .dtypes = I64};
    return refuses_operand(call, &ids, &dropout->row_ids, text, size);
}

bool contract_refuses(struct contract_call *call, char *text, size_t size) {
    bool is_refused = false;
    for (int i = 0; i < call->contract->count && !is_refused; i++) {
        const struct contract_row *row = &call->contract->rows[i];
        if (!contract_row_holds(row, call->op))
            continue;
        if (row->kind == CONTRACT_OPERAND)
            is_refused = refuses_operand(call, row, contract_operand(row, call->op), text, size);
        else if (row->kind == CONTRACT_DROPOUT)
            is_refused = refuses_dropout(call, row, text, size);
        else
            is_refused = refuses_pair(call, row, text, size);
    }
    return is_refused;
}

void contract_check(struct contract_call *call) {
    char text[4 * DESCRIPTION_BYTES];
    if (contract_refuses(call, text, sizeof text))
        die("%s", text);
}

void contract_tensor(struct contract_call *call, const char *name, struct tensor t, uint32_t dtypes,
                     const char *shape) {
    char text[4 * DESCRIPTION_BYTES];
    const struct contract_row row = {.name = name, .dtypes = dtypes, .shape = shape};
    if (refuses_operand(call, &row, &t, text, sizeof text))
        die("%s", text);
}

double contract_bytes(const struct contract *contract, const void *op) {
    double bytes = 0;
    for (int i = 0; i < contract->count; i++) {
        const struct contract_row *row = &contract->rows[i];
        if (row->kind != CONTRACT_OPERAND || row->is_free || row->is_sparse || !contract_row_holds(row, op))
            continue;
        int times = row->use >= USE_CHANGED && !row->is_once ? 2 : 1;
        bytes += times * (double)tensor_bytes(*contract_operand(row, op));
    }
    return bytes;
}
