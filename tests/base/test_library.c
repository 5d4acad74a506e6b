// Libraries that are found, refused, missing. CMake builds stand-ins in folders below FAKES, all called libfake.so.1:
// "good", "old" (its version is 6, and 7 is needed), "partial" (without the symbol `answer`).
#include "base/library.h"
#include "base/file.h"
#include "base/memory.h"

#include "test.h"
#include <dlfcn.h>
#include <unistd.h>

struct fake_symbols {
    int (*fake_version)(void);
    const int *answer;
};

static int check_fake(const void *table, char *version, size_t size) {
    const struct fake_symbols *candidate = table;
    snprintf(version, size, "%d.0", candidate->fake_version());
    return candidate->fake_version() == 7 ? 0 : error_set("is fake %s, and 7 is needed", version);
}

static const char *const symbols[] = {"fake_version", "answer"};
static const char *const sonames[] = {"libfake.so.1", NULL};

// A library with this id in these folders.
static struct library fake(enum library_id id, const char *const *folders) {
    return (struct library){.id = id,
                            .name = "Fake",
                            .user = "tests",
                            .variable = "FAKE_LIBRARY",
                            .sonames = sonames,
                            .folders = folders,
                            .package = "install fake",
                            .instead = "do without",
                            .symbols = symbols,
                            .symbol_count = 2,
                            .check = check_fake};
}

static const char *given, *root;  // the variables FAKE_LIBRARY and FAKE_ROOT

static const char *environment(const char *name) {
    return strcmp(name, "FAKE_LIBRARY") == 0 ? given : strcmp(name, "FAKE_ROOT") == 0 ? root : NULL;
}

static void begin(void) {
    given = root = NULL;
    library_set_environment(environment);
    error_clear();
}

static bool describes(const struct library *library, const char *part) {
    struct buffer text = {0};
    library_describe(library, &text);
    bool is_there = strstr(buffer_string(&text), part) != NULL;
    if (!is_there)
        printf("    %s\n", buffer_string(&text));
    buffer_free(&text);
    return is_there;
}

// The first folder with a library that fits; others are skipped.
TEST(found_in_a_folder) {
    static const char *const folders[] = {"$FAKE_HOME/lib", "/nonexistent", FAKES "/old", "$FAKE_ROOT/g*d", NULL};
    struct library library = fake(LIBRARY_NCCL, folders);
    begin();
    root = FAKES;
    EXPECT(library_symbols(LIBRARY_NCCL) == NULL);
    EXPECT_OK(library_load(&library));
    const struct fake_symbols *loaded = library_symbols(LIBRARY_NCCL);
    EXPECT_INT(loaded->fake_version(), 7);
    EXPECT_INT(*loaded->answer, 42);
    EXPECT(describes(&library, "7.0  /"));
    EXPECT(describes(&library, "/good/libfake.so.1"));
    // It stays loaded, whatever happens to the file.
    given = "/nonexistent/libfake.so.1";
    EXPECT_OK(library_load(&library));
    EXPECT(library_symbols(LIBRARY_NCCL) == loaded);
}

TEST(missing) {
    static const char *const folders[] = {"$FAKE_HOME/lib", "/nonexistent/*/lib", "$FAKE_ROOT/lib64", NULL};
    struct library library = fake(LIBRARY_MPI, folders);
    begin();
    root = "/opt/fake";
    EXPECT_ERROR(library_load(&library),
                 "cannot load Fake, which tests need: libfake.so.1 was searched for with the dynamic loader "
                 "(LD_LIBRARY_PATH is not set) and in /nonexistent/*/lib, /opt/fake/lib64; install fake, or set "
                 "FAKE_LIBRARY to its path, or do without");
    EXPECT(describes(&library, "missing: install fake"));
    EXPECT(library_symbols(LIBRARY_MPI) == NULL);
    library_set_environment(NULL);
    EXPECT_ERROR(library_load(&library), "and in /nonexistent/*/lib; install");
}

TEST(unfit) {
    static const char *const old[] = {FAKES "/old", FAKES "/o*d", NULL}, *const partial[] = {FAKES "/partial", NULL};
    struct library library = fake(LIBRARY_MPI, old);
    begin();
    EXPECT_ERROR(library_load(&library),
                 "/old/libfake.so.1 is fake 6.0, and 7 is needed; libfake.so.1 was searched for");
    EXPECT(strstr(strstr(error_message(), "is fake") + 1, "is fake") == NULL);  // said only once
    EXPECT(describes(&library, "unfit: /"));
    library.folders = partial;
    EXPECT_ERROR(library_load(&library), "/partial/libfake.so.1 has no symbol answer");
    // A library of another name is a different one, unless it is listed as a rival.
    static const char *const others[] = {"libfake.so.2", NULL}, *const rivals[] = {FAKES "/old/libfake.so.1", NULL};
    library.sonames = others;
    EXPECT_ERROR(library_load(&library), "need: libfake.so.2 was searched for");
    library.rivals = rivals;
    library.rivals_are = "older";
    EXPECT_ERROR(library_load(&library), "/old/libfake.so.1 is older; libfake.so.2 was searched for");
}

TEST(given_by_a_variable) {
    static const char *const folders[] = {FAKES "/good", NULL};
    struct library library = fake(LIBRARY_NVRTC, folders);
    begin();
    given = "/nonexistent/libfake.so.1";
    EXPECT_ERROR(library_load(&library),
                 "need: FAKE_LIBRARY is /nonexistent/libfake.so.1, which does not exist: correct or unset it, or do "
                 "without");
    given = FAKES "/old/libfake.so.1";
    EXPECT_ERROR(library_load(&library), "is fake 6.0");
    given = FAKES;  // a folder without it
    EXPECT_ERROR(library_load(&library), "correct or unset it");
    EXPECT(describes(&library, "missing: FAKE_LIBRARY is "));
    given = FAKES "/good";
    EXPECT_OK(library_load(&library));
    library.id = LIBRARY_CUDNN;
    given = FAKES "/good/libfake.so.1";
    EXPECT_OK(library_load(&library));
}

// Files that are not libraries, and the files beside a library that it opens itself.
TEST(files_beside) {
    char place[] = "/tmp/test_library_XXXXXX";
    EXPECT(mkdtemp(place) != NULL);
    char *text = file_join(place, "libfake.so.1"), *part = file_join(place, "libpart.so.3");
    struct library library = fake(LIBRARY_NVML, (const char *const[]){place, NULL});
    begin();
    EXPECT_OK(file_write_all(text, "not a library", 13));
    EXPECT_ERROR(library_load(&library), "libfake.so.1: file too short");
    EXPECT(unlink(text) == 0 && symlink(FAKES "/old/libfake.so.1", part) == 0);
    EXPECT(symlink(FAKES "/good/libfake.so.1", text) == 0);
    // The folder of the file itself counts, not that of a link to it: companions come with the file.
    library.companions = "../old/lib*.so.1";
    EXPECT(dlopen(FAKES "/old/libfake.so.1", RTLD_NOW | RTLD_NOLOAD) == NULL);
    EXPECT_OK(library_load(&library));
    EXPECT(dlopen(FAKES "/old/libfake.so.1", RTLD_NOW | RTLD_NOLOAD) != NULL);
    EXPECT_OK(file_remove_tree(place));
    free(text);
    free(part);
}

// A part of the program is looked for beside it: the dynamic loader, which has another one, is not asked.
TEST(own) {
    static const char *const wrong[] = {"$ORIGIN/nowhere", "$ORIGIN/fakes/old", NULL};
    static const char *const right[] = {"$ORIGIN/../tests/fakes/good", NULL};
    static const char *const loaders[] = {"libc.so.6", NULL};
    struct library library = fake(LIBRARY_CUDA_MODULE, wrong);
    begin();
    library.is_own = true;
    EXPECT_ERROR(library_load(&library),
                 "/fakes/old/libfake.so.1 is fake 6.0, and 7 is needed; libfake.so.1 was searched "
                 "for in " FAKES_PARENT "/nowhere, " FAKES_PARENT "/fakes/old; install fake");
    library.sonames = loaders;
    EXPECT_ERROR(library_load(&library), "need: libc.so.6 was searched for in /");
    library.sonames = sonames;
    library.folders = right;
    EXPECT_OK(library_load(&library));
    EXPECT(describes(&library, "/good/libfake.so.1"));
}

// The libraries of the program that started this one come first: here the folder of the test's parent does not have it,
// so the other places are tried.
TEST(beside_the_starter) {
    static const char *const folders[] = {FAKES "/good", NULL};
    struct library library = fake(LIBRARY_DRIVER, folders);
    begin();
    library.is_beside_starter = true;
    library.is_global = true;
    EXPECT_OK(library_load(&library));
    EXPECT(describes(&library, "/good/libfake.so.1"));
}

TEST_MAIN(TEST_CASE(found_in_a_folder), TEST_CASE(missing), TEST_CASE(unfit), TEST_CASE(given_by_a_variable),
          TEST_CASE(files_beside), TEST_CASE(own), TEST_CASE(beside_the_starter))
