"""The consensus core: what must be durable before what, with one voter; and golden scripts of whole elections."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from penstock.errors import ConfigError
from penstock.raft.election import ElectionState
from penstock.raft.raft import AppendLeaderChange, Committed, Effect, PersistElection, Raft
from penstock.raft.roles import Candidate, Leader, Resigned, Unattached
from penstock.raft.voters import ReplicaKey, Voter, VoterSet

LOCAL = ReplicaKey(1, UUID(int=0xD1))
SCRIPTS = Path(__file__).with_name("scripts")


def replica(*, epoch: int = 0, log_end_offset: int = 0) -> Raft:
    return Raft(LOCAL, VoterSet([Voter(LOCAL)]), ElectionState(epoch), log_end_offset)


def leader(*, log_end_offset: int = 0) -> Raft:
    raft = replica(log_end_offset=log_end_offset)
    raft.start()
    raft.election_persisted(ElectionState(1, voted=LOCAL))
    return raft


def test_the_only_voter_stands_at_once_in_a_new_epoch_and_persists_its_vote_first() -> None:
    raft = replica(epoch=4)
    assert isinstance(raft.role, Unattached)
    assert raft.start() == [PersistElection(ElectionState(5, voted=LOCAL))]
    assert isinstance(raft.role, Candidate)
    assert not raft.is_leader


def test_it_leads_only_when_its_own_vote_is_durable() -> None:
    raft = replica(epoch=4, log_end_offset=17)
    raft.start()
    assert raft.election_persisted(ElectionState(4)) == []
    assert not raft.is_leader
    assert raft.election_persisted(ElectionState(5, voted=LOCAL)) == [
        PersistElection(ElectionState(5, leader_id=1)),
        AppendLeaderChange(5, 1, (1,), (1,)),
    ]
    assert raft.is_leader
    assert raft.role == Leader(5, LOCAL, (1,), epoch_start_offset=17)


def test_what_is_appended_is_not_committed_before_it_is_flushed() -> None:
    raft = leader()
    raft.appended(1)
    raft.appended(4)
    assert raft.high_watermark is None
    assert raft.flushed(1) == [Committed(1, first=True)]
    assert raft.high_watermark == 1
    assert raft.flushed(4) == [Committed(4, first=False)]
    assert raft.flushed(4) == []


def test_records_of_earlier_epochs_are_committed_only_with_the_first_of_this_one() -> None:
    raft = leader(log_end_offset=10)
    raft.appended(11)
    assert raft.flushed(10) == []
    assert raft.high_watermark is None
    assert raft.flushed(11) == [Committed(11, first=True)]


def test_a_flush_of_more_than_was_appended_is_a_bug() -> None:
    raft = leader()
    raft.appended(1)
    with pytest.raises(AssertionError, match="what is flushed was appended"):
        raft.flushed(2)


def test_the_high_watermark_never_goes_back() -> None:
    raft = leader()
    raft.appended(5)
    raft.flushed(5)
    assert raft.flushed(3) == []
    assert raft.high_watermark == 5


def test_a_resigned_leader_commits_nothing_more() -> None:
    raft = leader()
    raft.appended(1)
    raft.resign()
    assert isinstance(raft.role, Resigned)
    assert raft.flushed(1) == []
    assert raft.high_watermark is None


def test_a_quorum_of_others_or_of_several_is_refused() -> None:
    other = Voter(ReplicaKey(2, UUID(int=0xD2)))
    with pytest.raises(ConfigError, match=r"node 1 .* is not a voter"):
        Raft(LOCAL, VoterSet([other]), ElectionState(), 0)
    with pytest.raises(ConfigError, match="has 2 voters: only one, this node, is supported so far"):
        Raft(LOCAL, VoterSet([Voter(LOCAL), other]), ElectionState(), 0)


def test_a_voter_with_another_directory_is_not_this_voter() -> None:
    elsewhere = Voter(ReplicaKey(1, UUID(int=0xBAD)))
    with pytest.raises(ConfigError, match="is not a voter"):
        Raft(LOCAL, VoterSet([elsewhere]), ElectionState(), 0)
    static = Voter(ReplicaKey(1))
    assert Raft(LOCAL, VoterSet([static]), ElectionState(), 0).epoch == 0


def test_the_quorum_describes_itself() -> None:
    raft = leader()
    raft.appended(3)
    raft.flushed(3)
    described = raft.describe()
    assert (described.leader_id, described.epoch, described.high_watermark) == (1, 1, 3)
    assert [(voter.key.id, voter.log_end_offset) for voter in described.voters] == [(1, 3)]


# Golden scripts: `> event` lines in, effects as lines out.


def shown(effect: Effect) -> str:
    match effect:
        case PersistElection(state):
            voted = "-" if state.voted is None else state.voted.id
            return f"persist epoch={state.epoch} leader={state.leader_id or '-'} voted={voted}"
        case AppendLeaderChange():
            return f"append LeaderChange epoch={effect.epoch} voters={effect.voters} granted={effect.granted}"
        case Committed():
            return f"committed {effect.high_watermark}{' (first of the epoch)' if effect.first else ''}"


def play(script: str) -> str:
    """Runs the events of a script and returns it with the effects that really came."""
    raft: Raft | None = None
    persisting: list[ElectionState] = []
    lines = []
    for line in script.splitlines():
        if not line.startswith(">"):
            continue
        lines.append(line)
        event, *arguments = line[1:].split("#")[0].split()
        effects: list[Effect] = []
        numbers = {name: int(value) for name, value in (argument.split("=") for argument in arguments)}
        if event == "replica":
            raft, persisting = replica(epoch=numbers["epoch"], log_end_offset=numbers["log_end"]), []
        else:
            assert raft is not None, "a script begins with a replica"
            if event == "start":
                effects = raft.start()
            elif event == "persisted":
                effects = raft.election_persisted(persisting.pop(0))
            elif event == "appended":
                raft.appended(numbers["end"])
            elif event == "flushed":
                effects = raft.flushed(numbers["end"])
            else:
                assert event == "resign", f"unknown event {event}"
                raft.resign()
        persisting += [effect.state for effect in effects if isinstance(effect, PersistElection)]
        lines += [shown(effect) for effect in effects]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_golden_script(script: Path) -> None:
    assert play(script.read_text()) == script.read_text()
