// Reads --pipeline-model-parallel-layout. See pipeline_layout.h.
#include "config/pipeline_layout.h"
#include "base/buffer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct expansion {
    const char *text, *at;
    struct buffer out;
    struct layout_mistake mistake;
};

static int fail(struct expansion *expansion, const char *what) {
    expansion->mistake = (struct layout_mistake){what, (size_t)(expansion->at - expansion->text)};
    return -1;
}

static void skip_commas(struct expansion *expansion) {
    expansion->at += strspn(expansion->at, ",");
}

// Repeats the text from `first` on by a following *N, which must be there if `is_needed`.
static int take_times(struct expansion *expansion, size_t first, bool is_needed) {
    skip_commas(expansion);
    if (*expansion->at != '*')
        return is_needed ? fail(expansion, "a * and a number must follow a parenthesis") : 0;
    expansion->at++;
    skip_commas(expansion);
    size_t digits = strspn(expansion->at, "0123456789"), length = expansion->out.length - first;
    if (digits == 0 || digits > 6)
        return fail(expansion, "a number of at most six digits must follow *");
    size_t times = (size_t)strtoll(expansion->at, NULL, 10);
    if (length > 0 && times > LAYOUT_MOST_SYMBOLS / length)
        return fail(expansion, "it stands for too many layers");
    expansion->at += digits;
    if (times == 0)
        expansion->out.length = first;
    else
        buffer_reserve(&expansion->out, (times - 1) * length);
    for (size_t i = 1; i < times && length > 0; i++)
        buffer_append(&expansion->out, expansion->out.data + first, length);
    return expansion->out.length > LAYOUT_MOST_SYMBOLS ? fail(expansion, "it stands for too many layers") : 0;
}

static int take_symbol(struct expansion *expansion) {
    size_t first = expansion->out.length;
    char symbol = *expansion->at;
    if (symbol == 0 || !strchr("EtmL|", symbol))
        return fail(expansion, symbol == '('
                                   ? "parentheses do not nest"
                                   : "a layout has E (embedding), t (layer), m (multi-token prediction), L (loss), | "
                                     "between chunks, and numbers behind *");
    buffer_append(&expansion->out, &symbol, 1);
    expansion->at++;
    return take_times(expansion, first, false);
}

static int take_group(struct expansion *expansion) {
    size_t first = expansion->out.length;
    expansion->at++;
    skip_commas(expansion);
    if (*expansion->at == ')')
        return fail(expansion, "there is nothing in the parentheses");
    for (; *expansion->at != ')'; skip_commas(expansion)) {
        if (*expansion->at == 0)
            return fail(expansion, "a parenthesis is not closed");
        if (take_symbol(expansion) < 0)
            return -1;
    }
    expansion->at++;
    return take_times(expansion, first, true);
}

char *pipeline_layout_expand(const char *text, struct layout_mistake *mistake) {
    struct expansion expansion = {.text = text, .at = text};
    int status = 0;
    for (skip_commas(&expansion); *expansion.at && status == 0; skip_commas(&expansion))
        status = *expansion.at == '(' ? take_group(&expansion) : take_symbol(&expansion);
    *mistake = expansion.mistake;
    if (status < 0) {
        buffer_free(&expansion.out);
        return NULL;
    }
    buffer_append(&expansion.out, "", 1);
    return (char *)expansion.out.data;
}

int64_t pipeline_layout_chunks(const char *expanded) {
    int64_t count = 1;
    for (; *expanded; expanded++)
        count += *expanded == '|';
    return count;
}

// Counts symbols of the chunks from `first` up to `end`.
static int64_t count_symbols(const char *expanded, int64_t first, int64_t end, char symbol) {
    int64_t chunk = 0, count = 0;
    for (; *expanded && chunk < end; expanded++) {
        count += chunk >= first && *expanded == symbol;
        chunk += *expanded == '|';
    }
    return count;
}

int64_t pipeline_layout_count(const char *expanded, int64_t chunk, char symbol) {
    return count_symbols(expanded, chunk, chunk + 1, symbol);
}

int64_t pipeline_layout_before(const char *expanded, int64_t chunk, char symbol) {
    return count_symbols(expanded, 0, chunk, symbol);
}
