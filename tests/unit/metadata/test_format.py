"""Formatting: what is refused, and that nothing is written when anything is."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.log.meta_properties import read_meta_properties
from penstock.metadata.bootstrap import read_bootstrap
from penstock.metadata.format import FormatRequest, Formatted, format_directories
from penstock.raft.voters import VoterEndpoint
from simulator.world.disk import SimulatedDisk

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
CONTROLLER = VoterEndpoint("CONTROLLER", "127.0.0.1", 9093)


def run(disks: dict[str, SimulatedDisk], **changes: Any) -> list[Formatted]:
    fields = {
        "cluster_id": "MkU3OEVBNTcwNTJENDM2Qg",
        "node_id": 1,
        "metadata_directory": "/a",
        "controller": CONTROLLER,
    }
    return list(format_directories(disks, FormatRequest(**{**fields, **changes}), Random(1), 1))


def disks(*paths: str) -> dict[str, SimulatedDisk]:
    return {path: SimulatedDisk(index) for index, path in enumerate(paths or ("/a",))}


def level_of(disk: SimulatedDisk) -> int:
    level = read_bootstrap(disk)[0].feature_level
    assert isinstance(level, int)
    return level


def test_every_directory_gets_its_own_id_and_one_holds_the_voters() -> None:
    both = disks("/a", "/b")
    formatted = run(both, standalone=True)
    assert [(each.path, each.kind) for each in formatted] == [
        ("/a", "dynamic metadata voter directory"),
        ("/b", "data directory"),
    ]
    ids = [read_meta_properties(disk, path).directory_id for path, disk in both.items()]
    assert ids == [each.directory_id for each in formatted]
    assert len(set(ids)) == 2
    voters = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
    assert [disk.exists(voters) for disk in both.values()] == [True, False]


def test_it_survives_a_power_failure_right_after() -> None:
    [disk] = (found := disks()).values()
    run(found, standalone=True)
    disk.restart()
    assert read_meta_properties(disk, "/a").node_id == 1
    assert level_of(disk) == 30


@pytest.mark.parametrize(
    ("changes", "level"),
    [({}, 30), ({"release_version": "4.1"}, 27), ({"feature_levels": {"metadata.version": 25}}, 25)],
)
def test_the_metadata_version_that_was_asked_for(changes: dict[str, Any], level: int) -> None:
    found = disks()
    run(found, **changes)
    assert level_of(found["/a"]) == level


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"release_version": "3.9"}, "metadata.version 3.9 is not supported: choose one of 25"),
        ({"feature_levels": {"metadata.version": 7}}, "metadata.version 7 is not supported"),
        ({"release_version": "4.3", "feature_levels": {"metadata.version": 30}}, "use --release-version alone"),
        ({"feature_levels": {"share.version": 1}}, "share.version=1 is not supported: it can be 0 to 0"),
        ({"feature_levels": {"no.such.version": 1}}, "unknown feature no.such.version: known are"),
        ({"feature_levels": {"kraft.version": 1}}, "kraft.version=1 goes only with --standalone"),
        ({"feature_levels": {"kraft.version": 0}, "standalone": True}, "kraft.version=0 goes without --standalone"),
        ({"metadata_directory": "/z"}, "/z is not one of the log directories"),
    ],
)
def test_what_cannot_be_formatted_is_refused_before_anything_is_written(changes: dict[str, Any], sentence: str) -> None:
    found = disks()
    with pytest.raises(ConfigError) as raised:
        run(found, **changes)
    assert sentence in str(raised.value)
    assert found["/a"].paths() == []


def test_a_new_cluster_has_the_consumer_group_protocol_and_transactions() -> None:
    found = disks()
    run(found)
    levels = {record.name: record.feature_level for record in read_bootstrap(found["/a"])}
    assert levels == {"metadata.version": 30, "group.version": 1, "transaction.version": 2}


def test_levels_of_0_may_be_named_as_kafka_allows() -> None:
    found = disks()
    run(found, feature_levels={"group.version": 0, "share.version": 0, "transaction.version": 0})
    assert len(read_bootstrap(found["/a"])) == 1


def test_formatted_directories_are_left_alone() -> None:
    found = disks()
    run(found)
    content = {path: found["/a"].content(path) for path in found["/a"].paths()}
    with pytest.raises(ConfigError, match="is already formatted"):
        run(found)
    found["/b"] = SimulatedDisk(1)
    assert [each.path for each in run(found, ignore_formatted=True)] == ["/b"]
    assert {path: found["/a"].content(path) for path in found["/a"].paths()} == content


def test_directories_of_others_are_refused() -> None:
    found = disks()
    run(found)
    with pytest.raises(ConfigError, match="belongs to cluster MkU3OEVBNTcwNTJENDM2Qg, not to other"):
        run(found, cluster_id="other", ignore_formatted=True)
    with pytest.raises(ConfigError, match="belongs to node 1, not to 2"):
        run(found, node_id=2, ignore_formatted=True)
