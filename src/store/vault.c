// Memory for checkpoints that outlives the ranks. See vault.h.
#include "store/vault.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t MAGIC = 0x626576617661756c;
static const uint64_t REGION_BYTES = (uint64_t)1 << 40;
// At least as large as any page of memory.
enum { BLOCK_BYTES = 1 << 16 };

struct vault_head {
    uint64_t magic;
    int64_t ranks;
    uint64_t id;
    int64_t generation;
};

// sequence: 0 while the slot is empty or being written; rises with every checkpoint of the region.
struct vault_slot {
    atomic_uint_fast64_t sequence;
    int64_t iteration;
    uint64_t hash;
};

struct vault_page {
    uint64_t fingerprint, bytes;
    struct vault_slot slots[VAULT_SLOTS];
};

struct vault {
    int file;
    int ranks;
    uint64_t id;
    char *path;
};

static off_t region_at(int rank) {
    return (off_t)((uint64_t)(1 + rank) * REGION_BYTES);
}

static size_t round_up(size_t bytes) {
    return (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

struct vault *vault_create(int ranks) {
    CHECK(ranks > 0 && ranks <= VAULT_MOST_RANKS);
    int file = memfd_create("bevatron-checkpoints", MFD_CLOEXEC);
    struct vault_head head = {.magic = MAGIC, .ranks = ranks};
    bool is_made = getrandom(&head.id, sizeof head.id, 0) == (ssize_t)sizeof head.id && file >= 0 &&
                   fchmod(file, 0600) == 0 && ftruncate(file, region_at(ranks)) == 0 &&
                   pwrite(file, &head, sizeof head, 0) == (ssize_t)sizeof head;
    if (!is_made) {
        error_set("cannot create shared memory for checkpoints: %s; leave out --checkpoint-in-memory", strerror(errno));
        if (file >= 0)
            close(file);
        return NULL;
    }
    struct vault *vault = memory_alloc(sizeof *vault);
    *vault = (struct vault){
        .file = file, .ranks = ranks, .id = head.id, .path = memory_printf("/proc/%d/fd/%d", (int)getpid(), file)};
    return vault;
}

uint64_t vault_id(const struct vault *vault) {
    return vault->id;
}

int64_t vault_generation(const struct vault *vault) {
    struct vault_head head = {0};
    return pread(vault->file, &head, sizeof head, 0) == (ssize_t)sizeof head ? head.generation : 0;
}

void vault_set_generation(const struct vault *vault, int64_t generation) {
    const off_t at = offsetof(struct vault_head, generation);
    CHECK(pwrite(vault->file, &generation, sizeof generation, at) == (ssize_t)sizeof generation);
}

const char *vault_path(const struct vault *vault) {
    return vault->path;
}

int vault_open(struct vault **vault, const char *path) {
    struct stat status;
    struct vault_head head = {0};
    *vault = NULL;
    int file = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (file < 0)
        return error_set("cannot open the launcher's memory for checkpoints, %s: %s", path, strerror(errno));
    bool is_ours = fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
                   pread(file, &head, sizeof head, 0) == (ssize_t)sizeof head && head.magic == MAGIC &&
                   head.ranks > 0 && head.ranks <= VAULT_MOST_RANKS && status.st_size == region_at((int)head.ranks);
    if (!is_ours) {
        close(file);
        return error_set("%s is not a launcher's memory for checkpoints", path);
    }
    *vault = memory_alloc(sizeof **vault);
    **vault = (struct vault){.file = file, .ranks = (int)head.ranks, .id = head.id, .path = memory_string(path)};
    return 0;
}

void vault_close(struct vault *vault) {
    if (!vault)
        return;
    close(vault->file);
    free(vault->path);
    free(vault);
}

// Gives memory back; it reads as zeros from then on.
static void free_range(const struct vault *vault, off_t first, off_t end) {
    while (fallocate(vault->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, first, end - first) < 0)
        CHECK(errno == EINTR);
}

void vault_clear(const struct vault *vault) {
    free_range(vault, region_at(0), region_at(vault->ranks));
}

void vault_free_region(const struct vault *vault, int rank) {
    if (rank >= 0 && rank < vault->ranks)
        free_range(vault, region_at(rank), region_at(rank + 1));
}

static bool read_page(const struct vault *vault, int rank, struct vault_page *page) {
    return rank >= 0 && rank < vault->ranks &&
           pread(vault->file, page, sizeof *page, region_at(rank)) == (ssize_t)sizeof *page;
}

static void claims_of(const struct vault_page *page, int64_t claims[VAULT_SLOTS]) {
    for (int i = 0; i < VAULT_SLOTS; i++)
        claims[i] =
            atomic_load_explicit(&page->slots[i].sequence, memory_order_acquire) ? page->slots[i].iteration : -1;
}

int64_t vault_newest(const struct vault *vault) {
    int64_t *claims = memory_alloc(sizeof *claims * VAULT_SLOTS * (size_t)vault->ranks), newest = -1;
    struct vault_page page;
    int ranks = 0;
    while (ranks < vault->ranks && read_page(vault, ranks, &page)) {
        claims_of(&page, claims + VAULT_SLOTS * ranks);
        ranks++;
    }
    if (ranks == vault->ranks)
        newest = vault_common(claims, ranks);
    free(claims);
    return newest;
}

bool vault_has(const struct vault *vault, const struct vault_request *request) {
    struct vault_page page;
    return read_page(vault, request->rank, &page) && page.fingerprint == request->fingerprint &&
           page.bytes == request->bytes;
}

void vault_peek(const struct vault *vault, const struct vault_request *request, int64_t claims[VAULT_SLOTS]) {
    struct vault_page page;
    if (vault_has(vault, request) && read_page(vault, request->rank, &page))
        claims_of(&page, claims);
    else
        for (int i = 0; i < VAULT_SLOTS; i++)
            claims[i] = -1;
}

// If memory were only promised, a write to it could kill the rank by a signal.
static int take_memory(const struct vault *vault, int rank, size_t bytes) {
    int status;
    do
        status = fallocate(vault->file, 0, region_at(rank), (off_t)bytes);
    while (status < 0 && errno == EINTR);
    if (status < 0)
        return error_set_code(EXIT_CODE_OUT_OF_MEMORY,
                              "cannot take %.2f GB of host memory for checkpoints: %s; leave out "
                              "--checkpoint-in-memory",
                              (double)bytes / 1e9, strerror(errno));
    return 0;
}

int vault_take(const struct vault *vault, struct vault_region *region, const struct vault_request *request) {
    *region = (struct vault_region){0};
    if (request->rank < 0 || request->rank >= vault->ranks)
        return error_set("the launcher's memory for checkpoints is for %d ranks, but this is rank %d", vault->ranks,
                         request->rank);
    if (request->bytes > REGION_BYTES / 4)
        return error_set("a checkpoint of %.0f GB is too large for host memory; leave out --checkpoint-in-memory",
                         (double)request->bytes / 1e9);
    size_t mapped = BLOCK_BYTES + VAULT_SLOTS * round_up(request->bytes);
    off_t at = region_at(request->rank);
    if (!vault_has(vault, request)) {
        vault_free_region(vault, request->rank);
        TRY(take_memory(vault, request->rank, mapped));
    }
    struct vault_page *page = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, vault->file, at);
    if (page == MAP_FAILED)
        return error_set_code(EXIT_CODE_OUT_OF_MEMORY, "cannot map %.2f GB of host memory for checkpoints: %s",
                              (double)mapped / 1e9, strerror(errno));
    *region = (struct vault_region){.page = page, .bytes = request->bytes, .mapped = mapped, .writing = -1};
    page->bytes = request->bytes;
    page->fingerprint = request->fingerprint;
    return 0;
}

void vault_release(struct vault_region *region) {
    if (region->page)
        munmap(region->page, region->mapped);
    *region = (struct vault_region){0};
}

static unsigned char *content(const struct vault_region *region, int slot) {
    return (unsigned char *)region->page + BLOCK_BYTES + (size_t)slot * round_up(region->bytes);
}

// The hash covers the iteration too.
static uint64_t hash_of(const struct vault_region *region, int slot) {
    return hash_bytes(content(region, slot), region->bytes, (uint64_t)region->page->slots[slot].iteration);
}

void *vault_begin(struct vault_region *region) {
    int oldest = 0;
    for (int i = 1; i < VAULT_SLOTS; i++)
        if (region->page->slots[i].sequence < region->page->slots[oldest].sequence)
            oldest = i;
    region->writing = oldest;
    atomic_store(&region->page->slots[oldest].sequence, 0);
    // The fence also keeps the compiler from writing content before this.
    atomic_thread_fence(memory_order_seq_cst);
    return content(region, oldest);
}

void vault_commit(struct vault_region *region, int64_t iteration) {
    CHECK(region->writing >= 0 && iteration >= 0);
    struct vault_slot *slots = region->page->slots, *slot = &slots[region->writing];
    uint64_t last = 0;
    for (int i = 0; i < VAULT_SLOTS; i++)
        last = slots[i].sequence > last ? slots[i].sequence : last;
    slot->iteration = iteration;
    slot->hash = hash_of(region, region->writing);
    atomic_store_explicit(&slot->sequence, last + 1, memory_order_release);
    region->writing = -1;
}

void vault_claims(const struct vault_region *region, int64_t claims[VAULT_SLOTS]) {
    claims_of(region->page, claims);
}

static bool has_claim(const int64_t *row, int64_t iteration) {
    for (int i = 0; i < VAULT_SLOTS; i++)
        if (row[i] == iteration)
            return true;
    return false;
}

int64_t vault_common(const int64_t *claims, int ranks) {
    int64_t newest = -1;
    for (int i = 0; i < VAULT_SLOTS; i++) {
        int rank = 0;
        while (rank < ranks && has_claim(claims + VAULT_SLOTS * rank, claims[i]))
            rank++;
        if (rank == ranks && claims[i] > newest)
            newest = claims[i];
    }
    return newest;
}

const void *vault_find(const struct vault_region *region, int64_t iteration) {
    const struct vault_slot *slots = region->page->slots;
    int64_t claims[VAULT_SLOTS];
    uint64_t last = 0;
    int found = -1;
    vault_claims(region, claims);
    for (int i = 0; i < VAULT_SLOTS && iteration >= 0; i++)
        if (claims[i] == iteration && slots[i].sequence > last) {
            last = slots[i].sequence;
            found = i;
        }
    return found >= 0 && slots[found].hash == hash_of(region, found) ? content(region, found) : NULL;
}

void vault_drop(struct vault_region *region, int64_t iteration) {
    for (int i = 0; i < VAULT_SLOTS; i++)
        if (region->page->slots[i].iteration == iteration)
            atomic_store(&region->page->slots[i].sequence, 0);
}

void vault_drop_after(struct vault_region *region, int64_t iteration) {
    for (int i = 0; i < VAULT_SLOTS; i++)
        if (region->page->slots[i].iteration > iteration)
            atomic_store(&region->page->slots[i].sequence, 0);
}

void vault_drop_all(struct vault_region *region) {
    for (int i = 0; i < VAULT_SLOTS; i++)
        atomic_store(&region->page->slots[i].sequence, 0);
}
