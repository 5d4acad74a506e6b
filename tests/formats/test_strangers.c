// Folders of strangers: links that point at files elsewhere, which must not be copied into what we write, pipes of
// which nobody writes the other end, and weights without a configuration.
#include "base/file.h"
#include "base/memory.h"
#include "formats/contents.h"
#include "formats/hf_surroundings.h"
#include "formats/hf_tokenizer_files.h"
#include "formats/model_source.h"
#include "store/checkpoint.h"
#include "store/extra.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[64];

static char *at(const char *name) {
    static char paths[4][256];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", top, name);
    return path;
}

static void make(const char *name, const char *text) {
    EXPECT_OK(file_make_parent(at(name)));
    EXPECT_OK(file_write_all(at(name), text, strlen(text)));
}

static void point(const char *name, const char *target) {
    EXPECT_OK(file_make_parent(at(name)));
    EXPECT_INT(symlink(target, at(name)), 0);
}

static void begin(void) {
    snprintf(top, sizeof top, "/tmp/bevatron_strangers_XXXXXX");
    EXPECT(mkdtemp(top) != NULL);
    make("secret", "s3cret\n");
}

static void end(void) {
    EXPECT_OK(file_remove_tree(top));
}

// The names that would be copied, and what is said of the others.
static void list(const char *folder, struct buffer *names, struct buffer *left) {
    struct checkpoint_file_list files = {0};
    hf_surroundings_list(at(folder), &files, left);
    for (size_t i = 0; i < files.count; i++)
        buffer_printf(names, "%s ", strrchr(files.items[i].path, '/') + 1);
    checkpoint_file_list_free(&files);
}

TEST(links_that_lead_out_are_not_copied) {
    struct buffer names = {0}, left = {0};
    begin();
    make("model/NOTICE", "mine\n");
    point("model/LICENSE", "../secret");
    point("model/README.md", at("secret"));
    point("model/COPYING", "NOTICE");
    point("model/additional_chat_templates/x.jinja", "../../secret");
    point("model/additional_chat_templates/y.jinja", "../NOTICE");
    make("model-2/LICENSE", "a folder whose name begins with that of the other\n");
    point("model/other", "../model-2/LICENSE");
    EXPECT_INT(mkfifo(at("model/pipe"), 0600), 0);
    list("model", &names, &left);
    EXPECT_STRING(buffer_string(&names), "COPYING NOTICE y.jinja ");
    EXPECT_STRING(buffer_string(&left),
                  "LICENSE (a link that leads out of the folder), README.md (a link that leads out of "
                  "the folder), x.jinja (a link that leads out of the folder), other (a link that "
                  "leads out of the folder), pipe (not a regular file)");
    buffer_free(&names);
    buffer_free(&left);
    end();
}

// The layout of the hub's client: a snapshot has links to blobs, and owns nothing else outside.
TEST(snapshots_of_the_hub_keep_their_files) {
    struct buffer names = {0}, left = {0};
    begin();
    make("models--a--b/blobs/0123", "licence\n");
    make("models--a--c/blobs/4567", "another model's\n");
    point("models--a--b/snapshots/89ab/LICENSE", "../../blobs/0123");
    point("models--a--b/snapshots/89ab/README.md", "../../../models--a--c/blobs/4567");
    list("models--a--b/snapshots/89ab", &names, &left);
    EXPECT_STRING(buffer_string(&names), "LICENSE ");
    EXPECT_STRING(buffer_string(&left), "README.md (a link that leads out of the folder)");
    // Through a link to the snapshot, too.
    buffer_clear(&names);
    buffer_clear(&left);
    point("short", "models--a--b/snapshots/89ab");
    list("short", &names, &left);
    EXPECT_STRING(buffer_string(&names), "LICENSE ");
    buffer_free(&names);
    buffer_free(&left);
    end();
}

TEST(tokenizers_that_lead_out_are_refused) {
    static const char *const files[] = {"tokenizer.json", "tokenizer.model", "vocab.txt"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        begin();
        char *name = memory_printf("model/%s", files[i]);
        point(name, "../secret");
        struct model_source source = {.path = at("model")};
        config_defaults(&source.config);
        EXPECT_ERROR(hf_tokenizer_find(&source), "is a link that leads out of the folder");
        EXPECT_INT(source.files.count, 0);
        unlink(at(name));
        EXPECT_INT(mkfifo(at(name), 0600), 0);
        EXPECT_ERROR(hf_tokenizer_find(&source), "is a pipe (FIFO), not a regular file");
        config_free(&source.config);
        free(name);
        end();
    }
}

static void expect_unreadable(const char *message) {
    struct model_source source;
    struct model_source_options options = {.path = at("model"), .step = -1};
    EXPECT_ERROR(model_source_open(&source, &options), message);
}

static bool is_foreign(const char *name) {
    struct contents contents;
    EXPECT_OK(contents_look(&contents, at(name), -1));
    return contents_is_foreign(&contents);
}

TEST(configurations_that_are_not_files_are_refused) {
    begin();
    make("model/model.safetensors", "");
    EXPECT(is_foreign("model"));
    EXPECT_ERROR(checkpoint_verify(at("model"), false), "has weights of Hugging Face but no config.json");
    expect_unreadable("model has weights of Hugging Face but no config.json, which says what model they are");
    EXPECT_INT(mkfifo(at("model/config.json"), 0600), 0);
    expect_unreadable("config.json is a pipe (FIFO), not a regular file");
    unlink(at("model/config.json"));
    point("model/config.json", "/dev/zero");
    expect_unreadable("config.json is a device, not a regular file");
    unlink(at("model/config.json"));
    make("elsewhere.json", "{\"model_type\": \"gpt2\"}");
    point("model/config.json", "../elsewhere.json");
    expect_unreadable("config.json is a link that leads out of the folder");
    unlink(at("model/config.json"));
    make("adapter/adapter_model.safetensors", "");
    EXPECT(is_foreign("adapter"));
    make("model/config.json", "[1, 2]");
    expect_unreadable("config.json: it is not a JSON object");
    make("model/config.json", "{\"a\": 1}");
    expect_unreadable("model_type");
    EXPECT_ERROR(checkpoint_verify(at("model"), false), "if it is a model of another program, convert it first");
    // A checkpoint of ours has weights of that name, too: without its manifest it is damaged, and not a stranger's.
    make("run/iter_0000007/model.safetensors", "");
    make("run/iter_0000007/config.json", "{\"a\": 1}");
    EXPECT(!is_foreign("run/iter_0000007") && !is_foreign("run"));
    end();
}

TEST_MAIN(TEST_CASE(links_that_lead_out_are_not_copied), TEST_CASE(snapshots_of_the_hub_keep_their_files),
          TEST_CASE(tokenizers_that_lead_out_are_refused), TEST_CASE(configurations_that_are_not_files_are_refused))
