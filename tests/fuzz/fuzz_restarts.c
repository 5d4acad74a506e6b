// layer: cli
// The state of a job's restarts from hostile bytes: counts stay in range, and what is read is written and read as the
// same.
#include "fuzz.h"

#include "base/error.h"
#include "cli/launch.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct restarts_state state, again;
    if (restarts_state_read(&state, (const char *)data, size, "state") < 0) {
        error_clear();
        return 0;
    }
    const struct restarts *restarts = &state.restarts;
    CHECK(restarts->count >= 0 && restarts->count <= RESTARTS_MOST);
    CHECK(restarts->at_one_place >= 0 && restarts->unstarted >= 0 && restarts->in_vain >= 0);
    CHECK(memchr(state.job, 0, sizeof state.job) && memchr(state.progress, 0, sizeof state.progress));
    struct buffer text = {0}, second = {0};
    restarts_state_write(&state, &text);
    CHECK(restarts_state_read(&again, buffer_string(&text), text.length, "state") == 0);
    restarts_state_write(&again, &second);
    CHECK(strcmp(buffer_string(&text), buffer_string(&second)) == 0);
    struct restarts_attempt attempt = {.exit_code = 1, .has_started = true, .reached = restarts->place, .now = 1e9};
    double delay;
    state.restarts.most = 10;
    state.restarts.window_seconds = 3600;
    (void)restarts_decide(&state.restarts, &attempt, &delay);
    CHECK(delay >= 0 && delay <= 60);
    buffer_free(&text);
    buffer_free(&second);
    return 0;
}
