// Errors of the file system while a checkpoint is looked for and read: they are waited for, and are never taken for
// damage. The waits are counted, not slept.
#include "base/file.h"
#include "base/file_patience.h"
#include "base/log.h"
#include "base/memory.h"
#include "failing_calls.h"
#include "formats/contents.h"
#include "moved_clock.h"
#include "store/folder.h"
#include "store/small_run.h"
#include "store/temporary.h"

#include <stdlib.h>

static const int errors[] = {EIO, EMFILE, ENFILE, ENOMEM, ESTALE, EACCES, ETIMEDOUT};
enum { ERRORS = sizeof errors / sizeof errors[0], FOR_EVER = 1 << 30 };

static struct moved_clock moved;

// A folder with iterations 10 and 20.
static struct temporary two_checkpoints(void) {
    struct temporary folder = temporary_create_fast();
    log_set_level(LOG_ERROR);
    EXPECT_OK(small_save(folder.path, 10, 0));
    EXPECT_OK(small_save(folder.path, 20, 0));
    return folder;
}

// checkpoint_find's latest for a run that resumes; *loaded is the iteration of its tensors, or -1.
static int resume(const char *folder, const struct failing_calls *calls, int64_t *loaded) {
    struct file_patience patience = {.clock = &moved.clock};
    struct checkpoint_find find = {.folder = folder, .step = -1, .allow_fallback = true};
    char *path = NULL;
    int64_t found = -1;
    *loaded = -1;
    error_clear();
    moved_clock_open(&moved, true);
    file_patience_begin(&patience);
    failing = *calls;
    int result = checkpoint_find(&find, &path, &found);
    if (result == 0)
        result = small_load(path, loaded);
    failing.error = 0;
    file_patience_end(&patience);
    free(path);
    return result;
}

TEST(an_error_that_passes) {
    struct temporary folder = two_checkpoints();
    int64_t loaded;
    for (size_t i = 0; i < ERRORS; i++) {
        int first = 0;
        do {
            first++;
            EXPECT_OK(
                resume(folder.path, &(struct failing_calls){.error = errors[i], .first = first, .times = 1}, &loaded));
            if (loaded != 20)
                test_fail("errno %d at call %d: loaded iteration %d", errors[i], first, (int)loaded);
        } while (failing.failed > 0);
        EXPECT(first > 20);
    }
    temporary_remove(&folder);
}

TEST(an_error_that_stays) {
    struct temporary folder = two_checkpoints();
    int64_t loaded;
    int first = 0, unread = 0;
    do {
        first++;
        int result =
            resume(folder.path, &(struct failing_calls){.error = EIO, .first = first, .times = FOR_EVER}, &loaded);
        if (result == 0)
            continue;
        if (error_exit_code() != EXIT_CODE_ERROR || strstr(error_message(), "damaged: ") ||
            !strstr(error_message(), "Input/output error"))
            test_fail("call %d: code %d: %s", first, (int)error_exit_code(), error_message());
        unread += result == CHECKPOINT_UNREAD;
        EXPECT_NEAR(moved.now, FILE_PATIENCE_SECONDS, 1e-9);
    } while (failing.failed > 0);
    EXPECT_INT(loaded, 20);
    EXPECT(unread > 10);
    temporary_remove(&folder);
}

TEST(damage_is_proved_through_errors) {
    struct temporary folder = two_checkpoints();
    char *path = checkpoint_path(folder.path, 20), *model = file_join(path, "model.safetensors");
    struct buffer content = read_whole(model);
    content.data[content.length - 1] ^= 1;
    write_whole(model, content.data, content.length);
    buffer_free(&content);
    int64_t loaded;
    int first = 0;
    do {
        first++;
        EXPECT_OK(resume(folder.path, &(struct failing_calls){.error = EIO, .first = first, .times = 1}, &loaded));
        EXPECT_INT(loaded, 10);
    } while (failing.failed > 0);
    free(path);
    free(model);
    temporary_remove(&folder);
}

TEST(waits_grow_and_end) {
    struct file_patience outer = {.limit_seconds = 5, .clock = &moved.clock}, inner = {0};
    moved_clock_open(&moved, true);
    EXPECT(!file_try_again(EIO, "x"));
    file_patience_begin(&outer);
    EXPECT(!file_try_again(ENOENT, "x"));
    EXPECT_OK(file_doubt());
    EXPECT(file_try_again(EIO, "x"));
    EXPECT_NEAR(moved.now, 0.1, 1e-9);
    EXPECT(file_try_again(EIO, "x"));
    EXPECT_NEAR(moved.now, 0.3, 1e-9);
    file_patience_begin(&inner);
    while (file_try_again(ESTALE, "folder/y"))
        continue;
    EXPECT_NEAR(moved.now, 5, 1e-9);
    EXPECT_ERROR(file_doubt(), "folder/y");
    file_patience_end(&inner);
    // The limit and the doubt are the outer scope's, too.
    EXPECT(!file_try_again(EIO, "z"));
    EXPECT_ERROR(file_doubt(), "cannot read folder/y: Stale file handle");
    file_patience_end(&outer);
    EXPECT_OK(file_doubt());
    // A permission that is missing is not waited for as long; files of the kernel not at all.
    outer = (struct file_patience){.clock = &moved.clock};
    moved_clock_open(&moved, true);
    file_patience_begin(&outer);
    EXPECT(!file_try_again(EIO, "/sys/class/x"));
    EXPECT_OK(file_doubt());
    while (file_try_again(EACCES, "x"))
        continue;
    EXPECT_NEAR(moved.now, 3, 1e-9);
    EXPECT_ERROR(file_doubt(), "its owner must let you read it");
    while (file_try_again(EIO, "x"))
        continue;
    EXPECT_NEAR(moved.now, FILE_PATIENCE_SECONDS, 1e-9);
    // Hours later the scope has its whole patience again; a call that takes minutes to fail does not renew it.
    moved_clock_move(&moved, FILE_PATIENCE_MEMORY_SECONDS - 1);
    EXPECT(!file_try_again(EIO, "x"));
    moved_clock_move(&moved, 2);
    double begin = moved.now;
    inner = (struct file_patience){0};
    file_patience_begin(&inner);
    while (file_try_again(EIO, "x"))
        continue;
    file_patience_end(&inner);
    EXPECT_NEAR(moved.now - begin, FILE_PATIENCE_SECONDS, 1e-9);
    EXPECT(!file_try_again(EIO, "x"));
    file_patience_end(&outer);
}

static void write_marker(const struct temporary *folder, const char *text) {
    char *path = file_join(folder->path, folder_marker_name());
    write_whole(path, text, strlen(text));
    free(path);
}

static int64_t resumed(const struct temporary *folder) {
    int64_t loaded;
    return resume(folder->path, &(struct failing_calls){0}, &loaded) == 0 ? loaded : -1;
}

TEST(a_marker_is_checked) {
    struct temporary folder = temporary_create_fast();
    log_set_level(LOG_ERROR);
    const int64_t saved[] = {6, 9, 57, 60};
    for (size_t i = 0; i < sizeof saved / sizeof saved[0]; i++)
        EXPECT_OK(small_save(folder.path, saved[i], 0));
    EXPECT_INT(resumed(&folder), 60);
    // Cut by an editor or a copy.
    write_marker(&folder, "6");
    EXPECT_INT(resumed(&folder), 60);
    // Meant: written by hand or by a run that went back, with a newline, or no other begins with it.
    write_marker(&folder, "6\n");
    EXPECT_INT(resumed(&folder), 6);
    write_marker(&folder, "9");
    EXPECT_INT(resumed(&folder), 9);
    // Changed digits: nothing of that name is there, but later ones are.
    write_marker(&folder, "20");
    EXPECT_INT(resumed(&folder), 60);
    write_marker(&folder, "1\n");
    EXPECT_INT(resumed(&folder), 60);
    // Its folder was removed.
    write_marker(&folder, "70");
    EXPECT_INT(resumed(&folder), 60);
    temporary_remove(&folder);
}

// Answer of a query about a run's checkpoints while calls fail; -3 for an error.
static int64_t verified_in(const char *folder) {
    return checkpoint_newest_verified(&(struct checkpoint_wish){.folder = folder, .most = 100});
}

static int64_t latest_in(const char *folder) {
    struct contents contents;
    return contents_look(&contents, folder, -1) == 0 ? contents.iteration : -3;
}

static int64_t files_in(const char *folder) {
    struct checkpoint_file_list list;
    char *path = checkpoint_path(folder, 20);
    int result = checkpoint_file_list_read(&list, path);
    EXPECT(result == 0 || !list.items);
    free(path);
    checkpoint_file_list_free(&list);
    return result == 0 ? 0 : -3;
}

TEST(questions_have_no_answer_that_an_error_made) {
    static const struct {
        int64_t (*ask)(const char *folder);
        int64_t answer, unread;
    } questions[] = {{verified_in, 20, CHECKPOINT_UNREAD}, {latest_in, 20, -3}, {files_in, 0, -3}};
    struct temporary folder = two_checkpoints();
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++)
        for (int times = 1; times > 0; times = times == 1 ? FOR_EVER : 0)
            for (int first = 1, failed = 1, unread = 0; failed > 0; first++) {
                struct file_patience patience = {.clock = &moved.clock};
                moved_clock_open(&moved, true);
                error_clear();
                file_patience_begin(&patience);
                failing = (struct failing_calls){.error = EIO, .first = first, .times = times};
                int64_t answer = questions[i].ask(folder.path);
                failing.error = 0;
                failed = failing.failed;
                file_patience_end(&patience);
                unread += answer == questions[i].unread;
                if (answer != questions[i].answer && (times == 1 || answer != questions[i].unread))
                    test_fail("question %zu, call %d, %d times: %d", i, first, times, (int)answer);
                EXPECT(answer == questions[i].answer || strstr(error_message(), "Input/output error"));
                EXPECT(failed > 0 || (unread > 0) == (times > 1));
            }
    temporary_remove(&folder);
}

TEST_MAIN(TEST_CASE(an_error_that_passes), TEST_CASE(an_error_that_stays), TEST_CASE(damage_is_proved_through_errors),
          TEST_CASE(waits_grow_and_end), TEST_CASE(a_marker_is_checked),
          TEST_CASE(questions_have_no_answer_that_an_error_made))
