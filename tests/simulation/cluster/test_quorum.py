"""The metadata quorum of whole clusters: its upgrade, its sign of life, and how soon brokers find its next leader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from penstock.errors import ErrorCode
from penstock.node.handlers import raft
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from simulator.cluster.scenarios import SCENARIOS
from simulator.cluster.voter_admins import VoterAdmin
from simulator.cluster.world import ClusterWorld
from simulator.world.machine import Machine

FOUND_WITHIN_MS = 800
"""From the death of the active controller until every broker has heard of the next: the grace of its voters, an
election, and the broker's question."""


def started(name: str, seed: int = 1) -> ClusterWorld:
    world = ClusterWorld(seed, SCENARIOS[name])
    world._boot()
    return world


def pass_ms(world: ClusterWorld, milliseconds: int) -> None:
    world.simulation.run(world.simulation.now_ms + milliseconds)


def active(world: ClusterWorld) -> Machine:
    (found,) = [machine for machine in world.machines if machine.running and machine.broker.controller.active]
    return found


def upgrade(world: ClusterWorld, level: int = 1, *, validate_only: bool = False) -> Any:
    """Asks any node for a kraft.version."""
    answers: list[Any] = []
    key = FeatureUpdateKey(feature="kraft.version", max_version_level=level, upgrade_type=1)
    request = UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[key], validate_only=validate_only)
    world.load.client("administrator").ask_any(request, 2, answers.append)
    world._wait_until(lambda: bool(answers), 20_000, "an administrator is answered", str)
    return answers[0]


def finalized(world: ClusterWorld) -> dict[str, int]:
    """The levels as a client is told of them."""
    answers: list[Any] = []
    request = ApiVersionsRequest(client_software_name="client", client_software_version="1")
    world.load.client("client").ask_any(request, 4, answers.append)
    world._wait_until(lambda: bool(answers), 20_000, "a client is answered", str)
    return {each.name: each.max_version_level for each in answers[0].finalized_features}


def versions(world: ClusterWorld) -> list[int]:
    return [machine.broker.quorum.kraft_version for machine in world.machines]


def test_a_static_quorum_becomes_a_dynamic_one_by_request() -> None:
    world = started("calm")
    pass_ms(world, 3_000)
    assert upgrade(world, validate_only=True).error_code == ErrorCode.NONE
    assert set(versions(world)) == {0}
    assert "kraft.version" not in finalized(world)
    assert upgrade(world).error_code == ErrorCode.NONE
    pass_ms(world, 1_000)
    assert set(versions(world)) == {1}
    expected = {
        (machine.settings.node_id, machine.broker.quorum.local.directory_id)
        for machine in world.machines
        if machine.settings.is_controller
    }
    assert world._voters() == expected
    assert finalized(world)["kraft.version"] == 1
    assert upgrade(world).error_code == ErrorCode.NONE
    lowered = upgrade(world, 0)
    assert lowered.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "kraft.version" in lowered.error_message


def test_an_upgraded_quorum_comes_back_from_its_disks() -> None:
    world = started("calm", 2)
    pass_ms(world, 3_000)
    assert upgrade(world).error_code == ErrorCode.NONE
    expected = world._voters()
    for machine in world.machines:
        machine.kill()
    world._wait_until(world._all_ready, 30_000, "a cluster starts again", world._unready)
    pass_ms(world, 1_000)
    assert set(versions(world)) == {1}
    assert world._voters() == expected


def test_a_quorum_of_which_not_all_are_up_is_not_upgraded() -> None:
    world = started("roles", 3)
    silent = next(each for each in world.machines if each.settings.is_controller and each is not active(world))
    silent.restart_delay_ms = 3_600_000
    silent.kill()
    pass_ms(world, 200)
    controller = active(world)
    controller.do(lambda node: node.quorum.resign(node.now_ms))  # the next leader has not heard of it
    pass_ms(world, 6_000)
    answer = upgrade(world)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert f"voters [{silent.settings.node_id}] have not yet told the leader" in answer.error_message


class Joining(ClusterWorld):
    """A dynamic quorum that is formatted with one voter, and that the other controllers join by themselves."""

    def _settings(self, controller_ids: Sequence[int]) -> dict[str, Any]:
        return {**super()._settings(controller_ids), "controller_quorum_auto_join_enable": True}

    def _first_voters(self, admin: VoterAdmin) -> None:
        self._wait_until(lambda: self._voters() == self.controllers(), 30_000, "all controllers join", str)

    def controllers(self) -> set[tuple[int, UUID]]:
        """All that shall vote, with their directories."""
        return {
            (machine.settings.node_id, machine.broker.quorum.local.directory_id)
            for machine in self.machines
            if machine.settings.is_controller
        }


def test_controllers_join_a_dynamic_quorum_by_themselves() -> None:
    world = Joining(1, SCENARIOS["voters"])
    world._boot()
    assert len(world._voters()) >= 3
    for machine in world.machines:
        machine.kill()
    world._wait_until(world._all_ready, 30_000, "a cluster starts again", world._unready)
    assert world._voters() == world.controllers()


def test_voters_that_know_no_pre_votes_elect_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of Kafka before 4.0, which serve Vote 0-1."""
    (handler,) = [each for each in raft.HANDLERS if each.key is ApiKey.VOTE]
    monkeypatch.setattr(handler, "max_version", 1)
    world = started("roles")
    dead = active(world)
    dead.restart_delay_ms = 3_600_000
    dead.kill()
    world._wait_until(
        lambda: any(machine.running and machine.broker.controller.active for machine in world.machines),
        10_000,
        "another voter is elected",
        str,
    )


def test_a_cluster_that_is_idle_moves_on_all_the_same() -> None:
    world = started("roles")
    pass_ms(world, 2_000)
    before = [machine.broker.image.offset for machine in world.machines]
    pass_ms(world, 5_000)
    moved = [machine.broker.image.offset - offset for machine, offset in zip(world.machines, before, strict=True)]
    assert all(9 <= each <= 11 for each in moved)


@pytest.mark.parametrize("seed", range(1, 6))
def test_brokers_find_the_next_controller_soon(seed: int) -> None:
    world = started("roles", seed)
    pass_ms(world, 2_000)
    dead = active(world)
    dead.restart_delay_ms = 3_600_000
    dead.kill(power_failed=False)
    brokers = [machine for machine in world.machines if machine.settings.is_broker]
    started_ms = world.simulation.now_ms

    def found() -> bool:
        peers = [machine.broker.channel.controller for machine in brokers]
        return all(peer is not None and peer.node_id != dead.settings.node_id for peer in peers)

    while not found():
        pass_ms(world, 5)
        assert world.simulation.now_ms - started_ms <= FOUND_WITHIN_MS
