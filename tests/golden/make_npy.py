"""Writes npy.txt: the bytes of numpy.save for small integer arrays.

Run: python tests/golden/make_npy.py > tests/golden/npy.txt  (needs numpy)
"""

import io

import numpy

print("# dtype rows columns (0: one dimension), then the file in hexadecimal; entry i is 3 i. Written by make_npy.py.")
for dtype in ["int32", "uint32", "int64"]:
    for rows, columns in [(0, 0), (1, 0), (7, 0), (4, 2), (123456, 0), (0, 2)]:
        shape = (rows, columns) if columns else (rows,)
        array = (numpy.arange(rows * max(columns, 1)) * 3).astype(dtype).reshape(shape)
        out = io.BytesIO()
        numpy.save(out, array)
        text = out.getvalue()
        shown = text if len(text) < 400 else text[:160]
        print(dtype, rows, columns, len(text), shown.hex())
