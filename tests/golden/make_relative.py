#!/usr/bin/env python3
"""Writes tests/golden/relative_buckets.txt: the distance buckets of a T5 in transformers. Needs torch and
transformers. Run from the repository's root."""
import torch
from transformers.models.t5.modeling_t5 import T5Attention

RULES = [(32, 128, 1), (32, 128, 0), (8, 9, 1), (8, 9, 0), (64, 300, 1), (16, 512, 0), (20, 77, 1)]
with open("tests/golden/relative_buckets.txt", "w") as out:
    out.write("# buckets max_distance bidirectional first_distance: bucket of that distance and of each after it\n")
    for buckets, far, both in RULES:
        found = T5Attention._relative_position_bucket(torch.arange(-far - 12, far + 13), bidirectional=bool(both),
                                                      num_buckets=buckets, max_distance=far)
        out.write(f"{buckets} {far} {both} {-far - 12}: {' '.join(str(int(b)) for b in found)}\n")
