// Stored gains of norms. See norm_gains.h.
#include "train/norm_gains.h"

void gains_convert(struct checkpoint_tensor *list, const struct param_list *params, bool is_centered) {
    for (int i = 0; i < params->count; i++) {
        const struct param *param = params->items[i];
        if (param->is_gain && param->is_centered != is_centered)
            list[i].added = is_centered ? 1.0f : -1.0f;
    }
}
