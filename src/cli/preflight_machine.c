// Checks of one machine: its GPUs, its processes' limits, its file system. See preflight.h.
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/features.h"
#include "cli/preflight.h"
#include "cluster/machine.h"
#include "model/census.h"
#include "optim/optimizer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { FEWEST_FILES = 4096, GOOD_FILES = 65536, PIECE_BYTES = 1 << 20 };

static void say_faults(struct preflight *flight, const char *faults) {
    for (const char *at = faults; *at;) {
        int length = (int)strcspn(at, "\n");
        preflight_say(flight, VERDICT_BAD, "gpus", "%.*s", length, at);
        at += length + 1;
    }
}

// Requirements of this machine's GPUs; without any, whether the GPU module is installed. Attention runs without cuDNN,
// only slower, and one rank does not need NCCL.
static void libraries(struct preflight *flight, bool has_gpus) {
    const struct library *list[MOST_LIBRARIES];
    int count = libraries_list(list);
    for (int i = 0; i < count; i++) {
        enum library_id id = list[i]->id;
        if (id == LIBRARY_CURL || (!has_gpus && id != LIBRARY_CUDA_MODULE))
            continue;
        bool is_needed = has_gpus && (id == LIBRARY_CUDA_MODULE || id == LIBRARY_DRIVER || id == LIBRARY_CUBLASLT ||
                                      (id == LIBRARY_NCCL && flight->session->place.size > 1));
        OWNED_BY(buffer_free) struct buffer text = {0};
        bool is_found = library_describe(list[i], &text);
        preflight_say(flight,
                      is_found    ? VERDICT_OK
                      : is_needed ? VERDICT_BAD
                                  : VERDICT_NOTE,
                      "libraries", "%s %s", list[i]->name, buffer_string(&text));
    }
}

void preflight_gpus(struct preflight *flight) {
    const struct preflight_options *options = flight->options;
    const struct machine *machine = options->machine ? machine_look_up(options->machine) : NULL;
    int expected = flag_is_given(&options->given, "--gpus") ? (int)options->gpus : machine ? machine->gpus : 0;
    OWNED struct gpus *gpus = memory_alloc(sizeof *gpus);
    OWNED_BY(buffer_free) struct buffer faults = {0};
    bool has_answer = gpus_query(gpus) == 0;
    int fault_count = has_answer ? gpus_faults(gpus, expected, &faults) : 0;
    if (has_answer && machine && expected > 0)
        fault_count += gpus_differ(gpus, machine, &faults);
    if (!has_answer) {
        if (expected > 0) {
            preflight_say_error(flight, "gpus");
        } else {
            preflight_say(flight, VERDICT_NOTE, "gpus", "none (%s)", error_message());
            error_clear();
        }
    } else if (fault_count > 0) {
        say_faults(flight, buffer_string(&faults));
    } else if (gpus->count > 0) {
        const struct gpu *gpu = &gpus->items[0];
        preflight_say(flight, VERDICT_OK, "gpus",
                      "%d × %s, %" PRId64 " MiB, driver %s, %" PRId64 " of %" PRId64 " MHz, ECC %s", gpus->count,
                      gpu->name, gpu->memory_mib, gpu->driver, gpu->clock_mhz, gpu->most_mhz,
                      gpu->has_ecc ? "on" : "off");
    } else {
        preflight_say(flight, VERDICT_NOTE, "gpus", "none");
    }
    if (machine && machine_has_old_gpus(machine)) {
        OWNED_BY(buffer_free) struct buffer old = {0};
        machine_describe_old_gpus(machine, &old);
        preflight_say(flight, VERDICT_BAD, "gpus", "%s", buffer_string(&old));
    }
    int usable = cuda_count();
    if (usable < 0)
        preflight_say_error(flight, "gpus");
    else if (gpus->count > 0 && usable == 0)
        preflight_say(flight, VERDICT_BAD, "gpus",
                      "this bevatron cannot use them: the module for GPUs or the driver is missing or does not fit");
    libraries(flight, gpus->count > 0);
}

// Memory read by network cards must be pinned: EFA and InfiniBand register it.
static void memlock(struct preflight *flight, bool is_needed) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
        return;
    if (limit.rlim_cur == RLIM_INFINITY)
        preflight_say(flight, VERDICT_OK, "memlock", "unlimited");
    else
        preflight_say(flight, is_needed ? VERDICT_BAD : VERDICT_NOTE, "memlock", "%" PRIu64 " KiB%s",
                      (uint64_t)limit.rlim_cur / 1024,
                      is_needed ? "; EFA and InfiniBand need unlimited (ulimit -l, /etc/security/limits.conf, Slurm's "
                                  "PropagateResourceLimitsExcept=MEMLOCK)"
                                : "; enough without EFA and InfiniBand");
}

static void open_files(struct preflight *flight) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    uint64_t most = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : (uint64_t)limit.rlim_cur;
    if (most >= GOOD_FILES)
        preflight_say(flight, VERDICT_OK, "nofile", "%" PRIu64, most);
    else
        preflight_say(flight, most < FEWEST_FILES ? VERDICT_BAD : VERDICT_NOTE, "nofile",
                      "%" PRIu64 " open files; raise it to %d (ulimit -n) for many ranks and many datasets", most,
                      GOOD_FILES);
}

// NCCL and MPI use it for buffers between the ranks of a machine; containers come with 64 MiB.
static void shared_memory(struct preflight *flight) {
    struct statvfs shm;
    int ranks = flight->session->place.local_size;
    if (statvfs("/dev/shm", &shm) < 0) {
        preflight_say(flight, ranks > 1 ? VERDICT_BAD : VERDICT_NOTE, "shm", "/dev/shm: %s", strerror(errno));
        return;
    }
    uint64_t mib = (uint64_t)shm.f_bavail * (uint64_t)shm.f_frsize >> 20, needed = 64 * (uint64_t)ranks;
    bool is_bad = ranks > 1 && mib < needed;
    preflight_say(flight, is_bad ? VERDICT_BAD : VERDICT_OK, "shm", "%" PRIu64 " MiB free in /dev/shm%s", mib,
                  is_bad ? "; too little for the ranks here (docker --shm-size, Kubernetes emptyDir of medium Memory)"
                         : "");
}

void preflight_limits(struct preflight *flight) {
    const struct preflight_options *options = flight->options;
    const struct machine *machine = options->machine ? machine_look_up(options->machine) : NULL;
    bool is_needed = options->transport ? strcmp(options->transport, "any") != 0 : machine && machine->efa > 0;
    memlock(flight, is_needed);
    open_files(flight);
    shared_memory(flight);
}

// Seconds to write `mib` MiB to the descriptor and to the disk, -1 on failure.
static double write_seconds(int file, int64_t mib, const char *piece) {
    double start = clock_seconds();
    for (int64_t i = 0; i < mib; i++)
        if (file_put(file, piece, PIECE_BYTES) < PIECE_BYTES)
            return -1;
    return fsync(file) < 0 ? -1 : clock_seconds() - start;
}

static double read_seconds(int file, char *piece) {
    // Otherwise the data just written would be read from memory.
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    if (lseek(file, 0, SEEK_SET) < 0)
        return -1;
    double start = clock_seconds();
    for (;;) {
        ssize_t count = read(file, piece, PIECE_BYTES);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return count < 0 ? -1 : clock_seconds() - start;
    }
}

static void say_speed(struct preflight *flight, const char *what, double seconds, int64_t least) {
    double speed = (double)flight->options->file_mib * 1.048576 / (seconds > 1e-9 ? seconds : 1e-9);
    bool is_slow = least > 0 && speed < (double)least;
    if (is_slow)
        preflight_say(flight, VERDICT_BAD, "files", "%s %.0f MB/s, %" PRId64 " are asked for", what, speed, least);
    else
        preflight_say(flight, VERDICT_OK, "files", "%s %.0f MB/s", what, speed);
}

static int try_speed(struct preflight *flight, const char *folder) {
    const struct preflight_options *options = flight->options;
    TRY(file_make_folders(folder));
    OWNED char *name = file_join(folder, "preflight"), *path = file_temporary_name(name);
    OWNED char *piece = memory_alloc(PIECE_BYTES);
    // Incompressible bytes, for compressing file systems.
    for (uint64_t i = 0, x = 88172645463325252u; i < PIECE_BYTES; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        piece[i] = (char)x;
    }
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), status = 0;
    double writing = file < 0 ? -1 : write_seconds(file, options->file_mib, piece);
    double reading = writing < 0 ? -1 : read_seconds(file, piece);
    if (reading < 0)
        status = error_set("cannot write %" PRId64 " MiB to %s and read them: %s", options->file_mib, folder,
                           strerror(errno));
    if (file >= 0) {
        close(file);
        unlink(path);
    }
    if (status == 0) {
        say_speed(flight, "writes", writing, options->min_write_mb);
        say_speed(flight, "reads", reading, options->min_read_mb);
    }
    return status;
}

// Bytes of a parameter in a checkpoint: the weight, its fp32 master if that differs, and the optimizer's states.
static uint64_t bytes_per_parameter(const struct config *config) {
    const struct optimizer_rule *rule = optimizer_find(config->run.optimizer);
    uint64_t bytes = config->run.bf16 || config->run.fp16 ? 2 + sizeof(float) : sizeof(float);
    return bytes + (uint64_t)optimizer_saved_bytes(rule, config);
}

// A checkpoint is written next to the last one before that is removed: both must fit.
void preflight_room(struct preflight *flight) {
    const struct config *config = &flight->options->config;
    uint64_t available;
    if (!flight->has_model || !config->run.save)
        return;
    if (config->model.padded_vocab_size == 0) {
        preflight_say(flight, VERDICT_NOTE, "room", "the size of checkpoints is unknown without a vocabulary");
        return;
    }
    if (file_free_bytes(config->run.save, &available) < 0) {
        preflight_say_error(flight, "room");
        return;
    }
    double free_bytes = (double)available;
    double needed = 2 * (double)bytes_per_parameter(config) * (double)census_parameters(config);
    preflight_say(flight, free_bytes < needed ? VERDICT_BAD : VERDICT_OK, "room",
                  "%s has %.1f GB free, two checkpoints take %.1f GB", config->run.save, free_bytes * 1e-9,
                  needed * 1e-9);
}

void preflight_files(struct preflight *flight) {
    const struct preflight_options *options = flight->options;
    const char *folder = options->path ? options->path : options->config.run.save;
    if (folder && try_speed(flight, folder) < 0)
        preflight_say_error(flight, "files");
}
