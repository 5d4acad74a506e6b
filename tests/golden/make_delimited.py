#!/usr/bin/env python3
"""Writes awkward.csv, awkward.tsv and awkward.json of tests/golden/tables, and awkward.jsonl, what Python's csv reads from both tables.

    python3 tests/golden/make_delimited.py
"""
import csv
import json
import os
import random

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tables")
PIECES = ['"', '""', ",", "\t", "\n", "\r\n", "\r", " ", "cat", "über", "日本", "\\", "'", "!", "{", "]", ""]
random.seed(3)


def awkward():
    return "".join(random.choice(PIECES) for _ in range(random.randrange(9)))


rows = [{"title": awkward(), "number, or none": str(i), "text": awkward()} for i in range(120)]
rows.insert(0, {"title": "", "number, or none": "", "text": ""})


def write(name, encoding, **dialect):
    path = os.path.join(folder, name)
    with open(path, "w", encoding=encoding, newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), **dialect)
        writer.writeheader()
        writer.writerows(rows)
    with open(path, encoding=encoding, newline="") as table:
        return list(csv.DictReader(table, delimiter=dialect.get("delimiter", ","), strict=True))


read = write("awkward.csv", "utf-8-sig")
assert read == write("awkward.tsv", "utf-8", delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_ALL) == rows
lines = [json.dumps({key: row[key] for key in ("text", "title")}, ensure_ascii=False, separators=(",", ":")) for row in read]
with open(os.path.join(folder, "awkward.jsonl"), "w", encoding="utf-8") as out:
    out.write("\n".join(lines) + "\n")
with open(os.path.join(folder, "awkward.json"), "w", encoding="utf-8") as out:
    out.write("[" + ",\n ".join(lines) + "]\n")
