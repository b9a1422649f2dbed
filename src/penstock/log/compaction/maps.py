"""Which map of the last offsets a pass uses: the compiled one where numba is installed, otherwise the plain one."""

from __future__ import annotations

from penstock.log.compaction.offset_map import LatestOffsets, OffsetMap


def offset_map(buffer_bytes: int, load_factor: float, hash_key: bytes) -> LatestOffsets:
    """An empty map; the arguments are those of `OffsetMap`, and so is the error.

    Imports numba, which takes half a second and 100 MB: to be called in a worker or a command, not in a broker's loop.
    """
    try:
        from penstock.log.compaction.compiled_offset_map import CompiledOffsetMap
    except (ImportError, RuntimeError):  # none, one that refuses this numpy, or no place to keep the machine code
        return OffsetMap(buffer_bytes, load_factor, hash_key)
    return CompiledOffsetMap(buffer_bytes, load_factor, hash_key)
