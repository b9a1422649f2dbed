"""Which scan of segments a recovery uses: the compiled one where numba is installed, otherwise the plain one."""

from __future__ import annotations

from penstock.log.segment_scan import Scan, scan_segment


def fastest_scan() -> Scan:
    """Imports numba, which takes half a second and 100 MB: to be called in a worker or a command, not in a broker."""
    try:
        from penstock.log.compiled_segment_scan import scan_segment_compiled
    except (ImportError, RuntimeError):  # none, one that refuses this numpy, or no place to keep the machine code
        return scan_segment
    return scan_segment_compiled
