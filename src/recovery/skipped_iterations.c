// Spans of iterations, ascending and apart. See skipped_iterations.h.
#include "recovery/skipped_iterations.h"
#include "base/error.h"

#include <string.h>

int skips_add(struct checkpoint_past *past, int64_t first, int64_t last) {
    struct checkpoint_span *spans = past->skipped;
    int64_t at = 0, end;
    // Skips the spans before it that do not touch it, then merges those that do.
    while (at < past->skipped_count && spans[at].last < first - 1)
        at++;
    for (end = at; end < past->skipped_count && spans[end].first <= last + 1; end++) {
        first = spans[end].first < first ? spans[end].first : first;
        last = spans[end].last > last ? spans[end].last : last;
    }
    int64_t count = past->skipped_count - (end - at) + 1;
    if (count > CHECKPOINT_MOST_SPANS)
        return error_set("a run cannot skip more than %d separate spans of iterations", CHECKPOINT_MOST_SPANS);
    memmove(spans + at + 1, spans + end, (size_t)(past->skipped_count - end) * sizeof spans[0]);
    spans[at] = (struct checkpoint_span){first, last};
    past->skipped_count = count;
    return 0;
}

bool skips_have(const struct checkpoint_past *past, int64_t iteration) {
    for (int64_t i = 0; i < past->skipped_count; i++)
        if (iteration >= past->skipped[i].first && iteration <= past->skipped[i].last)
            return true;
    return false;
}

int64_t skips_last(const struct checkpoint_past *past, int64_t iteration) {
    int64_t last = iteration;
    for (int64_t i = 0; i < past->skipped_count; i++)
        if (iteration >= past->skipped[i].first && iteration <= past->skipped[i].last)
            last = past->skipped[i].last;
    return last;
}

// Span i as far as it goes up to this iteration; {0, 0} if it does not.
static struct checkpoint_span cut(const struct checkpoint_past *past, int64_t i, int64_t iteration) {
    if (i >= past->skipped_count || past->skipped[i].first > iteration)
        return (struct checkpoint_span){0};
    struct checkpoint_span span = past->skipped[i];
    span.last = span.last < iteration ? span.last : iteration;
    return span;
}

bool skips_agree(const struct checkpoint_past *a, const struct checkpoint_past *b, int64_t iteration) {
    for (int64_t i = 0; i < CHECKPOINT_MOST_SPANS; i++) {
        struct checkpoint_span x = cut(a, i, iteration), y = cut(b, i, iteration);
        if (x.first != y.first || x.last != y.last)
            return false;
        if (x.first == 0)
            break;
    }
    return true;
}
