// Pieces of the flat buffers. See pieces.h.
#include "parallel/pieces.h"
#include "base/error.h"

int64_t pieces_multiple(int parts) {
    return (int64_t)parts * PARAM_ALIGNMENT;
}

struct pieces pieces_make(int64_t total, int64_t bucket, int parts, int part) {
    int64_t multiple = pieces_multiple(parts);
    CHECK(parts > 0 && part >= 0 && part < parts && total % multiple == 0 && bucket > 0);
    return (struct pieces){
        .total = total, .bucket = (bucket + multiple - 1) / multiple * multiple, .parts = parts, .part = part};
}

// The smallest piece that can hold any one parameter of a group.
static int64_t longest(const struct param_list *list, int group) {
    int64_t most = PARAM_ALIGNMENT;
    for (int i = 0; i < list->count; i++) {
        int64_t length = param_end(list->items[i]) - list->items[i]->offset;
        most = list->items[i]->group == group && length > most ? length : most;
    }
    return most;
}

// Length of a group if no parameter crosses a multiple of the unit.
static int64_t length_with(struct param_list *list, int i, int parts, int64_t unit) {
    struct param_group *group = &list->groups[i];
    group->unit = unit;
    group->multiple = unit * parts;
    param_list_layout(list);
    return group->end - group->first;
}

// A unit of at least `least` elements that leaves the fewest gaps: the combined length of the first parameters, e.g. of
// a layer. There are at least three buckets, so that their reduction can be hidden.
static int64_t tight_unit(struct param_list *list, int i, int parts, int64_t least) {
    enum { MOST_TRIED = 64, LEAST_BUCKETS = 3, PERCENT = 99 };  // longer units must save a percent
    int64_t elements = 0, sum = 0, best = least, length = length_with(list, i, parts, least);
    for (int k = 0; k < list->count; k++)
        elements += list->items[k]->group == i ? param_end(list->items[k]) - list->items[k]->offset : 0;
    for (int k = 0, tried = 0; k < list->count && tried < MOST_TRIED; k++) {
        const struct param *param = list->items[k];
        if (param->group != i)
            continue;
        sum += param_end(param) - param->offset;
        if (sum > elements / parts / LEAST_BUCKETS)
            break;
        if (sum <= least)
            continue;
        int64_t other = length_with(list, i, parts, sum);
        if (other < length / 100 * PERCENT) {
            length = other;
            best = sum;
        }
        tried++;
    }
    return best;
}

void pieces_divide(struct param_list *list, const struct division *divisions, struct pieces *pieces) {
    for (int i = 0; i < list->group_count; i++) {
        int parts = divisions[i].parts;
        struct param_group *group = &list->groups[i];
        group->multiple = pieces_multiple(parts);
        group->unit = 0;
        if (divisions[i].keeps_whole && parts > 1) {
            int64_t piece = (divisions[i].bucket + group->multiple - 1) / group->multiple * PARAM_ALIGNMENT;
            group->unit = tight_unit(list, i, parts, piece > longest(list, i) ? piece : longest(list, i));
            group->multiple = group->unit * parts;
        }
    }
    param_list_layout(list);
    for (int i = 0; i < list->group_count; i++) {
        const struct param_group *group = &list->groups[i];
        int64_t bucket = group->unit > 0 ? group->multiple : divisions[i].bucket;
        pieces[i] = pieces_make(group->end - group->first, bucket, divisions[i].parts, divisions[i].part);
        pieces[i].first = group->first;
    }
}

int64_t pieces_local_count(const struct pieces *pieces) {
    return pieces->total / pieces->parts;
}

int64_t pieces_bucket_count(const struct pieces *pieces) {
    return (pieces->total + pieces->bucket - 1) / pieces->bucket;
}

struct piece pieces_bucket(const struct pieces *pieces, int64_t i) {
    int64_t first = i * pieces->bucket, left = pieces->total - first;
    CHECK(i >= 0 && left > 0);
    return (struct piece){.flat_offset = pieces->first + first,
                          .local_offset = first / pieces->parts,
                          .count = left < pieces->bucket ? left : pieces->bucket};
}

struct piece pieces_own(const struct pieces *pieces, int64_t i) {
    struct piece own = pieces_bucket(pieces, i);
    own.count /= pieces->parts;
    own.flat_offset += own.count * pieces->part;
    return own;
}

bool pieces_next(const struct pieces *pieces, int64_t *at, int64_t end, struct piece *run) {
    int64_t first = pieces->first;
    CHECK(*at >= first && end <= first + pieces->total);
    if (pieces->parts == 1) {
        *run = (struct piece){*at, *at - first, end - *at};
        *at = end;
        return run->count > 0;
    }
    while (*at < end) {
        int64_t bucket = (*at - first) / pieces->bucket;
        struct piece own = pieces_own(pieces, bucket);
        int64_t skipped = *at > own.flat_offset ? *at - own.flat_offset : 0;
        int64_t last = own.flat_offset + own.count < end ? own.flat_offset + own.count : end;
        struct piece found = {.flat_offset = own.flat_offset + skipped,
                              .local_offset = own.local_offset + skipped,
                              .count = last - own.flat_offset - skipped};
        if (found.count > 0) {
            *run = found;
            *at = last;
            return true;
        }
        *at = first + (bucket + 1) * pieces->bucket;
    }
    return false;
}
