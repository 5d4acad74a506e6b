// nvidia-smi's table. See machine.h. A field unknown to the driver or the card is "[N/A]" or "[Not Supported]".
#include "cluster/machine.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"

#include <ctype.h>
#include <glob.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- transport between machines ----

// Reading NCCL's log, fi_info and the kernel's list of cards.

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
    OWNED char *pattern = memory_printf("%s/*/ports/*/state", folder);
    size_t skipped = strlen(folder) + 1;
    glob_t found = {0};
    int count = 0;
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            count += strncmp(found.gl_pathv[i] + skipped, "efa", 3) != 0 &&
                     strncmp(found.gl_pathv[i] + skipped, "rdmap", 5) != 0 && is_active(found.gl_pathv[i]);
    globfree(&found);
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

// ---- GPUs ----

enum { FIELDS = 10, LONGEST_LINE = 1024 };

// Reasons that are faults: hardware slowdown, its thermal kind and its power brake, and the driver's thermal slowdown.
// Idle clocks, power caps and settings of the user are not.
enum {
    THROTTLE_HARDWARE = 0x8,
    THROTTLE_SOFTWARE_THERMAL = 0x20,
    THROTTLE_HARDWARE_THERMAL = 0x40,
    THROTTLE_BRAKE = 0x80
};

// The fields for --query-gpu.
static const char query_fields[] =
    "name,driver_version,memory.total,clocks.sm,clocks.max.sm,ecc.mode.current,"
    "ecc.errors.uncorrected.volatile.total,remapped_rows.pending,clocks_throttle_reasons.active,temperature.gpu";

// -1 if the text is not a number.
static int64_t number(const char *text) {
    char *end;
    long long value = strtoll(text, &end, 0);
    return end > text && !*end && value >= 0 ? (int64_t)value : -1;
}

// Splits "a, b, c" in place; false if there are not FIELDS of them.
static bool split(char *line, char *fields[FIELDS]) {
    int n = 0;
    for (char *at = line; n < FIELDS; n++) {
        size_t length = strcspn(at, ",");
        bool is_last = !at[length];
        at[length] = 0;
        fields[n] = at + strspn(at, " ");
        for (char *end = at + length; end > fields[n] && end[-1] == ' ';)
            *--end = 0;
        if (is_last)
            return n == FIELDS - 1;
        at += length + 1;
    }
    return false;
}

static int parse_line(struct gpu *gpu, char *line) {
    char *fields[FIELDS];
    if (!split(line, fields))
        return error_set("nvidia-smi printed \"%.80s\" instead of %d fields; the driver may be too old", line, FIELDS);
    *gpu = (struct gpu){.memory_mib = number(fields[2]),
                        .clock_mhz = number(fields[3]),
                        .most_mhz = number(fields[4]),
                        .has_ecc = strcmp(fields[5], "Enabled") == 0,
                        .is_ecc_off = strcmp(fields[5], "Disabled") == 0,
                        .uncorrected = number(fields[6]),
                        .pending = strcmp(fields[7], "Yes") == 0  ? 1
                                   : strcmp(fields[7], "No") == 0 ? 0
                                                                  : number(fields[7]),
                        .throttle = number(fields[8]),
                        .temperature = number(fields[9])};
    snprintf(gpu->name, sizeof gpu->name, "%.63s", fields[0]);
    snprintf(gpu->driver, sizeof gpu->driver, "%.31s", fields[1]);
    return 0;
}

int gpus_parse(struct gpus *gpus, const char *text) {
    *gpus = (struct gpus){0};
    while (*text) {
        size_t length = strcspn(text, "\r\n");
        char line[LONGEST_LINE];
        if (length > 0) {
            if (length >= sizeof line || gpus->count == MOST_GPUS)
                return error_set("nvidia-smi's output is too long for up to %d GPUs", MOST_GPUS);
            memcpy(line, text, length);
            line[length] = 0;
            TRY(parse_line(&gpus->items[gpus->count++], line));
        }
        text += length + strspn(text + length, "\r\n");
    }
    return 0;
}

int gpus_query(struct gpus *gpus) {
    char query[400];
    snprintf(query, sizeof query, "--query-gpu=%s", query_fields);
    const char *const words[] = {"nvidia-smi", query, "--format=csv,noheader,nounits", NULL};
    OWNED_BY(process_result_free) struct process_result result = {0};
    *gpus = (struct gpus){0};
    TRY(process_run(words, NULL, &result));
    const char *said = buffer_string(result.errors.length ? &result.errors : &result.output);
    return result.exit_code == 0 ? gpus_parse(gpus, buffer_string(&result.output))
                                 : error_set("nvidia-smi failed with exit code %d: %.*s; check that the driver "
                                             "is loaded (`modprobe nvidia`, `dmesg`)",
                                             result.exit_code, (int)strcspn(said, "\n"), said);
}

static int fault(struct buffer *out, int i, const char *text) {
    buffer_printf(out, "GPU %d: %s\n", i, text);
    return 1;
}

// Whether the name contains this word: L4 is not in "NVIDIA L40S".
static bool has_word(const char *name, const char *word) {
    size_t length = strlen(word);
    for (const char *at = strstr(name, word); at; at = strstr(at + 1, word))
        if ((at == name || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[length]))
            return true;
    return false;
}

// Data-centre cards come with error correction on; workstation cards with it off.
static bool is_data_centre(const char *name) {
    static const char *const cards[] = {"V100", "A100", "A30",  "A10",   "A10G", "A40",  "T4",    "L4",   "L40",
                                        "L40S", "H100", "H200", "GH200", "B200", "B300", "GB200", "GB300"};
    for (size_t i = 0; i < sizeof cards / sizeof cards[0]; i++)
        if (has_word(name, cards[i]))
            return true;
    return false;
}

static bool has_any_ecc(const struct gpus *gpus) {
    for (int i = 0; i < gpus->count; i++)
        if (gpus->items[i].has_ecc)
            return true;
    return false;
}

// Cards older than MACHINE_OLDEST_CAPABILITY, by words of their names. nvidia-smi reports the capability itself only
// with drivers that many of these do not have.
static const char *old_capability(const char *name) {
    static const char *const cards[][2] = {
        {"V100", "7.0"}, {"V100S", "7.0"},     {"GV100", "7.0"},      {"TITAN V", "7.0"}, {"T4", "7.5"},
        {"T4G", "7.5"},  {"TITAN RTX", "7.5"}, {"Quadro RTX", "7.5"}, {"2080", "7.5"},    {"2070", "7.5"},
        {"2060", "7.5"}, {"P100", "6.0"},      {"P40", "6.1"},        {"P4", "6.1"},      {"1080", "6.1"},
        {"M60", "5.2"},  {"K80", "3.7"}};
    for (size_t i = 0; i < sizeof cards / sizeof cards[0]; i++)
        if (has_word(name, cards[i][0]))
            return cards[i][1];
    return NULL;
}

static int faults_of(const struct gpus *gpus, int i, struct buffer *out) {
    const struct gpu *gpu = &gpus->items[i], *first = &gpus->items[0];
    int count = 0;
    char text[200];
    if (strcmp(gpu->name, first->name) != 0) {
        snprintf(text, sizeof text, "is a %s, the first is a %s", gpu->name, first->name);
        count += fault(out, i, text);
    }
    // Reported once for equal GPUs; unequal ones are a fault anyway.
    const char *capability = i == 0 ? old_capability(gpu->name) : NULL;
    if (capability) {
        snprintf(text, sizeof text, "a %s has compute capability %s, but %d.%d is needed (A100 or later)", gpu->name,
                 capability, MACHINE_OLDEST_CAPABILITY / 10, MACHINE_OLDEST_CAPABILITY % 10);
        count += fault(out, i, text);
    }
    if (gpu->uncorrected > 0) {
        snprintf(text, sizeof text, "%" PRId64 " memory errors that could not be corrected; replace the machine",
                 gpu->uncorrected);
        count += fault(out, i, text);
    }
    if (gpu->pending > 0)
        count += fault(out, i, "broken memory rows wait for a reset (nvidia-smi --gpu-reset, or restart the machine)");
    if (gpu->throttle > 0 && gpu->throttle & (THROTTLE_HARDWARE | THROTTLE_HARDWARE_THERMAL | THROTTLE_BRAKE))
        count += fault(out, i, "its clocks are held down by the hardware (heat or power); replace the machine");
    else if (gpu->throttle > 0 && gpu->throttle & THROTTLE_SOFTWARE_THERMAL)
        count += fault(out, i, "its clocks are held down because it is hot");
    // If only one of several has it off, it was switched off on purpose.
    if (gpu->is_ecc_off && (is_data_centre(gpu->name) || has_any_ecc(gpus)))
        count += fault(out, i, "error correction is off (nvidia-smi --ecc-config=1, then restart)");
    return count;
}

int gpus_differ(const struct gpus *gpus, const struct machine *machine, struct buffer *out) {
    // Drivers reserve some of a card's memory, and count the rest in MiB.
    int64_t mib = (int64_t)machine->gpu_gib * 1024, slack = mib / 10;
    int count = 0;
    for (int i = 0; machine->gpu && i < gpus->count; i++) {
        const struct gpu *gpu = &gpus->items[i];
        char text[200];
        if (!has_word(gpu->name, machine->gpu))
            snprintf(text, sizeof text, "is a %s, those of a %s are %s", gpu->name, machine->name, machine->gpu);
        else if (gpu->memory_mib >= 0 && (gpu->memory_mib < mib - slack || gpu->memory_mib > mib + slack))
            snprintf(text, sizeof text, "has %" PRId64 " MiB, those of a %s have %d GiB", gpu->memory_mib,
                     machine->name, machine->gpu_gib);
        else
            continue;
        count += fault(out, i, text);
    }
    return count;
}

int gpus_faults(const struct gpus *gpus, int expected, struct buffer *out) {
    int count = 0;
    if (expected > 0 && gpus->count != expected) {
        buffer_printf(out, "%d GPUs instead of %d; run `nvidia-smi` and `dmesg | grep -i xid` for details\n",
                      gpus->count, expected);
        count++;
    }
    for (int i = 0; i < gpus->count; i++)
        count += faults_of(gpus, i, out);
    return count;
}
