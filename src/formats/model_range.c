// Reads the tensors whose values may not fit. See model_bytes.h.
#include "formats/model_bytes.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "formats/names.h"
#include "store/convert.h"
#include <inttypes.h>
#include <math.h>

// Values from here on round to infinity in fp16.
static const float F16_OVERFLOW = 65520;

struct findings {
    struct name_list overflowing, rounded;  // tensors
    int64_t overflows, gains, all_gains;    // elements
    double largest, error;                  // largest overflow; error of the gains
};

static void look_for_overflows(const float *values, size_t count, const char *name, struct findings *findings) {
    int64_t found = 0;
    for (size_t i = 0; i < count; i++) {
        double size = fabs((double)values[i]);
        if (!isfinite(values[i]) || size < (double)F16_OVERFLOW)
            continue;
        found++;
        if (size > findings->largest)
            findings->largest = size;
    }
    if (found > 0)
        name_list_add(&findings->overflowing, name);
    findings->overflows += found;
}

static void look_for_rounding(const float *values, size_t count, enum dtype dtype, const char *name,
                              struct findings *findings) {
    OWNED unsigned char *narrow = memory_alloc(count * dtype_bytes(dtype) + 1);
    convert_elements(
        &(struct convert){.to = narrow, .to_dtype = dtype, .from = values, .from_dtype = DTYPE_F32, .count = count});
    OWNED float *back = convert_shifted(narrow, dtype, count, 0);
    int64_t found = 0;
    for (size_t i = 0; i < count; i++) {
        double error = fabs((double)back[i] - (double)values[i]);
        if (error == 0)
            continue;
        found++;
        if (error > findings->error)
            findings->error = error;
    }
    if (found > 0)
        name_list_add(&findings->rounded, name);
    findings->gains += found;
    findings->all_gains += (int64_t)count;
}

static int look_at(const struct model_write *write, size_t i, struct findings *findings) {
    struct model_source *source = write->source;
    const struct source_tensor *tensor = &source->tensors[i];
    enum dtype dtype = model_write_dtype(write, tensor);
    float shift = model_gains_shift(write, source->params.items[i]);
    bool may_overflow = dtype == DTYPE_F16 && tensor->dtype != DTYPE_F16, may_round = shift != 0 && dtype != DTYPE_F32;
    if (!may_overflow && !may_round)
        return 0;
    size_t count = tensor->bytes / dtype_bytes(tensor->dtype);
    OWNED unsigned char *memory = memory_alloc(tensor->bytes + 1);
    int result = model_source_read(source, i, memory);
    if (result == 0) {
        OWNED float *values = convert_shifted(memory, tensor->dtype, count, shift);
        if (may_overflow)
            look_for_overflows(values, count, tensor->name, findings);
        if (may_round)
            look_for_rounding(values, count, dtype, tensor->name, findings);
    }
    return result;
}

static int tell(const struct model_write *write, const struct findings *findings) {
    OWNED_BY(buffer_free) struct buffer overflows = {0}, gains = {0};
    name_list_describe(&findings->overflowing, "tensors", &overflows);
    name_list_describe(&findings->rounded, "tensors", &gains);
    int result = 0;
    if (findings->overflows > 0)
        result = error_set("%" PRId64
                           " values exceed the largest of fp16, 65504 (up to %.6g; %s); give --dtype bf16 or fp32",
                           findings->overflows, findings->largest, buffer_string(&overflows));
    else if (findings->gains > 0 && !write->has_dtype)
        result = error_set("%" PRId64 " of %" PRId64
                           " norm gains are stored as their distance from 1 and are not exact in 16 bits (error up to "
                           "%.2g; %s); give --dtype fp32 to keep them exact, or a 16-bit --dtype to round them",
                           findings->gains, findings->all_gains, findings->error, buffer_string(&gains));
    else if (findings->gains > 0)
        log_info("note: %" PRId64 " of %" PRId64 " norm gains are rounded by up to %.2g", findings->gains,
                 findings->all_gains, findings->error);
    return result;
}

int model_range_check(const struct model_write *write) {
    struct findings findings = {0};
    int result = 0;
    for (size_t i = 0; i < write->source->count && result == 0; i++)
        result = look_at(write, i, &findings);
    if (result == 0)
        result = tell(write, &findings);
    name_list_free(&findings.overflowing);
    name_list_free(&findings.rounded);
    return result;
}
