#!/usr/bin/env python3
# Makes fim/tokenizer.json and fim/samples.txt: fill-in-the-middle samples by the rules of Megatron-LM's GPTFIMDataset,
# with texts encoded and decoded by Hugging Face's tokenizers, and draws from Philox4x32-10 as src/data/sample/fim.c
# takes them. Needs tokenizers (0.23).
import os
import random

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fim")
os.makedirs(folder, exist_ok=True)
SPECIAL = ["<|endoftext|>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>", "<file_sep>", "<other>"]
WORDS = "def return if x y self print größe naïve café 数 据 🙂 → import for in range ( ) : = + 1 23".split()


class Philox:
    def __init__(self, seed, sample, split):
        self.key, self.sample, self.split, self.count, self.words = seed, sample, split, 0, []

    def word(self):
        if self.count % 4 == 0:
            c = [self.sample & 0xFFFFFFFF, self.sample >> 32, self.count // 4, 0xF11100 | self.split]
            k = [self.key & 0xFFFFFFFF, self.key >> 32]
            for _ in range(10):
                p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
                c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
                k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
            self.words = c
        self.count += 1
        return self.words[(self.count - 1) % 4]

    def chance(self, rate):
        return self.word() / 2**32 < rate

    def place(self, most):
        return self.word() * (most + 1) >> 32


def make_tokenizer(rng):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    texts = [" ".join(rng.choice(WORDS) for _ in range(40)) for _ in range(200)]
    trainer = trainers.BpeTrainer(vocab_size=330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=[AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    return tokenizer


def permute(tokenizer, rng, ids, rate, spm_rate, no_prefix):
    if not rng.chance(rate):
        return ids
    text = tokenizer.decode(ids, skip_special_tokens=True)
    if no_prefix is not None and text.startswith(no_prefix):
        return ids
    low, high = sorted([rng.place(len(text)), rng.place(len(text))])
    prefix, middle, suffix = (tokenizer.encode(t, add_special_tokens=False).ids
                              for t in (text[:low], text[low:high], text[high:]))
    p, m, s = (tokenizer.token_to_id(f"<fim_{n}>") for n in ("prefix", "middle", "suffix"))
    if rng.chance(spm_rate):
        return [p, s] + suffix + [m] + prefix + middle
    return [p] + prefix + [s] + suffix + [m] + middle


def split_at(ids, token, change):
    """Applies `change` between the tokens; empty pieces before one vanish with it."""
    out, piece = [], []
    for i in ids:
        if i != token:
            piece.append(i)
            continue
        if piece:
            out += change(piece) + [token]
        piece = []
    return out + change(piece)


def fim(tokenizer, ids, rng, case):
    rate, spm_rate, cut, fragment_rate, no_prefix = case

    def change_text(text):
        token = tokenizer.token_to_id(cut) if cut else None
        if token is None or token not in text:
            return permute(tokenizer, rng, text, rate, spm_rate, no_prefix)
        if not rng.chance(rate):
            return text
        return split_at(text, token, lambda t: permute(tokenizer, rng, t, fragment_rate, spm_rate, no_prefix))

    out = split_at(ids, tokenizer.token_to_id("<|endoftext|>"), change_text)
    return (out + [tokenizer.token_to_id("<fim_pad>")] * len(ids))[:len(ids)]


def main():
    rng = random.Random(11)
    tokenizer = make_tokenizer(rng)
    eod, cut, other = (tokenizer.token_to_id(t) for t in ("<|endoftext|>", "<file_sep>", "<other>"))
    cases = [(1, 0, None, 0, None), (1, 1, None, 0, None), (0.5, 0.5, None, 0, None), (0.8, 0.3, "<file_sep>", 0.6, None),
             (1, 0.5, None, 0, "def"), (0, 0.5, None, 0, None), (1, 0.5, "<file_sep>", 1, "x")]
    with open(os.path.join(folder, "samples.txt"), "w") as out:
        for number, case in enumerate(cases):
            rate, spm_rate, token, fragment_rate, no_prefix = case
            out.write(f"case {rate} {spm_rate} {token or '-'} {fragment_rate} {no_prefix or '-'}\n")
            for k in range(12):
                sample, split, seed = [k, 2**33 + 5 * k][k % 2], k % 3, 1234 + number
                ids = []
                while len(ids) < 96:
                    text = (rng.choice(["def ", "x ", ""]) + " ".join(rng.choice(WORDS) for _ in range(rng.randrange(14))))
                    ids += tokenizer.encode(text).ids[rng.randrange(2):] + rng.choice([[eod], [cut], [eod, eod], [other], []])
                ids = ids[:96]
                if k == 3:
                    ids[-1] = eod
                if k == 4:
                    ids[0] = eod
                if k == 5:
                    ids = [eod] * 96
                out.write(f"in {seed} {sample} {split} {' '.join(map(str, ids))}\n")
                out.write(f"out {' '.join(map(str, fim(tokenizer, ids, Philox(seed, sample, split), case)))}\n")


main()
