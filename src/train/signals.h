// A request to stop, by SIGTERM, SIGINT or SIGUSR1 (what Slurm sends before the end of a time limit). The first one is
// remembered until the step in flight is done and a checkpoint is saved; a second SIGINT or SIGTERM ends the process
// at once. SIGPIPE is ignored.
#ifndef TRAIN_SIGNALS_H
#define TRAIN_SIGNALS_H

// SIGUSR1 alone, for the start of a program: a warning that comes while ranks meet and devices open is remembered,
// whereas SIGTERM and SIGINT then still end a process that waits for others at once; it has nothing to save.
void signals_install_warning(void);
void signals_install(void);
// The signal that asked to stop, 0 where none did.
int signals_received(void);

#endif
