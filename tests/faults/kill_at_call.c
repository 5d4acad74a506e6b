// kill_at_call FOLDER NAME N COUNTS COMMAND…: runs the command and kills it at the entry of the Nth system call that
// changes something below FOLDER, counted from the first one that names a path with NAME in it. All N together give
// every state of the disk during a save. If there are fewer such calls, the command ends by itself, and their number
// goes to the file COUNTS. Calls of all threads count. Calls that change no file cannot change what is left behind.
//
// With ERRNO:N instead of N the call is not made, but fails with this errno, once, and the command goes on. Then calls
// that only read or look count, too.
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_PATH = 4096, CANNOT_TRACE = 77 };

struct killer {
    const char *folder, *name;
    long wanted, count;
    bool has_begun;
    long error;     // errno that the call fails with; 0: the command is killed
    pid_t failing;  // the thread in the call that is to fail; 0 for none
};

// Arguments of a call that name a file: a descriptor, or a path that may be relative to one. -1 for none.
struct call {
    long number;
    int descriptor, path;
};

static const struct call calls[] = {
    {SYS_write, 0, -1},    {SYS_writev, 0, -1},          {SYS_pwrite64, 0, -1},
    {SYS_pwritev, 0, -1},  {SYS_ftruncate, 0, -1},       {SYS_fallocate, 0, -1},
    {SYS_fsync, 0, -1},    {SYS_fdatasync, 0, -1},       {SYS_sync_file_range, 0, -1},
    {SYS_fchmod, 0, -1},   {SYS_copy_file_range, 2, -1}, {SYS_sendfile, 0, -1},
    {SYS_openat, 0, 1},    {SYS_mkdirat, 0, 1},          {SYS_unlinkat, 0, 1},
    {SYS_linkat, 2, 3},    {SYS_symlinkat, 1, 2},        {SYS_fchmodat, 0, 1},
    {SYS_renameat2, 2, 3}, {SYS_truncate, -1, 0},
#ifdef SYS_renameat
    {SYS_renameat, 2, 3},
#endif
// Older names, which only some machines have.
#ifdef SYS_open
    {SYS_open, -1, 0},     {SYS_creat, -1, 0},           {SYS_mkdir, -1, 0},
    {SYS_unlink, -1, 0},   {SYS_rmdir, -1, 0},           {SYS_rename, -1, 1},
    {SYS_link, -1, 1},     {SYS_symlink, -1, 1},         {SYS_chmod, -1, 0},
#endif
};

// Calls that change nothing.
static const struct call reads[] = {
    {SYS_read, 0, -1},  {SYS_pread64, 0, -1},  {SYS_preadv, 0, -1},     {SYS_readv, 0, -1},
    {SYS_fstat, 0, -1}, {SYS_mmap, 4, -1},     {SYS_getdents64, 0, -1}, {SYS_newfstatat, 0, 1},
    {SYS_statx, 0, 1},  {SYS_faccessat, 0, 1}, {SYS_flock, 0, -1},      {SYS_lseek, 0, -1},
#ifdef SYS_stat
    {SYS_stat, -1, 0},  {SYS_lstat, -1, 0},    {SYS_access, -1, 0},
#endif
};

static const struct call *find_in(const struct call *list, size_t count, uint64_t number) {
    for (size_t i = 0; i < count; i++)
        if ((uint64_t)list[i].number == number)
            return &list[i];
    return NULL;
}

static const struct call *find_call(uint64_t number, bool with_reads) {
    const struct call *found = find_in(calls, sizeof calls / sizeof calls[0], number);
    return found || !with_reads ? found : find_in(reads, sizeof reads / sizeof reads[0], number);
}

// At the entry of a call: makes it one that does not exist. At its exit: what it returns.
static void skip_call(pid_t thread) {
#if defined __x86_64__
    struct user_regs_struct registers;
    ptrace(PTRACE_GETREGS, thread, NULL, &registers);
    registers.orig_rax = (unsigned long long)-1;
    ptrace(PTRACE_SETREGS, thread, NULL, &registers);
#elif defined __aarch64__
    int none = -1;
    struct iovec piece = {&none, sizeof none};
    ptrace(PTRACE_SETREGSET, thread, (void *)(intptr_t)NT_ARM_SYSTEM_CALL, &piece);
#endif
}

static void set_result(pid_t thread, long result) {
#if defined __x86_64__
    struct user_regs_struct registers;
    ptrace(PTRACE_GETREGS, thread, NULL, &registers);
    registers.rax = (unsigned long long)result;
    ptrace(PTRACE_SETREGS, thread, NULL, &registers);
#elif defined __aarch64__
    struct user_pt_regs registers;
    struct iovec piece = {&registers, sizeof registers};
    ptrace(PTRACE_GETREGSET, thread, (void *)(intptr_t)NT_PRSTATUS, &piece);
    registers.regs[0] = (unsigned long long)result;
    ptrace(PTRACE_SETREGSET, thread, (void *)(intptr_t)NT_PRSTATUS, &piece);
#endif
}

static void read_link(pid_t thread, int descriptor, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)thread, descriptor);
    ssize_t length = readlink(link, path, MOST_PATH - 1);
    path[length > 0 ? length : 0] = '\0';
}

static void read_text(pid_t thread, uint64_t address, char *text, size_t size) {
    char name[64];
    text[0] = '\0';
    snprintf(name, sizeof name, "/proc/%d/mem", (int)thread);
    FILE *memory = fopen(name, "r");
    if (!memory)
        return;
    size_t length = 0;
    if (fseeko(memory, (off_t)address, SEEK_SET) == 0)
        for (int c; length + 1 < size && (c = fgetc(memory)) > 0; length++)
            text[length] = (char)c;
    text[length] = '\0';
    fclose(memory);
}

// The path that a call works on, "" if that is unknown.
static void find_path(pid_t thread, const struct call *call, const uint64_t *arguments, char *path) {
    char last[MOST_PATH] = "";
    path[0] = '\0';
    if (call->path >= 0)
        read_text(thread, arguments[call->path], last, sizeof last);
    if (last[0] != '/' && call->descriptor >= 0)
        read_link(thread, (int)arguments[call->descriptor], path);
    size_t length = strlen(path);
    snprintf(path + length, 2 * MOST_PATH - length, "%s%s", length > 0 && last[0] ? "/" : "", last);
}

// Whether this is the call to kill at.
static bool is_due(struct killer *killer, pid_t thread) {
    struct __ptrace_syscall_info info;
    char path[2 * MOST_PATH];
    if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) <= 0 || info.op != PTRACE_SYSCALL_INFO_ENTRY)
        return false;
    const struct call *call = find_call(info.entry.nr, killer->error != 0);
    if (!call)
        return false;
    find_path(thread, call, info.entry.args, path);
    if (strncmp(path, killer->folder, strlen(killer->folder)) != 0)
        return false;
    killer->has_begun = killer->has_begun || strstr(path, killer->name);
    return killer->has_begun && ++killer->count == killer->wanted;
}

static void die_as(int number) {
    signal(number, SIG_DFL);
    raise(number);
    _exit(128 + number);
}

static pid_t start(char **command) {
    pid_t child = fork();
    if (child != 0)
        return child;
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
        _exit(CANNOT_TRACE);
    raise(SIGSTOP);
    execvp(command[0], command);
    _exit(127);
}

// Follows the process and its threads to their end, or kills them. Returns the wait status of the process.
static int follow(struct killer *killer, pid_t child) {
    for (int status;;) {
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0 && errno == EINTR)
            continue;
        if (thread < 0)
            return -1;
        if (thread == child && (WIFEXITED(status) || WIFSIGNALED(status)))
            return status;
        if (!WIFSTOPPED(status))
            continue;
        int number = WSTOPSIG(status);
        bool is_call = number == (SIGTRAP | 0x80);
        if (is_call && killer->failing == thread) {
            set_result(thread, -killer->error);
            killer->failing = 0;
        } else if (is_call && is_due(killer, thread) && killer->error != 0) {
            skip_call(thread);
            killer->failing = thread;
        } else if (is_call && killer->error == 0 && killer->wanted > 0 && killer->count == killer->wanted) {
            kill(child, SIGKILL);
            die_as(SIGKILL);
        }
        // Of stops, only signals go on to the process; new threads begin with a SIGSTOP.
        bool is_signal = !is_call && number != SIGTRAP && number != SIGSTOP;
        ptrace(PTRACE_SYSCALL, thread, NULL, (void *)(intptr_t)(is_signal ? number : 0));
    }
}

int main(int argc, char **argv) {
    int status;
    if (argc < 6)
        return 2;
    const char *colon = strchr(argv[3], ':');
    struct killer killer = {.folder = argv[1],
                            .name = argv[2],
                            .wanted = strtol(colon ? colon + 1 : argv[3], NULL, 10),
                            .error = colon ? strtol(argv[3], NULL, 10) : 0};
    pid_t child = start(argv + 5);
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
        return CANNOT_TRACE;
    intptr_t options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)options) < 0 || ptrace(PTRACE_SYSCALL, child, NULL, NULL) < 0)
        return CANNOT_TRACE;
    status = follow(&killer, child);
    FILE *counts = fopen(argv[4], "w");
    if (!counts || fprintf(counts, "%ld\n", killer.count) < 0 || fclose(counts) != 0)
        return 1;
    if (status >= 0 && WIFSIGNALED(status))
        die_as(WTERMSIG(status));
    return status < 0 ? 1 : WEXITSTATUS(status);
}
