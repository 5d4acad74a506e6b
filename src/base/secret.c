// Random texts from the kernel, and copies of texts. See secret.h.
#include "base/secret.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/redact.h"

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

char *secret_redact(const char *text) {
    // Every secret has at least one byte, and at least three before it.
    size_t size = strlen(text) * strlen(REDACT_MARK) + 1;
    char *copy = memory_alloc(size);
    memcpy(copy, text, strlen(text) + 1);
    redact(copy, size);
    return copy;
}
