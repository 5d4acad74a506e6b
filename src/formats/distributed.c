// Reads the metadata of a distributed checkpoint. `state_dict_metadata` has for every tensor its size and the offsets
// and sizes of its pieces; `storage_data` has the file, place and length of every piece under the tensor's name and the
// offsets. The two lists of a tensor are sorted alike and must then agree. A pickle may mention one value a thousand
// times, so counts are checked against what can exist once: pieces against places, elements against the bytes of the
// files.
#include "formats/torch_file.h"

#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

// Pieces of a tensor are compared with each other when it is read, so their number is bounded.
enum { MAX_METADATA_BYTES = TORCH_MAX_PICKLE_BYTES, MAX_PIECES = 32768 };
// Names are compared when sorted, and members one by one: neither may be long, since all may be equal.
enum { MAX_NAME_BYTES = 1000, MAX_MEMBERS = 32 };

// ---- values of the pickle ----

static const struct torch_value *member_of(const struct torch_value *object, const char *member) {
    bool is_object = object->type == TORCH_DICT && object->count <= 2 * MAX_MEMBERS;
    return is_object ? torch_get(object, member) : NULL;
}

static const struct torch_value *list_of(const struct torch_value *object, const char *member) {
    const struct torch_value *value = member_of(object, member);
    return value && value->type == TORCH_LIST ? value : NULL;
}

static const char *text_of(const struct torch_value *value) {
    bool is_text = value && value->type == TORCH_STRING && value->length <= MAX_NAME_BYTES;
    return is_text && strlen(value->text) == value->length ? value->text : NULL;
}

static bool are_sizes(const struct torch_value *list, int rank) {
    if (!list || list->count != (size_t)rank)
        return false;
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i]->type != TORCH_INT || list->items[i]->integer < 0)
            return false;
    return true;
}

// Compares lists of numbers of the same length, lexicographically.
static int compare_lists(const struct torch_value *a, const struct torch_value *b) {
    for (size_t i = 0; i < a->count && i < b->count; i++)
        if (a->items[i]->integer != b->items[i]->integer)
            return a->items[i]->integer < b->items[i]->integer ? -1 : 1;
    return 0;
}

// ---- where pieces are stored ----

struct named_place {
    const char *name;
    const struct torch_value *offsets, *info;
};

static int compare_places(const void *a, const void *b) {
    const struct named_place *left = a, *right = b;
    int names = strcmp(left->name, right->name);
    if (names != 0)
        return names;
    if (left->offsets->count != right->offsets->count)
        return left->offsets->count < right->offsets->count ? -1 : 1;
    return compare_lists(left->offsets, right->offsets);
}

static int compare_pieces(const void *a, const void *b) {
    return compare_lists(((const struct distributed_piece *)a)->offsets,
                         ((const struct distributed_piece *)b)->offsets);
}

struct place_list {
    struct named_place *items;  // by name, then by offsets
    size_t count, taken;        // taken: those of pieces of tensors
};

// Objects that are not tensors have no offsets; they are left out.
static int list_places(const struct torch_value *storage, struct place_list *places) {
    places->items = memory_alloc((storage->count / 2 + 1) * sizeof places->items[0]);
    for (size_t i = 0; i < storage->count; i += 2) {
        const struct torch_value *index = storage->items[i], *offsets = list_of(index, "offset");
        const char *name = text_of(member_of(index, "fqn"));
        if (!name)
            return error_set("its storage_data has a piece without a name of up to %d bytes", MAX_NAME_BYTES);
        if (!offsets)
            continue;
        if (offsets->count > TENSOR_MAX_RANK || !are_sizes(offsets, (int)offsets->count))
            return error_set("the offsets of a piece of \"%.200s\" are not sizes", name);
        places->items[places->count++] = (struct named_place){name, offsets, storage->items[i + 1]};
    }
    if (places->count > 0)
        qsort(places->items, places->count, sizeof places->items[0], compare_places);
    return 0;
}

// The first place with this name, or where it would be.
static size_t find_place(const struct place_list *places, const char *name) {
    size_t low = 0, high = places->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(places->items[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// The file of a piece, mapped once. Its name must not lead out of the folder.
static int map_file(struct distributed *checkpoint, const char *name, const struct file_map **map) {
    for (size_t i = checkpoint->file_count; i-- > 0;)
        if (strcmp(checkpoint->files[i].name, name) == 0) {
            *map = &checkpoint->files[i].map;
            return 0;
        }
    if (strchr(name, '/') || strcmp(name, "..") == 0 || *name == '\0')
        return error_set("it places a piece in \"%.200s\", which is not a file of the folder", name);
    OWNED char *path = file_join(checkpoint->path, name);
    struct file_map opened = {0};
    TRY(file_map_open(&opened, path));
    checkpoint->files = memory_realloc(checkpoint->files, (checkpoint->file_count + 1) * sizeof checkpoint->files[0]);
    checkpoint->files[checkpoint->file_count++] = (struct distributed_file){.name = name, .map = opened};
    *map = &checkpoint->files[checkpoint->file_count - 1].map;
    return 0;
}

static int find_bytes(struct distributed *checkpoint, const struct named_place *place,
                      struct distributed_piece *piece) {
    const char *name = text_of(member_of(place->info, "relative_path"));
    const struct torch_value *at = member_of(place->info, "offset"), *length = member_of(place->info, "length");
    const struct torch_value *transforms = member_of(place->info, "transform_descriptors");
    if (!name || !at || at->type != TORCH_INT || !length || length->type != TORCH_INT)
        return error_set("a piece of \"%.200s\" has no file, offset or length", place->name);
    if (transforms && transforms->type != TORCH_NONE)
        return error_set("a piece of \"%.200s\" is compressed or otherwise transformed, which is not supported",
                         place->name);
    const struct file_map *map = NULL;
    TRY(map_file(checkpoint, name, &map));
    if (at->integer < 0 || length->integer < 0 || (uint64_t)at->integer > map->size ||
        (uint64_t)length->integer > map->size - (uint64_t)at->integer)
        return error_set("%s/%s has %zu bytes and ends before a piece of \"%.200s\"; the file is truncated",
                         checkpoint->path, name, map->size, place->name);
    piece->data = (const unsigned char *)map->data + at->integer;
    piece->bytes = (size_t)length->integer;
    return 0;
}

// ---- tensors ----

static int read_shape(struct distributed_tensor *tensor, const struct torch_value *size) {
    if (!size || size->count > TENSOR_MAX_RANK || !are_sizes(size, (int)size->count))
        return error_set("the size of \"%.200s\" is not that of a tensor of up to %d dimensions", tensor->name,
                         TENSOR_MAX_RANK);
    tensor->rank = (int)size->count;
    size_t bytes = sizeof(int64_t);
    bool fits = true;
    for (int i = 0; i < tensor->rank; i++) {
        tensor->shape[i] = size->items[i]->integer;
        fits = fits && size_mul(bytes, (size_t)tensor->shape[i], &bytes);
    }
    return fits ? 0 : error_set("\"%.200s\" has more bytes than 64 bits can count", tensor->name);
}

// A piece lies within the tensor.
static int check_piece(const struct distributed_tensor *tensor, const struct distributed_piece *piece) {
    for (int i = 0; i < tensor->rank; i++) {
        int64_t offset = piece->offsets->items[i]->integer, size = piece->sizes->items[i]->integer;
        if (offset > tensor->shape[i] || size > tensor->shape[i] - offset)
            return error_set("a piece of \"%.200s\" extends beyond it", tensor->name);
    }
    return 0;
}

// The type is that of the first piece; distributed_read compares the others with it.
static int read_dtype(struct distributed_tensor *tensor, const char *path) {
    OWNED_BY(torch_close) struct torch_file file = {0};
    TRY(torch_parse(&file, tensor->pieces[0].data, tensor->pieces[0].bytes, path));
    const struct torch_value *root = file.pickle.root;
    if (root->type == TORCH_TENSOR)
        tensor->dtype = root->tensor.dtype;
    return tensor->dtype ? 0 : error_set("the first piece of \"%.200s\" is not a tensor", tensor->name);
}

static int read_pieces(struct distributed *checkpoint, struct distributed_tensor *tensor,
                       const struct torch_value *chunks, struct place_list *places) {
    if (chunks->count > MAX_PIECES)
        return error_set("\"%.200s\" has more than %d pieces", tensor->name, MAX_PIECES);
    if (chunks->count > places->count - places->taken)
        return error_set("\"%.200s\" has %zu pieces, more than storage_data lists", tensor->name, chunks->count);
    places->taken += chunks->count;
    tensor->piece_count = chunks->count;
    tensor->pieces = memory_alloc((chunks->count + 1) * sizeof tensor->pieces[0]);
    for (size_t i = 0; i < chunks->count; i++) {
        struct distributed_piece *piece = &tensor->pieces[i];
        piece->offsets = list_of(chunks->items[i], "offsets");
        piece->sizes = list_of(chunks->items[i], "sizes");
        if (!are_sizes(piece->offsets, tensor->rank) || !are_sizes(piece->sizes, tensor->rank))
            return error_set("a piece of \"%.200s\" has no offsets and sizes in %d dimensions", tensor->name,
                             tensor->rank);
        TRY(check_piece(tensor, piece));
    }
    if (chunks->count > 0)
        qsort(tensor->pieces, tensor->piece_count, sizeof tensor->pieces[0], compare_pieces);
    size_t at = find_place(places, tensor->name);
    for (size_t i = 0; i < tensor->piece_count; i++) {
        const struct named_place *place = at + i < places->count ? &places->items[at + i] : NULL;
        if (!place || strcmp(place->name, tensor->name) != 0 || !are_sizes(place->offsets, tensor->rank) ||
            compare_lists(place->offsets, tensor->pieces[i].offsets) != 0)
            return error_set("storage_data does not list a piece of \"%.200s\"", tensor->name);
        TRY(find_bytes(checkpoint, place, &tensor->pieces[i]));
    }
    return tensor->piece_count > 0 ? read_dtype(tensor, checkpoint->path)
                                   : error_set("\"%.200s\" has no pieces", tensor->name);
}

// Every tensor has bytes of its own, so all together are no larger than the files. That bounds a reader's allocations
// and the layers of a stack.
static int check_bytes(const struct distributed *checkpoint) {
    size_t left = 0;
    for (size_t i = 0; i < checkpoint->file_count; i++)
        left += checkpoint->files[i].map.size;
    for (size_t i = 0; i < checkpoint->count; i++) {
        const struct distributed_tensor *tensor = &checkpoint->tensors[i];
        size_t bytes = tensor->dtype->bytes;
        for (int k = 0; k < tensor->rank; k++)
            bytes *= (size_t)tensor->shape[k];
        if (bytes == 0)
            return error_set("\"%.200s\" has no elements", tensor->name);
        if (bytes > left)
            return error_set("\"%.200s\" should have %zu bytes, more than the files have", tensor->name, bytes);
        left -= bytes;
    }
    return 0;
}

static int read_tensors(struct distributed *checkpoint, bool (*is_wanted)(const char *name)) {
    const struct torch_value *root = checkpoint->pickle.root;
    const struct torch_value *state = torch_get(root, "state_dict_metadata"),
                             *storage = torch_get(root, "storage_data");
    if (!state || state->type != TORCH_DICT || !storage || storage->type != TORCH_DICT)
        return error_set("it has no state_dict_metadata and storage_data: torch did not write it");
    struct place_list places = {0};
    int result = list_places(storage, &places);
    checkpoint->tensors = memory_alloc((state->count / 2 + 1) * sizeof checkpoint->tensors[0]);
    for (size_t i = 0; i < state->count && result == 0; i += 2) {
        const char *name = text_of(state->items[i]);
        const struct torch_value *chunks = list_of(state->items[i + 1], "chunks");
        if (!name || !chunks || !is_wanted(name))
            continue;
        struct distributed_tensor *tensor = &checkpoint->tensors[checkpoint->count++];
        tensor->name = name;
        result = read_shape(tensor, list_of(state->items[i + 1], "size"));
        if (result == 0)
            result = read_pieces(checkpoint, tensor, chunks, &places);
    }
    free(places.items);
    return result == 0 ? check_bytes(checkpoint) : result;
}

int distributed_open(struct distributed *checkpoint, const char *path, bool (*is_wanted)(const char *name)) {
    *checkpoint = (struct distributed){.path = memory_string(path)};
    OWNED char *file = file_join(path, ".metadata");
    OWNED_BY(buffer_free) struct buffer text = {0};
    int result = file_read_own(file, MAX_METADATA_BYTES, &text);
    if (result == 0) {
        result = torch_pickle_parse(&checkpoint->pickle, (const unsigned char *)text.data, text.length);
        if (result == 0)
            result = read_tensors(checkpoint, is_wanted);
        if (result < 0)
            error_context("cannot read %s", file);
    }
    if (result < 0)
        distributed_close(checkpoint);
    return result;
}

int distributed_find_object(struct distributed *checkpoint, const char *name, const unsigned char **data,
                            size_t *bytes) {
    const struct torch_value *storage = torch_get(checkpoint->pickle.root, "storage_data");
    struct distributed_piece piece = {0};
    for (size_t i = 0; i < storage->count && !piece.data; i += 2) {
        const char *found = text_of(member_of(storage->items[i], "fqn"));
        const struct named_place place = {.name = name, .info = storage->items[i + 1]};
        if (found && strcmp(found, name) == 0 && find_bytes(checkpoint, &place, &piece) < 0)
            return error_context("cannot read %s/.metadata", checkpoint->path);
    }
    *data = piece.data;
    *bytes = piece.bytes;
    return 0;
}

bool distributed_has_prefix(const struct distributed *checkpoint, const char *prefix) {
    const struct torch_value *state = torch_get(checkpoint->pickle.root, "state_dict_metadata");
    for (size_t i = 0; i < state->count; i += 2) {
        const char *name = text_of(state->items[i]);
        if (name && strncmp(name, prefix, strlen(prefix)) == 0)
            return true;
    }
    return false;
}

void distributed_close(struct distributed *checkpoint) {
    for (size_t i = 0; i < checkpoint->count; i++)
        free(checkpoint->tensors[i].pieces);
    free(checkpoint->tensors);
    for (size_t i = 0; i < checkpoint->file_count; i++)
        file_map_close(&checkpoint->files[i].map);
    free(checkpoint->files);
    torch_pickle_free(&checkpoint->pickle);
    free(checkpoint->path);
    *checkpoint = (struct distributed){0};
}
