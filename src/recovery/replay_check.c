// Computing iterations again to find the rank that was wrong. See rewind.h.
#include "recovery/rewind.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void add_hint(void) {
    OWNED char *message = memory_string(error_message());
    error_set_code(EXIT_CODE_CORRUPT, "%s; --replay-check finds out which rank it is", message);
    error_mark_shared();
}

int replay_check_begin(struct replay_check *replay, struct recovery *recovery, struct step *step, int64_t iteration,
                       int status) {
    bool is_difference = status < 0 && error_exit_code() == EXIT_CODE_CORRUPT;
    if (is_difference && !recovery->config->watch.replay_check && strstr(error_message(), "no majority"))
        add_hint();
    if (!is_difference || !recovery->config->watch.replay_check || replay->is_on || iteration == 0)
        return status;
    if (recovery->mesh->rank == 0)
        log_warn("%s. Computing the iterations since the last verified checkpoint again (--replay-check)",
                 error_message());
    error_clear();
    *replay = (struct replay_check){
        .is_on = true, .iteration = iteration, .digest = step_digest(step), .value = step_suspect(step)};
    recovery->is_due = recovery->is_replay = true;
    recovery->wanted = iteration - 1;
    return 0;
}

// The error of every rank, (size), to be freed: that of the element's value, or else 1 for a rank whose numbers have
// changed. Stored as the bits of doubles in integers, which sort in the same order.
static int64_t *measure(const struct replay_check *replay, const struct mesh *mesh, struct step *step) {
    double error = fabs(step_suspect(step) - replay->value);
    int64_t *table = memory_alloc(sizeof *table * 2 * (size_t)mesh->size), *own = table + 2 * mesh->rank;
    own[0] = step_digest(step) != replay->digest;
    if (!isnan(error))
        memcpy(&own[1], &error, sizeof error);
    comm_all_gather_i64(mesh->all, table, 2, "ranks that computed other numbers");
    int has_value = 0;
    for (int i = 0; i < mesh->size; i++)
        has_value = has_value || table[2 * i + 1] != 0;
    for (int i = 0; i < mesh->size; i++)
        table[i] = table[2 * i + has_value];
    return table;
}

// The sentence that says who was wrong; to be freed.
static char *judge(const struct replay_check *replay, const struct mesh *mesh, struct step *step) {
    int64_t *wrong = measure(replay, mesh, step), most = 0;
    int worst = 0, count = 0;
    for (int i = 0; i < mesh->size; i++) {
        count = wrong[i] > most ? 1 : count + (wrong[i] == most);
        worst = wrong[i] > most ? i : worst;
        most = wrong[i] > most ? wrong[i] : most;
    }
    free(wrong);
    if (most == 0)
        return memory_string("all ranks computed the same numbers as before: the fault repeats itself");
    if (count > 1)
        return memory_string("several ranks were equally wrong, so the faulty one is unknown");
    return memory_printf("rank %d (%s) had the fault", worst, group_host(mesh->all, worst));
}

bool replay_check_is_due(const struct replay_check *replay, int64_t iteration) {
    return replay->is_on && iteration == replay->iteration;
}

int replay_check_end(struct replay_check *replay, const struct recovery *recovery, struct step *step,
                     int64_t iteration) {
    if (!replay_check_is_due(replay, iteration))
        return 0;
    char *verdict = judge(replay, recovery->mesh, step);
    int status = step_check_replicas(step);
    // A second difference ends the run: it must not be replayed again.
    replay->is_on = status < 0;
    if (status < 0) {
        char *again = memory_string(error_message());
        error_set_code(EXIT_CODE_CORRUPT, "replay of iteration %" PRId64 ": %s. Replicas differ again: %s", iteration,
                       verdict, again);
        error_mark_shared();
        free(again);
    } else {
        char *text = memory_printf("replay of iteration %" PRId64 ": %s; replicas agree now, and the run continues",
                                   iteration, verdict);
        recovery_tell(recovery, "replay", iteration, text);
        free(text);
    }
    free(verdict);
    return status;
}
