// Reading NCCL's log, fi_info and the kernel's list of cards. See transport.h.
#include "cluster/transport.h"
#include "base/memory.h"

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *transport_name(enum transport transport) {
    static const char *const names[] = {"unknown", "tcp", "ib", "efa"};
    return names[transport];
}

// A line matches if it contains both texts.
static const struct {
    const char *first, *second;
    enum transport transport;
} signs[] = {
    // The plug-in names its provider; "tcp" and "sockets" are also providers of libfabric.
    {"NET/OFI", "rovider is efa", TRANSPORT_EFA},
    {"NET/OFI", "rovider is tcp", TRANSPORT_TCP},
    {"NET/OFI", "rovider is sockets", TRANSPORT_TCP},
    {"Using network", "Socket", TRANSPORT_TCP},
    {"Using network", "IB", TRANSPORT_IB},
};

static bool stands_in(const char *text, size_t length, const char *word) {
    return memmem(text, length, word, strlen(word)) != NULL;
}

enum transport transport_of_log(const char *log) {
    enum transport found = TRANSPORT_UNKNOWN;
    while (*log) {
        size_t length = strcspn(log, "\n");
        for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
            if (stands_in(log, length, signs[i].first) && stands_in(log, length, signs[i].second)) {
                // One rank on TCP slows down the whole run equally.
                found = found == TRANSPORT_TCP ? TRANSPORT_TCP : signs[i].transport;
                break;
            }
        log += length + (log[length] == '\n');
    }
    return found;
}

// Each interface has several endpoints, distinguished by their domains: "    domain: rdmap16s27-rdm".
int transport_efa_interfaces(const char *fi_info) {
    int count = 0;
    bool is_efa = false;
    for (const char *at = fi_info; *at;) {
        size_t length = strcspn(at, "\n");
        if (strncmp(at, "provider:", 9) == 0)
            is_efa = stands_in(at, length, " efa") && !stands_in(at, length, "efa;");
        else if (is_efa && stands_in(at, length, "domain:") && stands_in(at, length, "-rdm"))
            count++;
        at += length + (at[length] == '\n');
    }
    return count;
}

// "4: ACTIVE" is the whole content of a port's file when it is up.
static bool is_active(const char *path) {
    char state[32] = "";
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    bool is_up = fgets(state, sizeof state, file) && strncmp(state, "4:", 2) == 0;
    fclose(file);
    return is_up;
}

int transport_ib_ports(const char *folder) {
    char *pattern = memory_printf("%s/*/ports/*/state", folder);
    size_t skipped = strlen(folder) + 1;
    glob_t found = {0};
    int count = 0;
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            count += strncmp(found.gl_pathv[i] + skipped, "efa", 3) != 0 &&
                     strncmp(found.gl_pathv[i] + skipped, "rdmap", 5) != 0 && is_active(found.gl_pathv[i]);
    globfree(&found);
    free(pattern);
    return count;
}

// Measured with nccl-tests by AWS: 2 machines of p4de and p5, 16 of p5en; one machine of p5, which has the same GPUs
// and links as p5e and p5en.
static const struct {
    const char *machine;
    double one, several;
} measured[] = {
    {"p4d.24xlarge", 0, 70},    {"p4de.24xlarge", 0, 70},    {"p5.48xlarge", 419, 343},
    {"p5e.48xlarge", 419, 343}, {"p5en.48xlarge", 419, 343},
};

double transport_expected_busbw(const char *machine, int nodes) {
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++)
        if (strcmp(measured[i].machine, machine) == 0)
            return nodes > 1 ? measured[i].several : measured[i].one;
    return 0;
}
