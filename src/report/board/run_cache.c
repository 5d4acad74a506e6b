// A run's data as a file: a head with sizes and a checksum, then everything as in memory. It is read only on the
// machine that wrote it, so numbers have that machine's byte order. A file that differs in any way from one written by
// this version is ignored, and the run is read from its own files.
#include "report/board/run.h"

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE_VERSION = 2, PRINT_BYTES = 4096 };

struct cache_head {
    char magic[8];
    uint32_t version, bin_bytes, cell_bytes, mark_bytes;
    uint64_t body_bytes;
    uint32_t body_check, reserved;
};

static const char magic[8] = "BVBOARD";

static void put_int(struct buffer *out, int64_t value) {
    buffer_append(out, &value, sizeof value);
}

// The length, -1 for NULL, and the bytes.
static void put_string(struct buffer *out, const char *string) {
    put_int(out, string ? (int64_t)strlen(string) : -1);
    buffer_append(out, string ? string : "", string ? strlen(string) : 0);
}

// The checksum of the first bytes of a file and of those before its offset: a replaced file differs in them. False if
// the file has disappeared or changed.
static bool file_print(const struct board_run *run, uint32_t file, uint64_t *print) {
    OWNED_BY(buffer_free) struct buffer first = {0}, last = {0};
    uint64_t offset = run->files[file].offset;
    size_t size = offset < PRINT_BYTES ? (size_t)offset : PRINT_BYTES;
    bool is_there =
        run_read_bytes(run, file, 0, size, &first) == 0 && run_read_bytes(run, file, offset - size, size, &last) == 0;
    if (is_there)
        *print = (uint64_t)crc32c(first.data, size) << 32 | crc32c(last.data, size);
    return is_there;
}

static void put_pyramid(struct buffer *out, const struct pyramid *pyramid) {
    size_t bins = (size_t)pyramid->count;
    put_int(out, pyramid->column_count);
    put_int(out, pyramid->count);
    put_int(out, pyramid->stride);
    buffer_append(out, pyramid->bins, bins * sizeof pyramid->bins[0]);
    for (int i = 0; i < pyramid->column_count; i++)
        buffer_append(out, pyramid->columns[i], bins * sizeof pyramid->columns[i][0]);
}

static void put_summary(struct buffer *out, const struct run_summary *summary) {
    const double numbers[] = {summary->started, summary->updated, summary->distance, summary->tokens_per_sample,
                              summary->flops_per_token};
    const int64_t counts[] = {summary->iteration, summary->train_iters, summary->ranks,      summary->pid,
                              summary->restarts,  summary->end,         summary->has_tokens, summary->has_flops};
    buffer_append(out, numbers, sizeof numbers);
    buffer_append(out, counts, sizeof counts);
    put_string(out, summary->host);
    put_string(out, summary->job);
    put_string(out, summary->job_log);
    put_string(out, summary->why);
    put_string(out, summary->version);
}

void run_cache_write(const struct board_run *run, struct buffer *out) {
    OWNED_BY(buffer_free) struct buffer body = {0};
    put_string(&body, run->path);
    put_int(&body, run->is_events);
    put_int(&body, run->file_count);
    for (int i = 0; i < run->file_count; i++) {
        const struct run_file *file = &run->files[i];
        uint64_t print = 0;
        (void)file_print(run, (uint32_t)i, &print);
        const uint64_t numbers[] = {file->device,  file->inode,           file->offset,
                                    file->is_lost, file->is_in_long_line, print};
        put_string(&body, file->path);
        buffer_append(&body, numbers, sizeof numbers);
    }
    put_int(&body, run->group_count);
    for (int i = 0; i < run->group_count; i++) {
        put_string(&body, run->groups[i].set);
        put_pyramid(&body, &run->groups[i].pyramid);
    }
    put_int(&body, run->tag_count);
    for (int i = 0; i < run->tag_count; i++) {
        put_string(&body, run->tags[i].name);
        put_int(&body, run->tags[i].kind);
        put_int(&body, run->tags[i].group);
        put_int(&body, run->tags[i].column);
    }
    for (int i = 0; i < RUN_MARK_KINDS; i++) {
        put_int(&body, run->marks[i].count);
        buffer_append(&body, run->marks[i].items, (size_t)run->marks[i].count * sizeof run->marks[i].items[0]);
    }
    put_summary(&body, &run->summary);
    put_int(&body, run->line_count);
    put_int(&body, run->bad_lines);
    put_int(&body, (int64_t)run->refilled_bytes);
    struct cache_head head = {.version = CACHE_VERSION,
                              .bin_bytes = sizeof(struct pyramid_bin),
                              .cell_bytes = sizeof(struct pyramid_cell),
                              .mark_bytes = sizeof(struct run_mark),
                              .body_bytes = body.length,
                              .body_check = crc32c(body.data, body.length)};
    memcpy(head.magic, magic, sizeof magic);
    buffer_clear(out);
    buffer_append(out, &head, sizeof head);
    buffer_append(out, body.data, body.length);
}

// Reading: every call fails once one has failed.
struct cache_cursor {
    const char *at;
    size_t left;
    bool has_failed;
};

static bool take(struct cache_cursor *cursor, void *bytes, size_t size) {
    if (cursor->has_failed || cursor->left < size) {
        cursor->has_failed = true;
        memset(bytes, 0, size);
        return false;
    }
    if (size > 0)
        memcpy(bytes, cursor->at, size);
    cursor->at += size;
    cursor->left -= size;
    return true;
}

// A whole number in [least, most].
static int64_t take_int(struct cache_cursor *cursor, int64_t least, int64_t most) {
    int64_t value = 0;
    take(cursor, &value, sizeof value);
    if (value < least || value > most) {
        cursor->has_failed = true;
        return least;
    }
    return value;
}

// To be freed; NULL for NULL and on failure.
static char *take_string(struct cache_cursor *cursor) {
    enum { MOST_BYTES = 1 << 16 };
    int64_t length = take_int(cursor, -1, MOST_BYTES);
    if (length < 0 || cursor->has_failed || (size_t)length > cursor->left)
        return NULL;
    char *string = memory_alloc((size_t)length + 1);
    take(cursor, string, (size_t)length);
    if (strlen(string) != (size_t)length)
        cursor->has_failed = true;
    return string;
}

static bool are_bins_good(const struct board_run *run, const struct pyramid *pyramid) {
    int64_t before = -1;
    for (int i = 0; i < pyramid->count; i++) {
        const struct pyramid_bin *bin = &pyramid->bins[i];
        bool has_file = bin->last.file < (uint32_t)run->file_count;
        if (bin->first_step < 0 || bin->first_step > bin->last.step || bin->last.step >= LINE_MOST_ITERATION ||
            bin->first_step < before || bin->count == 0 || (!has_file && bin->last.file != PYRAMID_MIXED) ||
            (has_file && (bin->last.begin > bin->last.end || bin->last.end > run->files[bin->last.file].offset)))
            return false;
        before = bin->last.step;
    }
    return true;
}

static void take_pyramid(struct cache_cursor *cursor, const struct board_run *run, struct pyramid *pyramid) {
    int64_t columns = take_int(cursor, 0, PYRAMID_MOST_COLUMNS);
    int64_t count = take_int(cursor, 0, PYRAMID_MOST_BINS);
    int64_t stride = take_int(cursor, 1, 1 << 30);
    size_t bins = (size_t)count, bytes = sizeof(struct pyramid_bin) + (size_t)columns * sizeof(struct pyramid_cell);
    if (cursor->has_failed || cursor->left < bins * bytes || (count > 0 && columns == 0)) {
        cursor->has_failed = true;
        return;
    }
    pyramid_init(pyramid, PYRAMID_MOST_BINS);
    pyramid_reserve(pyramid, (int)count);
    for (int64_t i = 0; i < columns; i++)
        pyramid_add_column(pyramid);
    pyramid->count = (int)count;
    pyramid->stride = (uint32_t)stride;
    if (count > 0)
        take(cursor, pyramid->bins, bins * sizeof pyramid->bins[0]);
    for (int i = 0; i < pyramid->column_count; i++)
        take(cursor, pyramid->columns[i], bins * sizeof pyramid->columns[i][0]);
    if (!are_bins_good(run, pyramid))
        cursor->has_failed = true;
    pyramid_shrink(pyramid, run->bin_limit);
}

static void take_files(struct cache_cursor *cursor, struct board_run *run) {
    int64_t count = take_int(cursor, 0, RUN_MOST_FILES);
    for (int64_t i = 0; i < count && !cursor->has_failed; i++) {
        OWNED char *path = take_string(cursor);
        uint64_t numbers[6];
        take(cursor, numbers, sizeof numbers);
        if (path && !cursor->has_failed) {
            run_add_file(run, path);
            struct run_file *file = &run->files[run->file_count - 1];
            file->device = numbers[0];
            file->inode = numbers[1];
            file->offset = numbers[2];
            file->is_lost = numbers[3] != 0;
            file->is_in_long_line = numbers[4] != 0;
            uint64_t print = 0;
            bool is_there = file_print(run, (uint32_t)(run->file_count - 1), &print);
            cursor->has_failed = run->file_count != i + 1 || !is_there || print != numbers[5];
        } else {
            cursor->has_failed = true;
        }
    }
}

static void take_groups(struct cache_cursor *cursor, struct board_run *run) {
    int64_t count = take_int(cursor, 0, RUN_MOST_TAGS);
    for (int64_t i = 0; i < count && !cursor->has_failed; i++) {
        OWNED char *set = take_string(cursor);
        // The group of "train" lines already exists.
        bool is_first = i == 0 && !run->is_events;
        if ((!is_first && !run->is_events) != (set != NULL))
            cursor->has_failed = true;
        int group = is_first ? 0 : run_add_group(run, set);
        if (!cursor->has_failed)
            take_pyramid(cursor, run, &run->groups[group].pyramid);
    }
}

static void take_tags(struct cache_cursor *cursor, struct board_run *run) {
    int64_t count = take_int(cursor, 0, run->is_events ? RUN_MOST_TAGS : LINE_MOST_VALUES);
    for (int64_t i = 0; i < count && !cursor->has_failed; i++) {
        struct run_tag tag = {.name = take_string(cursor)};
        tag.kind = (enum run_tag_kind)take_int(cursor, RUN_TAG_CURVE, RUN_TAG_OTHER);
        tag.group = (int)take_int(cursor, 0, RUN_MOST_TAGS);
        tag.column = (int)take_int(cursor, 0, PYRAMID_MOST_COLUMNS);
        run->tags[run->tag_count++] = tag;
        bool is_curve = tag.kind == RUN_TAG_CURVE;
        if (!tag.name || (!is_curve && !run->is_events) ||
            (is_curve && (tag.group >= run->group_count || tag.column >= run->groups[tag.group].pyramid.column_count)))
            cursor->has_failed = true;
    }
}

static void take_marks(struct cache_cursor *cursor, struct board_run *run) {
    enum { MOST_MARKS = 1 << 16 };
    for (int kind = 0; kind < RUN_MARK_KINDS; kind++) {
        int64_t count = take_int(cursor, 0, MOST_MARKS);
        for (int64_t i = 0; i < count && !cursor->has_failed; i++) {
            struct run_mark mark;
            if (take(cursor, &mark, sizeof mark))
                run_add_mark(run, (enum run_mark_kind)kind, &mark);
        }
    }
}

static void take_summary(struct cache_cursor *cursor, struct run_summary *summary) {
    double numbers[5];
    take(cursor, numbers, sizeof numbers);
    summary->started = numbers[0];
    summary->updated = numbers[1];
    summary->distance = numbers[2];
    summary->tokens_per_sample = numbers[3];
    summary->flops_per_token = numbers[4];
    summary->iteration = take_int(cursor, 0, LINE_MOST_ITERATION);
    summary->train_iters = take_int(cursor, 0, LINE_MOST_ITERATION);
    summary->ranks = take_int(cursor, 0, LINE_MOST_ITERATION);
    summary->pid = take_int(cursor, 0, LINE_MOST_ITERATION);
    summary->restarts = take_int(cursor, 0, INT64_MAX);
    summary->end = (enum run_end)take_int(cursor, RUN_END_NONE, RUN_END_FAILED);
    summary->has_tokens = take_int(cursor, 0, 1) != 0;
    summary->has_flops = take_int(cursor, 0, 1) != 0;
    summary->host = take_string(cursor);
    summary->job = take_string(cursor);
    summary->job_log = take_string(cursor);
    summary->why = take_string(cursor);
    summary->version = take_string(cursor);
}

static int take_run(struct cache_cursor *cursor, struct board_run *run) {
    OWNED char *path = take_string(cursor);
    bool is_same = path && strcmp(path, run->path) == 0;
    if (!is_same || take_int(cursor, 0, 1) != run->is_events)
        return -1;
    take_files(cursor, run);
    take_groups(cursor, run);
    take_tags(cursor, run);
    take_marks(cursor, run);
    take_summary(cursor, &run->summary);
    run->line_count = take_int(cursor, 0, INT64_MAX);
    run->bad_lines = take_int(cursor, 0, INT64_MAX);
    run->refilled_bytes = (uint64_t)take_int(cursor, 0, INT64_MAX);
    return cursor->has_failed || cursor->left > 0 ? -1 : 0;
}

int run_cache_read(struct board_run *run, const char *bytes, size_t size) {
    struct cache_head head;
    if (size < sizeof head)
        return -1;
    memcpy(&head, bytes, sizeof head);
    const char *body = bytes + sizeof head;
    size_t body_bytes = size - sizeof head;
    if (memcmp(head.magic, magic, sizeof magic) != 0 || head.version != CACHE_VERSION ||
        head.bin_bytes != sizeof(struct pyramid_bin) || head.cell_bytes != sizeof(struct pyramid_cell) ||
        head.mark_bytes != sizeof(struct run_mark) || head.body_bytes != body_bytes ||
        head.body_check != crc32c(body, body_bytes))
        return -1;
    struct board_run *loaded = run_new(run->path, run->name, run->is_events, run->bin_limit);
    struct cache_cursor cursor = {.at = body, .left = body_bytes};
    int result = take_run(&cursor, loaded);
    if (result == 0)
        run_adopt(run, loaded);
    run_free(loaded);
    return result;
}

char *run_cache_path(const struct board_run *run, const char *folder) {
    char digest[33];
    md5_hex(run->path, strlen(run->path), digest);
    return memory_printf("%s/%s.board", folder, digest);
}
