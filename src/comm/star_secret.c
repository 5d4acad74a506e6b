// Proofs by both ends of a star that they know the job's key, and the file that may hold a part of it. See star.h.
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/secret.h"
#include "comm/star.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static const char stem[] = ".bevatron-ranks";

void star_prove(const unsigned char *key, enum star_side side, const struct hello *hello,
                const struct challenge *challenge, unsigned char proof[PROOF_BYTES]) {
    unsigned char text[1 + sizeof *hello + sizeof *challenge];
    text[0] = (unsigned char)side;
    memcpy(text + 1, hello, sizeof *hello);
    memcpy(text + 1 + sizeof *hello, challenge, sizeof *challenge);
    hmac_sha256(key, STAR_KEY_BYTES, text, sizeof text, proof);
}

bool star_same_proof(const unsigned char *a, const unsigned char *b) {
    unsigned char difference = 0;
    for (int i = 0; i < PROOF_BYTES; i++)
        difference |= (unsigned char)(a[i] ^ b[i]);
    return difference == 0;
}

bool star_make_nonce(unsigned char nonce[NONCE_BYTES]) {
    return getrandom(nonce, NONCE_BYTES, 0) == NONCE_BYTES;
}

static void mix(unsigned char key[STAR_KEY_BYTES], const char *secret) {
    hmac_sha256(key, STAR_KEY_BYTES, secret, strlen(secret), key);
}

int star_secret_leave(struct star_options *options) {
    struct star_secret *secret = &options->secret;
    char text[SECRET_CHARACTERS + 1];
    secret->note[0] = 0;
    if (!secret->folder)
        return 0;
    TRY(secret_make(text));
    TRY(file_make_folders(secret->folder));
    char *path = file_join(secret->folder, stem);
    file_sweep(path);  // of hubs that were killed
    char *full = file_temporary_name(path);
    int file = open(full, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600), result = 0;
    if (file < 0 || write(file, text, SECRET_CHARACTERS) != SECRET_CHARACTERS || fsync(file) < 0)
        result = error_set("cannot leave a secret for the other ranks in %s: %s; set BEVATRON_JOB_TOKEN to the same "
                           "random text for all of them",
                           full, strerror(errno));
    if (file >= 0)
        close(file);
    if (file >= 0 && result < 0)
        unlink(full);
    if (result == 0) {
        snprintf(secret->note, sizeof secret->note, "%s", strrchr(full, '/') + 1);
        mix(options->key, text);
    }
    free(path);
    free(full);
    return result;
}

void star_secret_remove(struct star_secret *secret) {
    if (!secret->note[0])
        return;
    char *path = file_join(secret->folder, secret->note);
    unlink(path);
    free(path);
    secret->note[0] = 0;
}

// A stranger posing as the hub may name any file.
static bool is_note(const char *note) {
    size_t length = strlen(stem);
    return strncmp(note, stem, length) == 0 && file_temporary_stem(note) == length;
}

static int read_note(const struct star_secret *secret, const char *path, char text[SECRET_CHARACTERS + 1]) {
    struct stat status;
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), result = 0;
    if (file < 0 || fstat(file, &status) < 0) {
        // Another machine may see it a moment later.
        result = errno == ENOENT ? 1 : -1;
        error_set("cannot read %s, which rank 0 has left: %s; all ranks must see this folder, or set "
                  "BEVATRON_JOB_TOKEN to the same random text for all of them",
                  path, strerror(errno));
    } else if (!S_ISREG(status.st_mode) || (secret->is_public && status.st_uid != geteuid())) {
        result = error_set("%s is not a file of this user: another program answers in rank 0's place", path);
    } else if (read(file, text, SECRET_CHARACTERS) != SECRET_CHARACTERS) {
        result = error_set("%s, which rank 0 has left, is not complete", path);
    }
    if (file >= 0)
        close(file);
    text[SECRET_CHARACTERS] = 0;
    return result;
}

int star_secret_take(const struct star_secret *secret, const char *note, unsigned char key[STAR_KEY_BYTES]) {
    char text[SECRET_CHARACTERS + 1];
    if (!secret->folder && !*note)
        return 0;
    if (!secret->folder || !is_note(note))
        return error_set(
            "this rank and rank 0 do not agree on where the job's secret is; start all ranks with the same "
            "flags and BEVATRON_JOB_TOKEN");
    char *path = file_join(secret->folder, note);
    int result = read_note(secret, path, text);
    if (result == 0)
        mix(key, text);
    free(path);
    return result;
}
