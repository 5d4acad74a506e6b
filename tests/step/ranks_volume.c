// The bytes that a step gives to its groups match formulas (docs/parallelism.md has the shortest), for data, tensor,
// context, pipeline and expert parallelism, sequence parallelism and the distributed optimizer. Run under mpirun.
// tier: all
#include "ranks_step.h"

#include <math.h>
#include <string.h>

static struct ranks ranks;

#define MODEL                                                                                                          \
    "--num-layers 3 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 "            \
    "--micro-batch-size 2 --global-batch-size 16 --vocab-size 97 --make-vocab-size-divisible-by 1 --threads 1 "
#define LLAMA                                                                                                          \
    "--swiglu --normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights "           \
    "--disable-bias-linear --group-query-attention --num-query-groups 4 "
#define WHOLE_LAYERS "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 "
enum { L = 3, C = 32, N = 2 * 16 };

struct volume {
    int64_t bytes[COLLECTIVE_KINDS];
};

static struct volume volume_of(const struct group *group) {
    struct volume volume;
    for (int kind = 0; kind < COLLECTIVE_KINDS; kind++)
        volume.bytes[kind] = group_traffic(group, (enum collective_kind)kind).bytes;
    return volume;
}

// The bytes of one step of `micro_batches` micro-batches, after one that does not count.
static void count(struct rank_step *r, int64_t micro_batches, struct volume *replicas, struct volume *tensor) {
    const struct mesh *mesh = step_mesh(r->step);
    (void)rank_step_train(r, micro_batches);
    step_settle(r->step);
    struct volume before[2] = {volume_of(mesh->replicas), volume_of(mesh->group[AXIS_TENSOR])};
    (void)rank_step_train(r, micro_batches);
    step_settle(r->step);
    *replicas = volume_of(mesh->replicas);
    *tensor = volume_of(mesh->group[AXIS_TENSOR]);
    for (int kind = 0; kind < COLLECTIVE_KINDS; kind++) {
        replicas->bytes[kind] -= before[0].bytes[kind];
        tensor->bytes[kind] -= before[1].bytes[kind];
    }
}

enum { LOSS = 16, NORM = 4 };  // bytes: four numbers of the loss, the sum of squares

static void expect_volume(struct volume volume, int64_t all_reduce, int64_t reduce_scatter, int64_t all_gather) {
    EXPECT_INT(volume.bytes[COLLECTIVE_ALL_REDUCE], all_reduce);
    EXPECT_INT(volume.bytes[COLLECTIVE_REDUCE_SCATTER], reduce_scatter);
    EXPECT_INT(volume.bytes[COLLECTIVE_ALL_GATHER], all_gather);
    EXPECT_INT(volume.bytes[COLLECTIVE_SEND] + volume.bytes[COLLECTIVE_BROADCAST], 0);
}

TEST(data_parallel_ranks_sum_every_gradient_once) {
    const char *const overlaps[] = {MODEL, MODEL "--overlap-grad-reduce --ddp-num-buckets 5 ",
                                    MODEL LLAMA WHOLE_LAYERS};
    for (int i = 0; i < 3; i++)
        for (int64_t micro_batches = 1; micro_batches <= 2; micro_batches++) {
            struct rank_step r;
            struct volume replicas, tensor;
            rank_step_open(&r, &ranks, overlaps[i]);
            count(&r, micro_batches, &replicas, &tensor);
            expect_volume(replicas, 4 * step_params(r.step)->total + LOSS, 0, 0);
            expect_volume(tensor, 0, 0, 0);
            rank_step_close(&r);
        }
}

TEST(gradients_rounded_for_their_sum_are_half_as_long) {
    static const char *const flags[] = {MODEL "--bf16 --grad-reduce-in-bf16 ",
                                        MODEL "--bf16 --grad-reduce-in-bf16 --overlap-grad-reduce --ddp-num-buckets 9 ",
                                        MODEL "--bf16 --grad-reduce-in-bf16 --use-distributed-optimizer ",
                                        MODEL "--grad-reduce-in-bf16 "};
    for (int i = 0; i < 4; i++) {
        struct rank_step r;
        struct volume replicas, tensor;
        rank_step_open(&r, &ranks, flags[i]);
        count(&r, 2, &replicas, &tensor);
        int64_t total = step_params(r.step)->total;
        if (i == 2)
            expect_volume(replicas, LOSS + NORM, 2 * total, 2 * total);
        else
            expect_volume(replicas, (i == 3 ? 4 : 2) * total + LOSS, 0, 0);
        rank_step_close(&r);
    }
}

TEST(a_divided_optimizer_scatters_gradients_and_gathers_values) {
    static const char *const flags[] = {
        MODEL "--use-distributed-optimizer ",
        MODEL "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --ddp-num-buckets 5 "};
    for (int i = 0; i < 4; i++) {
        bool is_half = i >= 2;
        char *line = memory_printf("%s%s", flags[i % 2], is_half ? "--bf16 " : "");
        struct rank_step r;
        struct volume replicas, tensor;
        rank_step_open(&r, &ranks, line);
        count(&r, 2, &replicas, &tensor);
        int64_t total = step_params(r.step)->total;
        expect_volume(replicas, LOSS + NORM, 4 * total, (is_half ? 2 : 4) * total);
        EXPECT_INT(total % ranks.place.size, 0);
        EXPECT_INT(tensor_count(step_optimizer(r.step, 0)->states[0].tensor), total / ranks.place.size);
        rank_step_close(&r);
        free(line);
    }
}

// What recompute adds to the collectives of each layer: for whole layers, those of their forward pass again; for
// attention alone or the MLP's activation, none.
struct kind_of_layer {
    const char *flags;
    int64_t again;  // sums of the residual stream, or scatters and gathers of it if it is split
};

static const struct kind_of_layer kinds[] = {
    {"", 0},
    {"--recompute-granularity selective ", 0},
    {"--recompute-granularity selective --recompute-modules core_attn mlp_act ", 0},
    {WHOLE_LAYERS, 2},
    {LLAMA, 0},
    {LLAMA "--recompute-granularity selective ", 0},
    {LLAMA WHOLE_LAYERS, 2},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

TEST(tensor_parallel_ranks_sum_the_stream) {
    int parts = ranks.place.size;
    int64_t stream = 4 * N * C, statistics = 4 * N * 3 * parts;
    for (int i = 0; i < KINDS; i++) {
        struct rank_step r;
        struct volume replicas, tensor;
        char *line = memory_printf(MODEL "--tensor-model-parallel-size %d %s", parts, kinds[i].flags);
        rank_step_open(&r, &ranks, line);
        count(&r, 2, &replicas, &tensor);
        expect_volume(tensor, 2 * ((4 + kinds[i].again) * L + 2) * stream + NORM, 0, 2 * statistics);
        expect_volume(replicas, 0, 0, 0);
        rank_step_close(&r);
        free(line);
    }
}

// One head of keys and values, which all ranks share: they gather it, and scatter its gradient, once a layer.
TEST(ranks_that_share_keys_gather_them) {
    enum { D = C / 4 };
    int parts = ranks.place.size;
    for (int i = 0; i < 2; i++) {
        struct rank_step r;
        char *line =
            memory_printf(MODEL "--group-query-attention --num-query-groups 1 --tensor-model-parallel-size %d %s",
                          parts, i == 1 ? WHOLE_LAYERS : "");
        rank_step_open(&r, &ranks, line);
        const struct mesh *mesh = step_mesh(r.step);
        EXPECT_INT(group_size(mesh->kv_group), parts);
        struct volume before = volume_of(mesh->kv_group);
        (void)rank_step_train(&r, 2);
        step_settle(r.step);
        struct volume own = volume_of(mesh->kv_group);
        for (int kind = 0; kind < COLLECTIVE_KINDS; kind++)
            own.bytes[kind] -= before.bytes[kind];
        expect_volume(own, 0, 2 * L * 2 * N * D * 4, (i + 1) * 2 * L * 2 * N * D * 4);
        rank_step_close(&r);
        free(line);
    }
}

TEST(a_divided_stream_is_gathered_and_scattered) {
    int parts = ranks.place.size;
    int64_t stream = 4 * N * C, statistics = 4 * N * 3 * parts;
    for (int i = 0; i < KINDS; i++) {
        struct rank_step r;
        struct volume replicas, tensor;
        char *line =
            memory_printf(MODEL "--tensor-model-parallel-size %d --sequence-parallel %s", parts, kinds[i].flags);
        rank_step_open(&r, &ranks, line);
        count(&r, 2, &replicas, &tensor);
        const struct param_group *group = &step_params(r.step)->groups[0];
        int64_t summed = 4 * (group->summed_end - group->summed_first);
        EXPECT(summed > 0);
        expect_volume(tensor, summed + NORM, 2 * ((4 + kinds[i].again) * L + 2) * stream,
                      2 * (((6 + kinds[i].again) * L + 2) * stream + statistics));
        rank_step_close(&r);
        free(line);
    }
}

// Rows go to their experts and back, in both passes, each with its weight or the gradient of that. The volume is known
// where every row goes to every expert, and where experts are padded to their capacity.
TEST(expert_ranks_exchange_rows_and_weights) {
    static const struct {
        const char *flags;
        int experts_of_rank;
        double capacity;    // factor; 0: each row goes to all experts
        int rows, weights;  // how often they are sent
    } cases[] = {{"", 1, 0, 4, 2},
                 {WHOLE_LAYERS, 1, 0, 6, 3},
                 {"--recompute-granularity selective --recompute-modules moe ", 1, 0, 5, 3},
                 {"--moe-expert-capacity-factor 0.75 --moe-pad-expert-input-to-capacity ", 3, 0.75, 4, 2},
                 {"--moe-expert-capacity-factor 1.5 --moe-pad-expert-input-to-capacity --bf16 ", 2, 1.5, 4, 2},
                 {"--use-distributed-optimizer ", 1, 0, 4, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int owners = ranks.place.size, E = owners * cases[i].experts_of_rank, K = cases[i].capacity > 0 ? 2 : E;
        int64_t rows = cases[i].capacity > 0 ? E * (int64_t)ceil(cases[i].capacity * N * K / E) : N * K;
        char *line = memory_printf(
            MODEL "--num-experts %d --moe-router-topk %d --moe-ffn-hidden-size 24 --expert-model-parallel-size %d %s",
            E, K, owners, cases[i].flags);
        struct rank_step r;
        struct volume replicas, tensor, before, after;
        rank_step_open(&r, &ranks, line);
        count(&r, 2, &replicas, &tensor);
        const struct mesh *mesh = step_mesh(r.step);
        const struct param_list *params = step_params(r.step);
        before = volume_of(mesh_group(mesh, MESH_EXPERTS));
        (void)rank_step_train(&r, 2);
        after = volume_of(mesh_group(mesh, MESH_EXPERTS));
        int64_t bytes = strstr(cases[i].flags, "bf16") ? 2 : 4;
        EXPECT_INT(after.bytes[COLLECTIVE_ALL_TO_ALL] - before.bytes[COLLECTIVE_ALL_TO_ALL],
                   2 * L * (cases[i].rows * rows * C * bytes + cases[i].weights * rows * 4));
        // Each rank has other experts: only what is not theirs is summed.
        int64_t usual = params->groups[0].end - params->groups[0].first;
        EXPECT_INT(params->group_count, 3);
        EXPECT_INT(params->groups[1].end - params->groups[1].first,
                   (int64_t)L * cases[i].experts_of_rank * 2 * 24 * C +
                       (int64_t)L * 64 * ((cases[i].experts_of_rank * 24 + 63) / 64));
        bool is_divided = strstr(cases[i].flags, "distributed") != NULL;
        // The losses of routers are summed beside the other numbers.
        int64_t numbers = replicas.bytes[COLLECTIVE_ALL_REDUCE] - (is_divided ? NORM : 4 * usual);
        EXPECT(numbers >= LOSS && numbers < 1024);
        EXPECT_INT(replicas.bytes[COLLECTIVE_REDUCE_SCATTER], is_divided ? 4 * usual : 0);
        EXPECT_INT(replicas.bytes[COLLECTIVE_ALL_GATHER], is_divided ? 4 * usual : 0);
        rank_step_close(&r);
        free(line);
    }
}

// Keys and values are gathered in each forward and backward pass, and their gradients scattered once; or queries, keys,
// values and results go to the ranks that have their heads and back, in each pass. With a capacity the experts that
// tokens chose are gathered, and their weights unless the first tokens are kept; for Sinkhorn's algorithm, logits. Two
// neighbours of four ranks exchange heads, and the keys of these are gathered by ranks with the same heads.
#define NEIGHBOURS "--cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2 "
TEST(context_parallel_ranks_gather_keys_or_exchange_heads) {
    static const struct {
        const char *flags;
        int gathers, exchanges;  // of a layer and micro-batch
        int routed;              // numbers of each token that routers gather
    } cases[] = {
        {"--cp-comm-type p2p ", 2, 0, 0},
        {"--cp-comm-type all_gather " WHOLE_LAYERS, 3, 0, 0},
        {"--cp-comm-type a2a ", 0, 2, 0},
        {"--cp-comm-type a2a --recompute-granularity selective ", 0, 3, 0},
        {"--cp-comm-type a2a " WHOLE_LAYERS, 0, 3, 0},
        {NEIGHBOURS, 2, 2, 0},
        {NEIGHBOURS "--recompute-granularity selective ", 2, 3, 0},
        {NEIGHBOURS WHOLE_LAYERS, 3, 3, 0},
        {"--num-experts 6 --moe-expert-capacity-factor 1 ", 2, 0, 4},
        {"--num-experts 6 --moe-expert-capacity-factor 1 --moe-token-drop-policy position " WHOLE_LAYERS, 3, 0, 4},
        {"--num-experts 6 --moe-router-load-balancing-type sinkhorn ", 2, 0, 6},
        {"--num-experts 6 --moe-router-load-balancing-type sinkhorn --recompute-granularity selective "
         "--recompute-modules moe ",
         2, 0, 12}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int sharers = ranks.place.size, D = 8, H = 2 * sharers, G = sharers;
        bool is_near = strstr(cases[i].flags, NEIGHBOURS) != NULL;
        if (is_near && sharers != 4)
            continue;
        char *line = memory_printf("--num-layers 3 --hidden-size 32 --num-attention-heads %d --kv-channels %d "
                                   "--group-query-attention --num-query-groups %d --seq-length 16 "
                                   "--micro-batch-size 2 --global-batch-size 16 --vocab-size 97 --threads 1 "
                                   "--make-vocab-size-divisible-by 1 "
                                   "--context-parallel-size %d %s",
                                   H, D, G, sharers, cases[i].flags);
        struct rank_step r;
        rank_step_open(&r, &ranks, line);
        const struct mesh *mesh = step_mesh(r.step);
        const struct group *far = is_near ? mesh->far_group : mesh->group[AXIS_CONTEXT];
        const struct group *near = is_near ? mesh->near_group : mesh->group[AXIS_CONTEXT];
        struct volume before = volume_of(far), near_before = volume_of(near);
        (void)rank_step_train(&r, 2);
        step_settle(r.step);
        struct volume after = volume_of(far), near_after = volume_of(near);
        int64_t keys = (int64_t)4 * N * 2 * G * D / (is_near ? 2 : 1);
        int64_t heads = (int64_t)4 * N / sharers * (2 * H + 2 * G) * D;
        EXPECT_INT(after.bytes[COLLECTIVE_ALL_GATHER] - before.bytes[COLLECTIVE_ALL_GATHER],
                   2 * L * (cases[i].gathers * keys + (int64_t)4 * N * cases[i].routed));
        EXPECT_INT(after.bytes[COLLECTIVE_REDUCE_SCATTER] - before.bytes[COLLECTIVE_REDUCE_SCATTER],
                   cases[i].gathers > 0 ? 2 * L * keys : 0);
        EXPECT_INT(near_after.bytes[COLLECTIVE_ALL_TO_ALL] - near_before.bytes[COLLECTIVE_ALL_TO_ALL],
                   2 * L * cases[i].exchanges * heads);
        rank_step_close(&r);
        free(line);
    }
}

static int64_t sent(const struct group *group) {
    return group_traffic(group, COLLECTIVE_SEND).bytes;
}

// For each micro-batch, every chunk except the last sends its residual stream on, and every one except the first its
// gradient back; the stages at both ends send the gradient of the tied embedding, there and back.
TEST(stages_send_the_stream_and_its_gradient_once) {
    enum { M = 4, WORDS = 4 * 97 * C };
    static const struct {
        const char *flags;
        int chunks;
    } cases[] = {{"", 1},
                 {"--pipeline-schedule zero-bubble", 1},
                 {"--num-virtual-stages-per-pipeline-rank 2", 2},
                 {WHOLE_LAYERS, 1}};
    int stages = ranks.place.size;
    for (int i = 0; i < 4; i++) {
        struct rank_step r;
        char *line = memory_printf("--num-layers 8 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
                                   "--micro-batch-size 2 --global-batch-size 8 --vocab-size 97 "
                                   "--make-vocab-size-divisible-by 1 --threads 1 --pipeline-model-parallel-size %d %s",
                                   stages, cases[i].flags);
        rank_step_open(&r, &ranks, line);
        const struct mesh *mesh = step_mesh(r.step);
        int stage = mesh->place[AXIS_PIPELINE];
        bool is_first = stage == 0, is_last = stage == stages - 1;
        const struct group *groups[] = {mesh->links[LINK_FORWARD_OUT], mesh->links[LINK_BACKWARD_OUT],
                                        mesh->group[AXIS_PIPELINE]};
        int64_t before[3], bytes[3];
        for (int g = 0; g < 3; g++)
            before[g] = sent(groups[g]);
        (void)rank_step_train(&r, M);
        for (int g = 0; g < 3; g++)
            bytes[g] = sent(groups[g]) - before[g];
        EXPECT_INT(bytes[0], (int64_t)M * (cases[i].chunks - is_last) * 4 * N * C);
        EXPECT_INT(bytes[1], (int64_t)M * (cases[i].chunks - is_first) * 4 * N * C);
        EXPECT_INT(bytes[2], is_first || is_last ? WORDS : 0);
        rank_step_close(&r);
        free(line);
    }
}

// Everything that a step gives to the groups of its mesh.
enum { LEDGER_GROUPS = AXIS_COUNT + MESH_MOST_SETS + LINK_COUNT + 2 };
struct ledger {
    struct traffic traffic[LEDGER_GROUPS][COLLECTIVE_KINDS];
};

static struct ledger read_ledger(const struct step *step) {
    const struct mesh *mesh = step_mesh(step);
    const struct group *groups[LEDGER_GROUPS] = {0};
    memcpy(groups, mesh->group, sizeof mesh->group);
    for (int i = 0; i < mesh->set_count; i++)
        groups[AXIS_COUNT + i] = mesh->sets[i].group;
    memcpy(groups + AXIS_COUNT + MESH_MOST_SETS, mesh->links, sizeof mesh->links);
    groups[LEDGER_GROUPS - 2] = mesh->near_group;
    groups[LEDGER_GROUPS - 1] = mesh->far_group;
    struct ledger ledger = {0};
    for (int g = 0; g < LEDGER_GROUPS; g++)
        for (int kind = 0; groups[g] && kind < COLLECTIVE_KINDS; kind++)
            ledger.traffic[g][kind] = group_traffic(groups[g], (enum collective_kind)kind);
    return ledger;
}

// Entries that one step adds to the ledger.
static struct ledger step_ledger(struct ranks *on, const char *flags) {
    struct rank_step r;
    rank_step_open(&r, on, flags);
    struct ledger before = read_ledger(r.step);
    (void)rank_step_train(&r, 4);
    step_settle(r.step);
    struct ledger after = read_ledger(r.step);
    for (int g = 0; g < LEDGER_GROUPS; g++)
        for (int kind = 0; kind < COLLECTIVE_KINDS; kind++) {
            after.traffic[g][kind].count -= before.traffic[g][kind].count;
            after.traffic[g][kind].bytes -= before.traffic[g][kind].bytes;
        }
    rank_step_close(&r);
    return after;
}

// Each expert gets the same number of rows on paper and here.
#define EXPERTS                                                                                                        \
    "--num-experts 8 --moe-expert-capacity-factor 1 "                                                                  \
    "--moe-pad-expert-input-to-capacity --moe-aux-loss-coeff 1e-2 "

// The same step without the other ranks and without memory counts the same bytes and messages, by group and kind.
TEST(a_step_on_paper_counts_the_same) {
    static const struct {
        const char *flags;
        bool has_stages;
    } cases[] = {{"", false},
                 {"--bf16 --use-distributed-optimizer --overlap-grad-reduce --ddp-num-buckets 5", false},
                 {"--tensor-model-parallel-size 2", false},
                 {"--tensor-model-parallel-size 2 --sequence-parallel " WHOLE_LAYERS, false},
                 {"--context-parallel-size 2 --cp-comm-type a2a", false},
                 {"--context-parallel-size 4 " NEIGHBOURS, false},
                 {EXPERTS, false},
                 {EXPERTS "--use-distributed-optimizer " WHOLE_LAYERS, false},
                 {"", true},
                 {"--pipeline-schedule zero-bubble", true},
                 {"--num-virtual-stages-per-pipeline-rank 2", true}};
    struct ranks paper = {.place = ranks.place};
    EXPECT_OK(device_open_twin(&paper.device, NULL));
    EXPECT_OK(world_open_twin(&paper.world, paper.device, paper.place.rank, paper.place.size));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int stages = cases[i].has_stages ? ranks.place.size : 1;
        if (strstr(cases[i].flags, NEIGHBOURS) && ranks.place.size != 4)
            continue;
        char *line = memory_printf("--num-layers 8 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
                                   "--micro-batch-size 2 --global-batch-size %d --vocab-size 97 --threads 1 "
                                   "--make-vocab-size-divisible-by 1 --pipeline-model-parallel-size %d "
                                   "--expert-model-parallel-size %d %s",
                                   stages > 1 ? 8 : 16, stages,
                                   strstr(cases[i].flags, "experts") ? ranks.place.size : 1, cases[i].flags);
        struct ledger real = step_ledger(&ranks, line), counted = step_ledger(&paper, line);
        EXPECT(memcmp(&real, &counted, sizeof real) == 0);
        int64_t bytes = 0;
        for (int g = 0; g < LEDGER_GROUPS; g++)
            for (int kind = 0; kind < COLLECTIVE_KINDS; kind++)
                bytes += counted.traffic[g][kind].bytes;
        EXPECT(bytes > 0);
        free(line);
    }
    struct device_totals totals = device_totals(paper.device);
    EXPECT(totals.matmul_flops > 0 && totals.attention_flops > 0 && totals.bytes_moved > 0);
    world_close(paper.world);
    device_close(paper.device);
}

int main(void) {
    const struct test_case cases[] = {TEST_CASE(data_parallel_ranks_sum_every_gradient_once),
                                      TEST_CASE(gradients_rounded_for_their_sum_are_half_as_long),
                                      TEST_CASE(a_divided_optimizer_scatters_gradients_and_gathers_values),
                                      TEST_CASE(tensor_parallel_ranks_sum_the_stream),
                                      TEST_CASE(ranks_that_share_keys_gather_them),
                                      TEST_CASE(a_divided_stream_is_gathered_and_scattered),
                                      TEST_CASE(expert_ranks_exchange_rows_and_weights),
                                      TEST_CASE(context_parallel_ranks_gather_keys_or_exchange_heads),
                                      TEST_CASE(stages_send_the_stream_and_its_gradient_once),
                                      TEST_CASE(a_step_on_paper_counts_the_same)};
    return ranks_test_main(&ranks, cases, sizeof cases / sizeof cases[0]);
}
