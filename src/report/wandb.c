// The transaction log of an offline run of Weights & Biases. See tensorboard.h.
//
// The file begins with ":W&B", 0xBEE1 (u16) and a version, 0. Records follow as in LevelDB's log, in blocks of 32 KiB:
// a record, or the part of it that a block has room for, is preceded by the CRC-32 of its type and bytes (u32), its
// length (u16) and its type (whole, first, middle, last); fewer than 7 bytes at the end of a block are zeros. Each
// record is a protocol-buffer message, wandb_internal.Record:
//
//   Record   1 num · 2 history · 3 summary · 17 run · 18 exit · 21 header · 22 footer
//   History  1 item Item, repeated · 2 step { 1 num }
//   Summary  1 update Item, repeated
//   Run      1 run_id · 2 entity · 3 project · 4 config { 1 update Item } · 8 display_name · 13 host · 17 start_time
//   Exit     1 exit_code · 2 runtime
//   Item     1 key · 16 value_json
//
// Values of one iteration make one history record, which is written when the next iteration begins.
#include "report/tensorboard.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/process.h"
#include "report/appender.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK_BYTES = 32768, FRAME_BYTES = 7, ID_LENGTH = 8, MOST_NEWS = 1 << 16 };
enum wandb_frame { FRAME_WHOLE = 1, FRAME_FIRST, FRAME_MIDDLE, FRAME_LAST };
enum {
    RECORD_HISTORY = 2,
    RECORD_SUMMARY = 3,
    RECORD_RUN = 17,
    RECORD_EXIT = 18,
    RECORD_HEADER = 21,
    RECORD_FOOTER = 22
};

struct wandb {
    struct appender file;
    struct wandb_options options;
    char id[ID_LENGTH + 1];
    uint64_t bytes;   // of the file so far
    int64_t records;  // so far
    double started;
    int64_t step;        // of the row that is being collected, -1 for none
    struct buffer row;   // its items, as fields of a history record
    struct buffer news;  // the items of rows since the last summary record, as its fields
    bool has_ended;
};

// ---- the log ----

static void put_frame(struct buffer *out, enum wandb_frame type, const char *bytes, size_t length) {
    OWNED_BY(buffer_free) struct buffer checked = {0};
    buffer_append_byte(&checked, (char)type);
    buffer_append(&checked, bytes, length);
    uint32_t check = crc32_ieee(checked.data, checked.length);
    for (int i = 0; i < 4; i++)
        buffer_append_byte(out, (char)(check >> 8 * i));
    buffer_append_byte(out, (char)(length & 255));
    buffer_append_byte(out, (char)(length >> 8));
    buffer_append_byte(out, (char)type);
    buffer_append(out, bytes, length);
}

// Frames a record that begins at this offset of the file.
static void put_record(struct buffer *out, uint64_t offset, const struct buffer *record) {
    size_t room = BLOCK_BYTES - (size_t)(offset % BLOCK_BYTES), done = 0;
    if (room < FRAME_BYTES) {
        for (; room > 0; room--)
            buffer_append_byte(out, 0);
        room = BLOCK_BYTES;
    }
    // A block with room for only a frame gets a first part without bytes.
    for (bool is_first = true, is_last = false; !is_last; is_first = false) {
        size_t left = record->length - done, length = room - FRAME_BYTES < left ? room - FRAME_BYTES : left;
        is_last = length == left;
        enum wandb_frame type = is_first && is_last ? FRAME_WHOLE
                                : is_first          ? FRAME_FIRST
                                : is_last           ? FRAME_LAST
                                                    : FRAME_MIDDLE;
        put_frame(out, type, buffer_string(record) + done, length);
        done += length;
        room = BLOCK_BYTES;
    }
}

// Writes a record with this one field, and frees the message.
static void write_record(struct wandb *wandb, uint32_t field, struct buffer *message) {
    OWNED_BY(buffer_free) struct buffer record = {0}, out = {0};
    protobuf_int(&record, 1, ++wandb->records);
    protobuf_message(&record, field, message);
    put_record(&out, wandb->bytes, &record);
    if (appender_write(&wandb->file, out.data, out.length))
        wandb->bytes += out.length;
}

// ---- values ----

static void put_item(struct buffer *out, const char *key, const char *value_json, size_t length) {
    struct buffer item = {0};
    protobuf_string(&item, 1, key);
    protobuf_bytes(&item, 16, value_json, length);
    protobuf_message(out, 1, &item);
}

// Written like Python's json: its readers accept NaN and Infinity as numbers.
static void put_number(struct buffer *out, const char *key, double value) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    struct json_writer json = {.out = &text};
    if (isfinite(value))
        json_double(&json, value);
    else
        buffer_append_string(&text, isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
    put_item(out, key, text.data, text.length);
}

// The latest value of each name. Of equal names the last one wins.
static void write_summary(struct wandb *wandb) {
    if (wandb->news.length > 0)
        write_record(wandb, RECORD_SUMMARY, &wandb->news);
}

static void write_row(struct wandb *wandb) {
    if (wandb->step < 0)
        return;
    double now = clock_wall_seconds();
    struct buffer step = {0};
    put_number(&wandb->row, "_step", (double)wandb->step);
    put_number(&wandb->row, "_timestamp", now);
    put_number(&wandb->row, "_runtime", now - wandb->started);
    buffer_append(&wandb->news, wandb->row.data, wandb->row.length);
    protobuf_int(&step, 1, wandb->step);
    protobuf_message(&wandb->row, 2, &step);
    write_record(wandb, RECORD_HISTORY, &wandb->row);
    wandb->step = -1;
    if (wandb->news.length > MOST_NEWS)
        write_summary(wandb);
}

// The row for values of this iteration. Rows only move forward.
static struct buffer *row_of(struct wandb *wandb, int64_t iteration) {
    if (wandb->step >= 0 && wandb->step != iteration)
        write_row(wandb);
    wandb->step = iteration;
    return &wandb->row;
}

// ---- the run ----

static void choose_id(char id[ID_LENGTH + 1]) {
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    unsigned char random[ID_LENGTH];
    if (getrandom(random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random) {
        uint64_t mixed[2] = {(uint64_t)(clock_wall_seconds() * 1e6), (uint64_t)getpid()};
        mixed[0] = hash_bytes(mixed, sizeof mixed, 0);
        memcpy(random, mixed, sizeof random);
    }
    for (int i = 0; i < ID_LENGTH; i++)
        id[i] = letters[random[i] % (sizeof letters - 1)];
    id[ID_LENGTH] = '\0';
}

// FOLDER/wandb/offline-run-YYYYMMDD_HHMMSS-ID, with the folder of files that wandb expects; NULL after an error.
static char *make_folder(const struct wandb *wandb) {
    char stamp[32];
    time_t now = (time_t)wandb->started;
    struct tm parts;
    localtime_r(&now, &parts);
    strftime(stamp, sizeof stamp, "%Y%m%d_%H%M%S", &parts);
    char *path = memory_printf("%s/wandb/offline-run-%s-%s", wandb->options.folder, stamp, wandb->id);
    OWNED char *files = file_join(path, "files");
    int status = file_make_folders(files);
    if (status == 0)
        return path;
    free(path);
    return NULL;
}

int wandb_open(struct wandb **opened, const struct wandb_options *options) {
    static const char header[FRAME_BYTES] = {':', 'W', '&', 'B', (char)0xe1, (char)0xbe, 0};
    struct wandb *wandb = memory_alloc(sizeof *wandb);
    *opened = NULL;
    wandb->options = *options;
    wandb->started = clock_wall_seconds();
    wandb->step = -1;
    choose_id(wandb->id);
    char *folder = make_folder(wandb), *path = folder ? memory_printf("%s/run-%s.wandb", folder, wandb->id) : NULL;
    int status = path ? appender_open(&wandb->file, path, "records for wandb", APPENDER_NEW) : -1;
    free(folder);
    free(path);
    if (status == 0 && !appender_write(&wandb->file, header, sizeof header))
        status = error_set("cannot write to %s", wandb->file.path);
    if (status < 0) {
        appender_close(&wandb->file);
        free(wandb);
        return -1;
    }
    wandb->bytes = sizeof header;
    struct buffer version = {0}, message = {0};
    protobuf_string(&version, 1, "bevatron " BEVATRON_VERSION);
    protobuf_message(&message, 1, &version);
    write_record(wandb, RECORD_HEADER, &message);
    *opened = wandb;
    return 0;
}

static void put_config(struct buffer *run, const char *config_json) {
    OWNED struct json *root = NULL;
    if (!config_json || json_parse(&root, config_json, strlen(config_json), "config") < 0)
        return;
    struct buffer config = {0}, text = {0};
    for (size_t i = 0; root->type == JSON_OBJECT && i < root->count; i++) {
        struct json_writer json = {.out = &text};
        buffer_clear(&text);
        json_value(&json, &root->items[i]);
        put_item(&config, root->keys[i].string, text.data, text.length);
    }
    protobuf_message(run, 4, &config);
    buffer_free(&text);
}

void wandb_run(void *sink, const struct metrics_start *start) {
    struct wandb *wandb = sink;
    const struct wandb_options *options = &wandb->options;
    char host[256];
    process_host(host, sizeof host);
    struct buffer run = {0}, time = {0};
    protobuf_string(&run, 1, wandb->id);
    if (options->entity)
        protobuf_string(&run, 2, options->entity);
    protobuf_string(&run, 3, options->project);
    put_config(&run, start->config_json);
    if (options->name)
        protobuf_string(&run, 8, options->name);
    protobuf_string(&run, 13, host);
    if (start->iteration > 0)
        protobuf_int(&run, 14, start->iteration);
    double seconds = floor(wandb->started);
    protobuf_int(&time, 1, (int64_t)seconds);
    protobuf_int(&time, 2, (int64_t)((wandb->started - seconds) * 1e9));
    protobuf_message(&run, 17, &time);
    write_record(wandb, RECORD_RUN, &run);
}

static void put(void *row, const char *tag, double value, bool is_iterations_only) {
    (void)is_iterations_only;
    put_number(row, tag, value);
}

void wandb_train(void *sink, const struct metrics *m) {
    struct wandb *wandb = sink;
    struct buffer *row = row_of(wandb, m->iteration);
    put_number(row, "samples vs steps", (double)m->consumed_samples);
    metrics_each_tag(m, &wandb->options.choice, false, &(struct metrics_taker){put, row});
}

void wandb_interval(void *sink, const struct metrics *m) {
    struct wandb *wandb = sink;
    if (wandb->options.choice.timers)
        metrics_each_tag(m, &wandb->options.choice, true, &(struct metrics_taker){put, row_of(wandb, m->iteration)});
    write_summary(wandb);
}

void wandb_eval(void *sink, const struct metrics_eval *eval) {
    struct wandb *wandb = sink;
    struct buffer *row = row_of(wandb, eval->iteration);
    metrics_each_eval_tag(eval, &wandb->options.choice, &(struct metrics_taker){put, row});
}

void wandb_event(void *sink, const struct metrics_event *event) {
    struct wandb *wandb = sink;
    struct buffer message = {0}, footer = {0};
    if (wandb->has_ended || !metrics_event_is_end(event->name))
        return;
    wandb->has_ended = true;
    write_row(wandb);
    write_summary(wandb);
    if (event->exit_code != 0)
        protobuf_int(&message, 1, event->exit_code);
    protobuf_int(&message, 2, (int64_t)(clock_wall_seconds() - wandb->started));
    write_record(wandb, RECORD_EXIT, &message);
    write_record(wandb, RECORD_FOOTER, &footer);
}

void wandb_close(void *sink) {
    OWNED struct wandb *wandb = sink;
    if (!wandb)
        return;
    if (!wandb->has_ended)
        write_row(wandb);
    appender_close(&wandb->file);
    buffer_free(&wandb->row);
    buffer_free(&wandb->news);
}
