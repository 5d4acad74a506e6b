// Ranks and their hub prove to each other that they know the job's key, without sending it: strangers, recordings and
// squatters on the port get nowhere, and a key that could be guessed is mixed with a file that only ranks can read.
#include "tcp_ranks.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/star.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char folder[64];

static struct star_options options_of(int rank, int size, const char *token, const char *shared) {
    struct star_options options = {.name = "the job",
                                   .rank = rank,
                                   .size = size,
                                   .secret = {.folder = shared, .is_public = true},
                                   .deadline_seconds = LONG_SECONDS};
    hmac_sha256("", 0, token, strlen(token), options.key);
    return options;
}

static struct sockaddr_storage here(void) {
    struct sockaddr_storage address;
    EXPECT_OK(star_resolve("127.0.0.1", port, false, &address));
    return address;
}

// A hub of `size` in another process; exits 0 once all have joined.
static pid_t start_hub(int size, const char *token, const char *shared) {
    struct sockaddr_storage address = here();
    struct star_options options = options_of(0, size, token, shared);
    struct star star;
    int listener, found;
    EXPECT_OK(star_listen(&address, &listener, &found));
    fflush(NULL);
    pid_t child = fork();
    if (child != 0) {
        close(listener);
        return child;
    }
    log_set_level(LOG_ERROR);
    int status = star_secret_leave(&options);
    if (status == 0)
        status = star_gather(&star, &options, listener);
    star_secret_remove(&options.secret);
    _exit(status == 0 ? 0 : 1);
}

static int join(int rank, int size, const char *token, const char *shared) {
    struct sockaddr_storage address = here();
    struct star_options options = options_of(rank, size, token, shared);
    struct star star;
    int status = star_join(&star, &options, &address);
    if (status == 0)
        star_close(&star);
    return status;
}

static int connected(void) {
    struct sockaddr_storage address = here();
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(connect(fd, (struct sockaddr *)&address, sizeof(struct sockaddr_in)) == 0);
    return fd;
}

static void receive(int fd, void *bytes, size_t size) {
    EXPECT(recv(fd, bytes, size, MSG_WAITALL) == (ssize_t)size);
}

// Says hello as rank 1 of 2 with this proof, or the right one if it is NULL; returns whether it was let in.
static bool visit(const struct hello *hello, unsigned char *given, const char *token) {
    struct star_options options = options_of(1, 2, token, NULL);
    struct challenge challenge;
    struct welcome welcome;
    unsigned char proof[PROOF_BYTES];
    int fd = connected();
    EXPECT(send(fd, hello, sizeof *hello, 0) == sizeof *hello);
    receive(fd, &challenge, sizeof challenge);
    star_prove(options.key, STAR_VISITOR, hello, &challenge, proof);
    EXPECT(send(fd, given ? given : proof, PROOF_BYTES, 0) == PROOF_BYTES);
    receive(fd, &welcome, sizeof welcome);
    EXPECT_INT(welcome.magic, HELLO_MAGIC);
    // Who is refused learns nothing that the key was used for.
    static const unsigned char nothing[PROOF_BYTES];
    EXPECT(!welcome.is_refused || memcmp(welcome.proof, nothing, PROOF_BYTES) == 0);
    close(fd);
    return !welcome.is_refused;
}

TEST(strangers_and_recordings_are_refused) {
    struct hello hello = {.magic = HELLO_MAGIC, .size = 2, .rank = 1};
    struct challenge before = {.magic = HELLO_MAGIC};
    struct star_options options = options_of(1, 2, "job 7", NULL);
    unsigned char proof[PROOF_BYTES];
    find_port();
    pid_t hub = start_hub(2, "job 7", NULL);
    // What was enough before: the hash of a name that anyone can guess.
    EXPECT(!visit(&hello, options.key, "job 7"));
    EXPECT(!visit(&hello, NULL, "/"));
    // The right answer to another challenge.
    star_prove(options.key, STAR_VISITOR, &hello, &before, proof);
    EXPECT(!visit(&hello, proof, "job 7"));
    EXPECT(visit(&hello, NULL, "job 7"));
    EXPECT_INT(end_of(hub), 0);
}

TEST(two_challenges_differ) {
    struct hello hello = {.magic = HELLO_MAGIC, .size = 2, .rank = 1};
    struct challenge challenges[2];
    find_port();
    pid_t hub = start_hub(2, "job 7", NULL);
    for (int i = 0; i < 2; i++) {
        int fd = connected();
        EXPECT(send(fd, &hello, sizeof hello, 0) == sizeof hello);
        receive(fd, &challenges[i], sizeof challenges[i]);
        close(fd);
    }
    EXPECT(memcmp(challenges[0].nonce, challenges[1].nonce, NONCE_BYTES) != 0);
    EXPECT_OK(join(1, 2, "job 7", NULL));
    EXPECT_INT(end_of(hub), 0);
}

// Somebody else has the port and lets everybody in.
TEST(a_squatter_is_noticed_and_told_nothing) {
    struct sockaddr_storage address;
    struct hello hello;
    struct challenge challenge = {.magic = HELLO_MAGIC};
    struct welcome welcome = {.magic = HELLO_MAGIC};
    struct star_options options = options_of(1, 2, "job 7", NULL);
    unsigned char heard[sizeof hello + PROOF_BYTES];
    int listener, found;
    find_port();
    address = here();
    EXPECT_OK(star_listen(&address, &listener, &found));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(join(1, 2, "job 7", NULL) < 0 && strstr(error_message(), "does not know the job's secret") ? 0 : 1);
    int fd = -1;
    while (fd < 0)
        fd = accept(listener, NULL, NULL);
    receive(fd, heard, sizeof hello);
    EXPECT(send(fd, &challenge, sizeof challenge, 0) == sizeof challenge);
    receive(fd, heard + sizeof hello, PROOF_BYTES);
    EXPECT(send(fd, &welcome, sizeof welcome, 0) == sizeof welcome);
    EXPECT_INT(end_of(child), 0);
    EXPECT(!memmem(heard, sizeof heard, options.key, STAR_KEY_BYTES));
    close(fd);
    close(listener);
}

// The token alone, which others may know, is not enough; afterwards nothing is left in the folder.
TEST(a_file_makes_a_known_token_secret) {
    struct hello hello = {.magic = HELLO_MAGIC, .size = 2, .rank = 1};
    snprintf(folder, sizeof folder, "/tmp/bevatron_secret_XXXXXX");
    EXPECT(mkdtemp(folder) != NULL);
    find_port();
    pid_t hub = start_hub(2, "job 7", folder);
    EXPECT(!visit(&hello, NULL, "job 7"));
    EXPECT_ERROR(join(1, 2, "job 7", NULL), "do not agree on where the job's secret is");
    EXPECT_ERROR(join(1, 2, "job 7", "/nowhere"), "which rank 0 has left: No such file or directory");
    EXPECT_OK(join(1, 2, "job 7", folder));
    EXPECT_INT(end_of(hub), 0);
    EXPECT(file_is_empty_folder(folder));
    EXPECT_OK(file_remove_tree(folder));
}

static void expect_refused(const char *note, const char *message) {
    struct star_secret secret = {.folder = folder, .is_public = true};
    unsigned char key[STAR_KEY_BYTES] = {0};
    EXPECT_ERROR(star_secret_take(&secret, note, key), message);
}

// A squatter may name any file, and make some.
TEST(files_of_others_are_not_read) {
    static const char name[] = ".bevatron-ranks.tmp.host.1.01234567";
    static const char text[] = "0123456789abcdef0123456789abcdef";
    snprintf(folder, sizeof folder, "/tmp/bevatron_secret_XXXXXX");
    EXPECT(mkdtemp(folder) != NULL);
    char *path = file_join(folder, name), *other = file_join(folder, "other");
    expect_refused("", "do not agree");
    expect_refused("../../etc/passwd", "do not agree");
    expect_refused(".bevatron-ranks.tmp.host/../x.1.01234567", "do not agree");
    struct star_secret own = {.folder = folder, .is_public = true};
    unsigned char key[STAR_KEY_BYTES] = {0};
    EXPECT_INT(star_secret_take(&own, name, key), 1);  // not yet
    error_clear();
    EXPECT_OK(file_write_private(other, text, strlen(text)));
    EXPECT(symlink(other, path) == 0);
    expect_refused(name, "cannot read");
    unlink(path);
    EXPECT(mkfifo(path, 0600) == 0);
    expect_refused(name, "is not a file of this user");
    unlink(path);
    EXPECT_OK(file_write_private(path, text, 5));
    expect_refused(name, "is not complete");
    if (geteuid() == 0) {
        EXPECT_OK(file_write_private(path, text, strlen(text)));
        EXPECT(chown(path, 1, 1) == 0);
        expect_refused(name, "is not a file of this user");
    }
    free(path);
    free(other);
    EXPECT_OK(file_remove_tree(folder));
}

TEST_MAIN(TEST_CASE(strangers_and_recordings_are_refused), TEST_CASE(two_challenges_differ),
          TEST_CASE(a_squatter_is_noticed_and_told_nothing), TEST_CASE(a_file_makes_a_known_token_secret),
          TEST_CASE(files_of_others_are_not_read))
