// Event files of TensorBoard's own writer, of PyTorch and of tensorboardX (tests/golden/make_event_files.py), whole,
// cut at every byte, and damaged; and those of ours.
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "report/board/line_reader.h"
#include "report/board/run.h"
#include "report/tensorboard.h"
#include "test.h"
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 20 };

static void read_all(struct board_run *run) {
    struct buffer scratch = {0};
    (void)run_look(run);
    while (run_read(run, CHUNK_BYTES, &scratch))
        ;
    buffer_free(&scratch);
}

static struct board_run *open_run(const char *folder, int files) {
    struct board_run *run = run_new(folder, "run", true, PYRAMID_MOST_BINS);
    for (int i = 0; i < files; i++) {
        char *path = memory_printf("%s/events.out.tfevents.1767322245.host.%d", folder, i);
        run_add_file(run, path);
        free(path);
    }
    return run;
}

// The value of a tag at a step; fails if there is none.
static double value_at(const struct board_run *run, const char *tag, int64_t step) {
    int number = run_tag_named(run, tag);
    if (number < 0 || run->tags[number].kind != RUN_TAG_CURVE)
        test_fail("there is no curve %s", tag);
    const struct pyramid *pyramid = &run->groups[run->tags[number].group].pyramid;
    for (int i = 0; i < pyramid->count; i++) {
        const struct pyramid_cell *cell = &pyramid->columns[run->tags[number].column][i];
        if (pyramid->bins[i].last.step == step)
            return cell->count > 0 ? cell->sum : (double)NAN;
    }
    test_fail("%s has no step %" PRId64, tag, step);
}

static int points_of(const struct board_run *run) {
    int points = 0;
    for (int i = 0; i < run->group_count; i++)
        points += run->groups[i].pyramid.count;
    return points;
}

struct text_search {
    const char *tag, *text;
    int found;
};

static void compare_text(void *owner, const struct event_value *value) {
    struct text_search *search = owner;
    if (value->kind == EVENT_TEXT && value->tag_bytes == strlen(search->tag) &&
        memcmp(value->tag, search->tag, value->tag_bytes) == 0)
        search->found +=
            value->text_bytes == strlen(search->text) && memcmp(value->text, search->text, value->text_bytes) == 0;
}

static bool has_text(const struct board_run *run, const char *tag, int64_t step, const char *text) {
    struct text_search search = {tag, text, 0};
    for (int i = 0; i < run->marks[RUN_MARK_TEXT].count; i++) {
        const struct run_mark *mark = &run->marks[RUN_MARK_TEXT].items[i];
        struct buffer bytes = {0};
        if (mark->step == step && run_read_bytes(run, mark->file, mark->begin, mark->bytes, &bytes) == 0)
            (void)event_read((const unsigned char *)bytes.data + EVENT_FRAME_HEAD, mark->bytes - EVENT_FRAME_BYTES,
                             compare_text, &search);
        buffer_free(&bytes);
    }
    return search.found == 1;
}

// Cuts the line at tabs.
static void split(char *line, char *fields[5]) {
    for (int i = 0; i < 5; i++) {
        fields[i] = line;
        line += strcspn(line, i < 4 ? "\t" : "");
        if (*line)
            *line++ = '\0';
    }
}

static void check_writer(const char *writer, int files) {
    char *folder = memory_printf("tests/golden/events/%s", writer);
    struct board_run *run = open_run(folder, files);
    struct buffer expected = {0};
    int scalars = 0, texts = 0;
    read_all(run);
    EXPECT_OK(file_read_all("tests/golden/events/expected.txt", 1 << 20, &expected));
    for (char *line = expected.data, *newline; (newline = strchr(line, '\n')); line = newline + 1) {
        char *fields[5];
        *newline = '\0';
        split(line, fields);
        if (strcmp(fields[0], writer) != 0)
            continue;
        int64_t step = strtoll(fields[3], NULL, 10);
        if (strcmp(fields[1], "text") == 0) {
            if (!has_text(run, fields[2], step, fields[4]))
                test_fail("%s has no text \"%s\" at %s", fields[2], fields[4], fields[3]);
            texts++;
            continue;
        }
        double value = value_at(run, fields[2], step), wanted = strtod(fields[4], NULL);
        if (isfinite(wanted) ? value != wanted : !isnan(value))
            test_fail("%s at %s is %.17g, expected %s", fields[2], fields[3], value, fields[4]);
        scalars++;
    }
    EXPECT_INT(scalars, points_of(run));
    EXPECT_INT(texts, run->marks[RUN_MARK_TEXT].count);
    EXPECT(scalars >= 20);
    EXPECT_INT(run->bad_lines, 0);
    EXPECT(run->summary.updated > 1767322245 && run->summary.started >= 1767322245);
    buffer_free(&expected);
    run_free(run);
    free(folder);
}

TEST(tensorboard) {
    check_writer("tensorboard", 2);
}

TEST(torch) {
    check_writer("torch", 1);
}

TEST(tensorboardx) {
    check_writer("tensorboardX", 1);
}

static char folder[] = "/tmp/bevatron_events_XXXXXX";
static char *file_path;

static void begin(void) {
    snprintf(folder, sizeof folder, "/tmp/bevatron_events_XXXXXX");
    EXPECT(mkdtemp(folder) != NULL);
    file_path = memory_printf("%s/events.out.tfevents.1767322245.host.0", folder);
}

static void end(void) {
    EXPECT_OK(file_remove_tree(folder));
    free(file_path);
}

static void write_file(const char *mode, const void *bytes, size_t size) {
    FILE *file = fopen(file_path, mode);
    EXPECT(file != NULL);
    EXPECT(fwrite(bytes, 1, size, file) == size);
    EXPECT(fclose(file) == 0);
}

// A file that is cut at any byte has the points before the cut; when the rest comes, it has all.
TEST(cut_at_every_byte) {
    struct buffer whole = {0};
    begin();
    EXPECT_OK(file_read_all("tests/golden/events/tensorboardX/events.out.tfevents.1767322245.host.0", 1 << 20, &whole));
    int before = 0;
    for (size_t cut = 0; cut <= whole.length; cut++) {
        struct board_run *run = open_run(folder, 1);
        write_file("w", whole.data, cut);
        read_all(run);
        int points = points_of(run);
        EXPECT(points == before || points == before + 1);
        EXPECT_INT(run->bad_lines, 0);
        before = points;
        if (cut % 7 == 0) {
            write_file("a", whole.data + cut, whole.length - cut);
            read_all(run);
            EXPECT_INT(points_of(run), 20);
            EXPECT_INT(run->bad_lines, 0);
        }
        run_free(run);
    }
    EXPECT_INT(before, 20);
    buffer_free(&whole);
    end();
}

// A damaged event is skipped; a damaged length ends the file. No damage is more than that.
TEST(damaged) {
    struct buffer whole = {0};
    begin();
    EXPECT_OK(file_read_all("tests/golden/events/tensorboardX/events.out.tfevents.1767322245.host.0", 1 << 20, &whole));
    for (size_t i = 0; i < whole.length; i++) {
        struct board_run *run = open_run(folder, 1);
        whole.data[i] ^= (char)(1 << i % 8);
        write_file("w", whole.data, whole.length);
        whole.data[i] ^= (char)(1 << i % 8);
        read_all(run);
        EXPECT_INT(run->bad_lines, 1);
        EXPECT(points_of(run) < 20 || !run->files[0].is_lost || i > whole.length - 100);
        EXPECT(run->files[0].is_lost || points_of(run) >= 19);
        run_free(run);
    }
    buffer_free(&whole);
    end();
}

static void append_record(struct buffer *out, const void *event, uint64_t length) {
    uint32_t check = crc32c_masked(&length, 8);
    buffer_append(out, &length, 8);
    buffer_append(out, &check, 4);
    buffer_append(out, event, length);
    check = crc32c_masked(event, length);
    buffer_append(out, &check, 4);
}

// A summary of one scalar at step 1 whose tag begins as another one, "good", and has zeros inside.
static const char zeros_inside[] = "\x10\x01\x2a\x14\x0a\x12\x0a\x0bgood\0\0\0evil\x15\0\0\x80\x3f";

TEST(hostile_events) {
    static const char *const bad[] = {
        "\x0a", "\x0a\x05x", "\x00", "\x2b", "\x2a\x03\x0a\x7f\x01", "\x2a\x04\x0a\x02\x42\x7f"};
    struct buffer content = {0};
    begin();
    event_version(&content, 5);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        append_record(&content, bad[i], strlen(bad[i]));
    event_scalar(&content, (struct event_place){6, -5}, "negative", 1);
    event_scalar(&content, (struct event_place){6, INT64_MAX}, "huge", 1);
    event_scalar(&content, (struct event_place){(double)NAN, 1}, "no time", 1);
    event_scalar(&content, (struct event_place){6, 1}, "", 1);
    event_scalar(&content, (struct event_place){6, 1}, "\xff\xfe", 1);
    event_scalar(&content, (struct event_place){6, 1}, "not finite", (double)NAN);
    event_scalar(&content, (struct event_place){6, 1}, "good", 2);
    append_record(&content, zeros_inside, sizeof zeros_inside - 1);
    // A text where a curve was, and the other way round.
    event_text(&content, (struct event_place){6, 2}, "good", "text");
    event_text(&content, (struct event_place){6, 2}, "words", "text");
    event_scalar(&content, (struct event_place){6, 3}, "words", 2);
    write_file("w", content.data, content.length);
    struct board_run *run = open_run(folder, 1);
    read_all(run);
    EXPECT_INT(run->bad_lines, 5);
    EXPECT_INT(run->files[0].offset, content.length);
    EXPECT_NEAR(value_at(run, "good", 1), 2, 0);
    EXPECT(isnan(value_at(run, "not finite", 1)));
    EXPECT_INT(points_of(run), 3);
    EXPECT_INT(run->marks[RUN_MARK_TEXT].count, 1);
    run_free(run);
    buffer_free(&content);
    end();
}

// A writer that goes back starts its curve over from there, those of other tags stay; equal steps are kept.
TEST(going_back) {
    struct buffer content = {0};
    begin();
    for (int64_t step = 1; step <= 100; step++) {
        event_scalar(&content, (struct event_place){(double)step, step}, "a", (double)step);
        event_scalar(&content, (struct event_place){(double)step, step * 512}, "a vs samples", (double)step);
    }
    for (int64_t step = 60; step <= 70; step++)
        event_scalar(&content, (struct event_place){(double)(100 + step), step}, "a", -(double)step);
    event_scalar(&content, (struct event_place){500, 70}, "a", 7);
    write_file("w", content.data, content.length);
    for (int limit = 64; limit <= PYRAMID_MOST_BINS; limit *= 64) {
        struct board_run *run = run_new(folder, "run", true, limit);
        run_add_file(run, file_path);
        read_all(run);
        const struct pyramid *pyramid = &run->groups[0].pyramid;
        double sum = 0;
        uint32_t count = 0;
        for (int i = 0; i < pyramid->count; i++) {
            sum += pyramid->columns[0][i].sum;
            count += pyramid->columns[0][i].count;
        }
        EXPECT_INT(count, 59 + 11 + 1);
        EXPECT_NEAR(sum, 59 * 60 / 2 - 65 * 11 + 7, 0);
        EXPECT_INT(pyramid_last_step(pyramid), 70);
        EXPECT_INT(pyramid_last_step(&run->groups[1].pyramid), 51200);
        run_free(run);
    }
    buffer_free(&content);
    end();
}

TEST_MAIN(TEST_CASE(tensorboard), TEST_CASE(torch), TEST_CASE(tensorboardx), TEST_CASE(cut_at_every_byte),
          TEST_CASE(damaged), TEST_CASE(hostile_events), TEST_CASE(going_back))
