"""The compiled decoder and its plain twin say the same of every run, whole or broken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mutate_batches
import pyarrow.compute as pc
import pytest

from penstock.records import arrow
from penstock.records.arrow_schema import Decoded
from penstock.records.batch import Buffer

CASES = 10_000


def agree(count: int, decoder: mutate_batches.Decoder) -> list[bool]:
    """Whether each of the cases decodes. Raises Difference where the decoder and the plain one differ."""
    return [mutate_batches.compare(data, arguments, decoder) for data, arguments in mutate_batches.cases(3, count)]


def test_both_decoders_agree_on_whole_and_broken_runs() -> None:
    decoded = agree(CASES, arrow.to_arrow)
    assert len(decoded) == CASES
    assert CASES // 10 < sum(decoded) < CASES - CASES // 10


def value_lost(data: Buffer, **arguments: Any) -> Decoded:
    """Every null value comes out empty."""
    decoded = arrow.to_arrow(data, **arguments)
    columns = [pc.fill_null(column, b"") if name == "value" else column for name, column in columns_of(decoded)]
    batch = type(decoded.batch).from_arrays(columns, schema=decoded.batch.schema)
    return replace(decoded, batch=batch)


def columns_of(decoded: Decoded) -> list[tuple[str, Any]]:
    return list(zip(decoded.batch.schema.names, decoded.batch.columns, strict=True))


def gap_forgotten(data: Buffer, **arguments: Any) -> Decoded:
    decoded = arrow.to_arrow(data, **arguments)
    return replace(decoded, gaps=decoded.gaps[:0])


def errors_swallowed(data: Buffer, **arguments: Any) -> Decoded:
    try:
        return arrow.to_arrow(data, **arguments)
    except Exception:
        return arrow.to_arrow(b"")


@pytest.mark.parametrize("faulty", [value_lost, gap_forgotten, errors_swallowed])
def test_a_faulty_decoder_is_found_out(faulty: mutate_batches.Decoder) -> None:
    with pytest.raises(mutate_batches.Difference):
        agree(200, faulty)
