// See run_position.h. The state is that of the process.
#include "base/run_position.h"
#include "base/process.h"

#include <stdatomic.h>
#include <stdio.h>

static atomic_int own_rank = -1;
static atomic_int_fast64_t own_iteration = -1;
static const char *_Atomic own_phase;

void run_position_set_rank(int rank) {
    atomic_store(&own_rank, rank);
}

void run_position_set_iteration(int64_t iteration) {
    atomic_store_explicit(&own_iteration, iteration, memory_order_relaxed);
}

const char *run_position_set_phase(const char *label) {
    return atomic_exchange_explicit(&own_phase, label, memory_order_relaxed);
}

void run_position_change_phase(const char *from, const char *label) {
    atomic_compare_exchange_strong(&own_phase, &from, label);
}

int64_t run_position_iteration(void) {
    return atomic_load_explicit(&own_iteration, memory_order_relaxed);
}

const char *run_position_phase(void) {
    const char *phase = atomic_load_explicit(&own_phase, memory_order_relaxed);
    return phase ? phase : "";
}

// Uses no memory and no locks: snprintf needs none for whole numbers and strings.
const char *run_position_text(char *text, size_t size) {
    char host[256], at[48] = "", who[32] = "";
    const char *phase = run_position_phase();
    int64_t iteration = run_position_iteration();
    int rank = atomic_load(&own_rank);
    text[0] = '\0';
    if (iteration < 0 && !*phase)
        return text;
    process_host(host, sizeof host);
    if (iteration >= 0)
        snprintf(at, sizeof at, "iteration %lld", (long long)iteration);
    if (rank >= 0)
        snprintf(who, sizeof who, "rank %d ", rank);
    snprintf(text, size, "%s%s%s, %son %s", at, *at && *phase ? ", " : "", phase, who, host);
    return text;
}
