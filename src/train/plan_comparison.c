// Compares measured and planned times. See plan_comparison.h.
#include "train/plan_comparison.h"
#include "base/clock.h"
#include "base/memory.h"
#include "report/metrics_file.h"

#include <inttypes.h>
#include <math.h>

static const char *const part_names[PART_COUNT] = {"computing", "waiting for other ranks", "waiting for data"};
static const char *const part_keys[PART_COUNT] = {"compute_ms", "wait_ms", "data_ms"};

// A batch that still grows has no one plan, and a plan gives every rank a device of its own.
void planned_make(const struct planner *planner, const struct config *config, const struct device *device,
                  const struct mesh *mesh, struct planned *planned) {
    if (planner && mesh->rank == 0 && !config->run.skip_train && !config_batch_varies(config) &&
        group_device_sharers(mesh->all) == 1)
        planner->plan(planner, config, device, planned);
}

struct planned_difference planned_compare(const struct planned *planned, const struct measured *measured) {
    const double as_planned = 0.05;
    struct planned_difference result = {
        .planned = {planned->compute, planned->seconds - planned->compute, 0},
        .measured = {measured->seconds - measured->waits - measured->data, measured->waits, measured->data},
        .deviation = planned->seconds / measured->seconds - 1,
        .part = PART_COUNT};
    if (fabs(result.deviation) <= as_planned)
        return result;
    // If the run is slower: the part that exceeds its plan most; if faster: the part that saves most.
    double sign = result.deviation < 0 ? 1 : -1, most = 0;
    for (int i = 0; i < PART_COUNT; i++) {
        double beyond = sign * (result.measured[i] - result.planned[i]);
        if (beyond > most) {
            most = beyond;
            result.part = (enum planned_part)i;
        }
    }
    return result;
}

void planned_describe(const struct planned *planned, const struct measured *measured, struct buffer *out) {
    struct planned_difference result = planned_compare(planned, measured);
    buffer_printf(out,
                  "measured at iteration %" PRId64 ": %.0f tokens/s, planned for %s: %.0f (%+.1f %%); a step takes "
                  "%.1f ms (planned %.1f)",
                  measured->iteration, planned->tokens / measured->seconds, planned->machine,
                  planned->tokens / planned->seconds, 100 * result.deviation, measured->seconds * 1e3,
                  planned->seconds * 1e3);
    for (int i = 0; i < PART_COUNT; i++)
        buffer_printf(out, "%s %s %.1f (%.1f)", i > 0 ? "," : ":", part_names[i], result.measured[i] * 1e3,
                      result.planned[i] * 1e3);
    if (result.part < PART_COUNT)
        buffer_printf(out, "; most of the difference: %s", part_names[result.part]);
}

static void write_parts(struct json_writer *json, const char *key, double seconds, const double parts[PART_COUNT]) {
    json_key(json, key);
    json_begin_object(json);
    json_put_double(json, "step_ms", seconds * 1e3);
    for (int i = 0; i < PART_COUNT; i++)
        json_put_double(json, part_keys[i], parts[i] * 1e3);
    json_end_object(json);
}

void planned_write_line(const struct planned *planned, const struct measured *measured, struct buffer *line) {
    struct planned_difference result = planned_compare(planned, measured);
    struct json_writer json = {.out = line};
    OWNED_BY(buffer_free) struct buffer text = {0};
    planned_describe(planned, measured, &text);
    metrics_line_begin(&json, "event", clock_wall_seconds(), measured->iteration);
    json_put_string(&json, "event", "planned");
    json_put_string(&json, "text", buffer_string(&text));
    json_put_string(&json, "machine", planned->machine);
    write_parts(&json, "measured", measured->seconds, result.measured);
    write_parts(&json, "planned", planned->seconds, result.planned);
    json_end_object(&json);
}
