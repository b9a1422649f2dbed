"""What a broker has is what a reader comes to know, whatever happens between frames; what is no frame is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.telemetry_frames import Source, fed

from penstock.guardian.telemetry.decode import decode
from penstock.guardian.telemetry.view import View
from penstock.protocol.telemetry import BLOCKS, FULL, Block

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
SMALL = st.integers(-200, 200)
FRAMES = 20_000
ALL_FRAMES = 1_000_000


def rows_of(block: Block) -> st.SearchStrategy[Any]:
    """Rows by their keys. Texts are any that can be sent."""
    text = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
    name = st.tuples(*[text] * len(block.fields))
    column = st.one_of(SMALL, SMALL, st.integers(-(1 << 40), 1 << 40), INT64)
    values = st.tuples(*[column] * len(block.columns))
    return st.dictionaries(st.sampled_from("abcde"), st.tuples(name, values), max_size=5)


STATES = st.lists(
    st.fixed_dictionaries({block.name: rows_of(block) for block in BLOCKS if block.name in {"lanes", "groups"}}),
    min_size=1,
    max_size=6,
)


@settings(max_examples=30, deadline=None)
@given(STATES, st.randoms(use_true_random=False))
def test_readers_know_what_the_broker_has(states: list[Any], random: Any) -> None:
    source, readers = Source(), [View(), View()]
    for state in states:
        for view in readers:
            if random.random() < 0.2:
                continue  # it asks again later
            if random.random() < 0.1:
                view.forget()
            view.take(decode(source.frame(state, view.sequence)))
            for name, rows in state.items():
                block = view[name]
                values = [tuple(column) for column in block.values.T.tolist()]
                assert sorted(zip(block.names, values, strict=True)) == sorted(rows.values())


def test_a_frame_of_no_change_is_small() -> None:
    source, view = Source(), View()
    state = {"disks": {f"disk {number}": ((f"/{number}",), tuple(range(17))) for number in range(500)}}
    view.take(decode(source.frame(state, FULL)))
    assert len(source.frame(state, view.sequence)) < 120


@pytest.mark.slow
def test_mutated_frames_are_refused_or_taken() -> None:
    told = fed(FRAMES, seed=1)
    assert told.total() == FRAMES
    assert min(told["no frame"], told["does not fit"], told["taken"]) > FRAMES // 200, "each happens"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_a_million_mutated_frames_are_refused_or_taken(seed: int) -> None:
    assert fed(ALL_FRAMES // 4, seed + 100).total() == ALL_FRAMES // 4
