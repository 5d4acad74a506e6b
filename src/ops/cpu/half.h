// bf16 and fp16 on the CPU: storage of 16 bits, arithmetic in fp32. Private to ops/cpu.
#ifndef OPS_CPU_HALF_H
#define OPS_CPU_HALF_H

#include "ops/cpu/cpu.h"

// The operations of cpu.h for any float dtype; fp32 goes straight through.
void half_matmul(struct device *device, const struct op_matmul *op);
void half_activation_forward(struct device *device, const struct op_activation_forward *op);
void half_activation_backward(struct device *device, const struct op_activation_backward *op);
void half_glu_forward(struct device *device, const struct op_glu_forward *op);
void half_glu_backward(struct device *device, const struct op_glu_backward *op);
void half_rope(struct device *device, const struct op_rope *op);
void half_relative_bias_forward(struct device *device, const struct op_relative_bias_forward *op);
void half_norm_forward(struct device *device, const struct op_norm_forward *op);
void half_norm_backward(struct device *device, const struct op_norm_backward *op);
void half_attention_forward(struct device *device, const struct op_attention_forward *op);
void half_attention_backward(struct device *device, const struct op_attention_backward *op);
void half_embedding_forward(struct device *device, const struct op_embedding_forward *op);
void half_embedding_backward(struct device *device, const struct op_embedding_backward *op);
void half_dropout_add(struct device *device, const struct op_dropout_add *op);
void half_dropout_backward(struct device *device, const struct op_dropout_backward *op);
void half_column_sum(struct device *device, const struct op_column_sum *op);

// See own_bytes in ops.h: the fp32 copies of an operation's tensors of 16 bits.
size_t half_own_bytes(const struct device *device, enum op_kind kind, const void *op);

#endif
