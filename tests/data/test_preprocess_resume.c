// Preprocessing that is killed, or loses its disk, at every single file operation: the next run resumes and gives the
// files of a run that was never stopped. The C library's functions that change files are replaced by ones that count,
// and at a chosen number kill the process or fail.
// tier: all
// cost: 15
#include "data/extract/codec.h"
#include "data/preprocess.h"
#include "fixture.h"
#include "text_fixture.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static atomic_int touches;        // so far
static atomic_int removed_parts;  // files of lanes written before their turn
static int kill_at, full_from;    // at this touch the process dies; from this one on the disk is full. 0: never

// Whether this touch fails.
static bool touch(void) {
    int number = atomic_fetch_add(&touches, 1) + 1;
    if (number == kill_at)
        kill(getpid(), SIGKILL);
    return full_from > 0 && number >= full_from;
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset);
ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
    if (touch()) {
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_pwrite64, descriptor, bytes, count, offset);
}

ssize_t write(int descriptor, const void *bytes, size_t count);
ssize_t write(int descriptor, const void *bytes, size_t count) {
    if (descriptor > 2 && touch()) {
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_write, descriptor, bytes, count);
}

// Syncs are counted but not done, which saves thousands of them.
int fsync(int descriptor);
int fsync(int descriptor) {
    (void)descriptor;
    touch();
    return 0;
}

int rename(const char *from, const char *to);
int rename(const char *from, const char *to) {
    touch();
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path);
int unlink(const char *path) {
    touch();
    removed_parts += strstr(path, ".part") != NULL;
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

struct resume_job {
    struct preprocess_options options;
    struct tokenizer *tokenizer;
    char *prefix;
};

// Two files of twenty documents, of which one is broken, under two keys; pieces of a few lines.
static void job_open(struct resume_job *job) {
    scratch_open();
    struct buffer lines = {0};
    *job = (struct resume_job){.prefix = memory_string(scratch_path("out"))};
    job->options = (struct preprocess_options){.output_prefix = job->prefix,
                                               .workers = 1,
                                               .append_eod = true,
                                               .skip_bad_lines = true,
                                               .chunk_bytes = 400,
                                               .dedup = true,
                                               .shuffle = true,
                                               .seed = 5};
    for (int file = 0; file < 2; file++) {
        buffer_clear(&lines);
        for (int i = 0; i < 20; i++)
            buffer_printf(&lines, "{\"text\": \"%d 7 %d\", \"title\": %s\"%d\"}\n", i, file, i == 13 ? "9" : "", i % 9);
        write_bytes(scratch_path(file ? "b" : "a"), lines.data, lines.length);
        string_list_add(&job->options.inputs, scratch_path(file ? "b" : "a"));
    }
    string_list_add(&job->options.keys, "text");
    string_list_add(&job->options.keys, "title");
    buffer_free(&lines);
    struct tokenizer_options options = {.type = "NullTokenizer", .vocab_size = 1000};
    EXPECT_OK(tokenizer_open(&job->tokenizer, &options));
}

static void job_close(struct resume_job *job) {
    string_list_free(&job->options.inputs);
    string_list_free(&job->options.keys);
    tokenizer_free(job->tokenizer);
    free(job->prefix);
    scratch_close();
}

static int job_run(struct resume_job *job) {
    struct preprocess_summary summary;
    TRY(preprocess(&job->options, job->tokenizer, &summary));
    EXPECT_INT(summary.counts.bad_lines, 2);
    free(summary.bad_lines);
    return 0;
}

// All five files of the result, concatenated.
static struct buffer results(void) {
    static const char *const names[] = {"out_text_document.bin",  "out_text_document.idx",  "out_text_document.sha256",
                                        "out_title_document.bin", "out_title_document.idx", "out_title_document.sha256",
                                        "out_bad_lines.txt"};
    struct buffer all = {0};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct buffer one = read_bytes(scratch_path(names[i]));
        buffer_append(&all, one.data, one.length);
        buffer_free(&one);
    }
    return all;
}

static void expect_results(const struct buffer *expected) {
    struct buffer now = results();
    EXPECT_INT(now.length, expected->length);
    EXPECT(memcmp(now.data, expected->data, now.length) == 0);
    EXPECT_INT(scratch_entries(), 9);
    buffer_free(&now);
}

// Repeating the command resumes the run. If all files had their names, it finds a finished dataset and leaves it.
static int resume(struct resume_job *job) {
    if (job_run(job) == 0)
        return 0;
    return strstr(error_message(), "exists; give another --output-prefix, or replace it with --restart") ? 0 : -1;
}

static void remove_results(void) {
    static const char *const names[] = {"out_text_document.bin",  "out_text_document.idx",  "out_text_document.sha256",
                                        "out_title_document.bin", "out_title_document.idx", "out_title_document.sha256",
                                        "out_bad_lines.txt",      "out.unfinished"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        EXPECT_OK(file_remove_tree(scratch_path(names[i])));
}

// Runs in a child that dies at the given touch. False if it did not, because there are fewer touches.
static bool dies_at(struct resume_job *job, int number) {
    pid_t child = fork();
    if (child == 0) {
        touches = 0;
        kill_at = number;
        _exit(resume(job) == 0 ? 0 : 9);
    }
    int status;
    EXPECT_INT(waitpid(child, &status, 0), child);
    if (WIFEXITED(status))
        EXPECT_INT(WEXITSTATUS(status), 0);
    return WIFSIGNALED(status);
}

static void try_kills(int workers, int step) {
    struct resume_job job;
    job_open(&job);
    job.options.workers = workers;
    EXPECT_OK(job_run(&job));
    struct buffer expected = results();
    int number = 1;
    for (;; number += step) {
        remove_results();
        if (!dies_at(&job, number))
            break;
        // A second kill on the way, sooner or later.
        if (number % 4 == 0)
            dies_at(&job, 1 + number % 50);
        EXPECT_OK(resume(&job));
        expect_results(&expected);
    }
    EXPECT(number > 100);
    buffer_free(&expected);
    job_close(&job);
}

TEST(killed_at_every_touch_of_the_disk) {
    try_kills(1, 1);
}

TEST(killed_with_several_workers) {
    try_kills(3, 3);
}

// An existing dataset stays complete until it is replaced: .idx and .bin always match.
TEST(an_older_dataset_is_never_half) {
    struct resume_job job;
    job_open(&job);
    job.options.dedup = job.options.shuffle = false;
    EXPECT_OK(job_run(&job));
    struct buffer expected = results();
    for (int number = 1;; number++) {
        job.options.restart = true;
        if (!dies_at(&job, number))
            break;
        job.options.restart = false;
        struct index_reader *reader;
        if (file_exists(scratch_path("out_text_document.idx"))) {
            EXPECT_OK(index_open(&reader, scratch_path("out_text_document")));
            EXPECT_INT(reader->document_count, 38);
            index_close(reader);
        }
        EXPECT_OK(resume(&job));
        expect_results(&expected);
    }
    buffer_free(&expected);
    job_close(&job);
}

// A full disk is an error with a remedy, nothing is published, and with space again the same command resumes.
TEST(a_full_disk_at_every_write) {
    struct resume_job job;
    job_open(&job);
    EXPECT_OK(job_run(&job));
    struct buffer expected = results();
    for (int number = 1;; number++) {
        remove_results();
        touches = 0;
        full_from = number;
        int status = job_run(&job);
        bool is_published = file_exists(scratch_path("out_text_document.bin"));
        full_from = 0;
        if (status == 0)
            break;
        EXPECT(strstr(error_message(), "No space left on device"));
        EXPECT(!is_published);
        EXPECT_OK(job_run(&job));
        expect_results(&expected);
    }
    buffer_free(&expected);
    job_close(&job);
}

// A compressed file that is tokenized before its turn is written to separate files. Creating and removing them for each
// of thousands of small inputs takes far longer than the work, so they are reused.
TEST(parts_are_used_again) {
    enum { FILES = 60, WORKERS = 4, FILES_OF_STORE = 7 };
    struct resume_job job;
    struct buffer line = {0}, packed = {0}, expected = {0};
    job_open(&job);
    job.options.dedup = job.options.shuffle = job.options.skip_bad_lines = false;
    job.options.chunk_bytes = 0;
    string_list_free(&job.options.inputs);
    for (int file = 0; file < FILES; file++) {
        char name[16];
        snprintf(name, sizeof name, "in%02d", file);
        buffer_clear(&line);
        buffer_clear(&packed);
        for (int i = 0; i < 50; i++)
            buffer_printf(&line, "{\"text\": \"%d %d\", \"title\": \"%d\"}\n", file, i, i);
        if (pack_gzip(&packed, line.data, line.length) < 0)
            test_skip("this build has no zlib");
        write_bytes(scratch_path(name), packed.data, packed.length);
        string_list_add(&job.options.inputs, scratch_path(name));
    }
    struct preprocess_summary summary;
    for (int workers = 1; workers <= WORKERS; workers += WORKERS - 1) {
        job.options.workers = workers;
        job.options.restart = workers > 1;
        removed_parts = 0;
        EXPECT_OK(preprocess(&job.options, job.tokenizer, &summary));
        EXPECT_INT(summary.counts.documents, FILES * 50);
        EXPECT(removed_parts <= workers * FILES_OF_STORE);
        if (workers == 1)
            expected = read_bytes(scratch_path("out_text_document.bin"));
    }
    struct buffer tokens = read_bytes(scratch_path("out_text_document.bin"));
    EXPECT(tokens.length == expected.length && memcmp(tokens.data, expected.data, tokens.length) == 0);
    buffer_free(&tokens);
    buffer_free(&expected);
    buffer_free(&packed);
    buffer_free(&line);
    job_close(&job);
}

TEST_MAIN(TEST_CASE(killed_at_every_touch_of_the_disk), TEST_CASE(killed_with_several_workers),
          TEST_CASE(an_older_dataset_is_never_half), TEST_CASE(a_full_disk_at_every_write),
          TEST_CASE(parts_are_used_again))
