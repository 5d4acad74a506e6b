// layer: comm
// Flight records of other ranks from hostile bytes, two files separated by a NUL, as read by a rank whose wait timed
// out: it reports every rank, in a message of bounded length.
#include "fuzz.h"

#include "base/log.h"
#include "base/memory.h"
#include "comm/backend.h"
#include "comm/hang.h"
#include <stdio.h>

enum { RANKS = 3, RUN = 7, LONGEST = 4096 };

static void write_record(int rank, const uint8_t *data, size_t size) {
    char *path = memory_printf("%s/flight-%d.jsonl", fuzz_folder(), rank);
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
    free(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct host_name hosts[RANKS] = {{.start = RUN}};
    static int ranks[RANKS] = {0, 1, 2};
    static char name[] = "data";
    struct world *world = memory_alloc(sizeof *world);
    *world = (struct world){
        .place = {.rank = 0, .size = RANKS}, .deadline_seconds = 0, .record_folder = fuzz_folder(), .hosts = hosts};
    struct group group = {.world = world, .name = name, .rank = 0, .size = RANKS, .ranks = ranks, .collectives = 5};
    log_set_level(LOG_ERROR);
    const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
    size_t first = end ? (size_t)(end - data) : size;
    write_record(1, data, first);
    write_record(2, data + first + (end != NULL), size - first - (end != NULL));
    for (int peer = -1; peer < 2; peer += 2) {
        struct buffer out = {0};
        struct comm_request request = {.group = &group, .name = "sum", .sequence = 5, .peer = peer};
        hang_describe(&request, &out);
        CHECK(out.length > 0 && out.length < LONGEST);
        buffer_free(&out);
    }
    free(world);
    return 0;
}
