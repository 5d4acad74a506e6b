// Builds the model on paper and keeps what it declares. See model_list.h.
#include "checkpoint/model_list.h"

#include "model/model.h"

void model_list_parameters(const struct config *config, struct param_list *params) {
    struct model model;
    model_build(&model, params, &(struct model_options){.config = config, .piece = config_whole(config)});
    model_free(&model);
}
