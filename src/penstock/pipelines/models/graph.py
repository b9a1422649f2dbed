"""The order of models by what they read, and the cycles that there must not be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter


def ordered(reads: Mapping[str, Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Names behind what they read, and every cycle that keeps them from it, each as a closed walk.

    Args:
        reads: by name the names that it reads; those that are no keys are left out.
    """
    left = {name: [each for each in others if each in reads] for name, others in reads.items()}
    cycles: list[list[str]] = []
    while True:
        try:
            return list(TopologicalSorter(left).static_order()), cycles
        except CycleError as error:
            walk: list[str] = list(error.args[1])  # each is read by the next
            cycles.append(walk[::-1])
            left[walk[1]] = [each for each in left[walk[1]] if each != walk[0]]
