#!/usr/bin/env python3
"""Text columns of Parquet and Arrow files beside pyarrow's reading, value by value, with one thread and with three: files
that pyarrow, Polars and DuckDB write in every encoding, codec, version and nesting, and Apache's test files where they are
($BEVATRON_SHARED/data/parquet-testing, arrow-testing). With BENCH=TEXT: CPU time of documents cut from that file, on one thread, beside pyarrow.

    ROWS=build/release/tests/peers_rows python tests/peers/table_peers.py

(pyarrow, polars, duckdb; `ninja -C build/release peers_rows`)"""
import glob
import itertools
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = os.environ.get("ROWS", os.path.join(os.path.dirname(os.environ.get("BEVATRON", "build/release/bevatron")),
                                           "tests/peers_rows"))
SHARED = os.path.join(os.environ.get("BEVATRON_SHARED", "../shared"), "data")
# A damaged checksum, which pyarrow does not look at.
REFUSED = {"rle-dict-uncompressed-corrupt-checksum.parquet": "the checksum of a page is wrong"}
random.seed(5)
counts = {"equal": 0, "refused by both": 0, "different": 0}


def is_arrow(path):
    return not path.endswith(("parquet", "encrypted"))


def read_arrow(path):
    with open(path, "rb") as file:
        is_file = file.read(6) == b"ARROW1"
    return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(pa.memory_map(path)).read_all()


TEXT = {pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()}


def arrow_leaves(kind, is_list=False):
    """The paths of the text in a type, and how to take it from a value."""
    if kind in TEXT or pa.types.is_dictionary(kind) and kind.value_type in TEXT:
        yield "", is_list, lambda value: value
    elif pa.types.is_struct(kind):
        for field in kind:
            for path, inner, take in arrow_leaves(field.type, is_list):
                yield f".{field.name}{path}", inner, lambda v, n=field.name, t=take: None if v is None else t(v[n])
    elif pa.types.is_map(kind):
        for i, field in enumerate((kind.key_field, kind.item_field)):
            for path, inner, take in arrow_leaves(field.type, True):
                yield (f".entries.{field.name}{path}", inner,
                       lambda v, i=i, t=take: None if v is None else [t(pair[i]) for pair in v])
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        for path, inner, take in arrow_leaves(kind.value_type, True):
            yield f".{kind.value_field.name}{path}", inner, lambda v, t=take: None if v is None else [t(x) for x in v]


def text_leaves(path):
    if is_arrow(path):
        for field in read_arrow(path).schema:
            for inner, is_list, _ in arrow_leaves(field.type):
                yield field.name + inner, is_list
        return
    file = pq.ParquetFile(path)
    for i in range(len(file.schema)):
        column = file.schema.column(i)
        if column.physical_type == "BYTE_ARRAY" and column.converted_type not in ("DECIMAL", "BSON"):
            if "DECIMAL" not in str(column.logical_type).upper():
                yield column.path, column.max_repetition_level > 0


def strings(value):
    if isinstance(value, (list, tuple)):
        return [s for item in value for s in strings(item)]
    if isinstance(value, dict):
        return strings(list(value.values()))
    return [] if value is None else [value if isinstance(value, bytes) else value.encode()]


def theirs(path, leaf, is_list):
    if is_arrow(path):
        table = read_arrow(path)
        values = next([take(value) for value in table.column(field.name).to_pylist()] for field in table.schema
                      for inner, _, take in arrow_leaves(field.type) if field.name + inner == leaf)
    else:
        values = pq.ParquetFile(path).read(columns=[leaf], use_threads=False).column(0).to_pylist()
    return [strings(v) if is_list else strings(v) or [b""] for v in values]


def ours(path, leaf, threads):
    with tempfile.NamedTemporaryFile() as out:
        done = subprocess.run([ROWS, str(threads), out.name, path, leaf], capture_output=True)
        if done.returncode:
            return done.stderr.decode()
        rows = []
        for line in open(out.name, "rb").read().split(b"\n")[:-1]:
            value, = json.loads(line.decode("utf-8", "surrogateescape")).values()
            rows.append([s.encode("utf-8", "surrogateescape") for s in (value if isinstance(value, list) else [value])])
        return rows


def compare(path):
    name = os.path.basename(path)
    try:
        leaves = list(text_leaves(path))
    except Exception as error:  # pyarrow has many kinds of them
        refused = isinstance(ours(path, "text", 1), str)
        counts["refused by both" if refused else "different"] += 1
        if not refused:
            print(f"  {name}: pyarrow says {error}")
        return
    for (leaf, is_list), threads in itertools.product(leaves, (1, 3)):
        try:
            expected = theirs(path, leaf, is_list)
        except Exception as error:
            expected = str(error)
        got = ours(path, leaf, threads)
        both = isinstance(expected, str) and isinstance(got, str)
        equal = got == expected or (isinstance(got, str) and REFUSED.get(name, "?") in got)
        counts["equal" if equal else "refused by both" if both else "different"] += 1
        if not equal and not both:
            print(f"  {name}, {leaf}, {threads} threads: {str(got)[:200]!r}, expected {str(expected)[:200]!r}")


WORDS = ["cat", "dog", "the", "Übergröße", "日本語", "a\nb", '"q"', "\\", "\t", "x" * 50, "\0", "😀"]


def text():
    return " ".join(random.choice(WORDS) for _ in range(random.choice([0, 1, 3, 20, 200])))


def maybe(make, odds=0.1):
    return None if random.random() < odds else make()


def make_table(count):
    string = pa.string()
    turn = pa.struct([("role", string), ("content", string)])

    def several(make, most):
        return [maybe(make) for _ in range(random.randrange(most))]

    def column(make, kind):
        return pa.array([maybe(make) for _ in range(count)], kind)

    table = pa.table({
        "text": column(text, string),
        "language": column(lambda: random.choice(["en", "de"]), string),
        "large": column(text, pa.large_string()),
        "number": pa.array(range(count)),
        "tags": column(lambda: several(text, 4), pa.list_(string)),
        "deep": column(lambda: several(lambda: several(text, 3), 3), pa.list_(pa.list_(string))),
        "messages": column(lambda: several(lambda: {"role": "user", "content": maybe(text)}, 4), pa.list_(turn)),
        "meta": column(lambda: {"url": text(), "in": {"t": maybe(text, 0.3)}},
                       pa.struct([("url", string), ("in", pa.struct([("t", string)]))])),
        "map": column(lambda: [(str(i), text()) for i in range(random.randrange(4))], pa.map_(string, string)),
    })
    always = pa.array([text() for _ in range(count)])
    return table.append_column(pa.field("always", string, nullable=False), always)


LEAVES = ["text", "language", "large", "always", "tags.list.element", "deep.list.element.list.element",
          "messages.list.element.role", "messages.list.element.content", "meta.url", "meta.in.t", "map.key_value.key",
          "map.key_value.value"]


def write_and_compare(path, count):
    rows = make_table(count)
    encodings = [None, "PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]
    for codec, encoding, version in itertools.product(["none", "snappy", "gzip", "brotli", "zstd", "lz4"], encodings,
                                                      ["1.0", "2.0"]):
        packing = {"use_dictionary": encoding is None}
        if encoding:
            packing["column_encoding"] = {leaf: encoding for leaf in LEAVES}
        pq.write_table(rows, path, compression=codec, data_page_version=version, write_page_checksum=True,
                       write_page_index=True, data_page_size=random.choice([500, 20000, 1 << 20]),
                       row_group_size=random.choice([100, 1000, 5000]),
                       dictionary_pagesize_limit=random.choice([1000, 1 << 20]), **packing)
        compare(path)
    frame = polars.from_arrow(rows.drop(["map"]))
    for codec in ["uncompressed", "snappy", "gzip", "brotli", "zstd", "lz4"]:
        frame.write_parquet(path, compression=codec, row_group_size=700, data_page_size=5000)
        compare(path)
    for codec, version in itertools.product(["uncompressed", "snappy", "gzip", "brotli", "zstd", "lz4_raw"], ["V1", "V2"]):
        duckdb.sql(f"COPY rows TO '{path}' (FORMAT parquet, COMPRESSION {codec}, PARQUET_VERSION {version}, "
                   "ROW_GROUP_SIZE 2048)")
        compare(path)


def write_arrow_and_compare(path, count):
    rows = make_table(count)
    for name in ("text", "language"):
        rows = rows.append_column(f"{name} by index", rows.column(name).combine_chunks().dictionary_encode())
        rows = rows.append_column(f"{name} as view", rows.column(name).cast(pa.string_view()))
    wide = pa.array([maybe(lambda: [text(), None]) for _ in range(count)], pa.list_(pa.string(), 2))
    rows = rows.append_column("fixed", wide).append_column("big lists", rows.column("tags").cast(pa.large_list(pa.string())))
    for codec, rows_of_batch, writer in itertools.product([None, "lz4", "zstd"], [100, 5000], [pa.ipc.new_file, pa.ipc.new_stream]):
        options = pa.ipc.IpcWriteOptions(compression=codec, emit_dictionary_deltas=True)
        with writer(path, rows.schema, options=options) as out:
            out.write_table(rows, rows_of_batch)
        compare(path)
    with pa.ipc.new_stream(path, pa.schema([("t", pa.dictionary(pa.int8(), pa.string()))])) as out:
        for begin in (0, 5, 9):  # a stream may replace its dictionaries
            out.write_batch(pa.record_batch([pa.array([f"{begin + i % 3}" for i in range(9)]).dictionary_encode().cast(
                pa.dictionary(pa.int8(), pa.string()))], names=["t"]))
    compare(path)
    frame = polars.from_arrow(make_table(count).drop(["map"]))
    for codec, stream in itertools.product(["uncompressed", "lz4", "zstd"], [False, True]):
        (frame.write_ipc_stream if stream else frame.write_ipc)(path, compression=codec)
        compare(path)


def children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def bench(path):
    """CPU seconds, the start of our program included."""
    pa.set_cpu_count(1)
    words = open(os.environ["BENCH"], encoding="utf-8").read()
    docs, size = [], 0
    while size < 200_000_000:
        begin = random.randrange(len(words))
        docs.append(words[begin:begin + random.choice([500, 1500, 3000, 8000])])
        size += len(docs[-1].encode())
    for codec in ["none", "snappy", "zstd"]:
        pq.write_table(pa.table({"text": docs}), path, compression=codec, use_dictionary=False, row_group_size=20000)
        seconds = [], []
        for _ in range(4):
            begun = time.process_time()
            for _ in pq.ParquetFile(path).iter_batches(1000, columns=["text"], use_threads=False):
                pass
            seconds[0].append(time.process_time() - begun)
            begun = children()
            subprocess.run([ROWS, "1", "0", path, "text"], capture_output=True, check=True)
            seconds[1].append(children() - begun)
        least = min(seconds[0]), min(seconds[1])
        print(f"  {codec}: pyarrow {least[0]:.4f} s, ours {least[1]:.4f} s: {least[0] / least[1]:.2f} of its speed")


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "t.parquet")
        if os.environ.get("BENCH"):
            bench(path)
            return 0
        write_and_compare(path, 1500)
        write_arrow_and_compare(os.path.join(folder, "t.arrow"), 1500)
    for pattern in ("parquet-testing/*.parquet*", "arrow-testing/*.arrow_file", "arrow-testing/*.stream"):
        for path in sorted(glob.glob(os.path.join(SHARED, pattern))):
            compare(path)
    print("  columns:", ", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["different"] or not counts["equal"] else 0


if __name__ == "__main__":
    sys.exit(main())
