// Damage of every kind: all of it must be detected, named and survived; none may crash a reader that skips the
// checksums.
#include "base/memory.h"
#include "store/manifest.h"
#include "store/safetensors.h"
#include "store/small_run.h"
#include "store/temporary.h"
#include "test.h"
#include <sys/stat.h>

static const char *const files[] = {"model.safetensors", "optimizer.safetensors", "state.json", "config.json",
                                    "manifest.json"};
enum { FILE_COUNT = 5 };

struct scene {
    struct temporary folder;
    char *path;  // of iteration 20; iteration 10 is beside it
    char *marker;
};

static struct scene scene_create(void) {
    struct scene scene = {.folder = temporary_create_fast()};
    EXPECT_OK(small_save(scene.folder.path, 10, 0));
    EXPECT_OK(small_save(scene.folder.path, 20, 0));
    scene.path = checkpoint_path(scene.folder.path, 20);
    scene.marker = file_join(scene.folder.path, "latest_checkpointed_iteration.txt");
    EXPECT_INT(small_resume(scene.folder.path, false), 20);
    return scene;
}

static void scene_remove(struct scene *scene) {
    free(scene->path);
    free(scene->marker);
    temporary_remove(&scene->folder);
}

// Verification fails and names the file; with permission the older checkpoint is loaded.
static void expect_damaged(const struct scene *scene, const char *name) {
    EXPECT_ERROR(checkpoint_verify(scene->path, false), name);
    EXPECT_INT(small_resume(scene->folder.path, false), -1);
    EXPECT(strstr(error_message(), name) != NULL);
    EXPECT(strstr(error_message(), "--ckpt-step") != NULL);
    EXPECT(strstr(error_message(), "(others: 10)") != NULL);
    EXPECT_INT(error_exit_code(), EXIT_CODE_NO_CHECKPOINT);
}

TEST(flipped_bits) {
    struct scene scene = scene_create();
    for (size_t f = 0; f < FILE_COUNT; f++) {
        char *path = file_join(scene.path, files[f]);
        struct buffer content = read_whole(path);
        bool is_manifest = f == FILE_COUNT - 1;
        for (size_t bit = 0; bit < content.length * 8; bit += is_manifest ? 1 : 7) {
            content.data[bit / 8] = (char)(content.data[bit / 8] ^ (1 << bit % 8));
            write_whole(path, content.data, content.length);
            error_clear();
            if (checkpoint_verify(scene.path, false) == 0)
                test_fail("bit %zu of %s flipped and nobody noticed", bit, files[f]);
            // Without the checksums any values may come out, but nothing may crash.
            int64_t iteration;
            (void)small_load(scene.path, &iteration);
            content.data[bit / 8] = (char)(content.data[bit / 8] ^ (1 << bit % 8));
        }
        write_whole(path, content.data, content.length);
        EXPECT_OK(checkpoint_verify(scene.path, false));
        buffer_free(&content);
        free(path);
    }
    scene_remove(&scene);
}

// The tensor that a byte of a file belongs to, according to the file's header; NULL for the header.
static const struct safetensors_tensor *tensor_at(const struct safetensors *file, size_t byte) {
    for (size_t i = 0; i < file->count; i++) {
        size_t begin = (size_t)(file->tensors[i].data - file->map.data);
        if (byte >= begin && byte - begin < file->tensors[i].bytes)
            return &file->tensors[i];
    }
    return NULL;
}

// Damages every byte of the tensors' files in turn: the message names the tensor and its place.
TEST(tensors_are_named) {
    struct scene scene = scene_create();
    for (size_t f = 0; f < 2; f++) {
        char *path = file_join(scene.path, files[f]), *copy = memory_printf("%s.copy", path);
        struct buffer content = read_whole(path);
        write_whole(copy, content.data, content.length);
        struct safetensors whole;
        EXPECT_OK(safetensors_open(&whole, copy));
        for (size_t byte = 0; byte < content.length; byte += 3) {
            const struct safetensors_tensor *tensor = tensor_at(&whole, byte);
            char *expected = memory_string("in its header");
            if (tensor) {
                size_t begin = (size_t)(tensor->data - whole.map.data);
                free(expected);
                expected = memory_printf("tensor \"%s\", bytes %zu to %zu of the file", tensor->name, begin,
                                         begin + tensor->bytes - 1);
            }
            content.data[byte] = (char)(content.data[byte] ^ 4);
            // Damage after the first does not matter.
            content.data[content.length - 1] = (char)(content.data[content.length - 1] ^ 1);
            write_whole(path, content.data, content.length);
            EXPECT_INT(checkpoint_verify(scene.path, false), -1);
            if (!strstr(error_message(), expected))
                test_fail("byte %zu of %s: \"%s\" is not in: %s", byte, files[f], expected, error_message());
            content.data[byte] = (char)(content.data[byte] ^ 4);
            content.data[content.length - 1] = (char)(content.data[content.length - 1] ^ 1);
            free(expected);
        }
        write_whole(path, content.data, content.length);
        safetensors_close(&whole);
        EXPECT_INT(unlink(copy), 0);
        buffer_free(&content);
        free(path);
        free(copy);
    }
    EXPECT_OK(checkpoint_verify(scene.path, false));
    scene_remove(&scene);
}

TEST(cut_files) {
    struct scene scene = scene_create();
    for (size_t f = 0; f < FILE_COUNT; f++) {
        char *path = file_join(scene.path, files[f]);
        struct buffer content = read_whole(path);
        for (size_t length = 0; length < content.length; length += 3) {
            // A manifest without its last newline is still complete.
            if (f == FILE_COUNT - 1 && length == content.length - 1)
                continue;
            write_whole(path, content.data, length);
            error_clear();
            if (checkpoint_verify(scene.path, true) == 0)
                test_fail("%s cut to %zu bytes and nobody noticed", files[f], length);
            int64_t iteration;
            (void)small_load(scene.path, &iteration);
        }
        expect_damaged(&scene, files[f]);
        write_whole(path, content.data, content.length);
        buffer_append(&content, "x", 1);
        write_whole(path, content.data, content.length);
        expect_damaged(&scene, files[f]);
        write_whole(path, content.data, content.length - 1);
        buffer_free(&content);
        free(path);
    }
    EXPECT_INT(small_resume(scene.folder.path, false), 20);
    scene_remove(&scene);
}

TEST(missing_and_swapped) {
    struct scene scene = scene_create();
    char *older = checkpoint_path(scene.folder.path, 10);
    for (size_t f = 0; f < FILE_COUNT; f++) {
        char *path = file_join(scene.path, files[f]), *other = file_join(older, files[f]);
        struct buffer content = read_whole(path), foreign = read_whole(other);
        EXPECT_INT(unlink(path), 0);
        expect_damaged(&scene, files[f]);
        // The same file of another iteration: same size, different content; config.json is the same in both.
        if (strcmp(files[f], "config.json") != 0) {
            write_whole(path, foreign.data, foreign.length);
            EXPECT_INT(small_resume(scene.folder.path, false), -1);
            EXPECT_INT(small_resume(scene.folder.path, true), 10);
        }
        write_whole(path, content.data, content.length);
        EXPECT_INT(small_resume(scene.folder.path, true), 20);
        buffer_free(&content);
        buffer_free(&foreign);
        free(path);
        free(other);
    }
    free(older);
    scene_remove(&scene);
}

TEST(asked_for_by_number) {
    struct scene scene = scene_create();
    char *path = NULL;
    int64_t iteration = 0;
    struct checkpoint_find find = {.folder = scene.folder.path, .step = 10, .allow_fallback = true};
    EXPECT_OK(checkpoint_find(&find, &path, &iteration));
    EXPECT_INT(iteration, 10);
    free(path);
    find.step = 15;
    EXPECT_ERROR(checkpoint_find(&find, &path, &iteration), "iteration 15");
    EXPECT_INT(error_exit_code(), EXIT_CODE_NO_CHECKPOINT);
    // A request for one iteration gets that one or none.
    char *state = file_join(scene.path, "state.json");
    write_whole(state, "{}", 2);
    find.step = 20;
    EXPECT_ERROR(checkpoint_find(&find, &path, &iteration), "state.json");
    free(state);
    scene_remove(&scene);
}

TEST(garbled_marker) {
    struct scene scene = scene_create();
    const char *const garbled[] = {"",           "abc",     "-1",   "1e1", "20x", "99999999999999999999999999999",
                                   "\x80\x81\n", "release", "  20", "2 0", "0x14"};
    for (size_t i = 0; i < sizeof garbled / sizeof garbled[0]; i++) {
        write_whole(scene.marker, garbled[i], strlen(garbled[i]));
        EXPECT_INT(small_resume(scene.folder.path, false), 20);
    }
    write_whole(scene.marker, "10\0", 3);
    EXPECT_INT(small_resume(scene.folder.path, false), 20);
    // What people and editors leave after a number is fine, and an older iteration is accepted.
    const char *const good[] = {"10", "10\n", "10\r\n", "0000010", "10 \n"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        write_whole(scene.marker, good[i], strlen(good[i]));
        EXPECT_INT(small_resume(scene.folder.path, false), 10);
    }
    EXPECT_INT(unlink(scene.marker), 0);
    EXPECT_INT(small_resume(scene.folder.path, false), 20);
    write_whole(scene.marker, "30", 2);
    EXPECT_INT(small_resume(scene.folder.path, false), -1);
    EXPECT(strstr(error_message(), "iter_0000030") != NULL);
    EXPECT_INT(small_resume(scene.folder.path, true), 20);
    scene_remove(&scene);
}

TEST(nothing_there) {
    struct temporary folder = temporary_create_fast();
    char *path = NULL;
    int64_t iteration;
    struct checkpoint_find find = {.folder = folder.path, .step = -1};
    EXPECT(!checkpoint_exists(folder.path));
    EXPECT(!checkpoint_exists("/nonexistent"));
    EXPECT_ERROR(checkpoint_find(&find, &path, &iteration), "no valid checkpoint");
    EXPECT_INT(error_exit_code(), EXIT_CODE_NO_CHECKPOINT);
    find.folder = "/nonexistent";
    EXPECT_ERROR(checkpoint_find(&find, &path, &iteration), "/nonexistent");
    EXPECT_INT(error_exit_code(), EXIT_CODE_NO_CHECKPOINT);
    EXPECT_OK(small_save(folder.path, 1, 0));
    EXPECT(checkpoint_exists(folder.path));
    temporary_remove(&folder);
}

TEST(hostile_manifest) {
    struct scene scene = scene_create();
    char *path = file_join(scene.path, "manifest.json");
    const struct {
        const char *text, *message;
    } cases[] = {
        {"[]", "format"},
        {"{\"format\": \"other\", \"version\": 1, \"iteration\": 20, \"files\": []}", "\"other\""},
        {"{\"format\": \"bevatron-checkpoint\", \"version\": 3, \"iteration\": 20, \"files\": []}",
         "it has version 3 and this program reads versions 1 to 2; use the program that wrote it or a newer one"},
        {"{\"format\": \"bevatron-checkpoint\", \"version\": 0, \"iteration\": 20, \"files\": []}", "version 0"},
        {"{\"format\": \"bevatron-checkpoint\", \"version\": 1, \"iteration\": 20, \"files\": []}", "files"},
        {"{\"format\": \"bevatron-checkpoint\", \"version\": 1, \"iteration\": -5, \"files\": []}", "negative"},
        {"{\"format\": \"bevatron-checkpoint\", \"version\": 1, \"iteration\": 20, \"files\": [{\"name\": "
         "\"../../etc/passwd\", \"holds\": \"model\", \"bytes\": 1, \"sha256\": \"\"}]}",
         "not a file of this folder"},
        {"{\"format\": \"bevatron-checkpoint\", \"version\": 1, \"iteration\": 20, \"files\": [{\"name\": "
         "\"x\", \"holds\": \"model\", \"bytes\": 1, \"sha256\": \"12\"}]}",
         "64 hexadecimal digits"},
        {"{\"format\": \"bevatron-checkpoint\", \"version\": 1, \"iteration\": 20, \"files\": [{\"name\": "
         "\"x\", \"holds\": \"nodel\", \"bytes\": 1, \"sha256\": \"12\"}]}",
         "not a part of a checkpoint"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_whole(path, cases[i].text, strlen(cases[i].text));
        EXPECT_ERROR(checkpoint_verify(scene.path, false), cases[i].message);
    }
    free(path);
    scene_remove(&scene);
}

// Not damage: falling back would lose what a newer program has trained.
TEST(newer_program) {
    struct scene scene = scene_create();
    char *path = file_join(scene.path, "manifest.json");
    struct buffer content = read_whole(path);
    static const char newer[] =
        "{\"format\": \"bevatron-checkpoint\", \"version\": 3, \"iteration\": 20, \"files\": []}";
    write_whole(path, newer, strlen(newer));
    for (int has_marker = 1; has_marker >= 0; has_marker--) {
        EXPECT_INT(small_resume(scene.folder.path, true), -1);
        EXPECT(strstr(error_message(), "it has version 3") != NULL);
        EXPECT_INT(error_exit_code(), EXIT_CODE_NO_CHECKPOINT);
        if (has_marker)
            EXPECT_INT(unlink(scene.marker), 0);
    }
    write_whole(path, content.data, content.length);
    EXPECT_INT(small_resume(scene.folder.path, true), 20);
    buffer_free(&content);
    free(path);
    scene_remove(&scene);
}

// A kill between the two renames that replace an exchange on file systems without one.
TEST(moved_aside) {
    struct scene scene = scene_create();
    char *aside = file_join(scene.folder.path, "iter_0000020.tmp.old.tmp.elsewhere.77.0123abcd");
    char *half = file_join(scene.folder.path, "iter_0000020.tmp.old.77.0123abcd");
    EXPECT_INT(rename(scene.path, half), 0);  // a save in progress on a host called "old"
    EXPECT_INT(small_resume(scene.folder.path, false), -1);
    EXPECT_INT(rename(half, aside), 0);
    EXPECT_INT(small_resume(scene.folder.path, false), 20);
    EXPECT(!file_exists(aside));
    EXPECT_INT(rename(scene.path, aside), 0);
    EXPECT_OK(small_save(scene.folder.path, 30, 0));
    EXPECT_OK(checkpoint_verify(scene.path, false));
    EXPECT(!file_exists(aside));
    free(aside);
    free(half);
    scene_remove(&scene);
}

// Processes that share the verification: every file belongs to exactly one of them, however many there are, and with
// files of similar sizes all have about the same work.
TEST(divided_proof) {
    struct scene scene = scene_create();
    struct manifest manifest;
    EXPECT_OK(manifest_read(&manifest, scene.path));
    EXPECT_INT(manifest.count, FILE_COUNT - 1);
    for (size_t f = 0; f < manifest.count; f++) {
        char *path = file_join(scene.path, manifest.files[f].name);
        struct buffer content = read_whole(path);
        content.data[content.length / 2] ^= 1;
        write_whole(path, content.data, content.length);
        for (int size = 1; size <= 7; size++) {
            int found = 0;
            for (int self = 0; self < size; self++)
                found +=
                    manifest_verify(&manifest, scene.path, &(struct manifest_proof){.self = self, .size = size}) < 0;
            EXPECT_INT(found, 1);
            EXPECT(strstr(error_message(), manifest.files[f].name) != NULL);
        }
        content.data[content.length / 2] ^= 1;
        write_whole(path, content.data, content.length);
        buffer_free(&content);
        free(path);
    }
    // The two largest files go to different processes: if both are lost, both notice.
    int found = 0;
    size_t largest = 0;
    for (size_t f = 1; f < manifest.count; f++)
        largest = manifest.files[f].bytes > manifest.files[largest].bytes ? f : largest;
    size_t second = largest == 0;
    for (size_t f = 0; f < manifest.count; f++)
        second = f != largest && manifest.files[f].bytes > manifest.files[second].bytes ? f : second;
    for (int i = 0; i < 2; i++) {
        char *path = file_join(scene.path, manifest.files[i == 0 ? largest : second].name);
        EXPECT_INT(unlink(path), 0);
        free(path);
    }
    for (int self = 0; self < 2; self++)
        found += manifest_verify(&manifest, scene.path, &(struct manifest_proof){.self = self, .size = 2}) < 0;
    EXPECT_INT(found, 2);
    manifest_free(&manifest);
    scene_remove(&scene);
}

TEST_MAIN(TEST_CASE(divided_proof), TEST_CASE(flipped_bits), TEST_CASE(tensors_are_named), TEST_CASE(cut_files),
          TEST_CASE(missing_and_swapped), TEST_CASE(asked_for_by_number), TEST_CASE(garbled_marker),
          TEST_CASE(nothing_there), TEST_CASE(hostile_manifest), TEST_CASE(newer_program), TEST_CASE(moved_aside))
