"""Decodes mutated messages: they must decode or raise ProtocolError, and take memory in proportion to their size.

    python tools/fuzz_codec.py [--frames N] [--seed S]

Prints how many frames were refused and decoded, the rate, and the growth of the process. Exits with 1 at the first
frame that raises something else, and prints what reproduces it.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from random import Random

from random_messages import RandomMessages

from penstock.errors import ProtocolError
from penstock.protocol import codec, schema
from penstock.protocol.message import Message

HOSTILE = tuple(bytes.fromhex(text) for text in ("ffffffff0f", "ffffffff07", "7fffffff", "ffffffff", "80", "00", "ff"))
MUTANTS_A_MESSAGE = 50
GROWTH_MAX_MB = 200


def mutate(random: Random, data: bytes) -> bytes:
    """Broken bytes made from good ones: cut, flipped, overwritten, with lengths that promise too much, or doubled."""
    mutant = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        place = random.randrange(len(mutant) + 1)
        match random.randrange(6):
            case 0:
                del mutant[place:]
            case 1:
                mutant[place : place + 1] = bytes((random.getrandbits(8),))
            case 2:
                hostile = random.choice(HOSTILE)
                mutant[place : place + len(hostile)] = hostile
            case 3:
                mutant[place:place] = random.choice(HOSTILE)
            case 4:
                del mutant[place : place + random.randrange(1, 5)]
            case _:
                mutant[place:place] = mutant[max(0, place - 8) : place]
    return bytes(mutant)


def decode_mutant(cls: type[Message], version: int, data: bytes) -> str:
    """What became of a mutant: "refused" or "decoded". Other exceptions pass."""
    try:
        _, end = codec.decode(cls, version, memoryview(data))
    except ProtocolError:
        return "refused"
    assert end <= len(data), f"decoded {end} of {len(data)} bytes"
    return "decoded"


def fuzz(frames: int, seed: int) -> Counter[str]:
    """Decodes this many mutants of messages of every class and version in turn."""
    random = Random(seed)
    messages = RandomMessages(random)
    pairs = [(name, version) for name, heading in schema.headings().items() for version in heading.versions]
    random.shuffle(pairs)
    outcomes: Counter[str] = Counter()
    while True:
        for name, version in pairs:
            message = messages.message(name, version)
            data = codec.encode_bytes(message, version)
            for _ in range(MUTANTS_A_MESSAGE):
                mutant = mutate(random, data)
                try:
                    outcomes[decode_mutant(type(message), version, mutant)] += 1
                except BaseException:
                    sys.stderr.write(f"{name} version {version} from seed {seed}: {mutant.hex()}\n")
                    raise
                if outcomes.total() >= frames:
                    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description="Decodes mutated messages.")
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    fuzz(MUTANTS_A_MESSAGE * 1_000, options.seed)  # every codec is made: what grows from here on grows with the frames
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    outcomes = fuzz(options.frames, options.seed)
    elapsed_s = time.perf_counter() - begun
    growth_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb) / 1024
    rate = outcomes.total() / elapsed_s
    speed = f"{elapsed_s:.0f} s ({rate:.0f} a second)"
    sys.stdout.write(f"{dict(outcomes)} in {speed}, peak memory grew by {growth_mb:.1f} MB\n")
    sys.exit(growth_mb > GROWTH_MAX_MB)


if __name__ == "__main__":
    main()
