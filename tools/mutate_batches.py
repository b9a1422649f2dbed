"""Holds the compiled decoder of record batches against its plain twin, on whole and on broken runs.

    python tools/mutate_batches.py --cases 1000000 --seed 1

Both must give the same columns or raise the same error, and nothing but the two errors for broken records. Prints how
many cases decoded and how many were refused, and for the first difference the seed that shows it alone.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from random_batches import RandomBatches, offsets_of

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.records import arrow, arrow_plain
from penstock.records.arrow_schema import Decoded

Decoder = Callable[..., Decoded]
MUTATIONS_OF_A_RUN = 20


class Difference(Exception):
    """The two decoders do not agree."""


def outcome(decoder: Decoder, data: bytes, arguments: dict[str, Any]) -> tuple[Any, ...]:
    """All that a decoder tells, comparable."""
    try:
        decoded = decoder(data, **arguments)
    except (CorruptRecordError, InvalidRecordError) as error:
        return type(error), str(error)
    decoded.batch.validate(full=True)
    offsets = decoded.next_offset, decoded.skipped, decoded.gaps.tolist(), decoded.epochs
    return decoded.batch, decoded.consumed_bytes, *offsets


def compare(data: bytes, arguments: dict[str, Any], decoder: Decoder = arrow.to_arrow) -> bool:
    """Whether the run decodes. Raises Difference unless both decoders say the same."""
    found = outcome(decoder, data, arguments)
    expected = outcome(arrow_plain.to_arrow, data, arguments)
    if found != expected:
        raise Difference(f"{arguments}\n{data.hex()}\ncompiled: {found}\nplain:    {expected}")
    return len(expected) > 2


def cases(seed: int, count: int) -> Any:
    """Pairs of bytes and arguments: each run whole, then broken in many ways."""
    drawn = 0
    while drawn < count:
        random = Random(f"{seed} {drawn}")
        source = RandomBatches(random)
        batches = source.run()
        whole = source.whole(batches)
        first, end = offsets_of(whole)
        for mutation in range(min(MUTATIONS_OF_A_RUN, count - drawn)):
            arguments: dict[str, Any] = {"include_headers": random.random() < 0.5}
            if random.random() < 0.3:
                arguments["start_offset"] = random.randint(first, end)
                arguments["end_offset"] = random.randint(arguments["start_offset"], end + 1)
            if random.random() < 0.1:
                arguments["limit_bytes"] = random.randint(1, 2000)
            yield (source.broken(batches) if mutation else whole), arguments
        drawn += MUTATIONS_OF_A_RUN


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    count: Counter[bool] = Counter()
    for number, (data, arguments) in enumerate(cases(options.seed, options.cases), 1):
        count[compare(data, arguments)] += 1
        if number % 100_000 == 0:
            say(f"{number} cases: {count[True]} decoded, {count[False]} refused")
    say(f"{count.total()} cases agree: {count[True]} decoded, {count[False]} refused")


if __name__ == "__main__":
    main()
