// The model files of a Hugging Face folder. An index, X.index.json, has {"weight_map": {"tensor": "file", …}}; it must
// name files of its own folder, every tensor it places must be in that file, and every tensor of the files must be in
// it.
#include "base/words.h"
#include "formats/weights.h"

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "formats/names.h"
#include "store/extra.h"
#include "tensor/float8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INDEX_BYTES = 64 << 20, MAX_FILES = 10000 };

struct index {
    const char *folder;
    const struct json *map;  // tensor → file
    const char **files;      // each once
    size_t count;
};

static bool is_plain_name(const struct json *value) {
    return value->type == JSON_STRING && value->length > 0 && strlen(value->string) == value->length &&
           !strchr(value->string, '/') && value->string[0] != '.';
}

static int list_files(struct index *index) {
    index->files = memory_alloc((index->map->count + 1) * sizeof index->files[0]);
    for (size_t i = 0; i < index->map->count; i++) {
        if (!is_plain_name(&index->map->items[i]))
            return error_set("it places \"%.200s\" in something that is not a file of this folder",
                             index->map->keys[i].string);
        index->files[i] = index->map->items[i].string;
    }
    qsort(index->files, index->map->count, sizeof index->files[0], words_compare);
    for (size_t i = 0; i < index->map->count; i++)
        if (i == 0 || strcmp(index->files[i], index->files[i - 1]) != 0)
            index->files[index->count++] = index->files[i];
    if (index->count > MAX_FILES)
        return error_set("it names %zu files, more than the %d allowed", index->count, MAX_FILES);
    return 0;
}

// Large weights on shared storage are often links. Files read as tensors are not copied unchanged, so no secret leaks;
// but a folder from elsewhere must not silently use another model of this machine.
static void note_link(const char *folder, const char *path) {
    OWNED char *target = file_exists(path) && !extra_is_inside(folder, path) ? realpath(path, NULL) : NULL;
    if (target)
        log_info("note: %s is a link that leads out of the folder; the weights are those of %s", path, target);
}

static int add_file(struct weights *weights, const char *folder, const char *name) {
    OWNED char *path = file_join(folder, name);
    note_link(folder, path);
    return name_ends(name, ".safetensors") ? weights_add_safetensors(weights, path) : weights_add_torch(weights, path);
}

static int compare_keys(const void *a, const void *b) {
    const struct json_key *x = *(const struct json_key *const *)a, *y = *(const struct json_key *const *)b;
    return strcmp(x->string, y->string);
}

// Compares one file's tensors with the index; differences are collected.
struct index_comparison {
    const struct index *index;
    const struct json_key **keys;  // the index's names, sorted
    struct name_list missing, extra;
};

static const struct json_key *find_key(const struct index_comparison *comparison, const char *name) {
    struct json_key wanted = {.string = name};
    const struct json_key *pointer = &wanted, **found = NULL;
    if (comparison->index->map->count > 0)
        found = bsearch(&pointer, comparison->keys, comparison->index->map->count, sizeof comparison->keys[0],
                        compare_keys);
    return found ? *found : NULL;
}

static void compare_file(struct index_comparison *comparison, const struct weights *weights, const char *file,
                         size_t first) {
    const struct json *map = comparison->index->map;
    for (size_t i = first; i < weights->count; i++) {
        const struct json_key *key = find_key(comparison, weights->items[i].name);
        const struct json *value = key ? &map->items[key - map->keys] : NULL;
        if (!value || strcmp(value->string, file) != 0)
            name_list_add(&comparison->extra, weights->items[i].name);
    }
}

static void free_comparison(struct index_comparison *comparison) {
    name_list_free(&comparison->missing);
    name_list_free(&comparison->extra);
    free(comparison->keys);
}

static int read_indexed(struct weights *weights, const struct index *index) {
    OWNED_BY(free_comparison)
    struct index_comparison comparison = {.index = index,
                                          .keys = memory_alloc((index->map->count + 1) * sizeof comparison.keys[0])};
    for (size_t i = 0; i < index->map->count; i++)
        comparison.keys[i] = &index->map->keys[i];
    qsort(comparison.keys, index->map->count, sizeof comparison.keys[0], compare_keys);
    for (size_t i = 0; i < index->count; i++) {
        size_t first = weights->count;
        TRY(add_file(weights, index->folder, index->files[i]));
        compare_file(&comparison, weights, index->files[i], first);
    }
    TRY(weights_sort(weights));
    for (size_t i = 0; i < index->map->count; i++)
        if (!weights_find(weights, index->map->keys[i].string))
            name_list_add(&comparison.missing, index->map->keys[i].string);
    OWNED_BY(buffer_free) struct buffer text = {0};
    name_list_describe(&comparison.missing, "names tensors that no file has", &text);
    name_list_describe(&comparison.extra, "does not place tensors where they are", &text);
    return text.length > 0 ? error_set("it %s", buffer_string(&text)) : 0;
}

// Refuses a single model file beside an index: programs differ in which of the two they read.
static int check_alone(const struct index *index, const char *path) {
    size_t length = strlen(path) - strlen(".index.json");
    OWNED char *single = memory_printf("%.*s", (int)length, path);
    const char *slash = strrchr(single, '/'), *name = slash ? slash + 1 : single;
    bool is_same = index->count == 1 && strcmp(index->files[0], name) == 0, is_there = file_exists(single);
    return is_there && !is_same
               ? error_set("the folder has an index of several files and a single file of the same name, and "
                           "programs differ in which of them they read; remove one")
               : 0;
}

static int open_indexed(struct weights *weights, const char *folder, const char *path) {
    OWNED struct json *root = NULL;
    TRY(json_parse_own(&root, path, MAX_INDEX_BYTES));
    struct index index = {.folder = folder, .map = json_member(root, "weight_map")};
    int result = 0;
    if (!index.map || index.map->type != JSON_OBJECT || index.map->count == 0)
        result = error_set("it has no \"weight_map\"");
    if (result == 0)
        result = list_files(&index);
    const char *repeated = result == 0 ? json_repeated(root) : NULL;
    if (repeated)
        result = error_set("it has \"%.200s\" twice", repeated);
    if (result == 0)
        result = check_alone(&index, path);
    if (result == 0)
        result = read_indexed(weights, &index);
    if (result < 0)
        error_context("cannot use the index %s", path);
    free(index.files);
    return result;
}

int weights_open_folder(struct weights *weights, const char *folder) {
    static const char *const names[] = {"model.safetensors.index.json", "model.safetensors",
                                        "pytorch_model.bin.index.json", "pytorch_model.bin"};
    *weights = (struct weights){0};
    int result = 1;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && result > 0; i++) {
        OWNED char *path = file_join(folder, names[i]);
        bool is_index = strstr(names[i], ".index.json") != NULL;
        if (file_exists(path))
            result = is_index ? open_indexed(weights, folder, path) : add_file(weights, folder, names[i]);
        if (result == 0 && !is_index)
            result = weights_sort(weights);
    }
    if (result > 0)
        result =
            error_set("%s has neither model.safetensors nor pytorch_model.bin, single or with an index.json", folder);
    if (result < 0)
        weights_close(weights);
    return result;
}

// Matrices in fp8 with a scale for each block of 128 x 128, as DeepSeek-V3 has them: NAME in E4M3 beside NAME_scale_inv
// in fp32. They are read as bf16: each number times its scale, in fp32, rounded once. transformers does the same.

enum { BLOCK = 128 };
static const char ending[] = "_scale_inv";

static int64_t blocks_of(int64_t length) {
    return (length + BLOCK - 1) / BLOCK;
}

bool weight_is_scale(const struct weights *weights, const char *name) {
    if (!name_ends(name, ending))
        return false;
    OWNED char *of = memory_printf("%.*s", (int)(strlen(name) - strlen(ending)), name);
    const struct weight *matrix = weights_find(weights, of);
    return matrix && matrix->scales;
}

static int pair_up(const struct weights *weights, struct weight *weight) {
    OWNED char *name = memory_printf("%s%s", weight->name, ending);
    const struct weight *scales = weights_find(weights, name);
    if (!scales)
        return error_set("the tensor \"%.200s\" is in fp8 and has no \"%.200s%s\" beside it", weight->name,
                         weight->name, ending);
    if (!weight->data)
        return error_set(
            "the tensor \"%.200s\" is in fp8 in a torch file, which is only read from safetensors; save the "
            "model as safetensors",
            weight->name);
    bool is_grid = scales->is_readable && scales->dtype == DTYPE_F32 && scales->rank == 2 && weight->rank == 2 &&
                   scales->shape[0] == blocks_of(weight->shape[0]) && scales->shape[1] == blocks_of(weight->shape[1]);
    if (!is_grid)
        return error_set("the scales \"%.200s\" are not in fp32, one for each block of %d x %d", scales->name,
                         (int)BLOCK, (int)BLOCK);
    weight->scales = scales;
    weight->is_readable = true;
    weight->dtype = DTYPE_BF16;
    weight->bytes *= dtype_bytes(DTYPE_BF16);
    return 0;
}

int weights_pair_blocks(struct weights *weights) {
    for (size_t i = 0; i < weights->count; i++) {
        struct weight *weight = &weights->items[i];
        if (!weight->is_readable && weight->other_dtype && strcmp(weight->other_dtype, "F8_E4M3") == 0)
            TRY(pair_up(weights, weight));
    }
    return 0;
}

int weight_read_blocks(const struct weight *weight, void *to) {
    int64_t rows = weight->shape[0], columns = weight->shape[1], grid = blocks_of(columns);
    float *scales = memory_alloc(weight->scales->bytes + 1), values[256];
    OWNED uint16_t *row = memory_alloc((size_t)columns * sizeof *row + 1);
    int result = weight_read(weight->scales, scales);
    for (int code = 0; code < 256; code++)
        values[code] = float8_decode(DTYPE_E4M3, (uint8_t)code);
    for (int64_t r = 0; r < rows && result == 0; r++) {
        const unsigned char *from = weight->data + r * columns;
        for (int64_t c = 0; c < columns; c++)
            row[c] = half_to_bf16(values[from[c]] * scales[r / BLOCK * grid + c / BLOCK]);
        memcpy((unsigned char *)to + (size_t)(r * columns) * sizeof *row, row, (size_t)columns * sizeof *row);
    }
    free(scales);
    return result;
}
