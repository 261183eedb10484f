#!/usr/bin/env python3
"""Cross-entropy, in nats per byte, of an interpolated 4-gram byte model: the baseline of tests/bench/language_model.sh.

Interpolated Kneser-Ney with one absolute discount per order (Chen and Goodman, "An Empirical Study of Smoothing Techniques for
Language Modeling", 1999, section 2.7), D = n1 / (n1 + 2 n2). Files are independent, as they are for the trainer: a context never
spans two, and the first byte of a file, which the trainer does not predict either, is not scored.

usage: ngram_baseline.py --order 4 --train FILE... --validation FILE...
"""

import argparse
import collections
import math


def counts_by_order(texts, order):
    """[n] -> {context: {byte: count}} for contexts of n bytes; below the highest order, counts of distinct left neighbours."""
    grams = [collections.defaultdict(collections.Counter) for _ in range(order)]
    for text in texts:
        for i in range(len(text)):
            for n in range(min(order - 1, i) + 1):
                context = text[i - n : i]
                if n == order - 1 or n == i:
                    grams[n][context][text[i]] += 1
                else:
                    grams[n][context].setdefault(text[i], 0)
    # Continuation counts: how many different bytes stand before (context, byte).
    for n in range(order - 1):
        seen = collections.defaultdict(set)
        for longer, followers in grams[n + 1].items():
            for byte in followers:
                seen[(longer[1:], byte)].add(longer[0])
        for (context, byte), left in seen.items():
            grams[n][context][byte] = max(grams[n][context][byte], len(left))
    return grams


def discount(table):
    frequencies = collections.Counter(c for followers in table.values() for c in followers.values())
    n1, n2 = frequencies[1], frequencies[2]
    return n1 / (n1 + 2 * n2) if n1 else 0.5


def probability(grams, discounts, context, byte):
    p = 1 / 256
    for n, table in enumerate(grams):
        if n > len(context):
            break
        followers = table.get(context[len(context) - n :])
        if not followers:
            break
        total = sum(followers.values())
        d = discounts[n]
        p = max(followers.get(byte, 0) - d, 0) / total + d * len(followers) / total * p
    return p


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--order", type=int, default=4)
    parser.add_argument("--train", nargs="+", required=True)
    parser.add_argument("--validation", nargs="+", required=True)
    arguments = parser.parse_args()
    read = lambda paths: [open(path, "rb").read() for path in paths]
    grams = counts_by_order(read(arguments.train), arguments.order)
    discounts = [discount(table) for table in grams]
    nats = scored = 0
    for text in read(arguments.validation):
        for i in range(1, len(text)):
            context = text[max(0, i - arguments.order + 1) : i]
            nats -= math.log(probability(grams, discounts, context, text[i]))
            scored += 1
    print(f"{nats / scored:.4f}")


if __name__ == "__main__":
    main()
