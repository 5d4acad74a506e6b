// Traces: what is written is JSON with spans that contain each other or are apart, whatever they are called; files that
// were cut or damaged are merged as far as they are whole; clocks that differ or drift are put right.
#include "../base/capture.h"
#include "base/file.h"
#include "base/json.h"
#include "data/extract/reader.h"
#include "report/trace_file.h"
#include "test.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static char folder[64];

static void begin(void) {
    snprintf(folder, sizeof folder, "/tmp/bevatron_trace_XXXXXX");
    EXPECT(mkdtemp(folder) != NULL);
}

static void end(void) {
    EXPECT_OK(file_remove_tree(folder));
}

static struct trace_place place_of(int rank) {
    return (struct trace_place){.rank = rank, .host = "a", .layout = "data 0", .origin = 1000};
}

static struct trace_event span(const char *name, double start_us, double end_us, enum trace_track track) {
    return (struct trace_event){.name = name,
                                .start = 1000 + start_us * 1e-6,
                                .end = 1000 + end_us * 1e-6,
                                .iteration = 3,
                                .micro_batch = -1,
                                .chunk = -1,
                                .track = (uint8_t)track};
}

static struct trace_event collective(const char *group, double start_us, double end_us) {
    struct trace_event event = span("gradients", start_us, end_us, TRACK_COLLECTIVES);
    event.group = group;
    event.how = "all_reduce";
    event.bytes = 4096;
    event.kind = TRACE_COMMUNICATION;
    return event;
}

// Merges the files of so many ranks, and parses the result. To be freed with json_free.
static struct json *merge(int count, struct trace_merge *merge) {
    static const int ranks[] = {0, 1, 2, 3};
    *merge = (struct trace_merge){.folder = folder, .ranks = ranks, .count = count};
    EXPECT_OK(trace_merge(merge));
    struct reader *reader;
    struct buffer text = {0};
    char block[4096];
    EXPECT_OK(reader_open(&reader, merge->path));
    for (int64_t got; (got = reader_read(reader, block, sizeof block)) > 0;)
        buffer_append(&text, block, (size_t)got);
    reader_close(reader);
    struct json *root = NULL;
    EXPECT_OK(json_parse(&root, text.data, text.length, "merged"));
    buffer_free(&text);
    free(merge->path);
    const struct json *events = json_member(root, "traceEvents");
    EXPECT(events && events->type == JSON_ARRAY);
    EXPECT_INT(events->count, merge->events);
    return root;
}

static double number(const struct json *event, const char *key) {
    const struct json *member = json_member(event, key);
    return member && member->type == JSON_NUMBER ? member->number : NAN;
}

// The event of this name and rank, the nth of them; NULL if there is none.
static const struct json *find(const struct json *root, const char *name, int rank, int nth) {
    const struct json *events = json_member(root, "traceEvents");
    for (size_t i = 0; i < events->count; i++) {
        const struct json *member = json_member(&events->items[i], "name");
        if (member && strcmp(member->string, name) == 0 && number(&events->items[i], "pid") == rank && nth-- == 0)
            return &events->items[i];
    }
    return NULL;
}

static void expect_span(const struct json *event, double ts, double dur) {
    EXPECT(event != NULL);
    EXPECT_NEAR(number(event, "ts"), ts, 1e-9);
    EXPECT_NEAR(number(event, "dur"), dur, 1e-9);
}

TEST(spans_are_written_and_merged) {
    struct trace_file file;
    struct trace_merge merged;
    begin();
    for (int rank = 0; rank < 2; rank++) {
        struct trace_place place = place_of(rank);
        EXPECT_OK(trace_file_open(&file, folder, &place));
        struct trace_event inner = span("gradients", 20, 30, TRACK_HOST), outer = span("forward", 10, 40, TRACK_HOST);
        struct trace_event iteration = span("iteration", 5, 50, TRACK_ITERATIONS);
        inner.kind = TRACE_IDLE;
        outer.micro_batch = 2;
        iteration.kind = TRACE_ITERATION;
        trace_file_add(&file, &inner);  // they end in this order
        trace_file_add(&file, &outer);
        trace_file_add(&file, &iteration);
        trace_file_close(&file);
    }
    struct json *root = merge(2, &merged);
    EXPECT_INT(merged.missing + merged.bad_lines, 0);
    for (int rank = 0; rank < 2; rank++) {
        expect_span(find(root, "wait: gradients", rank, 0), 20, 10);
        expect_span(find(root, "forward", rank, 0), 10, 30);
        expect_span(find(root, "iteration 3", rank, 0), 5, 45);
        EXPECT_INT(number(json_member(find(root, "forward", rank, 0), "args"), "micro_batch"), 2);
    }
    const char *name;
    EXPECT_OK(json_get_string(json_member(find(root, "process_name", 1, 0), "args"), "name", &name));
    EXPECT_STRING(name, "rank 1 on a: data 0");
    json_free(root);
    char *left = trace_file_path(folder, 0);
    EXPECT(!file_exists(left));
    free(left);
    end();
}

// Collectives of one group may be on their way at the same time: each then has a track of its own.
TEST(overlapping_collectives_get_tracks) {
    struct trace_file file;
    struct trace_merge merged;
    struct trace_place place = place_of(0);
    begin();
    EXPECT_OK(trace_file_open(&file, folder, &place));
    struct trace_event events[] = {collective("data", 10, 40), collective("data", 20, 30), collective("tensor", 15, 35),
                                   collective("data", 41, 50)};
    for (size_t i = 0; i < 4; i++)
        trace_file_add(&file, &events[3 - i]);
    trace_file_close(&file);
    struct json *root = merge(1, &merged);
    double tracks[4];
    for (int i = 0; i < 4; i++)
        tracks[i] = number(find(root, "gradients", 0, i), "tid");
    EXPECT(tracks[0] != tracks[1] && tracks[0] != tracks[2] && tracks[1] != tracks[2]);
    EXPECT(tracks[3] == tracks[0]);
    const struct json *first = json_member(find(root, "gradients", 0, 0), "args");
    EXPECT_INT(number(first, "bytes"), 4096);
    const char *text;
    EXPECT_OK(json_get_string(first, "group", &text));
    EXPECT_STRING(text, "data");
    EXPECT_OK(json_get_string(first, "collective", &text));
    EXPECT_STRING(text, "all_reduce");
    json_free(root);
    end();
}

TEST(a_device_is_idle_between_its_items) {
    struct trace_file file;
    struct trace_merge merged;
    struct trace_place place = place_of(0);
    place.has_device = true;
    begin();
    EXPECT_OK(trace_file_open(&file, folder, &place));
    struct trace_event a = span("forward", 10, 20, TRACK_DEVICE), b = span("backward", 20, 30, TRACK_DEVICE),
                       c = span("update", 45, 50, TRACK_DEVICE), wait = span("gradients", 46, 48, TRACK_DEVICE);
    wait.kind = TRACE_IDLE;
    wait.is_inner = true;
    trace_file_add(&file, &a);
    trace_file_add(&file, &b);
    trace_file_flush(&file);
    trace_file_add(&file, &wait);
    trace_file_add(&file, &c);
    trace_file_close(&file);
    struct json *root = merge(1, &merged);
    expect_span(find(root, "wait: work", 0, 0), 30, 15);
    EXPECT(!find(root, "wait: work", 0, 1));
    expect_span(find(root, "wait: gradients", 0, 0), 46, 2);
    json_free(root);
    end();
}

// Names of machines and groups are not ours.
TEST(hostile_names) {
    static const char *const names[] = {
        "\"},{\"ph\":\"X\"", "a\nb\r\n],[", "\x01\x1f\x7f", "\xff\xfe not UTF-8 \xc3", "</script><b>", "\\", "", "%s%n",
        "\xe2\x80\xa8"};
    struct trace_file file;
    struct trace_merge merged;
    begin();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct trace_place place = place_of(0);
        place.host = place.layout = names[i];
        EXPECT_OK(trace_file_open(&file, folder, &place));
        struct trace_event event = collective(names[i], 1, 2);
        event.name = names[i];
        trace_file_add(&file, &event);
        event.kind = TRACE_IDLE;
        event.track = TRACK_HOST;
        event.group = NULL;
        trace_file_add(&file, &event);
        trace_file_close(&file);
        struct json *root = merge(1, &merged);
        EXPECT_INT(merged.bad_lines, 0);
        size_t spans = 0;
        const struct json *events = json_member(root, "traceEvents");
        for (size_t k = 0; k < events->count; k++)
            spans += isnan(number(&events->items[k], "dur")) ? 0 : 1;
        EXPECT_INT(spans, 2);
        json_free(root);
    }
    end();
}

// A rank that was killed leaves a file that ends anywhere; the lines before are there.
TEST(a_file_cut_at_any_byte) {
    struct trace_file file;
    struct trace_place place = place_of(0);
    struct buffer whole = {0};
    begin();
    EXPECT_OK(trace_file_open(&file, folder, &place));
    for (int i = 0; i < 3; i++) {
        struct trace_event event = span("forward", 10 * i, 10 * i + 5, TRACK_HOST);
        trace_file_add(&file, &event);
        trace_file_flush(&file);
    }
    trace_file_close(&file);
    char *path = trace_file_path(folder, 0);
    EXPECT_OK(file_read_all(path, 1 << 20, &whole));
    for (size_t cut = 0; cut < whole.length; cut++) {
        struct trace_merge merged;
        EXPECT_OK(file_write_all(path, whole.data, cut));
        struct json *root = merge(1, &merged);
        int64_t lines = 0;
        for (size_t i = 0; i < cut; i++)
            lines += whole.data[i] == '\n';
        // The first line is "[". A line that lacks only its comma or newline is whole.
        EXPECT(merged.events == lines - 1 || merged.events == lines || (lines == 0 && merged.events == 0));
        EXPECT(merged.bad_lines <= 1);
        json_free(root);
    }
    free(path);
    buffer_free(&whole);
    end();
}

TEST(lines_that_are_no_events_are_left_out) {
    static const char *const bad[] = {"",
                                      "[",
                                      "]",
                                      "null",
                                      "{}",
                                      "{\"ph\":1}",
                                      "{\"ph\":\"X\"}",
                                      "{\"ph\":\"X\",\"ts\":\"1\",\"dur\":1}",
                                      "{\"ph\":\"X\",\"ts\":1,\"dur\":-1}",
                                      "{\"ph\":\"X\",\"ts\":1e300,\"dur\":1}",
                                      "{\"ph\":\"X\",\"ts\":1,\"dur\":1},{\"ph\":\"X\",\"ts\":1,\"dur\":1}",
                                      "{\"ph\":\"B\",\"ts\":1}",
                                      "{\"ph\":\"X\",\"ts\":1,\"dur\":1"};
    struct buffer out = {0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EXPECT(!trace_merge_line(&out, bad[i], strlen(bad[i]), 0, 0));
        EXPECT_INT(out.length, 0);
    }
    static const char good[] = "{\"ph\":\"X\",\"ts\":8.0,\"dur\":2.5,\"name\":\"a\"},";
    EXPECT(trace_merge_line(&out, good, strlen(good), 0, 0));
    EXPECT_STRING(buffer_string(&out), "{\"ph\":\"X\",\"ts\":8.000,\"dur\":2.500,\"name\":\"a\"}");
    buffer_free(&out);
}

// The second rank's clock is ahead by 5 s at the first comparison, and 100 us more at the second, a second later.
TEST(clocks_are_put_right) {
    struct trace_file file;
    struct trace_merge merged;
    begin();
    for (int rank = 0; rank < 2; rank++) {
        struct trace_place place = place_of(rank);
        double offset = rank * 5.0;
        place.origin = 1000 + offset;
        place.clock_offset = offset;
        EXPECT_OK(trace_file_open(&file, folder, &place));
        // All ranks did this half a second after the origin.
        struct trace_event event = span("forward", 500000, 500010, TRACK_HOST);
        double drift = rank * 50e-6;
        event.start += offset + drift;
        event.end += offset + drift;
        trace_file_add(&file, &event);
        trace_file_flush(&file);
        trace_file_clock(&file, 1001 + offset + rank * 100e-6, offset + rank * 100e-6, 1e-6);
        trace_file_close(&file);
    }
    struct json *root = merge(2, &merged);
    expect_span(find(root, "forward", 0, 0), 500000, 10);
    EXPECT(fabs(number(find(root, "forward", 1, 0), "ts") - 500000) < 0.5);
    json_free(root);
    end();
}

TEST(ranks_without_a_file_are_counted) {
    struct trace_file file;
    struct trace_merge merged;
    struct trace_place place = place_of(2);
    begin();
    EXPECT_OK(trace_file_open(&file, folder, &place));
    trace_file_close(&file);
    struct json *root = merge(4, &merged);
    EXPECT_INT(merged.missing, 3);
    json_free(root);
    end();
}

// Rounding must not make a span stick out of the one around it.
TEST(spans_stay_within_each_other) {
    struct trace_file file;
    struct trace_merge merged;
    struct trace_place place = place_of(0);
    begin();
    EXPECT_OK(trace_file_open(&file, folder, &place));
    for (int i = 0; i < 50; i++) {
        double start = 10.3137 * i, finish = start + 7.77;
        struct trace_event outer = span("forward", start, finish, TRACK_HOST),
                           inner = span("gradients", start + 0.01 * i, finish, TRACK_HOST);
        trace_file_add(&file, &inner);
        trace_file_add(&file, &outer);
    }
    trace_file_clock(&file, 1000.001, 3e-8, 0);
    trace_file_close(&file);
    struct json *root = merge(1, &merged);
    for (int i = 0; i < 50; i++) {
        const struct json *outer = find(root, "forward", 0, i), *inner = find(root, "gradients", 0, i);
        double start = number(outer, "ts"), finish = start + number(outer, "dur");
        EXPECT(number(inner, "ts") >= start && number(inner, "ts") + number(inner, "dur") <= finish);
        // Readers multiply by a thousand, and may cut off.
        EXPECT(number(outer, "ts") * 1000 == floor(number(outer, "ts") * 1000));
    }
    json_free(root);
    end();
}

static void fill_the_disk(void) {
    struct trace_file file;
    struct trace_place place = place_of(0);
    struct rlimit limit = {.rlim_cur = 2000, .rlim_max = RLIM_INFINITY};
    if (trace_file_open(&file, folder, &place) < 0 || setrlimit(RLIMIT_FSIZE, &limit) < 0)
        _exit(2);
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < 100; i++) {
        struct trace_event event = span("forward", i, i + 1, TRACK_HOST);
        trace_file_add(&file, &event);
        trace_file_flush(&file);
    }
    bool has_failed = file.has_failed;
    trace_file_close(&file);
    _exit(has_failed ? 0 : 3);
}

TEST(a_full_disk_ends_the_profile_only) {
    static struct capture capture;
    begin();
    capture_run(&capture, fill_the_disk);
    EXPECT_INT(capture.status, 0);
    const char *first = strstr(capture.text, "the profile of rank 0 ends here");
    EXPECT(first && !strstr(strchr(first, '\n'), "ends here"));
    struct trace_file file;
    struct trace_place place = place_of(0);
    EXPECT_ERROR(trace_file_open(&file, "/proc/none", &place), "/proc/none");
    end();
}

TEST_MAIN(TEST_CASE(spans_are_written_and_merged), TEST_CASE(overlapping_collectives_get_tracks),
          TEST_CASE(a_device_is_idle_between_its_items), TEST_CASE(hostile_names), TEST_CASE(a_file_cut_at_any_byte),
          TEST_CASE(lines_that_are_no_events_are_left_out), TEST_CASE(clocks_are_put_right),
          TEST_CASE(ranks_without_a_file_are_counted), TEST_CASE(spans_stay_within_each_other),
          TEST_CASE(a_full_disk_ends_the_profile_only))
