// Copies of checkpoints in S3, against the server of tests/net/object_server.h: whole or not there, whatever fails and
// whenever the process is killed.
// tier: all
#include "test.h"

#include "base/clock.h"
#include "net/http.h"
#include "net/object_server.h"
#include "net/remote.h"
#include "store/checkpoint.h"
#include "store/remote_checkpoint.h"
#include <sys/wait.h>

static struct object_server server;
static char root[] = "/dev/shm/bevatron-test-XXXXXX";
static char endpoint[64], *local, *remote, *cache;
static const char url[] = "s3://bucket/runs/a";

static char *get(const char *name) {
    static const char *const variables[][2] = {
        {"AWS_ACCESS_KEY_ID", "AKIDTEST"}, {"AWS_SECRET_ACCESS_KEY", "s"}, {"AWS_ENDPOINT_URL", endpoint}};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        if (strcmp(variables[i][0], name) == 0)
            return (char *)(uintptr_t)variables[i][1];
    return NULL;
}

static void write_file(const char *folder, const char *name, const char *text, size_t count) {
    char *path = file_join(folder, name);
    EXPECT_OK(file_make_parent(path));
    EXPECT_OK(file_write_all(path, text, count));
    free(path);
}

static void set_faults(const char *words) {
    write_file(root, ".faults", words, strlen(words));
}

static void begin(void) {
    if (http_load() < 0)
        test_skip("%s", error_message());
    if (server.port == 0) {
        // In memory if there is such a folder: a server that syncs every object takes long.
        if (!mkdtemp(root)) {
            memcpy(root, "/tmp/bevatron-test-XXXXXX", sizeof "/tmp/bevatron-test-XXXXXX");
            EXPECT(mkdtemp(root));
        }
        server_start(&server, root, 4);
        (void)snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", server.port);
        local = file_join(root, "local");
        cache = file_join(root, "cache");
        remote = file_join(root, "bucket/runs/a");
    }
    EXPECT_OK(file_remove_tree(local));
    EXPECT_OK(file_remove_tree(cache));
    EXPECT_OK(file_remove_tree(remote));
    EXPECT_OK(file_make_folders(local));
    remote_forget();
    remote_set_environment(get);
    // More attempts than faults of any test: all of them may hit one request.
    remote_set_patience(&(struct remote_patience){
        .attempts = 12, .backoff_seconds = 0.001, .stall_seconds = 100, .part_bytes = 1000, .streams = 3});
    set_faults("");
    write_file(root, ".log", "", 0);
}

// Files of all sizes around those of a part; their content depends on `seed`.
static void make_checkpoint(int64_t iteration, int seed) {
    static const size_t sizes[] = {0, 10, 1000, 5500};
    char *path = checkpoint_path(local, iteration);
    struct manifest manifest = {.iteration = iteration};
    EXPECT_OK(file_make_folders(path));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *name = memory_printf("file%zu.bin", i), *bytes = memory_alloc(sizes[i] + 1),
             *whole = file_join(path, name);
        for (size_t k = 0; k < sizes[i]; k++)
            bytes[k] = (char)(k * 31 + (size_t)seed);
        write_file(path, name, bytes, sizes[i]);
        struct manifest_file file = {.name = name, .holds = memory_string("file"), .bytes = sizes[i]};
        EXPECT_OK(sha256_file(whole, file.sha256));
        manifest_add(&manifest, file);
        free(bytes);
        free(whole);
    }
    EXPECT_OK(manifest_write(&manifest, path));
    EXPECT_OK(folder_marker_write(local, iteration));
    manifest_free(&manifest);
    free(path);
}

static const struct remote_copy_options *options(int64_t keep_last) {
    static struct remote_copy_options made;
    made = (struct remote_copy_options){.folder = local, .url = url, .keep_last = keep_last};
    return &made;
}

// Copies what is the latest, and waits.
static int try_copy(int64_t keep_last) {
    return remote_copier_finish(remote_copier_start(options(keep_last)), true);
}

static void copy(int64_t keep_last) {
    EXPECT_OK(try_copy(keep_last));
}

static int64_t marked(void) {
    int64_t iteration = -1;
    return file_is_folder(remote) && folder_marker_read(remote, &iteration) > 0 ? iteration : -1;
}

// Every checkpoint that has a manifest is whole, and the marker names one of them.
static void expect_whole(void) {
    struct folder_list list = {0};
    bool has_marked = marked() < 0;
    if (file_is_folder(remote))
        EXPECT_OK(folder_list_read(&list, remote));
    for (size_t i = 0; i < list.count; i++) {
        char *path = checkpoint_path(remote, list.iterations[i]), *name = file_join(path, "manifest.json");
        if (file_exists(name)) {
            EXPECT_OK(checkpoint_verify(path, false));
            has_marked = has_marked || list.iterations[i] == marked();
        }
        free(name);
        free(path);
    }
    folder_list_free(&list);
    EXPECT(has_marked);
}

TEST(a_copy_is_whole_whatever_fails) {
    begin();
    make_checkpoint(10, 1);
    set_faults("ok\nok\n500\nreset\nok\n503\nshort\nok\nreset\n500\nok\nshort\n503\n503\n");
    copy(0);
    EXPECT_INT(marked(), 10);
    expect_whole();
    make_checkpoint(20, 2);
    copy(0);
    EXPECT_INT(marked(), 20);
    expect_whole();
    // What is there already is not sent again.
    write_file(root, ".log", "", 0);
    copy(0);
    struct buffer log = {0};
    char *path = file_join(root, ".log");
    EXPECT_OK(file_read_all(path, 1 << 20, &log));
    EXPECT(!strstr(buffer_string(&log), "PUT"));
    buffer_free(&log);
    free(path);
}

TEST(a_copy_that_fails_is_tried_once_more_at_the_end) {
    begin();
    make_checkpoint(10, 1);
    // A part of the large file is refused.
    set_faults("ok\nok\nok\nok\nok\nok\nok\nok\n405\n");
    copy(0);
    EXPECT_INT(marked(), 10);
    expect_whole();
    // Everything is refused but the marker's first look.
    make_checkpoint(20, 2);
    set_faults("ok\n405\n405\n");
    EXPECT_ERROR(try_copy(0), "the checkpoint of iteration 20 was not copied to s3://bucket/runs/a; it is in");
    EXPECT(strstr(error_message(), "run the same command again"));
    EXPECT_INT(marked(), 10);
    // A process that is to end at once does not try.
    set_faults("ok\n405\n");
    EXPECT_OK(remote_copier_finish(remote_copier_start(options(0)), false));
    EXPECT_INT(marked(), 10);
    set_faults("");
    copy(0);
    EXPECT_INT(marked(), 20);
    expect_whole();
}

TEST(a_copy_that_fails_leaves_the_last_one_and_no_parts) {
    begin();
    make_checkpoint(10, 1);
    copy(0);
    make_checkpoint(20, 2);
    static const char other[5500];
    char *path = checkpoint_path(local, 20);
    // A file that has been damaged since it was saved is not passed on.
    write_file(path, "file3.bin", other, sizeof other);
    EXPECT_ERROR(try_copy(0), "file3.bin is damaged");
    EXPECT_INT(marked(), 10);
    expect_whole();
    // Nothing of the parts stays.
    char *uploads = file_join(root, ".uploads");
    EXPECT(file_is_empty_folder(uploads));
    free(uploads);
    free(path);
}

// The process is killed while the server holds back its n-th answer, for every n there is.
TEST(a_kill_at_any_moment_leaves_a_whole_checkpoint) {
    int n = 0;
    for (bool is_done = false; !is_done; n++) {
        begin();
        make_checkpoint(10, 1);
        copy(1);
        make_checkpoint(20, 2);
        struct buffer faults = {0};
        for (int i = 0; i < n; i++)
            buffer_append_string(&faults, "ok\n");
        buffer_append_string(&faults, "stall\n");
        set_faults(buffer_string(&faults));
        buffer_free(&faults);
        http_close_idle();
        pid_t child = fork();
        if (child == 0) {
            copy(1);
            _exit(0);
        }
        char *path = file_join(root, ".faults");
        uint64_t left = 1;
        int ended = 0;
        while (left > 0 && ended == 0) {
            EXPECT_OK(file_size(path, &left));
            ended = waitpid(child, NULL, WNOHANG);
            clock_sleep(0.002);
        }
        is_done = ended != 0;
        if (!is_done) {
            kill(child, SIGKILL);
            (void)waitpid(child, NULL, 0);
        }
        set_faults("");
        EXPECT(marked() == 10 || marked() == 20);
        expect_whole();
        // The next start brings it to its end, and leaves nothing of the old one.
        remote_forget();
        if (!is_done) {
            remote_copier_finish(remote_copier_start(options(1)), true);
            make_checkpoint(30, 3);
            copy(1);
            EXPECT_INT(marked(), 30);
            expect_whole();
            struct remote_list list;
            EXPECT_OK(remote_list(&list, "s3://bucket/runs/a/iter_0000010", false));
            EXPECT_INT(list.count, 0);
            remote_list_free(&list);
        }
        free(path);
    }
    printf("    killed at %d moments\n", n - 1);
    EXPECT(n > 15);
}

TEST(old_copies_are_removed_and_other_objects_stay) {
    begin();
    for (int i = 1; i <= 4; i++) {
        make_checkpoint(10 * i, i);
        copy(2);
        write_file(remote, "iter_0000010/mine.txt", "x", 1);
    }
    EXPECT_INT(marked(), 40);
    expect_whole();
    struct folder_list list;
    EXPECT_OK(remote_folder_list(&list, url, "manifest.json"));
    EXPECT_INT(list.count, 2);
    EXPECT_INT(list.iterations[0], 30);
    folder_list_free(&list);
    char *path = file_join(remote, "iter_0000010/mine.txt");
    EXPECT(file_exists(path));
    free(path);
    // The same iteration saved again, with other weights.
    make_checkpoint(40, 9);
    EXPECT_OK(folder_marker_write(remote, 30));
    copy(2);
    EXPECT_INT(marked(), 40);
    expect_whole();
}

// A removal was interrupted, and then the run saves that iteration again.
TEST(a_new_copy_ends_an_old_removal) {
    begin();
    make_checkpoint(10, 1);
    copy(0);
    char *manifest = file_join(remote, "iter_0000010/manifest.json");
    char *deleting = file_join(remote, "iter_0000010/deleting.json");
    // Interrupted after the manifest was removed, and before.
    for (int round = 0; round < 2; round++) {
        struct buffer text = {0};
        EXPECT_OK(file_read_all(manifest, 1 << 20, &text));
        EXPECT_OK(file_write_all(deleting, text.data, text.length));
        if (round == 0)
            EXPECT_OK(unlink(manifest));
        EXPECT_OK(folder_marker_write(remote, 5));
        buffer_free(&text);
        copy(2);
        EXPECT(!file_exists(deleting));
        make_checkpoint(20 + round, 2);
        copy(3);
        EXPECT(file_exists(manifest));
        expect_whole();
        make_checkpoint(10, 1);
    }
    free(manifest);
    free(deleting);
}

TEST(an_address_of_another_run_is_refused) {
    begin();
    EXPECT_OK(remote_copy_check(options(0), -1));
    make_checkpoint(10, 1);
    copy(0);
    EXPECT_ERROR(remote_copy_check(options(0), -1), "holds checkpoints of another run, up to iteration 10");
    EXPECT_OK(remote_copy_check(options(0), 9));
    char *given_up = checkpoint_path(local, 10);
    EXPECT_OK(file_remove_tree(given_up));
    free(given_up);
    EXPECT_ERROR(remote_copy_check(options(0), 9), "up to iteration 10, --save");
    EXPECT_OK(remote_copy_check(options(0), 10));
    EXPECT_OK(remote_copy_check(options(0), 11));
    EXPECT_OK(remote_copy_check(options(0), REMOTE_COPY_LOADED));
    set_faults("ok\n403\n");
    EXPECT_ERROR(remote_copy_check(options(0), 10), "--save-to: cannot write s3://bucket/runs/a/.bevatron-probe");
}

// A run that went back: what it gave up is still there and here. The marker follows, at the next start or at once.
TEST(a_copy_follows_a_run_that_goes_back) {
    begin();
    make_checkpoint(4, 1);
    copy(0);
    make_checkpoint(6, 1);
    copy(0);
    EXPECT_OK(folder_marker_write(local, 4));
    EXPECT_OK(remote_copy_check(options(0), 4));
    EXPECT_INT(marked(), 6);
    copy(0);
    EXPECT_INT(marked(), 4);
    expect_whole();
    make_checkpoint(6, 2);
    struct remote_copier *copier = remote_copier_start(options(0));
    EXPECT_OK(folder_marker_write(local, 4));
    remote_copier_offer(copier, (struct remote_offer){.iteration = 4});
    EXPECT_OK(remote_copier_finish(copier, true));
    EXPECT_INT(marked(), 4);
    expect_whole();
    // The latest one is in another folder.
    EXPECT_OK(folder_marker_write(local, 5));
    copy(0);
    EXPECT_INT(marked(), 4);
}

// Unrequested checkpoints do not pile up in S3; the best one stays until there is a better one.
TEST(replaces_passing_checkpoints) {
    static const struct remote_offer offers[] = {
        {2, true, 0}, {4, true, 4}, {6, true, 4}, {8, true, 8}, {10, false, 8}};
    struct folder_list list;
    begin();
    struct remote_copier *copier = remote_copier_start(options(0));
    for (size_t i = 0; i < sizeof offers / sizeof offers[0]; i++) {
        make_checkpoint(offers[i].iteration, 1);
        remote_copier_offer(copier, offers[i]);
        for (double end = clock_seconds() + 900; marked() != offers[i].iteration && clock_seconds() < end;)
            clock_sleep(1e-3);
    }
    EXPECT_OK(remote_copier_finish(copier, true));
    expect_whole();
    EXPECT_OK(folder_list_read(&list, remote));
    size_t whole = 0;
    for (size_t i = 0; i < list.count; i++) {
        char *path = checkpoint_path(remote, list.iterations[i]), *name = file_join(path, "manifest.json");
        whole += file_exists(name);
        EXPECT(!file_exists(name) || list.iterations[i] >= 8);
        free(name);
        free(path);
    }
    EXPECT_INT((int64_t)whole, 2);
    folder_list_free(&list);
}

// 1, 0 if there is none, -1. The download is held by `hold`, or not at all.
static int fetch_cached(int64_t step, struct file_lock *hold) {
    struct checkpoint_fetch fetch = {.url = url, .folder = cache};
    struct checkpoint_cached cached;
    remote_forget();
    int status = checkpoint_fetch_choose(url, step, &fetch.iteration);
    if (status <= 0)
        return status;
    TRY(checkpoint_fetch_cached(&fetch, &cached));
    if (hold)
        *hold = cached.hold;
    else
        file_lock_release(&cached.hold);
    free(cached.folder);
    return 1;
}

static char *place_of(int64_t iteration) {
    return memory_printf("%s/%lld", cache, (long long)iteration);
}

static bool is_cached(int64_t iteration) {
    char *place = place_of(iteration);
    bool exists = file_exists(place);
    free(place);
    return exists;
}

static void expect_cached(int64_t iteration) {
    char *place = place_of(iteration), *path = checkpoint_path(place, iteration);
    int64_t latest = -1;
    EXPECT_OK(checkpoint_verify(path, false));
    EXPECT_INT(folder_marker_read(place, &latest), 1);
    EXPECT_INT(latest, iteration);
    free(path);
    free(place);
}

TEST(checkpoints_are_fetched_and_verified) {
    begin();
    EXPECT_INT(fetch_cached(-1, NULL), 0);
    make_checkpoint(10, 1);
    copy(0);
    make_checkpoint(20, 2);
    copy(0);
    set_faults("ok\nok\nok\nok\nok\nshort\nreset\n500\nok\nshort\n");
    EXPECT_OK(fetch_cached(-1, NULL));
    expect_cached(20);
    EXPECT_INT(fetch_cached(10, NULL), 1);
    expect_cached(10);
    EXPECT(!is_cached(20));
    EXPECT_ERROR(fetch_cached(15, NULL), "there is no complete checkpoint of iteration 15");
    // Without the marker, or with one that runs ahead, the newest complete one counts.
    EXPECT_OK(folder_marker_write(remote, 99));
    EXPECT_INT(fetch_cached(-1, NULL), 1);
    expect_cached(20);
    // A folder of --save that is newer stays as it is.
    EXPECT_OK(folder_marker_write(remote, 10));
    EXPECT_OK(checkpoint_fetch(
        &(struct checkpoint_fetch){.url = url, .folder = local, .iteration = 10, .prefers_newer = true}));
    int64_t latest;
    EXPECT_INT(folder_marker_read(local, &latest), 1);
    EXPECT_INT(latest, 20);
    // Damage.
    write_file(remote, "iter_0000010/file2.bin", "x", 1);
    EXPECT_OK(file_remove_tree(cache));
    EXPECT_ERROR(fetch_cached(10, NULL), "file2.bin is damaged: its SHA-256");
    struct folder_list list;
    char *place = place_of(10);
    EXPECT_OK(folder_list_read(&list, place));
    EXPECT_INT(list.count, 0);
    folder_list_free(&list);
    free(place);
}

// Files that a process is loading are kept, whatever others download, and removed when that process has ended.
TEST(a_checkpoint_in_use_is_not_removed) {
    struct file_lock hold = {0}, other = {0};
    begin();
    make_checkpoint(10, 1);
    copy(0);
    EXPECT_INT(fetch_cached(-1, &hold), 1);
    make_checkpoint(20, 2);
    copy(0);
    int ends[2];
    char held = 0;
    http_close_idle();
    EXPECT(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        held = fetch_cached(-1, &other) == 1;
        if (write(ends[1], &held, 1) == 1)
            pause();
        _exit(0);
    }
    EXPECT(read(ends[0], &held, 1) == 1 && held == 1);
    close(ends[0]), close(ends[1]);
    expect_cached(10);
    expect_cached(20);
    // Two use the same one; the first to let go leaves it to the other.
    EXPECT_INT(fetch_cached(10, &other), 1);
    file_lock_release(&hold);
    EXPECT_INT(fetch_cached(20, NULL), 1);
    expect_cached(10);
    file_lock_release(&other);
    EXPECT_INT(fetch_cached(20, NULL), 1);
    EXPECT(!is_cached(10));
    // The run was rolled back and has saved the iteration again.
    make_checkpoint(20, 3);
    EXPECT_OK(folder_marker_write(remote, 10));
    copy(0);
    EXPECT_ERROR(fetch_cached(20, NULL), "holds an older checkpoint of iteration 20, and another process uses it");
    // A killed process uses nothing.
    kill(child, SIGKILL);
    EXPECT(waitpid(child, NULL, 0) == child);
    EXPECT_INT(fetch_cached(20, NULL), 1);
    expect_cached(20);
}

// Several processes that start at the same time share one download.
TEST(processes_share_a_download) {
    begin();
    make_checkpoint(10, 1);
    copy(0);
    write_file(root, ".log", "", 0);
    http_close_idle();
    pid_t children[4];
    for (int i = 0; i < 4; i++) {
        children[i] = fork();
        if (children[i] == 0)
            _exit(fetch_cached(-1, NULL) == 1 ? 0 : 1);
    }
    for (int i = 0; i < 4; i++) {
        int status;
        EXPECT(waitpid(children[i], &status, 0) == children[i]);
        EXPECT_INT(status, 0);
    }
    expect_cached(10);
    struct buffer log = {0};
    char *path = file_join(root, ".log");
    int count = 0;
    EXPECT_OK(file_read_all(path, 1 << 20, &log));
    for (const char *at = buffer_string(&log); (at = strstr(at, "file1.bin")); at++)
        count++;
    EXPECT_INT(count, 1);
    buffer_free(&log);
    free(path);
    remote_forget();
    http_close_idle();
    EXPECT_OK(file_remove_tree(root));
    free(local);
    free(cache);
    free(remote);
    server.port = 0;
}

TEST_MAIN(TEST_CASE(a_copy_is_whole_whatever_fails), TEST_CASE(replaces_passing_checkpoints),
          TEST_CASE(a_copy_that_fails_is_tried_once_more_at_the_end),
          TEST_CASE(a_copy_that_fails_leaves_the_last_one_and_no_parts),
          TEST_CASE(a_kill_at_any_moment_leaves_a_whole_checkpoint),
          TEST_CASE(old_copies_are_removed_and_other_objects_stay), TEST_CASE(a_new_copy_ends_an_old_removal),
          TEST_CASE(an_address_of_another_run_is_refused), TEST_CASE(a_copy_follows_a_run_that_goes_back),
          TEST_CASE(checkpoints_are_fetched_and_verified), TEST_CASE(a_checkpoint_in_use_is_not_removed),
          TEST_CASE(processes_share_a_download))
