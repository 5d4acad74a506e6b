// Checkpoints as a run uses them: save, find, load, on two kinds of memory; other models, other precisions, leftovers
// of other runs; how many are kept.
#include "base/memory.h"
#include "store/checkpoint.h"
#include "store/devices.h"
#include "store/manifest.h"
#include "store/temporary.h"
#include "test.h"
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

static struct device host = {.ops = &host_ops};

// A small model with one tensor larger than a staging piece.
enum { LARGE = 5000000 };
struct small_world {
    float *large;
    float small[6];
    float m[6];
    struct checkpoint_tensor model[2], optimizer[1];
    struct checkpoint_state state;
};

static void world_create(struct small_world *w, uint32_t seed) {
    *w = (struct small_world){.large = malloc(LARGE * sizeof(float))};
    for (size_t i = 0; i < LARGE; i++)
        w->large[i] = (float)(seed + i * 7 % 1000003);
    for (size_t i = 0; i < 6; i++) {
        w->small[i] = (float)(seed + i) / 3;
        w->m[i] = -(float)(seed * i) / 7;
    }
    w->model[0] = (struct checkpoint_tensor){.name = "embedding.weight",
                                             .tensor = tensor_2d(w->large, DTYPE_F32, LARGE / 10, 10)};
    w->model[1] = (struct checkpoint_tensor){.name = "norm.weight", .tensor = tensor_1d(w->small, DTYPE_F32, 6)};
    w->optimizer[0] = (struct checkpoint_tensor){.name = "m.norm.weight", .tensor = tensor_1d(w->m, DTYPE_F32, 6)};
    w->state = (struct checkpoint_state){.iteration = 10,
                                         .consumed_train_samples = 9007199254740993,  // not representable as a double
                                         .consumed_valid_samples = 77,
                                         .skipped_train_samples = 3,
                                         .adam_step = 9,
                                         .schedule_samples = 90,
                                         .seed = INT64_MAX,
                                         .loss_scale = 4294967296.0,
                                         .loss_scale_growth = 12,
                                         .loss_scale_hysteresis = 2,
                                         .flops_so_far = 1.0 / 3,
                                         .config_json = "{\n \"num_layers\": 12, \"text\": \"ünï\"\n}"};
}

static void world_free(struct small_world *w) {
    free(w->large);
}

static struct checkpoint_save save_of(struct small_world *w, const char *folder) {
    return (struct checkpoint_save){.folder = folder,
                                    .device = &host,
                                    .model = w->model,
                                    .model_count = 2,
                                    .optimizer = w->optimizer,
                                    .optimizer_count = 1,
                                    .state = &w->state};
}

// Only the small tensors, for tests that save often.
static void save_small(struct small_world *w, const char *folder, int64_t iteration, int64_t keep_last) {
    struct checkpoint_save save = save_of(w, folder);
    save.model = &w->model[1];
    save.model_count = 1;
    save.keep_last = keep_last;
    w->state.iteration = iteration;
    EXPECT_OK(checkpoint_save(&save));
}

static int64_t find_iteration(const char *folder, bool allow_fallback) {
    char *path = NULL;
    int64_t iteration = -1;
    struct checkpoint_find find = {.folder = folder, .step = -1, .allow_fallback = allow_fallback};
    if (checkpoint_find(&find, &path, &iteration) < 0)
        iteration = -1;
    free(path);
    return iteration;
}

static bool has_checkpoint(const char *folder, int64_t iteration) {
    char *path = checkpoint_path(folder, iteration);
    bool exists = file_exists(path);
    free(path);
    return exists;
}

// A run's record of its troubles is restored unchanged; files of older programs have none.
TEST(past_round_trip) {
    struct temporary folder = temporary_create();
    struct small_world w;
    world_create(&w, 1);
    struct checkpoint_past *past = &w.state.past;
    past->skipped[0] = (struct checkpoint_span){7, 9};
    past->skipped[1] = (struct checkpoint_span){100, 100};
    past->skipped_count = 2;
    past->window_count = CHECKPOINT_WINDOW;
    past->streak = 2;
    for (int i = 0; i < CHECKPOINT_WINDOW; i++) {
        past->losses[i] = 1.0 / (i + 3);
        past->norms[i] = 1e300 / (i + 7);
    }
    w.state.replicas_verified = 4;
    save_small(&w, folder.path, 5, 0);
    *past = (struct checkpoint_past){0};
    w.state.replicas_verified = 0;
    save_small(&w, folder.path, 6, 0);
    struct checkpoint_state state;
    char *path = checkpoint_path(folder.path, 5);
    EXPECT_OK(checkpoint_load_state(path, &state));
    EXPECT_INT(state.replicas_verified, 4);
    EXPECT_INT(state.past.skipped_count, 2);
    EXPECT(state.past.skipped[0].first == 7 && state.past.skipped[0].last == 9);
    EXPECT(state.past.skipped[1].first == 100 && state.past.skipped[1].last == 100);
    EXPECT_INT(state.past.window_count, CHECKPOINT_WINDOW);
    EXPECT_INT(state.past.streak, 2);
    for (int i = 0; i < CHECKPOINT_WINDOW; i++)
        EXPECT(state.past.losses[i] == 1.0 / (i + 3) && state.past.norms[i] == 1e300 / (i + 7));
    checkpoint_state_free(&state);
    EXPECT_INT(checkpoint_newest_verified(&(struct checkpoint_wish){.folder = folder.path, .most = 100}), 5);
    EXPECT_INT(checkpoint_newest_verified(&(struct checkpoint_wish){.folder = folder.path, .most = 4}), -1);
    free(path);
    path = checkpoint_path(folder.path, 6);
    char *file = file_join(path, "state.json");
    struct buffer text = read_whole(file);
    EXPECT(!strstr(buffer_string(&text), "skipped_iterations") && !strstr(buffer_string(&text), "latest_losses"));
    static const struct {
        const char *members, *says;
    } bad[] = {
        {"\"skipped_iterations\": 3", "is not an array"},
        {"\"skipped_iterations\": [[3]]", "pair 1 of skipped_iterations"},
        {"\"skipped_iterations\": [[3, 2]]", "pair 1 of skipped_iterations"},
        {"\"skipped_iterations\": [[3, 5], [5, 6]]", "pair 2 of skipped_iterations"},
        {"\"skipped_iterations\": [[0, 5]]", "pair 1 of skipped_iterations"},
        {"\"skipped_iterations\": [[1.5, 5]]", "pair 1 of skipped_iterations"},
        {"\"skipped_iterations\": [[1, 1e99]]", "pair 1 of skipped_iterations"},
        {"\"latest_losses\": [1, null], \"latest_grad_norms\": [1, 2]", "entry 2 of latest_losses"},
        {"\"latest_losses\": [1], \"latest_grad_norms\": [1, 2]", "differ in length"},
        {"\"latest_losses\": [1]", "differ in length"},
        {"\"spike_streak\": -1", "spike_streak is negative"},
        {"\"replicas_verified\": -1, \"x\": 0", "a count in it is negative"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct buffer spoiled = {0};
        buffer_printf(&spoiled, "{%s,%s", bad[i].members, strchr(buffer_string(&text), '{') + 1);
        EXPECT_OK(file_write_all(file, spoiled.data, spoiled.length));
        EXPECT_ERROR(checkpoint_load_state(path, &state), bad[i].says);
        buffer_free(&spoiled);
    }
    buffer_free(&text);
    free(file);
    free(path);
    world_free(&w);
    temporary_remove(&folder);
}

TEST(state_round_trip) {
    struct temporary folder = temporary_create();
    struct small_world w;
    world_create(&w, 1);
    save_small(&w, folder.path, 1234567890, 0);
    char *path = NULL;
    int64_t iteration = 0;
    struct checkpoint_find find = {.folder = folder.path, .step = -1};
    EXPECT_OK(checkpoint_find(&find, &path, &iteration));
    EXPECT_INT(iteration, 1234567890);
    EXPECT(strstr(path, "/iter_1234567890") != NULL);
    struct checkpoint_state state;
    EXPECT_OK(checkpoint_load_state(path, &state));
    EXPECT_INT(state.iteration, 1234567890);
    EXPECT_INT(state.consumed_train_samples, 9007199254740993);
    EXPECT_INT(state.consumed_valid_samples, 77);
    EXPECT_INT(state.skipped_train_samples, 3);
    EXPECT_INT(state.adam_step, 9);
    EXPECT_INT(state.schedule_samples, 90);
    EXPECT_INT(state.seed, INT64_MAX);
    EXPECT(state.loss_scale == 4294967296.0);
    EXPECT_INT(state.loss_scale_growth, 12);
    EXPECT_INT(state.loss_scale_hysteresis, 2);
    EXPECT(state.flops_so_far == 1.0 / 3);
    EXPECT_STRING(state.config_json, w.state.config_json);
    EXPECT_STRING(state.program_version, BEVATRON_VERSION);
    checkpoint_state_free(&state);
    struct buffer marker = {0};
    char *marker_path = file_join(folder.path, "latest_checkpointed_iteration.txt");
    marker = read_whole(marker_path);
    EXPECT_STRING(buffer_string(&marker), "1234567890\n");
    EXPECT_INT(marker.length, 11);
    buffer_free(&marker);
    free(marker_path);
    free(path);
    world_free(&w);
    temporary_remove(&folder);
}

// Saves from one device and loads on another: the bytes must be those of the model on both.
static void round_trip(struct device *from, struct device *to, bool from_inverted, bool to_inverted) {
    struct temporary folder = temporary_create();
    struct small_world written, read;
    world_create(&written, 5);
    world_create(&read, 1000);
    struct small_world expected;
    world_create(&expected, 5);
    if (from_inverted) {
        copy_inverted((unsigned char *)written.large, (unsigned char *)expected.large, LARGE * sizeof(float));
        copy_inverted((unsigned char *)written.small, (unsigned char *)expected.small, sizeof expected.small);
        copy_inverted((unsigned char *)written.m, (unsigned char *)expected.m, sizeof expected.m);
    }
    struct checkpoint_save save = save_of(&written, folder.path);
    save.device = from;
    EXPECT_OK(checkpoint_save(&save));
    char *path = checkpoint_path(folder.path, 10);
    EXPECT_OK(checkpoint_verify(path, false));
    struct checkpoint_load load = {
        .path = path, .part = CHECKPOINT_MODEL, .device = to, .tensors = read.model, .count = 2};
    EXPECT_OK(checkpoint_load_tensors(&load));
    load = (struct checkpoint_load){
        .path = path, .part = CHECKPOINT_OPTIMIZER, .device = to, .tensors = read.optimizer, .count = 1};
    EXPECT_OK(checkpoint_load_tensors(&load));
    if (to_inverted) {
        copy_inverted((unsigned char *)read.large, (unsigned char *)read.large, LARGE * sizeof(float));
        copy_inverted((unsigned char *)read.small, (unsigned char *)read.small, sizeof read.small);
        copy_inverted((unsigned char *)read.m, (unsigned char *)read.m, sizeof read.m);
    }
    EXPECT(memcmp(read.large, expected.large, LARGE * sizeof(float)) == 0);
    EXPECT(memcmp(read.small, expected.small, sizeof read.small) == 0);
    EXPECT(memcmp(read.m, expected.m, sizeof read.m) == 0);
    free(path);
    world_free(&written);
    world_free(&read);
    world_free(&expected);
    temporary_remove(&folder);
}

TEST(host_to_host) {
    round_trip(&host, &host, false, false);
}

TEST(remote_to_host) {
    struct remote_device remote = {.device = {&remote_ops}};
    round_trip(&remote.device, &host, true, false);
    EXPECT(remote.copies >= 4);  // two pieces for the large tensor
}

TEST(host_to_remote) {
    struct remote_device remote = {.device = {&remote_ops}};
    round_trip(&host, &remote.device, false, true);
    EXPECT(remote.copies >= 4);
}

TEST(other_precision) {
    struct temporary folder = temporary_create();
    struct small_world w;
    world_create(&w, 1);
    w.small[0] = 1.00390625f;  // a tie when rounded to bf16
    save_small(&w, folder.path, 1, 0);
    char *path = checkpoint_path(folder.path, 1);
    uint16_t brain[6], half[6];
    struct checkpoint_tensor wanted = {.name = "norm.weight", .tensor = tensor_1d(brain, DTYPE_BF16, 6)};
    struct checkpoint_load load = {.path = path, .device = &host, .tensors = &wanted, .count = 1};
    EXPECT_OK(checkpoint_load_tensors(&load));
    EXPECT_INT(brain[0], 0x3f80);
    wanted.tensor = tensor_1d(half, DTYPE_F16, 6);
    EXPECT_OK(checkpoint_load_tensors(&load));
    EXPECT_INT(half[0], 0x3c04);
    wanted.tensor = tensor_1d(w.small, DTYPE_I32, 6);
    EXPECT_ERROR(checkpoint_load_tensors(&load), "cannot be converted");
    free(path);
    world_free(&w);
    temporary_remove(&folder);
}

TEST(other_model) {
    struct temporary folder = temporary_create();
    struct small_world w;
    world_create(&w, 1);
    struct checkpoint_save save = save_of(&w, folder.path);
    EXPECT_OK(checkpoint_save(&save));
    char *path = checkpoint_path(folder.path, 10);
    float before[6];
    memcpy(before, w.small, sizeof before);
    struct checkpoint_tensor wanted[3] = {
        w.model[0], w.model[1], {.name = "more", .tensor = tensor_1d(w.m, DTYPE_F32, 6)}};
    struct checkpoint_load load = {.path = path, .device = &host, .tensors = wanted, .count = 3};
    EXPECT_ERROR(checkpoint_load_tensors(&load), "tensor \"more\" of this model is not in the checkpoint");
    load.count = 1;
    EXPECT_ERROR(checkpoint_load_tensors(&load),
                 "tensor \"norm.weight\", fp32 (6), of the checkpoint is not in this model");
    load.is_partial = true;
    EXPECT_OK(checkpoint_load_tensors(&load));
    load = (struct checkpoint_load){.path = path, .device = &host, .tensors = wanted, .count = 2};
    wanted[1].tensor = tensor_2d(w.small, DTYPE_F32, 2, 3);
    EXPECT_ERROR(checkpoint_load_tensors(&load),
                 "\"norm.weight\" is fp32 (6) in the checkpoint and fp32 (2, 3) in this model");
    wanted[0].tensor = tensor_2d(w.large, DTYPE_F32, 10, LARGE / 10);
    w.large[0] = 123;
    EXPECT_ERROR(checkpoint_load_tensors(&load), "\"embedding.weight\" is fp32 (500000, 10)");
    EXPECT(w.large[0] == 123);  // nothing was loaded
    EXPECT(memcmp(before, w.small, sizeof before) == 0);
    free(path);
    world_free(&w);
    temporary_remove(&folder);
}

TEST(parts) {
    struct temporary folder = temporary_create();
    struct small_world w;
    world_create(&w, 1);
    w.state.config_json = NULL;
    struct checkpoint_save save = save_of(&w, folder.path);
    save.optimizer_count = 0;
    EXPECT_OK(checkpoint_save(&save));
    char *path = checkpoint_path(folder.path, 10);
    EXPECT(checkpoint_has_part(path, CHECKPOINT_MODEL));
    EXPECT(!checkpoint_has_part(path, CHECKPOINT_OPTIMIZER));
    EXPECT(checkpoint_has_tensor(path, CHECKPOINT_MODEL, "norm.weight"));
    EXPECT(!checkpoint_has_tensor(path, CHECKPOINT_MODEL, "norm.bias"));
    EXPECT(!checkpoint_has_tensor(path, CHECKPOINT_OPTIMIZER, "m.norm.weight"));
    EXPECT(!checkpoint_has_part("/nonexistent", CHECKPOINT_MODEL));
    struct checkpoint_load load = {
        .path = path, .part = CHECKPOINT_OPTIMIZER, .device = &host, .tensors = w.optimizer, .count = 1};
    EXPECT_ERROR(checkpoint_load_tensors(&load), "--no-load-optim");
    struct checkpoint_state state;
    EXPECT_OK(checkpoint_load_state(path, &state));
    EXPECT(state.config_json == NULL);
    checkpoint_state_free(&state);
    free(path);
    world_free(&w);
    temporary_remove(&folder);
}

TEST(keep_last) {
    struct temporary folder = temporary_create();
    struct small_world w;
    world_create(&w, 1);
    char *foreign = checkpoint_path(folder.path, 3);
    EXPECT_INT(mkdir(foreign, 0777), 0);  // no manifest: not ours
    for (int64_t i = 1; i <= 6; i++) {
        if (i != 3)
            save_small(&w, folder.path, i * 10, 2);
    }
    EXPECT(has_checkpoint(folder.path, 3));
    EXPECT(!has_checkpoint(folder.path, 10) && !has_checkpoint(folder.path, 20) && !has_checkpoint(folder.path, 40));
    EXPECT(has_checkpoint(folder.path, 50) && has_checkpoint(folder.path, 60));
    EXPECT_INT(find_iteration(folder.path, false), 60);
    // After going back, later checkpoints belong to another attempt and are kept.
    save_small(&w, folder.path, 55, 1);
    EXPECT(!has_checkpoint(folder.path, 50) && has_checkpoint(folder.path, 55) && has_checkpoint(folder.path, 60));
    EXPECT_INT(find_iteration(folder.path, false), 55);
    // Multiples of retain_interval are kept and do not count.
    struct checkpoint_save save = save_of(&w, folder.path);
    save.keep_last = 1;
    save.retain_interval = 30;
    for (w.state.iteration = 70; w.state.iteration <= 100; w.state.iteration += 10)
        EXPECT_OK(checkpoint_save(&save));
    EXPECT(has_checkpoint(folder.path, 60) && has_checkpoint(folder.path, 90) && has_checkpoint(folder.path, 100));
    EXPECT(!has_checkpoint(folder.path, 55) && !has_checkpoint(folder.path, 70) && !has_checkpoint(folder.path, 80));
    free(foreign);
    world_free(&w);
    temporary_remove(&folder);
}

TEST(same_iteration_again) {
    struct temporary folder = temporary_create();
    struct small_world w;
    world_create(&w, 1);
    save_small(&w, folder.path, 5, 0);
    w.small[2] = 4711;
    save_small(&w, folder.path, 5, 0);
    w.small[2] = 0;
    char *path = checkpoint_path(folder.path, 5);
    struct checkpoint_load load = {.path = path, .device = &host, .tensors = &w.model[1], .count = 1};
    EXPECT_OK(checkpoint_verify(path, false));
    EXPECT_OK(checkpoint_load_tensors(&load));
    EXPECT(w.small[2] == 4711);
    free(path);
    world_free(&w);
    temporary_remove(&folder);
}

// A user's files beside ours are kept, whether the checkpoint is replaced or removed as old.
TEST(strangers_files) {
    struct temporary folder = temporary_create();
    struct small_world w;
    world_create(&w, 1);
    for (int64_t i = 1; i <= 2; i++) {
        save_small(&w, folder.path, 10 * i, 0);
        char *path = checkpoint_path(folder.path, 10 * i), *notes = file_join(path, "notes.txt");
        write_whole(notes, "mine", 4);
        free(path);
        free(notes);
    }
    save_small(&w, folder.path, 20, 0);
    save_small(&w, folder.path, 20, 0);
    save_small(&w, folder.path, 30, 1);
    char *old = file_join(folder.path, "iter_0000010/notes.txt");
    char *replaced = file_join(folder.path, "iter_0000020.kept/notes.txt");
    char *kept = file_join(folder.path, "iter_0000020.kept");
    EXPECT(file_exists(old) && file_exists(replaced));
    EXPECT(!has_checkpoint(folder.path, 20) && has_checkpoint(folder.path, 30));
    EXPECT_OK(checkpoint_verify(kept, false));
    free(old);
    free(kept);
    free(replaced);
    world_free(&w);
    temporary_remove(&folder);
}

// A file, a folder of another program, and a damaged checkpoint of ours where a new one should go.
TEST(something_in_the_way) {
    struct temporary folder = temporary_create();
    struct small_world w;
    world_create(&w, 1);
    char *file = checkpoint_path(folder.path, 1), *theirs = checkpoint_path(folder.path, 2);
    char *weights = file_join(theirs, "weights.bin");
    write_whole(file, "x", 1);
    EXPECT_INT(mkdir(theirs, 0777), 0);
    write_whole(weights, "x", 1);
    save_small(&w, folder.path, 3, 0);
    char *ours = checkpoint_path(folder.path, 3), *manifest = file_join(ours, "manifest.json");
    write_whole(manifest, "{", 1);
    for (int64_t i = 1; i <= 3; i++) {
        save_small(&w, folder.path, i, 0);
        char *path = checkpoint_path(folder.path, i), *aside = memory_printf("%s.kept", path);
        EXPECT_OK(checkpoint_verify(path, false));
        EXPECT(file_exists(aside) == (i < 3));
        free(path);
        free(aside);
    }
    char *found = file_join(folder.path, "iter_0000002.kept/weights.bin");
    EXPECT(file_exists(found));
    free(found);
    free(file);
    free(theirs);
    free(weights);
    free(ours);
    free(manifest);
    world_free(&w);
    temporary_remove(&folder);
}

// A name as left by a dead process of this host.
static char *name_of_the_dead(const char *folder, const char *name) {
    char *path = file_join(folder, name);
    char *temporary = memory_alloc(512);
    int ends[2];
    EXPECT(pipe(ends) == 0);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        char *own = file_temporary_name(path);
        _exit(write(ends[1], own, strlen(own)) < 0);
    }
    EXPECT(waitpid(child, NULL, 0) == child && read(ends[0], temporary, 511) > 0);
    close(ends[0]), close(ends[1]);
    free(path);
    return temporary;
}

TEST(leftovers) {
    struct temporary folder = temporary_create();
    struct small_world w;
    world_create(&w, 1);
    char *removed[] = {
        name_of_the_dead(folder.path, "iter_0000007"), name_of_the_dead(folder.path, "iter_0000008"),
        file_join(folder.path, "iter_0000006.tmp.elsewhere.12.00c0ffee"),  // a day old
    };
    // The last three are a day old: a user's copy, and leftovers with a file that no save writes.
    enum { STAYS = 7, FRESH = 4 };
    const char *const stays[STAYS] = {"iter_7.tmp.123",
                                      "other.tmp.1",
                                      "iter_0000009.bak",
                                      "iter_0000008.tmp.elsewhere.12.00c0ffee",
                                      "iter_0000006.tmp.backup",
                                      "iter_0000005.tmp.elsewhere.12.00c0ffee",
                                      "iter_0000004.tmp.old.tmp.elsewhere.12.00c0ffee"};
    for (size_t i = 0; i < 3; i++) {
        EXPECT_INT(mkdir(removed[i], 0777), 0);
        char *inside = file_join(removed[i], "model.safetensors.tmp.elsewhere.9.00c0ffee");
        write_whole(inside, "x", 1);
        free(inside);
    }
    struct timeval yesterday[2] = {{.tv_sec = time(NULL) - 90000}, {.tv_sec = time(NULL) - 90000}};
    EXPECT_INT(utimes(removed[2], yesterday), 0);
    for (size_t i = 0; i < STAYS; i++) {
        char *path = file_join(folder.path, stays[i]), *notes = file_join(path, "notes.txt");
        EXPECT_INT(mkdir(path, 0777), 0);
        write_whole(notes, "x", 1);
        if (i >= FRESH)
            EXPECT_INT(utimes(path, yesterday), 0);
        free(path);
        free(notes);
    }
    char *four = checkpoint_path(folder.path, 4);  // else the last of them would be restored
    EXPECT_INT(mkdir(four, 0777), 0);
    char *marker = name_of_the_dead(folder.path, "latest_checkpointed_iteration.txt");
    write_whole(marker, "1", 1);
    save_small(&w, folder.path, 9, 0);
    EXPECT(!file_exists(marker));
    for (size_t i = 0; i < 3; i++) {
        EXPECT(!file_exists(removed[i]));
        free(removed[i]);
    }
    for (size_t i = 0; i < STAYS; i++) {
        char *path = file_join(folder.path, stays[i]), *notes = file_join(path, "notes.txt");
        EXPECT(file_exists(notes));
        free(path);
        free(notes);
    }
    free(four);
    free(marker);
    world_free(&w);
    temporary_remove(&folder);
}

TEST(unwritable) {
    struct small_world w;
    world_create(&w, 1);
    struct temporary folder = temporary_create();
    char *file = file_join(folder.path, "file"), *below = file_join(folder.path, "file/save");
    write_whole(file, "x", 1);
    struct checkpoint_save save = save_of(&w, below);
    EXPECT_ERROR(checkpoint_save(&save), "a file is in the way");
    save.folder = "/proc/nothing";
    EXPECT_ERROR(checkpoint_save(&save), "/proc/nothing");
    free(file);
    free(below);
    world_free(&w);
    temporary_remove(&folder);
}

// Many files of one tensor, and one of many tensors: the manifest has the checksums of all of them.
TEST(sums_of_uneven_files) {
    enum { SHARES = 128, FEW = SHARES - 1, MANY = 4200, BIG = 5000 };
    struct temporary t = temporary_create_fast();
    float *values = memory_alloc(BIG * sizeof *values);
    struct checkpoint_tensor *model = memory_alloc((FEW + MANY) * sizeof *model);
    for (int i = 0; i < FEW + MANY; i++)
        model[i] = (struct checkpoint_tensor){.name = memory_printf("tensor.%d", i),
                                              .tensor = tensor_1d(values, DTYPE_F32, i < FEW ? BIG : 1)};
    struct checkpoint_state state = {.iteration = 1, .loss_scale = 1, .config_json = "{\"num_layers\": 1}"};
    EXPECT_OK(checkpoint_save(&(struct checkpoint_save){.folder = t.path,
                                                        .device = &host,
                                                        .model = model,
                                                        .model_count = FEW + MANY,
                                                        .shares = SHARES,
                                                        .state = &state}));
    char *path = checkpoint_path(t.path, 1);
    struct manifest manifest;
    size_t files = 0, most = 0, sums = 0;
    EXPECT_OK(manifest_read(&manifest, path));
    for (size_t i = 0; i < manifest.count; i++) {
        const struct manifest_file *file = &manifest.files[i];
        files += strcmp(file->holds, "model") == 0;
        sums += file->sum_count;
        most = file->sum_count > most ? file->sum_count : most;
    }
    EXPECT_INT(files, SHARES);
    EXPECT_INT(most, MANY + 1);
    EXPECT_INT(sums, FEW + MANY + SHARES);
    EXPECT_OK(manifest_verify(&manifest, path, &(struct manifest_proof){.size = 1}));
    manifest_free(&manifest);
    free(path);
    for (int i = 0; i < FEW + MANY; i++)
        free((char *)(uintptr_t)model[i].name);
    free(model);
    free(values);
    temporary_remove(&t);
}

TEST_MAIN(TEST_CASE(state_round_trip), TEST_CASE(past_round_trip), TEST_CASE(host_to_host), TEST_CASE(remote_to_host),
          TEST_CASE(host_to_remote), TEST_CASE(other_precision), TEST_CASE(other_model), TEST_CASE(parts),
          TEST_CASE(keep_last), TEST_CASE(same_iteration_again), TEST_CASE(strangers_files),
          TEST_CASE(something_in_the_way), TEST_CASE(leftovers), TEST_CASE(unwritable), TEST_CASE(sums_of_uneven_files))
