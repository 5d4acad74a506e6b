// Compares a written model with its source. See model_bytes.h.
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "formats/model_bytes.h"
#include "formats/names.h"
#include "model/likeness.h"
#include "store/convert.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

bool model_is_of_vocabulary(const char *name) {
    return strcmp(name, "embedding.word_embeddings.weight") == 0 || strncmp(name, "output_layer.", 13) == 0;
}

// A BERT without token types is written with one row of zeros, which changes nothing.
static bool is_filler(const struct model_source *written, size_t i) {
    const struct source_tensor *tensor = &written->tensors[i];
    return strcmp(tensor->name, "embedding.tokentype_embeddings.weight") == 0;
}

enum { QUICK_BYTES = 1 << 28 };  // read quickly, without a progress bar

struct problems {
    struct name_list missing, extra, misshaped, mistyped, changed;
};

static int report(struct problems *problems, const char *path) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    name_list_describe(&problems->missing, "tensors are missing", &text);
    name_list_describe(&problems->extra, "tensors that the source does not have", &text);
    name_list_describe(&problems->misshaped, "tensors have another shape", &text);
    name_list_describe(&problems->mistyped, "tensors have another type", &text);
    name_list_describe(&problems->changed, "tensors have other elements", &text);
    int result = text.length > 0 ? error_set("%s does not read back as it was written: %s; it was removed", path,
                                             buffer_string(&text))
                                 : 0;
    name_list_free(&problems->missing);
    name_list_free(&problems->extra);
    name_list_free(&problems->misshaped);
    name_list_free(&problems->mistyped);
    name_list_free(&problems->changed);
    return result;
}

static int64_t columns_of(const struct source_tensor *tensor) {
    return tensor->rank == 3 ? tensor->shape[1] * tensor->shape[2] : tensor->rank == 2 ? tensor->shape[1] : 1;
}

// ---- elements ----

static float *as_floats(const unsigned char *bytes, enum dtype dtype, size_t count) {
    return convert_shifted(bytes, dtype, count, 0);
}

static bool is_near(const float *wanted, const float *found, int64_t count, double tolerance) {
    double largest = 0, difference = 0;
    for (int64_t i = 0; i < count; i++) {
        bool is_nan = isnan(wanted[i]) && isnan(found[i]), is_finite = isfinite(wanted[i]) && isfinite(found[i]);
        if (!is_finite && !is_nan && wanted[i] != found[i])
            return false;
        if (!is_finite)
            continue;
        largest = fmax(largest, fabs((double)wanted[i]));
        difference = fmax(difference, fabs((double)wanted[i] - (double)found[i]));
    }
    return difference <= tolerance * largest;
}

struct tensor_pair {
    const unsigned char *wanted, *found;
    enum dtype dtype;
    int64_t rows, columns;
};

static bool is_same(const struct tensor_pair *pair, double tolerance) {
    size_t count = (size_t)(pair->rows * pair->columns);
    if (memcmp(pair->wanted, pair->found, count * dtype_bytes(pair->dtype)) == 0)
        return true;
    if (tolerance == 0)
        return false;
    OWNED float *wanted = as_floats(pair->wanted, pair->dtype, count),
                *found = as_floats(pair->found, pair->dtype, count);
    bool is_fine = true;
    for (int64_t r = 0; r < pair->rows && is_fine; r++)
        is_fine = is_near(wanted + r * pair->columns, found + r * pair->columns, pair->columns, tolerance);
    return is_fine;
}

// Compares the source's elements, converted to the written type, with those that are read back.
static int compare_elements(const struct model_check *check, struct model_source *written, size_t i, size_t k,
                            struct problems *problems) {
    struct model_write write = *check->write;
    const struct source_tensor *tensor = &written->tensors[k];
    write.has_dtype = true;
    write.dtype = tensor->dtype;
    write.gains = written->params.items[k]->is_centered ? GAINS_CENTERED : GAINS_WHOLE;
    OWNED_BY(model_bytes_free) struct model_bytes wanted = {0};
    OWNED unsigned char *found = memory_alloc(tensor->bytes + 1);
    TRY(model_bytes_read(&write, i, &wanted));
    TRY(model_source_read(written, k, found));
    struct tensor_pair pair = {wanted.data, found, tensor->dtype, tensor->shape[0], columns_of(tensor)};
    if (!is_same(&pair, check->tolerance))
        name_list_add(&problems->changed, tensor->name);
    return 0;
}

// ---- shapes ----

// Whether elements can be compared.
static bool compare_shape(const struct model_check *check, const struct source_tensor *from,
                          const struct source_tensor *to, struct problems *problems) {
    const struct model_write *write = check->write;
    int64_t rows = write->vocab_size > 0 && model_is_of_vocabulary(from->name) ? write->vocab_size : from->shape[0];
    enum dtype dtype = model_write_dtype(write, from);
    bool has_shape = from->rank == to->rank && to->shape[0] == rows && columns_of(from) == columns_of(to);
    bool has_type = check->may_widen || to->dtype == dtype;
    if (!has_shape)
        name_list_add(&problems->misshaped, from->name);
    else if (!has_type)
        name_list_add(&problems->mistyped, from->name);
    return has_shape && has_type;
}

static int check_filler(struct model_source *written, size_t k, struct problems *problems) {
    const struct source_tensor *tensor = &written->tensors[k];
    OWNED unsigned char *bytes = memory_alloc(tensor->bytes + 1);
    TRY(model_source_read(written, k, bytes));
    bool is_zero = is_filler(written, k);
    for (size_t i = 0; i < tensor->bytes && is_zero; i++)
        is_zero = bytes[i] == 0;
    if (!is_zero)
        name_list_add(&problems->extra, tensor->name);
    return 0;
}

static int compare_tensors(const struct model_check *check, struct model_source *written) {
    struct model_source *source = check->write->source;
    struct problems problems = {0};
    struct progress progress;
    size_t bytes = 0;
    for (size_t i = 0; i < source->count; i++)
        bytes += source->tensors[i].bytes;
    progress_begin(&progress, "reading back", "tensors", (double)source->count);
    progress.is_quiet = bytes < QUICK_BYTES;
    int result = 0;
    for (size_t i = 0; i < source->count && result == 0; i++) {
        const struct source_tensor *tensor = &source->tensors[i];
        int64_t k = model_source_find(written, tensor->name);
        if (k < 0)
            name_list_add(&problems.missing, tensor->name);
        else if (compare_shape(check, tensor, &written->tensors[k], &problems))
            result = compare_elements(check, written, i, (size_t)k, &problems);
        progress_update(&progress, (double)(i + 1), NULL);
    }
    progress_end(&progress, NULL);
    for (size_t k = 0; k < written->count && result == 0; k++)
        if (model_source_find(source, written->tensors[k].name) < 0)
            result = check_filler(written, k, &problems);
    int told = report(&problems, check->write->folder);
    return result < 0 ? result : told;
}

static int compare_flags(const struct model_check *check, const struct model_source *written) {
    struct config *from = &check->write->source->config;
    int64_t rows = from->model.padded_vocab_size;
    if (check->write->vocab_size > 0)
        from->model.padded_vocab_size = check->write->vocab_size;
    OWNED_BY(buffer_free) struct buffer text = {0};
    likeness_compare(&written->config, from, check->write->allows_near ? LIKENESS_NEAR : LIKENESS_WRITTEN, &text);
    from->model.padded_vocab_size = rows;
    return text.length > 0 ? error_set("%s reads back as another model, because the target cannot express this "
                                       "one: %s; it was removed",
                                       check->write->folder, buffer_string(&text))
                           : 0;
}

int model_check(const struct model_check *check) {
    const struct model_write *write = check->write;
    struct model_source written;
    if (model_source_open(&written, &(struct model_source_options){.path = check->path, .step = -1}) < 0)
        return error_context("what was written cannot be read back");
    int result = compare_flags(check, &written);
    if (result == 0)
        result = compare_tensors(check, &written);
    if (result == 0 && write->compare)
        result = write->compare(
            write->context,
            &(struct model_pair){.write = write, .written = &written, .tolerance = check->logits_tolerance});
    model_source_close(&written);
    return result;
}

// ---- before anything is written: values that may not fit ----

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
