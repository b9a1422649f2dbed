"""How the planner's loops are compiled: at first use, cached on disk as those of `records.kernels` are.

Functions that only other compiled ones call are `inner`: without what calls them from Python, a quarter of the time of
the first use is saved.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numba

Function = TypeVar("Function")
njit: Any = numba.njit


def compiled(function: Function) -> Function:
    """Machine code at first use, from the cache if it is there. Runs without the GIL and checks no bounds."""
    machine_code: Any = njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
    code: Function = machine_code(function)
    return code


def inner(function: Function) -> Function:
    """The same for a function that Python does not call."""
    machine_code: Any = njit(
        cache=True, nogil=True, boundscheck=False, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
    )
    code: Function = machine_code(function)
    return code
