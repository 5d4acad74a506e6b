// Shared by the commands that run a model: finding this process's place among the ranks, opening the device and the
// world, and closing them in the right order.
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "base/file_lock.h"
#include "cli/ranks.h"
#include "comm/comm.h"
#include "config/config.h"
#include "ops/device.h"
#include "parallel/mesh.h"

struct session {
    struct launched_ranks ranks;
    const char *backend;  // of the collectives
    struct world_place place;
    struct device *device;
    struct world *world;
    struct mesh mesh;
    char *mpi_note;             // see mpi_leftovers_note; NULL for none
    struct file_lock holds[2];  // on checkpoints in a cache, see saved_model.h; held until the end
};

// Reads the environment (see ranks.h) and starts the collectives. Call before the flags are validated.
int session_start(struct session *session);
// Inputs of a command with --nproc.
struct session_flags {
    const char *before;  // see struct ranks_command
    const struct flag_command *command;
    void *options;
    const int64_t *nproc;            // --nproc in the options
    const struct flag_given *given;  // sources of the options' values
    const bool *starts_none;         // option that prevents starting ranks, or NULL
    // Completes the options before ranks are started; adds words to `words` for the ranks' command lines. `is_alone`:
    // no launcher has started this process. NULL: nothing to do.
    int (*complete)(void *options, bool is_alone, struct string_list *words);
    bool is_watching;  // signals are handled after this, unless ranks are started
    int argc;
    char **argv;
};
// Reads the flags, and starts the requested ranks or, in a process that is a rank or runs alone, the session. Returns
// the result of flags_parse; or SESSION_OVER, with the exit code and without options to free, if the ranks have ended
// or the session could not start.
enum { SESSION_OVER = FLAGS_HELP + 1 };
int session_begin(struct session *session, const struct session_flags *flags, int *exit_code);
// Opens the device and connects the ranks before the configuration is complete, for early agreements.
int session_meet_early(struct session *session, const struct config *config);
// Opens and connects unless done; and checks the complete configuration. It is an error if a rank's flags differ from
// rank 0's.
int session_meet(struct session *session, const struct config *config);
// Calls session_meet, and places the ranks in the mesh of a validated configuration.
int session_open(struct session *session, const struct config *config);
// Prints the error and returns its exit code. If there are several ranks, it does not return: the rank must not wait
// for the others when the collectives are closed, and its exit makes the launcher end them. Only rank 0 prints a usage
// error, which is the same on all ranks, and an error that the ranks have agreed on.
int session_failed(const struct session *session);
void session_close(struct session *session);
// $TMPDIR, or /tmp.
const char *session_temporary_folder(void);
// A path in the user's own cache, $XDG_CACHE_HOME/bevatron or ~/.cache/bevatron. NULL if neither is known. Freed by the
// caller.
char *session_user_cache(const char *name);

// ---- leftovers of mpirun ----

// Leftovers of a killed mpirun: shared-memory segments of its ranks, which count as memory in use until they are
// removed, and its session folder. The system does not record their owners, so the first rank of each machine notes
// them in a small file of the user's, and a later start removes those of dead processes.

// `base` is the folder for temporary files. Removes leftovers of dead runs of this program and user on this machine.
void mpi_leftovers_sweep(const char *base);
// Notes the possible leftovers of this rank's mpirun: `session` is its session folder, or NULL, `job` Open MPI's number
// of the job, used in names of segments, or NULL. To be called before MPI starts, since ranks may be killed during the
// start, and again afterwards, when the segments exist. Returns the file of the note, to be freed, or NULL if there is
// nothing to note.
char *mpi_leftovers_note(const char *base, const char *session, const char *job);
// For a run that ends well, whose mpirun cleans up itself. Takes ownership of the path; NULL is fine.
void mpi_leftovers_forget(char *note);

#endif
