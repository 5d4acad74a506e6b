// Products of small blocks: all of the inner dimension at once, tile by tile through the micro-kernel.
#include "ops/cpu/block.h"
#include "base/error.h"
#include <cblas.h>

static void pack(struct block_panels *panels, const struct block *block, int64_t width) {
    int64_t size = cpu_pieces(block->lines, width) * pack_panel_size(width, block->steps);
    CHECK(size + KERNEL_SLACK_BYTES / (int64_t)sizeof(float) <=
          (int64_t)(sizeof panels->values / sizeof panels->values[0]));
    pack_panels(panels->values, &block->source, (struct cpu_range){0, block->lines},
                (struct cpu_range){0, block->steps}, width);
    for (int64_t i = 0; block->factor != 1 && i < size; i++)
        panels->values[i] *= block->factor;
}

void block_pack_left(struct block_panels *panels, const struct block *block) {
    const struct cpu_kernel *kernel = cpu_kernel(DTYPE_F32);
    panels->block = *block;
    if (kernel)
        pack(panels, block, kernel->rows);
}

void block_pack_right(struct block_panels *panels, const struct block *block) {
    const struct cpu_kernel *kernel = cpu_kernel(DTYPE_F32);
    panels->block = *block;
    if (kernel)
        pack(panels, block, kernel->columns);
}

static void multiply_blas(const struct block_product *product) {
    const struct block *a = &product->a->block, *b = &product->b->block;
    cblas_sgemm(CblasRowMajor, a->source.lines_are_across ? CblasTrans : CblasNoTrans,
                b->source.lines_are_across ? CblasNoTrans : CblasTrans, (blasint)a->lines, (blasint)product->columns,
                (blasint)a->steps, a->factor * b->factor, a->source.data, (blasint)a->source.stride, b->source.data,
                (blasint)b->source.stride, product->adds ? 1.0f : 0.0f, product->d, (blasint)product->stride);
}

void block_multiply(const struct block_product *product) {
    const struct cpu_kernel *kernel = cpu_kernel(DTYPE_F32);
    const struct block *a = &product->a->block, *b = &product->b->block;
    CHECK(a->steps <= b->steps && product->columns <= b->lines);
    if (!kernel) {
        multiply_blas(product);
        return;
    }
    struct kernel_tile tile = {.inner = pack_panel_size(1, a->steps),
                               .stride = product->stride,
                               .addend_stride = product->adds ? product->stride : 0};
    for (int64_t j = 0; j < product->columns; j += kernel->columns) {
        int64_t columns = product->columns - j < kernel->columns ? product->columns - j : kernel->columns;
        for (int64_t i = 0; i < a->lines; i += kernel->rows) {
            int64_t rows = a->lines - i < kernel->rows ? a->lines - i : kernel->rows;
            tile.a = product->a->values + i * tile.inner;
            tile.b = product->b->values + j * pack_panel_size(1, b->steps);
            tile.d = product->d + i * product->stride + j;
            tile.addend = product->adds ? tile.d : kernel_zeros;
            if (rows == kernel->rows && columns == kernel->columns)
                kernel->multiply(&tile);
            else
                kernel_multiply_part(kernel, &tile, &(struct kernel_part){rows, columns, 1, 1});
        }
    }
}
