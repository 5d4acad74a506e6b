// Checks and locks the folder of --save. See saver.h.
#include "train/saver.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "formats/contents.h"
#include "store/checkpoint.h"
#include "store/folder.h"
#include "train/state.h"
#include <inttypes.h>
#include <stdlib.h>

static const char lock_name[] = ".bevatron-lock";
// Most seconds that a lock outlives its holder: a process that frees its memory, or a dead machine, whose locks an NFS
// server keeps for its lease of 90 s. Some servers keep them for longer, so the run then ends with a code after which a
// launcher tries again; only a holder that is known to run ends it for good.
static const double ENDING_SECONDS = 60, LEASE_SECONDS = 120, NAP_SECONDS = 0.1;

// ---- whose it is ----

// The folder itself, or its copy, from which it is filled before the run starts.
static bool is_loaded(const struct config *config) {
    bool is_copy = config->run.load && config->run.save_to && file_is_same_path(config->run.load, config->run.save_to);
    return is_copy || (config->run.load && file_is_same(config->run.load, config->run.save));
}

static int check_others(struct contents *contents, const struct config *config) {
    const char *remedy = "give another folder with --save";
    OWNED char *how = NULL;
    if (file_exists(config->run.save) && !file_is_folder(config->run.save))
        return error_set_code(EXIT_CODE_USAGE, "--save %s is a file, not a folder; %s", config->run.save, remedy);
    TRY(contents_look(contents, config->run.save, -1));
    // Only a checkpoint of Megatron-LM has an iteration to continue at.
    bool has_iteration = contents->owner == OWNER_OTHERS && folder_iteration(contents->name) >= 0;
    if (is_loaded(config))
        how =
            memory_printf("keep --load %s and give another --save%s", config->run.load,
                          has_iteration ? ", with --no-load-optim to continue at its iteration or --finetune to start "
                                          "at 0; either way the optimizer is fresh"
                                        : ", with --finetune: the run starts at iteration 0");
    return contents_refuse_others(contents, config->run.save, how ? how : remedy);
}

// A run continues the checkpoints in its folder, or there are none.
static int check_run(const struct contents *contents, const struct config *config) {
    if (contents->owner != OWNER_OURS)
        return 0;
    const char *save = config->run.save;
    if (!is_loaded(config) && contents->iteration < 0)
        return error_set_code(EXIT_CODE_USAGE,
                              "%s holds the latest_checkpointed_iteration.txt of another run without its checkpoints; "
                              "remove that file, or give another --save",
                              save);
    if (!is_loaded(config)) {
        const char *first = config->run.load ? config->run.load : config->run.pretrained_checkpoint;
        OWNED char *again =
            first ? memory_printf("--load %s (with --pretrained-checkpoint %s, the same command starts and resumes)",
                                  save, first)
                  : memory_string("--resume");
        error_set_code(EXIT_CODE_USAGE,
                       "%s holds checkpoints of another run, up to iteration %" PRId64
                       "; resume that run with %s, or give another --save",
                       save, contents->iteration, again);
        return -1;
    }
    const char *flag = config_upcycles_load(config) ? "--moe-use-upcycling"
                       : config->run.finetune       ? "--finetune"
                                                    : NULL;
    if (flag && contents->iteration > 0)
        return error_set_code(EXIT_CODE_USAGE,
                              "%s starts a new run, and %s holds checkpoints of the old one, up to iteration "
                              "%" PRId64 "; give another --save, or leave out %s to resume",
                              flag, save, contents->iteration, flag);
    return 0;
}

// Checkpoints in the fallback must be of this run, since the newest of both folders is resumed. They say which --save
// they could not be written to.
static int check_fallback_run(const struct config *config, const struct contents *contents) {
    const char *fallback = config->run.save_fallback, *save = NULL;
    if (!is_loaded(config))
        return error_set_code(EXIT_CODE_USAGE,
                              "--save-fallback %s holds checkpoints, up to iteration %" PRId64
                              "; resume their run with --load %s, or give another --save-fallback",
                              fallback, contents->iteration, config->run.save);
    OWNED char *path = checkpoint_path(fallback, contents->iteration);
    OWNED struct json *saved = NULL;
    int status = contents->iteration < 0 ? 0 : state_read_config(&saved, path);
    if (status == 0 && saved && json_get_string(saved, "save", &save) == 0 && file_is_folder(save) &&
        !file_is_same(save, config->run.save))
        status = error_set_code(EXIT_CODE_USAGE,
                                "--save-fallback %s holds checkpoints of another run, that of --save %s; give another "
                                "--save-fallback",
                                fallback, save);
    // A damaged one is not loaded either.
    if (status < 0 && error_exit_code() != EXIT_CODE_USAGE)
        status = 0;
    return status;
}

static int check_fallback(const struct config *config) {
    const char *fallback = config->run.save_fallback, *remedy = "give another folder with --save-fallback";
    struct contents contents;
    if (!fallback)
        return 0;
    if (file_exists(fallback) && !file_is_folder(fallback))
        return error_set_code(EXIT_CODE_USAGE, "--save-fallback %s is a file, not a folder; %s", fallback, remedy);
    if (file_is_same(fallback, config->run.save))
        return error_set_code(EXIT_CODE_USAGE, "--save-fallback %s is the folder of --save; %s", fallback, remedy);
    TRY(contents_look(&contents, fallback, -1));
    TRY(contents_refuse_others(&contents, fallback, remedy));
    return contents.owner == OWNER_OURS ? check_fallback_run(config, &contents) : 0;
}

// ---- one process at a time ----

static int refuse(const char *save, const char *path, const struct file_lock_holder *holder) {
    OWNED char *who = holder->host[0] ? memory_printf(" (process %ld on %s)", holder->process, holder->host) : NULL;
    OWNED char *gone = holder->is_here ? NULL : memory_printf("; if that machine is gone, remove %s", path);
    error_set_code(holder->is_here && !holder->is_ending ? EXIT_CODE_USAGE : EXIT_CODE_ERROR,
                   "another run%s is writing to %s; stop it, or give another --save%s", who ? who : "", save,
                   gone ? gone : "");
    return -1;
}

static int take_lock(struct file_lock *lock, const char *path, const char *save) {
    double waited = 0;
    for (;;) {
        int result = file_lock_try(lock, path);
        if (result < 0)
            return error_context("cannot save checkpoints in %s", save);
        if (result == FILE_LOCK_ABSENT)
            log_info("note: the file system of %s has no locks, so a second run there would not be noticed", save);
        if (result != FILE_LOCK_TAKEN)
            return 0;
        struct file_lock_holder holder;
        file_lock_holder(&holder, path);
        double limit = !holder.is_here ? LEASE_SECONDS : holder.is_ending ? ENDING_SECONDS : 0;
        if (waited >= limit)
            return refuse(save, path, &holder);
        if (waited == 0)
            log_info("waiting up to %.0f s for the lock of process %ld on %s, which may have ended", limit,
                     holder.process, holder.host[0] ? holder.host : "another machine");
        TRY(interrupt_check());
        clock_sleep(NAP_SECONDS);
        waited += NAP_SECONDS;
    }
}

int save_folder_check(const struct config *config) {
    struct contents contents;
    if (!config->run.save)
        return 0;
    TRY(check_others(&contents, config));
    if (config->run.skip_train)
        return 0;
    TRY(check_run(&contents, config));
    return check_fallback(config);
}

static int lock_folder(struct file_lock *lock, const char *folder) {
    TRY(file_make_folders(folder));
    OWNED char *path = file_join(folder, lock_name);
    return take_lock(lock, path, folder);
}

int save_folder_open(struct save_folder *folder, const struct config *config, const struct mesh *mesh) {
    if (!config->run.save || mesh->rank != 0)
        return 0;
    struct contents contents;
    TRY(check_others(&contents, config));
    if (config->run.skip_train)
        return 0;
    int status = lock_folder(&folder->lock, config->run.save);
    if (status == 0 && config->run.save_fallback)
        status = lock_folder(&folder->fallback, config->run.save_fallback);
    // Under the lock: a run that has just ended may have saved meanwhile.
    if (status == 0)
        status = save_folder_check(config);
    if (status < 0)
        save_folder_close(folder);
    return status;
}

static int keep_lock(struct file_lock *lock) {
    int result = lock->path ? file_lock_renew(lock) : FILE_LOCK_HELD;
    if (result == FILE_LOCK_RENEWED)
        log_warn("%s was removed while this run held it, and was made again; without it a second run could write to "
                 "the same folder",
                 lock->path);
    if (result != FILE_LOCK_TAKEN)
        return result < 0 ? -1 : 0;
    struct file_lock_holder holder;
    file_lock_holder(&holder, lock->path);
    return error_set_code(EXIT_CODE_USAGE,
                          "%s was removed while this run held it, and another run (process %ld on %s) has taken it; "
                          "this run writes nothing there any more: stop one of them, or give one another --save",
                          lock->path, holder.process, holder.host[0] ? holder.host : "another machine");
}

int save_folder_keep(struct save_folder *folder) {
    TRY(keep_lock(&folder->lock));
    return keep_lock(&folder->fallback);
}

int save_folder_watch(struct save_folder *folder) {
    int result = save_folder_keep(folder);
    if (result < 0 && error_exit_code() == EXIT_CODE_USAGE)
        return -1;
    if (result < 0)
        error_clear();
    return 0;
}

void save_folder_close(struct save_folder *folder) {
    file_lock_release(&folder->lock);
    file_lock_release(&folder->fallback);
}
