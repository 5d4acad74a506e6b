// Checkpoints in host memory. See memory_checkpoint.h.
//
// A slot of the vault holds struct memory_head, the configuration as JSON, and the tensors, each at a multiple of 256
// bytes. Only the same program on the same layout reads it, so nothing is converted.
#include "recovery/memory_checkpoint.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/host_limits.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/phase.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ALIGNMENT = 256, PIECE_BYTES = 16 << 20 };

struct memory_head {
    struct progress_state at;
    struct checkpoint_past past;  // what at.past points to, if to anything
    struct step_counters counters;
    uint64_t text_bytes;
};

static size_t aligned(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static struct buffer describe(const struct config *config) {
    struct buffer text = {0};
    struct json_writer writer = {.out = &text};
    config_to_json(config, &writer);
    return text;
}

// Flags that a resumed run takes from its checkpoint may make the text longer.
static size_t text_room_of(const struct buffer *text) {
    return aligned(2 * text->length + 4096);
}

static size_t content_bytes(const struct tensor *tensors, int count, size_t text_room) {
    size_t bytes = aligned(sizeof(struct memory_head)) + text_room;
    for (int i = 0; i < count; i++)
        bytes += aligned(tensor_bytes(tensors[i]));
    return bytes;
}

static struct tensor *list_tensors(const struct step *step, int *count) {
    struct tensor *tensors = memory_alloc(sizeof *tensors * (size_t)step_list_state(step, NULL));
    *count = step_list_state(step, tensors);
    return tensors;
}

size_t memory_checkpoint_bytes(const struct step *step, const struct config *config) {
    OWNED_BY(buffer_free) struct buffer text = describe(config);
    int count;
    OWNED struct tensor *tensors = list_tensors(step, &count);
    return VAULT_SLOTS * content_bytes(tensors, count, text_room_of(&text));
}

// Hash of everything that determines the following iterations. A rank restarted with other flags, other data or another
// number does not take the checkpoint.
static uint64_t fingerprint_of(const struct memory_checkpoint *memory, const struct buffer *text,
                               const struct buffer *identity) {
    const struct mesh *mesh = step_mesh(memory->step);
    uint64_t hash = hash_bytes(BEVATRON_VERSION, strlen(BEVATRON_VERSION), sizeof(struct memory_head));
    hash = hash_bytes(text->data, text->length, hash);
    hash = hash_bytes(identity->data, identity->length, hash);
    const int64_t place[] = {mesh->rank, mesh->size};
    hash = hash_bytes(place, sizeof place, hash);
    for (int i = 0; i < memory->tensor_count; i++) {
        const int64_t shape[] = {(int64_t)memory->tensors[i].dtype, tensor_count(memory->tensors[i])};
        hash = hash_bytes(shape, sizeof shape, hash);
    }
    return hash;
}

static int ranks_here(const struct mesh *mesh) {
    int count = 0;
    for (int i = 0; i < group_size(mesh->all); i++)
        count += group_is_neighbour(mesh->all, i);
    return count;
}

// Host memory that the step has taken but not used yet is not available.
static int check_room(const struct memory_checkpoint *memory, size_t bytes) {
    const struct step_memory *taken = step_memory(memory->step);
    int sharers = ranks_here(step_mesh(memory->step));
    uint64_t room = host_memory_room(sharers), resident = host_memory_resident(), owed = 0;
    if (step_device(memory->step)->ops->is_host_memory && taken->total + taken->device_own > resident)
        owed = taken->total + taken->device_own - resident;
    if (room == UINT64_MAX || bytes + owed <= room)
        return 0;
    return error_set_code(EXIT_CODE_OUT_OF_MEMORY,
                          "--checkpoint-in-memory needs %.2f GB of host memory for each of the %d ranks here, and %.2f "
                          "GB are available; leave it out, or use fewer ranks on this machine",
                          (double)bytes / 1e9, sharers, (double)(room > owed ? room - owed : 0) / 1e9);
}

static struct vault_request make_request(struct memory_checkpoint *memory,
                                         const struct memory_checkpoint_options *options) {
    struct buffer text = describe(options->config);
    memory->text_room = text_room_of(&text);
    const struct vault_request request = {.rank = step_mesh(memory->step)->rank,
                                          .bytes =
                                              content_bytes(memory->tensors, memory->tensor_count, memory->text_room),
                                          .fingerprint = fingerprint_of(memory, &text, options->identity)};
    buffer_free(&text);
    return request;
}

static int take_regions(struct memory_checkpoint *memory, const struct vault_request *request) {
    size_t needed = memory_copies_needed(&memory->copies);
    needed += vault_has(memory->vault, request) ? 0 : VAULT_SLOTS * request->bytes;
    if (needed > 0)
        TRY(check_room(memory, needed));
    TRY(vault_take(memory->vault, &memory->region, request));
    TRY(memory_copies_open(&memory->copies, step_device(memory->step)));
    if (!step_device(memory->step)->ops->is_host_memory)
        memory->piece = device_host_alloc(step_device(memory->step), PIECE_BYTES);
    return step_device(memory->step)->ops->is_host_memory || memory->piece ? 0 : -1;
}

// A keeper that was started just before the ranks may not be there yet.
static int open_vault(struct memory_checkpoint *memory, const char *path) {
    static const double patience = 30, nap = 0.05;
    struct stat status;
    for (double waited = 0; waited < patience && stat(path, &status) < 0; waited += nap)
        clock_sleep(nap);
    return vault_open(&memory->vault, path);
}

int memory_checkpoint_open(struct memory_checkpoint *memory, const struct memory_checkpoint_options *options) {
    *memory = (struct memory_checkpoint){
        .config = options->config, .step = options->step, .latest_on_disk = options->latest_on_disk};
    if (!options->config->run.checkpoint_in_memory || options->config->run.skip_train)
        return 0;
    const struct mesh *mesh = step_mesh(options->step);
    memory->tensors = list_tensors(options->step, &memory->tensor_count);
    int status = open_vault(memory, options->path);
    TRY(comm_agree(mesh->all, status, "memory for checkpoints"));
    const struct vault_request request = make_request(memory, options);
    memory_copies_meet(&memory->copies, mesh, memory->vault, &request);
    status = comm_agree(mesh->all, take_regions(memory, &request), "memory for checkpoints");
    if (status < 0) {
        vault_release(&memory->region);
        return -1;
    }
    double bytes = (double)(VAULT_SLOTS * memory->region.bytes);
    for (int i = 0; i < memory->copies.kept_count; i++)
        bytes += (double)(VAULT_SLOTS * memory->copies.regions[i].bytes);
    log_info("checkpoints in host memory every %" PRId64 " iteration%s: %.3f GB for this rank, %.3f GB for the %d "
             "rank%s of this machine",
             memory->config->run.memory_interval, memory->config->run.memory_interval == 1 ? "" : "s", bytes / 1e9,
             bytes * ranks_here(mesh) / 1e9, ranks_here(mesh), ranks_here(mesh) == 1 ? "" : "s");
    if (memory->copies.nodes > 1)
        log_info("each checkpoint in host memory has a copy on another of the %d nodes", memory->copies.nodes);
    return 0;
}

void memory_checkpoint_close(struct memory_checkpoint *memory) {
    if (memory->saved > 0)
        log_info("checkpoints in host memory: %" PRId64 ", %.1f ms each", memory->saved,
                 memory->seconds * 1e3 / (double)memory->saved);
    if (memory->piece)
        device_host_free(step_device(memory->step), memory->piece);
    memory_copies_close(&memory->copies);
    vault_release(&memory->region);
    vault_close(memory->vault);
    free(memory->tensors);
    *memory = (struct memory_checkpoint){0};
}

// ---- saving ----

bool memory_checkpoint_is_due(const struct memory_checkpoint *memory, int64_t iteration) {
    return memory->region.page && iteration % memory->config->run.memory_interval == 0;
}

static void copy_out(const struct memory_checkpoint *memory, unsigned char *to, struct tensor from) {
    struct device *device = step_device(memory->step);
    if (!memory->piece) {
        memcpy(to, from.data, tensor_bytes(from));
        return;
    }
    struct tensor flat = tensor_flat(from);
    int64_t limit = PIECE_BYTES / (int64_t)dtype_bytes(from.dtype), all = tensor_count(from);
    for (int64_t first = 0; first < all; first += limit) {
        struct tensor view = tensor_rows(flat, first, all - first < limit ? all - first : limit);
        device_copy_out(device, memory->piece, view);
        memcpy(to + (size_t)first * dtype_bytes(from.dtype), memory->piece, tensor_bytes(view));
    }
}

void memory_checkpoint_save(struct memory_checkpoint *memory, const struct progress_state *at) {
    double started = clock_seconds();
    step_settle(memory->step);
    OWNED_BY(buffer_free) struct buffer text = describe(memory->config);
    struct memory_head head = {.at = *at, .counters = step_counters(memory->step), .text_bytes = text.length};
    CHECK(text.length <= memory->text_room);
    if (at->past)
        head.past = *at->past;
    device_synchronize(step_device(memory->step));
    (void)fault_at(FAULT_AT_MEMORY);
    unsigned char *content = vault_begin(&memory->region), *to = content;
    memcpy(to, &head, sizeof head);
    to += aligned(sizeof head);
    memcpy(to, text.data, text.length);
    to += memory->text_room;
    for (int i = 0; i < memory->tensor_count; i++) {
        if (i == memory->tensor_count / 2)
            (void)fault_at(FAULT_AT_MEMORY);
        copy_out(memory, to, memory->tensors[i]);
        to += aligned(tensor_bytes(memory->tensors[i]));
    }
    vault_commit(&memory->region, at->iteration);
    (void)fault_at(FAULT_AT_MEMORY);
    memory_copies_exchange(&memory->copies, content, at->iteration);
    memory->saved++;
    memory->seconds += clock_seconds() - started;
}

// ---- resuming ----

static int64_t newest_on_disk(const struct memory_checkpoint *memory) {
    const struct mesh *mesh = step_mesh(memory->step);
    int64_t iteration = mesh->rank == 0 ? memory->latest_on_disk(memory->config) : -1;
    comm_broadcast_i64(mesh->all, &iteration, 1, 0, "iteration of the checkpoint on disk");
    return iteration;
}

// The checkpoints in the memory of all ranks.
struct memory_content {
    int64_t common;  // the newest iteration that all ranks claim to have; -1 if there is none
    int64_t newest;  // the newest one that any rank has
    int empty;       // the first rank that has nothing; -1 if there is none
};

static struct memory_content find_content(const struct memory_checkpoint *memory) {
    const struct mesh *mesh = step_mesh(memory->step);
    OWNED int64_t *claims = memory_alloc(sizeof *claims * VAULT_SLOTS * (size_t)mesh->size);
    vault_claims(&memory->region, claims + VAULT_SLOTS * mesh->rank);
    comm_all_gather_i64(mesh->all, claims, VAULT_SLOTS, "checkpoints in host memory");
    struct memory_content content = {.common = vault_common(claims, mesh->size), .newest = -1, .empty = -1};
    for (int rank = mesh->size - 1; rank >= 0; rank--) {
        int64_t own = -1;
        for (int slot = 0; slot < VAULT_SLOTS; slot++)
            own = claims[rank * VAULT_SLOTS + slot] > own ? claims[rank * VAULT_SLOTS + slot] : own;
        content.newest = own > content.newest ? own : content.newest;
        content.empty = own < 0 ? rank : content.empty;
    }
    return content;
}

// Why the run does not resume from memory, which lost iterations that the disk does not have. If all memory is empty,
// the run has just begun, or nothing is left to tell.
static void tell_loss(const struct memory_checkpoint *memory, const struct memory_content *content, int64_t on_disk) {
    const struct mesh *mesh = step_mesh(memory->step);
    char from[64] = "from the beginning, since the disk has none";
    if (mesh->rank != 0)
        return;
    if (on_disk >= 0)
        snprintf(from, sizeof from, "from iteration %" PRId64 " on disk", on_disk);
    if (content->newest < 0 && on_disk >= 0)
        log_info("host memory has no checkpoints; the run resumes %s", from);
    else if (content->newest > on_disk && content->empty >= 0)
        log_warn("host memory has iteration %" PRId64 ", but nothing of rank %d on %s: its state and all copies of it "
                 "are lost; the run resumes %s",
                 content->newest, content->empty, group_host(mesh->all, content->empty), from);
    else if (content->newest > on_disk)
        log_warn("host memory has iteration %" PRId64 ", but not of all ranks; the run resumes %s", content->newest,
                 from);
}

int64_t memory_checkpoint_find(struct memory_checkpoint *memory) {
    if (!memory->region.page)
        return -1;
    const struct mesh *mesh = step_mesh(memory->step);
    int fetched = memory_copies_recover(&memory->copies, &memory->region);
    if (fetched > 0)
        log_info("%d rank%s got %s from %s on other nodes", fetched, fetched == 1 ? "" : "s",
                 fetched == 1 ? "its checkpoint" : "their checkpoints", fetched == 1 ? "a copy" : "copies");
    int64_t on_disk = newest_on_disk(memory), iteration;
    struct memory_content content;
    while ((iteration = (content = find_content(memory)).common) >= 0 && iteration >= on_disk) {
        bool is_whole = vault_find(&memory->region, iteration) != NULL;
        int64_t is_damaged = !is_whole;
        if (!is_whole)
            log_warn("the checkpoint of iteration %" PRId64 " in the memory of rank %d is damaged", iteration,
                     mesh->rank);
        comm_max_i64(mesh->all, &is_damaged, 1, "checkpoints in host memory");
        if (!is_damaged)
            return iteration;
        vault_drop(&memory->region, iteration);
    }
    tell_loss(memory, &content, on_disk);
    return -1;
}

static int take_schedule(struct config *config, const unsigned char *text, size_t bytes) {
    OWNED struct json *object = NULL;
    TRY(json_parse(&object, (const char *)text, bytes, "the checkpoint in host memory"));
    return config_match_schedule(config, object, "the checkpoint in host memory");
}

int memory_checkpoint_load(struct memory_checkpoint *memory, int64_t iteration, struct config *config,
                           struct progress_state *at) {
    struct device *device = step_device(memory->step);
    double started = clock_seconds();
    const unsigned char *from = vault_find(&memory->region, iteration);
    CHECK(from != NULL);
    struct memory_head head;
    memcpy(&head, from, sizeof head);
    from += aligned(sizeof head);
    CHECK(head.text_bytes <= memory->text_room);
    TRY(take_schedule(config, from, head.text_bytes));
    from += memory->text_room;
    step_reset_optimizer(memory->step);
    for (int i = 0; i < memory->tensor_count; i++) {
        device_copy_in(device, memory->tensors[i], from);
        from += aligned(tensor_bytes(memory->tensors[i]));
    }
    device_synchronize(device);
    step_resume(memory->step, &head.counters);
    struct checkpoint_past *past = at->past;
    *at = head.at;
    at->past = past;
    if (past)
        *past = head.past;
    // Some ranks may have got further. A slot of theirs that stayed would be the one that is written last, and would
    // push out the checkpoint that all ranks have in common.
    vault_drop_after(&memory->region, iteration);
    memory_copies_drop_after(&memory->copies, iteration);
    memory->is_resumed = true;
    // The disk may not have these iterations: the run saves before it ends, also if a signal comes now.
    interrupt_defer();
    log_info("  successfully loaded checkpoint from host memory at iteration %" PRId64 " in %.1f ms", iteration,
             (clock_seconds() - started) * 1e3);
    return 0;
}

void memory_checkpoint_forget(struct memory_checkpoint *memory) {
    if (memory->region.page)
        vault_drop_all(&memory->region);
    memory_copies_forget(&memory->copies);
}
