"""What `penstock cluster` understands, concludes and prints, without a cluster."""

from __future__ import annotations

import argparse
import asyncio
import io
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from penstock.cli.cluster import describe, moves, reassign, throttle
from penstock.cli.cluster.describe import Seen, brokers_json, described, print_brokers, print_problems, print_summary
from penstock.cli.cluster.directory_moves import DirectoryMove
from penstock.cli.cluster.drain import told_of_rest
from penstock.cli.cluster.elect import confirm, parse_partition, select
from penstock.cli.cluster.features import parse_level, steps
from penstock.cli.cluster.moves import progress_line
from penstock.cli.cluster.quorum import quorum_json
from penstock.cli.cluster.rolling_restart import command_for, objections_to, ordered, what_lacks
from penstock.cli.cluster.throttle import rate, throttled_replicas
from penstock.cli.cluster.unregister import check as unregister
from penstock.cli.cluster.words import parse_ids
from penstock.cli.main import main
from penstock.client.client import Client
from penstock.client.cluster import BrokerState, ClusterState, NoControllerError, Ongoing, QuorumReplica, QuorumState
from penstock.client.features import FeatureState, UpgradeType
from penstock.client.view import PartitionView, View
from penstock.errors import ErrorCode, RequestError, UsageError


def partition(
    index: int = 0,
    in_sync: tuple[int, ...] = (1, 2, 3),
    *,
    topic: str = "t",
    leader: int = 1,
    replicas: tuple[int, ...] = (1, 2, 3),
    adding: tuple[int, ...] = (),
    minimum: int = 2,
) -> PartitionView:
    return PartitionView(topic, index, leader, replicas, in_sync, adding, minimum)


def view(
    *partitions: PartitionView, fenced: tuple[int, ...] = (), moving: dict[tuple[str, int], Ongoing] | None = None
) -> View:
    brokers = tuple(BrokerState(id_, f"host{id_}", 9092, f"rack{id_}", id_ in fenced) for id_ in (1, 2, 3))
    return View(ClusterState("the-id", brokers), partitions, len({each.topic for each in partitions}), moving or {})


def quorum(*voters: QuorumReplica, leader: int = 2) -> QuorumState:
    found = voters or tuple(QuorumReplica(id_, 100, 5000, 5000) for id_ in (1, 2, 3))
    return QuorumState(leader, 7, 100, found, (), {voter.id: f"host{voter.id}:9093" for voter in found})


def test_a_controller_that_is_lost_between_two_questions_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = view(partition())

    async def led(client: object) -> QuorumState:
        return quorum()

    async def looked(client: object, *, moves: bool = True, partly: bool = False) -> View:
        assert partly, "what this user may not see is left out"
        if moves:
            raise NoControllerError("host1:9092")
        return seen

    async def silent(client: Client, view: View) -> frozenset[int]:
        return frozenset({2, 3})

    monkeypatch.setattr(describe, "quorum_of", led)
    monkeypatch.setattr(describe, "look", looked)
    monkeypatch.setattr(describe, "silent_of", silent)
    assert asyncio.run(describe.known(Client("host1:9092"))) == Seen(seen, None, frozenset({2, 3}))


def test_a_partition_is_judged_as_kafkas_tools_do() -> None:
    whole, lagging = partition(), partition(1, (1, 2))
    stuck, dead = partition(2, (1,)), partition(3, (1,), leader=-1)
    growing = partition(4, (1, 2), replicas=(1, 2, 3), adding=(3,))
    seen = view(whole, lagging, stuck, dead, growing)
    found = {name: [each.index for each in seen.with_problem(name)] for name in ("under_replicated", "at_min_isr")}
    assert found == {"under_replicated": [1, 2, 3], "at_min_isr": [1, 4]}
    assert [each.index for each in seen.with_problem("under_min_isr")] == [2, 3]
    assert [each.index for each in seen.with_problem("offline")] == [3]


def test_the_summary_counts_and_lists_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    seen = view(partition(), partition(1, (1,)), partition(2, (3,), leader=-1), fenced=(3,))
    print_summary(Seen(seen, quorum()))
    print_problems(seen)
    out = capsys.readouterr().out
    assert "controller  2, epoch 7, voters 1,2,3\n" in out
    assert "brokers 3 (1 fenced), topics 1, partitions 3, replicas 9\n" in out
    assert "under-replicated 2, at min ISR 0, under min ISR 2, offline 1\n            being moved 0\n" in out
    assert out.splitlines()[-2:] == [
        "t-2        offline          none  1,2,3     3",
        "t-1        under min ISR       1  1,2,3     1",
    ]


def test_a_quorum_without_a_leader_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(Seen(view(), None))
    out = capsys.readouterr().out
    assert "none: more than half of the controllers must be up" in out
    assert "being moved unknown" in out
    assert described(Seen(view(), None))["controller"] is None
    assert described(Seen(view(), None))["reassignments"] is None
    assert described(Seen(view(), None))["not_seen"] == []


def test_who_may_not_see_the_quorum_is_not_told_that_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(client: object) -> QuorumState:
        raise RequestError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not allowed")

    async def looked(client: object, *, moves: bool = True, partly: bool = False) -> View:
        assert not moves, "that may not be asked either"
        return replace(view(partition()), without_minimum=frozenset({"t"}))

    monkeypatch.setattr(describe, "quorum_of", refused)
    monkeypatch.setattr(describe, "look", looked)
    seen = asyncio.run(describe.known(Client("host1:9092")))
    assert [each.partition(",")[0] for each in seen.not_seen] == ["controller", "min.insync.replicas of 1 topics"]


def test_without_a_controller_brokers_are_up_that_answer_us(capsys: pytest.CaptureFixture[str]) -> None:
    print_brokers(Seen(view(fenced=(3,)), None, frozenset({2, 3})), None)
    assert ["no answer" in line for line in capsys.readouterr().out.splitlines()[1:]] == [False, True, True]
    assert [each["silent"] for each in brokers_json(Seen(view(), None, frozenset({2})), None)] == [False, True, False]


def test_what_a_drained_broker_leaves_without_a_leader_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    seen = view(partition(leader=-1, in_sync=(2,), replicas=(2,)), partition(1), fenced=(2,))
    told = told_of_rest(argparse.Namespace(json=False, replicas=False), seen, 2)
    assert told == {"leaders": 0, "replicas": 2, "left": 1}
    assert "unavailable until the broker is up, and impossible to copy: t-0" in capsys.readouterr().out


def test_a_broker_is_forgotten_that_is_down_and_has_nothing() -> None:
    unregister(view(partition(replicas=(1, 2)), fenced=(3,)), 3, sure=False)
    with pytest.raises(UsageError, match="there is no broker 7"):
        unregister(view(), 7, sure=True)
    with pytest.raises(UsageError, match="broker 3 is up: drain and stop it first"):
        unregister(view(), 3, sure=True)
    with pytest.raises(UsageError, match=r"broker 3 still has replicas of t-0, t-1\n.* drain 3 --replicas"):
        unregister(view(partition(), partition(1), fenced=(3,)), 3, sure=False)
    unregister(view(partition(), fenced=(3,)), 3, sure=True)


def test_a_level_is_a_number_or_the_name_of_a_metadata_version() -> None:
    assert parse_level("metadata.version=4.0") == ("metadata.version", 25)
    assert parse_level("metadata.version=4.2-IV0") == ("metadata.version", 28)
    assert parse_level("eligible.leader.replicas.version=1") == ("eligible.leader.replicas.version", 1)
    for text, said in (
        ("metadata.version", "it must be NAME=LEVEL"),
        ("=1", "it must be NAME=LEVEL"),
        ("group.version=new", "the level must be a number"),
        ("metadata.version=5.7", "unknown metadata.version 5.7: supported are 4.0-IV3"),
    ):
        with pytest.raises(UsageError, match=said):
            parse_level(text)


def test_a_level_goes_up_or_down_or_stays() -> None:
    states = [FeatureState("a", 1, 0, 2), FeatureState("b", 1, 0, 1)]
    assert steps(states, {"a": 2, "b": 1}, unsafe=False) == {"a": (2, UpgradeType.UPGRADE)}
    assert steps(states, {"a": 0}, unsafe=False) == {"a": (0, UpgradeType.SAFE_DOWNGRADE)}
    assert steps(states, {"a": 0}, unsafe=True) == {"a": (0, UpgradeType.UNSAFE_DOWNGRADE)}
    with pytest.raises(UsageError, match="there is no feature c: the cluster has a, b"):
        steps(states, {"c": 1}, unsafe=False)


def test_a_brokers_share_counts_what_it_leads_and_where_it_lags() -> None:
    shares = view(partition(), partition(1, (2,), leader=2), partition(2, (7,), leader=7, replicas=(7,))).shares()
    first, second, gone = shares[1], shares[2], shares[7]
    assert (first.leaders, first.preferred, first.replicas, first.out_of_sync) == (1, 2, 2, 1)
    assert (second.leaders, second.preferred, second.replicas, second.out_of_sync) == (1, 0, 2, 0)
    assert (gone.leaders, gone.replicas) == (1, 1)


def test_replicas_of_what_moves_are_those_that_it_will_have() -> None:
    moving = {("t", 0): Ongoing((3, 1, 2), (3,), (1,))}
    assert view(partition(replicas=(3, 1, 2)), moving=moving).replicas == {("t", 0): (3, 2)}


def test_the_lag_of_a_voter_is_measured_against_the_leader() -> None:
    described = quorum_json(
        quorum(QuorumReplica(1, 90, 4000, 3500), QuorumReplica(2, 100, -1, 5000), QuorumReplica(3, 0, -1, -1))
    )
    lags = {voter["id"]: (voter["lag"], voter["lag_ms"]) for voter in described["voters"]}
    assert lags == {1: (10, 1500), 2: (0, 0), 3: (100, None)}


@pytest.mark.parametrize("text", ["", "1,", "one", "1;2", "-1"])
def test_ids_that_are_none_say_what_would_be(text: str) -> None:
    with pytest.raises(UsageError, match=r"--to .*: it must be ids such as 1,2,3"):
        parse_ids(text, "--to")


def test_an_id_is_given_once() -> None:
    assert parse_ids("3, 1,2", "--to") == (3, 1, 2)
    with pytest.raises(UsageError, match="an id is there twice"):
        parse_ids("1,2,1", "--to")


def test_partitions_are_named_by_topic_or_one_by_one() -> None:
    seen = view(partition(), partition(1), partition(0, topic="u"))
    assert [each.key for each in select(seen, [parse_partition("t:1"), parse_partition("u")])] == [("t", 1), ("u", 0)]
    assert len(select(seen, [])) == 3
    with pytest.raises(UsageError, match="t:7: the topic has partitions 0 to 1"):
        select(seen, [parse_partition("t:7")])
    with pytest.raises(UsageError, match="t:x: it must be TOPIC or TOPIC:PARTITION"):
        parse_partition("t:x")


def test_an_unclean_election_is_not_done_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(UsageError, match=r"--yes says that this is meant \(t-0\)"):
        confirm([partition()])


@pytest.mark.parametrize(
    ("answer", "meant"), [("y\n", True), ("YES\n", True), ("\n", False), ("n\n", False), ("", False)]
)
def test_an_unclean_election_asks_a_person(answer: str, meant: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Person(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Person(answer))
    if meant:
        confirm([partition()])
    else:
        with pytest.raises(UsageError, match="nothing was changed"):
            confirm([partition()])


def test_the_bar_is_full_when_nothing_is_left() -> None:
    assert progress_line(4, 4, 0, 0) == f"[{'.' * 30}] 0 of 4 partitions"
    assert progress_line(4, 2, 512, 1024) == f"[{'#' * 22}{'.' * 8}] 2 of 4 partitions, 512 B of 1.0 KiB of the others"
    assert progress_line(4, 0, 0, 0) == f"[{'#' * 30}] 4 of 4 partitions"
    assert progress_line(4, 4, 0, 0, [2, 3]).endswith("0 of 4 partitions; not up: broker 2,3")


def test_the_active_controller_is_restarted_last_and_controllers_too() -> None:
    voters = tuple(QuorumReplica(id_, 100, 5000, 5000) for id_ in (2, 9))
    nodes = ordered(view(), quorum(*voters), None)
    assert [(node.id, node.is_broker, node.address) for node in nodes] == [
        (1, True, "host1:9092"),
        (3, True, "host3:9092"),
        (9, False, "host9:9093"),
        (2, True, "host2:9092"),
    ]
    assert [node.id for node in ordered(view(), quorum(), "3,2")] == [3, 2]
    with pytest.raises(UsageError, match="there is no node 8, the cluster has 1,2,3"):
        ordered(view(), quorum(), "8")


def test_what_a_restart_would_make_unavailable_is_said_before() -> None:
    seen = view(
        partition(topic="safe"),
        partition(topic="single", replicas=(2,), in_sync=(2,), minimum=1),
        partition(topic="strict", minimum=3),
        partition(topic="elsewhere", replicas=(1,), in_sync=(1,), minimum=1),
    )
    nodes = ordered(seen, quorum(), "2,3")
    assert objections_to(seen, quorum(), nodes) == [
        "topics with a single replica are away with its node: single",
        "topics whose min.insync.replicas is all replicas take no acks=all meanwhile: strict",
    ]
    alone = quorum(QuorumReplica(2, 100, -1, 5000))
    assert "the quorum has 1 voters: there is no controller while one is away" in objections_to(seen, alone, nodes)


def test_a_restart_waits_for_brokers_partitions_and_voters() -> None:
    assert what_lacks(view(partition()), quorum(), None) is None
    assert what_lacks(view(fenced=(2, 3)), quorum(), None) == "brokers are fenced: 2,3"
    assert what_lacks(view(partition(4, (1, 2))), quorum(), None) == "1 partitions are not in sync, t-4 for one"
    late = quorum(QuorumReplica(1, 100, 5000, 1000), QuorumReplica(2, 100, -1, 5000))
    assert what_lacks(view(), late, None) == "voter 1 has not caught up"


def test_a_throttle_is_bytes_a_second() -> None:
    assert [rate(text) for text in ("500000", "10M", "2k", "1GB")] == [500_000, 10 << 20, 2 << 10, 1 << 30]
    for text in ("fast", "0", "-1", "1.5M", "10MM", ""):
        with pytest.raises(argparse.ArgumentTypeError, match="bytes a second"):
            rate(text)


@pytest.mark.parametrize("refused", [0, 1])
def test_a_throttle_goes_when_nothing_moves_any_more_also_when_some_was_refused(
    monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    done: list[str] = []

    async def note(what: str) -> int:
        done.append(what)
        return refused

    monkeypatch.setattr(throttle, "begin", lambda *_: note("begin"))
    monkeypatch.setattr(throttle, "end", lambda *_: note("end"))
    monkeypatch.setattr(reassign, "carry_out", lambda *_, **__: note("moved"))
    arguments = argparse.Namespace(throttle=1, dry_run=False, json=True, no_wait=False)
    plan = {("t", 0): (2, 3)}
    code = asyncio.run(reassign.throttled(None, arguments, view(partition()), plan))  # type: ignore[arg-type]
    assert (code, done) == (refused, ["begin", "moved", "end"])


def test_a_partition_stays_where_its_new_broker_refuses_the_directory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It moved all the same, to any directory; nobody watched it, and its throttle was taken away under it."""
    seen = view(partition(0, replicas=(1,)), partition(1, replicas=(1,)))
    begun: list[tuple[str, int]] = []

    async def refuse(*_: object, **__: object) -> list[tuple[tuple[str, int], RequestError]]:
        return [(("t", 0), RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "t-0: /b is cordoned"))]

    async def begin(_: object, plan: dict[tuple[str, int], tuple[int, ...]]) -> list[object]:
        begun.extend(plan)
        return []

    async def no_bytes(*_: object) -> int:
        return 0

    monkeypatch.setattr(moves, "begin_directory_moves", refuse)
    monkeypatch.setattr(moves, "begin", begin)
    monkeypatch.setattr(moves, "bytes_to_copy", no_bytes)
    arguments = argparse.Namespace(json=True, dry_run=False, no_wait=True, save=None)
    plan = {("t", 0): (2,), ("t", 1): (2,)}
    directories = [DirectoryMove("t", 0, 2, None, "/b")]
    code = asyncio.run(moves.carry_out(None, arguments, seen, plan, directories=directories))  # type: ignore[arg-type]
    assert (code, begun) == (1, [("t", 1)])
    assert "t-0: /b is cordoned" in capsys.readouterr().err


def test_a_plan_that_is_under_way_already_is_waited_for_as_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same plan again, of which nothing is to change: it was said to be done while its replicas were coming."""
    seen = view(partition(0, replicas=(1,)), moving={("t", 0): Ongoing((1, 2), (2,), (1,))})
    awaited: list[object] = []

    async def no_errors(*_: object, **__: object) -> list[object]:
        return []

    async def watch(_: object, keys: Iterable[tuple[str, int]]) -> None:
        awaited.extend(keys)

    async def watch_directories(_: object, coming: Sequence[DirectoryMove]) -> None:
        awaited.extend(coming)

    monkeypatch.setattr(moves, "begin_directory_moves", no_errors)
    monkeypatch.setattr(moves, "begin", no_errors)
    monkeypatch.setattr(moves, "watch", watch)
    monkeypatch.setattr(moves, "watch_directory_moves", watch_directories)
    arguments = argparse.Namespace(json=True, dry_run=False, no_wait=False, save=None)
    move = DirectoryMove("t", 0, 2, None, "/b")
    assert asyncio.run(moves.carry_out(None, arguments, seen, {}, directories=[move])) == 0  # type: ignore[arg-type]
    assert awaited == [("t", 0), move]
    assert '"state": "done"' in capsys.readouterr().out


def test_a_throttle_names_old_replicas_for_leaders_and_new_ones_for_followers() -> None:
    before, plan = {("t", 0): (1, 2), ("t", 1): (1,)}, {("t", 0): (2, 3), ("t", 1): (1, 3)}
    assert throttled_replicas(before, plan) == {"t": (["0:1", "0:2", "1:1"], ["0:3", "1:3"])}


def test_a_command_names_its_node_and_keeps_the_shells_braces() -> None:
    node = ordered(view(), quorum(), "3")[0]
    arguments = argparse.Namespace(shell_command="ssh {host} 'restart ${x} penstock@{id}' {port}")
    assert command_for(arguments, node) == "ssh host3 'restart ${x} penstock@3' 9092"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("reassign",), "say where to: --to 1,2,3 or --plan FILE or --replication-factor N"),
        (("reassign", "--replication-factor", "0"), "--replication-factor 0: it must be at least 1"),
        (("reassign", "--cancel", "--replication-factor", "2"), "--replication-factor goes with --to or alone"),
        (("reassign", "--plan", "x", "--topic", "t"), "--topic does not go with --plan"),
        (("reassign", "--watch", "--save", "x"), "--save goes with a plan only"),
        (("reassign", "--cancel", "--throttle", "1M"), "--throttle goes with a plan only"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else None,
)
def test_what_does_not_go_together_is_said(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cluster", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {said}")
    assert error.count("\n") == 1
