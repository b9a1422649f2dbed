"""Work that the thread of a pipeline drives piece by piece, and the figures of a piece."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Figures(Protocol):
    """The figures of one step; `penstock.spark.load.load.Outcome` is one.

    `lag` counts the offsets that the step knows of and has not done: 0 means caught up.
    """

    @property
    def rows(self) -> int: ...

    @property
    def lag(self) -> int: ...

    @property
    def seconds(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Did:
    """The plainest Figures: for steps that have none of their own, and for `Context.heard`."""

    rows: int
    lag: int
    seconds: float


class Step(Protocol):
    """Work in bounded pieces, driven by the pipeline's thread. An exception counts as a failure of the pipeline."""

    @property
    def interval_ms(self) -> int:
        """From the start of a step to the start of the next; a step that left lag is followed at once."""
        ...

    def step(self) -> Figures | None:
        """Does one piece; None if there was nothing to do."""
        ...

    def close(self) -> None:
        """Gives back what the step holds. Called once, after the last `step`, also after one that failed."""
        ...
