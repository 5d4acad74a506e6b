// What the commands that run a model share: finding this process's place among the ranks, opening the device and the
// world, and closing them in the right order.
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "cli/ranks.h"
#include "comm/comm.h"
#include "config/config.h"
#include "ops/device.h"
#include "parallel/mesh.h"

struct session {
    struct ranks ranks;
    const char *backend;  // of the collectives
    struct world_place place;
    struct device *device;
    struct world *world;
    struct mesh mesh;
};

// Reads the environment (see ranks.h) and starts the collectives; to be called before the flags are validated.
int session_start(struct session *session);
// Opens the device and the mesh for a validated configuration. A rank whose flags differ from rank 0's is an error.
int session_open(struct session *session, const struct config *config);
// Prints the error and returns its exit code. One of several ranks does not return: it must not wait for the others
// in the collective farewell, and its exit makes the launcher end them. A usage error, the same on all, and one
// that ranks have agreed on are said by rank 0 alone.
int session_failed(const struct session *session);
void session_close(struct session *session);

// A command whose `run` gets the options it parsed and a session that was started; it opens it itself, once the
// configuration is whole. Returns the exit code.
struct session_call {
    const struct flag_command *flags;
    void *options;
    int (*run)(void *options, struct session *session);
};
int session_run(const struct session_call *call, int argc, char **argv);

#endif
