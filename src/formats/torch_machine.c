// The state of the stack machine. See torch_machine.h.
#include "formats/torch_machine.h"

#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int machine_take(struct pickle_machine *m, size_t count, const unsigned char **bytes) {
    if (count > m->size - m->at)
        return error_set("it needs %zu bytes at byte %zu of %zu; the file is truncated or forged", count, m->at,
                         m->size);
    *bytes = m->bytes + m->at;
    m->at += count;
    return 0;
}

int machine_take_number(struct pickle_machine *m, size_t width, uint64_t *number) {
    const unsigned char *bytes = NULL;
    TRY(machine_take(m, width, &bytes));
    *number = 0;
    memcpy(number, bytes, width);
    return 0;
}

int machine_take_text(struct pickle_machine *m, size_t width, const unsigned char **bytes, size_t *length) {
    uint64_t count = 0;
    TRY(machine_take_number(m, width, &count));
    if (count > m->size - m->at)
        return error_set("it has a text of %" PRIu64 " bytes at byte %zu of %zu; the file is truncated or forged",
                         count, m->at, m->size);
    *length = (size_t)count;
    return machine_take(m, *length, bytes);
}

int machine_take_line(struct pickle_machine *m, char *line, size_t size) {
    const unsigned char *start = m->bytes + m->at, *end = memchr(start, '\n', m->size - m->at);
    size_t length = end ? (size_t)(end - start) : size;
    if (length >= size || memchr(start, 0, length))
        return error_set("it has a name at byte %zu that is too long, truncated or not text", m->at);
    memcpy(line, start, length);
    line[length] = '\0';
    m->at += length + 1;
    return 0;
}

static void grow(void *array, size_t *capacity, size_t needed, size_t item_bytes) {
    if (needed <= *capacity)
        return;
    size_t wanted = *capacity * 2 > needed ? *capacity * 2 : needed + 64;
    void *old = NULL;
    memcpy(&old, array, sizeof old);
    void *fresh = memory_realloc(old, wanted * item_bytes);
    memset((char *)fresh + *capacity * item_bytes, 0, (wanted - *capacity) * item_bytes);
    memcpy(array, &fresh, sizeof fresh);
    *capacity = wanted;
}

int machine_push(struct pickle_machine *m, struct torch_value *value) {
    grow(&m->stack, &m->stack_capacity, m->depth + 1, sizeof m->stack[0]);
    m->stack[m->depth++] = value;
    return 0;
}

int machine_pop(struct pickle_machine *m, struct torch_value **value) {
    if (m->depth <= (m->mark_count > 0 ? m->marks[m->mark_count - 1] : 0))
        return error_set("at byte %zu it pops more from its stack than it pushed", m->at);
    *value = m->stack[--m->depth];
    return 0;
}

int machine_top(struct pickle_machine *m, struct torch_value **value) {
    TRY(machine_pop(m, value));
    m->depth++;
    return 0;
}

int machine_pop_to_mark(struct pickle_machine *m, struct torch_value ***items, size_t *count) {
    if (m->mark_count == 0)
        return error_set("at byte %zu it returns to a mark that it never set", m->at);
    size_t mark = m->marks[--m->mark_count];
    *items = m->stack ? m->stack + mark : NULL;
    *count = m->depth - mark;
    m->depth = mark;
    return 0;
}

int machine_memo_put(struct pickle_machine *m, uint64_t index) {
    struct torch_value *value = NULL;
    TRY(machine_top(m, &value));
    // A pickle has no use for a number above its possible number of values.
    if (index > m->size)
        return error_set("at byte %zu it stores a memo under the number %" PRIu64, m->at, index);
    grow(&m->memo, &m->memo_capacity, (size_t)index + 1, sizeof m->memo[0]);
    if (index >= m->memo_count)
        m->memo_count = (size_t)index + 1;
    m->memo[index] = value;
    return 0;
}

int machine_memo_get(struct pickle_machine *m, uint64_t index) {
    if (index >= m->memo_count || !m->memo[index])
        return error_set("at byte %zu it reads memo %" PRIu64 ", which it never stored", m->at, index);
    return machine_push(m, m->memo[index]);
}

int machine_mark(struct pickle_machine *m) {
    grow(&m->marks, &m->mark_capacity, m->mark_count + 1, sizeof m->marks[0]);
    m->marks[m->mark_count++] = m->depth;
    return 0;
}

void machine_free(struct pickle_machine *m) {
    free(m->stack);
    free(m->marks);
    free(m->memo);
}
