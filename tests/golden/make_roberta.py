"""Writes roberta.txt: blocks, their order and their masks as fairseq (up to 0.12) makes them for RoBERTa, computed
with NumPy in the simplest way.

Run: python tests/golden/make_roberta.py > tests/golden/roberta.txt  (needs numpy; Python 3.8 or later)

The corpus: sentence i has LENGTHS[i] tokens, the last of them </s> (2); the others are 4 + (7907 j + 13) mod 196, j
counted over the whole file. Ids: <s> 0, <pad> 1, </s> 2, <unk> 3, words 4 to 199, <mask> 200. Ids with id mod 3 = 0,
and those below 4, begin words.

Lines: "seed SEED EPOCH INDEX VALUE"; "blocks MODE SIZE COUNT LENGTH…"; "order SEED MODE SIZE BATCH EPOCH BLOCK…";
"masked SEED EPOCH MODE SIZE WHOLE MASK LEAVE RANDOM BLOCK TOKEN… LABEL…" (labels without loss are 0).
"""

import numpy

VOCABULARY, SPECIALS, MASK, BOS = 201, 4, 200, 0


def lengths():
    state = numpy.random.RandomState(3)
    out = [int(n) for n in state.randint(1, 30, size=120)]
    for i in range(0, 120, 9):
        out[i] = 1
    out[40], out[41] = 70, 64
    return out


def corpus():
    sentences, j = [], 0
    for length in lengths():
        sentences.append([4 + (7907 * (j + k) + 13) % 196 for k in range(length - 1)] + [2])
        j += length
    return sentences


def blocks(mode, size):
    sentences = corpus()
    if mode == "none":
        flat = [t for s in sentences for t in s]
        return [flat[i : i + size] for i in range(0, len(flat), size)]
    if mode == "eos":
        return sentences
    out, now = [], []
    for s in sentences:
        border = mode == "complete_doc" and len(s) == 1
        if border or (now and len(now) + len(s) > size):
            out.append(now)
            now = []
        if not border:
            now = now + s
    out.append(now)
    return [b for b in out if len(b) > (1 if mode == "complete_doc" else 0)]


def seed_of(seed, epoch, index):
    return int(hash((seed, epoch, index)) % 1e6)


def order(seed, mode, size, batch, epoch):
    sizes = numpy.array([len(b) + 1 for b in blocks(mode, size)])
    draw = numpy.random.RandomState(seed).permutation(len(sizes))
    indices = [int(i) for i in numpy.lexsort([draw, sizes]) if sizes[i] <= size + 1]
    batches = [indices[i : i + batch] for i in range(0, len(indices), batch)]
    numpy.random.RandomState(seed + epoch).shuffle(batches)
    return [i for b in batches for i in b]


def masked(seed, epoch, index, tokens, whole, p, leave, replace):
    rng = numpy.random.RandomState(seed_of(seed, epoch, index))
    tokens = numpy.array(tokens)
    starts = [i for i, t in enumerate(tokens) if not whole or t < 4 or t % 3 == 0]
    spans = numpy.diff(starts + [len(tokens)])
    n = len(starts)
    covered = numpy.full(n, False)
    count = int(p * n / 1.0 + rng.rand())
    covered[rng.choice(n, count, replace=False)] = True
    labels = numpy.where(numpy.repeat(covered, spans), tokens, 0)
    keep = swap = numpy.full(n, False)
    if leave + replace > 0:
        spared = covered & (rng.rand(n) < leave + replace)
        if replace == 0.0:
            keep = spared
        elif leave == 0.0:
            swap = spared
        else:
            stays = rng.rand(n) < leave / (leave + replace)
            keep, swap = spared & stays, spared & ~stays
    hidden = numpy.repeat(covered ^ keep, spans)
    out = tokens.copy()
    out[hidden] = MASK
    swap = numpy.repeat(swap, spans)
    if swap.sum() > 0:
        weights = numpy.ones(VOCABULARY)
        weights[:SPECIALS] = 0
        out[swap] = rng.choice(VOCABULARY, swap.sum(), p=weights / weights.sum())
    return out, labels


print("lengths", *lengths())
for args in [(1, 1, 0), (1, 1, 1), (1, 2, 77), (1234, 3, 99999), (0, 1, 12345678), (4294967295, 500, 1)]:
    print("seed", *args, seed_of(*args))
for mode, size in [("none", 31), ("complete", 63), ("complete", 20), ("complete_doc", 63), ("complete_doc", 25), ("eos", 63)]:
    made = blocks(mode, size)
    print("blocks", mode, size, len(made), *[len(b) for b in made])
for seed, mode, size, batch, epoch in [(1, "complete", 63, 4, 1), (1, "complete", 63, 4, 2), (7, "eos", 63, 8, 1),
                                       (7, "complete_doc", 25, 5, 3), (1, "none", 31, 1000, 1)]:
    print("order", seed, mode, size, batch, epoch, *order(seed, mode, size, batch, epoch))
for seed, epoch, mode, size, whole, p, leave, replace, indices in [
    (1, 1, "complete", 63, 0, 0.15, 0.1, 0.1, [0, 3, 7]),
    (1, 2, "complete", 63, 0, 0.15, 0.1, 0.1, [0, 3]),
    (1234, 1, "complete", 63, 1, 0.15, 0.1, 0.1, [0, 5, 9]),
    (5, 1, "none", 31, 0, 0.5, 0.0, 0.3, [0, 2]),
    (5, 1, "none", 31, 1, 0.5, 0.3, 0.0, [0, 2]),
    (5, 1, "eos", 63, 0, 0.4, 0.0, 0.0, [1, 2]),
    (9, 4, "complete_doc", 63, 1, 0.9, 0.4, 0.6, [0, 1, 2, 3]),
]:
    for index in indices:
        out, labels = masked(seed, epoch, index, [BOS] + blocks(mode, size)[index], whole, p, leave, replace)
        print("masked", seed, epoch, mode, size, whole, p, leave, replace, index, *out, *labels)
