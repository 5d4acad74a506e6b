// The flight recorder's ring. See record.h.
#include "comm/record.h"
#include "base/error.h"

#include <inttypes.h>

const char *collective_kind_name(enum collective_kind kind) {
    static const char *const names[COLLECTIVE_KINDS] = {
        "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send", "receive", "host", "recorded"};
    CHECK(kind < COLLECTIVE_KINDS);
    return names[kind];
}

void record_write(const struct record *record, int rank, FILE *file) {
    int64_t first = record->count > RECORD_ENTRIES ? record->count - RECORD_ENTRIES + 1 : 1;
    for (int64_t number = first; number <= record->count; number++) {
        const struct record_entry *entry = &record->entries[(number - 1) % RECORD_ENTRIES];
        fprintf(file, "{\"rank\": %d, \"number\": %" PRId64 ", \"kind\": \"%s\", \"name\": \"%s\", \"group\": \"%s\"",
                rank, entry->number, collective_kind_name(entry->kind), entry->name, entry->group);
        fprintf(file, ", \"bytes\": %" PRId64 ", \"start\": %.6f", entry->bytes, entry->start);
        if (entry->end > 0)
            fprintf(file, ", \"seconds\": %.6f", entry->end - entry->start);
        fprintf(file, "}\n");
    }
}
