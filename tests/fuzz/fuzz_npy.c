// layer: data
// A .npy file from hostile bytes: the data of an array that parses must be exactly the rest of the input.
#include "fuzz.h"

#include "data/sample/index_cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct npy npy;
    if (npy_parse(&npy, data, size, "fuzz") < 0)
        return 0;
    size_t bytes = (size_t)npy.shape.rows * (size_t)npy.shape.columns * npy_item_bytes(npy.shape.dtype);
    if (npy.data < data || npy.data + bytes != data + size)
        abort();
    unsigned char sum = 0;
    for (size_t i = 0; i < bytes; i++)
        sum = (unsigned char)(sum + npy.data[i]);
    volatile unsigned char sink = sum;
    (void)sink;
    return 0;
}
