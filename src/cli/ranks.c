// Launchers and their variables in the environment. See ranks.h.
#include "cli/ranks.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/star.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_PORT = 29500 };

// A number in the environment: -1 if the variable is not set; one that is not a number is an error.
static int read_number(const char *(*get)(const char *), const char *name, int *value) {
    const char *text = get(name);
    *value = -1;
    if (!text || !*text)
        return 0;
    char *end;
    long number = strtol(text, &end, 10);
    if (*end || number < 0 || number > 1 << 24)
        return error_set_code(
            EXIT_CODE_USAGE,
            "%s is \"%s\", which is not a number of ranks or nodes; unset it, or use a launcher that sets it", name,
            text);
    *value = (int)number;
    return 0;
}

// The first of two names that is set; both may be NULL.
static const char *either(const char *(*get)(const char *), const char *a, const char *b) {
    const char *text = get(a);
    return text && *text ? text : get(b);
}

// Address of rank 0 from torchrun, PyTorchJob (MASTER_*) and TrainJob (PET_MASTER_*).
static int read_meeting(struct launched_ranks *ranks, const char *(*get)(const char *)) {
    const char *address = either(get, "MASTER_ADDR", "PET_MASTER_ADDR");
    const char *id = either(get, "TORCHELASTIC_RUN_ID", "PET_RDZV_ID");
    const char *token = either(get, "BEVATRON_JOB_TOKEN", "SLURM_JOB_ID");
    TRY(read_number(get, get("MASTER_PORT") ? "MASTER_PORT" : "PET_MASTER_PORT", &ranks->port));
    snprintf(ranks->address, sizeof ranks->address, "%s", address ? address : "");
    const char *own = get("BEVATRON_JOB_TOKEN");
    snprintf(ranks->token, sizeof ranks->token, "%s/%s", token ? token : "", id ? id : "");
    ranks->is_secret = own && *own;
    ranks->port = ranks->port < 0 ? DEFAULT_PORT : ranks->port;
    if (ranks->port == 0 || ranks->port > UINT16_MAX)
        return error_set_code(EXIT_CODE_USAGE, "MASTER_PORT is %d; a port is between 1 and 65535", ranks->port);
    return 0;
}

// A launcher's variables for a rank that connects over TCP. The number of ranks on this machine may be missing.
static int check_place(struct world_place *place, const char *rank, const char *size) {
    if (place->rank < 0 || place->size < 1 || place->rank >= place->size || place->size > STAR_MAX_SIZE)
        return error_set_code(EXIT_CODE_USAGE, "%s %d does not fit %s %d; the launcher sets both", rank, place->rank,
                              size, place->size);
    place->local_rank = place->local_rank < 0 ? 0 : place->local_rank;
    place->local_size = place->local_size > place->local_rank ? place->local_size : place->local_rank + 1;
    return 0;
}

bool ranks_first_host(const char *list, char *host, size_t size) {
    size_t prefix = strcspn(list, ",["), used = prefix;
    if (prefix + 1 > size)
        return false;
    memcpy(host, list, prefix);
    if (list[prefix] == '[') {
        size_t digits = strspn(list + prefix + 1, "0123456789");
        const char *close = strchr(list + prefix, ']');
        if (digits == 0 || !close || used + digits + 1 > size)
            return false;
        memcpy(host + used, list + prefix + 1, digits);
        used += digits;
        size_t suffix = strcspn(close + 1, ",[");
        if (used + suffix + 1 > size)
            return false;
        memcpy(host + used, close + 1, suffix);
        used += suffix;
    }
    host[used] = 0;
    return used > 0;
}

// A step of srun. If MPI is set up for it (--mpi=pmix or pmi2), MPI knows more; else Slurm's own numbers are used.
static int detect_slurm(struct launched_ranks *ranks, const char *(*get)(const char *)) {
    int job, step;
    TRY(read_number(get, "SLURM_PROCID", &ranks->place.rank));
    TRY(read_number(get, "SLURM_STEP_NUM_TASKS", &ranks->place.size));
    TRY(read_number(get, "SLURM_LOCALID", &ranks->place.local_rank));
    TRY(read_number(get, "SLURM_JOB_ID", &job));
    TRY(read_number(get, "SLURM_STEP_ID", &step));
    if (ranks->place.size <= 1) {
        ranks->kind = RANKS_ALONE;
        return 0;
    }
    if (get("PMIX_RANK") || get("PMI_RANK") || get("PMI_FD")) {
        ranks->kind = RANKS_MPI;
        return 0;
    }
    // "4(x2)": four tasks on each of two machines.
    const char *tasks = get("SLURM_STEP_TASKS_PER_NODE");
    long local_size = tasks ? strtol(tasks, NULL, 10) : 1;
    ranks->place.local_size = local_size > 0 && local_size <= ranks->place.size ? (int)local_size : 1;
    ranks->is_on_one_machine = local_size == ranks->place.size;
    TRY(check_place(&ranks->place, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"));
    TRY(read_meeting(ranks, get));
    const char *hosts = either(get, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST");
    if (!ranks->address[0] && (!hosts || !ranks_first_host(hosts, ranks->address, sizeof ranks->address)))
        return error_set("cannot parse srun's list of hosts \"%s\"; set MASTER_ADDR to the first host",
                         hosts ? hosts : "");
    // Jobs on one machine must not share a port.
    if (!get("MASTER_PORT"))
        ranks->port = 20000 + (job < 0 ? 0 : job * 7 + (step < 0 ? 0 : step)) % 10000;
    ranks->kind = RANKS_TCP;
    return 0;
}

static int detect_torchrun(struct launched_ranks *ranks, const char *(*get)(const char *)) {
    struct world_place *place = &ranks->place;
    TRY(read_number(get, "RANK", &place->rank));
    TRY(read_number(get, "WORLD_SIZE", &place->size));
    TRY(read_number(get, "LOCAL_RANK", &place->local_rank));
    TRY(read_number(get, "LOCAL_WORLD_SIZE", &place->local_size));
    TRY(read_meeting(ranks, get));
    ranks->is_on_one_machine = place->local_size == place->size;
    TRY(check_place(place, "RANK", "WORLD_SIZE"));
    if (place->size > 1 && !ranks->address[0])
        return error_set_code(
            EXIT_CODE_USAGE, "WORLD_SIZE is %d, but MASTER_ADDR is not set; set it to the host of rank 0", place->size);
    ranks->kind = place->size > 1 ? RANKS_TCP : RANKS_ALONE;
    return 0;
}

// Variables that do not identify this rank: taken for one rank alone, each would train a model of its own.
static int check_world(const struct launched_ranks *ranks, const char *(*get)(const char *)) {
    int size;
    TRY(read_number(get, "WORLD_SIZE", &size));
    if (size <= 1 || ranks->nodes > 0 || (!get("RANK") && !get("MASTER_ADDR")))
        return 0;
    return error_set_code(
        EXIT_CODE_USAGE,
        "WORLD_SIZE is %d, but %s is not set; set RANK, LOCAL_RANK and MASTER_ADDR for every rank, or "
        "BEVATRON_NODES to the number of machines (RANK is then the machine's, --nproc its ranks), or "
        "unset WORLD_SIZE to train alone",
        size, get("RANK") ? "LOCAL_RANK" : "RANK");
}

// Jobs of Kubernetes: the number of this machine, and the number of machines if the job has it.
static int detect_node(struct launched_ranks *ranks, const char *(*get)(const char *)) {
    static const char *const names[] = {"PET_NODE_RANK", "RANK", "JOB_COMPLETION_INDEX"};
    ranks->node = -1;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && ranks->node < 0; i++)
        TRY(read_number(get, names[i], &ranks->node));
    if (ranks->node < 0)
        return check_world(ranks, get);
    TRY(read_number(get, get("PET_NNODES") ? "PET_NNODES" : "BEVATRON_NODES", &ranks->nodes));
    TRY(read_meeting(ranks, get));
    ranks->nodes = ranks->nodes < 0 ? 0 : ranks->nodes;
    TRY(check_world(ranks, get));
    if (ranks->nodes > 0 && ranks->node >= ranks->nodes)
        return error_set_code(EXIT_CODE_USAGE, "node %d does not fit %d nodes; the launcher sets both numbers",
                              ranks->node, ranks->nodes);
    ranks->kind = RANKS_NODE;
    return 0;
}

int ranks_detect(struct launched_ranks *ranks, const char *(*get)(const char *name)) {
    *ranks = (struct launched_ranks){.kind = RANKS_ALONE, .place = {.size = 1, .local_size = 1}};
    int openmpi, hydra;
    TRY(read_number(get, "OMPI_COMM_WORLD_SIZE", &openmpi));
    TRY(read_number(get, "PMI_SIZE", &hydra));
    bool is_step = get("SLURM_PROCID") && get("SLURM_STEP_ID");
    ranks->is_read = openmpi > 0 || hydra > 0 || is_step;
    if (openmpi > 1 || (hydra > 1 && !is_step)) {
        ranks->kind = RANKS_MPI;
        ranks->place.size = openmpi > 1 ? openmpi : hydra;
        return 0;
    }
    if (openmpi == 1)
        return 0;
    if (is_step)
        return detect_slurm(ranks, get);
    if (get("RANK") && get("WORLD_SIZE") && get("LOCAL_RANK"))
        return detect_torchrun(ranks, get);
    return detect_node(ranks, get);
}

int ranks_check_mpi(const struct launched_ranks *ranks, int size) {
    if (size >= ranks->place.size)
        return 0;
    return error_set_code(EXIT_CODE_USAGE,
                          "the launcher has started %d ranks, but MPI finds %d: each would train alone; use the mpirun "
                          "of the MPI that `bevatron version` names, or a --mpi of srun that this MPI supports",
                          ranks->place.size, size);
}

char *ranks_memory_path(const char *path, const char *node) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    if (!path || !*path)
        return NULL;
    for (const char *at = path; *at; at++) {
        if (at[0] == '%' && at[1] == 'N') {
            buffer_append_string(&text, node ? node : "");
            at++;
        } else {
            buffer_append_byte(&text, *at);
        }
    }
    return memory_string(buffer_string(&text));
}
