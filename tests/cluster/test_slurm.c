// Scripts for Slurm: user input becomes a word of the script and never code, and what cannot be in an sbatch line is
// refused.
#include "base/file.h"
#include "base/memory.h"
#include "base/process.h"
#include "cluster/shell.h"
#include "cluster/slurm.h"
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

static const char *const hostile[] = {"plain",
                                      "two words",
                                      "it's",
                                      "$(touch /tmp/bevatron-was-here)",
                                      "`id`",
                                      "a\nb; exit 9",
                                      "\\",
                                      "\"quoted\"",
                                      "",
                                      "--flag",
                                      "${HOME}",
                                      "* ? [a]",
                                      "-n\n#SBATCH",
                                      "ünïcode ☃",
                                      "tab\tand\rreturn",
                                      "!history"};
enum { HOSTILE = sizeof hostile / sizeof hostile[0] };

// A shell reads every word back unchanged.
TEST(words_survive_a_shell) {
    struct buffer script = {0};
    buffer_append_string(&script, "printf '%s\\001'");
    for (int i = 0; i < HOSTILE; i++) {
        buffer_append_byte(&script, ' ');
        shell_word(&script, hostile[i]);
    }
    struct process_result result;
    EXPECT_OK(process_run((const char *const[]){"sh", "-c", buffer_string(&script), NULL}, NULL, &result));
    const char *at = buffer_string(&result.output);
    for (int i = 0; i < HOSTILE; i++) {
        size_t length = strlen(hostile[i]);
        EXPECT(strncmp(at, hostile[i], length) == 0 && at[length] == 1);
        at += length + 1;
    }
    process_result_free(&result);
    buffer_free(&script);
}

TEST(variables) {
    struct buffer out = {0};
    EXPECT_OK(shell_export_pair(&out, "NCCL_DEBUG=WARN now"));
    EXPECT_STRING(buffer_string(&out), "export NCCL_DEBUG='WARN now'\n");
    EXPECT_ERROR(shell_export_pair(&out, "NO EQUALS"), "not NAME=value");
    EXPECT_ERROR(shell_export_pair(&out, "A;id=1"), "environment variable");
    EXPECT_ERROR(shell_export_pair(&out, "1A=1"), "environment variable");
    EXPECT_ERROR(shell_export_pair(&out, "=1"), "environment variable");
    buffer_free(&out);
}

static const char *const command[] = {"/opt/bevatron", "train", "--data-path", "a b", NULL};
static const struct slurm_job plain = {.launch.name = "train",
                                       .logs = "/fsx/logs",
                                       .launch.nodes = 2,
                                       .launch.ranks_per_node = 8,
                                       .launch.gpus_per_node = 8,
                                       .warning_seconds = 180,
                                       .launch.max_restarts = 5,
                                       .launch.window_minutes = 60,
                                       .has_mpi = true,
                                       .launch.command = command};

TEST(script_has_what_was_asked_for) {
    struct slurm_job job = plain;
    struct buffer script = {0};
    job.partition = "gpu";
    job.time = "1-00:00:00";
    job.dependency = "77";
    job.launch.save = "/fsx/run";
    job.launch.is_train = true;
    job.container_image = "/fsx/image with blank.sqsh";
    job.container_mount_home = true;
    job.launch.machine = machine_find("p4d.24xlarge");
    EXPECT_OK(slurm_script(&job, &script));
    const char *text = buffer_string(&script);
    const char *const lines[] = {"#SBATCH --partition=gpu\n",
                                 "#SBATCH --time=1-00:00:00\n",
                                 "#SBATCH --nodes=2\n",
                                 "#SBATCH --ntasks-per-node=8\n",
                                 "#SBATCH --gpus-per-node=8\n",
                                 "#SBATCH --exclusive\n",
                                 "#SBATCH --signal=B:USR1@180\n",
                                 "#SBATCH --requeue\n",
                                 "#SBATCH --dependency=afterok:77\n",
                                 "#SBATCH --kill-on-invalid-dep=yes\n",
                                 "#SBATCH --output=/fsx/logs/%x-%j.log\n",
                                 "export FI_PROVIDER=efa\n",
                                 "export NCCL_NET='AWS Libfabric'\n",
                                 "--save /fsx/run --max-restarts 5 --restart-window-minutes 60 \"$@\"\n",
                                 "state=/fsx/run/restarts.json\n",
                                 "    --mpi=pmix\n",
                                 "    '--container-image=/fsx/image with blank.sqsh'\n",
                                 "    --container-mount-home\n",
                                 "    --data-path 'a b'\n",
                                 "scontrol requeue"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (!strstr(text, lines[i]))
            test_fail("no line %s", lines[i]);
    EXPECT(strstr(text, "--array") == NULL);
    struct process_result result;
    EXPECT_OK(process_run((const char *const[]){"bash", "-n", NULL}, text, &result));
    EXPECT_INT(result.exit_code, 0);
    EXPECT_STRING(buffer_string(&result.errors), "");
    process_result_free(&result);
    buffer_free(&script);
}

// One machine needs no network; HyperPod's jobs do not request GPUs.
TEST(one_machine_without_gres) {
    struct slurm_job job = plain;
    struct buffer script = {0};
    job.launch.machine = machine_find("p4d.24xlarge");
    job.launch.nodes = 1;
    job.has_no_gres = true;
    job.warning_seconds = 0;
    EXPECT_OK(slurm_script(&job, &script));
    const char *text = buffer_string(&script);
    EXPECT(strstr(text, "NCCL_NET=") == NULL);
    EXPECT(strstr(text, "#SBATCH --gpus-per-node") == NULL);
    EXPECT(strstr(text, "#SBATCH --signal") == NULL);
    EXPECT(strstr(text, "--cpu-bind=none") != NULL);
    buffer_free(&script);
}

// Runs the script of a preprocessing job. The function srun plays its step, and bevatron the decisions: `answer` is
// what it prints when the step has ended. scontrol records its arguments.
static int attempt(const char *logs, const char *step, const char *answer, struct process_result *result) {
    static const char *const words[] = {"bevatron", "preprocess", NULL};
    struct slurm_job job = plain;
    struct buffer script = {0};
    job.logs = (char *)(uintptr_t)logs;
    job.launch.command = words;
    job.launch.journal = "/fsx/journal";
    buffer_printf(&script,
                  "srun() { %s; }\ntail() { :; }\nsleep() { :; }\nscontrol() { echo \"scontrol $*\"; }\n"
                  "bevatron() { echo \"asked $*\" >&2; [[ \"$*\" != *--exit-code* ]] || %s; }\n"
                  "SLURM_JOB_ID=1\n",
                  step, answer);
    int status = slurm_script(&job, &script);
    if (status == 0)
        status = process_run((const char *const[]){"bash", "-s", NULL}, buffer_string(&script), result);
    buffer_free(&script);
    return status;
}

// Slurm may warn as soon as the shell runs: here when it creates the log folder, before there is a step. The step still
// gets the warning, and the job is requeued.
TEST(warning_before_the_step_starts) {
    char folder[] = "/tmp/bevatron-slurm-XXXXXX";
    EXPECT(mkdtemp(folder) != NULL);
    struct process_result result;
    static const char step[] =
        "exit 210; }\nmkdir() { [ -n \"${was_warned-}\" ] || kill -USR1 $$; was_warned=1; command mkdir \"$@\"";
    EXPECT_OK(attempt(folder, step, "echo requeue 0", &result));
    EXPECT(strstr(buffer_string(&result.output), "scontrol requeue 1") != NULL);
    process_result_free(&result);
    EXPECT_OK(file_remove_tree(folder));
}

// The script does as it is told, whatever the code. Without an answer the job ends with the step's code.
TEST(decisions_are_obeyed) {
    char folder[] = "/tmp/bevatron-slurm-XXXXXX";
    EXPECT(mkdtemp(folder) != NULL);
    static const struct {
        const char *step, *answer;
        int exit_code;
        bool is_requeued;
    } attempts[] = {
        {"return 210", "echo requeue 0", 210, true},
        {"return 1", "echo requeue 0", 1, true},
        {"return 134", "echo requeue 0", 134, true},
        {"return 195", "echo requeue 0", 195, true},
        {"return 210", "echo end 217", 217, false},
        {"return 2", "echo end 2", 2, false},
        {"return 0", "echo end 0", 0, false},
        {"return 1", "return 1", 1, false},
        {"command sleep 0.2; kill -TERM $$; while :; do command sleep 0.05; done", "echo requeue 0", 143, false},
    };
    for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
        struct process_result result;
        EXPECT_OK(attempt(folder, attempts[i].step, attempts[i].answer, &result));
        EXPECT_INT(result.exit_code, attempts[i].exit_code);
        EXPECT((strstr(buffer_string(&result.output), "scontrol requeue 1") != NULL) == attempts[i].is_requeued);
        EXPECT(strstr(buffer_string(&result.errors), "unbound") == NULL);
        EXPECT(strstr(buffer_string(&result.errors), "asked launch decide --state") != NULL);
        process_result_free(&result);
    }
    EXPECT_OK(file_remove_tree(folder));
}

// tail needs a second to end when it follows a log.
static const char no_following[] = "tail() { [ \"${3-}\" = -F ] || command tail \"$@\"; }; ";

// Ranks that send the batch shell this signal and go on until they have its warning: Bash 5.2 loses the code of a step
// that ends in the instant of a signal, which on a busy machine may come late.
#define WARNED(signal)                                                                                                 \
    "local told=; trap told=1 USR1; kill -" signal " $$; while [ -z \"$told\" ]; do command sleep 0.02; done; "

// A training job whose ranks and decisions are played by functions.
struct play {
    const char *ranks;   // srun, which writes rank 0's log
    const char *answer;  // bevatron, after each attempt
    int64_t chain;
    bool follows;  // tail follows the log
};

static int train(const char *logs, const struct play *play, struct process_result *result) {
    static const char *const words[] = {"bevatron", "train", NULL};
    struct slurm_job job = plain;
    struct buffer script = {0};
    char *save = memory_printf("%s/run", logs);
    job.logs = (char *)(uintptr_t)logs;
    job.launch.save = save;
    job.launch.command = words;
    job.launch.is_train = true;
    job.chain = play->chain;
    // The number of srun's runs is in a file, because it runs in the background.
    buffer_printf(&script,
                  "sleep() { :; }\nscontrol() { echo \"scontrol $*\"; }\n"
                  "scancel() { echo \"scancel $*\"; }\n"
                  "srun() { local log=%s/1/rank-0.log n; echo x >>\"$log.count\"; n=$(wc -l <\"$log.count\"); %s; }\n"
                  "bevatron() { local n; n=$(cat %s/1/rank-0.log.count 2>/dev/null | wc -l); "
                  "[[ \"$*\" != *--exit-code* ]] || %s; }\n%s\n"
                  "SLURM_JOB_ID=1 SLURM_ARRAY_JOB_ID=1 SLURM_ARRAY_TASK_ID=2\n",
                  logs, play->ranks, logs, play->answer, play->follows ? "" : no_following);
    int status = slurm_script(&job, &script);
    if (status == 0)
        status = process_run((const char *const[]){"bash", "-s", NULL}, buffer_string(&script), result);
    buffer_free(&script);
    free(save);
    return status;
}

static int occurrences(const char *text, const char *word) {
    int count = 0;
    for (; (text = strstr(text, word)); text++)
        count++;
    return count;
}

// Attempts that are to be repeated here are, in a chain and in a job, but not if the ranks were told to stop. What ends
// for good ends a whole chain.
TEST(lost_start_costs_no_allocation) {
    static const struct {
        struct play play;
        int attempts, exit_code;
        bool is_requeued, ends_chain;
    } cases[] = {
        {{"[ $n -lt 3 ] && return 211; return 210", "{ [ $n -lt 3 ] && echo here 0 || echo requeue 0; }", 5, false},
         3,
         0,
         false,
         false},
        {{"[ $n -lt 3 ] && return 211; return 210", "{ [ $n -lt 3 ] && echo here 0 || echo requeue 0; }", 0, false},
         3,
         210,
         true,
         false},
        {{"[ $n -lt 2 ] && return 1; return 0", "{ [ $n -lt 2 ] && echo here 0 || echo end 0; }", 5, false},
         2,
         0,
         false,
         false},
        {{"return 211", "echo requeue 0", 5, false}, 1, 211, false, false},
        {{"return 2", "echo end 2", 5, false}, 1, 2, false, true},
        {{"return 139", "{ [ $n -lt 4 ] && echo here 0 || echo end 217; }", 5, false}, 4, 217, false, true},
        {{WARNED("USR1") "return 211", "echo here 0", 5, false}, 1, 211, false, false},
        {{WARNED("USR1") "return 211", "echo here 0", 0, false}, 1, 211, true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char folder[] = "/tmp/bevatron-slurm-XXXXXX";
        EXPECT(mkdtemp(folder) != NULL);
        struct process_result result;
        EXPECT_OK(train(folder, &cases[i].play, &result));
        const char *output = buffer_string(&result.output);
        EXPECT_INT(result.exit_code, cases[i].exit_code);
        EXPECT_INT(occurrences(output, "the ranks ended with code"), cases[i].attempts);
        EXPECT_INT(occurrences(output, "scontrol requeue"), cases[i].is_requeued);
        EXPECT_INT(occurrences(output, "scancel --state=PENDING 1"), cases[i].ends_chain);
        EXPECT_STRING(buffer_string(&result.errors), "");
        process_result_free(&result);
        EXPECT_OK(file_remove_tree(folder));
    }
}

// The log of a requeued job has every line of rank 0 once, and of the other ranks only this attempt's.
TEST(log_repeats_nothing) {
    char folder[] = "/tmp/bevatron-slurm-XXXXXX";
    EXPECT(mkdtemp(folder) != NULL);
    static const struct play plays[] = {
        {"echo first >>$log; echo other first >>${log%0.log}1.log; return 210", "echo requeue 0", 0, true},
        {"echo second >>$log; return 210", "echo requeue 0", 0, true},
    };
    struct process_result result[2];
    for (int i = 0; i < 2; i++)
        EXPECT_OK(train(folder, &plays[i], &result[i]));
    EXPECT_INT(occurrences(buffer_string(&result[0].output), "first"), 2);
    EXPECT_INT(occurrences(buffer_string(&result[1].output), "first"), 0);
    EXPECT_INT(occurrences(buffer_string(&result[1].output), "second"), 1);
    for (int i = 0; i < 2; i++)
        process_result_free(&result[i]);
    EXPECT_OK(file_remove_tree(folder));
}

// USR2 to the batch shell: the ranks save, and neither a requeue nor the rest of a chain follows.
TEST(save_and_stop) {
    static const char ranks[] = WARNED("USR2") "return 210";
    for (int64_t chain = 0; chain <= 5; chain += 5) {
        char folder[] = "/tmp/bevatron-slurm-XXXXXX";
        EXPECT(mkdtemp(folder) != NULL);
        struct process_result result;
        EXPECT_OK(train(folder, &(struct play){.ranks = ranks, .answer = "echo requeue 0", .chain = chain}, &result));
        EXPECT_INT(occurrences(buffer_string(&result.output), "scontrol requeue"), 0);
        EXPECT_INT(occurrences(buffer_string(&result.output), "scancel --state=PENDING 1"), chain > 0);
        process_result_free(&result);
        EXPECT_OK(file_remove_tree(folder));
    }
}

TEST(options_for_sbatch) {
    static const struct {
        const char *given, *lines, *error;
    } cases[] = {
        {"--mem=0 --exclude=n[3-4],n7", "#SBATCH --mem=0\n#SBATCH --exclude=n[3-4],n7\n", NULL},
        {"-x n3 --nice --exclusive=user", "#SBATCH -x n3\n#SBATCH --nice\n#SBATCH --exclusive=user\n", NULL},
        {"--comment 'two words'", "#SBATCH --comment \"two words\"\n", NULL},
        {"--comment=\"a \\\"b\\\" \\\\ #c\"", "#SBATCH \"--comment=a \\\"b\\\" \\\\ #c\"\n", NULL},
        {"--comment=it\\'s", "#SBATCH \"--comment=it's\"\n", NULL},
        {"  ", "", NULL},
        {"--dependency=singleton", "#SBATCH --dependency=singleton\n", NULL},
        {"--mem 0 1", NULL, "\"1\" is not an option of sbatch"},
        {"mem=0", NULL, "\"mem=0\" is not an option of sbatch"},
        {"-- --mem=0", NULL, "\"--\" is not an option of sbatch"},
        {"--comment='open", NULL, "end inside a quotation"},
        {"--mem=0\n#SBATCH --nodes=9", NULL, "control characters"},
        {"--nodes=9", NULL, "--nodes=9 cannot be passed to sbatch: give --nodes to launch slurm"},
        {"-N9", NULL, "-N9 cannot be passed"},
        {"--array 1-9", NULL, "--array-chain"},
        {"--signal=B:TERM@9", NULL, "--signal-seconds"},
        {"--job=x", NULL, "--job=x cannot be passed to sbatch: give --job-name"},
        {"--tim=5", NULL, "--tim=5 cannot be passed to sbatch: give --time"},
        {"--ntasks-per=5", NULL, "give --ntasks-per-node"},
        {"--nod 9", NULL, "give --nodes"},
        {"--requeue", NULL, "--max-requeues N"},
        {"--no-requeue", NULL, "--no-requeue cannot be passed to sbatch: --max-requeues 0"},
        {"--no-req", NULL, "--max-requeues 0"},
        {"--gpus=8 --nodelist=a --no-kill --time-min=5 --ntasks-per-core=1 --clusters=west",
         "#SBATCH --gpus=8\n#SBATCH --nodelist=a\n#SBATCH --no-kill\n#SBATCH --time-min=5\n"
         "#SBATCH --ntasks-per-core=1\n#SBATCH --clusters=west\n",
         NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buffer out = {0};
        if (cases[i].error)
            EXPECT_ERROR(slurm_pass_options(&plain, cases[i].given, &out), cases[i].error);
        else
            EXPECT_OK(slurm_pass_options(&plain, cases[i].given, &out));
        EXPECT_STRING(buffer_string(&out), cases[i].lines ? cases[i].lines : "");
        buffer_free(&out);
    }
    struct slurm_job after = plain;
    struct buffer out = {0};
    after.dependency = "77";
    EXPECT_ERROR(slurm_pass_options(&after, "-d singleton", &out), "--after is given too");
    EXPECT_ERROR(slurm_pass_options(&after, "--depend=singleton", &out), "--after is given too");
    buffer_free(&out);
}

// Output of squeue and scontrol of Slurm 22.05.8, recorded.
TEST(answers_of_slurm) {
    static const struct {
        const char *text;
        bool has_ended;
        int exit_code;
    } cases[] = {
        {"RUNNING                         0               None   \n", false, 0},
        {"PENDING                         0               JobArrayTaskLimit   \n", false, 0},
        {"COMPLETING                      256             None   \n", false, 0},
        {"COMPLETED                       0               None   \n", true, 0},
        {"FAILED                          55296           NonZeroExitCode   \nFAILED 256 x\n", true, 216},
        {"CANCELLED                       15              None   \n", true, 143},
        {"CANCELLED                       0               None   \n", true, 1},
        {"TIMEOUT                         0               TimeLimit   \n", true, 1},
        {"CLUSTER: west\nFAILED                          55296           NonZeroExitCode   \n", true, 216},
    };
    struct slurm_state state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT(slurm_read_state(cases[i].text, &state));
        EXPECT_INT(state.has_ended, cases[i].has_ended);
        EXPECT_INT(state.exit_code, cases[i].exit_code);
    }
    EXPECT(!slurm_read_state("", &state));
    EXPECT(!slurm_read_state("\n", &state));
    EXPECT(!slurm_read_state("CLUSTER: west\n", &state));
    EXPECT(!slurm_read_state("CLUSTER: west", &state));
    EXPECT_INT(slurm_read_kill_wait("KillOnBadExit           = 0\nKillWait                = 30 sec\nX = 1\n"), 30);
    EXPECT_INT(slurm_read_kill_wait("KillOnBadExit           = 0\nKillWait"), 0);
    EXPECT_INT(slurm_read_kill_wait("KillWait                = 99999999999 sec\n"), 0);
    EXPECT_INT(slurm_read_kill_wait(""), 0);
    struct slurm_ticket ticket;
    EXPECT_OK(slurm_read_ticket("4711\n", &ticket));
    EXPECT_STRING(ticket.number, "4711");
    EXPECT(!ticket.cluster);
    slurm_ticket_free(&ticket);
    EXPECT_OK(slurm_read_ticket("4711;west\n", &ticket));
    EXPECT_STRING(ticket.number, "4711");
    EXPECT_STRING(ticket.cluster, "west");
    slurm_ticket_free(&ticket);
    EXPECT_ERROR(slurm_read_ticket("queued\n", &ticket), "sbatch's answer \"queued\" is not a job number");
    EXPECT_ERROR(slurm_read_ticket("", &ticket), "is not a job number");
}

TEST(chain_does_not_requeue) {
    struct slurm_job job = plain;
    struct buffer script = {0};
    job.chain = 5;
    EXPECT_OK(slurm_script(&job, &script));
    EXPECT(strstr(buffer_string(&script), "#SBATCH --array=1-5%1\n") != NULL);
    EXPECT(strstr(buffer_string(&script), "scontrol requeue") == NULL);
    buffer_free(&script);
}

// Whatever is in a field, the script either refuses it or runs exactly the intended command: srun is a function that
// prints its arguments.
TEST(nothing_becomes_code) {
    for (int i = 0; i < HOSTILE; i++) {
        const char *words[] = {"bevatron", "train", "--save", hostile[i], NULL};
        struct string_list environment = {0};
        char pair[128];
        snprintf(pair, sizeof pair, "GIVEN=%s", hostile[i]);
        string_list_add(&environment, pair);
        struct slurm_job job = plain;
        job.launch.command = words;
        job.launch.environment = environment;
        job.logs = "/tmp/bevatron-test-logs";
        job.container_mounts = (char *)(uintptr_t)hostile[i];
        struct buffer script = {0};
        buffer_append_string(&script, "srun() { printf '%s\\001' \"$@\" \"$GIVEN\"; }\ntail() { :; }\nmkdir() { :; }\n"
                                      "SLURM_JOB_ID=1\n");
        EXPECT_OK(slurm_script(&job, &script));
        struct process_result result;
        EXPECT_OK(process_run((const char *const[]){"bash", "-s", NULL}, buffer_string(&script), &result));
        EXPECT_INT(result.exit_code, 0);
        char want[256];
        snprintf(want, sizeof want, "bevatron%ctrain%c--save%c%s%c%s%c", 1, 1, 1, hostile[i], 1, hostile[i], 1);
        if (!strstr(buffer_string(&result.output), want))
            test_fail("\"%s\" does not arrive: %s", hostile[i], buffer_string(&result.output));
        process_result_free(&result);
        buffer_free(&script);
        string_list_free(&environment);
    }
    EXPECT(access("/tmp/bevatron-was-here", F_OK) < 0);
}

TEST(lines_for_sbatch_are_plain) {
    for (int i = 0; i < HOSTILE; i++) {
        struct slurm_job job = plain;
        struct buffer script = {0};
        job.partition = (char *)(uintptr_t)hostile[i];
        if (strcmp(hostile[i], "plain") == 0)
            EXPECT_OK(slurm_script(&job, &script));
        else
            EXPECT_ERROR(slurm_script(&job, &script), "cannot be the value of sbatch's --partition");
        buffer_free(&script);
    }
}

TEST(machines) {
    EXPECT(machine_find("p5.48xlarge") && machine_find("p5.48xlarge")->efa == 32);
    EXPECT(machine_find("p9.huge") == NULL);
    EXPECT(strstr(error_message(), "p4d.24xlarge") != NULL);
}

TEST_MAIN(TEST_CASE(words_survive_a_shell), TEST_CASE(variables), TEST_CASE(script_has_what_was_asked_for),
          TEST_CASE(chain_does_not_requeue), TEST_CASE(one_machine_without_gres), TEST_CASE(decisions_are_obeyed),
          TEST_CASE(warning_before_the_step_starts), TEST_CASE(nothing_becomes_code),
          TEST_CASE(lines_for_sbatch_are_plain), TEST_CASE(lost_start_costs_no_allocation),
          TEST_CASE(log_repeats_nothing), TEST_CASE(save_and_stop), TEST_CASE(options_for_sbatch),
          TEST_CASE(answers_of_slurm), TEST_CASE(machines))
