// Plans: what must follow from the schedule and from the layout, whatever the constants are; and that the times of a
// rank alone add up.
#include "plan/hardware.h"
#include "plan/plan.h"
#include "plan/report.h"
#include "step/ranks_step.h"

#include <math.h>

#define MODEL "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --vocab-size 50304 "
#define BATCH "--max-position-embeddings 2048 --bf16 --recompute-granularity full "

static struct config config;

static struct plan plan_of(const char *flags, int ranks, const char *machine) {
    struct plan plan = {0};
    rank_step_parse(&config, flags, ranks);
    EXPECT_OK(
        plan_make(&plan, &(struct plan_options){.config = &config, .ranks = ranks, .machine = machine_find(machine)}));
    config_free(&config);
    return plan;
}

TEST(a_rank_alone_only_computes) {
    struct plan plan = plan_of(MODEL BATCH "--micro-batch-size 4 --global-batch-size 16", 1, "p5.4xlarge");
    EXPECT_INT(plan.micro_batches, 4);
    EXPECT_INT(plan.parameters, 1315819520);
    EXPECT_NEAR(plan.seconds, plan.stage[0].compute, 1e-6 * plan.seconds);
    EXPECT(plan.bubble < 1e-6 * plan.seconds && plan.stage[0].data == 0 && plan.stage[0].tensor == 0);
    EXPECT(plan_mfu(&plan) > 0.2 && plan_mfu(&plan) < 0.7);
}

// (p - 1) / m of the time is bubble, and with v chunks 1 / v of that.
TEST(bubbles_come_from_the_schedule) {
#define STAGES MODEL BATCH "--micro-batch-size 1 --global-batch-size 8 --pipeline-model-parallel-size 4 "
    struct plan plain = plan_of(STAGES, 4, "p5.48xlarge");
    struct plan shared = plan_of(STAGES "--num-virtual-stages-per-pipeline-rank 3", 4, "p5.48xlarge");
    double busy = plain.seconds - plain.bubble;
    EXPECT(plain.bubble / busy > 0.2 && plain.bubble / busy < 3.0 / 8);
    EXPECT(shared.bubble < 0.6 * plain.bubble && shared.seconds < plain.seconds);
}

TEST(parallelism_costs_what_it_should) {
    struct plan alone = plan_of(MODEL BATCH "--micro-batch-size 1 --global-batch-size 8", 1, "p5.48xlarge");
    struct plan data = plan_of(MODEL BATCH "--micro-batch-size 1 --global-batch-size 64", 8, "p5.48xlarge");
    struct plan tensor = plan_of(MODEL BATCH "--micro-batch-size 1 --global-batch-size 8 "
                                             "--tensor-model-parallel-size 8 --sequence-parallel",
                                 8, "p5.48xlarge");
    struct plan apart = plan_of(MODEL BATCH "--micro-batch-size 1 --global-batch-size 64", 8, "p5.4xlarge");
    EXPECT(data.seconds > alone.seconds && data.seconds < 1.2 * alone.seconds && data.stage[0].data > 0);
    EXPECT(tensor.seconds > alone.seconds / 8 && tensor.seconds < alone.seconds && tensor.stage[0].tensor > 0);
    EXPECT(apart.stage[0].data > 5 * data.stage[0].data);  // 12.5 GB/s between machines, 450 within one
    EXPECT(data.stage[0].memory.total >= alone.stage[0].memory.total);
    EXPECT(tensor.stage[0].memory.weights * 7 < alone.stage[0].memory.weights);
}

// The two layers without a window are on the third of eight stages, which no other stage stands for.
TEST(stages_with_other_windows) {
#define WINDOWS                                                                                                        \
    "--num-layers 16 --hidden-size 1024 --num-attention-heads 16 --seq-length 8192 --max-position-embeddings 8192 "    \
    "--vocab-size 1024 --bf16 --micro-batch-size 1 --global-batch-size 16 --pipeline-model-parallel-size 8 "           \
    "--sliding-window 256 "
    struct plan same = plan_of(WINDOWS, 8, "p5.48xlarge");
    struct plan mixed = plan_of(WINDOWS "--window-attn-skip-freq [1]*4+[0]*2+[1]*10", 8, "p5.48xlarge");
    EXPECT_INT(same.measured, 3);
    EXPECT_INT(mixed.measured, 8);
    EXPECT(mixed.seconds > 1.1 * same.seconds && mixed.executed > same.executed);
    EXPECT_NEAR(mixed.stage[2].flops - mixed.stage[1].flops, mixed.executed - same.executed, 1e-3 * mixed.executed);
}

// Attention that writes its scores takes longer, and matmuls that send their tiles hide most of the collectives.
TEST(other_programs) {
    struct plan fused = plan_of(MODEL BATCH "--micro-batch-size 1 --global-batch-size 8", 1, "dgx-a100");
    struct plan unfused =
        plan_of(MODEL BATCH "--micro-batch-size 1 --global-batch-size 8 --attention-backend unfused", 1, "dgx-a100");
    // With dropout, 6.5 passes over 16 heads of 2048 × 2048 scores in 16 bits, again in recompute, and 9.5 backward.
    double least = 24 * 8 * 16 * 2048.0 * 2048 * 2 * (2 * 6.5 + 9.5) / 2.039e12;
    EXPECT(unfused.seconds - fused.seconds > least && unfused.seconds - fused.seconds < 3 * least);
    rank_step_parse(&config,
                    MODEL BATCH "--micro-batch-size 1 --global-batch-size 8 --tensor-model-parallel-size 8 "
                                "--sequence-parallel",
                    8);
    struct plan shown, hidden;
    struct plan_options options = {.config = &config, .ranks = 8, .machine = machine_find("dgx-h100")};
    EXPECT_OK(plan_make(&shown, &options));
    options.hides_tensor = true;
    EXPECT_OK(plan_make(&hidden, &options));
    EXPECT_NEAR(hidden.stage[0].tensor, shown.stage[0].tensor / 8, 0.02 * shown.stage[0].tensor);
    // Launches that are not hidden take their time.
    struct hardware hardware;
    EXPECT_OK(hardware_of(&hardware, options.machine));
    hardware.rates.launch_seconds = 30e-6;
    options.hardware = &hardware;
    struct plan launched;
    EXPECT_OK(plan_make(&launched, &options));
    EXPECT(launched.seconds > hidden.seconds + 24 * 8 * 20 * 30e-6);
    // Kernels that go over all gradients once a step.
    hardware.rates.gradient_bytes = 16;
    struct plan checked;
    EXPECT_OK(plan_make(&checked, &options));
    double seconds = 16.0 * (double)checked.stage[0].parameters / hardware.rates.bytes_per_second;
    EXPECT_NEAR(checked.seconds, launched.seconds + seconds, 1e-9);
    EXPECT_NEAR(checked.stage[0].update, launched.stage[0].update + seconds, 1e-12);
    config_free(&config);
}

// Rows that go to experts of other ranks while another micro-batch is computed: of four micro-batches one waits, the
// kernels that send take 32 of 132 processors from the others, and some of what is computed meanwhile is too short.
TEST(hidden_exchanges) {
    rank_step_parse(&config,
                    "--num-layers 4 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
                    "--max-position-embeddings 1024 --vocab-size 1024 --bf16 --num-experts 8 --moe-router-topk 2 "
                    "--expert-model-parallel-size 8 --micro-batch-size 1 --global-batch-size 32",
                    8);
    struct plan shown, hidden;
    struct plan_options options = {.config = &config, .ranks = 8, .machine = machine_find("dgx-h100")};
    EXPECT_OK(plan_make(&shown, &options));
    config.machine.overlap_moe_expert_parallel_comm = true;
    EXPECT_OK(plan_make(&hidden, &options));
    double part = 0.75 * (1 - 32.0 / 132);
    EXPECT(hidden.stage[0].expert > (1 - part) * shown.stage[0].expert);
    EXPECT(hidden.stage[0].expert < (1 - part + 0.1) * shown.stage[0].expert);
    EXPECT_NEAR(hidden.seconds, shown.seconds + hidden.stage[0].expert - shown.stage[0].expert, 1e-9);
    EXPECT_NEAR(hidden.stage[0].compute, shown.stage[0].compute, 1e-12);
    EXPECT(hidden.stage[0].memory.activations == 2 * shown.stage[0].memory.activations);
    config_free(&config);
    // Two stages of two chunks, 8 micro-batches: of 16 forward passes, those before the pipeline is full have no other
    // beside them: 5 on the first stage, 3 on the last. Chunks have little to compute at
    // their ends.
    rank_step_parse(&config,
                    "--num-layers 16 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
                    "--max-position-embeddings 1024 --vocab-size 1024 --bf16 --num-experts 8 --moe-router-topk 2 "
                    "--expert-model-parallel-size 4 --pipeline-model-parallel-size 2 "
                    "--num-virtual-stages-per-pipeline-rank 2 --micro-batch-size 1 --global-batch-size 32",
                    8);
    EXPECT_OK(plan_make(&shown, &options));
    config.machine.overlap_moe_expert_parallel_comm = true;
    EXPECT_OK(plan_make(&hidden, &options));
    for (int stage = 0; stage < 2; stage++) {
        part = (1 - (stage == 0 ? 5 : 3) / 16.0) * (1 - 32.0 / 132);
        EXPECT(hidden.stage[stage].expert > (1 - part) * shown.stage[stage].expert);
        EXPECT(hidden.stage[stage].expert < (1 - part + 0.25) * shown.stage[stage].expert);
    }
    config_free(&config);
}

// Where there is room, results of norms and activations are kept, as in a run; where not, computed again.
TEST(keeps_what_fits) {
#define KEEPS MODEL "--max-position-embeddings 2048 --swiglu --bf16 --micro-batch-size 10 --global-batch-size 10"
    struct plan large = plan_of(KEEPS, 1, "p5en.48xlarge"), small = plan_of(KEEPS, 1, "p4d.24xlarge");
    EXPECT(large.stage[0].memory.activations > small.stage[0].memory.activations);
    EXPECT(large.stage[0].memory.weights == small.stage[0].memory.weights);
    EXPECT(plan_fits(&large, machine_find("p5en.48xlarge")) && !plan_fits(&large, machine_find("p4d.24xlarge")));
}

// The lessons of the papers: recomputing everything executes 4/3 of the model's FLOPs, and about as much is lost.
TEST(executed_flops_and_parts) {
#define LARGE MODEL "--max-position-embeddings 2048 --bf16 --micro-batch-size 1 --global-batch-size 16 "
    struct plan kept = plan_of(LARGE, 1, "p5.48xlarge");
    struct plan again = plan_of(LARGE "--recompute-granularity full --recompute-method uniform", 1, "p5.48xlarge");
    EXPECT_NEAR(plan_hfu(&kept) / plan_mfu(&kept), 1, 0.1);
    EXPECT(again.executed / kept.executed > 1.25 && again.executed / kept.executed < 1.34);
    EXPECT_NEAR(again.flops, kept.flops, 0);
    // 14 bytes of each parameter in 16 bits; 1.3e9 of them.
    EXPECT_NEAR(kept.checkpoint_bytes, 14.0 * (double)kept.parameters, 0);
    struct plan staged = plan_of(LARGE "--pipeline-model-parallel-size 4", 4, "p5.48xlarge");
    EXPECT(staged.messages > 0 && staged.messages < staged.bubble);
    EXPECT_NEAR(staged.executed, kept.executed, 0.01 * kept.executed);
}

// Numbers of the papers that the rates come from.
TEST(interruptions) {
    struct machine machine = *machine_find("p4de.24xlarge");
    struct plan plan = {.ranks = 16384, .nodes = 2048, .checkpoint_bytes = 30e9, .seconds = 1};
    struct interruption_rates rates = {.bytes_per_second = 1e9, .failures_per_day = 0.0065, .restart_seconds = 300};
    // Meta projects 1.8 h between failures of 16,384 GPUs, and Llama 3 had 3.1 h.
    EXPECT_NEAR(24 / plan_interruptions(&plan, &machine, &rates).failures_per_day, 1.8, 0.01);
    rates.failures_per_day = 0.0038;
    struct interruptions found = plan_interruptions(&plan, &machine, &rates);
    EXPECT_NEAR(24 / found.failures_per_day, 3.1, 0.02);
    // sqrt(2 × 30 s × 3.1 h)
    EXPECT_NEAR(found.save_seconds, 30, 1e-9);
    EXPECT_NEAR(found.interval / 60, 13.6, 0.1);
    EXPECT(found.effective > 0.88 && found.effective < 0.92);
    rates.failures_per_day = 0;
    EXPECT_NEAR(plan_interruptions(&plan, &machine, &rates).effective, 1, 0);
    // So many failures that nothing is ever done.
    rates.failures_per_day = 10;
    EXPECT_NEAR(plan_interruptions(&plan, &machine, &rates).effective, 0, 0);
    rates.bytes_per_second = 0;
    EXPECT_NEAR(plan_interruptions(&plan, &machine, &rates).bytes_per_second, 2048e9, 1);
}

// Measured on an H200 (2026-11-17): 108 ms with 50,304 rows of the vocabulary, 217 with one more; 459 and 605 ms of the
// model with 1.3e9 parameters.
TEST(rows_that_are_not_aligned) {
#define SMALL "--num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 --bf16 "
#define VOCABULARY "--max-position-embeddings 1024 --make-vocab-size-divisible-by 1 --micro-batch-size 64 "
    struct plan even = plan_of(SMALL VOCABULARY "--global-batch-size 64 --vocab-size 50304", 1, "p5en.48xlarge");
    struct plan odd = plan_of(SMALL VOCABULARY "--global-batch-size 64 --vocab-size 50305", 1, "p5en.48xlarge");
    EXPECT(odd.seconds / even.seconds > 1.75 && odd.seconds / even.seconds < 2.25);
}

static double number_of(const struct json *root, const char *key) {
    double number = NAN;
    EXPECT_OK(json_get_double(root, key, &number));
    return number;
}

TEST(reports) {
    struct plan plan = plan_of(MODEL BATCH "--micro-batch-size 1 --global-batch-size 8", 8, "p5.48xlarge");
    struct plan_budget budget = {.tokens = 1e9,
                                 .machine = machine_find("p5.48xlarge"),
                                 .rates = {.failures_per_day = 0.0065, .restart_seconds = 300}};
    struct buffer text = {0}, json = {0};
    plan_describe(&plan, &budget, &text);
    plan_write_json(&plan, &budget, &json);
    EXPECT(strstr(buffer_string(&text), "fits into the 80 GiB of H100 GPUs") != NULL);
    struct json *root = NULL;
    double days = 0;
    EXPECT_OK(json_parse(&root, buffer_string(&json), json.length, "plan"));
    EXPECT_OK(json_get_double(root, "days", &days));
    EXPECT_NEAR(days, 1e9 / (plan.tokens / plan.seconds) / 86400, 1e-9 * days);
    const struct json *parts = json_member(root, "step_parts_seconds");
    double sum = 0;
    for (size_t i = 0; parts && i < parts->count; i++)
        sum += parts->items[i].number;
    EXPECT_NEAR(sum, plan.seconds, 1e-9 * plan.seconds);
    EXPECT_NEAR(number_of(root, "hfu"), plan_hfu(&plan), 1e-12);
    EXPECT_NEAR(number_of(root, "days_with_interruptions") * number_of(root, "effective_time"), days, 1e-9 * days);
    EXPECT(strstr(buffer_string(&text), "a checkpoint has 18.4 GB and takes 18.4 s at 1.0 GB/s, assumed") != NULL);
    json_free(root);
    buffer_free(&text);
    buffer_free(&json);
}

TEST(a_cpu_node_has_one_rank) {
    struct plan plan =
        plan_of("--num-layers 2 --hidden-size 64 --num-attention-heads 2 --seq-length 32 "
                "--max-position-embeddings 32 --vocab-size 64 --micro-batch-size 1 --global-batch-size 4",
                2, "c6i.32xlarge");
    EXPECT_INT(plan.nodes, 2);
    EXPECT(plan.seconds > 0 && plan.stage[0].data > 0);
}

// A CPU computes in 16 bits with copies in fp32, at least of an operation's input and output; a GPU does not.
TEST(a_cpu_takes_memory_for_16_bits) {
#define HALF "--num-layers 2 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128 "
#define TOKENS "--vocab-size 512 --micro-batch-size 4 --global-batch-size 4 --bf16"
    struct plan host = plan_of(HALF TOKENS, 1, "c6i.32xlarge"), gpu = plan_of(HALF TOKENS, 1, "p5.4xlarge");
    EXPECT_INT(gpu.stage[0].memory.device_own, 0);
    EXPECT(host.stage[0].memory.device_own >= 2 * 4 * 4 * 128 * 256);
    EXPECT(host.stage[0].memory.scratch > host.stage[0].memory.device_own);
}

// 72 GPUs are joined over 18 machines; 256 take four racks of 64.
TEST(nvlink_reaches_over_machines) {
    struct hardware hardware;
    EXPECT_OK(hardware_of(&hardware, machine_find("dgx-gb200")));
    EXPECT_INT(hardware_fabric(&hardware, machine_find("dgx-gb200"), 64).node, 72);
    EXPECT_INT(hardware_fabric(&hardware, machine_find("dgx-gb200"), 256).node, 64);
    EXPECT_INT(hardware_fabric(&hardware, machine_find("dgx-gb200"), 73).node, 72);
    EXPECT_INT(hardware_fabric(&hardware, machine_find("p5.48xlarge"), 256).node, 8);
    EXPECT_NEAR(hardware.network.bytes_per_second, 0.9 * 50e9, 1);
}

// Steps exchange rows between machines at half of what the network reaches over EFA, at 45 GB/s over InfiniBand.
TEST(exchanges_are_slower_than_networks) {
    struct hardware hardware;
    EXPECT_OK(hardware_of(&hardware, machine_find("p5.48xlarge")));
    EXPECT_NEAR(hardware.exchange, hardware.network.bytes_per_second / 2, 1);
    EXPECT_OK(hardware_of(&hardware, machine_find("dgx-b300")));
    EXPECT_NEAR(hardware.exchange, 45e9, 1);
    EXPECT_OK(hardware_of(&hardware, machine_find("c6i.32xlarge")));
    EXPECT_NEAR(hardware.exchange, 0, 0);
}

static void expect_file_error(const char *text, const char *message) {
    struct hardware_file file;
    EXPECT_OK(hardware_file_open(&file, machine_find("p5.48xlarge")));
    EXPECT_ERROR(hardware_file_read(&file, "mine.yaml", text, strlen(text)), message);
    hardware_file_free(&file);
}

TEST(hardware_files) {
    static const char text[] = "# mine\nname: box\ngpu: X1\ngpus: 4\nmatmul-tflops: 123.5\nlink-us: 7\nprice: 3";
    struct hardware_file file, again;
    struct buffer out = {0};
    EXPECT_OK(hardware_file_open(&file, machine_find("p5.48xlarge")));
    double network = file.hardware.network.bytes_per_second;
    EXPECT_OK(hardware_file_read(&file, "mine.yaml", text, strlen(text)));
    EXPECT(file.machine.gpus == 4 && file.machine.gpu_gib == 80 && file.machine.dollars == 3);
    EXPECT(strcmp(file.machine.gpu, "X1") == 0 && strcmp(file.hardware.gpu, "X1") == 0);
    EXPECT_NEAR(file.hardware.rates.matmul[1], 123.5e12, 1);
    EXPECT_NEAR(file.hardware.link.seconds, 7e-6, 1e-15);
    EXPECT_NEAR(file.hardware.network.bytes_per_second, 2 * network, 1);  // as much for fewer GPUs
    hardware_file_write(&file, &out);
    EXPECT_OK(hardware_file_open(&again, machine_find("c6i.32xlarge")));
    EXPECT_OK(hardware_file_read(&again, "again", buffer_string(&out), out.length));
    EXPECT(memcmp(&again.hardware.rates, &file.hardware.rates, sizeof file.hardware.rates) == 0);
    EXPECT(again.hardware.network.bytes_per_second == file.hardware.network.bytes_per_second);
    EXPECT(again.machine.gpus == 4 && strcmp(again.machine.name, "box") == 0);
    hardware_file_free(&file);
    hardware_file_free(&again);
    buffer_free(&out);
    expect_file_error("gpus: 8\nmatmul-tflop: 3\n", "mine.yaml:2");
    expect_file_error("gpus: 8\nmatmul-tflop: 3\n", "matmul-tflops");
    expect_file_error("\nmatmul-tflops: -3\n", "mine.yaml:2");
    expect_file_error("network: token-ring\n", "infiniband");
}

// Published sizes: Mixtral 8x7B has 46.7e9 parameters, of which a token meets 12.9e9; Qwen3-30B-A3B 30.5e9 and 3.3e9.
TEST(experts_are_counted) {
    struct plan mixtral = plan_of("--preset mixtral-8x7b --vocab-size 32000 --bf16 --micro-batch-size 1 "
                                  "--global-batch-size 1",
                                  1, "p5en.48xlarge");
    EXPECT_INT(mixtral.parameters, 46702792704);
    EXPECT_INT(mixtral.active, 12879925248);
    struct plan qwen = plan_of("--preset qwen3-30b-a3b --vocab-size 151936 --bf16 --micro-batch-size 1 "
                               "--global-batch-size 1",
                               1, "p5en.48xlarge");
    EXPECT_INT(qwen.parameters, 30532122624);
    EXPECT_INT(qwen.active, 3353032704);
}

// Rows go to experts on other ranks and back, in both passes: 4 × 4 × 8 micro-batches × 1024 rows × 2 chosen × 1024 ×
// 2 bytes, 7/8 of them to others. Between machines a rank has 44 GB/s, and all-to-all is the largest part of a step.
TEST(experts_of_other_ranks) {
#define EXPERTS                                                                                                        \
    "--num-layers 4 --hidden-size 1024 --num-attention-heads 8 --seq-length 1024 --vocab-size 1024 --bf16 "            \
    "--max-position-embeddings 1024 --num-experts 16 --moe-router-topk 2 --ffn-hidden-size 4096 --micro-batch-size 1 " \
    "--global-batch-size 64 --use-distributed-optimizer "
    struct plan whole = plan_of(EXPERTS, 8, "p5.48xlarge");
    struct plan inside = plan_of(EXPERTS "--expert-model-parallel-size 8", 8, "p5.48xlarge");
    struct plan across = plan_of(EXPERTS "--expert-model-parallel-size 8", 8, "p5.4xlarge");
    EXPECT_INT(whole.expert_parallel, 1);
    EXPECT_INT(inside.expert_parallel, 8);
    EXPECT_INT(inside.data_parallel, 8);
    EXPECT_INT(inside.micro_batches, 8);
    EXPECT_INT(inside.parameters, whole.parameters);
    EXPECT(whole.stage[0].expert == 0);
    EXPECT_INT(whole.stage[0].parameters - inside.stage[0].parameters, 4LL * 14 * (2 * 1024 * 4096 + 4096 + 1024));
    double bytes = 4.0 * 4 * 8 * 1024 * 2 * 1024 * 2 * 7 / 8;
    EXPECT(inside.stage[0].expert > bytes / 450e9 && across.stage[0].expert > bytes / 12.5e9);
    EXPECT(across.stage[0].expert > across.stage[0].compute && inside.stage[0].expert < across.stage[0].expert / 4);
    struct buffer out = {0};
    plan_describe(&across, &(struct plan_budget){.machine = machine_find("p5.4xlarge")}, &out);
    EXPECT(strstr(buffer_string(&out), "8 of the replicas share out the experts"));
    EXPECT(strstr(buffer_string(&out), "waiting for expert parallelism"));
    buffer_free(&out);
}

// Stages sum the gradients of a table that both hold by parts: no copy of it is needed.
TEST(a_tied_table_is_not_copied) {
    struct plan plan = plan_of("--num-layers 2 --hidden-size 1024 --num-attention-heads 16 --seq-length 64 "
                               "--max-position-embeddings 64 --vocab-size 51200 --micro-batch-size 1 "
                               "--global-batch-size 2 --pipeline-model-parallel-size 2",
                               2, "p5.48xlarge");
    for (int i = 0; i < 2; i++)
        EXPECT(plan.stage[i].memory.scratch < 51200 * 1024 * sizeof(float) / 4);
}

// Steps of gpt2-1558M measured on an H200 (bench/RESULTS.md): 382 ms with many matmuls at once and symmetric ones by
// half, 436 ms with one by one, as on all other GPUs.
TEST(muon_on_other_gpus) {
    const char *flags = "--num-layers 48 --hidden-size 1600 --num-attention-heads 25 --seq-length 1024 --vocab-size "
                        "50304 --max-position-embeddings 1024 --bf16 --micro-batch-size 16 --global-batch-size 16 "
                        "--attention-dropout 0 --hidden-dropout 0 --optimizer muon --muon-nesterov "
                        "--muon-coefficient-type simple --muon-extra-scale-factor 0.2 ";
    struct plan many = plan_of(flags, 1, "p5en.48xlarge"), single;
    struct machine other = *machine_find("p5en.48xlarge");
    other.capability = 100;
    rank_step_parse(&config, flags, 1);
    EXPECT_OK(plan_make(&single, &(struct plan_options){.config = &config, .ranks = 1, .machine = &other}));
    config_free(&config);
    EXPECT_NEAR(many.seconds, 0.382, 0.1 * 0.382);
    EXPECT_NEAR(single.seconds, 0.436, 0.1 * 0.436);
}

// Ranks that share layers share out Muon's matrices, and so do replicas; what they exchange travels meanwhile. What
// Muon adds to a step of llama-7B on eight of them is an eighth of what it adds on one, but for the first and the last
// exchange. Of replicas only the last results are waited for, and updates that all of them repeat are cheaper than
// Adam's.
TEST(muon_is_shared_out) {
#define SEVEN                                                                                                          \
    "--preset llama-7b --bf16 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 "                  \
    "--global-batch-size 8 --vocab-size 32000 "
#define EIGHT SEVEN "--tensor-model-parallel-size 8 --sequence-parallel "
    double alone =
        plan_of(SEVEN "--optimizer muon", 1, "p5en.48xlarge").seconds - plan_of(SEVEN, 1, "p5en.48xlarge").seconds;
    struct plan adam = plan_of(EIGHT, 8, "p5en.48xlarge"), muon = plan_of(EIGHT "--optimizer muon", 8, "p5en.48xlarge");
    double added = muon.seconds - adam.seconds;
    EXPECT(added > alone / 8);
    EXPECT(added < 1.15 * alone / 8);
    // A matrix of 22016 x 4096 in fp32 twice, and in bf16 four times; and two Gram matrices.
    EXPECT_NEAR((double)muon.stage[0].memory.scratch, 22016.0 * 4096 * 16 + 2 * 2 * 4096.0 * 4096,
                0.01 * 22016 * 4096 * 16);
    struct plan copied = plan_of(SEVEN, 8, "p5en.48xlarge"),
                replicas = plan_of(SEVEN "--optimizer muon", 8, "p5en.48xlarge");
    added = replicas.seconds - copied.seconds;
    EXPECT(added > 0.9 * alone / 8);
    EXPECT(added < 1.1 * alone / 8);
    // Results lie where gradients were.
    EXPECT(replicas.stage[0].memory.scratch ==
           plan_of(SEVEN "--optimizer muon", 1, "p5en.48xlarge").stage[0].memory.scratch);
}

// 24 layers on four stages: as the even layout if they are listed so, and as slow as the fullest stage if not. The head
// weighs as much as two layers: 8 micro-batches take 82 units evenly, and 110 with 12 layers on a stage.
TEST(listed_layers) {
    struct plan even = plan_of(STAGES, 4, "p5.48xlarge");
    struct plan same = plan_of(STAGES "--pipeline-model-parallel-layout Et*6|(t*6|)*2t*6L", 4, "p5.48xlarge");
    struct plan full = plan_of(STAGES "--pipeline-model-parallel-layout Et*4|t*4|t*12|t*4L", 4, "p5.48xlarge");
    EXPECT_NEAR(same.seconds, even.seconds, 1e-9 * even.seconds);
    EXPECT(full.seconds > 1.2 * even.seconds && full.seconds < 1.6 * even.seconds);
    EXPECT_INT(full.stage[2].parameters, 2 * even.stage[2].parameters);
    // More than four stages of which only one is different.
    struct plan many =
        plan_of(MODEL BATCH "--micro-batch-size 1 --global-batch-size 8 --pipeline-model-parallel-size 8 "
                            "--pipeline-model-parallel-layout Et*2|t*2|t*2|t*2|t*10|t*2|t*2|t*2L",
                8, "p5.48xlarge");
    EXPECT_INT(many.stage[4].parameters, 5 * many.stage[3].parameters);
}

// Long matmuls in NVFP4 take less time than in fp8; other GPUs have none.
TEST(four_bits) {
#define WIDE "--num-layers 2 --hidden-size 8192 --num-attention-heads 64 --seq-length 4096 --vocab-size 32000 "
#define WIDE_BATCH "--max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 1 --bf16 "
    struct plan eight = plan_of(WIDE WIDE_BATCH "--fp8-format hybrid", 1, "dgx-gb300");
    struct plan four = plan_of(WIDE WIDE_BATCH "--fp4-format e2m1", 1, "dgx-gb300");
    EXPECT(four.seconds < eight.seconds && four.peak == 15e15);
    struct plan plan;
    rank_step_parse(&config, WIDE WIDE_BATCH "--fp4-format e2m1", 1);
    EXPECT_ERROR(
        plan_make(&plan, &(struct plan_options){.config = &config, .ranks = 1, .machine = machine_find("p5.48xlarge")}),
        "has no NVFP4");
    config_free(&config);
}

// Layers that stay in bf16 take the time and the memory that they take in a model in bf16. Stages that differ only in
// them are all measured.
TEST(layers_in_bf16) {
#define LONG "--num-layers 12 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 --vocab-size 32000 "
#define LONG_BATCH "--max-position-embeddings 2048 --micro-batch-size 2 --bf16 "
    const char *half = LONG LONG_BATCH "--global-batch-size 2";
    const char *eight = LONG LONG_BATCH "--global-batch-size 2 --fp8-format hybrid";
    const char *mixed = LONG LONG_BATCH "--global-batch-size 2 --fp8-format hybrid --first-last-layers-bf16 "
                                        "--num-layers-at-end-in-bf16 2";
    struct plan of[] = {plan_of(half, 1, "dgx-h200"), plan_of(eight, 1, "dgx-h200"), plan_of(mixed, 1, "dgx-h200")};
    double want = of[1].seconds + 3.0 / 12 * (of[0].seconds - of[1].seconds);
    EXPECT(of[1].seconds < 0.9 * of[0].seconds);
    EXPECT_NEAR(of[2].seconds, want, 1e-3 * want);
    struct plan stages = plan_of(LONG LONG_BATCH "--global-batch-size 32 --fp8-format hybrid --first-last-layers-bf16 "
                                                 "--num-layers-at-start-in-bf16 5 --pipeline-model-parallel-size 6",
                                 6, "dgx-h200");
    EXPECT_INT(stages.measured, 6);
    EXPECT(stages.stage[1].compute > 1.1 * stages.stage[3].compute);
    EXPECT(stages.stage[2].compute > 1.05 * stages.stage[3].compute);
}

TEST_MAIN(TEST_CASE(listed_layers), TEST_CASE(four_bits), TEST_CASE(layers_in_bf16),
          TEST_CASE(a_tied_table_is_not_copied), TEST_CASE(muon_on_other_gpus), TEST_CASE(muon_is_shared_out),
          TEST_CASE(experts_are_counted), TEST_CASE(experts_of_other_ranks), TEST_CASE(a_rank_alone_only_computes),
          TEST_CASE(bubbles_come_from_the_schedule), TEST_CASE(keeps_what_fits),
          TEST_CASE(parallelism_costs_what_it_should), TEST_CASE(executed_flops_and_parts), TEST_CASE(interruptions),
          TEST_CASE(rows_that_are_not_aligned), TEST_CASE(other_programs), TEST_CASE(hidden_exchanges),
          TEST_CASE(stages_with_other_windows), TEST_CASE(reports), TEST_CASE(a_cpu_node_has_one_rank),
          TEST_CASE(a_cpu_takes_memory_for_16_bits), TEST_CASE(nvlink_reaches_over_machines),
          TEST_CASE(exchanges_are_slower_than_networks), TEST_CASE(hardware_files))
