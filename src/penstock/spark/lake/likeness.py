"""Which values of two Arrow columns of one type are not the same, at any depth.

Two nulls are the same, and a null is like nothing else. Floating-point numbers are compared by their bits: NaN is like
NaN, and -0.0 unlike 0.0, for a value that was copied has the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Mask = np.ndarray[Any, np.dtype[np.bool_]]
INTEGER_OF = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}
"""The integer as wide as a floating-point number."""


def unlike(ours: pa.Array, theirs: pa.Array) -> Mask:
    """Marks the positions at which two arrays of one type and length differ."""
    assert (ours.type, len(ours)) == (theirs.type, len(theirs)), (ours.type, theirs.type, len(ours), len(theirs))
    types = pa.types
    if types.is_struct(ours.type):
        return _unlike_structs(ours, theirs)
    if types.is_list(ours.type) or types.is_large_list(ours.type) or types.is_map(ours.type):
        return _unlike_lists(ours, theirs)
    if types.is_null(ours.type):
        return np.zeros(len(ours), bool)
    if ours.type in INTEGER_OF:
        ours, theirs = ours.view(INTEGER_OF[ours.type]), theirs.view(INTEGER_OF[theirs.type])
    differ = pc.fill_null(pc.not_equal(ours, theirs), False)
    return _as_mask(differ) | _unlike_nulls(ours, theirs)


def _unlike_nulls(ours: pa.Array, theirs: pa.Array) -> Mask:
    if not ours.null_count and not theirs.null_count:
        return np.zeros(len(ours), bool)
    return _as_mask(pc.xor(ours.is_null(), theirs.is_null()))


def _unlike_structs(ours: pa.Array, theirs: pa.Array) -> Mask:
    found = _unlike_nulls(ours, theirs)
    for one, other in zip(ours.flatten(), theirs.flatten(), strict=True):
        found |= unlike(one, other)
    return found


def _unlike_lists(ours: pa.Array, theirs: pa.Array) -> Mask:
    """By their lengths, and then, where these are the same, element by element."""
    found = _unlike_nulls(ours, theirs)
    lengths = [pc.fill_null(pc.list_value_length(_as_list(each)), 0).to_numpy() for each in (ours, theirs)]
    found |= lengths[0] != lengths[1]
    alike = np.flatnonzero(~found)
    one, other = (_as_list(each).take(pa.array(alike)).flatten() for each in (ours, theirs))
    elements = unlike(one, other)
    if elements.any():
        owners = np.repeat(alike, lengths[0][alike])
        found[owners[elements]] = True
    return found


def _as_list(array: pa.Array) -> pa.Array:
    """A map as a list of its entries; a list as it is."""
    if not pa.types.is_map(array.type):
        return array
    entry = pa.struct([pa.field("key", array.type.key_type), pa.field("value", array.type.item_type)])
    return array.cast(pa.list_(entry))


def _as_mask(array: Any) -> Mask:
    return np.asarray(array.to_numpy(zero_copy_only=False), bool).copy()
