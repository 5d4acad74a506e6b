// Fields as tensors. See device_batch.h.
#include "model/device_batch.h"

struct device_batch device_batch_in_block(const struct batch_form *form, void *block) {
    static const enum dtype dtypes[] = {
        [ELEMENT_I64] = DTYPE_I64, [ELEMENT_I32] = DTYPE_I32, [ELEMENT_F32] = DTYPE_F32};
    struct batch addresses = batch_in_block(form, block);
    struct device_batch batch = {.form = *form};
    for (int i = 0; i < BATCH_FIELD_COUNT; i++) {
        enum batch_field field = (enum batch_field)i;
        if (addresses.fields[i])
            batch.fields[i] =
                tensor_1d(addresses.fields[i], dtypes[batch_rule(field)->element], batch_elements(form, field));
    }
    return batch;
}
