"""Which walk over records a check uses: the compiled one where numba is installed and it pays, else the plain one."""

from __future__ import annotations

from penstock.log.limits import VERIFY_COMPILED_MIN_BYTES
from penstock.log.verification.record_checks import WalkRecords, plain_walk


def walk_for(size_bytes: int) -> WalkRecords:
    """The fastest walk for logs of this size that is installed."""
    if size_bytes < VERIFY_COMPILED_MIN_BYTES:
        return plain_walk
    try:
        from penstock.log.verification.compiled_walk import CompiledWalk
    except (ImportError, RuntimeError):  # no numba, one that refuses this numpy, or no place for the machine code
        return plain_walk
    return CompiledWalk()
