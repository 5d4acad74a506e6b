"""Writes gpt_samples.txt: document, sample and shuffle index of GPT datasets, computed with NumPy in the simplest way.

Run: python tests/golden/make_gpt_samples.py > tests/golden/gpt_samples.txt  (needs numpy)

Token j of the whole .bin file is (7919 j + 13) mod 50000, so that every sample can be checked by its tokens.
"""

import hashlib
import re

import numpy


def split_range(text, which, count):
    weights = [float(w) for w in re.findall(r"[.0-9]+", text)]
    weights += [0.0] * (3 - len(weights))
    total = numpy.sum(numpy.array(weights))
    weights = (numpy.array(weights) / total).tolist()
    low = 0.0
    for i in range(which):
        low = low + weights[i]
    high = low + weights[which]
    return int(round(low * float(count))), int(round(high * float(count)))


def one_stretch(rng, ids, epochs):
    documents = numpy.concatenate([ids] * epochs)
    rng.shuffle(documents)
    return documents


def build(lengths, ids, s, n, seed):
    tokens = int(sum(int(lengths[i]) for i in ids))
    epochs = 1
    while n is not None and epochs * tokens < n * s + 1:
        epochs += 1
    separate = False
    before = 0
    if epochs > 1:
        before = ((epochs - 1) * tokens - 1) // s
        separate = n - before < int(0.80 * ((tokens - 1) // s))
    rng = numpy.random.RandomState(seed)
    if separate:
        documents = numpy.concatenate([one_stretch(rng, ids, epochs - 1), one_stretch(rng, ids, 1)])
    else:
        documents = one_stretch(rng, ids, epochs)

    # The stream of all tokens as (position in documents, offset); sample k takes entries k s … (k + 1) s. The first row
    # is (0, 0) by definition, even if the first document is empty.
    positions = numpy.repeat(numpy.arange(len(documents)), [int(lengths[d]) for d in documents])
    offsets = numpy.concatenate([numpy.arange(int(lengths[d])) for d in documents])
    total = (epochs * tokens - 1) // s
    samples = numpy.stack([positions[: total * s + 1 : s], offsets[: total * s + 1 : s]], axis=1).astype(numpy.int32)
    samples[0] = 0, 0

    order = numpy.arange(total, dtype=numpy.uint32)
    if separate:
        first, second = order[:before].copy(), order[before:].copy()
        rng.shuffle(first)
        rng.shuffle(second)
        order = numpy.concatenate([first, second])
    else:
        rng.shuffle(order)
    return epochs, separate, documents.astype(numpy.int32), samples, order, (positions, offsets)


def md5(array):
    return hashlib.md5(numpy.ascontiguousarray(array).tobytes()).hexdigest()


def words(array):
    return " ".join(str(int(x)) for x in numpy.asarray(array).reshape(-1))


def case(lengths, split, which, s, n, seed):
    lengths = numpy.asarray(lengths)
    begin, end = split_range(split, which, len(lengths)) if split else (0, len(lengths))
    ids = numpy.arange(begin, end, dtype=numpy.int32)
    epochs, separate, documents, samples, order, (positions, offsets) = build(lengths, ids, s, n, seed)
    starts = numpy.concatenate([[0], numpy.cumsum(lengths)])
    small = len(documents) <= 200 and len(order) <= 200
    print("case")
    print("lengths", words(lengths))
    if split:
        print("split", split)
    print("options", which, s, 0 if n is None else n, seed)
    print("range", begin, end)
    print("shape", epochs, int(separate), len(order))
    if small:
        print("documents", words(documents))
        print("samples", words(samples))
        print("order", words(order))
    print("md5", md5(documents), md5(samples), md5(order))
    for i in sorted({0, 1, len(order) // 2, len(order) - 1} & set(range(len(order)))):
        k = int(order[i])
        stream = slice(k * s, k * s + s + 1)
        where = starts[documents[positions[stream]]] + offsets[stream]
        print("tokens", i, words((7919 * where + 13) % 50000) if s <= 64 else "md5 " + md5(
            ((7919 * where + 13) % 50000).astype(numpy.int32)))
    print("end")


def splits():
    texts = ["969, 30, 1", "949,50,1", "100,0,0", "1,1,1", "98,2", "1", "99.5 .25 0.25", "0,0,5", "80/10/10", "0.1,0.2,0.7"]
    for text in texts:
        for count in [0, 1, 2, 3, 5, 7, 10, 25, 50, 999, 1000, 1005, 12345, 2147483647]:
            bounds = [x for which in range(3) for x in split_range(text, which, count)]
            print("split_range", count, words(bounds), text)


def main():
    print("# Written by make_gpt_samples.py with NumPy; do not edit.")
    splits()
    eight = [5, 9, 3, 12, 7, 4, 10, 6]
    for n in [None, 10, 8, 6, 7, 1, 13, 14, 50, 100]:
        case(eight, None, 0, 8, n, 1234)
    case(eight, "1,1,1", 0, 4, 9, 1234)
    case(eight, "1,1,1", 1, 4, 9, 1234)
    case(eight, "1,1,1", 2, 4, 9, 1234)
    case(eight, "5,3", 1, 1, 40, 7)
    case([1], None, 0, 3, 4, 0)
    case([2, 0, 0, 1, 0, 3], None, 0, 2, 5, 42)
    case([3, 1, 2], None, 0, 100, 3, 1234)
    rng = numpy.random.RandomState(5)
    many = rng.randint(0, 300, size=1500)
    for n in [None, 2000, 3000, 12345]:
        case(many, "969, 30, 1", 0, 128, n, 1234)
        case(many, "969, 30, 1", 1, 128, n, 4294967295)
    case(many, "969, 30, 1", 2, 64, 33, 1234)


main()
