// The store of the board: runs and what is told of them beside their curves; files and folders that lie.
#include "base/clock.h"
#include "report/board_store.h"
#include "report/tensorboard.h"
#include <sys/stat.h>

TEST(states) {
    static const struct {
        const char *name, *event, *state, *why;
    } cases[] = {
        {"finished", "\"finished\"", "finished", "null"},
        {"stopped", "\"stopped\",\"text\":\"SIGTERM\"", "stopped", "SIGTERM"},
        {"failed", "\"failed\",\"text\":\"out of memory\",\"exit_code\":214", "failed", "out of memory"},
        {"saved", "\"saved\"", "live", "null"},
        {"other", "7", "live", "null"},
    };
    begin();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *name = memory_printf("%s/metrics.jsonl", cases[i].name);
        char *lines = memory_printf("{\"kind\":\"run\",\"time\":1,\"iteration\":0}\n"
                                    "{\"kind\":\"event\",\"time\":%.3f,\"iteration\":5,\"event\":%s}\n",
                                    clock_wall_seconds(), cases[i].event);
        put(name, "w", lines);
        free(lines);
        free(name);
    }
    char *again = memory_printf("{\"kind\":\"event\",\"time\":2,\"iteration\":5,\"event\":\"failed\",\"text\":\"x\"}\n"
                                "{\"kind\":\"run\",\"time\":%.3f,\"iteration\":5}\n",
                                clock_wall_seconds());
    put("again/metrics.jsonl", "w", again);
    free(again);
    put("lost/metrics.jsonl", "w", "{\"kind\":\"run\",\"time\":1,\"iteration\":0}\n");
    put("old/metrics.jsonl", "w",
        "{\"kind\":\"train\",\"time\":7,\"iteration\":10,\"train_iters\":10,\"losses\":{\"lm loss\":1}}\n");
    open_store(NULL, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct json *run = run_named(cases[i].name);
        EXPECT_STRING(text_of(run, "state"), cases[i].state);
        EXPECT(strstr(text_of(run, "why"), cases[i].why) != NULL);
    }
    EXPECT_STRING(text_of(run_named("again"), "state"), "live");
    EXPECT_STRING(text_of(run_named("again"), "why"), "null");
    EXPECT_STRING(text_of(run_named("lost"), "state"), "lost");
    EXPECT(strstr(text_of(run_named("lost"), "why"), "no new lines for a long time") != NULL);
    // Without a word about its end, as earlier versions wrote it.
    EXPECT_STRING(text_of(run_named("old"), "state"), "finished");
    // Nine lines, ten minutes apart: one of 40 minutes ago is not late, one of an hour ago is.
    for (int late = 0; late < 2; late++) {
        struct buffer text = {0};
        double last = clock_wall_seconds() - (late ? 3600 : 2400);
        for (int i = 0; i < 9; i++)
            buffer_printf(&text,
                          "{\"kind\":\"train\",\"time\":%.3f,\"iteration\":%d,\"train_iters\":20,"
                          "\"elapsed_ms\":600000,\"losses\":{\"lm loss\":1}}\n",
                          last - 600 * (8 - i), i + 1);
        put("slow/metrics.jsonl", "w", text.data);
        buffer_free(&text);
        open_store(NULL, 0);
        EXPECT_STRING(text_of(run_named("slow"), "state"), late ? "lost" : "live");
        if (!late)
            EXPECT_NEAR(number_of(run_named("slow"), "eta_seconds"), 11 * 600, 0);
    }
    end();
}

// A run's peak is not always known. Numbers that only some runs have are curves like all others.
TEST(shares_of_the_peak) {
    begin();
    put("a/metrics.jsonl", "w",
        "{\"kind\":\"run\",\"time\":1,\"iteration\":0,\"peak_teraflops\":312}\n"
        "{\"kind\":\"train\",\"time\":2,\"iteration\":1,\"losses\":{\"lm loss\":2},\"mfu\":0.25,"
        "\"experts\":{\"load_max\":1.5}}\n"
        "{\"kind\":\"train\",\"time\":3,\"iteration\":2,\"losses\":{\"lm loss\":2},\"mfu\":0.5,"
        "\"experts\":{\"load_max\":1.25}}\n");
    put("b/metrics.jsonl", "w", "{\"kind\":\"train\",\"time\":2,\"iteration\":1,\"losses\":{\"lm loss\":2}}\n");
    open_store(NULL, 0);
    EXPECT_NEAR(number_of(run_named("a"), "mfu"), 0.5, 0);
    EXPECT_INT(json_member(run_named("b"), "mfu")->type, JSON_NULL);
    const struct json *curve = ask_curve("a", "experts load max", (struct curve_query){.points = 10});
    EXPECT_INT(points_of(curve), 2);
    EXPECT_NEAR(point(curve, 1, 1), 1.25, 0);
    end();
}

TEST(what_is_no_curve) {
    begin();
    put("a/metrics.jsonl", "w",
        "{\"kind\":\"run\",\"time\":1,\"iteration\":0,\"program\":\"bevatron "
        "1\",\"config\":{\"x\":[1,\"</script>\"]}}\n"
        "{\"kind\":\"event\",\"time\":2,\"iteration\":3,\"event\":\"saved\",\"text\":\"a\\u0000b\",\"other\":1}\n"
        "{\"kind\":\"sample\",\"time\":3,\"iteration\":4,\"prompt\":\"p\",\"text\":\"t\"}\n"
        "{\"kind\":\"sample\",\"time\":3,\"iteration\":9,\"prompt\":\"p\",\"text\":\"dropped by the resume\"}\n"
        "{\"kind\":\"ranks\",\"time\":4,\"iteration\":5,\"steps\":10,"
        "\"ranks\":[{\"rank\":0,\"step_ms\":7.5},{\"rank\":3,\"step_ms\":7.5,\"wait_ms\":2},{\"rank\":1}]}\n"
        "{\"kind\":\"run\",\"time\":5,\"iteration\":5,\"config\":null}\n"
        "nonsense\n\n{\"kind\":\"new kind\",\"x\":1}\n{}\n");
    open_store(NULL, 0);
    const struct json *run = ask_run("a");
    EXPECT_INT(json_member(run, "starts")->count, 2);
    EXPECT_STRING(text_of(&json_member(run, "starts")->items[0], "program"), "bevatron 1");
    EXPECT_INT(json_member(json_member(run, "config"), "x")->count, 2);
    EXPECT_INT(json_member(run, "events")->count, 1);
    EXPECT_INT(json_member(&json_member(run, "events")->items[0], "text")->length, 3);
    EXPECT(json_member(&json_member(run, "events")->items[0], "other") == NULL);
    EXPECT_INT(json_member(run, "samples")->count, 1);
    EXPECT_STRING(text_of(&json_member(run, "samples")->items[0], "text"), "t");
    EXPECT_NEAR(number_of(json_member(run, "ranks"), "steps"), 10, 0);
    const struct json *history = json_member(run, "rank_history");
    EXPECT_INT(history->count, 1);
    const struct json *own = json_member(&history->items[0], "own_ms");
    EXPECT_INT(own->count, 3);
    EXPECT_NEAR(own->items[0].number, 7.5, 0);
    EXPECT_NEAR(own->items[1].number, 5.5, 0);
    EXPECT(own->items[2].type == JSON_NULL);
    EXPECT_NEAR(json_member(&history->items[0], "ranks")->items[1].number, 3, 0);
    EXPECT_NEAR(number_of(run, "bad_lines"), 3, 0);
    EXPECT_STRING(json_member(run, "files")->items[0].string, "metrics.jsonl");
    end();
}

TEST(event_files_of_a_folder) {
    begin();
    struct buffer events = {0};
    event_version(&events, 5);
    event_text(&events, (struct event_place){5, 0}, "lr/text_summary", "0.1");
    event_text(&events, (struct event_place){6, 1}, "sample", "first");
    event_text(&events, (struct event_place){7, 2}, "sample", "second");
    for (int64_t step = 1; step <= 3000; step++)
        event_scalar(&events, (struct event_place){(double)step, step}, "train/loss", (double)step);
    char *path = file_join(folder, "tb/events.out.tfevents.1.h");
    EXPECT_OK(file_make_parent(path));
    EXPECT_OK(file_write_all(path, events.data, events.length));
    put("tb/both/metrics.jsonl", "w", "");
    put("tb/both/events.out.tfevents.1.h", "w", "of the run beside it");
    put("tb/both/tensorboard/events.out.tfevents.1.h", "w", "of the run above it");
    open_store(NULL, 1 << 16);
    EXPECT_INT(ask_runs()->count, 2);
    const struct json *run = run_named("tb");
    EXPECT_STRING(text_of(run, "kind"), "tensorboard");
    EXPECT_STRING(text_of(run, "state"), "stopped");
    EXPECT_NEAR(number_of(run, "iteration"), 3000, 0);
    EXPECT_NEAR(number_of(run, "loss"), 3000, 0);
    EXPECT_INT(json_member(run, "x")->count, 2);
    const struct json *curve = ask_curve("tb", "train/loss", (struct curve_query){.points = 50});
    EXPECT(!is_exact(curve));
    EXPECT_NEAR(point(curve, 0, 2), 1, 0);
    curve = ask_curve("tb", "train/loss", (struct curve_query){.has_range = true, .from = 1000, .to = 1010});
    EXPECT(is_exact(curve));
    EXPECT(points_of(curve) >= 11 && points_of(curve) <= 14);
    EXPECT_NEAR(point(curve, 3, 1), point(curve, 3, 0), 0);
    EXPECT(ask_curve("tb", "train/loss", (struct curve_query){.x = BOARD_X_TOKENS}) == NULL);
    run = ask_run("tb");
    EXPECT_STRING(text_of(json_member(run, "config"), "lr"), "0.1");
    EXPECT_INT(json_member(run, "samples")->count, 2);
    EXPECT_STRING(text_of(&json_member(run, "samples")->items[1], "text"), "second");
    EXPECT_STRING(text_of(&json_member(run, "samples")->items[1], "prompt"), "sample");
    buffer_free(&events);
    free(path);
    end();
}

static const struct json *ask_log(int lines) {
    id_of("a");
    buffer_clear(&answer);
    return parsed(board_store_log(store, id, lines, &answer));
}

static void name_log(const char *path) {
    char *line = memory_printf("{\"kind\":\"run\",\"time\":1,\"iteration\":0,\"job_log\":\"%s\"}\n", path);
    put("a/metrics.jsonl", "a", line);
    free(line);
    board_store_scan(store);
}

TEST(log) {
    begin();
    char *path = file_join(folder, "slurm-7.out"), *secret = file_join(folder, "id_rsa"),
         *link = file_join(folder, "link.log");
    put("slurm-7.out", "w", "one\ntwo <b>\xff\n\nfour");
    put("id_rsa", "w", "secret");
    EXPECT(symlink(secret, link) == 0);
    open_store(NULL, 0);
    name_log(path);
    EXPECT_STRING(text_of(ask_log(100), "path"), path);
    EXPECT_INT(json_member(root, "lines")->count, 4);
    EXPECT_STRING(json_member(root, "lines")->items[1].string, "two <b>\xEF\xBF\xBD");
    EXPECT_INT(json_member(ask_log(2), "lines")->count, 2);
    EXPECT_STRING(json_member(root, "lines")->items[1].string, "four");
    const char *const refused[] = {secret,        link,           "/dev/zero", "/proc/self/environ",
                                   "slurm-7.out", "/nowhere.log", folder};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        name_log(refused[i]);
        EXPECT_STRING(text_of(ask_log(10), "path"), "null");
        EXPECT_INT(json_member(root, "lines")->count, 0);
    }
    // Only the end of a long one is read.
    struct buffer text = {0};
    for (int i = 0; i < 100000; i++)
        buffer_printf(&text, "line %d\n", i);
    put("slurm-7.out", "w", text.data);
    name_log(path);
    EXPECT_INT(json_member(ask_log(5000), "lines")->count, 1000);
    EXPECT_STRING(json_member(root, "lines")->items[999].string, "line 99999");
    EXPECT_ERROR(board_store_log(store, "ffffffff", 1, &answer), "no run");
    buffer_free(&text);
    free(path);
    free(secret);
    free(link);
    end();
}

// The first line of the note beside a run is its title, the rest a note. It is read again when it changes.
TEST(notes) {
    const char *const runs[] = {"a/metrics.jsonl",    "b/metrics.jsonl",    "b/x-metrics.jsonl",
                                "long/metrics.jsonl", "link/metrics.jsonl", "plain/metrics.jsonl"};
    begin();
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++)
        put(runs[i], "w", "{\"kind\":\"run\",\"time\":1,\"iteration\":0}\n");
    char *secret = file_join(folder, "secret"), *link = file_join(folder, "link/note.txt");
    put("secret", "w", "secret");
    EXPECT(symlink(secret, link) == 0);
    put("a/note.txt", "w", "  Baseline <b>\t\xff\r\n\nToo\x1bhot.\nLower it.\n\n");
    put("b/x-note.txt", "w", "Of x\n");
    struct buffer text = {0};
    for (int i = 0; i < 3000; i++)
        buffer_append_string(&text, "long ");
    put("long/note.txt", "w", text.data);
    open_store(NULL, 0);
    EXPECT_STRING(text_of(run_named("a"), "title"), "Baseline <b> \xEF\xBF\xBD");
    EXPECT_STRING(text_of(run_named("a"), "note"), "Too hot.\nLower it.");
    EXPECT_STRING(text_of(run_named("a"), "folder"), "a");
    EXPECT_STRING(text_of(run_named("b"), "title"), "null");
    EXPECT_STRING(text_of(run_named("b/x-metrics.jsonl"), "title"), "Of x");
    EXPECT_STRING(text_of(run_named("b/x-metrics.jsonl"), "note"), "null");
    EXPECT_STRING(text_of(run_named("long"), "title"), "null");
    EXPECT_INT(json_member(run_named("long"), "note")->length, 4096);
    EXPECT_STRING(text_of(run_named("link"), "title"), "null");
    EXPECT_STRING(text_of(run_named("plain"), "note"), "null");
    put("a/note.txt", "w", "\nOnly a note");
    board_store_scan(store);
    EXPECT_STRING(text_of(run_named("a"), "title"), "null");
    EXPECT_STRING(text_of(run_named("a"), "note"), "Only a note");
    char *path = file_join(folder, "a/note.txt");
    EXPECT(unlink(path) == 0);
    board_store_scan(store);
    EXPECT_STRING(text_of(run_named("a"), "note"), "null");
    buffer_free(&text);
    free(path);
    free(link);
    free(secret);
    end();
}

TEST(hostile_folders) {
    begin();
    struct board_store *none = NULL;
    EXPECT_ERROR(board_store_open(&none, &(struct board_store_options){.logdir = "/nonexistent"}), "/nonexistent");
    EXPECT(none == NULL);
    put("<img src=x onerror=alert(1)>/metrics.jsonl", "w",
        "{\"kind\":\"run\",\"time\":1,\"iteration\":0,\"host\":\"</script>\"}\n");
    put("bad\xff name/metrics.jsonl", "w", "x");
    put("no/newline/metrics.jsonl", "w", "{\"kind\":\"train\"");
    char *pipe = file_join(folder, "metrics.jsonl"), *circle = file_join(folder, "circle");
    EXPECT(mkfifo(pipe, 0600) == 0 && symlink(folder, circle) == 0);
    // A line of 5 MB, and one that never ends.
    struct buffer text = {0};
    buffer_printf(&text, "{\"kind\":\"train\",\"iteration\":1,\"losses\":{\"a\":1},\"text\":\"");
    for (int i = 0; i < 500000; i++)
        buffer_append_string(&text, "xxxxxxxxxx");
    buffer_append_string(&text, "\"}\n{\"kind\":\"train\",\"iteration\":2,\"losses\":{\"a\":2}}\n");
    put("long/metrics.jsonl", "w", text.data);
    open_store(NULL, 0);
    EXPECT_INT(ask_runs()->count, 4);
    EXPECT_STRING(text_of(run_named("<img src=x onerror=alert(1)>"), "host"), "</script>");
    EXPECT_NEAR(number_of(run_named("long"), "iteration"), 2, 0);
    EXPECT_ERROR(board_store_run(store, "../../etc", &answer), "no run");
    const char *unknown = "12345678";
    EXPECT_ERROR(board_store_curves(store, &(struct curve_query){.ids = &unknown, .id_count = 1}, &answer), "no run");
    buffer_free(&text);
    free(pipe);
    free(circle);
    end();
}

TEST_MAIN(TEST_CASE(states), TEST_CASE(shares_of_the_peak), TEST_CASE(what_is_no_curve),
          TEST_CASE(event_files_of_a_folder), TEST_CASE(log), TEST_CASE(notes), TEST_CASE(hostile_folders))
