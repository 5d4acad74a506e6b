// Variables of the environment, for files that refer to them. Only the command line reads the environment itself: it
// says here how a variable is looked up, and a launcher sets values that its ranks will have. Values that were asked
// for are remembered, so that a job that starts later and elsewhere can be given the same ones.
//
// Not safe for several threads: flags are read before any is started.
#ifndef BASE_ENVIRONMENT_H
#define BASE_ENVIRONMENT_H

#include <stddef.h>

// How a variable is looked up from now on; the value, NULL if it is not set, need only last until the next call. NULL:
// none is set, as at the start.
void environment_use(const char *(*look_up)(const char *name));
// Sets a variable for environment_find alone; both texts are copied.
void environment_set(const char *name, const char *value);
// The value of a variable, NULL if it is not set. It stays until the variable is set again.
const char *environment_find(const char *name);
// "NAME=value" of the i-th different variable that was asked for and found; NULL after the last. To be freed.
char *environment_found(size_t i);
// Forgets what was set and found.
void environment_clear(void);

#endif
