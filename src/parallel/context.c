// Chunks of sequences that ranks share. See context.h.
#include "parallel/context.h"
#include "base/error.h"

#include <string.h>

int context_strips(const struct mesh *mesh) {
    return mesh->length[AXIS_CONTEXT] > 1 ? CONTEXT_MOST_STRIPS : 1;
}

int context_all_strips(const struct mesh *mesh) {
    return context_strips(mesh) * mesh->length[AXIS_CONTEXT];
}

int context_strip(const struct mesh *mesh, int rank, int which) {
    CHECK(which >= 0 && which < context_strips(mesh) && rank >= 0 && rank < mesh->length[AXIS_CONTEXT]);
    return which == 0 ? rank : context_all_strips(mesh) - 1 - rank;
}

struct mesh context_merge(const struct mesh *mesh, int near) {
    struct mesh merged = *mesh;
    CHECK(near >= 1 && mesh->length[AXIS_CONTEXT] % near == 0);
    merged.length[AXIS_CONTEXT] /= near;
    merged.place[AXIS_CONTEXT] /= near;
    merged.group[AXIS_CONTEXT] = near == 1 ? mesh->group[AXIS_CONTEXT] : mesh->far_group;
    return merged;
}

void context_take(const struct mesh *mesh, void *own, const void *whole, const struct context_slice *slice) {
    CHECK(slice->T % context_all_strips(mesh) == 0);
    size_t row = (size_t)slice->T * slice->element_bytes, piece = row / (size_t)context_all_strips(mesh);
    unsigned char *to = own;
    for (int which = 0; which < context_strips(mesh); which++) {
        size_t first = (size_t)context_strip(mesh, mesh->place[AXIS_CONTEXT], which) * piece;
        for (int64_t b = 0; b < slice->B; b++, to += piece)
            memcpy(to, (const unsigned char *)whole + (size_t)b * row + first, piece);
    }
}
