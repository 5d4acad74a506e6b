// Output of `evaluate` for ICT: the loss over whole batches, or the retrieval check over all blocks.
#ifndef CLI_EVALUATE_ICT_H
#define CLI_EVALUATE_ICT_H

#include "config/config.h"
#include "train/evaluate.h"
#include "train/retrieval.h"

void evaluate_ict_print_loss(const struct config *config, const struct evaluation *result, bool is_json);
void evaluate_ict_print_retrieval(const struct retrieval *asked, const struct retrieval_result *result, bool is_json);
// The numbers of --retriever-report-topk-accuracies, or the usual ones.
void evaluate_ict_tops(struct retrieval *retrieval, const struct config *config);

#endif
