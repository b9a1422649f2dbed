"""What the reason for having no answer says of a broker: that nobody is there, or nothing."""

from __future__ import annotations

from penstock.node.effects import REFUSED

SILENCE = ("no connection within", "no answer to", "timed out", "no route to host", "host is down")
"""In reasons for having no answer, where nobody was heard."""


def proves_death(reason: str) -> bool:
    """Whether a reason says that nobody is there: a refused connection, or silence."""
    return reason.endswith(REFUSED) or any(each in reason for each in SILENCE)
