// .bin/.idx: byte-exact writing, every dtype, reading, merging, and a full disk.
#include "data/index/index.h"

#include "broken_disk.h"
#include "example.h"
#include "fixture.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

// Replaces the C library's function: a finished .bin cannot be renamed.
static bool refuses_tokens;

int rename(const char *from, const char *to) {
    size_t length = strlen(to);
    if (refuses_tokens && length > 4 && strcmp(to + length - 4, ".bin") == 0) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static void write_example(const char *prefix, enum index_dtype dtype) {
    struct index_writer *w;
    EXPECT_OK(index_writer_open(&w, prefix, dtype));
    EXPECT_OK(index_writer_add(w, (const int32_t[]){5, 6, 7, 99}, 4));
    EXPECT_OK(index_writer_end_document(w));
    EXPECT_OK(index_writer_add(w, NULL, 0));
    EXPECT_OK(index_writer_end_document(w));
    EXPECT_OK(index_writer_add(w, (const int32_t[]){8, 9, 99}, 3));
    EXPECT_OK(index_writer_end_document(w));
    EXPECT_OK(index_writer_commit(w));
}

TEST(example_is_byte_exact) {
    scratch_open();
    write_example(scratch_path("a"), INDEX_U16);
    struct buffer idx = read_bytes(scratch_path("a.idx")), bin = read_bytes(scratch_path("a.bin"));
    EXPECT_INT(idx.length, sizeof example_idx);
    EXPECT(memcmp(idx.data, example_idx, sizeof example_idx) == 0);
    EXPECT_INT(bin.length, sizeof example_bin);
    EXPECT(memcmp(bin.data, example_bin, sizeof example_bin) == 0);
    EXPECT_INT(scratch_entries(), 2);
    buffer_free(&idx);
    buffer_free(&bin);
    scratch_close();
}

TEST(every_integer_dtype) {
    static const struct {
        enum index_dtype dtype;
        int32_t low, high;
        size_t bytes;
    } rows[] = {{INDEX_U8, 0, 255, 1},
                {INDEX_I8, -128, 127, 1},
                {INDEX_I16, -32768, 32767, 2},
                {INDEX_U16, 0, 65535, 2},
                {INDEX_I32, INT32_MIN, INT32_MAX, 4},
                {INDEX_I64, INT32_MIN, INT32_MAX, 8}};
    scratch_open();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int32_t tokens[] = {rows[i].low, 7, rows[i].high}, back[3];
        struct index_writer *w;
        EXPECT_OK(index_writer_open(&w, scratch_path("d"), rows[i].dtype));
        EXPECT_OK(index_writer_add(w, tokens, 3));
        if (rows[i].bytes < 4) {
            EXPECT_ERROR(index_writer_add(w, (const int32_t[]){1, rows[i].high + 1}, 2), "at position 1 of sequence 1");
            index_writer_abort(w);
            EXPECT_OK(index_writer_open(&w, scratch_path("d"), rows[i].dtype));
            EXPECT_ERROR(index_writer_add(w, (const int32_t[]){rows[i].low - 1}, 1), "does not fit");
            index_writer_abort(w);
            EXPECT_OK(index_writer_open(&w, scratch_path("d"), rows[i].dtype));
            EXPECT_OK(index_writer_add(w, tokens, 3));
        }
        EXPECT_OK(index_writer_end_document(w));
        EXPECT_OK(index_writer_commit(w));
        struct index_reader *r;
        EXPECT_OK(index_open(&r, scratch_path("d")));
        EXPECT_INT(r->dtype, rows[i].dtype);
        EXPECT_INT(r->files.tokens.size, 3 * rows[i].bytes);
        EXPECT_OK(index_read(r, 0, 0, 3, back));
        EXPECT(memcmp(tokens, back, sizeof back) == 0);
        EXPECT_OK(index_read(r, 0, 2, 1, back));
        EXPECT_INT(back[0], rows[i].high);
        index_close(r);
    }
    EXPECT_INT(index_dtype_for_vocab(65499), INDEX_U16);
    EXPECT_INT(index_dtype_for_vocab(65500), INDEX_I32);
    EXPECT_INT(index_dtype_for_vocab(0), INDEX_I32);
    scratch_close();
}

TEST(reading) {
    struct index_reader *r;
    int32_t out[4];
    EXPECT_OK(open_bytes(&r, example_idx, sizeof example_idx, example_bin, sizeof example_bin));
    EXPECT_OK(index_verify_tokens(r, 100));
    EXPECT_INT(r->sequence_count, 2);
    EXPECT_INT(r->document_count, 3);
    EXPECT_INT(r->token_count, 7);
    EXPECT_INT(index_length(r, 1), 3);
    EXPECT_INT(index_pointer(r, 1), 8);
    EXPECT_INT(index_document_begin(r, 2), 1);
    EXPECT_OK(index_read(r, 1, 1, 2, out));
    EXPECT(out[0] == 9 && out[1] == 99);
    EXPECT_OK(index_read(r, 1, 3, 0, out));
    EXPECT_ERROR(index_read(r, 1, 2, 2, out), "sequence 1 has 3 tokens");
    EXPECT_ERROR(index_read(r, 1, -1, 2, out), "from position -1");
    EXPECT_ERROR(index_read(r, 0, 0, INT64_MAX, out), "example.idx: byte 34");
    EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
    EXPECT_ERROR(index_verify_tokens(r, 99), "byte 6: token 3 of sequence 0 is 99, beyond the vocabulary of 99");
    index_close(r);
}

TEST(many_sequences) {
    enum { SEQUENCES = 100000 };
    scratch_open();
    struct index_writer *w;
    EXPECT_OK(index_writer_open(&w, scratch_path("m"), INDEX_I32));
    int32_t tokens[20001];
    for (int32_t i = 0; i < SEQUENCES; i++) {
        int64_t length = i == 777 ? 20001 : i % 5;
        for (int64_t j = 0; j < length; j++)
            tokens[j] = i;
        EXPECT_OK(index_writer_add(w, tokens, length));
        EXPECT_OK(index_writer_end_document(w));
    }
    EXPECT_OK(index_writer_commit(w));
    struct index_reader *r;
    EXPECT_OK(index_open(&r, scratch_path("m")));
    EXPECT_OK(index_verify_tokens(r, SEQUENCES));
    EXPECT_INT(r->document_count, SEQUENCES);
    EXPECT_INT(r->sequence_count, SEQUENCES / 5 * 4);
    EXPECT_INT(r->token_count, SEQUENCES * 2 + 20001 - 2);
    for (int64_t document = 0; document < SEQUENCES; document++) {
        int64_t sequence = index_document_begin(r, document);
        EXPECT_INT(index_document_begin(r, document + 1) - sequence, document % 5 != 0);
        if (document % 5 == 0)
            continue;
        EXPECT_OK(index_read(r, sequence, index_length(r, sequence) - 1, 1, tokens));
        EXPECT_INT(tokens[0], document);
    }
    EXPECT_ERROR(index_verify_tokens(r, SEQUENCES - 1), "is 99999, beyond the vocabulary of 99999");
    index_close(r);
    scratch_close();
}

TEST(empty_datasets) {
    scratch_open();
    for (int documents = 0; documents < 3; documents++) {
        struct index_writer *w;
        struct index_reader *r;
        EXPECT_OK(index_writer_open(&w, scratch_path("e"), INDEX_U16));
        for (int i = 0; i < documents; i++)
            EXPECT_OK(index_writer_end_document(w));
        EXPECT_OK(index_writer_commit(w));
        EXPECT_OK(index_open(&r, scratch_path("e")));
        EXPECT_OK(index_verify_tokens(r, 10));
        EXPECT_INT(r->sequence_count, 0);
        EXPECT_INT(r->document_count, documents);
        index_close(r);
    }
    scratch_close();
}

TEST(appending) {
    scratch_open();
    write_example(scratch_path("a"), INDEX_U16);
    write_example(scratch_path("wide"), INDEX_I32);
    struct index_reader *a, *wide, *r;
    EXPECT_OK(index_open(&a, scratch_path("a")));
    EXPECT_OK(index_open(&wide, scratch_path("wide")));
    struct index_writer *w;
    EXPECT_OK(index_writer_open(&w, scratch_path("both"), INDEX_U16));
    EXPECT_OK(index_writer_append(w, a));
    EXPECT_OK(index_writer_append(w, a));
    EXPECT_ERROR(index_writer_append(w, wide), "tokens are int32");
    EXPECT_OK(index_writer_commit(w));
    EXPECT_OK(index_open(&r, scratch_path("both")));
    EXPECT_OK(index_verify_tokens(r, 100));
    static const int64_t boundaries[] = {0, 1, 1, 2, 3, 3, 4};
    EXPECT_INT(r->document_count, 6);
    for (int i = 0; i < 7; i++)
        EXPECT_INT(index_document_begin(r, i), boundaries[i]);
    int32_t out[3];
    EXPECT_OK(index_read(r, 3, 0, 3, out));
    EXPECT(out[0] == 8 && out[2] == 99);
    index_close(r);
    index_close(a);
    index_close(wide);
    char *bad[] = {(char *)scratch_path("a"), (char *)scratch_path("wide")};
    EXPECT_ERROR(index_merge(scratch_path("joined"), bad, 2), "merge datasets of one dtype");
    EXPECT_INT(scratch_entries(), 6);
    scratch_close();
}

// One part is open at a time: any number of them merges with a few descriptors.
TEST(ten_thousand_parts) {
    enum { PARTS = 10000 };
    static char *prefixes[PARTS];
    scratch_open();
    write_example(scratch_path("a"), INDEX_U16);
    write_example(scratch_path("b"), INDEX_U16);
    char *a = memory_string(scratch_path("a")), *b = memory_string(scratch_path("b"));
    for (int i = 0; i < PARTS; i++)
        prefixes[i] = i % 3 ? a : b;
    struct rlimit before, few = {.rlim_cur = 16};
    EXPECT(getrlimit(RLIMIT_NOFILE, &before) == 0);
    few.rlim_max = before.rlim_max;
    EXPECT(setrlimit(RLIMIT_NOFILE, &few) == 0);
    int status = index_merge(scratch_path("joined"), prefixes, PARTS);
    EXPECT(setrlimit(RLIMIT_NOFILE, &before) == 0);
    EXPECT_OK(status);
    struct index_reader *r;
    EXPECT_OK(index_open(&r, scratch_path("joined")));
    EXPECT_OK(index_verify_tokens(r, 100));
    EXPECT_INT(r->document_count, 3 * PARTS);
    EXPECT_INT(r->token_count, 7 * PARTS);
    EXPECT_INT(index_document_begin(r, 3 * PARTS - 1), 2 * PARTS - 1);
    index_close(r);
    free(a);
    free(b);
    scratch_close();
}

TEST(missing_and_replaced_files) {
    scratch_open();
    struct index_reader *r;
    EXPECT_ERROR(index_open(&r, scratch_path("none")), "none.idx does not exist");
    write_example(scratch_path("a"), INDEX_U16);
    unlink(scratch_path("a.bin"));
    EXPECT_ERROR(index_open(&r, scratch_path("a")), "a.bin does not exist");
    write_example(scratch_path("a"), INDEX_I32);
    EXPECT_OK(index_open(&r, scratch_path("a")));
    EXPECT_INT(r->dtype, INDEX_I32);
    struct index_writer *w;
    EXPECT_OK(index_writer_open(&w, scratch_path("a"), INDEX_U16));
    EXPECT_OK(index_writer_add(w, (const int32_t[]){1}, 1));
    index_writer_abort(w);
    EXPECT_INT(scratch_entries(), 2);
    EXPECT_OK(index_verify_tokens(r, 100));
    index_close(r);
    // A missing folder is created; if that fails, it is named.
    write_example(scratch_path("new/folder/b_text_document"), INDEX_U16);
    EXPECT_OK(index_open(&r, scratch_path("new/folder/b_text_document")));
    index_close(r);
    EXPECT_ERROR(index_writer_open(&w, scratch_path("a.bin/folder/a"), INDEX_U16), "a.bin");
    EXPECT_ERROR(index_open(&r, scratch_path("new/folder/b")), "did you mean");
    EXPECT(strstr(error_message(), "/new/folder/b_text_document?") != NULL);
    EXPECT_ERROR(index_open(&r, scratch_path("a.bin")), "did you mean");
    EXPECT(strstr(error_message(), "/a?") != NULL);
    EXPECT_ERROR(index_open(&r, scratch_path("new/folder/c")), "without .bin or .idx");
    EXPECT_ERROR(index_open(&r, scratch_path("elsewhere/c.bin")), "without .bin or .idx");
    scratch_close();
}

static void limit_file_size(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
}

TEST(full_disk_leaves_nothing) {
    scratch_open();
    limit_file_size(1 << 20);
    static int32_t tokens[1 << 16];
    struct index_writer *w;
    int result = index_writer_open(&w, scratch_path("full"), INDEX_I32);
    for (int i = 0; i < 100 && result == 0; i++)
        result = index_writer_add(w, tokens, 1 << 16);
    limit_file_size(RLIM_INFINITY);
    EXPECT(result < 0);
    EXPECT(strstr(error_message(), "full.bin"));
    index_writer_abort(w);
    EXPECT_INT(scratch_entries(), 0);
    scratch_close();
}

// .bin and the temporary lists fit, .idx does not: the existing dataset must stay complete.
TEST(full_disk_at_the_end_keeps_the_old_dataset) {
    scratch_open();
    write_example(scratch_path("a"), INDEX_U16);
    limit_file_size(1 << 20);
    struct index_writer *w;
    int result = index_writer_open(&w, scratch_path("a"), INDEX_U16);
    for (int i = 0; i < 100000 && result == 0; i++) {
        result = index_writer_add(w, (const int32_t[]){1}, 1);
        if (result == 0)
            result = index_writer_end_document(w);
    }
    int added = result;
    result = index_writer_commit(w);
    limit_file_size(RLIM_INFINITY);
    EXPECT_INT(added, 0);
    EXPECT(result < 0);
    EXPECT(strstr(error_message(), "a.idx"));
    EXPECT_INT(scratch_entries(), 2);
    struct index_reader *r;
    EXPECT_OK(index_open(&r, scratch_path("a")));
    EXPECT_OK(index_verify_tokens(r, 100));
    EXPECT_INT(r->document_count, 3);
    index_close(r);
    scratch_close();
}

static void expect_example(void) {
    struct buffer idx = read_bytes(scratch_path("a.idx")), bin = read_bytes(scratch_path("a.bin"));
    EXPECT(idx.length == sizeof example_idx && memcmp(idx.data, example_idx, sizeof example_idx) == 0);
    EXPECT(bin.length == sizeof example_bin && memcmp(bin.data, example_bin, sizeof example_bin) == 0);
    buffer_free(&idx);
    buffer_free(&bin);
}

static int replace_example(void) {
    struct index_writer *w;
    TRY(index_writer_open(&w, scratch_path("a"), INDEX_U16));
    EXPECT_OK(index_writer_add(w, (const int32_t[]){1, 2}, 2));
    EXPECT_OK(index_writer_end_document(w));
    return index_writer_commit(w);
}

// The disk fails while .bin or .idx is synced: the existing dataset must stay complete.
TEST(broken_disk_keeps_the_old_dataset) {
    scratch_open();
    write_example(scratch_path("a"), INDEX_U16);
    for (int n = 1; n <= 2; n++) {
        syncs_until_failure = n;
        EXPECT_ERROR(replace_example(), n == 1 ? "a.bin" : "a.idx");
        EXPECT_INT(scratch_entries(), 2);
        expect_example();
    }
    // After the first rename there is no way back, but there is never half a dataset.
    for (int n = 1; n <= 2; n++) {
        break_folders = true;
        syncs_until_failure = n;
        EXPECT_ERROR(replace_example(), "sync the folder");
        break_folders = false;
        EXPECT_INT(scratch_entries(), 0);
        write_example(scratch_path("a"), INDEX_U16);
    }
    scratch_close();
}

// The new .bin cannot be renamed: the old dataset is restored.
TEST(a_name_that_cannot_be_taken) {
    scratch_open();
    write_example(scratch_path("a"), INDEX_U16);
    refuses_tokens = true;
    EXPECT_ERROR(replace_example(), "put in place");
    refuses_tokens = false;
    EXPECT_INT(scratch_entries(), 2);
    expect_example();
    scratch_close();
}

// Files with the same names that are not a dataset.
TEST(other_files_stay) {
    scratch_open();
    write_bytes(scratch_path("model.bin"), "weights", 7);
    write_bytes(scratch_path("book.idx"), "words", 5);
    write_bytes(scratch_path("empty.idx"), "", 0);
    EXPECT_ERROR(index_files_check_output(scratch_path("model"), "remove it"), "model.bin exists; give another name");
    EXPECT_ERROR(index_files_check_output(scratch_path("book"), "remove it"),
                 "book.idx exists and is not the index of a dataset");
    EXPECT_OK(index_files_check_output(scratch_path("empty"), "remove it"));
    write_example(scratch_path("a"), INDEX_U16);
    EXPECT_ERROR(index_files_check_output(scratch_path("a"), "remove it"),
                 "/a exists; give another --output-prefix, or remove it");
    EXPECT_OK(index_files_check_output(scratch_path("new"), "remove it"));
    scratch_close();
}

// A dataset reached through links: the links stay, their targets are replaced.
TEST(links_keep_pointing) {
    static const char *const names[] = {"a.idx", "a.bin"}, *const targets[] = {"far/x.idx", "far/x.bin"};
    scratch_open();
    EXPECT_OK(file_make_folders(scratch_path("far")));
    for (int i = 0; i < 2; i++) {
        write_bytes(scratch_path(targets[i]), INDEX_MAGIC, INDEX_MAGIC_BYTES);
        EXPECT_INT(symlink(targets[i], scratch_path(names[i])), 0);
    }
    write_example(scratch_path("a"), INDEX_U16);
    expect_example();
    for (int i = 0; i < 2; i++) {
        struct stat status;
        EXPECT(lstat(scratch_path(names[i]), &status) == 0 && S_ISLNK(status.st_mode));
        EXPECT(lstat(scratch_path(targets[i]), &status) == 0 && status.st_size > INDEX_MAGIC_BYTES);
    }
    scratch_close();
}

TEST_MAIN(TEST_CASE(example_is_byte_exact), TEST_CASE(every_integer_dtype), TEST_CASE(reading),
          TEST_CASE(many_sequences), TEST_CASE(empty_datasets), TEST_CASE(appending), TEST_CASE(ten_thousand_parts),
          TEST_CASE(missing_and_replaced_files), TEST_CASE(full_disk_leaves_nothing),
          TEST_CASE(full_disk_at_the_end_keeps_the_old_dataset), TEST_CASE(broken_disk_keeps_the_old_dataset),
          TEST_CASE(a_name_that_cannot_be_taken), TEST_CASE(other_files_stay), TEST_CASE(links_keep_pointing))
