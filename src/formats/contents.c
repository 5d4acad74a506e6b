// See contents.h. A folder is listed once; what an entry is follows from its name and the first bytes of some files.
#include "formats/contents.h"

#include "base/error.h"
#include "base/file.h"
#include "base/file_patience.h"
#include "base/json.h"
#include "base/memory.h"
#include "formats/megatron_folder.h"
#include "formats/source_kind.h"
#include "store/checkpoint.h"
#include "store/folder.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool has_prefix(const char *name, const char *prefix) {
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool has_file(const char *folder, const char *name) {
    OWNED char *path = file_join(folder, name);
    return file_is_regular(path);
}

// ---- one iteration ----

// Whether this program wrote an iter_… folder or a leftover of one.
static bool is_ours(const char *path) {
    if (has_file(path, "manifest.json"))
        return true;
    // A save writes the manifest last, and a damaged checkpoint may have lost it.
    return has_file(path, "state.json") && !megatron_format(path);
}

// ---- all of a folder ----

static const char *describe_megatron(const char *format) {
    static const char *const rows[][2] = {{"torch", "a Megatron-LM checkpoint (torch)"},
                                          {"torch_dist", "a Megatron-LM checkpoint (torch_dist)"},
                                          {"zarr", "a Megatron-LM checkpoint (zarr)"},
                                          {"torch_dcp", "a distributed checkpoint of PyTorch (torch_dcp)"},
                                          {"fsdp_dtensor", "a Megatron-LM checkpoint (fsdp_dtensor)"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i][0], format) == 0)
            return rows[i][1];
    return "a Megatron-LM checkpoint";
}

// Describes the foreign checkpoint that an entry is or belongs to; NULL if there is none.
static const char *judge_folder(const char *name, const char *path) {
    const char *format = megatron_format(path);
    if (format)
        return describe_megatron(format);
    if (folder_iteration(name) >= 0)
        return file_is_empty_folder(path) ? NULL : "a checkpoint of another program";
    if (has_prefix(name, "mp_rank_"))
        return describe_megatron("torch");
    if (has_prefix(name, "global_step"))
        return "a DeepSpeed checkpoint";
    return has_prefix(name, "checkpoint-") && name[strspn(name + 11, "0123456789") + 11] == '\0'
               ? "checkpoints of Hugging Face's Trainer"
               : NULL;
}

static const char *judge_file(const char *name, const char *path) {
    static const struct {
        const char *suffix, *what;
    } suffixes[] = {{".distcp", "a distributed checkpoint of PyTorch"},
                    {".safetensors", "a model in safetensors files"},
                    {".safetensors.index.json", "a Hugging Face model"},
                    {".pt", "a PyTorch checkpoint (fairseq, nanoGPT, …)"},
                    {".pth", "a PyTorch checkpoint"},
                    {".ckpt", "a PyTorch Lightning checkpoint"},
                    {".gguf", "a GGUF model"},
                    {".nemo", "a NeMo checkpoint"}};
    if (has_prefix(name, "pytorch_model") && name_ends(name, ".bin"))
        return "a Hugging Face model";
    if (name_ends(name, ".bin") && source_llmc.is_folder(path))
        return "an llm.c checkpoint";
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (name_ends(name, suffixes[i].suffix))
            return suffixes[i].what;
    return NULL;
}

static bool has_model_config(const char *folder) {
    enum { MAX_CONFIG_BYTES = 16 << 20 };
    OWNED char *path = file_join(folder, "config.json");
    OWNED struct json *root = NULL;
    return file_is_regular(path) && json_parse_own(&root, path, MAX_CONFIG_BYTES) == 0 && root->type == JSON_OBJECT &&
           (json_member(root, "model_type") || json_member(root, "architectures"));
}

static void note_others(struct contents *contents, const char *what, const char *name) {
    if (contents->owner == OWNER_OTHERS)
        return;
    contents->owner = OWNER_OTHERS;
    contents->what = what;
    (void)snprintf(contents->name, sizeof contents->name, "%.250s", name);
}

// The entries seen so far. An iteration of another program counts even beside ours; its other files do not.
struct survey {
    struct contents others, iterations;
    bool has_ours;
    int64_t newest;      // of ours, up to the marker; -1 if there is none
    int64_t marker;      // INT64_MAX if there is none
    bool has_iteration;  // whoever's, perhaps empty
};

static void survey_entry(struct survey *survey, const char *folder, const char *name) {
    OWNED char *path = file_join(folder, name);
    int64_t iteration = folder_iteration(name);
    const char *what = NULL;
    // The usual case is tested first, so that scanning a folder with thousands of checkpoints is fast.
    if (iteration >= 0 && is_ours(path)) {
        survey->has_ours = survey->has_iteration = true;
        survey->newest = iteration > survey->newest && iteration <= survey->marker ? iteration : survey->newest;
    } else if (file_is_folder(path)) {
        what = judge_folder(name, path);
        survey->has_iteration = survey->has_iteration || iteration >= 0;
    } else if (file_is_regular(path))
        what = judge_file(name, path);
    if (what)
        note_others(iteration >= 0 ? &survey->iterations : &survey->others, what, name);
}

// The marker's iteration; -1 if there is no marker, or no such iteration.
static int64_t find_marked(const char *folder) {
    int64_t iteration = -1;
    if (folder_marker_read(folder, &iteration) < 0)
        error_clear();
    OWNED char *path = iteration >= 0 ? checkpoint_path(folder, iteration) : NULL;
    if (path && !file_exists(path))
        iteration = -1;
    return iteration;
}

static void decide(struct contents *contents, const struct survey *survey, const char *folder) {
    int64_t marked = find_marked(folder);
    OWNED char *path = marked >= 0 ? checkpoint_path(folder, marked) : NULL;
    bool is_marked_ours = path && is_ours(path), has_marker = folder_marker_exists(folder);
    if (is_marked_ours || (survey->has_ours && marked < 0 && survey->iterations.owner == OWNER_NOBODY))
        *contents = (struct contents){
            .owner = OWNER_OURS, .kind = CONTENTS_OURS, .iteration = is_marked_ours ? marked : survey->newest};
    else if (survey->iterations.owner == OWNER_OTHERS)
        *contents = survey->iterations;
    else if (survey->others.owner == OWNER_OTHERS)
        *contents = survey->others;
    else if (has_marker)
        contents->owner = OWNER_OURS;
    contents->is_claimed = has_marker || survey->has_iteration;
}

// Returns errno if the listing has failed or was cut short, else 0.
static int survey_folder(struct survey *survey, const char *folder) {
    DIR *stream = opendir(folder);
    if (!stream)
        return errno;
    const struct dirent *entry;
    while (errno = 0, (entry = readdir(stream)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            survey_entry(survey, folder, entry->d_name);
    int error = errno;
    closedir(stream);
    return error;
}

static int look_into_folder(struct contents *contents, const char *folder) {
    const char *format = megatron_format(folder);
    bool is_one_of_ours = is_ours(folder);
    if (format || is_one_of_ours) {
        note_others(contents, format ? describe_megatron(format) : "the checkpoint of one iteration", "");
        contents->kind = is_one_of_ours ? CONTENTS_OURS : CONTENTS_NONE;
        return 0;
    }
    struct survey begin = {.newest = -1, .others.iteration = -1, .iterations.iteration = -1}, survey;
    // Iterations after the marker, left by a run that went back, do not count.
    if (folder_marker_read(folder, &begin.marker) <= 0)
        begin.marker = INT64_MAX;
    if (has_model_config(folder))
        note_others(&begin.others, "a Hugging Face model", "config.json");
    int error;
    do {
        survey = begin;
        error = survey_folder(&survey, folder);
    } while (error != 0 && file_try_again(error, folder));
    if (error != 0)
        return error_set("cannot list the folder %s: %s; %s", folder, strerror(error), file_read_remedy(error));
    error_clear();
    decide(contents, &survey, folder);
    return 0;
}

static int look(struct contents *contents, const char *path, int64_t step) {
    *contents = (struct contents){.iteration = -1};
    if (file_is_folder(path)) {
        TRY(look_into_folder(contents, path));
        contents->is_claimed = contents->is_claimed || folder_own_iteration(path) >= 0;
    } else
        contents->is_claimed = file_exists(path);
    for (int kind = CONTENTS_OURS + 1; kind < CONTENTS_KINDS && contents->kind == CONTENTS_NONE; kind++)
        if (source_kinds[kind]->is_folder(path))
            contents->kind = (enum contents_kind)kind;
    contents->is_claimed = contents->is_claimed || contents_is_foreign(contents);
    if (contents->kind == CONTENTS_MEGATRON)
        contents->iteration = megatron_iteration(path, step);
    else if (contents->kind == CONTENTS_OURS && step >= 0)
        contents->iteration = step;
    return 0;
}

int contents_look(struct contents *contents, const char *path, int64_t step) {
    FILE_PATIENCE();
    TRY(look(contents, path, step));
    // Entries that could not be examined may be anything.
    return file_doubt();
}

bool contents_is_foreign(const struct contents *contents) {
    return contents->kind > CONTENTS_OURS;
}

int contents_refuse_others(const struct contents *contents, const char *folder, const char *remedy) {
    if (contents->owner != OWNER_OTHERS)
        return 0;
    return error_set_code(EXIT_CODE_USAGE, "%s holds %s%s%s, so nothing is written there; %s", folder, contents->what,
                          contents->name[0] ? ": " : "", contents->name, remedy);
}

int contents_check_free(const char *folder, const char *flag) {
    struct contents contents;
    TRY(contents_look(&contents, folder, -1));
    OWNED char *remedy = memory_printf("give another folder with %s", flag);
    TRY(contents_refuse_others(&contents, folder, remedy));
    return contents.owner == OWNER_OURS ? error_set("%s already holds checkpoints; %s", folder, remedy) : 0;
}
