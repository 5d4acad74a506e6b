// A process's place according to the variables that each launcher sets.
#include "cli/ranks.h"
#include "test.h"

static const char *const *variables;  // name, value, …, NULL

static const char *look_up(const char *name) {
    for (const char *const *v = variables; *v; v += 2)
        if (strcmp(v[0], name) == 0)
            return v[1];
    return NULL;
}

static int detect(struct launched_ranks *ranks, const char *const *list) {
    variables = list;
    return ranks_detect(ranks, look_up);
}
#define DETECT(ranks, ...) detect(ranks, (const char *const[]){__VA_ARGS__, NULL})

TEST(alone) {
    struct launched_ranks ranks;
    EXPECT_OK(DETECT(&ranks, "HOME", "/root"));
    EXPECT_INT(ranks.kind, RANKS_ALONE);
    EXPECT_INT(ranks.place.size, 1);
    EXPECT(!ranks.is_read);
    // mpirun -n 1, an allocation without a step, and a step of one task are one rank.
    EXPECT_OK(DETECT(&ranks, "OMPI_COMM_WORLD_SIZE", "1", "WORLD_SIZE", "8", "RANK", "3"));
    EXPECT_INT(ranks.kind, RANKS_ALONE);
    EXPECT(ranks.is_read);
    EXPECT_OK(DETECT(&ranks, "SLURM_JOB_ID", "7", "SLURM_NTASKS", "8"));
    EXPECT_INT(ranks.kind, RANKS_ALONE);
    EXPECT(!ranks.is_read);
    EXPECT_OK(DETECT(&ranks, "SLURM_PROCID", "0", "SLURM_STEP_ID", "0", "SLURM_STEP_NUM_TASKS", "1"));
    EXPECT_INT(ranks.kind, RANKS_ALONE);
    EXPECT(ranks.is_read);
}

TEST(mpirun_comes_first) {
    struct launched_ranks ranks;
    EXPECT_OK(DETECT(&ranks, "OMPI_COMM_WORLD_SIZE", "4", "SLURM_PROCID", "0", "SLURM_STEP_ID", "1", "RANK", "9"));
    EXPECT_INT(ranks.kind, RANKS_MPI);
    EXPECT_INT(ranks.place.size, 4);
    EXPECT_OK(DETECT(&ranks, "PMI_SIZE", "3", "PMI_RANK", "1"));
    EXPECT_INT(ranks.kind, RANKS_MPI);
    EXPECT_INT(ranks.place.size, 3);
    // Another MPI's launcher leaves each rank alone.
    EXPECT_OK(ranks_check_mpi(&ranks, 3));
    EXPECT_INT(ranks_check_mpi(&ranks, 1), -1);
    EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
    EXPECT(strstr(error_message(), "the launcher has started 3 ranks, but MPI finds 1") != NULL);
}

TEST(srun) {
    struct launched_ranks ranks;
    EXPECT_OK(DETECT(&ranks, "SLURM_PROCID", "5", "SLURM_STEP_ID", "0", "SLURM_STEP_NUM_TASKS", "16", "PMIX_RANK", "5",
                     "SLURM_LOCALID", "5"));
    EXPECT_INT(ranks.kind, RANKS_MPI);
    EXPECT_OK(DETECT(&ranks, "SLURM_PROCID", "9", "SLURM_STEP_ID", "2", "SLURM_STEP_NUM_TASKS", "16", "SLURM_LOCALID",
                     "1", "SLURM_STEP_TASKS_PER_NODE", "8(x2)", "SLURM_JOB_ID", "4711", "SLURM_STEP_NODELIST",
                     "gpu-st-p4d-[1-2]"));
    EXPECT_INT(ranks.kind, RANKS_TCP);
    EXPECT_INT(ranks.place.rank, 9);
    EXPECT_INT(ranks.place.size, 16);
    EXPECT_INT(ranks.place.local_rank, 1);
    EXPECT_INT(ranks.place.local_size, 8);
    EXPECT_STRING(ranks.address, "gpu-st-p4d-1");
    EXPECT(ranks.port >= 20000 && ranks.port < 30000);
    EXPECT(strstr(ranks.token, "4711") != NULL);
    EXPECT_ERROR(DETECT(&ranks, "SLURM_PROCID", "16", "SLURM_STEP_ID", "2", "SLURM_STEP_NUM_TASKS", "16"),
                 "SLURM_PROCID 16");
}

TEST(first_host) {
    char host[32];
    EXPECT(ranks_first_host("head", host, sizeof host));
    EXPECT_STRING(host, "head");
    EXPECT(ranks_first_host("a[003-007,9],b", host, sizeof host));
    EXPECT_STRING(host, "a003");
    EXPECT(ranks_first_host("n[7,9]-gpu,x", host, sizeof host));
    EXPECT_STRING(host, "n7-gpu");
    EXPECT(ranks_first_host("first,second", host, sizeof host));
    EXPECT_STRING(host, "first");
    EXPECT(!ranks_first_host("", host, sizeof host));
    EXPECT(!ranks_first_host("a[", host, sizeof host));
    EXPECT(!ranks_first_host("a[1", host, sizeof host));
    EXPECT(!ranks_first_host("a-name-that-is-longer-than-the-room", host, 8));
    EXPECT(!ranks_first_host("abcdef[123456-9]", host, 10));
}

TEST(torchrun) {
    struct launched_ranks ranks;
    EXPECT_OK(DETECT(&ranks, "RANK", "3", "WORLD_SIZE", "8", "LOCAL_RANK", "3", "LOCAL_WORLD_SIZE", "4", "MASTER_ADDR",
                     "node0", "MASTER_PORT", "1234", "TORCHELASTIC_RUN_ID", "abc"));
    EXPECT_INT(ranks.kind, RANKS_TCP);
    EXPECT_INT(ranks.place.rank, 3);
    EXPECT_INT(ranks.place.local_size, 4);
    EXPECT_STRING(ranks.address, "node0");
    EXPECT_INT(ranks.port, 1234);
    EXPECT(strstr(ranks.token, "abc") != NULL);
    // The name of a run is no secret; whether all ranks are here, all must see alike.
    EXPECT(!ranks.is_secret && !ranks.is_on_one_machine);
    EXPECT_OK(DETECT(&ranks, "RANK", "3", "WORLD_SIZE", "4", "LOCAL_RANK", "3", "LOCAL_WORLD_SIZE", "4", "MASTER_ADDR",
                     "a", "BEVATRON_JOB_TOKEN", "drawn"));
    EXPECT(ranks.is_secret && ranks.is_on_one_machine);
    EXPECT_OK(DETECT(&ranks, "RANK", "3", "WORLD_SIZE", "4", "LOCAL_RANK", "3", "MASTER_ADDR", "a"));
    EXPECT(!ranks.is_on_one_machine);
    EXPECT_ERROR(DETECT(&ranks, "RANK", "3", "WORLD_SIZE", "8", "LOCAL_RANK", "3"), "MASTER_ADDR");
    EXPECT_ERROR(DETECT(&ranks, "RANK", "8", "WORLD_SIZE", "8", "LOCAL_RANK", "0", "MASTER_ADDR", "a"), "RANK 8");
    EXPECT_ERROR(
        DETECT(&ranks, "RANK", "1", "WORLD_SIZE", "8", "LOCAL_RANK", "0", "MASTER_ADDR", "a", "MASTER_PORT", "95000"),
        "MASTER_PORT is 95000");
    EXPECT_ERROR(DETECT(&ranks, "RANK", "1", "WORLD_SIZE", "70000", "LOCAL_RANK", "0", "MASTER_ADDR", "a"), "70000");
    // Some set no LOCAL_WORLD_SIZE: there are at least as many ranks as up to this one.
    EXPECT_OK(DETECT(&ranks, "RANK", "3", "WORLD_SIZE", "8", "LOCAL_RANK", "3", "MASTER_ADDR", "a"));
    EXPECT_INT(ranks.place.local_size, 4);
    EXPECT_ERROR(DETECT(&ranks, "RANK", "x", "WORLD_SIZE", "8", "LOCAL_RANK", "0"), "RANK is \"x\"");
}

TEST(machines_of_kubernetes) {
    struct launched_ranks ranks;
    // PyTorchJob: RANK without LOCAL_RANK is the machine's.
    EXPECT_OK(DETECT(&ranks, "RANK", "1", "WORLD_SIZE", "16", "PET_NODE_RANK", "1", "PET_NNODES", "2", "MASTER_ADDR",
                     "job-master-0", "MASTER_PORT", "23456"));
    EXPECT_INT(ranks.kind, RANKS_NODE);
    EXPECT_INT(ranks.node, 1);
    EXPECT_INT(ranks.nodes, 2);
    EXPECT_STRING(ranks.address, "job-master-0");
    // TrainJob has its own names, an Indexed Job only the index.
    EXPECT_OK(DETECT(&ranks, "PET_NODE_RANK", "3", "PET_NNODES", "4", "PET_MASTER_ADDR", "j-node-0-0.j",
                     "PET_MASTER_PORT", "29500"));
    EXPECT_INT(ranks.node, 3);
    EXPECT_STRING(ranks.address, "j-node-0-0.j");
    EXPECT_OK(DETECT(&ranks, "JOB_COMPLETION_INDEX", "5", "BEVATRON_NODES", "8", "MASTER_ADDR", "train-0.train"));
    EXPECT_INT(ranks.kind, RANKS_NODE);
    EXPECT_INT(ranks.node, 5);
    EXPECT_INT(ranks.nodes, 8);
    EXPECT_ERROR(DETECT(&ranks, "PET_NODE_RANK", "2", "PET_NNODES", "2", "MASTER_ADDR", "a"),
                 "node 2 does not fit 2 nodes");
}

// Each of these would train alone, all of them on top of each other.
TEST(a_rank_of_unknown_place) {
    struct launched_ranks ranks;
    EXPECT_ERROR(DETECT(&ranks, "RANK", "0", "WORLD_SIZE", "2", "MASTER_ADDR", "127.0.0.1"), "LOCAL_RANK is not set");
    EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
    EXPECT_ERROR(DETECT(&ranks, "RANK", "1", "WORLD_SIZE", "2"), "LOCAL_RANK is not set");
    EXPECT_ERROR(DETECT(&ranks, "LOCAL_RANK", "1", "WORLD_SIZE", "2", "MASTER_ADDR", "a"), "but RANK is not set");
    EXPECT_ERROR(DETECT(&ranks, "RANK", "0", "WORLD_SIZE", "x"), "WORLD_SIZE is \"x\"");
    EXPECT_OK(DETECT(&ranks, "RANK", "0", "WORLD_SIZE", "1", "MASTER_ADDR", "127.0.0.1"));
    EXPECT_OK(DETECT(&ranks, "RANK", "1", "WORLD_SIZE", "2", "BEVATRON_NODES", "2", "MASTER_ADDR", "a"));
    EXPECT_INT(ranks.kind, RANKS_NODE);
    EXPECT_INT(ranks.node, 1);
    EXPECT_OK(DETECT(&ranks, "WORLD_SIZE", "2"));
    EXPECT_INT(ranks.kind, RANKS_ALONE);
}

TEST_MAIN(TEST_CASE(alone), TEST_CASE(mpirun_comes_first), TEST_CASE(srun), TEST_CASE(first_host), TEST_CASE(torchrun),
          TEST_CASE(machines_of_kubernetes), TEST_CASE(a_rank_of_unknown_place))
