// From --load to a checkpoint, a configuration and a tokenizer. See saved_model.h.
#include "cli/saved_model.h"

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "net/hub.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "net/remote.h"
#include "store/remote_checkpoint.h"
#include "data/tokenizer/tokenizer.h"
#include "train/datasets.h"
#include "train/identity.h"
#include "train/state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- checkpoints in object storage ----

// From an address to a folder with a checkpoint.

// A separate folder for each address: --checkpoint-cache-path or the user's cache, then NAME-DIGEST.
static int find_cache(const struct config *config, const char *url, char **folder) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const char *slash = strrchr(url, '/');
    OWNED char *root = NULL;
    if (config->run.checkpoint_cache_path)
        root = memory_string(config->run.checkpoint_cache_path);
    else if (cache && *cache == '/')
        root = file_join(cache, "bevatron/checkpoints");
    else if (home && *home == '/')
        root = file_join(home, ".cache/bevatron/checkpoints");
    else
        return error_set_code(EXIT_CODE_USAGE, "%s is downloaded to a folder; give one with --checkpoint-cache-path",
                              url);
    OWNED char *name = memory_printf("%s-%016" PRIx64, slash ? slash + 1 : url, hash_bytes(url, strlen(url), 0));
    *folder = file_join(root, name);
    return 0;
}

static void trim(char *url) {
    for (size_t length = strlen(url); length > strlen("s3://") && url[length - 1] == '/';)
        url[--length] = 0;
}

struct load_place {
    char **flag;  // the address, replaced by a folder
    const char *name;
    int64_t step;
    bool must_exist;
    bool is_own;             // also the address of --save-to: downloaded to --save
    struct file_lock *hold;  // keeps the download from being removed
};

// The iteration found by rank 0: all ranks load the same one. `all` is NULL for one process.
static int choose(const struct load_place *place, struct group *all, int64_t *iteration) {
    int64_t found[2] = {0, -1};
    int status = 0;
    if (!all || group_rank(all) == 0)
        status = checkpoint_fetch_choose(*place->flag, place->step, &found[1]);
    found[0] = status;
    if (all) {
        TRY(comm_agree(all, status < 0 ? -1 : 0, "checkpoint chosen"));
        comm_broadcast_i64(all, found, 2, 0, "checkpoint to load");
    }
    *iteration = found[1];
    return (int)found[0];
}

static int fetch(const struct config *config, const struct load_place *place, int64_t iteration, char **folder) {
    struct checkpoint_fetch fetch = {.url = *place->flag, .folder = config->run.save, .iteration = iteration};
    if (place->is_own) {
        fetch.prefers_newer = place->step < 0;
        TRY(checkpoint_fetch(&fetch));
        *folder = memory_string(config->run.save);
        return 0;
    }
    struct checkpoint_cached cached;
    OWNED char *cache = NULL;
    TRY(find_cache(config, *place->flag, &cache));
    fetch.folder = cache;
    TRY(checkpoint_fetch_cached(&fetch, &cached));
    *folder = cached.folder;
    *place->hold = cached.hold;
    return 0;
}

// First one rank of each machine, which downloads, then the others, which find its files.
static int fetch_together(const struct config *config, const struct load_place *place, int64_t iteration,
                          const struct session *session, char **folder) {
    int status = 0;
    for (int turn = 0; turn < 2; turn++) {
        if ((session->place.local_rank == 0) == (turn == 0))
            status = fetch(config, place, iteration, folder);
        TRY(comm_agree(world_group_all(session->world), status, "checkpoint downloaded"));
    }
    return 0;
}

// `session` is NULL for one process.
static int bring(const struct config *config, const struct load_place *place, const struct session *session) {
    char *folder = NULL;
    int64_t iteration;
    if (!*place->flag || !url_is_remote(*place->flag))
        return 0;
    int status = choose(place, session ? world_group_all(session->world) : NULL, &iteration);
    TRY(status);
    if (status == 0 && place->must_exist) {
        error_set_code(EXIT_CODE_NO_CHECKPOINT, "there is no checkpoint of bevatron in %s; check %s", *place->flag,
                       place->name);
        error_mark_shared();
        return -1;
    }
    if (status > 0) {
        TRY(session ? fetch_together(config, place, iteration, session, &folder)
                    : fetch(config, place, iteration, &folder));
    } else if (place->is_own) {
        folder = memory_string(config->run.save);
    } else {
        log_warn_once("no checkpoint in %s: the run starts from random weights", *place->flag);
    }
    free(*place->flag);
    *place->flag = folder;
    return 0;
}

static int check_address(const struct load_place *place) {
    if (!*place->flag || !url_is_remote(*place->flag))
        return 0;
    if (!url_is_s3(*place->flag)) {
        error_set_code(EXIT_CODE_USAGE, "%s %s: checkpoints are read from folders and s3://; download it first",
                       place->name, *place->flag);
        return hub_suggest(*place->flag, HUB_MODEL);
    }
    trim(*place->flag);
    return 1;
}

int remote_load(struct config *config, struct session *session, bool must_exist) {
    struct file_lock unused[2] = {0}, *holds = session ? session->holds : unused;
    must_exist =
        must_exist || config->run.exit_on_missing_checkpoint || config->run.ckpt_step >= 0 || config->run.finetune;
    remote_set_endpoint(config->run.endpoint_url);
    if (config->run.save_to)
        trim(config->run.save_to);
    struct load_place places[] = {{.flag = &config->run.load,
                                   .name = "--load",
                                   .step = config->run.ckpt_step,
                                   .must_exist = must_exist && !config->run.pretrained_checkpoint,
                                   .hold = &holds[0]},
                                  {.flag = &config->run.pretrained_checkpoint,
                                   .name = "--pretrained-checkpoint",
                                   .step = -1,
                                   .must_exist = true,
                                   .hold = &holds[1]}};
    int loads = check_address(&places[0]), begins = check_address(&places[1]);
    if (loads < 0 || begins < 0)
        return -1;
    if (!loads && !begins)
        return 0;
    places[0].is_own =
        loads && config->run.save && config->run.save_to && strcmp(config->run.load, config->run.save_to) == 0;
    struct session *many = session && session->place.size > 1 ? session : NULL;
    if (many) {
        TRY(session_meet_early(many, config));
        comm_patience_begin(world_group_all(many->world), "downloading a checkpoint");
    }
    int status = bring(config, &places[0], many);
    if (status == 0)
        status = bring(config, &places[1], many);
    if (many)
        comm_patience_end(world_group_all(many->world));
    for (size_t i = 0; i < 2; i++)
        file_lock_release(&unused[i]);
    return status;
}

// ---- the model ----

// The end-of-document token is chosen separately: the tokenizers are compared as if it were the checkpoint's.
static void warn_of_tokenizer(const struct saved_model *model, const struct config *config) {
    OWNED struct json *then = NULL;
    struct tokenizer *alike = NULL;
    struct tokenizer_options options = tokenizer_options_of(config);
    if (state_read_config(&then, model->found.path) == 0 && then) {
        const struct json *eod = json_member(then, "eod_token");
        options.eod_token = eod && eod->type == JSON_STRING ? eod->string : NULL;
        // A tokenizer without that token differs.
        if (tokenizer_open(&alike, &options) < 0)
            alike = NULL;
    }
    error_clear();
    identity_warn_of_tokenizer(alike ? alike : model->tokenizer, model->found.path);
    tokenizer_free(alike);
}

int saved_model_find(struct saved_model *model, struct config *config, struct session *session, enum config_use use) {
    *model = (struct saved_model){.found.hold = -1};
    if (!config->run.load)
        return error_set_code(EXIT_CODE_USAGE, "--load is missing; give the folder of the checkpoints");
    bool has_tokenizer = flag_is_given(&config->given, "--vocab-file") ||
                         flag_is_given(&config->given, "--merge-file") ||
                         flag_is_given(&config->given, "--tokenizer-model");
    TRY(config_apply_preset(config));
    TRY(remote_load(config, session, true));
    TRY(find_checkpoint_here(&model->found, config, false));
    TRY(state_load_config(config, &model->found));
    TRY(config_validate_for(config, session->place.size, use));
    TRY(datasets_open_tokenizer(&model->tokenizer, config));
    if (has_tokenizer && model->tokenizer && session->place.rank == 0)
        warn_of_tokenizer(model, config);
    return 0;
}

void saved_model_free(struct saved_model *model) {
    tokenizer_free(model->tokenizer);
    found_checkpoint_free(&model->found);
}
