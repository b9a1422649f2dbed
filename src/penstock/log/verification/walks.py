"""Which walk over records a check uses: the compiled one where numba is installed and it pays, else the plain one."""

from __future__ import annotations

from penstock.config.values import MiB
from penstock.log.verification.record_checks import WalkRecords, plain_walk

COMPILED_FROM_BYTES = 16 * MiB
"""Logs larger than this are worth the half second that it takes to import numba."""


def walk_for(size_bytes: int) -> WalkRecords:
    """The fastest walk for logs of this size that is installed."""
    if size_bytes < COMPILED_FROM_BYTES:
        return plain_walk
    try:
        from penstock.log.verification.compiled_walk import CompiledWalk
    except (ImportError, RuntimeError):  # no numba, one that refuses this numpy, or no place for the machine code
        return plain_walk
    return CompiledWalk()
