// Matmuls of small blocks: all of the inner dimension at once, tile by tile through the micro-kernel.
#include "ops/cpu/block.h"
#include "ops/cpu/small.h"
#include "base/error.h"
#include <cblas.h>

void block_put(struct block_panels *panels, const struct block_operand *block, const struct cpu_kernel *kernel) {
    panels->block = *block;
    panels->kernel = kernel;
    panels->packed = NULL;
}

static void pack(struct block_panels *panels, const struct panel_shape *shape) {
    const struct block_operand *block = &panels->block;
    struct pack_part whole = {{0, block->lines}, {0, block->steps}, pack_panel_size(shape, block->steps)};
    int64_t size = cpu_pieces(block->lines, shape->width) * whole.distance;
    if (panels->packed == shape)
        return;
    CHECK(size + KERNEL_SLACK_BYTES / (int64_t)sizeof(float) <=
          (int64_t)(sizeof panels->values / sizeof panels->values[0]));
    pack_panels(panels->values, shape, &block->source, &whole);
    for (int64_t i = 0; block->factor != 1 && i < size; i++)
        panels->values[i] *= block->factor;
    panels->packed = shape;
}

static void multiply_blas(const struct block_matmul *matmul) {
    const struct block_operand *a = &matmul->a->block, *b = &matmul->b->block;
    cblas_sgemm(CblasRowMajor, a->source.lines_are_across ? CblasTrans : CblasNoTrans,
                b->source.lines_are_across ? CblasNoTrans : CblasTrans, (blasint)a->lines, (blasint)matmul->columns,
                (blasint)a->steps, a->factor * b->factor, a->source.data, (blasint)a->source.stride, b->source.data,
                (blasint)b->source.stride, matmul->adds ? 1.0f : 0.0f, matmul->d, (blasint)matmul->stride);
}

static struct small_operand small_operand(const struct block_operand *block) {
    const struct pack_source *source = &block->source;
    return (struct small_operand){source->data, source->lines_are_across ? 1 : source->stride,
                                  source->lines_are_across ? source->stride : 1};
}

static void multiply_small(const struct block_matmul *matmul) {
    const struct block_operand *a = &matmul->a->block, *b = &matmul->b->block;
    small_multiply(&(struct small_matmul){.a = small_operand(a),
                                          .b = small_operand(b),
                                          .rows = a->lines,
                                          .columns = matmul->columns,
                                          .inner = a->steps,
                                          .factor = (double)a->factor * (double)b->factor,
                                          .addend_factor = 1,
                                          .addend = matmul->adds ? matmul->d : NULL,
                                          .addend_stride = matmul->stride,
                                          .d = matmul->d,
                                          .stride = matmul->stride});
}

void block_multiply(const struct block_matmul *matmul) {
    const struct cpu_kernel *kernel = matmul->a->kernel;
    const struct block_operand *a = &matmul->a->block, *b = &matmul->b->block;
    CHECK(kernel == matmul->b->kernel && a->steps <= b->steps && matmul->columns <= b->lines);
    if (small_is(a->lines, matmul->columns, a->steps)) {
        multiply_small(matmul);
        return;
    }
    if (!kernel) {
        multiply_blas(matmul);
        return;
    }
    pack(matmul->a, &kernel->a);
    pack(matmul->b, &kernel->b);
    int64_t inner = cpu_pieces(a->steps, kernel->a.unit) * kernel->a.unit;
    int64_t b_steps = cpu_pieces(b->steps, kernel->b.unit) * kernel->b.unit;
    struct kernel_tile tile = {
        .inner = inner, .stride = matmul->stride, .addend_stride = matmul->adds ? matmul->stride : 0};
    for (int64_t j = 0; j < matmul->columns; j += kernel->b.width) {
        int64_t columns = matmul->columns - j < kernel->b.width ? matmul->columns - j : kernel->b.width;
        for (int64_t i = 0; i < a->lines; i += kernel->a.width) {
            int64_t rows = a->lines - i < kernel->a.width ? a->lines - i : kernel->a.width;
            tile.a = matmul->a->values + i * inner;
            tile.b = matmul->b->values + j * b_steps;
            tile.d = matmul->d + i * matmul->stride + j;
            tile.addend = matmul->adds ? tile.d : kernel_zeros;
            if (rows == kernel->a.width && columns == kernel->b.width)
                kernel->multiply(&tile);
            else
                kernel_multiply_part(kernel, &tile, &(struct kernel_part){rows, columns, 1, 1});
        }
    }
}
