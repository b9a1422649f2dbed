"""How a rule is checked: what holds says nothing, what does not ends the run and names the rule."""

from __future__ import annotations


class Violation(AssertionError):
    """The real code broke an invariant. The message names the rule, the partition and the offsets."""


def check(holds: bool, rule: str, detail: str) -> None:
    """Raises Violation unless it holds."""
    if not holds:
        raise Violation(f"{rule}: {detail}")
