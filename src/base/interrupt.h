// Ctrl-C and SIGTERM for commands that write files: the signal only sets a flag; whoever works for long asks for it
// and returns an error, so that temporary files go the way they always do. file_write asks by itself. A second signal
// ends the process at once. SIGUSR1 is a scheduler's warning that time is nearly up: it does the same, may come again,
// and leads to an exit code that asks for another run.
#ifndef BASE_INTERRUPT_H
#define BASE_INTERRUPT_H

// From here on SIGINT, SIGTERM, SIGHUP and SIGUSR1 set the flag, except those that the process was started to ignore
// (nohup).
void interrupt_watch(void);
// 0, or -1 with a message where one of them has come.
int interrupt_check(void);
// To be called last, with the program's exit code: a command that failed because of a signal dies of that signal, as
// shells and schedulers expect. Otherwise returns the code to leave with: EXIT_CODE_STOPPED after SIGUSR1, and the one
// given where there was no signal or the command was done before it noticed.
int interrupt_end(int exit_code);

#endif
