// Random texts from the kernel. See secret.h.
#include "base/secret.h"
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

int secret_make(char text[SECRET_CHARACTERS + 1]) {
    unsigned char bytes[SECRET_CHARACTERS / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return error_set("cannot get random numbers from the system: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}
