// layer: cli
// The environment of a launcher from hostile bytes, one NAME=VALUE per line; and Slurm's list of hosts. The place must
// be one of the ranks, and the address and the token must be texts.
#include "fuzz.h"

#include "base/memory.h"
#include "cli/ranks.h"
#include <string.h>

static char *lines;

// The value is valid until the next input: it is terminated in place.
static const char *get(const char *name) {
    size_t length = strlen(name);
    for (char *at = lines; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, name, length) != 0 || at[length] != '=')
            continue;
        static char values[32][256];
        static int next;
        char *value = values[next++ % 32];
        snprintf(value, sizeof values[0], "%.*s", (int)strcspn(at + length + 1, "\n"), at + length + 1);
        return value;
    }
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct launched_ranks ranks;
    char host[64];
    lines = memory_printf("%.*s", (int)size, size > 0 ? (const char *)data : "");
    if (ranks_detect(&ranks, get) == 0) {
        CHECK(memchr(ranks.address, 0, sizeof ranks.address) && memchr(ranks.token, 0, sizeof ranks.token));
        if (ranks.kind == RANKS_TCP)
            CHECK(ranks.place.size > 0 && ranks.place.rank >= 0 && ranks.place.rank < ranks.place.size &&
                  ranks.place.local_rank >= 0 && ranks.place.local_rank < ranks.place.local_size && ranks.port > 0 &&
                  ranks.port < 65536);
        if (ranks.kind == RANKS_NODE)
            CHECK(ranks.node >= 0 && (ranks.nodes == 0 || ranks.node < ranks.nodes));
    }
    if (ranks_first_host(lines, host, sizeof host))
        CHECK(host[0] && strlen(host) < sizeof host && !strchr(host, ','));
    free(lines);
    return 0;
}
