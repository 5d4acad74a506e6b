// Assigns tensors to ranks, and writes a rank's share. See share.h.
#include "store/share.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "store/gather.h"
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

// Below this size, another writer costs more than it saves.
enum { BYTES_A_WRITER = 64 << 20 };

const char *const share_holds[SHARE_FILES] = {"model", "optimizer"};

static int compare_sizes(const void *a, const void *b) {
    const struct share_item *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->file != y->file)
        return x->file - y->file;
    return x->number < y->number ? -1 : x->number > y->number;
}

static int compare_turns(const void *a, const void *b) {
    const struct share_item *x = a, *y = b;
    if (x->turn != y->turn)
        return x->turn < y->turn ? -1 : 1;
    return x->writer - y->writer;
}

static int compare_places(const void *a, const void *b) {
    const struct share_item *x = a, *y = b;
    if (x->file != y->file)
        return x->file - y->file;
    return x->number < y->number ? -1 : x->number > y->number;
}

static void list_items(struct share *share, const struct checkpoint_save *save) {
    const struct checkpoint_tensor *lists[SHARE_FILES] = {save->model, save->optimizer};
    const size_t counts[SHARE_FILES] = {save->model_count, save->optimizer_count};
    share->items = memory_alloc((counts[0] + counts[1] + 1) * sizeof share->items[0]);
    for (int file = 0; file < SHARE_FILES; file++)
        for (size_t i = 0; i < counts[file]; i++) {
            CHECK(tensor_is_contiguous(lists[file][i].tensor));
            share->items[share->count++] = (struct share_item){
                .tensor = &lists[file][i], .number = i, .file = file, .bytes = gather_bytes(&lists[file][i])};
        }
}

static int count_writers(const struct share *share, int64_t wanted) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < share->count; i++)
        bytes += share->items[i].bytes;
    if (wanted == 0)
        wanted = (int64_t)(bytes / BYTES_A_WRITER);
    return wanted < 1 ? 1 : wanted < share->size ? (int)wanted : share->size;
}

// The largest tensors first, each to the writer with the least; writers are spread as far apart as possible.
static void deal_out(struct share *share, int writers) {
    OWNED uint64_t *load = memory_alloc((size_t)writers * sizeof load[0]);
    OWNED int64_t *turns = memory_alloc((size_t)share->size * sizeof turns[0]);
    qsort(share->items, share->count, sizeof share->items[0], compare_sizes);
    for (size_t i = 0; i < share->count; i++) {
        int least = 0;
        for (int w = 1; w < writers; w++)
            least = load[w] < load[least] ? w : least;
        load[least] += share->items[i].bytes;
        share->items[i].writer = (int)((int64_t)least * share->size / writers);
    }
    qsort(share->items, share->count, sizeof share->items[0], compare_places);
    for (size_t i = 0; i < share->count; i++)
        share->items[i].turn = turns[share->items[i].writer]++;
    qsort(share->items, share->count, sizeof share->items[0], compare_turns);
}

// Hugging Face's loaders require "format": "pt".
static void set_metadata(struct share_file *file, int64_t iteration) {
    (void)snprintf(file->iteration, sizeof file->iteration, "%" PRId64, iteration);
    file->metadata[0] = (struct safetensors_text){"format", "pt"};
    file->metadata[1] = (struct safetensors_text){"iteration", file->iteration};
    file->metadata[2] = (struct safetensors_text){"program", "bevatron " BEVATRON_VERSION};
}

static struct safetensors_layout layout_of(const struct share_file *file) {
    return (struct safetensors_layout){
        .tensors = file->entries, .count = file->count, .metadata = file->metadata, .metadata_count = 3};
}

static void add_entry(struct share_file *file, const struct share_item *item) {
    struct safetensors_tensor *entry = &file->entries[file->count++];
    entry->name = memory_string(item->tensor->name);
    entry->dtype = coded_dtype(item->tensor);
    entry->rank = gather_shape(item->tensor, entry->shape);
}

int share_plan(struct share *share, const struct checkpoint_save *save, const struct share_options *options) {
    *share = (struct share){.self = options->self, .size = options->size};
    list_items(share, save);
    deal_out(share, count_writers(share, options->writers));
    for (int i = 0; i < SHARE_FILES; i++) {
        struct share_file *file = &share->files[i];
        file->entries = memory_alloc((share->count + 1) * sizeof file->entries[0]);
        set_metadata(file, save->state->iteration);
    }
    for (size_t i = 0; i < share->count; i++)
        if (share->items[i].writer == share->self)
            add_entry(&share->files[share->items[i].file], &share->items[i]);
    for (int i = 0; i < SHARE_FILES; i++) {
        struct safetensors_layout layout = layout_of(&share->files[i]);
        // A model without parameters still gets a file; an optimizer that is not saved does not.
        bool is_empty_model = i == 0 && share->count == 0 && share->self == 0;
        if (layout.count > 0 || is_empty_model)
            TRY(safetensors_file_bytes(&layout, &share->files[i].bytes));
    }
    return 0;
}

void share_free(struct share *share) {
    for (int i = 0; i < SHARE_FILES; i++) {
        struct share_file *file = &share->files[i];
        for (size_t k = 0; k < file->count; k++) {
            free((char *)(uintptr_t)file->entries[k].name);
            if (file->kept)
                free(file->kept[k]);
        }
        free(file->kept);
        free(file->entries);
        free(file->name);
        free(file->digest.sums);
    }
    free(share->items);
    *share = (struct share){0};
}

char *share_file_name(int file, const int64_t *sizes, int rank, int ranks) {
    int number = 0, total = 0;
    for (int r = 0; r < ranks; r++) {
        total += sizes[SHARE_FILES * r + file] > 0;
        number += r <= rank && sizes[SHARE_FILES * r + file] > 0;
    }
    return total == 1 ? memory_printf("%s.safetensors", share_holds[file])
                      : memory_printf("%s-%05d-of-%05d.safetensors", share_holds[file], number, total);
}

static int create(struct share_file *file, const char *folder, struct safetensors_writer *writer) {
    OWNED char *path = file_join(folder, file->name);
    struct safetensors_layout layout = layout_of(file);
    return safetensors_create(writer, path, &layout);
}

// This rank's files while they are written. After an error, its turns continue without them.
struct writing {
    struct share *share;
    const struct checkpoint_save *save;
    const char *folder;
    struct safetensors_writer writer;
    int file;        // the open one; SHARE_FILES after the last
    size_t written;  // number of its tensors
    int status;
    struct stage stage;
};

// Closes the open file once it is complete, and opens this rank's next one.
static int go_on(struct writing *writing) {
    while (writing->file < SHARE_FILES) {
        struct share_file *file = &writing->share->files[writing->file];
        bool is_open = writing->writer.file.descriptor >= 0;
        if (file->bytes > 0 && !is_open)
            TRY(create(file, writing->folder, &writing->writer));
        if (writing->written < file->count)
            return 0;
        if (file->bytes > 0) {
            int result = safetensors_commit(&writing->writer, &file->digest);
            writing->writer.file.descriptor = -1;
            TRY(result);
        }
        writing->file++;
        writing->written = 0;
    }
    return 0;
}

// A tensor that is not split goes to the file in pieces, without a copy of the whole.
static int write_item(struct writing *writing, const struct share_item *item, const unsigned char *whole) {
    const struct checkpoint_save *save = writing->save;
    TRY(go_on(writing));
    if (save->produce)
        TRY(save->produce(save->context, item->file == 0 ? CHECKPOINT_MODEL : CHECKPOINT_OPTIMIZER, item->number,
                          &writing->writer));
    else if (whole || !save->device)
        TRY(safetensors_write(&writing->writer, whole ? whole : item->tensor->tensor.data, item->bytes));
    else
        TRY(stage_out(&writing->stage, item->tensor->tensor, &writing->writer));
    writing->written++;
    return 0;
}

// Brings a tensor to the rank that writes it: there all its elements, to be freed, and NULL elsewhere.
static unsigned char *bring(const struct share *share, const struct checkpoint_save *save,
                            const struct share_item *item) {
    struct gather gather = {
        .device = save->device, .ranks = save->ranks, .tensor = item->tensor, .writer = item->writer};
    if (item->writer != share->self) {
        gather_send(&gather);
        return NULL;
    }
    unsigned char *whole = memory_alloc(item->bytes + 1);
    gather_receive(&gather, whole);
    return whole;
}

int share_write(struct share *share, const struct checkpoint_save *save, const char *folder) {
    struct writing writing = {.share = share,
                              .save = save,
                              .folder = folder,
                              .writer.file.descriptor = -1,
                              .stage = {.device = save->device}};
    struct error_note *note = NULL;
    if (save->device)
        device_synchronize(save->device);
    for (size_t i = 0; i < share->count;) {
        int64_t turn = share->items[i].turn;
        const struct share_item *own = NULL;
        OWNED unsigned char *whole = NULL;
        for (; i < share->count && share->items[i].turn == turn; i++) {
            const struct share_item *item = &share->items[i];
            bool is_own = item->writer == share->self;
            if (is_own)
                own = item;
            // What is in one piece goes to the file without a copy.
            if (is_own && !gather_is_split(item->tensor) && !coded_is(item->tensor))
                continue;
            unsigned char *brought = bring(share, save, item);
            whole = is_own ? brought : whole;
        }
        if (own && writing.status == 0) {
            writing.status = write_item(&writing, own, whole);
            note = writing.status < 0 ? error_take() : NULL;
        }
    }
    if (writing.status == 0) {
        writing.status = go_on(&writing);
        note = writing.status < 0 ? error_take() : NULL;
    }
    if (save->device)
        stage_end(&writing.stage);
    if (writing.status < 0)
        safetensors_abort(&writing.writer);
    return writing.status < 0 ? error_give(note) : 0;
}

int share_keep(struct share *share, const struct checkpoint_save *save) {
    size_t kept[SHARE_FILES] = {0};
    for (int i = 0; i < SHARE_FILES; i++)
        share->files[i].kept = memory_alloc((share->files[i].count + 1) * sizeof share->files[i].kept[0]);
    device_synchronize(save->device);
    for (size_t i = 0; i < share->count; i++) {
        const struct share_item *item = &share->items[i];
        unsigned char *whole = bring(share, save, item);
        if (whole)
            share->files[item->file].kept[kept[item->file]++] = whole;
    }
    return 0;
}

static int write_kept_file(struct share_file *file, const char *folder) {
    struct safetensors_writer writer;
    int result = create(file, folder, &writer);
    for (size_t i = 0; i < file->count && result == 0; i++) {
        const struct safetensors_tensor *entry = &file->entries[i];
        size_t bytes = dtype_bytes(entry->dtype);
        for (int k = 0; k < entry->rank; k++)
            bytes *= (size_t)entry->shape[k];
        result = safetensors_write(&writer, file->kept[i], bytes);
        free(file->kept[i]);
        file->kept[i] = NULL;
    }
    if (result == 0)
        result = safetensors_commit(&writer, &file->digest);
    if (result < 0)
        safetensors_abort(&writer);
    return result;
}

int share_write_kept(struct share *share, const char *folder) {
    for (int i = 0; i < SHARE_FILES; i++)
        if (share->files[i].bytes > 0)
            TRY(write_kept_file(&share->files[i], folder));
    return 0;
}

// ---- room for the files: a disk that fills up halfway wastes the time and may also stop the logs ----

enum { BESIDES_BYTES = 1 << 20 };  // the small files, folders and the file system's own blocks

enum { SIZE_BYTES = 32 };

// Three digits suit models of every size: 524 kB, 1.57 MB, 85.3 GB.
static void describe(uint64_t bytes, char text[SIZE_BYTES]) {
    static const char *const units[] = {"kB", "MB", "GB", "TB", "PB"};
    if (bytes < 1000) {
        snprintf(text, SIZE_BYTES, "%" PRIu64 " bytes", bytes);
        return;
    }
    double value = (double)bytes / 1e3;
    size_t unit = 0;
    for (; value >= 999.5 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        value /= 1e3;
    snprintf(text, SIZE_BYTES, "%.*f %s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, units[unit]);
}

int space_check(const char *folder, uint64_t bytes, uint64_t available) {
    uint64_t needed;
    if (!__builtin_add_overflow(bytes, BESIDES_BYTES, &needed) && needed <= available)
        return 0;
    char files[SIZE_BYTES], besides[SIZE_BYTES], free_space[SIZE_BYTES], missing[SIZE_BYTES];
    describe(bytes, files);
    describe(BESIDES_BYTES, besides);
    describe(available, free_space);
    describe(needed - available, missing);
    // The difference is printed separately: two nearly equal sizes look the same in three digits.
    return error_set("cannot save a checkpoint to %s: its files need %s plus %s, but %s are free, %s too few; remove "
                     "old checkpoints (--keep-last does so automatically), or give another --save",
                     folder, files, besides, free_space, missing);
}

int space_check_limit(const char *folder, uint64_t bytes) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= (uint64_t)limit.rlim_cur)
        return 0;
    char file[SIZE_BYTES], most[SIZE_BYTES];
    describe(bytes, file);
    describe((uint64_t)limit.rlim_cur, most);
    return error_set("cannot save a checkpoint to %s: its largest file has %s, but this process may write files of %s; "
                     "raise the limit (ulimit -f), or split the checkpoint with --ckpt-writers",
                     folder, file, most);
}
