"""Feature levels: what is supported, and the line that refuses what is not."""

from __future__ import annotations

import pytest

from penstock.metadata.delta import MetadataDelta
from penstock.metadata.features import (
    METADATA_VERSIONS,
    REGISTERED_FEATURES,
    UnsupportedFeatureError,
    check_level,
    metadata_version_named,
)
from penstock.metadata.image import EMPTY_IMAGE
from penstock.protocol.messages.metadata.feature_level_record import FeatureLevelRecord


def test_the_names_are_kafkas() -> None:
    names = [version.name for version in METADATA_VERSIONS.values()]
    assert names == ["4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0"]
    assert list(METADATA_VERSIONS) == list(range(25, 31))


def test_only_what_works_is_registered() -> None:
    assert REGISTERED_FEATURES == {
        "eligible.leader.replicas.version": (0, 1),
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        "metadata.version": (25, 30),
        "transaction.version": (0, 2),
    }


@pytest.mark.parametrize(
    ("text", "level"), [("4.3-IV0", 30), ("4.3", 30), ("4.3.1", 30), ("4.2", 29), ("4.0", 25), ("4.1-IV0", 26)]
)
def test_a_release_stands_for_its_newest_version(text: str, level: int) -> None:
    assert metadata_version_named(text).level == level


@pytest.mark.parametrize("text", ["3.9", "4.0-IV1", "4.4", "5", "", "4.3-IV9"])
def test_other_releases_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"unknown metadata\.version"):
        metadata_version_named(text)


@pytest.mark.parametrize(
    ("name", "level", "line"),
    [
        ("metadata.version", 31, "lower it with kafka-features downgrade --feature metadata.version=30"),
        ("metadata.version", 7, "raise it with kafka-features upgrade --feature metadata.version=25"),
        ("transaction.version", 3, "lower it with kafka-features downgrade --feature transaction.version=2"),
        ("unheard.of.version", 1, "lower it with kafka-features downgrade --feature unheard.of.version=0"),
    ],
)
def test_a_level_that_we_lack_is_refused_in_one_line_that_says_what_to_do(name: str, level: int, line: str) -> None:
    with pytest.raises(UnsupportedFeatureError) as raised:
        MetadataDelta(EMPTY_IMAGE).replay(FeatureLevelRecord(name=name, feature_level=level))
    assert str(raised.value).endswith(line)
    assert name in str(raised.value)
    assert "\n" not in str(raised.value)


def test_level_0_of_what_is_unknown_is_fine() -> None:
    check_level("unheard.of.version", 0)
    check_level("group.version", 0)
