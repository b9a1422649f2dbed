"""What a stream's checkpoint holds: ours and the official connector's are understood, nothing else is guessed at."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ConfigError
from penstock.spark.read.plan import Position
from penstock.spark.read.stream_offsets import from_json, to_json

OFFSETS = st.integers(0, 2**63 - 1)
POSITIONS = st.dictionaries(
    st.tuples(st.sampled_from(["clicks", "version", "topics", "a.b-c"]), st.integers(0, 20)),
    st.tuples(OFFSETS, st.none() | OFFSETS),
).map(lambda some: {(name, p): Position(UUID(int=len(name)), *at) for (name, p), at in some.items()})


@given(POSITIONS)
def test_positions_survive_the_checkpoint(positions: dict[tuple[str, int], Position]) -> None:
    assert from_json(json.loads(json.dumps(to_json(positions)))) == positions


@given(POSITIONS)
def test_the_same_positions_are_the_same_text(positions: dict[tuple[str, int], Position]) -> None:
    """Spark compares texts to see whether there is anything new."""
    backwards = dict(reversed(list(positions.items())))
    text = json.dumps(to_json(positions))
    assert json.dumps(to_json(backwards)) == text
    assert json.dumps(to_json(from_json(json.loads(text)))) == text


def test_the_official_connectors_checkpoint_is_understood() -> None:
    assert from_json({"clicks": {"0": 23, "1": 5}, "version": {"0": 1}}) == {
        ("clicks", 0): Position(None, 23),
        ("clicks", 1): Position(None, 5),
        ("version", 0): Position(None, 1),
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"clicks": [1, 2]},
        {"clicks": {"zero": 1}},
        {"clicks": {"0": "1"}},
        {"clicks": {"0": -1}},
        {"version": 1},
        {"version": 1, "topics": {"clicks": {"offsets": {"0": 1}}}},
        {"version": 1, "topics": {"clicks": {"id": "no id", "offsets": {"0": 1}}}},
        {"logOffset": 7},
    ],
)
def test_anothers_checkpoint_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="offsets that nobody can read"):
        from_json(wrong)


def test_a_checkpoint_of_a_later_version_is_refused() -> None:
    with pytest.raises(ConfigError, match="offsets of version 2; this Penstock knows 1"):
        from_json({"version": 2, "topics": {}})
