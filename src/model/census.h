// Counts a model's parameters, FLOPs and matmuls by building it without memory. Shapes are written once, where the
// layers declare their parameters; all counts follow from them.
//
// FLOPs are counted as Megatron does for "throughput per GPU (TFLOP/s/GPU)": 6 for each element of a matrix and each
// token multiplied with it, and 12 B s^2 q for attention of q = heads * head size channels, half of that if it is
// causal. The output layer is among the matrices, whether it is tied or not; the transform and the pooler of a BERT are
// not, and the keys and values of cross-attention count for the tokens of the decoder. For ICT only the layers of the
// towers count. Experts count if a token is routed to them; routers do not. Each depth of multi-token prediction counts
// with its layer, its own matrix, its norms and the output layer. Recomputation does not count. (The paper backend
// counts what is really computed.)
#ifndef MODEL_CENSUS_H
#define MODEL_CENSUS_H

#include "config/config.h"
#include "parallel/param.h"

// Declares the parameters of the whole model. The config must be validated and its padded_vocab_size set.
void census_declare(const struct config *config, struct param_list *params);
int64_t census_parameters(const struct config *config);
// Parameters that one token uses: only the experts that it is routed to count.
int64_t census_active_parameters(const struct config *config);
// Strips the name of an ICT tower from a parameter's name; the rest is the name in an encoder.
const char *census_name(const char *name);

// The counts from which a step's FLOPs are computed.
struct census {
    int64_t parameters, active;                         // as the functions above count them
    double encoder, decoder, head;                      // elements of the matrices of all layers; of the output layer
    double depth_norms;                                 // elements of the gains of norms of multi-token prediction
    double encoder_channels, channels, cross_channels;  // of attention's heads, over all layers
};
struct census census_take(const struct config *config);
double census_flops(const struct census *census, const struct config *config, int64_t global_batch_size);

#endif
