// The two containers. Zip: NAME/data.pkl is the pickle, NAME/data/KEY the bytes of a storage, NAME/byteorder says
// "little". Legacy: the pickles of a magic number, a protocol number, a description of the machine, the object and the
// list of its storages' keys, and then for each key a count of elements (i64) and the elements.
#include "formats/torch_file.h"

#include "base/error.h"
#include "base/file_patience.h"
#include "base/memory.h"
#include "store/safetensors.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char pickle_suffix[] = "/data.pkl";
// LONG1 of ten bytes: 0x1950a86a20f9469cfc6c, as protocol 2 writes it.
static const unsigned char legacy_magic[] = {0x80, 2,    0x8a, 10,   0x6c, 0xfc, 0x9c, 0x46,
                                             0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, '.'};
enum { LEGACY_PROTOCOL = 1001 };

static const struct torch_zip_entry *find_pickle(const struct torch_zip *zip) {
    for (size_t i = 0; i < zip->count; i++) {
        const char *name = zip->entries[i].name, *slash = strchr(name, '/');
        if (slash && strcmp(slash, pickle_suffix) == 0)
            return &zip->entries[i];
    }
    return NULL;
}

// The entry PREFIX/FOLDER NAME, where the pickle is PREFIX/data.pkl.
static const struct torch_zip_entry *find_beside(const struct torch_zip *zip, const char *pickle_name,
                                                 const char *folder, const char *name) {
    int prefix = (int)(strlen(pickle_name) - strlen(pickle_suffix));
    OWNED char *path = memory_printf("%.*s/%s%s", prefix, pickle_name, folder, name);
    return torch_zip_find(zip, path);
}

static int check_storage_bytes(const struct torch_storage *storage, size_t bytes) {
    size_t needed = 0;
    if (!size_mul((size_t)storage->count, storage->dtype->bytes, &needed) || needed != bytes)
        return error_set("the storage \"%.64s\" claims %" PRId64 " elements of %s and has %zu bytes", storage->key,
                         storage->count, storage->dtype->name, bytes);
    return 0;
}

static int find_zip_storage(const struct torch_zip *zip, const char *pickle_name, struct torch_storage *storage) {
    const struct torch_zip_entry *entry = find_beside(zip, pickle_name, "data/", storage->key);
    if (!entry)
        return error_set("the bytes of storage \"%.64s\" are not in the archive", storage->key);
    TRY(check_storage_bytes(storage, entry->bytes));
    storage->data = entry->data;
    storage->entry = entry;
    return 0;
}

static int check_byte_order(const struct torch_zip *zip, const char *pickle_name) {
    const struct torch_zip_entry *entry = find_beside(zip, pickle_name, "", "byteorder");
    if (entry && (entry->bytes != 6 || memcmp(entry->data, "little", 6) != 0))
        return error_set("it was written on a machine with another byte order");
    return 0;
}

static int parse_zip(struct torch_file *file, const unsigned char *bytes, size_t size) {
    TRY(torch_zip_parse(&file->zip, bytes, size));
    const struct torch_zip_entry *entry = find_pickle(&file->zip);
    if (!entry)
        return error_set("it is a zip archive without data.pkl: torch.save did not write it");
    if (entry->bytes > TORCH_MAX_PICKLE_BYTES)
        return error_set("its pickle has %zu bytes, but %d are allowed", entry->bytes, TORCH_MAX_PICKLE_BYTES);
    TRY(torch_zip_check(entry));
    TRY(check_byte_order(&file->zip, entry->name));
    TRY(torch_pickle_parse(&file->pickle, entry->data, entry->bytes));
    for (size_t i = 0; i < file->pickle.storage_count; i++)
        TRY(find_zip_storage(&file->zip, entry->name, file->pickle.storages[i]));
    return 0;
}

// The position in a legacy file.
struct torch_cursor {
    const unsigned char *bytes;
    size_t size, at;
};

static int next_pickle(struct torch_cursor *cursor, struct torch_pickle *pickle) {
    TRY(torch_pickle_parse(pickle, cursor->bytes + cursor->at, cursor->size - cursor->at));
    cursor->at += pickle->used_bytes;
    return 0;
}

static int check_legacy_header(struct torch_cursor *cursor) {
    struct torch_pickle pickle = {0};
    TRY(next_pickle(cursor, &pickle));
    bool is_known = pickle.root->type == TORCH_INT && pickle.root->integer == LEGACY_PROTOCOL;
    torch_pickle_free(&pickle);
    if (!is_known)
        return error_set("its container has a protocol other than %d", LEGACY_PROTOCOL);
    TRY(next_pickle(cursor, &pickle));
    const struct torch_value *little = torch_get(pickle.root, "little_endian");
    bool is_little = little && little->type == TORCH_BOOL && little->boolean;
    torch_pickle_free(&pickle);
    return is_little ? 0 : error_set("it was written on a machine with another byte order");
}

static int read_legacy_storages(struct torch_file *file, struct torch_cursor *cursor, const struct torch_value *keys) {
    if (keys->type != TORCH_LIST || keys->count != file->pickle.storage_count)
        return error_set("its list of storages does not have the %zu that its tensors use", file->pickle.storage_count);
    for (size_t i = 0; i < keys->count; i++) {
        const struct torch_value *key = keys->items[i];
        struct torch_storage *storage = key->type == TORCH_STRING ? torch_find_storage(&file->pickle, key->text) : NULL;
        if (!storage || storage->data)
            return error_set("its list of storages names one that no tensor uses, or one twice");
        int64_t count = 0;
        if (cursor->size - cursor->at < sizeof count)
            return error_set("it ends before storage \"%.64s\"; the file is truncated: copy or download it again",
                             storage->key);
        memcpy(&count, cursor->bytes + cursor->at, sizeof count);
        cursor->at += sizeof count;
        size_t bytes = 0, left = cursor->size - cursor->at;
        if (count != storage->count || !size_mul((size_t)count, storage->dtype->bytes, &bytes) || bytes > left)
            return error_set("storage \"%.64s\" claims %" PRId64 " elements, then %" PRId64
                             ", but %zu bytes follow; the file is truncated or damaged: copy or download it again",
                             storage->key, storage->count, count, left);
        storage->data = cursor->bytes + cursor->at;
        cursor->at += bytes;
    }
    return 0;
}

static int parse_legacy(struct torch_file *file, const unsigned char *bytes, size_t size) {
    struct torch_cursor cursor = {.bytes = bytes, .size = size, .at = sizeof legacy_magic};
    OWNED_BY(torch_pickle_free) struct torch_pickle keys = {0};
    TRY(check_legacy_header(&cursor));
    TRY(next_pickle(&cursor, &file->pickle));
    TRY(next_pickle(&cursor, &keys));
    return read_legacy_storages(file, &cursor, keys.root);
}

static int parse(struct torch_file *file, const unsigned char *bytes, size_t size) {
    static const unsigned char zip_magic[4] = {'P', 'K', 3, 4};
    if (size >= sizeof zip_magic && memcmp(bytes, zip_magic, sizeof zip_magic) == 0)
        return parse_zip(file, bytes, size);
    if (size >= sizeof legacy_magic && memcmp(bytes, legacy_magic, sizeof legacy_magic) == 0)
        return parse_legacy(file, bytes, size);
    return error_set("it is not a torch.save file: it starts neither as a zip archive nor with torch's magic number%s",
                     file_looks_like(bytes, size));
}

int torch_parse(struct torch_file *file, const void *bytes, size_t size, const char *name) {
    *file = (struct torch_file){.path = memory_string(name)};
    if (parse(file, bytes, size) == 0)
        return 0;
    error_context("cannot read %s", name);
    torch_close(file);
    return -1;
}

int torch_open(struct torch_file *file, const char *path) {
    *file = (struct torch_file){0};
    struct file_map map;
    TRY(file_map_open(&map, path));
    if (torch_parse(file, map.data, map.size, path) < 0) {
        file_map_close(&map);
        return -1;
    }
    file->map = map;
    return 0;
}

void torch_close(struct torch_file *file) {
    torch_pickle_free(&file->pickle);
    torch_zip_free(&file->zip);
    file_map_close(&file->map);
    free(file->path);
    *file = (struct torch_file){0};
}

int64_t torch_tensor_count(const struct torch_tensor *tensor) {
    int64_t count = 1;
    for (int i = 0; i < tensor->rank; i++)
        count *= tensor->shape[i];
    return count;
}

void torch_describe(const struct torch_tensor *tensor, char *text, size_t size) {
    struct safetensors_tensor same = {.other_dtype = tensor->dtype->name, .rank = tensor->rank};
    memcpy(same.shape, tensor->shape, sizeof same.shape);
    safetensors_describe(&same, text, size);
}

static bool is_contiguous(const struct torch_tensor *tensor) {
    int64_t expected = 1;
    for (int i = tensor->rank; i-- > 0;) {
        if (tensor->shape[i] != 1 && tensor->stride[i] != expected)
            return false;
        expected *= tensor->shape[i];
    }
    return true;
}

// Row by row through up to four dimensions; the last one is the inner loop.
static void copy_strided(const struct torch_tensor *tensor, const unsigned char *from, unsigned char *to) {
    int64_t shape[TENSOR_MAX_RANK], stride[TENSOR_MAX_RANK], at[TENSOR_MAX_RANK] = {0};
    int pad = TENSOR_MAX_RANK - tensor->rank;
    for (int i = 0; i < TENSOR_MAX_RANK; i++) {
        shape[i] = i < pad ? 1 : tensor->shape[i - pad];
        stride[i] = i < pad ? 0 : tensor->stride[i - pad];
    }
    size_t bytes = tensor->dtype->bytes;
    int last = TENSOR_MAX_RANK - 1;
    for (at[0] = 0; at[0] < shape[0]; at[0]++)
        for (at[1] = 0; at[1] < shape[1]; at[1]++)
            for (at[2] = 0; at[2] < shape[2]; at[2]++) {
                int64_t row = at[0] * stride[0] + at[1] * stride[1] + at[2] * stride[2];
                for (int64_t i = 0; i < shape[last]; i++, to += bytes)
                    memcpy(to, from + (size_t)(row + i * stride[last]) * bytes, bytes);
            }
}

int torch_read(const struct torch_file *file, const struct torch_tensor *tensor, void *to) {
    struct torch_storage *storage = tensor->storage;
    CHECK(tensor->dtype->is_readable);
    if (storage->entry && !storage->is_proven && torch_zip_check(storage->entry) < 0)
        return error_context("cannot read %s", file->path);
    storage->is_proven = true;
    if (torch_tensor_count(tensor) == 0)
        return 0;
    const unsigned char *from = storage->data + (size_t)tensor->offset * tensor->dtype->bytes;
    if (is_contiguous(tensor))
        memcpy(to, from, (size_t)torch_tensor_count(tensor) * tensor->dtype->bytes);
    else
        copy_strided(tensor, from, to);
    return 0;
}
