// Sums over MPI, in parts. See mpi_library.h.
#include "comm/mpi_library.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static int64_t longest_part(const struct mpi_sum *sum) {
    size_t of_each = sum->element_bytes * (size_t)(sum->from ? sum->group->size : 1);
    return of_each < PART_BYTES ? (int64_t)(PART_BYTES / of_each) : 1;
}

static void start_part(struct mpi_sum *sum, int index) {
    int64_t left = sum->count - sum->started, longest = longest_part(sum);
    struct mpi_part *part = &sum->parts[index];
    *part = (struct mpi_part){.is_used = true, .first = sum->started, .length = left < longest ? left : longest};
    size_t bytes = (size_t)part->length * sum->element_bytes, size = (size_t)sum->group->size;
    sum->started += part->length;
    sum->group->parts++;
    if (!sum->from) {
        CHECK_MPI(MPI_Iallreduce(MPI_IN_PLACE, sum->to + (size_t)part->first * sum->element_bytes, (int)part->length,
                                 sum->type, sum->operation, sum->group->comm, &sum->pieces[index]));
        return;
    }
    part->packed = memory_alloc((size + 1) * bytes);
    for (size_t i = 0; i < size; i++) {
        size_t element = i * (size_t)sum->count + (size_t)part->first;
        memcpy(part->packed + i * bytes, sum->from + element * sum->element_bytes, bytes);
    }
    CHECK_MPI(MPI_Ireduce_scatter_block(part->packed, part->packed + size * bytes, (int)part->length, sum->type,
                                        sum->operation, sum->group->comm, &sum->pieces[index]));
}

// The part's elements of the source have been read, so the result may overwrite them.
static void end_part(struct mpi_sum *sum, struct mpi_part *part) {
    size_t bytes = (size_t)part->length * sum->element_bytes;
    if (part->packed)
        memcpy(sum->to + (size_t)part->first * sum->element_bytes, part->packed + (size_t)sum->group->size * bytes,
               bytes);
    free(part->packed);
    *part = (struct mpi_part){0};
    sum->group->parts--;
}

bool mpi_sum_is_complete(const struct mpi_sum *sum) {
    bool is_complete = sum->started == sum->count;
    for (int i = 0; i < PARTS_AT_ONCE; i++)
        is_complete &= !sum->parts[i].is_used;
    return is_complete;
}

// `is_next`: all parts of the group's earlier sums have been started.
static void advance(struct mpi_sum *sum, bool is_next) {
    for (int i = 0; i < PARTS_AT_ONCE; i++) {
        int is_done = 0;
        if (sum->parts[i].is_used)
            CHECK_MPI(MPI_Test(&sum->pieces[i], &is_done, MPI_STATUS_IGNORE));
        if (is_done)
            end_part(sum, &sum->parts[i]);
    }
    for (int i = 0; i < PARTS_AT_ONCE && is_next; i++)
        if (!sum->parts[i].is_used && sum->started < sum->count && sum->group->parts < PARTS_AT_ONCE)
            start_part(sum, i);
}

static bool is_next(const struct mpi_sum *first, const struct mpi_sum *sum) {
    while (first != sum && (first->group != sum->group || first->started == first->count))
        first = first->next;
    return first == sum;
}

void mpi_sum_advance(struct mpi_sum **list) {
    for (struct mpi_sum **link = list; *link;) {
        advance(*link, is_next(*list, *link));
        if (mpi_sum_is_complete(*link))
            *link = (*link)->next;
        else
            link = &(*link)->next;
    }
}

void mpi_sum_start(struct mpi_sum **list, struct mpi_sum *sum) {
    struct mpi_sum **link = list;
    while (*link)
        link = &(*link)->next;
    *link = sum;
    mpi_sum_advance(list);
}
