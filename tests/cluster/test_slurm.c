// Scripts for Slurm: what a user gives is a word of the script and never code, and what cannot stand in a line for
// sbatch is refused.
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

// A shell reads every word back as it was.
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
static const struct slurm_job plain = {.name = "train",
                                       .logs = "/fsx/logs",
                                       .nodes = 2,
                                       .tasks_per_node = 8,
                                       .gpus_per_node = 8,
                                       .warning_seconds = 180,
                                       .max_requeues = 5,
                                       .has_mpi = true,
                                       .is_exclusive = true,
                                       .command = command};

TEST(script_has_what_was_asked_for) {
    struct slurm_job job = plain;
    struct buffer script = {0};
    job.partition = "gpu";
    job.time = "1-00:00:00";
    job.dependency = "77";
    job.save = "/fsx/run";
    job.container_image = "/fsx/image with blank.sqsh";
    job.machine = machine_find("p4d.24xlarge");
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
                                 "137 | 138 | 139",
                                 "    --mpi=pmix\n",
                                 "    '--container-image=/fsx/image with blank.sqsh'\n",
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

// One machine needs no network; HyperPod's jobs do not ask for GPUs.
TEST(one_machine_without_gres) {
    struct slurm_job job = plain;
    struct buffer script = {0};
    job.machine = machine_find("p4d.24xlarge");
    job.nodes = 1;
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

// Runs a script's job of preprocessing whose step ends with a code; scontrol says what it gets.
static int attempt(const char *logs, const char *journal, const char *step, struct process_result *result) {
    struct slurm_job job = plain;
    struct buffer script = {0};
    job.logs = logs;
    job.journal = journal;
    buffer_printf(&script,
                  "srun() { %s; }\ntail() { :; }\nsleep() { :; }\nscontrol() { echo \"scontrol $*\"; }\n"
                  "SLURM_JOB_ID=1\n",
                  step);
    int status = slurm_script(&job, &script);
    if (status == 0)
        status = process_run((const char *const[]){"bash", "-s", NULL}, buffer_string(&script), result);
    buffer_free(&script);
    return status;
}

TEST(preprocessing_goes_on_while_it_gets_further) {
    char folder[] = "/tmp/bevatron-slurm-XXXXXX";
    EXPECT(mkdtemp(folder) != NULL);
    char *journal = memory_printf("%s/journal", folder), *further = memory_printf("echo x >>%s; return 210", journal);
    const struct {
        const char *step;
        int exit_code;
        bool is_requeued;
    } attempts[] = {
        {further, 210, true},       {"return 138", 138, true},
        {further, 210, true},       {"return 210", 210, true},
        {"return 210", 217, false}, {"return 2", 2, false},
        {"return 0", 0, false},     {"command sleep 0.2; kill -TERM $$; command sleep 0.3; return 143", 143, false},
    };
    for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
        struct process_result result;
        EXPECT_OK(attempt(folder, journal, attempts[i].step, &result));
        EXPECT_INT(result.exit_code, attempts[i].exit_code);
        EXPECT((strstr(buffer_string(&result.output), "scontrol requeue 1") != NULL) == attempts[i].is_requeued);
        EXPECT(strstr(buffer_string(&result.errors), "unbound") == NULL);
        process_result_free(&result);
    }
    struct process_result result;
    EXPECT_OK(process_run((const char *const[]){"rm", "-r", folder, NULL}, NULL, &result));
    process_result_free(&result);
    free(journal);
    free(further);
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

// Whatever is in a field, the script either refuses it or runs exactly the command that was meant: srun is a function
// that prints its arguments.
TEST(nothing_becomes_code) {
    for (int i = 0; i < HOSTILE; i++) {
        const char *words[] = {"bevatron", "train", "--save", hostile[i], NULL};
        struct string_list environment = {0};
        char pair[128];
        snprintf(pair, sizeof pair, "GIVEN=%s", hostile[i]);
        string_list_add(&environment, pair);
        struct slurm_job job = plain;
        job.command = words;
        job.environment = &environment;
        job.logs = "/tmp/bevatron-test-logs";
        job.container_mounts = hostile[i];
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
        job.partition = hostile[i];
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
          TEST_CASE(chain_does_not_requeue), TEST_CASE(one_machine_without_gres),
          TEST_CASE(preprocessing_goes_on_while_it_gets_further), TEST_CASE(nothing_becomes_code),
          TEST_CASE(lines_for_sbatch_are_plain), TEST_CASE(machines))
