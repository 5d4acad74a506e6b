"""Writes detokenize.txt: WikiText's text without its extra spaces, as in Megatron's zero-shot task, by Python's re.

Run: python tests/golden/make_detokenize.py > tests/golden/detokenize.txt

Lines in pairs, text before and after, as JSON strings; then the number of words before.
"""

import json
import random
import re

PLAIN_FIRST = [("s '", "s'"), (" @-@ ", "-"), (" @,@ ", ","), (" @.@ ", "."), (" : ", ": "), (" ; ", "; "),
               (" . ", ". "), (" ! ", "! "), (" ? ", "? "), (" , ", ", ")]
PAIRS = [(r"\(", r"\)"), (r"\[", r"\]"), ("{", "}"), ('"', '"'), ("'", "'")]
PLAIN_LAST = [("= = = =", "===="), ("= = =", "==="), ("= =", "=="), (" \u00b0 ", "\u00b0"), (" \n", "\n"), ("\n ", "\n"),
              (" N ", " 1 "), (" 's", "'s")]


def detokenize(text):
    for old, new in PLAIN_FIRST:
        text = text.replace(old, new)
    for left, right in PAIRS:
        closing = right.replace("\\", "")
        text = re.sub(left + r"\s*([^" + right + r"]*?)\s*" + right,
                      lambda m: left.replace("\\", "") + m.group(1) + closing, text)
    for old, new in PLAIN_LAST:
        text = text.replace(old, new)
    return text


fixed = [
    "",
    " \n = Robert Boulter = \n \n Robert Boulter is an English film , television and theatre actor . He had a guest @-@ "
    "starring role ( in 2000 ) . \n",
    " = = = A third level = = = \n 1 @,@ 000 @.@ 5 ; it 's the players ' \" own goal \" : 12 \u00b0 north ! Why ? N one \n",
    "( a [ b ) c ] { d } ( unclosed \" odd ' quotes \" left ' here",
    "(\u00a0\u3000caf\u00e9\u2009) '' \"\" ( ) [  ] s ' s ' '",
]
draw = random.Random(3)
parts = ["(", ")", "[", "]", "{", "}", '"', "'", " ", " ", " ", "\n", "=", "s", "N", "@-@", "@,@", ",", ".", "\u00b0",
         "\u00a0", "word", "'s", "!", "?", ":", ";", "\u2009"]
fixed += ["".join(draw.choice(parts) for _ in range(draw.randint(1, 120))) for _ in range(200)]
for text in fixed:
    print(json.dumps(text))
    print(json.dumps(detokenize(text)))
    print(len(text.strip().split(" ")))
