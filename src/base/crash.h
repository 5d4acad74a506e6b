// Reports that the process is about to die of a fault: a bad address, a file that shrank or a disk that failed under a
// mapping (SIGBUS), an abort() of a library. The signal then ends the process as usual. A fault in a mapped file is
// instead an error that names the file, see file_fault.h.
#ifndef BASE_CRASH_H
#define BASE_CRASH_H

// `hear` runs in the handler, once, with the signal's number: it must not allocate, lock or print. NULL removes it and
// restores the signals' previous actions.
void crash_watch(void (*hear)(void *context, int number), void *context);

#endif
