"""What is put into a node from outside, because it is somebody else's code or reaches the world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.security.builder import PrincipalBuilder
from penstock.security.gssapi import Kerberos


@dataclass(frozen=True, slots=True)
class Plugged:
    """`builders`: the functions that the settings name for `principal.builder.class`, by `MODULE:FUNCTION`; `kerberos`:
    makes the contexts of GSSAPI.
    """

    builders: Mapping[str, PrincipalBuilder] = field(default_factory=dict)
    kerberos: Kerberos | None = None


NOTHING_PLUGGED = Plugged()
"""For a node whose settings ask for nothing of the kind."""
