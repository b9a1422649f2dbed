"""Why a message cannot be written: finds the field whose value does not fit, once the fast encoder has failed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from penstock.protocol.schema import Field, MessageSchema, Struct

INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}


def first_fault(message: Any, schema: MessageSchema, version: int) -> str | None:
    """The path of the first field that cannot be written and what is wrong with it; None if all seem right."""
    return fault_in_struct(message, schema.root, version, schema.heading.name)


def fault_in_struct(value: Any, group: Struct, version: int, path: str) -> str | None:
    """The first fault in the fields of a struct."""
    if type(value).__name__ != group.name:
        return f"{path} must be a {group.name}, it is {value!r}"
    for field in group.fields:
        if version in field.versions:
            fault = fault_in_field(getattr(value, field.attribute), field, version, f"{path}.{field.attribute}")
            if fault is not None:
                return fault
    return None


def fault_in_field(value: Any, field: Field, version: int, path: str) -> str | None:
    if value is None:
        return None if version in field.nullable else f"{path} may not be null"
    if not field.is_array:
        return fault_in_value(value, field, version, path)
    if not isinstance(value, list | tuple):
        return f"{path} must be a list, it is {value!r}"
    faults = (fault_in_value(item, field, version, f"{path}[{index}]") for index, item in enumerate(value))
    return next(filter(None, faults), None)


def fault_in_value(value: Any, field: Field, version: int, path: str) -> str | None:
    """The fault of one value that is not null and not an array."""
    if field.struct is not None:
        return fault_in_struct(value, field.struct, version, path)
    if field.type in INTEGER_BITS:
        return fault_in_integer(value, field.type, path)
    wanted: dict[str, tuple[type, ...]] = {
        "bool": (bool, int),
        "float64": (float, int),
        "uuid": (UUID,),
        "string": (str,),
        "bytes": (bytes, bytearray, memoryview),
        "records": (bytes, bytearray, memoryview, list, tuple),
    }
    if not isinstance(value, wanted[field.type]):
        return f"{path} must be of type {field.type}, it is {value!r}"
    return None


def fault_in_integer(value: Any, type_name: str, path: str) -> str | None:
    """The fault of a whole number."""
    if not isinstance(value, int):
        return f"{path} must be a whole number, it is {value!r}"
    bits = INTEGER_BITS[type_name]
    lowest, highest = (0, 2**bits - 1) if type_name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if not lowest <= value <= highest:
        return f"{path} = {value} does not fit in {type_name} ({lowest} to {highest})"
    return None
