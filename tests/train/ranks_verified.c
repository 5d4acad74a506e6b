// Replicas are compared before every save: a bit that differs on one rank keeps the checkpoint from being written, in
// the background too; and the run resumes from the newest checkpoint that was saved with equal replicas. Run under
// mpirun.
// tier: all
#include "base/file.h"
#include "store/folder.h"
#include "moved_clock.h"
#include "recovery/run_folders.h"
#include "step/ranks_step.h"
#include "train/run_end.h"
#include "train/saver.h"

#include <unistd.h>

#define MODEL                                                                                                          \
    "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 "            \
    "--micro-batch-size 2 --global-batch-size 16 --vocab-size 97 --make-vocab-size-divisible-by 1 --threads 1 "        \
    "--save-interval 1 "

static struct ranks ranks;
static char folder[64];

static bool is_saved(int64_t iteration) {
    char *path = checkpoint_path(folder, iteration);
    bool is_there = file_is_folder(path);
    free(path);
    return is_there;
}

static int64_t copies_of(int64_t iteration) {
    struct checkpoint_state state;
    char *path = checkpoint_path(folder, iteration);
    EXPECT_OK(checkpoint_load_state(path, &state));
    int64_t copies = state.replicas_verified;
    checkpoint_state_free(&state);
    free(path);
    return copies;
}

static int64_t latest(void) {
    int64_t iteration = -1;
    EXPECT_INT(folder_marker_read(folder, &iteration), 1);
    return iteration;
}

// The lowest bit of a weight in the middle, on the last rank; a second call restores it.
static void flip(struct rank_step *r) {
    struct tensor values = step_values(r->step);
    unsigned char *bytes = values.data;
    if (ranks.place.rank == ranks.place.size - 1)
        bytes[step_params(r->step)->items[1]->offset * (int64_t)dtype_bytes(values.dtype)] ^= 1;
}

static void save_and_go_back(const char *flags) {
    struct rank_step r;
    char *line = memory_printf(MODEL "%s --save %s", flags, folder);
    rank_step_open(&r, &ranks, line);
    struct group *all = world_group_all(ranks.world);
    struct saver saver = {.config = &r.config, .mesh = step_mesh(r.step), .step = r.step, .iteration = -1};
    struct progress_state at = {.iteration = 2};
    EXPECT_OK(saver_save(&saver, &at));
    EXPECT_OK(saver_wait(&saver));
    // As an older program, which compares nothing, saves it.
    struct progress_state older = {.iteration = 3};
    EXPECT_OK(state_save(&(struct run_state){.step = r.step, .config = &r.config, .progress = &older}));
    comm_barrier(all, "saved");
    EXPECT_INT(copies_of(2), ranks.place.size);
    EXPECT_INT(copies_of(3), 0);
    EXPECT_INT(latest(), 3);
    (void)rank_step_train(&r, 1);
    flip(&r);
    at.iteration = 4;
    EXPECT_ERROR(saver_save(&saver, &at), "is not the same on all");
    EXPECT(!is_saved(4));
    EXPECT_INT(error_exit_code(), EXIT_CODE_CORRUPT);
    saver_abandon(&saver);
    run_folders_point_to_verified(&r.config, step_mesh(r.step));
    EXPECT_INT(error_exit_code(), EXIT_CODE_CORRUPT);
    EXPECT_INT(latest(), 2);
    comm_barrier(all, "seen");
    error_clear();
    flip(&r);
    EXPECT_OK(saver_save(&saver, &at));
    EXPECT_OK(saver_wait(&saver));
    comm_barrier(all, "saved");
    EXPECT_INT(copies_of(4), ranks.place.size);
    EXPECT_INT(latest(), 4);
    comm_barrier(all, "seen");
    // Other errors leave the marker alone.
    error_set("something else");
    run_folders_point_to_verified(&r.config, step_mesh(r.step));
    EXPECT_INT(latest(), 4);
    error_clear();
    if (ranks.place.rank == 0)
        EXPECT_OK(file_remove_tree(folder));
    comm_barrier(all, "removed");
    rank_step_close(&r);
    free(line);
}

TEST(in_the_foreground) {
    save_and_go_back("");
}

TEST(in_the_background_with_a_split_optimizer) {
    save_and_go_back("--async-save --bf16 --use-distributed-optimizer");
}

// The clocks of ranks differ. That of the first decides, for all.
TEST(all_save_when_the_first_clock_says) {
    struct rank_step r;
    rank_step_open(&r, &ranks, MODEL "--save run");
    r.config.run.save_interval = 0;
    for (int late = 0; late < 2; late++) {
        struct moved_clock clock;
        bool is_first = ranks.place.rank == 0;
        moved_clock_open(&clock, false);
        struct ending ending = {.config = &r.config, .mesh = step_mesh(r.step), .clock = &clock.clock};
        ending_saved(&ending, 0);
        moved_clock_move(&clock, is_first == late ? 599 : 601);
        EXPECT_INT(ending_reason(&ending), 0);
        EXPECT(ending_wants_save(&ending) == !late);
    }
    rank_step_close(&r);
}

int main(void) {
    const struct test_case cases[] = {TEST_CASE(all_save_when_the_first_clock_says), TEST_CASE(in_the_foreground),
                                      TEST_CASE(in_the_background_with_a_split_optimizer)};
    if (ranks_open(&ranks) < 0) {
        printf("%s\n", error_message());
        return 1;
    }
    int64_t process = ranks.place.rank == 0 ? (int64_t)getpid() : 0;
    comm_max_i64(world_group_all(ranks.world), &process, 1, "folder");
    (void)snprintf(folder, sizeof folder, "/tmp/bevatron-ranks-verified-%lld", (long long)process);
    // A process of this number may have been killed before it removed it.
    if (ranks.place.rank == 0)
        (void)file_remove_tree(folder);
    comm_barrier(world_group_all(ranks.world), "folder");
    int status = test_main(cases, sizeof cases / sizeof cases[0]);
    ranks_close(&ranks);
    return status;
}
