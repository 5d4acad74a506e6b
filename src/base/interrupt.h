// Ctrl-C and SIGTERM for commands that write files: the signal only sets a flag; whoever works for long asks for it
// and returns an error, so that temporary files go the way they always do. file_write asks by itself. A second signal
// ends the process at once.
#ifndef BASE_INTERRUPT_H
#define BASE_INTERRUPT_H

// From here on SIGINT, SIGTERM and SIGHUP set the flag, except those that the process was started to ignore (nohup).
void interrupt_watch(void);
// 0, or -1 with a message where one of them has come.
int interrupt_check(void);
// To be called last, with the program's exit code: a command that failed because of a signal dies of that signal, as
// shells and schedulers expect. Returns where there was none, or where the command was done before it noticed.
void interrupt_end(int exit_code);

#endif
