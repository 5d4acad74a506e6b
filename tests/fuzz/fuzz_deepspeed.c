// layer: config
// DeepSpeed's configuration file from hostile bytes: what is accepted leaves numbers that flags could have given, and
// changes nothing when it is applied again.
#include "fuzz.h"

#include "base/error.h"
#include "base/log.h"
#include "config/validate.h"
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char *words[] = {"train", "--fp16", "--micro-batch-size=2"};
    struct config config = {0};
    struct json *file = NULL;
    log_set_level(LOG_ERROR);
    CHECK(config_parse(&config, size % 2 ? 3 : 1, words) == 0);
    if (json_parse(&file, (const char *)data, size, "ds.json") == 0 && deepspeed_apply(&config, file, "ds.json") == 0) {
        CHECK(config.run.clip_grad >= 0 && isfinite(config.run.clip_grad) && config.machine.zero_stage >= 0 &&
              config.machine.zero_stage <= 3);
        CHECK(config.run.global_batch_size >= 0 && config.run.micro_batch_size >= 0 && config.run.hysteresis >= 1);
        CHECK(config.run.loss_scale >= 0 && config.run.initial_loss_scale >= 1 && config.run.loss_scale_window >= 1);
        double clip_grad = config.run.clip_grad, scale = config.run.initial_loss_scale;
        int64_t size_of_batch = config.run.global_batch_size, stage = config.machine.zero_stage;
        CHECK(deepspeed_apply(&config, file, "ds.json") == 0);
        CHECK(config.run.clip_grad == clip_grad && config.run.initial_loss_scale == scale);
        CHECK(config.run.global_batch_size == size_of_batch && config.machine.zero_stage == stage);
    }
    json_free(file);
    config_free(&config);
    return 0;
}
