// Megatron checkpoints in zip archives. See megatron_folder.h.
#include "formats/megatron_folder.h"

#include "base/error.h"
#include "base/host_limits.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char marker_name[] = "latest_checkpointed_iteration.txt";
enum { LONGEST_MARKER = 64 };

static bool begins_as_zip(const char *path) {
    static const char magic[4] = {'P', 'K', 3, 4};
    OWNED_BY(file_map_close) struct file_map map = {0};
    if (file_is_regular(path) && file_map_open(&map, path) == 0)
        return map.size >= sizeof magic && memcmp(map.data, magic, sizeof magic) == 0;
    error_clear();
    return false;
}

// Whether a name ends with this path of whole components; *before is the length of the rest, without the slash.
static bool ends_with(const char *name, const char *end, size_t *before) {
    if (!name_ends(name, end))
        return false;
    *before = strlen(name) - strlen(end);
    if (*before > 0 && name[*before - 1] != '/')
        return false;
    *before -= *before > 0;
    return true;
}

// Whether the entry is the file of a checkpoint's first rank.
static bool is_first_rank(const char *name, size_t *before) {
    static const char *const folders[] = {"mp_rank_00", "mp_rank_00_000"};
    for (size_t f = 0; f < 2; f++)
        for (size_t i = 0; megatron_file_names[i]; i++) {
            OWNED char *end = memory_printf("%s/%s", folders[f], megatron_file_names[i]);
            bool is_it = ends_with(name, end, before);
            if (is_it)
                return true;
        }
    return false;
}

bool megatron_zip_is(const char *path) {
    OWNED_BY(file_map_close) struct file_map map = {0};
    OWNED_BY(torch_zip_free) struct torch_zip zip = {0};
    if (!begins_as_zip(path) || file_map_open(&map, path) < 0)
        return false;
    bool is_there = false;
    size_t before;
    if (torch_zip_parse_packed(&zip, map.data, map.size) == 0) {
        for (size_t i = 0; i < zip.count && !is_there; i++)
            is_there = is_first_rank(zip.entries[i].name, &before);
    } else {
        // A damaged file of that name is opened anyway, to report the damage.
        is_there = name_ends(path, ".zip");
    }
    error_clear();
    return is_there;
}

// The folder that a marker in the archive names, to be freed; NULL if there is none.
static char *read_marker(const struct megatron_zip *zip) {
    size_t before;
    for (size_t i = 0; i < zip->zip.count; i++) {
        const struct torch_zip_entry *entry = &zip->zip.entries[i];
        unsigned char text[LONGEST_MARKER + 1] = {0};
        if (!ends_with(entry->name, marker_name, &before) || entry->bytes > LONGEST_MARKER)
            continue;
        if (torch_zip_unpack(entry, text) < 0) {
            error_clear();
            return NULL;
        }
        return strncmp((char *)text, "release", 7) == 0 ? memory_string("release")
                                                        : memory_printf("iter_%07lld", strtoll((char *)text, NULL, 10));
    }
    return NULL;
}

// Finds the folder of the checkpoint; `wanted` is its own name, NULL for the only one.
static int choose(struct megatron_zip *zip, const char *wanted) {
    size_t before, length = wanted ? strlen(wanted) : 0;
    for (size_t i = 0; i < zip->zip.count; i++) {
        const char *name = zip->zip.entries[i].name;
        if (!is_first_rank(name, &before))
            continue;
        bool is_named = wanted && before >= length && strncmp(name + before - length, wanted, length) == 0 &&
                        (before == length || name[before - length - 1] == '/');
        if (wanted && !is_named)
            continue;
        if (zip->inside)
            return error_set("%s has several checkpoints; unpack it and give one of its folders", zip->path);
        zip->inside = memory_printf("%.*s", (int)before, name);
    }
    if (!zip->inside)
        return error_set_code(EXIT_CODE_NO_CHECKPOINT, "%s has no checkpoint %s", zip->path, wanted ? wanted : "");
    return 0;
}

int megatron_zip_open(struct megatron_zip *zip, const char *path, int64_t step) {
    *zip = (struct megatron_zip){.path = memory_string(path)};
    OWNED char *wanted = NULL;
    int result = file_map_open(&zip->map, path);
    if (result == 0 && torch_zip_parse_packed(&zip->zip, zip->map.data, zip->map.size) < 0)
        result = error_context("cannot read %s", path);
    if (result == 0) {
        wanted = step >= 0 ? memory_printf("iter_%07" PRId64, step) : read_marker(zip);
        result = choose(zip, wanted);
    }
    if (result < 0)
        megatron_zip_close(zip);
    return result;
}

void megatron_zip_close(struct megatron_zip *zip) {
    for (size_t i = 0; i < zip->unpacked_count; i++)
        free(zip->unpacked[i]);
    free(zip->unpacked);
    torch_zip_free(&zip->zip);
    file_map_close(&zip->map);
    free(zip->inside);
    free(zip->path);
    *zip = (struct megatron_zip){0};
}

const struct torch_zip_entry *megatron_zip_rank(const struct megatron_zip *zip, int tensor_rank, int stage) {
    const struct torch_zip_entry *found = NULL;
    for (size_t i = 0; megatron_file_names[i] && !found; i++) {
        OWNED char *folder = stage < 0 ? memory_printf("mp_rank_%02d", tensor_rank)
                                       : memory_printf("mp_rank_%02d_%03d", tensor_rank, stage);
        OWNED char *name =
            memory_printf("%s%s%s/%s", zip->inside, *zip->inside ? "/" : "", folder, megatron_file_names[i]);
        found = torch_zip_find(&zip->zip, name);
    }
    return found;
}

int megatron_zip_bytes(struct megatron_zip *zip, const struct torch_zip_entry *entry, const unsigned char **bytes) {
    if (!entry->is_deflated) {
        *bytes = entry->data;
        return torch_zip_check(entry);
    }
    if (entry->bytes > host_memory_room(1))
        return error_set_code(EXIT_CODE_OUT_OF_MEMORY,
                              "unpacking \"%.200s\" takes %.2f GB of memory, more than is free; unpack the archive and "
                              "give its folder",
                              entry->name, (double)entry->bytes / 1e9);
    unsigned char *memory = memory_alloc(entry->bytes + 1);
    zip->unpacked = memory_realloc(zip->unpacked, (zip->unpacked_count + 1) * sizeof zip->unpacked[0]);
    zip->unpacked[zip->unpacked_count++] = memory;
    *bytes = memory;
    return torch_zip_unpack(entry, memory);
}
