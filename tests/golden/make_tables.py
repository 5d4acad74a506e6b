#!/usr/bin/env python3
"""Writes tests/golden/tables with pyarrow: small tables in every encoding, codec and kind of file, and rows.jsonl, what
pyarrow reads from them. A null is an empty string; a list holds the strings in it, without nulls, however deep they lie.

    python3 -m venv v && v/bin/pip install pyarrow==26.0.1 && v/bin/python tests/golden/make_tables.py
"""
import gzip
import io
import json
import os
import tarfile

import pyarrow as pa
import pyarrow.parquet as pq

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tables")
ROWS = 50


def text(i):
    return None if i % 7 == 3 else " ".join(["über", "a\nb", '"q"', "\\", "日本", "cat"][j * i % 6] for j in range(i % 9))


def turns(i):
    if i % 5 == 0:
        return None if i % 2 else []
    return [None if (i + j) % 6 == 5 else {"role": "user", "content": text(i + j)} for j in range(i % 4)]


columns = {
    "text": pa.array([text(i) for i in range(ROWS)]),
    "language": pa.array([["en", "de", None][i % 3] for i in range(ROWS)]),
    "large": pa.array([text(i + 1) for i in range(ROWS)], pa.large_string()),
    "number": pa.array(range(ROWS)),
    "meta": pa.array([{"url": f"https://example.org/{i // 3}"} if i % 4 else None for i in range(ROWS)],
                     pa.struct([("url", pa.string())])),
    "tags": pa.array([[text(j) for j in range(i % 3)] for i in range(ROWS)], pa.list_(pa.string())),
    "messages": pa.array([turns(i) for i in range(ROWS)],
                         pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
}
table = pa.table(columns)
leaves = {"text": "text", "language": "language", "large": "large", "meta.url": "meta.url", "tags": "tags.list.element",
          "messages.content": "messages.list.element.content"}


def strings(value):
    if isinstance(value, list):
        return [s for item in value for s in strings(item)]
    if isinstance(value, dict):
        return [s for item in value.values() for s in strings(item)]
    return [] if value is None else [value]


def write_expected(path):
    read = {name: pq.ParquetFile(path).read(columns=[leaf]).column(0).to_pylist() for name, leaf in leaves.items()}
    with open(os.path.join(folder, "rows.jsonl"), "w", encoding="utf-8") as out:
        for i in range(ROWS):
            row = {name: strings(values[i]) if name in ("tags", "messages.content") else "".join(strings(values[i]))
                   for name, values in read.items()}
            out.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


os.makedirs(folder, exist_ok=True)
encodings = {"dictionary": None, "plain": "PLAIN", "lengths": "DELTA_LENGTH_BYTE_ARRAY", "prefixes": "DELTA_BYTE_ARRAY"}
codecs = {"dictionary": ["snappy", "zstd"], "plain": ["none", "lz4"], "lengths": ["gzip"], "prefixes": ["brotli"]}
for name, encoding in encodings.items():
    for codec in codecs[name]:
        for version in ("1.0", "2.0"):
            path = os.path.join(folder, f"{name}_{codec}_v{version[0]}.parquet")
            packing = {"use_dictionary": True} if encoding is None else {
                "use_dictionary": False, "column_encoding": {leaf: encoding for leaf in leaves.values()}}
            pq.write_table(table, path, compression=codec, data_page_version=version, data_page_size=200,
                           write_batch_size=8, row_group_size=30, write_page_checksum=True, write_statistics=False,
                           store_schema=False, dictionary_pagesize_limit=150, **packing)
# The same rows as Arrow, where text may also be in dictionaries, views and lists with 64-bit offsets.
arrow = table.set_column(1, "language", table["language"].combine_chunks().dictionary_encode())
arrow = arrow.set_column(0, "text", table["text"].cast(pa.string_view()))
arrow = arrow.set_column(5, "tags", table["tags"].cast(pa.large_list(pa.large_string())))
# The type of the first column ends the footer: one of two bytes, with nothing after it.
arrow = arrow.add_column(0, "score", pa.array([i / 2 for i in range(len(table))], pa.float32()))
for name, codec, writer in [("stream", None, pa.ipc.new_stream), ("lz4", "lz4", pa.ipc.new_file), ("zstd", "zstd", pa.ipc.new_file)]:
    with writer(os.path.join(folder, f"{name}.arrow"), arrow.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as out:
        out.write_table(arrow, 30)
write_expected(os.path.join(folder, "plain_none_v1.parquet"))
# For tests/cli/test_remote.sh.
pq.write_table(pa.table({"text": [f"{i} {i * 7 % 100}" for i in range(90)]}), os.path.join(folder, "numbers.parquet"),
               row_group_size=30)

# Archives by Python's tarfile with names and sizes of both dialects, and records as in Common Crawl's WET files.
members = [("a.jsonl", '{"text":"one"}\n{"text":"two"}\n'), ("b/" + "long" * 40 + "/ü.txt", 'a "text"\nof lines\n'),
           ("c/empty.txt", ""), ("c/.hidden.txt", "no"), ("c/picture.png", "no"), ("c/unended.json", '{"text":"three"}')]
for name, dialect in (("gnu", tarfile.GNU_FORMAT), ("pax", tarfile.PAX_FORMAT), ("old", tarfile.USTAR_FORMAT)):
    with tarfile.open(os.path.join(folder, f"{name}.tar"), "w", format=dialect) as out:
        for path, content in members:
            member = tarfile.TarInfo(path if name != "old" else path.replace("longlonglong", ""))
            member.size = len(content.encode())
            out.addfile(member, io.BytesIO(content.encode()))
with open(os.path.join(folder, "texts.wet.gz"), "wb") as out:
    for kind, url, content in (("warcinfo", "", "software: none\r\n"), ("conversion", "https://a.org/", "WARC/1.0 is\r\n\r\na ü text\n"),
                               ("metadata", "https://a.org/", "x: y"), ("conversion", "https://b.org/?q=1:2", "")):
        head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nwarc-target-uri: {url}\r\nContent-Length: {len(content.encode())}\r\n\r\n"
        out.write(gzip.compress((head + content + "\r\n\r\n").encode(), mtime=0))
