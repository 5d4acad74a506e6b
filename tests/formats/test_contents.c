// Whom a folder belongs to: our checkpoints and those of every other program that can be recognized by its files.
#include "test.h"

#include "base/file.h"
#include "base/memory.h"
#include "formats/contents.h"
#include "store/folder.h"
#include "store/temporary.h"
#include <sys/stat.h>

// Creates what a row names: files, and folders if a path has a slash. "NAME=TEXT" gives a file its content.
static void make_entries(const char *folder, const char *const *entries) {
    for (size_t i = 0; entries[i]; i++) {
        const char *equals = strchr(entries[i], '=');
        char *name = memory_printf("%.*s", equals ? (int)(equals - entries[i]) : (int)strlen(entries[i]), entries[i]);
        char *path = file_join(folder, name);
        EXPECT_OK(file_make_parent(path));
        EXPECT_OK(file_write_all(path, equals ? equals + 1 : "x", equals ? strlen(equals + 1) : 1));
        free(name);
        free(path);
    }
}

enum { MOST_ENTRIES = 8 };
static const struct {
    enum contents_owner owner;
    const char *what;  // or, for ours, the latest iteration
    const char *entries[MOST_ENTRIES];
} rows[] = {
    {OWNER_NOBODY, "", {NULL}},
    {OWNER_NOBODY, "", {"notes.txt", "data/books.bin", "books_text_document.bin", "config.json={\"lr\": 1}", NULL}},
    {OWNER_NOBODY, "", {"metrics.jsonl", "tensorboard/events", "config.json=// not JSON", NULL}},
    {OWNER_NOBODY, "", {"iter_10/x", "iter_0000010.bak/x", "release/notes", "checkpoint-best/x", NULL}},
    {OWNER_OURS, "10", {"iter_0000010/manifest.json", "notes.txt", NULL}},
    {OWNER_OURS, "20", {"iter_0000010/manifest.json", "iter_0000020/manifest.json={", NULL}},
    {OWNER_OURS, "10", {"iter_0000010/state.json", "iter_0000010/model.safetensors", NULL}},
    // Our folder stays ours if it also holds an export or another program's model.
    {OWNER_OURS, "10", {"iter_0000010/manifest.json", "model.safetensors", "best.pt", NULL}},
    {OWNER_OURS, "-1", {"latest_checkpointed_iteration.txt=10", NULL}},
    // Those after the marker do not count: the run went back.
    {OWNER_OURS,
     "10",
     {"iter_0000010/manifest.json", "iter_0000020/manifest.json", "latest_checkpointed_iteration.txt=10", NULL}},
    {OWNER_OURS,
     "10",
     {"iter_0000010/manifest.json", "iter_0000020/manifest.json", "latest_checkpointed_iteration.txt=15", NULL}},
    {OWNER_OURS, "-1", {"iter_0000020/manifest.json", "best.pt", "latest_checkpointed_iteration.txt=10", NULL}},
    // The marker decides between iterations of two programs.
    {OWNER_OURS,
     "150",
     {"iter_0000100/mp_rank_00/model_optim_rng.pt", "iter_0000150/manifest.json",
      "latest_checkpointed_iteration.txt=150", NULL}},
    {OWNER_OTHERS,
     "Megatron-LM checkpoint (torch)",
     {"iter_0000100/mp_rank_00/model_optim_rng.pt", "iter_0000150/manifest.json",
      "latest_checkpointed_iteration.txt=100", NULL}},
    {OWNER_OTHERS,
     "Megatron-LM checkpoint (torch)",
     {"iter_0000100/mp_rank_00/model_optim_rng.pt", "latest_checkpointed_iteration.txt=100", NULL}},
    {OWNER_OTHERS, "Megatron-LM checkpoint (torch)", {"iter_0000100/mp_rank_00_000/model_optim_rng.pt", NULL}},
    {OWNER_OTHERS,
     "Megatron-LM checkpoint (torch)",
     {"release/mp_rank_00/model_optim_rng.pt", "latest_checkpointed_iteration.txt=release", NULL}},
    {OWNER_OTHERS, "Megatron-LM checkpoint (torch)", {"mp_rank_00/model_optim_rng.pt", NULL}},
    {OWNER_OTHERS,
     "Megatron-LM checkpoint (torch_dist)",
     {"iter_0000100/metadata.json={\"sharded_backend\": \"torch_dist\"}", "iter_0000100/.metadata",
      "iter_0000100/common.pt", NULL}},
    {OWNER_OTHERS,
     "Megatron-LM checkpoint (zarr)",
     {"iter_0000100/metadata.json={\"sharded_backend\": \"zarr\"}", "iter_0000100/a.b/.zarray", NULL}},
    {OWNER_OTHERS, "(torch_dcp)", {"iter_0000100/.metadata=model.decoder.x", "iter_0000100/__0_0.distcp", NULL}},
    {OWNER_OTHERS, "(fsdp_dtensor)", {"iter_0000100/.metadata=model.module.decoder.x", NULL}},
    {OWNER_OTHERS, "(torch_dcp)", {".metadata", "__0_0.distcp", NULL}},
    {OWNER_OTHERS, "another program", {"iter_0000100/weights.bin", NULL}},
    {OWNER_OTHERS, "Hugging Face", {"config.json={\"model_type\": \"gpt2\"}", NULL}},
    {OWNER_OTHERS, "safetensors", {"model.safetensors", NULL}},
    {OWNER_OTHERS, "Hugging Face", {"pytorch_model-00001-of-00002.bin", NULL}},
    {OWNER_OTHERS, "Trainer", {"checkpoint-500/x", NULL}},
    {OWNER_OTHERS, "fairseq", {"checkpoint_last.pt", NULL}},
    {OWNER_OTHERS, "DeepSpeed", {"global_step100/x", "latest=global_step100", NULL}},
    {OWNER_OTHERS, "PyTorch", {"consolidated.00.pth", NULL}},
    {OWNER_OTHERS, "GGUF", {"model.gguf", NULL}},
    {OWNER_OTHERS, "one iteration", {"manifest.json", "state.json", "model.safetensors", NULL}},
};

TEST(folders_by_their_names) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct temporary folder = temporary_create();
        struct contents contents;
        make_entries(folder.path, rows[i].entries);
        EXPECT_OK(contents_look(&contents, folder.path, -1));
        bool is_right = contents.owner == rows[i].owner;
        if (contents.owner == OWNER_OTHERS)
            is_right = is_right && strstr(contents.what, rows[i].what);
        if (contents.owner == OWNER_OURS)
            is_right = is_right && contents.iteration == strtoll(rows[i].what, NULL, 10);
        if (!is_right)
            test_fail("row %zu (%s): kind %d, %s, iteration %" PRId64, i, rows[i].entries[0], (int)contents.owner,
                      contents.owner == OWNER_OTHERS ? contents.what : "", contents.iteration);
        temporary_remove(&folder);
    }
}

// Where two programs have saved, the marker says what is loaded, as it says whose the folder is.
TEST(the_marker_decides_what_is_read) {
    static const char *const theirs[] = {"iter_0000100/mp_rank_00/model_optim_rng.pt", "iter_0000150/manifest.json",
                                         "latest_checkpointed_iteration.txt=100", NULL};
    static const char *const ours[] = {"latest_checkpointed_iteration.txt=150", NULL};
    struct temporary folder = temporary_create();
    struct contents contents;
    make_entries(folder.path, theirs);
    EXPECT_OK(contents_look(&contents, folder.path, -1));
    EXPECT(contents.kind == CONTENTS_MEGATRON && contents.is_claimed);
    EXPECT_INT(contents.iteration, 100);
    make_entries(folder.path, ours);
    EXPECT_OK(contents_look(&contents, folder.path, -1));
    EXPECT(contents.kind == CONTENTS_OURS && contents.is_claimed);
    EXPECT_INT(contents.iteration, 150);
    temporary_remove(&folder);
}

// Never waits for a pipe without a writer.
TEST(pipes) {
    static const char *const names[] = {"x.bin", "config.json", "metadata.json", ".metadata", "model.safetensors"};
    struct temporary folder = temporary_create();
    struct contents contents;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = file_join(folder.path, names[i]);
        EXPECT(mkfifo(path, 0666) == 0);
        free(path);
    }
    EXPECT_OK(contents_look(&contents, folder.path, -1));
    temporary_remove(&folder);
}

TEST(models_of_others) {
    static const char *const folders[][2] = {{"gpt2", "Hugging Face"},
                                             {"megatron_v3_llama", "(torch)"},
                                             {"megatron_dist_gpt", "(torch_dist)"},
                                             {"megatron_dist_core19", "(torch_dist)"}};
    struct contents contents;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char *path = memory_printf("tests/golden/foreign/%s", folders[i][0]);
        EXPECT_OK(contents_look(&contents, path, -1));
        EXPECT(contents_is_foreign(&contents) && contents.is_claimed);
        EXPECT_ERROR(contents_refuse_others(&contents, path, "give another"), folders[i][1]);
        EXPECT_ERROR(contents_check_free(path, "--output"),
                     "nothing is written there; give another folder with --output");
        free(path);
    }
    struct temporary folder = temporary_create();
    char *link = file_join(folder.path, "gpt2_124M.bin"),
         *target = realpath("tests/golden/foreign/llmc_bf16.bin", NULL);
    EXPECT(target && symlink(target, link) == 0);
    EXPECT_OK(contents_look(&contents, folder.path, -1));
    EXPECT_INT(contents.kind, CONTENTS_NONE);
    EXPECT_ERROR(contents_refuse_others(&contents, folder.path, "give another"), "llm.c checkpoint: gpt2_124M.bin");
    EXPECT_OK(contents_look(&contents, "/nonexistent", -1));
    EXPECT_INT(contents.owner, OWNER_NOBODY);
    free(link);
    free(target);
    temporary_remove(&folder);
}

TEST(what_may_be_removed) {
    static const struct {
        const char *stranger;
        const char *entries[MOST_ENTRIES];
    } cases[] = {
        {NULL, {"manifest.json", "state.json", "config.json", "model.safetensors", "optimizer.safetensors", NULL}},
        {NULL, {"model-00001-of-00002.safetensors", "vocab-file_vocab.json", "huggingface_README.md", NULL}},
        {NULL, {"model.safetensors.tmp.host.12.00c0ffee", NULL}},
        // Of the trial before the first iteration, and while it writes one.
        {NULL, {"rehearsal-0", "rehearsal-1.tmp.host.12.00c0ffee", NULL}},
        {"notes.txt", {"manifest.json", "notes.txt", NULL}},
        {"model-best.safetensors", {"manifest.json", "model-best.safetensors", NULL}},
        {"model.safetensors.tmp.1", {"model.safetensors.tmp.1", NULL}},
        {"state.json", {"state.json/x", NULL}},
        {NULL,  // files listed in the manifest are ours under any name
         {"manifest.json={\"format\": \"bevatron-checkpoint\", \"version\": 1, \"iteration\": 1, \"files\": "
          "[{\"name\": "
          "\"later\", \"holds\": \"file\", \"bytes\": 1, \"sha256\": "
          "\"0000000000000000000000000000000000000000000000000000000000000000\"}]}",
          "later", NULL}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct temporary folder = temporary_create();
        char *stranger = NULL;
        make_entries(folder.path, cases[i].entries);
        EXPECT_INT(folder_may_remove(folder.path, &stranger), cases[i].stranger == NULL);
        if (cases[i].stranger)
            EXPECT_STRING(stranger, cases[i].stranger);
        free(stranger);
        temporary_remove(&folder);
    }
}

TEST_MAIN(TEST_CASE(folders_by_their_names), TEST_CASE(the_marker_decides_what_is_read), TEST_CASE(pipes),
          TEST_CASE(models_of_others), TEST_CASE(what_may_be_removed))
