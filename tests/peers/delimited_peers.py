#!/usr/bin/env python3
"""Random CSV and TSV beside Python's csv module with strict=True, row by row up to the first row that it refuses; ours must
have a bad row there. Needs nothing but Python.

    ROWS=build/release/tests/peers_rows python3 tests/peers/delimited_peers.py
"""
import csv
import io
import json
import os
import random
import subprocess
import sys
import tempfile

ROWS = os.environ.get("ROWS", os.path.join(os.path.dirname(os.environ.get("BEVATRON", "build/release/bevatron")),
                                           "tests/peers_rows"))
PIECES = ['"', '"', '""', "S", "S", "S", "\n", "\r\n", "\r", " ", "cat", "über"]
random.seed(7)


def theirs(text, separator):
    rows = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True):
            rows.append(row)
    except csv.Error:
        rows.append(None)
    return rows[1:]


def ours(folder, text, ending):
    table, out = os.path.join(folder, "t" + ending), os.path.join(folder, "out")
    with open(table, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    subprocess.run([ROWS, "1", out, table, "a", "text"], check=True)
    with open(out, "rb") as lines:
        return lines.read().decode().split("\n")[:-1]


def agrees(row, line):
    """None: the rows after a refused one are not compared."""
    if row is None or len(row) not in (0, 2):
        return line.startswith("!")
    return line == "" if not row else json.loads(line) == {"a": row[0], "text": row[1]}


def field(separator):
    if random.random() < 0.6:
        text = "".join(random.choice(['""', separator, "\n", "\r\n", "cat", " "]) for _ in range(random.randrange(5)))
        return f'"{text}"'
    return random.choice(["", "cat", 'a"b', "über", " "])


def main():
    compared = different = 0
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(int(os.environ.get("TURNS", "1500"))):
            ending, separator = random.choice([(".csv", ","), (".tsv", "\t")])
            end = random.choice(["\n", "\r\n", "\r"])
            if turn % 2:
                body = "".join(random.choice(PIECES).replace("S", separator) for _ in range(random.randrange(60)))
            else:
                body = end.join(separator.join(field(separator) for _ in range(2)) for _ in range(random.randrange(9)))
            text = separator.join(["a", "text"]) + end + body
            rows, lines = theirs(text, separator), ours(folder, text, ending)
            refused = rows and rows[-1] is None
            same = len(lines) >= len(rows) if refused else len(lines) == len(rows)
            same = same and all(agrees(row, line) for row, line in zip(rows, lines))
            compared += len(rows)
            different += not same
            if not same:
                print(f"  {text!r}: {lines}, expected {rows}")
    print(f"  delimited: {compared} rows compared, {different} files different")
    return 1 if different or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
