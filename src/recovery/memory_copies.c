// Copies of checkpoints in host memory on a second node. See memory_checkpoint.h.
#include "recovery/memory_checkpoint.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Bytes sent at once: enough for a network's full speed, small compared to a model.
enum { CHUNK_BYTES = 16 << 20 };

// The first rank of every node, in order, and the node of every rank; returns the number of nodes.
static int number_nodes(const int64_t *vaults, int ranks, int *firsts, int *node_of) {
    int nodes = 0;
    for (int rank = 0; rank < ranks; rank++) {
        int node = rank > 0 && vaults[rank] == vaults[rank - 1] ? node_of[rank - 1] : 0;
        while (node < nodes && vaults[firsts[node]] != vaults[rank])
            node++;
        if (node == nodes)
            firsts[nodes++] = rank;
        node_of[rank] = node;
    }
    return nodes;
}

// The rank at a place of a node; places beyond its last rank begin again.
static int rank_at(const int *node_of, int ranks, int node, int place) {
    int count = 0;
    for (int rank = 0; rank < ranks; rank++)
        count += node_of[rank] == node;
    place %= count;
    for (int rank = 0;; rank++)
        if (node_of[rank] == node && place-- == 0)
            return rank;
}

int memory_copies_assign(const int64_t *vaults, int ranks, int *keepers) {
    OWNED int *firsts = memory_alloc(sizeof *firsts * (size_t)ranks),
              *node_of = memory_alloc(sizeof *node_of * (size_t)ranks);
    OWNED int *places = memory_alloc(sizeof *places * (size_t)ranks);  // ranks of each node so far
    int nodes = number_nodes(vaults, ranks, firsts, node_of);
    for (int rank = 0; rank < ranks; rank++) {
        int place = places[node_of[rank]]++;
        keepers[rank] = nodes == 1 ? -1 : rank_at(node_of, ranks, (node_of[rank] + 1) % nodes, place);
    }
    return nodes;
}

static int64_t number_of(const struct memory_copies *copies, int rank, int which) {
    return copies->numbers[COPY_NUMBERS * rank + which];
}

static struct vault_request request_of(const struct memory_copies *copies, int rank) {
    return (struct vault_request){.rank = rank,
                                  .bytes = (size_t)number_of(copies, rank, COPY_BYTES),
                                  .fingerprint = (uint64_t)number_of(copies, rank, COPY_FINGERPRINT)};
}

static bool is_same_node(const struct memory_copies *copies, int a, int b) {
    return number_of(copies, a, COPY_VAULT) == number_of(copies, b, COPY_VAULT);
}

static bool is_first_of_node(const struct memory_copies *copies) {
    for (int rank = 0; rank < copies->mesh->rank; rank++)
        if (is_same_node(copies, rank, copies->mesh->rank))
            return false;
    return true;
}

// Every start raises the generation of its vaults by two, in two steps with a barrier between them. So vaults of one
// start are at most one step apart, wherever it was cut short, and a vault that missed a start lags by two.
static void drop_stale(const struct memory_copies *copies) {
    const struct mesh *mesh = copies->mesh;
    int64_t newest = 0, own = number_of(copies, mesh->rank, COPY_GENERATION);
    for (int rank = 0; rank < mesh->size; rank++)
        if (number_of(copies, rank, COPY_GENERATION) > newest)
            newest = number_of(copies, rank, COPY_GENERATION);
    if (newest - own >= 2 && is_first_of_node(copies))
        vault_clear(copies->vault);
    vault_set_generation(copies->vault, newest + 1);
    comm_barrier(mesh->all, "memory for checkpoints");
    vault_set_generation(copies->vault, newest + 2);
}

void memory_copies_meet(struct memory_copies *copies, const struct mesh *mesh, const struct vault *vault,
                        const struct vault_request *request) {
    size_t ranks = (size_t)mesh->size;
    *copies = (struct memory_copies){.mesh = mesh,
                                     .vault = vault,
                                     .numbers = memory_alloc(sizeof *copies->numbers * COPY_NUMBERS * ranks),
                                     .keepers = memory_alloc(sizeof *copies->keepers * ranks),
                                     .kept = memory_alloc(sizeof *copies->kept * ranks)};
    int64_t *own = copies->numbers + COPY_NUMBERS * mesh->rank, *vaults = memory_alloc(sizeof *vaults * ranks);
    own[COPY_VAULT] = vault ? (int64_t)vault_id(vault) : 0;
    own[COPY_GENERATION] = vault ? vault_generation(vault) : 0;
    own[COPY_BYTES] = (int64_t)request->bytes;
    own[COPY_FINGERPRINT] = (int64_t)request->fingerprint;
    comm_all_gather_i64(mesh->all, copies->numbers, COPY_NUMBERS, "memory for checkpoints");
    for (int rank = 0; rank < mesh->size; rank++)
        vaults[rank] = number_of(copies, rank, COPY_VAULT);
    copies->nodes = memory_copies_assign(vaults, mesh->size, copies->keepers);
    for (int rank = 0; rank < mesh->size; rank++)
        if (copies->keepers[rank] == mesh->rank)
            copies->kept[copies->kept_count++] = rank;
    free(vaults);
    if (vault)
        drop_stale(copies);
}

size_t memory_copies_needed(const struct memory_copies *copies) {
    size_t bytes = 0;
    for (int i = 0; i < copies->kept_count; i++) {
        struct vault_request request = request_of(copies, copies->kept[i]);
        bytes += vault_has(copies->vault, &request) ? 0 : VAULT_SLOTS * request.bytes;
    }
    return bytes;
}

int memory_copies_open(struct memory_copies *copies, struct device *device) {
    size_t count = copies->kept_count > 0 ? (size_t)copies->kept_count : 1;
    copies->device = device;
    copies->regions = memory_alloc(sizeof *copies->regions * count);
    for (int i = 0; i < copies->kept_count; i++) {
        struct vault_request request = request_of(copies, copies->kept[i]);
        TRY(vault_take(copies->vault, &copies->regions[i], &request));
    }
    if (copies->nodes == 1)
        return 0;
    copies->out = device_alloc(device, CHUNK_BYTES);
    copies->in = copies->out ? device_alloc(device, CHUNK_BYTES * count) : NULL;
    return copies->in ? 0 : -1;
}

void memory_copies_close(struct memory_copies *copies) {
    for (int i = 0; copies->regions && i < copies->kept_count; i++)
        vault_release(&copies->regions[i]);
    if (copies->out)
        device_free(copies->device, copies->out);
    if (copies->in)
        device_free(copies->device, copies->in);
    free(copies->numbers);
    free(copies->keepers);
    free(copies->kept);
    free(copies->regions);
    *copies = (struct memory_copies){0};
}

// ---- moving ----

// Streams of bytes between ranks: every rank sends at most one.
struct streams {
    const int *to;               // (ranks): receiver of each rank's stream; -1: it sends none
    const int64_t *bytes;        // (ranks): length of each stream
    const unsigned char *from;   // this rank's own
    unsigned char *const *into;  // (ranks): destinations of the received streams
};

static int64_t chunk_of(const struct streams *streams, int rank, int64_t at) {
    int64_t left = streams->to[rank] < 0 ? 0 : streams->bytes[rank] - at;
    return left < 0 ? 0 : left < CHUNK_BYTES ? left : CHUNK_BYTES;
}

static void move_chunk(const struct memory_copies *copies, const struct streams *streams, int64_t at,
                       struct comm_exchange *exchange, int64_t *counts) {
    int ranks = copies->mesh->size, self = copies->mesh->rank;
    int64_t *received = counts, *sent = counts + ranks, coming = 0, going = chunk_of(streams, self, at);
    memset(counts, 0, sizeof *counts * 2 * (size_t)ranks);
    for (int rank = 0; rank < ranks; rank++)
        if (streams->to[rank] == self)
            coming += received[rank] = chunk_of(streams, rank, at);
    if (going > 0)
        sent[streams->to[self]] = going;
    *exchange = (struct comm_exchange){.received = received, .sent = sent};
    exchange->from = tensor_1d(copies->out, DTYPE_U8, going);
    exchange->to = tensor_1d(copies->in, DTYPE_U8, coming);
    if (going > 0)
        device_copy_in(copies->device, exchange->from, streams->from + at);
    struct comm_request request = comm_all_to_all_start(copies->mesh->all, exchange, "copies of checkpoints");
    comm_wait(&request);
    int64_t first = 0;
    for (int rank = 0; rank < ranks; rank++) {
        if (received[rank] > 0)
            device_copy_out(copies->device, streams->into[rank] + at, tensor_rows(exchange->to, first, received[rank]));
        first += received[rank];
    }
    // `out` is written again next.
    device_synchronize(copies->device);
}

static void move(const struct memory_copies *copies, const struct streams *streams) {
    int64_t longest = 0, *counts = memory_alloc(sizeof *counts * 2 * (size_t)copies->mesh->size);
    for (int rank = 0; rank < copies->mesh->size; rank++)
        if (streams->to[rank] >= 0 && streams->bytes[rank] > longest)
            longest = streams->bytes[rank];
    struct comm_exchange exchange;
    for (int64_t at = 0; at < longest; at += CHUNK_BYTES)
        move_chunk(copies, streams, at, &exchange, counts);
    free(counts);
}

void memory_copies_exchange(struct memory_copies *copies, const void *content, int64_t iteration) {
    size_t ranks = (size_t)copies->mesh->size;
    if (copies->nodes == 1)
        return;
    OWNED int64_t *bytes = memory_alloc(sizeof *bytes * ranks);
    unsigned char **into = memory_alloc(sizeof *into * ranks);
    for (int rank = 0; rank < copies->mesh->size; rank++)
        bytes[rank] = number_of(copies, rank, COPY_BYTES);
    for (int i = 0; i < copies->kept_count; i++)
        into[copies->kept[i]] = vault_begin(&copies->regions[i]);
    move(copies, &(struct streams){.to = copies->keepers, .bytes = bytes, .from = content, .into = into});
    for (int i = 0; i < copies->kept_count; i++)
        vault_commit(&copies->regions[i], iteration);
    free(into);
}

void memory_copies_drop_after(struct memory_copies *copies, int64_t iteration) {
    for (int i = 0; i < copies->kept_count; i++)
        vault_drop_after(&copies->regions[i], iteration);
}

void memory_copies_forget(struct memory_copies *copies) {
    for (int i = 0; i < copies->kept_count; i++)
        vault_drop_all(&copies->regions[i]);
}

// ---- after the loss of a node ----

static bool is_empty(const int64_t *claims) {
    for (int i = 0; i < VAULT_SLOTS; i++)
        if (claims[i] >= 0)
            return false;
    return true;
}

static int64_t newest_of(const int64_t *claims) {
    int64_t newest = -1;
    for (int i = 0; i < VAULT_SLOTS; i++)
        newest = claims[i] > newest ? claims[i] : newest;
    return newest;
}

// Finds who holds a checkpoint of a rank that has none itself, and puts the holder's claims into the rank's row. -1 if
// there is none.
static int find_holder(const struct memory_copies *copies, int missing, int64_t *row) {
    const struct mesh *mesh = copies->mesh;
    int64_t *claims = memory_alloc(sizeof *claims * VAULT_SLOTS * (size_t)mesh->size), newest = -1;
    struct vault_request request = request_of(copies, missing);
    int holder = -1;
    vault_peek(copies->vault, &request, claims + VAULT_SLOTS * mesh->rank);
    comm_all_gather_i64(mesh->all, claims, VAULT_SLOTS, "copies of checkpoints");
    for (int rank = 0; rank < mesh->size; rank++)
        if (newest_of(claims + VAULT_SLOTS * rank) > newest) {
            holder = rank;
            newest = newest_of(claims + VAULT_SLOTS * rank);
        }
    if (holder >= 0)
        memcpy(row, claims + VAULT_SLOTS * holder, sizeof *row * VAULT_SLOTS);
    free(claims);
    return holder;
}

// Sends a rank's checkpoint from its holder to it; 0 on all ranks if the holder's is damaged.
static int fetch(const struct memory_copies *copies, struct vault_region *own, int missing, int holder,
                 int64_t iteration) {
    const struct mesh *mesh = copies->mesh;
    size_t ranks = (size_t)mesh->size;
    struct vault_region held = {0};
    struct vault_request request = request_of(copies, missing);
    const unsigned char *content = NULL;
    if (mesh->rank == holder && vault_take(copies->vault, &held, &request) == 0)
        content = vault_find(&held, iteration);
    int64_t is_there = content != NULL;
    comm_broadcast_i64(mesh->all, &is_there, 1, holder, "copies of checkpoints");
    if (is_there) {
        int64_t *bytes = memory_alloc(sizeof *bytes * ranks);
        int *to = memory_alloc(sizeof *to * ranks);
        unsigned char **into = memory_alloc(sizeof *into * ranks);
        for (int rank = 0; rank < mesh->size; rank++)
            to[rank] = rank == holder ? missing : -1;
        bytes[holder] = (int64_t)request.bytes;
        into[holder] = mesh->rank == missing ? vault_begin(own) : NULL;
        move(copies, &(struct streams){.to = to, .bytes = bytes, .from = content, .into = into});
        if (mesh->rank == missing)
            vault_commit(own, iteration);
        free(bytes);
        free(to);
        free(into);
    }
    vault_release(&held);
    error_clear();
    return is_there != 0;
}

// The first rank of a node frees what neither its ranks nor those whose copies they keep need.
static void drop_others(const struct memory_copies *copies) {
    int self = copies->mesh->rank;
    if (!is_first_of_node(copies))
        return;
    for (int rank = 0; rank < copies->mesh->size; rank++)
        if (!is_same_node(copies, rank, self) && !is_same_node(copies, copies->keepers[rank], self))
            vault_free_region(copies->vault, rank);
}

int memory_copies_recover(struct memory_copies *copies, struct vault_region *own) {
    const struct mesh *mesh = copies->mesh;
    if (copies->nodes == 1)
        return 0;
    OWNED int64_t *claims = memory_alloc(sizeof *claims * VAULT_SLOTS * (size_t)mesh->size);
    int *holders = memory_alloc(sizeof *holders * (size_t)mesh->size), missing = 0, fetched = 0;
    vault_claims(own, claims + VAULT_SLOTS * mesh->rank);
    comm_all_gather_i64(mesh->all, claims, VAULT_SLOTS, "checkpoints in host memory");
    for (int rank = 0; rank < mesh->size; rank++)
        missing += is_empty(claims + VAULT_SLOTS * rank);
    for (int rank = 0; rank < mesh->size; rank++) {
        bool asks = missing < mesh->size && is_empty(claims + VAULT_SLOTS * rank);
        holders[rank] = asks ? find_holder(copies, rank, claims + VAULT_SLOTS * rank) : -1;
    }
    int64_t iteration = vault_common(claims, mesh->size);
    for (int rank = 0; rank < mesh->size && iteration >= 0; rank++)
        if (holders[rank] >= 0)
            fetched += fetch(copies, own, rank, holders[rank], iteration);
    drop_others(copies);
    free(holders);
    return fetched;
}
