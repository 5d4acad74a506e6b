// The cases that every backend must pass: each takes a lab, which gives device, dtype and tolerance. EACH_CASE lists
// them; a test program makes one TEST of each:
//
//   static void run_case(void (*run)(struct lab *lab)) { … lab_open(&lab, device, dtype, tolerance); run(&lab); … }
//   #define CASE_TEST(name) TEST(name) { run_case(case_##name); }
//   EACH_CASE(CASE_TEST)
//   #define CASE_ROW(name) TEST_CASE(name),
//   TEST_MAIN(EACH_CASE(CASE_ROW) …)
#ifndef TESTS_OPS_CASES_H
#define TESTS_OPS_CASES_H

#include "cases_attention.h"
#include "cases_blocks.h"
#include "cases_clip.h"
#include "cases_embedding.h"
#include "cases_experts.h"
#include "cases_experts8.h"
#include "cases_experts_blocks.h"
#include "cases_float4.h"
#include "cases_float8.h"
#include "cases_layers.h"
#include "cases_matmul.h"
#include "cases_models.h"
#include "cases_router.h"
#include "cases_training.h"
#include "cases_muon.h"
#include "cases_updates.h"

#define EACH_CASE(X)                                                                                                   \
    X(matmul)                                                                                                          \
    X(matmul_many)                                                                                                     \
    X(matmul_tiles)                                                                                                    \
    X(matmul_epilogues)                                                                                                \
    X(quantize)                                                                                                        \
    X(quantize_parts)                                                                                                  \
    X(transpose8)                                                                                                      \
    X(matmul_float8)                                                                                                   \
    X(move_ranges)                                                                                                     \
    X(norm_float8)                                                                                                     \
    X(norm_forward)                                                                                                    \
    X(norm_backward)                                                                                                   \
    X(norm_without_bias)                                                                                               \
    X(norm_slope)                                                                                                      \
    X(rms_norm)                                                                                                        \
    X(rms_norm_slope)                                                                                                  \
    X(activation)                                                                                                      \
    X(glu)                                                                                                             \
    X(rope)                                                                                                            \
    X(relative_bias)                                                                                                   \
    X(alibi)                                                                                                           \
    X(dropout_add)                                                                                                     \
    X(dropout_backward)                                                                                                \
    X(dropout_not_finite)                                                                                              \
    X(dropout_statistics)                                                                                              \
    X(dropout_rates)                                                                                                   \
    X(embedding_forward)                                                                                               \
    X(embedding_backward)                                                                                              \
    X(attention)                                                                                                       \
    X(attention_dropout)                                                                                               \
    X(attention_masks)                                                                                                 \
    X(attention_scores)                                                                                                \
    X(attention_wide)                                                                                                  \
    X(attention_tiles)                                                                                                 \
    X(attention_rings)                                                                                                 \
    X(attention_values)                                                                                                \
    X(latent)                                                                                                          \
    X(attention_slope)                                                                                                 \
    X(cross_entropy)                                                                                                   \
    X(cross_entropy_parts)                                                                                             \
    X(cross_entropy_nan)                                                                                               \
    X(cross_entropy_whole)                                                                                             \
    X(cross_entropy_not_finite)                                                                                        \
    X(cross_entropy_low)                                                                                               \
    X(cross_entropy_capped)                                                                                            \
    X(cross_entropy_z)                                                                                                 \
    X(top_hits)                                                                                                        \
    X(sums)                                                                                                            \
    X(digest)                                                                                                          \
    X(clip_scale)                                                                                                      \
    X(rates)                                                                                                           \
    X(adam)                                                                                                            \
    X(adam_halves)                                                                                                     \
    X(adam_narrow)                                                                                                     \
    X(adam_coded)                                                                                                      \
    X(sgd)                                                                                                             \
    X(lion)                                                                                                            \
    X(muon)                                                                                                            \
    X(adapt)                                                                                                           \
    X(add_diagonal)                                                                                                    \
    X(largest_scores)                                                                                                  \
    X(clip_rows)                                                                                                       \
    X(average)                                                                                                         \
    X(split)                                                                                                           \
    X(copy)                                                                                                            \
    X(scale)                                                                                                           \
    X(route)                                                                                                           \
    X(route_groups)                                                                                                    \
    X(route_extremes)                                                                                                  \
    X(balance)                                                                                                         \
    X(balance_bias)                                                                                                    \
    X(balance_load)                                                                                                    \
    X(sinkhorn)                                                                                                        \
    X(jitter)                                                                                                          \
    X(sort_slots)                                                                                                      \
    X(sort_slots_aligned)                                                                                              \
    X(sum_slots)                                                                                                       \
    X(gather_slots)                                                                                                    \
    X(expert_activation)                                                                                               \
    X(grouped_matmul)                                                                                                  \
    X(quantize_slots)                                                                                                  \
    X(quantize_experts)                                                                                                \
    X(grouped_float8)                                                                                                  \
    X(quantize_parts_blocks)                                                                                           \
    X(quantize_slots_blocks)                                                                                           \
    X(quantize_experts_blocks)                                                                                         \
    X(grouped_blocks)                                                                                                  \
    X(quantize_blocks)                                                                                                 \
    X(blocks_not_finite)                                                                                               \
    X(matmul_blocks)                                                                                                   \
    X(quantize_float4)                                                                                                 \
    X(float4_rounding)                                                                                                 \
    X(float4_beside_dropout)                                                                                           \
    X(float4_not_finite)                                                                                               \
    X(matmul_float4)                                                                                                   \
    X(float4_mixed)

#endif
