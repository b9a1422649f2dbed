"""What `penstock doctor` says of one thing that it has looked at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """How a check went; `value` is what is printed."""

    FINE = "ok"
    ODD = "look"
    WRONG = "fix"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: its subject, what was found, and what to do about it."""

    state: State
    subject: str
    found: str
    remedy: str = ""
