"""What a look at a log finds: problems, notes on things that are odd and do no harm, and what cannot be judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from penstock.log.limits import VERIFY_FINDINGS_MAX


class Severity(Enum):
    """How much a finding matters."""

    PROBLEM = "problem"
    NOTE = "note"
    """Worth knowing; nothing is wrong with the log."""
    UNJUDGED = "not judged"
    """Nobody can tell now: it is being written, or nothing is there to hold it against."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. `file` is its name within the directory, `place` says where in it (`byte 120`, `entry 7`), or ""."""

    severity: Severity
    file: str
    place: str
    message: str


@dataclass(slots=True)
class Findings:
    """The findings about one directory, the first ones of each severity; `counts` has all."""

    listed: list[Finding] = field(default_factory=list)
    counts: dict[Severity, int] = field(default_factory=lambda: dict.fromkeys(Severity, 0))

    def add(self, severity: Severity, file: str, message: str, place: str = "") -> None:
        self.counts[severity] += 1
        if self.counts[severity] <= VERIFY_FINDINGS_MAX:
            self.listed.append(Finding(severity, file, place, message))

    def problem(self, file: str, message: str, place: str = "") -> None:
        self.add(Severity.PROBLEM, file, message, place)

    def note(self, file: str, message: str, place: str = "") -> None:
        self.add(Severity.NOTE, file, message, place)

    def unjudged(self, file: str, message: str, place: str = "") -> None:
        self.add(Severity.UNJUDGED, file, message, place)

    @property
    def problems(self) -> int:
        return self.counts[Severity.PROBLEM]

    def only_seen_in(self, other: Findings) -> Findings:
        """All of this but problems that `other` does not have: those were made by the writing itself."""
        known = set(other.listed)
        kept = Findings()
        for each in self.listed:
            if each.severity is not Severity.PROBLEM or each in known:
                kept.add(each.severity, each.file, each.message, each.place)
        return kept
