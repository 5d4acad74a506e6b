// Variables of the environment, for files that refer to them. Only the command line reads the environment itself: it
// sets the lookup function here, and a launcher sets values that its ranks will have. Requested values are remembered,
// so that a job that starts later and elsewhere can get the same ones.
//
// Not safe for several threads: flags are read before any is started.
#ifndef BASE_ENVIRONMENT_H
#define BASE_ENVIRONMENT_H

#include <stddef.h>

// Sets the lookup function. Its result, NULL if the variable is not set, need only last until the next call. With NULL,
// as at the start, no variable is set.
void environment_use(const char *(*look_up)(const char *name));
// Sets a variable for environment_find alone; both texts are copied.
void environment_set(const char *name, const char *value);
// The value of a variable, NULL if it is not set. Valid until the variable is set again.
const char *environment_find(const char *name);
// "NAME=value" of the i-th different variable that was requested and found; NULL after the last. To be freed.
char *environment_found(size_t i);
// Forgets all variables that were set or found.
void environment_clear(void);

#endif
