"""How long a thing has been seen: only samples that follow each other count. After a gap in which nothing was seen it
begins anew, so that missing samples alone never make anything last.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.guardian.core.limits import GUARDIAN_FRESH_MS

SAMPLES_MIN = 2
"""One sample alone proves nothing, however long ago it was taken."""


@dataclass(slots=True)
class Streak:
    """Samples in a row that say the same of a thing: that it is there (`present`), or that it is not.

    Attributes: `since_ms`, `last_ms`, stamps of the first and the last; `samples`, how many; `gone_ms`, the stamp of
    the last one before this streak that said the opposite, None for none.
    """

    present: bool
    since_ms: int
    last_ms: int
    samples: int = 1
    gone_ms: int | None = None

    def sample(self, present: bool, stamp_ms: int) -> None:
        """One more sample; the same one again changes nothing."""
        if present == self.present and stamp_ms == self.last_ms:
            return
        if present != self.present:
            self.gone_ms = self.last_ms
        if present != self.present or not 0 < stamp_ms - self.last_ms < GUARDIAN_FRESH_MS:
            self.present, self.since_ms, self.samples = present, stamp_ms, 0
        self.last_ms = stamp_ms
        self.samples += 1

    def lasted(self, span_ms: int) -> bool:
        """Whether it has lasted so long."""
        return self.samples >= SAMPLES_MIN and self.last_ms - self.since_ms >= span_ms
