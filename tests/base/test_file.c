// Files that are complete or absent: the atomic writer with and without failures, reading, mapping, folders.
#include "test.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/watchdog.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Replaces the C library's function: records what is synced.
static ino_t synced[64];
static int synced_count;

int fsync(int descriptor) {
    struct stat status;
    if (fstat(descriptor, &status) == 0 && synced_count < 64)
        synced[synced_count++] = status.st_ino;
    return (int)syscall(SYS_fsync, descriptor);
}

// The same: counts the pieces that were waited for, and fails on request.
static int pieces_synced, piece_error;

int sync_file_range(int descriptor, off64_t offset, off64_t count, unsigned flags) {
    (void)descriptor;
    (void)offset;
    (void)count;
    pieces_synced += (flags & SYNC_FILE_RANGE_WAIT_AFTER) != 0;
    errno = piece_error;
    return piece_error ? -1 : 0;
}

static bool was_synced(const char *path) {
    struct stat status;
    if (stat(path, &status) < 0)
        return false;
    for (int i = 0; i < synced_count; i++)
        if (synced[i] == status.st_ino)
            return true;
    return false;
}

// A fresh folder for one test; it is removed with everything in it at the end.
static char *make_place(void) {
    char *place = memory_string("/tmp/bevatron-test-XXXXXX");
    if (!mkdtemp(place))
        test_fail("cannot make a folder in /tmp");
    return place;
}

static void remove_place(char *place) {
    EXPECT_OK(file_remove_tree(place));
    EXPECT(!file_exists(place));
    free(place);
}

static int entries_in(const char *folder) {
    DIR *open_folder = opendir(folder);
    int count = 0;
    if (!open_folder)
        return -1;
    for (struct dirent *entry; (entry = readdir(open_folder));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(open_folder);
    return count;
}

static void expect_contents(const char *path, const char *expected) {
    struct buffer text = {0};
    EXPECT_OK(file_read_all(path, 1000, &text));
    EXPECT_STRING(buffer_string(&text), expected);
    buffer_free(&text);
}

TEST(bytes_are_moved_whole) {
    char *place = make_place(), *path = file_join(place, "x"), bytes[16];
    int file = open(path, O_RDWR | O_CREAT, 0600), ends[2];
    EXPECT_INT(file_put(file, "0123456789", 10), 10);
    EXPECT_INT(file_write_at(file, "ab", 2, 4), 2);
    EXPECT_INT(file_read_at(file, bytes, 4, 3), 4);
    EXPECT(memcmp(bytes, "3ab6", 4) == 0);
    EXPECT_INT(file_read_at(file, bytes, 16, 7), 3);
    EXPECT_INT(errno, 0);
    EXPECT_INT(file_read_at(-1, bytes, 16, 7), 0);
    EXPECT_INT(errno, EBADF);
    EXPECT(pipe2(ends, O_NONBLOCK) == 0);
    // Only as much as the pipe holds.
    OWNED char *many = memory_alloc(1 << 24);
    size_t done = file_put(ends[1], many, 1 << 24);
    EXPECT(done > 0 && done < 1 << 24 && errno == EAGAIN);
    close(ends[0]);
    close(ends[1]);
    close(file);
    free(path);
    remove_place(place);
}

TEST(commit_and_abort) {
    char *place = make_place(), *path = file_join(place, "f");
    struct file_writer writer;
    EXPECT_OK(file_create(&writer, path));
    EXPECT_OK(file_write(&writer, "hello ", 6));
    EXPECT(!file_exists(path));
    EXPECT_INT(entries_in(place), 1);
    EXPECT_OK(file_write(&writer, "world", 5));
    EXPECT_INT(writer.written_bytes, 11);
    EXPECT_OK(file_commit(&writer));
    EXPECT_INT(entries_in(place), 1);
    expect_contents(path, "hello world");
    file_abort(&writer);  // does nothing after a commit
    expect_contents(path, "hello world");

    // A second writer replaces the file only when it commits.
    EXPECT_OK(file_create(&writer, path));
    EXPECT_OK(file_write(&writer, "new", 3));
    expect_contents(path, "hello world");
    file_abort(&writer);
    EXPECT_INT(entries_in(place), 1);
    expect_contents(path, "hello world");
    EXPECT_OK(file_write_all(path, "", 0));
    expect_contents(path, "");
    EXPECT_ERROR(file_write(&writer, "x", 1), "closed");
    EXPECT_ERROR(file_commit(&writer), "closed");

    struct file_writer zeroed = {0};
    file_abort(&zeroed);
    EXPECT(fcntl(0, F_GETFD) >= 0);  // descriptor 0 of a zeroed writer was not its own
    free(path);
    remove_place(place);
}

TEST(sizes_around_the_block) {
    char *place = make_place(), *path = file_join(place, "f");
    static const size_t pieces[] = {1, 4095, 262143, 262144, 262145, 700000};
    size_t total = 2000003;
    unsigned char *bytes = memory_alloc(total);
    for (size_t i = 0; i < total; i++)
        bytes[i] = (unsigned char)(i ^ i >> 8 ^ i >> 16);
    for (size_t p = 1; p < sizeof pieces / sizeof pieces[0]; p++) {
        struct file_writer writer;
        EXPECT_OK(file_create(&writer, path));
        for (size_t at = 0, k = p; at < total; k++) {
            // Alternating sizes, so that the pending block is hit in every state.
            size_t piece = pieces[k % 2 ? p : p - 1];
            piece = piece < total - at ? piece : total - at;
            EXPECT_OK(file_write(&writer, bytes + at, piece));
            at += piece;
        }
        EXPECT_OK(file_commit(&writer));
        struct file_map map;
        EXPECT_OK(file_map_open(&map, path));
        EXPECT_INT(map.size, total);
        EXPECT(memcmp(map.data, bytes, total) == 0);
        file_map_close(&map);
        EXPECT(map.data == NULL);
    }
    free(bytes);
    free(path);
    remove_place(place);
}

TEST(full_disk_leaves_nothing) {
    char *place = make_place(), *path = file_join(place, "f");
    EXPECT_OK(file_write_all(path, "old", 3));
    struct rlimit before, tight;
    EXPECT(getrlimit(RLIMIT_FSIZE, &before) == 0);
    tight = (struct rlimit){.rlim_cur = 300000, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    unsigned char *bytes = memory_alloc(1000000);
    EXPECT(setrlimit(RLIMIT_FSIZE, &tight) == 0);
    struct file_writer writer;
    int created = file_create(&writer, path);
    int written = file_write(&writer, bytes, 1000000);
    bool says_remedy = strstr(error_message(), path) && strstr(error_message(), "ulimit -f");
    int left = entries_in(place);
    // Writing the pending block fails at the commit.
    int small = file_create(&writer, path);
    for (int i = 0; i < 4 && small == 0; i++)
        small = file_write(&writer, bytes, 100000);
    int committed = file_commit(&writer);
    setrlimit(RLIMIT_FSIZE, &before);
    free(bytes);
    EXPECT_INT(created, 0);
    EXPECT_INT(written, -1);
    EXPECT(says_remedy);
    EXPECT_INT(left, 1);
    EXPECT_INT(committed, -1);
    EXPECT_INT(entries_in(place), 1);
    expect_contents(path, "old");
    free(path);
    remove_place(place);
}

TEST(full_device) {
    if (!file_exists("/dev/full"))
        test_skip("no /dev/full here");
    // The writer itself refuses devices, so the test replaces its descriptor.
    char *place = make_place(), *path = file_join(place, "f");
    struct file_writer writer;
    EXPECT_OK(file_create(&writer, path));
    int full = open("/dev/full", O_WRONLY);
    EXPECT(full >= 0 && dup2(full, writer.descriptor) >= 0);
    close(full);
    EXPECT_OK(file_write(&writer, "x", 1));
    EXPECT_ERROR(file_commit(&writer), "No space left on device; free some space");
    EXPECT_INT(entries_in(place), 0);
    free(path);
    remove_place(place);
}

TEST(bad_targets) {
    char *place = make_place(), *path = file_join(place, "missing/f"), *pipe_path = file_join(place, "pipe");
    struct file_writer writer;
    EXPECT_ERROR(file_create(&writer, path), "create the folder first");
    EXPECT(strstr(error_message(), path));
    file_abort(&writer);
    EXPECT_ERROR(file_create(&writer, place), "is a folder");
    EXPECT_ERROR(file_create(&writer, ""), "empty file name");
    EXPECT_ERROR(file_create(&writer, "/dev/null"), "regular file");
    EXPECT(mkfifo(pipe_path, 0600) == 0);
    EXPECT_ERROR(file_create(&writer, pipe_path), "regular file");
    if (geteuid() == 0) {
        EXPECT_ERROR(file_create(&writer, "/proc/f"), "/proc/f");
    } else {
        EXPECT(chmod(place, 0500) == 0);
        free(path);
        path = file_join(place, "f");
        EXPECT_ERROR(file_create(&writer, path), "get write permission");
        EXPECT(chmod(place, 0700) == 0);
    }
    free(path);
    free(pipe_path);
    remove_place(place);
}

// A pipe where a file should be: opening does not wait for its other end.
TEST(pipes_are_not_files) {
    char *place = make_place(), *path = file_join(place, "pipe");
    struct file_map map;
    struct buffer text = {0};
    EXPECT(mkfifo(path, 0600) == 0);
    EXPECT_ERROR(file_map_open(&map, path), "it is a pipe (FIFO), not a regular file");
    EXPECT_ERROR(file_read_own(path, 100, &text), "is a pipe (FIFO), not a regular file");
    EXPECT_ERROR(file_read_own("/dev/null", 100, &text), "is a device, not");
    // One with a writer is read where pipes make sense.
    pid_t child = fork();
    if (child == 0) {
        int descriptor = open(path, O_WRONLY);
        usleep(200000);
        _exit(descriptor >= 0 && write(descriptor, "late", 4) == 4 ? 0 : 1);
    }
    EXPECT_OK(file_read_all(path, 100, &text));
    EXPECT_STRING(buffer_string(&text), "late");
    int status = 1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    buffer_free(&text);
    free(path);
    remove_place(place);
}

TEST(links_keep_pointing) {
    char *place = make_place(), *real = file_join(place, "real"), *link = file_join(place, "link");
    char *lost = file_join(place, "lost");
    struct stat status;
    EXPECT_OK(file_write_all(real, "1", 1));
    EXPECT(symlink("real", link) == 0 && symlink("nowhere", lost) == 0);
    EXPECT_OK(file_write_all(link, "2", 1));
    EXPECT(lstat(link, &status) == 0 && S_ISLNK(status.st_mode));
    expect_contents(real, "2");
    EXPECT_ERROR(file_write_all(lost, "3", 1), "dangling symbolic link");
    free(real);
    free(link);
    free(lost);
    remove_place(place);
}

TEST(finish_then_publish) {
    char *place = make_place(), *path = file_join(place, "f");
    struct file_writer writer;
    EXPECT_OK(file_write_all(path, "old", 3));
    EXPECT_OK(file_create(&writer, path));
    EXPECT_OK(file_write(&writer, "new", 3));
    EXPECT_OK(file_finish(&writer));
    expect_contents(path, "old");
    expect_contents(writer.temporary, "new");
    EXPECT(was_synced(writer.temporary));
    EXPECT_ERROR(file_write(&writer, "x", 1), "closed");
    synced_count = 0;
    EXPECT_OK(file_publish(&writer));
    expect_contents(path, "new");
    EXPECT(was_synced(place));
    EXPECT_OK(file_create(&writer, path));
    EXPECT_OK(file_finish(&writer));
    file_abort(&writer);
    expect_contents(path, "new");
    EXPECT_INT(entries_in(place), 1);
    free(path);
    remove_place(place);
}

// Two containers may have the same process number and folder: neither removes the other's file.
TEST(temporaries_never_meet) {
    char *place = make_place(), *path = file_join(place, "f");
    struct file_writer a, b;
    EXPECT_OK(file_create(&a, path));
    EXPECT_OK(file_write(&a, "first", 5));
    EXPECT_OK(file_create(&b, path));
    EXPECT_OK(file_write(&b, "second", 6));
    EXPECT(strcmp(a.temporary, b.temporary) != 0);
    EXPECT_OK(file_commit(&a));
    expect_contents(path, "first");
    EXPECT_OK(file_commit(&b));
    expect_contents(path, "second");
    EXPECT_INT(entries_in(place), 1);
    free(path);
    remove_place(place);
}

static void set_age(const char *path, int64_t seconds) {
    struct timeval times[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
    EXPECT(utimes(path, times) == 0);
}

// Leftovers are names of this host and a dead process, or a day old.
TEST(owners_of_temporaries) {
    char *place = make_place(), *path = file_join(place, "f"), *own = file_temporary_name(path);
    EXPECT_INT(file_temporary_owner(own), FILE_TEMPORARY_OWN);
    // A child's name while it lives, and after it has ended.
    int ready[2];
    EXPECT(pipe(ready) == 0);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        char *name = file_temporary_name(path);
        _exit(write(ready[1], name, strlen(name) + 1) < 0 || pause() < 0);
    }
    char name[512] = "";
    EXPECT(read(ready[0], name, sizeof name - 1) > 0);
    close(ready[0]), close(ready[1]);
    EXPECT_INT(file_temporary_owner(name), FILE_TEMPORARY_LIVE);
    // Also if its parent, e.g. the first process of a container, does not ask how it ended.
    siginfo_t ended;
    EXPECT(kill(child, SIGKILL) == 0 && waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT) == 0);
    EXPECT_INT(file_temporary_owner(name), FILE_TEMPORARY_DEAD);
    EXPECT_INT(waitpid(child, NULL, 0), child);
    EXPECT_INT(file_temporary_owner(name), FILE_TEMPORARY_DEAD);
    // The same process number on another host may well be alive.
    char *host = strstr(name, ".tmp.") + 5;
    host[0] = host[0] == 'x' ? 'y' : 'x';
    static const char *const foreign[] = {"f.tmp.123", "f.tmp.old.77",     "f.tmp.a.b.c", ".tmp.",
                                          "f",         "f.tmp..1.00000000"};
    EXPECT_INT(file_temporary_owner(name), FILE_TEMPORARY_LIVE);
    EXPECT_OK(file_write_all(name, "x", 1));
    EXPECT_INT(file_temporary_owner(name), FILE_TEMPORARY_LIVE);
    set_age(name, 23 * 3600);
    EXPECT_INT(file_temporary_owner(name), FILE_TEMPORARY_LIVE);
    set_age(name, 25 * 3600);
    EXPECT_INT(file_temporary_owner(name), FILE_TEMPORARY_DEAD);
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        EXPECT_INT(file_temporary_owner(foreign[i]), FILE_TEMPORARY_LIVE);
    free(own);
    free(path);
    remove_place(place);
}

// Leftovers of a killed writer are removed when the file is written again; live writers' files and other names stay.
TEST(leftovers_are_swept) {
    char *place = make_place(), *path = file_join(place, "f"), *other = file_join(place, "f.bin");
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            struct file_writer killed;
            _exit(file_create(&killed, i ? other : path) < 0);
        }
        int status = 0;
        EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    char *copy = file_join(place, "f.tmp.old");
    EXPECT_OK(file_write_all(copy, "x", 1));
    set_age(copy, 48 * 3600);
    struct file_writer live;
    EXPECT_OK(file_create(&live, path));
    EXPECT_INT(entries_in(place), 3);  // the other file's, the copy, the live one
    EXPECT_OK(file_write_all(path, "x", 1));
    EXPECT(file_exists(live.temporary) && file_exists(copy));
    EXPECT_INT(entries_in(place), 4);
    EXPECT_OK(file_write_all(other, "x", 1));
    EXPECT_INT(entries_in(place), 4);
    file_abort(&live);
    free(path), free(other), free(copy);
    remove_place(place);
}

// The folder of a model that a killed program was writing goes when the model is written again, and so does what was to
// become a temporary file. Those of live writers and other names stay.
TEST(folders_are_swept) {
    char *place = make_place(), *path = file_join(place, "model"), *own = file_temporary_name(path);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        char *folder = file_temporary_name(path), *file = file_join(folder, "weights"), *inner;
        bool is_made = file_make_folders(folder) == 0 && file_write_all(file, "x", 1) == 0;
        inner = file_temporary_name(folder);
        is_made = is_made && file_write_all(inner, "x", 1) == 0;
        _exit(!is_made);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    char *copy = file_join(place, "model.tmp.old");
    EXPECT_OK(file_make_folders(own));
    EXPECT_OK(file_make_folders(copy));
    EXPECT_INT(entries_in(place), 4);
    file_sweep(path);
    EXPECT_INT(entries_in(place), 2);
    EXPECT(file_exists(own) && file_exists(copy));
    free(path), free(own), free(copy);
    remove_place(place);
}

// A folder with a temporary name is removed as a whole: ranks that write to it do not read all names in it.
TEST(new_folders_are_not_swept) {
    char *place = make_place(), *whole = file_join(place, "iter_0000001"), *folder = file_temporary_name(whole);
    char *path = file_join(folder, "f");
    EXPECT_OK(file_make_folders(folder));
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        struct file_writer killed;
        _exit(file_create(&killed, path) < 0);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_OK(file_write_all(path, "x", 1));
    EXPECT_INT(entries_in(folder), 2);
    EXPECT_OK(file_remove_tree(folder));
    free(whole), free(folder), free(path);
    remove_place(place);
}

TEST(new_folders_are_synced) {
    char *place = make_place(), *outer = file_join(place, "a"), *inner = file_join(outer, "b");
    synced_count = 0;
    EXPECT_OK(file_make_folders(inner));
    EXPECT(was_synced(place) && was_synced(outer));
    synced_count = 0;
    EXPECT_OK(file_make_folders(inner));
    EXPECT_INT(synced_count, 0);
    free(outer), free(inner);
    remove_place(place);
}

TEST(reading) {
    char *place = make_place(), *path = file_join(place, "f");
    struct buffer text = {0};
    struct file_map map;
    uint64_t size;
    EXPECT_ERROR(file_read_all(path, 10, &text), path);
    EXPECT_ERROR(file_map_open(&map, path), path);
    EXPECT(map.data == NULL);
    EXPECT_ERROR(file_size(path, &size), path);
    EXPECT_ERROR(file_read_all(place, 10, &text), "is a folder");
    EXPECT_ERROR(file_map_open(&map, place), "is a folder");
    EXPECT_OK(file_write_all(path, "0123456789", 10));
    EXPECT_OK(file_size(path, &size));
    EXPECT_INT(size, 10);
    EXPECT_OK(file_read_all(path, 10, &text));
    EXPECT_INT(text.length, 10);
    EXPECT_ERROR(file_read_all(path, 9, &text), "allowed here");
    EXPECT_INT(text.length, 0);
    EXPECT_OK(file_read_all("/proc/self/status", 1 << 20, &text));  // says it has 0 bytes
    EXPECT(text.length > 100 && strlen(text.data) == text.length);
    EXPECT_ERROR(file_read_all("/proc/self/status", 100, &text), "allowed here");
    EXPECT_ERROR(file_map_open(&map, "/dev/null"), "not a regular file");
    EXPECT_OK(file_write_all(path, "", 0));
    EXPECT_OK(file_map_open(&map, path));
    EXPECT(map.data == NULL && map.size == 0);
    file_map_close(&map);
    buffer_free(&text);
    free(path);
    remove_place(place);
}

TEST(folders) {
    char *place = make_place(), *deep = file_join(place, "a/b//c/"), *file = file_join(place, "a/f");
    char *under = file_join(file, "x"), *moved = file_join(place, "moved"), *outside = make_place();
    char *kept = file_join(outside, "kept"), *link = file_join(place, "a/link");
    uint64_t free_bytes = 0;
    EXPECT_OK(file_make_folders(deep));
    EXPECT_OK(file_make_folders(deep));
    EXPECT(file_is_folder(deep));
    EXPECT_OK(file_write_all(file, "x", 1));
    EXPECT(file_exists(file) && !file_is_folder(file));
    EXPECT_ERROR(file_make_folders(file), "in the way");
    EXPECT_ERROR(file_make_folders(under), "in the way");
    EXPECT_OK(file_free_bytes(under, &free_bytes));
    EXPECT(free_bytes > 0);
    EXPECT_OK(file_free_bytes("no-such-folder/x/y", &free_bytes));
    EXPECT_OK(file_rename(file, moved));
    EXPECT(!file_exists(file) && file_exists(moved));
    EXPECT_ERROR(file_rename(file, moved), "cannot rename");
    EXPECT_OK(file_sync_folder(place));
    EXPECT_ERROR(file_sync_folder(file), "folder");
    // A link to another folder is removed; its target stays.
    EXPECT_OK(file_write_all(kept, "x", 1));
    EXPECT(symlink(outside, link) == 0);
    EXPECT_OK(file_remove_tree(place));
    EXPECT(!file_exists(place) && file_exists(kept));
    EXPECT_OK(file_remove_tree(place));
    EXPECT_OK(file_remove_tree(outside));
    free(place), free(deep), free(file), free(under), free(moved), free(outside), free(kept), free(link);
}

TEST(paths) {
    static const char *const parents[][2] = {
        {"f", "."}, {"a/f", "a"}, {"/f", "/"}, {"/", "/"}, {"a/b/", "a"}, {"a//b", "a"}, {"", "."}, {"//a", "/"},
    };
    for (size_t i = 0; i < sizeof parents / sizeof parents[0]; i++) {
        char *parent = file_parent(parents[i][0]);
        EXPECT_STRING(parent, parents[i][1]);
        free(parent);
    }
    static const char *const joins[][3] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"/", "b", "/b"}};
    for (size_t i = 0; i < sizeof joins / sizeof joins[0]; i++) {
        char *joined = file_join(joins[i][0], joins[i][1]);
        EXPECT_STRING(joined, joins[i][2]);
        free(joined);
    }
}

TEST(same_paths) {
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {{"d/x", "./d/x", true}, {"z5", "z5/", true},    {"/a//b/.", "/a/b", true}, {".", "./", true},
                 {"a/b", "/a/b", false}, {"a/b", "a/bc", false}, {"a", "a/b", false},       {"a/../b", "b", false},
                 {"a/.b", "a/b", false}, {"", ".", true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT(file_is_same_path(cases[i].a, cases[i].b) == cases[i].same);
        EXPECT(file_is_same_path(cases[i].b, cases[i].a) == cases[i].same);
    }
}

TEST(huge_files_are_synced_in_pieces) {
    char *place = make_place(), *path = file_join(place, "huge");
    struct file_writer writer;
    struct watchdog_work work;
    watchdog_begin(&work, WATCHDOG_SAVE, "saving");
    EXPECT_OK(file_create(&writer, path));
    int64_t beats = atomic_load(&work.beats);
    synced_count = pieces_synced = 0;
    EXPECT_INT(file_sync(writer.descriptor, 1000, 300), 0);
    EXPECT_INT(pieces_synced, 4);
    EXPECT_INT(atomic_load(&work.beats) - beats, 4);
    EXPECT_INT(synced_count, 1);

    // A disk that fails does so once, and this was it.
    EXPECT_OK(file_write(&writer, "abc", 3));
    piece_error = EIO;
    EXPECT_ERROR(file_commit(&writer), "cannot sync");
    EXPECT(!file_exists(path));
    piece_error = ENODATA;  // a bad sector
    EXPECT_ERROR(file_write_all(path, "abc", 3), "cannot sync");
    EXPECT(!file_exists(path));
    // Where the call is not known, fsync does everything.
    piece_error = ENOSYS;
    synced_count = 0;
    EXPECT_OK(file_write_all(path, "abc", 3));
    EXPECT(was_synced(path));
    piece_error = 0;
    watchdog_end(&work);
    free(path);
    remove_place(place);
}

TEST_MAIN(TEST_CASE(bytes_are_moved_whole), TEST_CASE(commit_and_abort), TEST_CASE(sizes_around_the_block),
          TEST_CASE(full_disk_leaves_nothing), TEST_CASE(full_device), TEST_CASE(bad_targets),
          TEST_CASE(pipes_are_not_files), TEST_CASE(links_keep_pointing), TEST_CASE(finish_then_publish),
          TEST_CASE(temporaries_never_meet), TEST_CASE(owners_of_temporaries), TEST_CASE(leftovers_are_swept),
          TEST_CASE(folders_are_swept), TEST_CASE(new_folders_are_not_swept), TEST_CASE(new_folders_are_synced),
          TEST_CASE(reading), TEST_CASE(folders), TEST_CASE(paths), TEST_CASE(same_paths),
          TEST_CASE(huge_files_are_synced_in_pieces))
