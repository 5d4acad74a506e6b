// Offline runs of Weights & Biases, read back by a small reader that follows LevelDB's description of its log and the
// wire format of protocol buffers. `test_report_wandb write FOLDER` leaves a run for tests/peers/wandb_peers.py, which
// reads it with wandb's own library.
#include "report/tensorboard.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "test.h"
#include <glob.h>
#include <unistd.h>

static char folder[64];

static void begin(void) {
    log_set_level(LOG_ERROR);
    snprintf(folder, sizeof folder, "/tmp/bevatron_wandb_XXXXXX");
    EXPECT(mkdtemp(folder) != NULL);
}

static void end(void) {
    EXPECT_OK(file_remove_tree(folder));
}

// ---- the reader ----

struct log_reader {
    struct buffer file, record;
    size_t at;
};

static void open_log(struct log_reader *reader) {
    char pattern[128];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/wandb/offline-run-[0-9]*_[0-9]*-*/run-*.wandb", folder);
    EXPECT_INT(glob(pattern, 0, NULL, &found), 0);
    EXPECT_INT(found.gl_pathc, 1);
    *reader = (struct log_reader){.at = 7};
    EXPECT_OK(file_read_all(found.gl_pathv[0], 1 << 26, &reader->file));
    // The folder and the file have the same id.
    const char *path = found.gl_pathv[0], *id = strrchr(path, '/') + strlen("/run-");
    EXPECT(strncmp(strstr(path, "-run-") + strlen("-run-YYYYmmdd_HHMMSS-"), id, 8) == 0);
    globfree(&found);
    EXPECT(memcmp(reader->file.data, ":W&B\xe1\xbe\0", 7) == 0);
}

static void close_log(struct log_reader *reader) {
    EXPECT_INT(reader->at, reader->file.length);
    buffer_free(&reader->file);
    buffer_free(&reader->record);
}

static uint32_t little(const unsigned char *bytes, int count) {
    uint32_t value = 0;
    for (int i = count - 1; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

// The next record; false at the end of the file.
static bool next_record(struct log_reader *reader) {
    buffer_clear(&reader->record);
    for (int part = 0;; part++) {
        size_t left = 32768 - reader->at % 32768;
        if (left < 7) {
            for (size_t i = 0; i < left; i++)
                EXPECT_INT(reader->file.data[reader->at + i], 0);
            reader->at += left;
        }
        if (reader->at == reader->file.length)
            return false;
        const unsigned char *frame = (const unsigned char *)reader->file.data + reader->at;
        uint32_t length = little(frame + 4, 2), type = frame[6];
        EXPECT(reader->at + 7 + length <= reader->file.length && 7 + length <= 32768 - reader->at % 32768);
        char *checked = malloc(length + 1);
        memcpy(checked, frame + 6, 1);
        memcpy(checked + 1, frame + 7, length);
        uint32_t check = crc32_ieee(checked, length + 1);
        free(checked);
        EXPECT_INT(little(frame, 4), check);
        EXPECT(part == 0 ? type == 1 || type == 2 : type == 3 || type == 4);
        buffer_append(&reader->record, frame + 7, length);
        reader->at += 7 + length;
        if (type == 1 || type == 4)
            return true;
    }
}

struct read_field {
    uint64_t number, value;     // value: of a varint
    const unsigned char *data;  // of bytes
    size_t length;
};

static uint64_t get_varint(const unsigned char **at) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        unsigned char byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
}

static bool next_field(const unsigned char **at, const unsigned char *end, struct read_field *field) {
    if (*at >= end)
        return false;
    uint64_t key = get_varint(at);
    *field = (struct read_field){.number = key >> 3};
    EXPECT((key & 7) == 0 || (key & 7) == 2);
    field->value = get_varint(at);
    if ((key & 7) == 2) {
        field->data = *at;
        field->length = (size_t)field->value;
        *at += field->length;
    }
    EXPECT(*at <= end);
    return true;
}

// The last field of this number in a message.
static struct read_field find(const unsigned char *data, size_t length, uint64_t number) {
    struct read_field field, found = {0};
    for (const unsigned char *at = data; next_field(&at, data + length, &field);)
        if (field.number == number)
            found = field;
    return found;
}

// The value of the item with this key, "" if there is none. The last one counts.
static const char *item(const struct read_field *message, const char *key) {
    static char value[256];
    struct read_field field;
    value[0] = '\0';
    for (const unsigned char *at = message->data; next_field(&at, message->data + message->length, &field);) {
        if (field.number != 1)
            continue;
        struct read_field name = find(field.data, field.length, 1), json = find(field.data, field.length, 16);
        if (name.length == strlen(key) && memcmp(name.data, key, name.length) == 0)
            snprintf(value, sizeof value, "%.*s", (int)json.length, (const char *)json.data);
    }
    return value;
}

// The next record, whose only content must be in this field.
static struct read_field expect_record(struct log_reader *reader, uint64_t field, uint64_t number) {
    EXPECT(next_record(reader));
    const unsigned char *data = (const unsigned char *)reader->record.data;
    EXPECT_INT(find(data, reader->record.length, 1).value, number);
    struct read_field found = find(data, reader->record.length, field);
    if (!found.data)
        test_fail("record %d is not of kind %d", (int)number, (int)field);
    return found;
}

static bool is_text(const struct read_field *message, uint64_t number, const char *text) {
    struct read_field field = find(message->data, message->length, number);
    return field.length == strlen(text) && (field.length == 0 || memcmp(field.data, text, field.length) == 0);
}

// ---- the runs ----

static struct metrics at(int64_t iteration) {
    return (struct metrics){.iteration = iteration,
                            .consumed_samples = 8 * iteration,
                            .losses = {{"lm loss", 10.0 / (double)iteration}},
                            .loss_count = 1,
                            .learning_rate = 1e-3 * (double)iteration,
                            .global_batch_size = 8,
                            .elapsed_ms = 250,
                            .loss_scale = 1,
                            .grad_norm = iteration == 2 ? (double)NAN : 2,
                            .has_grad_norm = true};
}

static void write_run(const char *where) {
    struct wandb *wandb = NULL;
    struct wandb_options options = {.folder = where,
                                    .project = "my project",
                                    .name = "a name",
                                    .entity = "team",
                                    .choice = {.timers = true, .validation_ppl = true}};
    CHECK(wandb_open(&wandb, &options) == 0);
    wandb_run(wandb, &(struct metrics_start){
                         .config_json = "{\"lr\": 1.5e-4, \"save\": null, \"bf16\": true, \"split\": [\"a\", 1]}"});
    for (int64_t i = 1; i <= 4; i++) {
        struct metrics m = at(i);
        wandb_train(wandb, &m);
        if (i % 2 == 0)
            wandb_interval(wandb, &m);
        struct metrics_eval eval = {.iteration = i, .set = "validation", .losses = {{"lm loss", 2}}, .loss_count = 1};
        if (i == 2)
            wandb_eval(wandb, &eval);
    }
    wandb_event(wandb, &(struct metrics_event){.name = "saved"});
    wandb_event(wandb, &(struct metrics_event){.name = "failed", .exit_code = 213});
    wandb_event(wandb, &(struct metrics_event){.name = "finished"});
    wandb_close(wandb);
}

TEST(records) {
    begin();
    write_run(folder);
    struct log_reader reader;
    open_log(&reader);
    struct read_field record = expect_record(&reader, 21, 1);
    record = expect_record(&reader, 17, 2);
    EXPECT(is_text(&record, 2, "team") && is_text(&record, 3, "my project") && is_text(&record, 8, "a name"));
    EXPECT_INT(find(record.data, record.length, 1).length, 8);
    struct read_field config = find(record.data, record.length, 4), start = find(record.data, record.length, 17);
    EXPECT_STRING(item(&config, "lr"), "1.5e-4");
    EXPECT_STRING(item(&config, "save"), "null");
    EXPECT_STRING(item(&config, "split"), "[\"a\",1]");
    EXPECT(find(start.data, start.length, 1).value > 1700000000);
    for (int64_t i = 1, number = 3; i <= 4; i++, number++) {
        // The summary of iteration 1 was written at the interval of iteration 2, before its row was complete.
        if (i == 2 || i == 4) {
            record = expect_record(&reader, 3, (uint64_t)number++);
            EXPECT_STRING(item(&record, "_step"), i == 2 ? "1" : "3");
            EXPECT_STRING(item(&record, "lm loss validation"), i == 2 ? "" : "2");
        }
        record = expect_record(&reader, 2, (uint64_t)number);
        char step[8], samples[8];
        snprintf(step, sizeof step, "%d", (int)i);
        snprintf(samples, sizeof samples, "%d", 8 * (int)i);
        struct read_field row = find(record.data, record.length, 2);
        EXPECT_INT(find(row.data, row.length, 1).value, i);
        EXPECT_STRING(item(&record, "_step"), step);
        EXPECT_STRING(item(&record, "samples vs steps"), samples);
        EXPECT_NEAR(strtod(item(&record, "lm loss"), NULL), 10.0 / (double)i, 1e-12);
        EXPECT_STRING(item(&record, "grad-norm"), i == 2 ? "NaN" : "2");
        EXPECT_STRING(item(&record, "iteration-time"), i % 2 ? "" : "0.25");
        EXPECT_STRING(item(&record, "lm loss validation"), i == 2 ? "2" : "");
    }
    record = expect_record(&reader, 3, 9);
    EXPECT_STRING(item(&record, "_step"), "4");
    record = expect_record(&reader, 18, 10);
    EXPECT_INT(find(record.data, record.length, 1).value, 213);
    (void)next_record(&reader);
    EXPECT(!next_record(&reader));
    close_log(&reader);
    end();
}

// Records of every length around the ends of blocks, and over several blocks.
TEST(blocks) {
    begin();
    struct wandb *wandb = NULL;
    EXPECT_OK(wandb_open(&wandb, &(struct wandb_options){.folder = folder, .project = "p", .name = "n"}));
    struct buffer config = {0};
    buffer_printf(&config, "{\"long\": \"%0*d\"}", 100000, 0);
    wandb_run(wandb, &(struct metrics_start){.iteration = 7, .config_json = config.data});
    buffer_free(&config);
    enum { ROWS = 1500 };
    for (int64_t i = 1; i <= ROWS; i++) {
        struct metrics m = at(i);
        m.loss_count = 0;
        m.learning_rate = 1;
        wandb_train(wandb, &m);
    }
    wandb_close(wandb);
    struct log_reader reader;
    open_log(&reader);
    EXPECT(next_record(&reader) && next_record(&reader));
    EXPECT(reader.record.length > 100000);
    int64_t rows = 0;
    while (next_record(&reader)) {
        struct read_field row = find((const unsigned char *)reader.record.data, reader.record.length, 2);
        if (row.data) {
            struct read_field step = find(row.data, row.length, 2);
            EXPECT_INT(find(step.data, step.length, 1).value, ++rows);
        }
    }
    EXPECT_INT(rows, ROWS);
    close_log(&reader);
    end();
}

TEST(refusals) {
    begin();
    struct wandb *wandb = NULL;
    EXPECT_ERROR(wandb_open(&wandb, &(struct wandb_options){.folder = "/proc/nothing", .project = "p"}), "/proc");
    EXPECT(wandb == NULL);
    wandb_close(NULL);
    end();
}

int main(int argc, char **argv) {
    static const struct test_case cases[] = {TEST_CASE(records), TEST_CASE(blocks), TEST_CASE(refusals)};
    if (argc == 3 && strcmp(argv[1], "write") == 0) {
        write_run(argv[2]);
        return 0;
    }
    return test_main(cases, sizeof cases / sizeof cases[0]);
}
