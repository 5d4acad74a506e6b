// --nproc: several ranks on this machine from one command. On a machine by itself mpirun starts them; as one machine of
// a job that only numbers machines we fork them, each told its place as torchrun would. When one of them fails the
// others are ended, and the first failure's exit code is returned. Signals go to the ranks themselves: an mpirun that
// gets SIGTERM kills its ranks before they can save, and has an exit code of its own.
#include "base/clock.h"
#include "base/console.h"
#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/process.h"
#include "base/screen.h"
#include "base/secret.h"
#include "cli/commands.h"
#include "cli/features.h"
#include "cli/ranks.h"
#include "cli/session.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_RANKS_HERE = 1024 };

static const char OWN_PROGRAM[] = "/proc/self/exe";

static const char *environment(const char *name) {
    return getenv(name);
}

// The program itself, independent of the folder it was started from. If an upgrade has replaced its file, the running
// file is reached through this process, which outlives its ranks.
static int own_path(char *path, size_t size) {
    struct stat self, found;
    ssize_t length = readlink(OWN_PROGRAM, path, size - 1);
    if (length < 0 || stat(OWN_PROGRAM, &self) < 0)
        return error_set("cannot find the path of this program: %s", strerror(errno));
    path[length] = 0;
    if (stat(path, &found) < 0 || found.st_dev != self.st_dev || found.st_ino != self.st_ino)
        snprintf(path, size, "/proc/%d/exe", (int)getpid());
    return 0;
}

// The words of the whole command, the program's path first; returns their number, at most argc + 3. A rank starts no
// others: the last --nproc wins over any in the arguments or a file.
static int append_words(const char **words, const char *path, const struct ranks_command *line) {
    int n = 0;
    words[n++] = path;
    if (line->before)
        words[n++] = line->before;
    for (int i = 0; i < line->argc; i++)
        words[n++] = line->argv[i];
    words[n++] = "--nproc=1";
    return n;
}

static const int passed_signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
enum { PASSED_SIGNALS = sizeof passed_signals / sizeof passed_signals[0] };

// Replaces this process by mpirun with N ranks of the same command. Open MPI refuses root unless told twice, and binds
// each rank to one core unless told otherwise: ranks get even shares of the cores, or none if there are too few. Its
// banner about a failed rank would follow the rank's own message, so it is suppressed if `mark` can show whether the
// ranks were started at all.
static int exec_mpirun(const struct ranks_command *line, int nproc, const char *path, const char *mark) {
    char count[16], share[32];
    int cores = pool_available_processors();
    snprintf(count, sizeof count, "%d", nproc);
    snprintf(share, sizeof share, "slot:PE=%d", cores / nproc > 0 ? cores / nproc : 1);
    OWNED const char **command = memory_alloc(sizeof *command * (size_t)(line->argc + 16));
    int n = 0;
    command[n++] = "mpirun";
    if (mark) {
        command[n++] = "--quiet";
        setenv(RANKS_MARK, mark, 1);
    }
    command[n++] = "-n";
    command[n++] = count;
    if (nproc > cores) {
        command[n++] = "--oversubscribe";
        command[n++] = "--bind-to";
        command[n++] = "none";
    } else {
        command[n++] = "--map-by";
        command[n++] = share;
        command[n++] = "--bind-to";
        command[n++] = "core";
    }
    n += append_words(command + n, path, line);
    command[n] = NULL;
    if (geteuid() == 0) {
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    }
    // Ranks that wait for each other on the same cores must yield them, and containers forbid reading each other's
    // memory.
    if (nproc > cores)
        setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    // All ranks are here and share memory: networking would only open a port on all interfaces. Ranks that did not
    // start may have no memory to share (/dev/shm): they may use TCP.
    setenv("OMPI_MCA_pml", "ob1", 0);
    setenv("OMPI_MCA_btl", mark ? "^tcp,ofi,usnic" : "^ofi,usnic", 0);
    setenv("OMPI_MCA_btl_tcp_if_include", "lo", 0);
    // After a rank has failed or was killed, mpirun waits a second or two between the signals with which it ends the
    // others. They cannot save without that rank, and their supervisor waits.
    setenv("OMPI_MCA_odls_base_sigkill_timeout", "0", 0);
    setenv("PRTE_MCA_odls_base_sigkill_timeout", "0", 0);
    execvp("mpirun", (char *const *)command);
    int why = errno;
    return error_set("cannot start mpirun: %s; install Open MPI (apt install openmpi-bin), or leave out --nproc",
                     strerror(why));
}

// Exit code for a child's wait status. A killed rank (e.g. by the OOM killer) is a lost peer; mpirun exits with 137.
static int code_of(int status) {
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return code == 128 + SIGKILL ? EXIT_CODE_PEER_LOST : code;
}

// Ranks that have just been started do not yet handle signals and would die of one. A command without handlers is
// recognised this long after its ranks appear, generous enough for a busy machine.
static const double READY_SECONDS = 10, START_SECONDS = 30;
enum { OUTLETS = 2 };  // standard output and standard error
// Time for ranks to save after another one has failed. Ranks blocked by a hang cannot.
static const double LAST_SECONDS = 30, HUNG_SECONDS = 0.5;

static bool may_get_ready(int number) {
    return number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGUSR1;
}

static bool has_ended(pid_t child) {
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == child;
}

// Waits a little for ranks to get ready; returns how long. Time in which the machine was paused, e.g. a virtual one,
// does not count: the ranks made no progress then.
static double nap(void) {
    double start = clock_seconds();
    clock_sleep(0.02);
    return fmin(clock_seconds() - start, 0.1);
}

// Waits until all ranks below mpirun handle the signal, or do not seem to install a handler.
static void await_ranks(pid_t mpirun, int nproc, int number) {
    double now = 0, ready = READY_SECONDS;
    while (now < ready && !has_ended(mpirun) && process_catching_below(mpirun, OWN_PROGRAM, number) < nproc) {
        now += nap();
        if (now < START_SECONDS && process_signal_below(mpirun, OWN_PROGRAM, 0) < nproc)
            ready = now + READY_SECONDS;
    }
}

// A file that ranks make read-only once they are connected; NULL if it cannot be created. A killed launcher leaves it,
// and the next one removes it.
static char *make_mark(void) {
    OWNED char *stem = memory_printf("%s/bevatron-ranks", session_temporary_folder());
    file_sweep(stem);
    char *path = file_temporary_name(stem);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file >= 0) {
        close(file);
        return path;
    }
    free(path);
    return NULL;
}

static bool is_touched(const char *mark) {
    struct stat status;
    return stat(mark, &status) < 0 || !(status.st_mode & S_IWUSR);
}

void ranks_touch_mark(const char *mark) {
    if (mark && chmod(mark, S_IRUSR) < 0)
        log_debug("cannot change the mode of %s: %s", mark, strerror(errno));
}

static void name_terminal(void) {
    char path[128], *given;
    if (!screen_is_live() || ttyname_r(STDERR_FILENO, path, sizeof path) != 0) {
        unsetenv(RANKS_TERMINAL);
        return;
    }
    given = memory_printf("%s:%s", isatty(STDOUT_FILENO) ? "12" : "2", path);
    setenv(RANKS_TERMINAL, given, 1);
    free(given);
}

void ranks_take_terminal(const char *given) {
    size_t digits = given ? strspn(given, "12") : 0;
    if (digits == 0 || given[digits] != ':')
        return;
    int terminal = open(given + digits + 1, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0 || !isatty(terminal)) {
        log_debug("cannot write to the terminal %s", given + digits + 1);
        if (terminal >= 0)
            close(terminal);
        return;
    }
    // mpirun is a background process of the terminal, which may be set to stop such writers.
    signal(SIGTTOU, SIG_IGN);
    for (size_t i = 0; i < digits; i++) {
        dup2(terminal, given[i] - '0');
        console_set_patience(given[i] - '0', 0);
    }
    close(terminal);
}

// A rank ended by a signal could not report it. mpirun's code tells the signal, as a shell's does.
static void tell_signal(int code, const struct job_kills *before, const char *rank) {
    int number = code - 128;
    char why[JOB_REASON_BYTES], host[256], who[512] = "a rank";
    process_host(host, sizeof host);
    if (*rank)
        snprintf(who, sizeof who, "%s on %s", rank, host);
    const struct job_kills now = job_kills();
    job_explain_kill(before, &now, why, sizeof why);
    if (number == SIGKILL)
        log_error("bevatron: %s was killed, and the others were stopped; %s", who, why);
    else if (number > 0 && number < NSIG)
        log_error("bevatron: %s was ended by signal %d (%s), and the others were stopped", who, number,
                  strsignal(number));
    else if (number >= NSIG && code < EXIT_CODE_STOPPED)
        log_error("bevatron: MPI ended %s with code %d: it lost its connection to another rank; check the network "
                  "between the hosts, then resume from the last checkpoint",
                  who, code);
}

// Waits for mpirun; returns its exit code, which is that of the first rank that failed. The first SIGTERM or SIGINT
// goes to the ranks, which save and end themselves; another one, or one before ranks have started, to mpirun, which
// ends them and exits with 1: then the code is that of the signal.
static int wait_for_mpirun(pid_t mpirun, int nproc, const char *mark, bool *is_ending) {
    const struct job_kills before = job_kills();
    struct ranks_watch *watch = NULL;
    if (mark)
        watch = ranks_watch_start(&(struct ranks_watch_options){
            .mpirun = mpirun, .nproc = nproc, .program = OWN_PROGRAM, .is_ready = is_touched, .mark = mark});
    for (int last = 0;;) {
        int status;
        if (waitpid(mpirun, &status, WNOHANG) == mpirun) {
            char rank[128];
            ranks_watch_end(watch, rank, sizeof rank);
            if (WIFEXITED(status) && !*is_ending)
                tell_signal(WEXITSTATUS(status), &before, rank);
            int code = code_of(status);
            return code == EXIT_CODE_ERROR && last ? 128 + last : code;
        }
        int number = signal_queue_next(-1);
        if (number == SIGCHLD)
            continue;
        bool ends = number == SIGTERM || number == SIGINT;
        if (may_get_ready(number) && !*is_ending)
            await_ranks(mpirun, nproc, number);
        bool quits = (ends && *is_ending) || process_signal_below(mpirun, OWN_PROGRAM, number) == 0;
        if (quits)
            kill(mpirun, number);
        last = quits && ends ? number : last;
        *is_ending = *is_ending || ends;
    }
}

// One mpirun as a child, in a group of its own: a terminal's Ctrl-C reaches only us. It would end the run when its
// reader goes away, so its output passes through us.
static int run_once(const struct ranks_command *line, int nproc, const char *mark, bool *is_ending) {
    char path[4096];
    TRY(own_path(path, sizeof path));
    int writers[OUTLETS] = {-1, -1};
    struct console_relay *relays[OUTLETS];
    for (int i = 0; i < OUTLETS; i++)
        relays[i] = console_relay_open(STDOUT_FILENO + i, &writers[i]);
    pid_t own = getpid(), child = signal_queue_fork(false);
    if (child == 0) {
        setpgid(0, 0);
        process_end_with(own);
        for (int i = 0; i < OUTLETS; i++)
            if (relays[i])
                dup2(writers[i], STDOUT_FILENO + i);
        name_terminal();
        exec_mpirun(line, nproc, path, mark);
        _exit(command_failed());
    }
    int code = child < 0 ? error_set("cannot start mpirun: %s", strerror(errno)) : 0;
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < OUTLETS; i++)
        if (relays[i])
            close(writers[i]);
    if (child > 0)
        code = wait_for_mpirun(child, nproc, mark, is_ending);
    for (int i = 0; i < OUTLETS; i++)
        console_relay_close(relays[i]);
    return code;
}

// A quiet mpirun that started no ranks gives no reason. Start it once more, not quiet and with TCP: nothing has
// happened yet.
static int run_mpirun(const struct ranks_command *line, int nproc, int *exit_code) {
    TRY(signal_queue_open(passed_signals, PASSED_SIGNALS));
    OWNED char *mark = make_mark();
    bool is_ending = false;
    int code = run_once(line, nproc, mark, &is_ending);
    bool has_started = mark ? is_touched(mark) : true;
    if (mark)
        unlink(mark);
    if (code > 0 && !has_started && !is_ending)
        code = run_once(line, nproc, NULL, &is_ending);
    if (code < 0)
        return -1;
    *exit_code = code;
    return 0;
}

static void set_number(const char *name, int number) {
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    setenv(name, text, 1);
}

// Child `i`: sets its place in the environment, then runs the program again.
static void become_rank(const struct launched_ranks *ranks, int nproc, int i, const char **words) {
    set_number("RANK", ranks->node * nproc + i);
    set_number("WORLD_SIZE", (ranks->nodes ? ranks->nodes : 1) * nproc);
    set_number("LOCAL_RANK", i);
    set_number("LOCAL_WORLD_SIZE", nproc);
    set_number("MASTER_PORT", ranks->port);
    setenv("MASTER_ADDR", ranks->address, 1);
    execv(OWN_PROGRAM, (char *const *)words);
    fprintf(stderr, "bevatron: cannot start rank %d on this machine: %s\n", i, strerror(errno));
    _exit(EXIT_CODE_ERROR);
}

// Signals all remaining ranks; a child that has ended is 0.
static void signal_ranks(const pid_t *children, int nproc, int number) {
    for (int i = 0; i < nproc; i++)
        if (children[i] > 0)
            kill(children[i], number);
}

static void await_handlers(const pid_t *children, int nproc, int number) {
    double waited = 0;
    for (int i = 0; i < nproc; i++)
        while (children[i] > 0 && waited < READY_SECONDS && !process_catches(children[i], number))
            waited += nap();
}

// Waits for all children. The first that fails gives the exit code, and the others half a minute to save; signals go to
// all of them. `first` is the rank of the first child.
static int wait_for_ranks(pid_t *children, int nproc, int first) {
    int code = 0, left = nproc;
    bool is_passed = false;
    double kill_at = 0;
    const struct job_kills before = job_kills();
    while (left > 0) {
        int status;
        pid_t child = waitpid(-1, &status, WNOHANG);
        if (child < 0 && errno != EINTR)
            break;
        if (child <= 0) {
            double patience = kill_at - clock_seconds();
            int number = signal_queue_next(code == 0 ? -1 : patience > 0 ? patience : 0);
            if (number == 0)
                kill_at = clock_seconds() + LAST_SECONDS;
            if (may_get_ready(number))
                await_handlers(children, nproc, number);
            if (number != SIGCHLD)
                signal_ranks(children, nproc, number == 0 ? SIGKILL : number);
            is_passed = is_passed || may_get_ready(number);
            continue;
        }
        left--;
        char name[64] = "";
        for (int i = 0; i < nproc; i++)
            if (children[i] == child) {
                snprintf(name, sizeof name, "rank %d (process %ld)", first + i, (long)child);
                children[i] = 0;
            }
        int ended = code_of(status);
        if (ended == 0 || code != 0)
            continue;
        code = ended;
        if (WIFSIGNALED(status) && !is_passed)
            tell_signal(128 + WTERMSIG(status), &before, name);
        kill_at = clock_seconds() + (code == EXIT_CODE_HANG ? HUNG_SECONDS : LAST_SECONDS);
        // Ranks that are saving because of a signal would end at once on a second one.
        if (!is_passed)
            signal_ranks(children, nproc, SIGTERM);
    }
    return code;
}

static int fork_ranks(const struct launched_ranks *ranks, int nproc, const struct ranks_command *line, int *exit_code) {
    char path[4096];
    TRY(own_path(path, sizeof path));
    TRY(signal_queue_open(passed_signals, PASSED_SIGNALS));
    OWNED const char **command = memory_alloc(sizeof *command * (size_t)(line->argc + 4));
    command[append_words(command, path, line)] = NULL;
    pid_t own = getpid(), *children = memory_alloc(sizeof *children * (size_t)nproc);
    int status = 0;
    for (int i = 0; i < nproc; i++) {
        children[i] = signal_queue_fork(false);
        if (children[i] == 0) {
            process_end_with(own);
            become_rank(ranks, nproc, i, command);
        }
        if (children[i] < 0) {
            status = error_set("cannot start rank %d of %d on this machine: %s", i, nproc, strerror(errno));
            for (int k = 0; k < i; k++)
                kill(children[k], SIGTERM);
            break;
        }
    }
    if (status == 0)
        *exit_code = wait_for_ranks(children, nproc, ranks->node * nproc);
    free(children);
    return status;
}

static int start(const struct ranks_command *line, int *exit_code, bool *is_started) {
    struct launched_ranks ranks;
    TRY(ranks_detect(&ranks, environment));
    *is_started = false;
    if (ranks.kind == RANKS_MPI || ranks.kind == RANKS_TCP || (line->nproc == 1 && ranks.kind != RANKS_NODE))
        return 0;
    if (line->nproc > MAX_RANKS_HERE)
        return error_set_code(EXIT_CODE_USAGE, "--nproc %" PRId64 " is not a number of ranks from 1 to %d", line->nproc,
                              MAX_RANKS_HERE);
    int nproc = (int)line->nproc;
    if (nproc == 1 && ranks.nodes <= 1)
        return 0;
    if (ranks.nodes > 1 && !ranks.address[0])
        return error_set_code(EXIT_CODE_USAGE, "node %d of %d does not know the host of rank 0; set MASTER_ADDR",
                              ranks.node, ranks.nodes);
    if (ranks.nodes > 1 && ranks.node >= ranks.nodes)
        return error_set_code(EXIT_CODE_USAGE, "this is node number %d, but there are only %d nodes", ranks.node,
                              ranks.nodes);
    *is_started = true;
    TRY(job_check_ranks(nproc));
    if (screen_is_live())
        log_share_terminal();
    if (ranks.nodes > 1)
        return fork_ranks(&ranks, nproc, line, exit_code);
    if (feature_is_in("MPI"))
        return run_mpirun(line, nproc, exit_code);
    snprintf(ranks.address, sizeof ranks.address, "127.0.0.1");
    ranks.node = 0;
    ranks.nodes = 1;
    ranks.port = 20000 + (int)getpid() % 20000;
    char token[SECRET_CHARACTERS + 1];
    TRY(secret_make(token));
    setenv("BEVATRON_JOB_TOKEN", token, 1);
    return fork_ranks(&ranks, nproc, line, exit_code);
}

bool ranks_start(const struct ranks_command *command, int *exit_code) {
    bool is_started;
    if (start(command, exit_code, &is_started) == 0) {
        // A killed first rank has left its view.
        if (is_started && *exit_code != EXIT_CODE_OK)
            log_clear_terminal();
        return is_started;
    }
    *exit_code = command_failed();
    return true;
}
