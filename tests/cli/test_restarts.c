// When a failed run is restarted: separate failures are tolerated, the same one repeatedly is not.
#include "cli/launch.h"
#include "base/error.h"
#include "base/file.h"
#include "base/lifeline.h"
#include "base/log.h"
#include "base/memory.h"
#include "test.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static struct restarts make(int64_t most) {
    return (struct restarts){.most = most, .window_seconds = 3600};
}

// An attempt that was killed.
static struct restarts_attempt killed(int64_t reached, bool has_new_checkpoint, double now) {
    return (struct restarts_attempt){.exit_code = 137,
                                     .has_started = true,
                                     .reached = reached,
                                     .has_new_checkpoint = has_new_checkpoint,
                                     .now = now};
}

static enum restarts_decision decide(struct restarts *restarts, struct restarts_attempt attempt) {
    double delay;
    return restarts_decide(restarts, &attempt, &delay);
}

TEST(codes_that_say_so_are_final) {
    static const int final[] = {0, 2, 210, 213, 214, 215, 216, 217};
    static const int others[] = {1, 134, 135, 137, 139, 195, 211, 212};
    for (size_t i = 0; i < sizeof final / sizeof final[0]; i++) {
        struct restarts restarts = make(3);
        struct restarts_attempt attempt = killed(5, true, 0);
        attempt.exit_code = final[i];
        EXPECT_INT(decide(&restarts, attempt), RESTARTS_NEVER);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct restarts restarts = make(3);
        struct restarts_attempt attempt = killed(5, true, 0);
        attempt.exit_code = others[i];
        EXPECT_INT(decide(&restarts, attempt), RESTARTS_AGAIN);
    }
}

TEST(unrelated_failures_within_a_save_interval_are_forgiven) {
    struct restarts restarts = make(10);
    static const int64_t reached[] = {7, 3, 9, 9, 4, 9, 9, 2};
    for (size_t i = 0; i < sizeof reached / sizeof reached[0]; i++)
        EXPECT_INT(decide(&restarts, killed(reached[i], false, (double)i)), RESTARTS_AGAIN);
}

TEST(the_same_iteration_three_times_is_the_end) {
    struct restarts restarts = make(10);
    EXPECT_INT(decide(&restarts, killed(7, true, 0)), RESTARTS_AGAIN);
    EXPECT_INT(decide(&restarts, killed(7, false, 1)), RESTARTS_AGAIN);
    EXPECT_INT(decide(&restarts, killed(7, false, 2)), RESTARTS_STUCK);
    // Failing before the first iteration counts as a place, too.
    restarts = make(10);
    EXPECT_INT(decide(&restarts, killed(-1, false, 0)), RESTARTS_AGAIN);
    EXPECT_INT(decide(&restarts, killed(-1, false, 1)), RESTARTS_AGAIN);
    EXPECT_INT(decide(&restarts, killed(-1, false, 2)), RESTARTS_STUCK);
    // A new checkpoint is progress, whatever iteration the run fails at.
    restarts = make(10);
    for (int i = 0; i < 6; i++)
        EXPECT_INT(decide(&restarts, killed(7, i % 2 == 0, i)), RESTARTS_AGAIN);
}

TEST(a_rate_limits_restarts_not_a_lifetime) {
    struct restarts restarts = make(3);
    for (int i = 0; i < 3; i++)
        EXPECT_INT(decide(&restarts, killed(10 * i, true, 60 * i)), RESTARTS_AGAIN);
    EXPECT_INT(decide(&restarts, killed(40, true, 200)), RESTARTS_TOO_OFTEN);
    // An hour apart, restarts continue indefinitely.
    restarts = make(1);
    for (int i = 0; i < 5000; i++)
        EXPECT_INT(decide(&restarts, killed(10 * i, true, 3601.0 * i)), RESTARTS_AGAIN);
    restarts = make(0);
    EXPECT_INT(decide(&restarts, killed(1, true, 0)), RESTARTS_TOO_OFTEN);
}

TEST(a_start_that_is_lost_costs_nothing) {
    struct restarts restarts = make(1);
    struct restarts_attempt lost = {.exit_code = 1, .reached = -1, .now = 0};
    for (int i = 0; i < RESTARTS_UNSTARTED - 1; i++)
        EXPECT_INT(decide(&restarts, lost), RESTARTS_AGAIN);
    EXPECT_INT(restarts.count, 0);
    EXPECT_INT(decide(&restarts, killed(5, true, 0)), RESTARTS_AGAIN);
    for (int i = 0; i < RESTARTS_UNSTARTED - 1; i++)
        EXPECT_INT(decide(&restarts, lost), RESTARTS_AGAIN);
    EXPECT_INT(decide(&restarts, lost), RESTARTS_NO_START);
    // With 0 restarts there are none.
    restarts = make(0);
    EXPECT_INT(decide(&restarts, lost), RESTARTS_TOO_OFTEN);
}

TEST(waits_grow_while_nothing_is_gained) {
    struct restarts restarts = make(100);
    double delay;
    static const double delays[] = {1, 2, 4, 8, 16, 32, 60, 60};
    struct restarts_attempt attempt = killed(0, true, 0);
    EXPECT_INT(restarts_decide(&restarts, &attempt, &delay), RESTARTS_AGAIN);
    EXPECT(delay == 0);
    for (size_t i = 0; i < sizeof delays / sizeof delays[0]; i++) {
        attempt = killed((int64_t)i + 1, false, 0);
        EXPECT_INT(restarts_decide(&restarts, &attempt, &delay), RESTARTS_AGAIN);
        EXPECT(delay == delays[i]);
    }
    attempt = killed(0, true, 0);
    EXPECT_INT(restarts_decide(&restarts, &attempt, &delay), RESTARTS_AGAIN);
    EXPECT(delay == 0);
}

// Being stopped is not a failure, unless the run is stopped at one place again and again.
TEST(a_stopped_job_continues) {
    struct restarts restarts = make(1);
    struct restarts_attempt stopped = killed(5, true, 0);
    stopped.exit_code = EXIT_CODE_STOPPED;
    restarts.continues_stopped = true;
    for (int i = 0; i < 50; i++)
        EXPECT_INT(decide(&restarts, stopped), RESTARTS_AGAIN);
    EXPECT_INT(restarts.count, 0);
    EXPECT_INT(decide(&restarts, killed(9, true, 0)), RESTARTS_AGAIN);
    stopped.has_new_checkpoint = false;
    EXPECT_INT(decide(&restarts, stopped), RESTARTS_AGAIN);
    EXPECT_INT(decide(&restarts, stopped), RESTARTS_AGAIN);
    EXPECT_INT(decide(&restarts, stopped), RESTARTS_STUCK);
}

TEST(a_clock_that_was_set_back_forgets_nothing_too_late) {
    struct restarts restarts = make(1);
    EXPECT_INT(decide(&restarts, killed(1, true, 1e9)), RESTARTS_AGAIN);
    EXPECT_INT(decide(&restarts, killed(2, true, 1000)), RESTARTS_TOO_OFTEN);
    EXPECT_INT(decide(&restarts, killed(3, true, 1000 + 3601)), RESTARTS_AGAIN);
}

TEST(messages_name_the_place) {
    struct restarts restarts = make(3);
    struct restarts_attempt attempt = killed(-1, false, 0);
    char *text = restarts_describe(&restarts, RESTARTS_AGAIN, &attempt, -1);
    EXPECT(strstr(text, "failed with code 137 before its first iteration; starting again from the beginning") != NULL);
    free(text);
    attempt = killed(11, false, 0);
    text = restarts_describe(&restarts, RESTARTS_AGAIN, &attempt, 10);
    EXPECT(strstr(text, "at iteration 12; starting again from iteration 10") != NULL);
    free(text);
    // Nothing that a process reports makes it overflow.
    struct restarts_attempt furthest = killed(INT64_MAX, false, 0);
    text = restarts_describe(&restarts, RESTARTS_AGAIN, &furthest, INT64_MAX);
    EXPECT(strstr(text, "at iteration 9223372036854775808") != NULL);
    free(text);
    restarts.at_one_place = 3;
    text = restarts_describe(&restarts, RESTARTS_STUCK, &attempt, 10);
    EXPECT_STRING(text, "the run failed 3 times at iteration 12 without a new checkpoint, with code 137; giving up");
    free(text);
    for (int decision = RESTARTS_AGAIN; decision <= RESTARTS_NO_START; decision++)
        for (int64_t reached = -1; reached < 2; reached++) {
            attempt = killed(reached, false, 0);
            text = restarts_describe(&restarts, (enum restarts_decision)decision, &attempt, -1);
            EXPECT(!text || !strstr(text, "-1"));
            free(text);
        }
}

// An attempt of a job, in a process of its own, that completes iterations up to `reached` (-1: none; -2: it does not
// start) and ends with a code. The journal stands for what it keeps.
static struct restarts_end run_attempt(const struct restarts_file *file, int64_t reached, bool gets_further, int code) {
    static int pieces;
    enum restarts_decision decision;
    EXPECT_OK(restarts_file_begin(file, &decision));
    EXPECT_INT(decision, RESTARTS_AGAIN);
    if (gets_further) {
        char text[16];
        snprintf(text, sizeof text, "%d", pieces++);
        EXPECT_OK(file_write_all(file->journal, text, strlen(text)));
    }
    pid_t child = fork();
    if (child == 0) {
        char *line = memory_printf("%s.lifeline", file->path);
        if (reached > -2)
            lifeline_attach(line);
        for (int64_t i = 0; i <= reached; i++)
            lifeline_iteration(i);
        _exit(0);
    }
    EXPECT(waitpid(child, NULL, 0) == child);
    struct restarts_end end;
    EXPECT_OK(restarts_file_end(file, code, &end));
    return end;
}

static struct restarts_file make_file(char *folder) {
    EXPECT(mkdtemp(folder) != NULL);
    log_set_level(LOG_ERROR);
    return (struct restarts_file){
        .path = memory_printf("%s/logs/7/restarts.json", folder), .job = "7", .most = 10, .window_seconds = 3600};
}

static void end_file(const struct restarts_file *file, const char *folder) {
    free((char *)(uintptr_t)file->path);
    free((char *)(uintptr_t)file->journal);
    EXPECT_OK(file_remove_tree(folder));
}

// Every call reads what the ones before have left: a job is decided upon like a run of launch local.
TEST(a_job_remembers_its_attempts) {
    char folder[] = "/tmp/bevatron-restarts-XXXXXX";
    struct restarts_file file = make_file(folder);
    file.save = folder;  // without a checkpoint
    static const int codes[] = {1, 134, 135, 195, 137, 211, 212};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        struct restarts_end end = run_attempt(&file, (int64_t)i, false, codes[i]);
        EXPECT_INT(end.decision, RESTARTS_AGAIN);
        EXPECT(!end.is_nothing_lost);
    }
    EXPECT_INT(run_attempt(&file, 3, false, EXIT_CODE_USAGE).decision, RESTARTS_NEVER);
    // The same iteration three times.
    EXPECT_INT(run_attempt(&file, 50, false, 1).decision, RESTARTS_AGAIN);
    EXPECT_INT(run_attempt(&file, 50, false, 137).decision, RESTARTS_AGAIN);
    struct restarts_end end = run_attempt(&file, 50, false, 1);
    EXPECT_INT(end.decision, RESTARTS_STUCK);
    EXPECT_INT(end.exit_code, EXIT_CODE_NO_PROGRESS);
    // Another job starts over.
    file.job = "8";
    EXPECT_INT(run_attempt(&file, 50, false, 1).decision, RESTARTS_AGAIN);
    end_file(&file, folder);
}

TEST(a_lost_start_is_repeated_on_the_same_machines) {
    char folder[] = "/tmp/bevatron-restarts-XXXXXX";
    struct restarts_file file = make_file(folder);
    file.save = folder;
    for (int i = 0; i < RESTARTS_UNSTARTED - 2; i++) {
        struct restarts_end end = run_attempt(&file, -2, false, 1);
        EXPECT_INT(end.decision, RESTARTS_AGAIN);
        EXPECT(end.is_nothing_lost && end.delay >= 1);
    }
    // The last one may have other machines.
    struct restarts_end end = run_attempt(&file, -2, false, 1);
    EXPECT(end.decision == RESTARTS_AGAIN && !end.is_nothing_lost);
    EXPECT_INT(run_attempt(&file, -2, false, 1).decision, RESTARTS_NO_START);
    // Jobs of a chain that end well: each may lose as many starts.
    file.job = "9";
    for (int i = 0; i < 3 * RESTARTS_UNSTARTED; i++) {
        end = run_attempt(&file, -2, false, 211);
        EXPECT(end.decision == RESTARTS_AGAIN && end.is_nothing_lost);
        EXPECT_INT(run_attempt(&file, 5, false, 0).exit_code, 0);
    }
    // Without checkpoints, only what has computed nothing is repeated.
    file.job = "8";
    file.save = NULL;
    EXPECT_INT(run_attempt(&file, -2, false, 211).decision, RESTARTS_AGAIN);
    EXPECT_INT(run_attempt(&file, 5, false, 211).decision, RESTARTS_NEVER);
    end_file(&file, folder);
}

TEST(memory_is_kept_if_it_cannot_be_the_reason) {
    static const struct {
        int exit_code;
        int64_t reached;
        int at_one_place;
        bool has_started, is_trusted;
    } rows[] = {
        {EXIT_CODE_PEER_LOST, 5, 1, true, true},
        {EXIT_CODE_PEER_LOST, 5, 2, true, false},
        {EXIT_CODE_PEER_LOST, -1, 1, true, true},
        {EXIT_CODE_PEER_LOST, -1, 2, true, false},
        {EXIT_CODE_ERROR, 5, 1, true, false},
        // It failed to start, e.g. since a file was missing; if that repeats, the last attempt does without memory.
        {EXIT_CODE_ERROR, -1, 1, true, true},
        {EXIT_CODE_ERROR, -1, 2, true, false},
        {EXIT_CODE_ERROR, -1, 2, false, true},
        {EXIT_CODE_CORRUPT, -1, 1, true, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct restarts restarts = {.at_one_place = rows[i].at_one_place};
        struct restarts_attempt attempt = {
            .exit_code = rows[i].exit_code, .reached = rows[i].reached, .has_started = rows[i].has_started};
        EXPECT(restarts_trust_memory(&restarts, &attempt) == rows[i].is_trusted);
        attempt.cannot_save = true;
        EXPECT(rows[i].exit_code != EXIT_CODE_ERROR || restarts_trust_memory(&restarts, &attempt));
    }
}

// Memory is lost with the allocation, so ranks that were lost are started again there; not if the run found something
// wrong with itself, or fails at one place.
TEST(memory_keeps_a_job_on_its_machines) {
    char folder[] = "/tmp/bevatron-restarts-XXXXXX";
    struct restarts_file file = make_file(folder);
    file.save = folder;
    file.keeps_memory = true;
    EXPECT(run_attempt(&file, 5, false, EXIT_CODE_PEER_LOST).is_nothing_lost);
    EXPECT(run_attempt(&file, 9, false, 128 + SIGKILL).is_nothing_lost);
    EXPECT(!run_attempt(&file, 12, false, 1).is_nothing_lost);
    EXPECT(!run_attempt(&file, 14, false, EXIT_CODE_CORRUPT).is_nothing_lost);
    EXPECT(run_attempt(&file, 20, false, EXIT_CODE_HANG).is_nothing_lost);
    struct restarts_end end = run_attempt(&file, 20, false, EXIT_CODE_HANG);
    EXPECT(end.decision == RESTARTS_AGAIN && !end.is_nothing_lost);
    end_file(&file, folder);
}

// A job script that died, with its machine, could not say how its attempt ended.
TEST(an_attempt_without_an_end_counts) {
    char folder[] = "/tmp/bevatron-restarts-XXXXXX";
    struct restarts_file file = make_file(folder);
    enum restarts_decision decision;
    file.save = folder;
    static const enum restarts_decision wanted[] = {RESTARTS_AGAIN, RESTARTS_AGAIN, RESTARTS_AGAIN, RESTARTS_STUCK};
    for (int i = 0; i < 4; i++) {
        EXPECT_OK(restarts_file_begin(&file, &decision));
        EXPECT_INT(decision, wanted[i]);
        char *line = memory_printf("%s.lifeline", file.path);
        pid_t child = fork();
        if (child == 0) {
            lifeline_attach(line);
            lifeline_iteration(4);
            _exit(0);
        }
        EXPECT(waitpid(child, NULL, 0) == child);
        free(line);
    }
    end_file(&file, folder);
}

TEST(work_with_a_journal_goes_on_while_it_gets_further) {
    char folder[] = "/tmp/bevatron-restarts-XXXXXX";
    struct restarts_file file = make_file(folder);
    file.journal = memory_printf("%s/journal", folder);
    static const struct {
        bool gets_further;
        int code;
        enum restarts_decision decision;
    } attempts[] = {
        {true, 210, RESTARTS_AGAIN},  {false, 138, RESTARTS_AGAIN}, {true, 210, RESTARTS_AGAIN},
        {false, 210, RESTARTS_AGAIN}, {false, 210, RESTARTS_STUCK}, {true, 210, RESTARTS_AGAIN},
        {true, 2, RESTARTS_NEVER},
    };
    for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
        struct restarts_end end = run_attempt(&file, -2, attempts[i].gets_further, attempts[i].code);
        EXPECT_INT(end.decision, attempts[i].decision);
        EXPECT(!end.is_nothing_lost);
    }
    end_file(&file, folder);
}

// A damaged file costs what was counted, not the run; a pipe of that name is not read.
TEST(a_damaged_state_starts_over) {
    char folder[] = "/tmp/bevatron-restarts-XXXXXX";
    struct restarts_file file = make_file(folder);
    file.save = folder;
    static const char *const texts[] = {"",
                                        "{",
                                        "[]",
                                        "{\"job\": 7}",
                                        "\xff",
                                        "{\"job\":\"7\",\"is_running\":true,\"progress\":\"none\",\"place\":1,"
                                        "\"at_one_place\":99999,\"unstarted\":0,\"in_vain\":0,\"times\":[]}"};
    EXPECT_INT(run_attempt(&file, 5, false, 1).decision, RESTARTS_AGAIN);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        EXPECT_OK(file_write_all(file.path, texts[i], strlen(texts[i])));
        EXPECT_INT(run_attempt(&file, 5, false, 1).decision, RESTARTS_AGAIN);
    }
    end_file(&file, folder);
}

TEST(a_state_is_read_as_it_was_written) {
    static struct restarts_state state = {
        .restarts = {.count = 2, .times = {1.5, 1e9}, .place = -1, .at_one_place = 2, .unstarted = 1, .in_vain = 3},
        .job = "a \"job\"",
        .is_running = true,
        .progress = "none"};
    static struct restarts_state back;
    struct buffer text = {0}, again = {0};
    restarts_state_write(&state, &text);
    EXPECT_OK(restarts_state_read(&back, buffer_string(&text), text.length, "state"));
    restarts_state_write(&back, &again);
    EXPECT_STRING(buffer_string(&again), buffer_string(&text));
    EXPECT(back.restarts.count == 2 && back.restarts.times[1] == 1e9 && back.restarts.place == -1 && back.is_running);
    EXPECT_ERROR(restarts_state_read(&back, "{}", 2, "state"), "state is not a state of restarts");
    buffer_free(&text);
    buffer_free(&again);
}

TEST_MAIN(TEST_CASE(codes_that_say_so_are_final), TEST_CASE(unrelated_failures_within_a_save_interval_are_forgiven),
          TEST_CASE(the_same_iteration_three_times_is_the_end), TEST_CASE(a_rate_limits_restarts_not_a_lifetime),
          TEST_CASE(a_start_that_is_lost_costs_nothing), TEST_CASE(waits_grow_while_nothing_is_gained),
          TEST_CASE(a_stopped_job_continues), TEST_CASE(a_clock_that_was_set_back_forgets_nothing_too_late),
          TEST_CASE(messages_name_the_place), TEST_CASE(a_job_remembers_its_attempts),
          TEST_CASE(memory_is_kept_if_it_cannot_be_the_reason), TEST_CASE(memory_keeps_a_job_on_its_machines),
          TEST_CASE(a_lost_start_is_repeated_on_the_same_machines), TEST_CASE(an_attempt_without_an_end_counts),
          TEST_CASE(work_with_a_journal_goes_on_while_it_gets_further), TEST_CASE(a_damaged_state_starts_over),
          TEST_CASE(a_state_is_read_as_it_was_written))
