// Fits the constants of a machine to samples, one kind after another: matmuls, then collectives, then the rest of
// steps. See calibrate.h.
#include "plan/calibrate.h"
#include "base/memory.h"
#include "plan/plan.h"

#include <math.h>
#include <stdlib.h>

#define ADD(list, count, sample)                                                                                       \
    do {                                                                                                               \
        (list) = memory_realloc((list), sizeof *(list) * (size_t)((count) + 1));                                       \
        (list)[(count)++] = (sample);                                                                                  \
    } while (0)

void calibration_add_matmul(struct calibration *calibration, const struct matmul_sample *sample) {
    ADD(calibration->matmuls, calibration->matmul_count, *sample);
}

void calibration_add_message(struct calibration *calibration, const struct message_sample *sample) {
    ADD(calibration->messages, calibration->message_count, *sample);
}

void calibration_add_step(struct calibration *calibration, const struct step_sample *sample) {
    ADD(calibration->steps, calibration->step_count, *sample);
}

void calibration_free(struct calibration *calibration) {
    for (int i = 0; i < calibration->step_count; i++)
        config_free(&calibration->steps[i].config);
    free(calibration->matmuls);
    free(calibration->messages);
    free(calibration->steps);
    *calibration = (struct calibration){0};
}

static int kind_of(enum dtype dtype) {
    return dtype_is_float8(dtype) ? 2 : dtype == DTYPE_F32 ? 0 : 1;
}

// Sets the rates of the measured dtypes so that all matmuls of a step together take the measured time. Returns the sum
// of squared deviations of logarithms, weighted by time.
static double fit_rates(const struct calibration *calibration, struct device_rates *rates) {
    double planned[3] = {0}, measured[3] = {0}, sum = 0;
    for (int i = 0; i < calibration->matmul_count; i++) {
        const struct matmul_sample *s = &calibration->matmuls[i];
        planned[kind_of(s->dtype)] += s->times * device_rates_matmul(rates, s->dtype, s->m, s->n, s->k);
        measured[kind_of(s->dtype)] += s->times * s->seconds;
    }
    for (int kind = 0; kind < 3; kind++)
        if (measured[kind] > 0)
            rates->matmul[kind] *= planned[kind] / measured[kind];
    for (int i = 0; i < calibration->matmul_count; i++) {
        const struct matmul_sample *s = &calibration->matmuls[i];
        double off = log(device_rates_matmul(rates, s->dtype, s->m, s->n, s->k) / s->seconds);
        sum += s->times * s->seconds * off * off;
    }
    return sum;
}

static void fit_matmuls(const struct calibration *calibration, struct device_rates *rates, struct buffer *out) {
    static const double inners[] = {0, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024};
    struct device_rates best = *rates;
    double least = INFINITY, all = 0, change = 1;
    for (size_t i = 0; i < sizeof inners / sizeof inners[0]; i++) {
        struct device_rates tried = *rates;
        tried.half_inner = inners[i];
        double off = fit_rates(calibration, &tried);
        if (off < least) {
            least = off;
            best = tried;
        }
    }
    for (int i = 0; i < calibration->matmul_count; i++)
        all += calibration->matmuls[i].times * calibration->matmuls[i].seconds;
    // Rates that were not measured change in proportion: attention like matmuls in 16 bits, or else like those in fp32.
    for (int kind = 0; kind < 2; kind++)
        if (best.matmul[kind] != rates->matmul[kind])
            change = best.matmul[kind] / rates->matmul[kind];
    best.attention[0] *= change;
    best.attention[1] *= change;
    *rates = best;
    buffer_printf(out, "%d matmuls: %.4g TFLOP/s in fp32, %.4g in 16 bits, %.4g in 8; typically %.0f %% off\n",
                  calibration->matmul_count, best.matmul[0] / 1e12, best.matmul[1] / 1e12, best.matmul[2] / 1e12,
                  100 * sqrt(least / all));
}

// Fits seconds = a + b × bytes for each pass, minimizing relative errors.
struct message_line {
    double weight, x, y, xx, xy;
    double smallest, first;  // bytes, and their seconds
    int count, ranks;
};

static void add_to_line(struct message_line *line, const struct message_sample *sample) {
    double part = (double)(sample->ranks - 1) / sample->ranks, x = part * sample->bytes;
    double y = sample->seconds / sample->passes, weight = 1 / (y * y);
    line->weight += weight;
    line->x += weight * x;
    line->y += weight * y;
    line->xx += weight * x * x;
    line->xy += weight * x * y;
    if (line->count++ == 0 || sample->bytes < line->smallest || (sample->bytes == line->smallest && y < line->first)) {
        line->smallest = sample->bytes;
        line->first = y;
    }
    line->ranks = sample->ranks > line->ranks ? sample->ranks : line->ranks;
}

// `share` ranks of a machine use the path together.
static bool fit_path(const struct message_line *line, double share, struct comm_path *path) {
    double determinant = line->weight * line->xx - line->x * line->x;
    if (line->count < 2 || determinant <= 0)
        return false;
    double slope = (line->weight * line->xy - line->x * line->y) / determinant;
    if (slope <= 0)
        return false;
    double start = (line->y - slope * line->x) / line->weight, steps = ceil(log2(line->ranks));
    double least = start > 0 && start < line->first ? start : line->first;
    path->seconds = least / steps;
    path->bytes_per_second = 1 / slope / share;
    path->half_bytes = start > least ? (start - least) / slope * line->ranks / (line->ranks - 1) : 0;
    return true;
}

// Whether the sample crosses hosts; ranks of one host say nothing about the network.
static bool is_across(const struct message_sample *sample, const struct machine *machine) {
    return sample->hosts != 1 && sample->ranks > machine->joined;
}

static void fit_messages(const struct calibration *calibration, struct hardware_file *file, struct buffer *out) {
    struct message_line lines[2] = {0};  // inside, across
    for (int i = 0; i < calibration->message_count; i++) {
        const struct message_sample *sample = &calibration->messages[i];
        add_to_line(&lines[is_across(sample, &file->machine)], sample);
    }
    if (fit_path(&lines[0], 1, &file->hardware.link))
        buffer_printf(out, "%d collectives inside a machine: %.4g GB/s, %.3g µs\n", lines[0].count,
                      file->hardware.link.bytes_per_second / 1e9, file->hardware.link.seconds * 1e6);
    if (fit_path(&lines[1], hardware_ranks(&file->machine), &file->hardware.network))
        buffer_printf(out, "%d collectives between machines: %.4g GB/s for each rank, %.3g µs\n", lines[1].count,
                      file->hardware.network.bytes_per_second / 1e9, file->hardware.network.seconds * 1e6);
    else if (lines[1].count == 0)
        buffer_append_string(out, "the network between machines was not measured; run bench collectives on several\n");
}

// The mean deviation of logarithms of planned steps.
static int steps_off(const struct calibration *calibration, const struct hardware_file *file, double *off) {
    *off = 0;
    for (int i = 0; i < calibration->step_count; i++) {
        struct step_sample *sample = &calibration->steps[i];
        struct plan plan;
        TRY(plan_make(
            &plan, &(struct plan_options){
                       .config = &sample->config, .ranks = 1, .machine = &file->machine, .hardware = &file->hardware}));
        *off += log(plan.seconds / sample->seconds) / calibration->step_count;
    }
    return 0;
}

static void scale_memory(struct hardware_file *file, double factor) {
    file->hardware.rates.bytes_per_second *= factor;
}

static void scale_all(struct hardware_file *file, double factor) {
    struct device_rates *rates = &file->hardware.rates;
    for (int i = 0; i < 4; i++)
        rates->matmul[i] *= factor;
    rates->attention[0] *= factor;
    rates->attention[1] *= factor;
    rates->bytes_per_second *= factor;
    rates->seconds_per_operation /= factor;
}

// Time that matmuls do not explain is attributed to memory bandwidth. If no bandwidth explains it, all rates are
// scaled, as on a machine that also does other work.
static int fit_steps(const struct calibration *calibration, struct hardware_file *file, struct buffer *out) {
    enum { HALVINGS = 24 };
    double low = 1.0 / 1024, high = 64, off = 0;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = sqrt(low * high);
        scale_memory(file, middle);
        TRY(steps_off(calibration, file, &off));
        scale_memory(file, 1 / middle);
        *(off > 0 ? &low : &high) = middle;
    }
    // A bandwidth at the end of the range means that it was not the cause.
    bool is_found = fabs(off) < 0.01;
    if (is_found)
        scale_memory(file, sqrt(low * high));
    for (int i = 0; i < 8 && !is_found; i++) {
        TRY(steps_off(calibration, file, &off));
        scale_all(file, exp(off));
    }
    TRY(steps_off(calibration, file, &off));
    buffer_printf(out, "%d steps: %.4g GB/s of memory%s; planned %+.1f %%\n", calibration->step_count,
                  file->hardware.rates.bytes_per_second / 1e9, is_found ? "" : ", and all rates scaled",
                  100 * (exp(off) - 1));
    return 0;
}

int calibration_apply(const struct calibration *calibration, struct hardware_file *file, struct buffer *out) {
    if (calibration->matmul_count > 0)
        fit_matmuls(calibration, &file->hardware.rates, out);
    if (calibration->message_count > 0)
        fit_messages(calibration, file, out);
    if (calibration->step_count > 0)
        TRY(fit_steps(calibration, file, out));
    free(file->source);
    file->source = memory_printf("measured: %d matmuls, %d collectives, %d steps (plan --calibrate)",
                                 calibration->matmul_count, calibration->message_count, calibration->step_count);
    file->hardware.source = file->source;
    return 0;
}
