// The store of the board: its curves against plain arrays of the same lines, for files that grow, resume, shrink or are
// replaced; the cache; many askers beside the threads that read.
#include "base/clock.h"
#include "report/board_store.h"
#include <stdatomic.h>

// The state for a reader of the whole file: the value of each step after all lines.
enum { MOST_STEPS = 40000 };
static double truth[MOST_STEPS + 1];

static double value_for(int64_t step, int start) {
    return step % 997 == 13 ? 100 + (double)(step % 50) + start : (double)(step % 89) / 16 + (double)start;
}

static void add_start(struct buffer *out, int64_t iteration, int start) {
    buffer_printf(out,
                  "{\"kind\":\"run\",\"time\":%d,\"iteration\":%" PRId64 ",\"host\":\"node%d\",\"pid\":%d,\"ranks\":8,"
                  "\"job\":\"77\",\"tokens_per_sample\":1024,\"flops_per_token\":600,"
                  "\"version\":\"1\",\"config\":{\"lr\":%d}}\n",
                  1000 + 100000 * start, iteration, start, 10 + start, start);
}

static void add_steps(struct buffer *out, int64_t from, int64_t to, int start) {
    for (int64_t step = from; step <= to; step++) {
        truth[step] = value_for(step, start);
        buffer_printf(out,
                      "{\"kind\":\"train\",\"time\":%" PRId64 ",\"iteration\":%" PRId64 ",\"train_iters\":40000,"
                      "\"consumed_samples\":%" PRId64 ",\"losses\":{\"lm loss\":%.17g},\"learning_rate\":0.001,"
                      "\"elapsed_ms\":500,\"tokens_per_second\":2048,"
                      "\"grad_norm\":0.3333333333333333,\"global_batch_size\":4,"
                      "\"loss_scale\":1,\"skipped_iterations\":0,\"memory_bytes\":1000000}\n",
                      1000 + 100000 * start + step, step, step * 4, truth[step]);
        if (step % 1000 == 0)
            buffer_printf(out,
                          "{\"kind\":\"eval\",\"time\":%" PRId64 ",\"iteration\":%" PRId64
                          ",\"consumed_samples\":%" PRId64 ",\"set\":\"validation\",\"losses\":{\"lm loss\":%.17g}}\n",
                          1000 + 100000 * start + step, step, step * 4, -truth[step]);
    }
}

// The overview must cover all steps, in order, with the extremes and means of the truth.
static void check_overview(const char *name, int64_t last) {
    const struct json *curve = ask_curve(name, "lm loss", (struct curve_query){.points = 300});
    EXPECT(curve != NULL);
    EXPECT(points_of(curve) <= 300 && (points_of(curve) > 20 || last < 20));
    int64_t step = 1;
    for (size_t i = 0; i < points_of(curve); i++) {
        double min = (double)INFINITY, max = -(double)INFINITY, sum = 0;
        int64_t first = step;
        for (; step <= (int64_t)point(curve, i, 0); step++) {
            min = truth[step] < min ? truth[step] : min;
            max = truth[step] > max ? truth[step] : max;
            sum += truth[step];
        }
        EXPECT(step > first);
        EXPECT_NEAR(point(curve, i, 1), truth[step - 1], 1e-6);
        EXPECT_NEAR(point(curve, i, 2), min, 1e-6);
        EXPECT_NEAR(point(curve, i, 3), max, 1e-6);
        EXPECT_NEAR(point(curve, i, 4), sum / (double)(step - first), 1e-6);
    }
    EXPECT_INT(step, last + 1);
}

// A narrow part must have every single value.
static void check_zoom(const char *name, int64_t from, int64_t to) {
    const struct json *curve =
        ask_curve(name, "lm loss",
                  (struct curve_query){.points = 2000, .has_range = true, .from = (double)from, .to = (double)to});
    EXPECT(curve != NULL && is_exact(curve));
    int64_t seen = 0;
    for (size_t i = 0; i < points_of(curve); i++) {
        int64_t step = (int64_t)point(curve, i, 0);
        for (size_t part = 1; part < 5; part++)
            EXPECT_NEAR(point(curve, i, part), truth[step], 1e-8);
        seen += step >= from && step <= to;
    }
    EXPECT_INT(seen, to - from + 1);
    EXPECT(points_of(curve) <= (size_t)(to - from + 4));
}

TEST(a_long_run) {
    begin();
    struct buffer text = {0};
    add_start(&text, 0, 0);
    add_steps(&text, 1, 40000, 0);
    put("a/metrics.jsonl", "w", text.data);
    buffer_free(&text);
    // With much and with little memory: fine and coarse bins.
    for (size_t memory = 1 << 16; memory <= (size_t)1 << 26; memory <<= 10) {
        open_store(NULL, memory);
        const struct json *run = run_named("a");
        EXPECT_STRING(text_of(run, "kind"), "bevatron");
        EXPECT_STRING(text_of(run, "state"), "finished");
        EXPECT_STRING(text_of(run, "host"), "node0");
        EXPECT_STRING(text_of(run, "job"), "77");
        EXPECT_NEAR(number_of(run, "ranks"), 8, 0);
        EXPECT_NEAR(number_of(run, "iteration"), 40000, 0);
        EXPECT_NEAR(number_of(run, "train_iters"), 40000, 0);
        EXPECT_NEAR(number_of(run, "loss"), truth[40000], 1e-6);
        EXPECT_NEAR(number_of(run, "validation"), -truth[40000], 1e-6);
        EXPECT_NEAR(number_of(run, "tokens_per_second"), 2048, 0);
        EXPECT_NEAR(number_of(run, "started"), 1000, 0);
        EXPECT_NEAR(number_of(run, "updated"), 41000, 0);
        EXPECT_STRING(json_member(run, "tags")->items[0].string, "lm loss");
        EXPECT_STRING(json_member(run, "tags")->items[1].string, "lm loss validation");
        EXPECT_INT(json_member(run, "x")->count, 4);
        check_overview("a", 40000);
        check_zoom("a", 1, 100);
        check_zoom("a", 12000, 12999);
        check_zoom("a", 39990, 40000);
        check_zoom("a", 777, 777);
        const struct json *curve = ask_curve("a", "lm loss validation", (struct curve_query){.points = 100});
        EXPECT_INT(points_of(curve), 40);
        EXPECT(is_exact(curve));
        EXPECT_NEAR(point(curve, 7, 1), -truth[8000], 1e-8);
        EXPECT(ask_curve("a", "nothing", (struct curve_query){0}) == NULL);
    }
    end();
}

TEST(axes) {
    begin();
    struct buffer text = {0};
    add_start(&text, 0, 0);
    add_steps(&text, 1, 10000, 0);
    // Longer samples from here on.
    buffer_append_string(&text, "{\"kind\":\"run\",\"time\":20000,\"iteration\":10000,"
                                "\"tokens_per_sample\":2048,\"flops_per_token\":600}\n");
    add_steps(&text, 10001, 20000, 1);
    put("metrics.jsonl", "w", text.data);
    buffer_free(&text);
    const char *name = strrchr(folder, '/') + 1;
    open_store(NULL, 1 << 16);
    // Not at the change itself: between the ends of a bin, tokens grow with samples.
    for (int64_t step = 4000; step <= 16000; step += 4000) {
        double tokens =
            step <= 10000 ? (double)step * 4 * 1024 : 10000.0 * 4 * 1024 + (double)(step - 10000) * 4 * 2048;
        const double x[] = {(double)step, (double)(1000 + 100000 * (step > 10000) + step), tokens, tokens * 600};
        for (int axis = 0; axis < BOARD_X_COUNT; axis++) {
            // A little less and more, for the rounding of large numbers.
            double slack = 1e-9 * x[axis];
            struct curve_query query = {.x = (enum board_x)axis,
                                        .points = 2000,
                                        .has_range = true,
                                        .from = x[axis] - slack,
                                        .to = x[axis] + slack};
            const struct json *curve = ask_curve(name, "lm loss", query);
            EXPECT_STRING(text_of(curve, "x"), board_x_names[axis]);
            bool is_found = false;
            for (size_t i = 0; i < points_of(curve); i++) {
                if (fabs(point(curve, i, 0) - x[axis]) > slack)
                    continue;
                is_found = true;
                EXPECT_NEAR(point(curve, i, 1), truth[step], 1e-8);
            }
            EXPECT(is_found);
            EXPECT(points_of(curve) <= 5);
        }
    }
    end();
}

// A run that resumes from earlier iterations, also from the middle of what was merged, and repeats itself.
TEST(resumed) {
    begin();
    struct buffer text = {0};
    add_start(&text, 0, 0);
    add_steps(&text, 1, 30000, 0);
    add_start(&text, 12345, 1);
    add_steps(&text, 12346, 25001, 1);
    add_steps(&text, 24000, 24100, 2);  // without a line of kind "run"
    add_start(&text, 24050, 3);
    add_steps(&text, 24051, 26000, 3);
    put("a/metrics.jsonl", "w", text.data);
    buffer_free(&text);
    for (size_t memory = 1 << 16; memory <= (size_t)1 << 26; memory <<= 10) {
        open_store(NULL, memory);
        check_overview("a", 26000);
        check_zoom("a", 12300, 12400);
        check_zoom("a", 23950, 24200);
        check_zoom("a", 25900, 26000);
        const struct json *curve = ask_curve("a", "lm loss validation", (struct curve_query){.points = 1000});
        EXPECT_INT(points_of(curve), 26);
        for (size_t i = 0; i < 26; i++)
            EXPECT_NEAR(point(curve, i, 1), -truth[1000 * (i + 1)], 1e-8);
        // The first start, not the last.
        EXPECT_NEAR(number_of(run_named("a"), "started"), 1000, 0);
        EXPECT_NEAR(number_of(run_named("a"), "restarts"), 2, 0);
        EXPECT_STRING(text_of(run_named("a"), "host"), "node3");
        const struct json *run = ask_run("a");
        EXPECT_INT(json_member(run, "starts")->count, 3);
        EXPECT_STRING(text_of(&json_member(run, "starts")->items[1], "host"), "node1");
        EXPECT_NEAR(number_of(&json_member(run, "starts")->items[2], "iteration"), 24050, 0);
        EXPECT_NEAR(number_of(json_member(run, "config"), "lr"), 3, 0);
        EXPECT_NEAR(number_of(run, "bad_lines"), 0, 0);
    }
    // From nothing again: another run in the same file.
    add_start(&text, 0, 4);
    add_steps(&text, 1, 10, 4);
    put("a/metrics.jsonl", "a", text.data);
    buffer_free(&text);
    board_store_scan(store);
    EXPECT_NEAR(number_of(run_named("a"), "started"), 401000, 0);
    EXPECT_NEAR(number_of(run_named("a"), "restarts"), 0, 0);
    check_overview("a", 10);
    end();
}

TEST(growing_shrinking_replaced) {
    begin();
    struct buffer text = {0};
    add_start(&text, 0, 0);
    add_steps(&text, 1, 50, 0);
    open_store(NULL, 0);
    EXPECT_INT(board_store_count(store), 0);
    EXPECT_INT(ask_runs()->count, 0);
    // Byte by byte, or nearly so: torn lines are not seen until they are whole.
    char *path = file_join(folder, "metrics.jsonl");
    int64_t revision = board_store_revision(store);
    for (size_t at = 0; at < text.length; at += 101) {
        FILE *file = fopen(path, "a");
        size_t left = text.length - at;
        EXPECT(file && fwrite(text.data + at, 1, left < 101 ? left : 101, file) > 0 && fclose(file) == 0);
        board_store_scan(store);
    }
    const char *name = strrchr(folder, '/') + 1;
    EXPECT(board_store_revision(store) > revision);
    check_overview(name, 50);
    EXPECT_NEAR(number_of(ask_run(name), "bad_lines"), 0, 0);
    // Replaced by another file.
    buffer_clear(&text);
    add_steps(&text, 1, 60, 5);
    EXPECT_OK(file_write_all(path, text.data, text.length));
    board_store_scan(store);
    check_overview(name, 60);
    // Rewritten, shorter; and again, longer, in the same file.
    buffer_clear(&text);
    add_steps(&text, 1, 9, 6);
    put("metrics.jsonl", "w", text.data);
    board_store_scan(store);
    check_overview(name, 9);
    // Removed, and back.
    EXPECT(unlink(path) == 0);
    board_store_scan(store);
    EXPECT_INT(ask_runs()->count, 0);
    EXPECT_ERROR(board_store_run(store, id, &answer), "no run");
    put("metrics.jsonl", "w", text.data);
    board_store_scan(store);
    check_overview(name, 9);
    buffer_free(&text);
    free(path);
    end();
}

// Other lines replace those that a zoom reads again: with other tags, in unknown sets.
TEST(overwritten_in_place) {
    begin();
    struct buffer text = {0};
    add_steps(&text, 1, 20000, 0);
    put("a/metrics.jsonl", "w", text.data);
    open_store(NULL, 1 << 16);
    // Line by line: with sanitizers, strstr measures the whole rest of the text first.
    for (char *line = text.data, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        for (char *at = line; (at = strstr(at, "\"lm loss\"")); at++)
            memcpy(at, at - text.data < (ptrdiff_t)text.length / 2 ? "\"xx loss\"" : "\"lm lo\\/\"", 9);
        for (char *at = line; (at = strstr(at, "validation")); at++)
            at[0] = (char)('a' + (at - text.data) % 20);
        *end = '\n';
    }
    char *path = file_join(folder, "a/metrics.jsonl");
    FILE *file = fopen(path, "r+");
    EXPECT(file && fwrite(text.data, 1, text.length, file) == text.length && fclose(file) == 0);
    for (double from = 0; from < 20000; from += 500) {
        struct curve_query query = {.points = 2000, .has_range = true, .from = from, .to = from + 600};
        EXPECT(points_of(ask_curve("a", "learning rate", query)) > 0);
        (void)ask_curve("a", "lm loss validation", query);
    }
    buffer_free(&text);
    free(path);
    end();
}

static char *whole_answer(void) {
    const char *ids[] = {id_of("a")};
    struct curve_query query = {.ids = ids, .id_count = 1, .points = 777};
    buffer_clear(&answer);
    EXPECT_OK(board_store_run(store, id, &answer));
    EXPECT_OK(board_store_curves(store, &query, &answer));
    return memory_string(answer.data);
}

TEST(cache) {
    begin();
    char cache[64], *file = NULL;
    snprintf(cache, sizeof cache, "%s/../%s.cache", folder, strrchr(folder, '/') + 1);
    struct buffer text = {0}, bytes = {0};
    add_start(&text, 0, 0);
    add_steps(&text, 1, 40000, 0);
    EXPECT(text.length > 8 << 20);
    put("a/metrics.jsonl", "w", text.data);
    open_store(cache, 0);
    char *first = whole_answer();
    board_store_close(store);
    store = NULL;
    // The cache is really used: a change in the middle of the file, which it does not look at, is not seen.
    char *path = file_join(folder, "a/metrics.jsonl");
    FILE *stream = fopen(path, "r+");
    EXPECT(stream && fseek(stream, 4 << 20, SEEK_SET) == 0 && fputs("\nrubbish\n", stream) >= 0 && fclose(stream) == 0);
    open_store(cache, 0);
    char *second = whole_answer();
    EXPECT_STRING(second, first);
    // What comes after it is read.
    buffer_clear(&text);
    add_start(&text, 39000, 1);
    add_steps(&text, 39001, 39500, 1);
    put("a/metrics.jsonl", "a", text.data);
    board_store_scan(store);
    check_overview("a", 39500);
    free(second);
    open_store(cache, 0);
    EXPECT_NEAR(number_of(run_named("a"), "started"), 1000, 0);
    EXPECT_NEAR(number_of(run_named("a"), "restarts"), 1, 0);
    board_store_close(store);
    store = NULL;
    // Damaged anywhere, it is not there, and the rubbish is found.
    char command[200];
    snprintf(command, sizeof command, "ls %s", cache);
    FILE *list = popen(command, "r");
    char name[100] = "";
    EXPECT(list && fgets(name, sizeof name, list) && pclose(list) == 0);
    name[strcspn(name, "\n")] = '\0';
    file = file_join(cache, name);
    EXPECT_OK(file_read_all(file, 1 << 26, &bytes));
    for (size_t i = 0; i < 4; i++) {
        size_t at = i * (bytes.length - 1) / 3;
        bytes.data[at] ^= 16;
        EXPECT_OK(file_write_all(file, bytes.data, bytes.length));
        bytes.data[at] ^= 16;
        open_store(cache, 0);
        EXPECT(number_of(ask_run("a"), "bad_lines") >= 1);
    }
    EXPECT_OK(file_remove_tree(cache));
    buffer_free(&text);
    buffer_free(&bytes);
    free(file);
    free(first);
    free(path);
    end();
}

static atomic_bool is_over;

static void *ask_all(void *argument) {
    struct board_store *own = argument;
    struct buffer json = {0};
    while (!is_over) {
        struct json *tree = NULL;
        buffer_clear(&json);
        CHECK(board_store_runs(own, &json) == 0 && json_parse(&tree, json.data, json.length, "runs") == 0);
        const struct json *runs = json_member(tree, "runs");
        for (size_t i = 0; i < runs->count; i++) {
            const char *ids[] = {json_member(&runs->items[i], "id")->string};
            struct curve_query query = {.ids = ids, .id_count = 1, .has_range = i % 2 == 0, .from = 100, .to = 200};
            buffer_clear(&json);
            CHECK(board_store_curves(own, &query, &json) == 0);
            buffer_clear(&json);
            CHECK(board_store_run(own, ids[0], &json) == 0);
        }
        json_free(tree);
        (void)board_store_wait(own, board_store_revision(own), 0.001);
    }
    buffer_free(&json);
    return NULL;
}

// Askers beside threads that read runs which grow, with so little memory that all curves are made coarser meanwhile.
TEST(many_at_once) {
    enum { RUNS = 5, ASKERS = 3 };
    begin();
    struct buffer text = {0};
    pthread_t threads[ASKERS];
    struct board_store_options options = {.logdir = folder, .poll_seconds = 0.01, .memory_bytes = 1 << 18};
    EXPECT_OK(board_store_open(&store, &options));
    is_over = false;
    for (int i = 0; i < ASKERS; i++)
        EXPECT(pthread_create(&threads[i], NULL, ask_all, store) == 0);
    for (int64_t part = 0; part < 10; part++) {
        buffer_clear(&text);
        if (part == 0)
            add_start(&text, 0, 0);
        add_steps(&text, part * 200 + 1, part * 200 + 200, 0);
        for (int i = 0; i < RUNS; i++) {
            char *name = memory_printf("run%d/metrics.jsonl", i);
            put(name, "a", text.data);
            free(name);
        }
    }
    board_store_scan(store);
    // New folders are searched for now and then only, so the last runs may not be there after one look.
    double deadline = clock_seconds() + 300;
    while (board_store_count(store) < RUNS && clock_seconds() < deadline)
        (void)board_store_wait(store, board_store_revision(store), 1);
    board_store_scan(store);
    is_over = true;
    for (int i = 0; i < ASKERS; i++)
        pthread_join(threads[i], NULL);
    EXPECT_INT(ask_runs()->count, RUNS);
    check_overview("run4", 2000);
    check_zoom("run0", 500, 600);
    buffer_free(&text);
    end();
}

TEST(waiting) {
    begin();
    put("a/metrics.jsonl", "w", "{\"kind\":\"train\",\"time\":1,\"iteration\":1,\"losses\":{\"a\":1}}\n");
    struct board_store_options options = {.logdir = folder, .poll_seconds = 0.01};
    EXPECT_OK(board_store_open(&store, &options));
    board_store_scan(store);
    int64_t revision = board_store_revision(store);
    EXPECT_INT(board_store_wait(store, revision, 0.01), revision);
    put("a/metrics.jsonl", "a", "{\"kind\":\"train\",\"time\":2,\"iteration\":2,\"losses\":{\"a\":1}}\n");
    EXPECT(board_store_wait(store, revision, 300) > revision);
    EXPECT_NEAR(number_of(run_named("a"), "iteration"), 2, 0);
    board_store_wake(store);
    revision = board_store_revision(store);
    EXPECT(board_store_wait(store, revision + 5, 1000) < revision + 5);
    end();
}

TEST_MAIN(TEST_CASE(a_long_run), TEST_CASE(axes), TEST_CASE(resumed), TEST_CASE(growing_shrinking_replaced),
          TEST_CASE(overwritten_in_place), TEST_CASE(cache), TEST_CASE(many_at_once), TEST_CASE(waiting))
