"""A leader whose address refuses connections is not given the grace of one whose connection broke."""

from __future__ import annotations

from unit.raft.replica_harness import Quorum

from penstock.raft.config import RaftConfig

CONFIG = RaftConfig()


def test_a_leader_whose_process_is_gone_has_no_grace() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.pass_ms(4_000)
    dead = quorum.leader.key.id
    quorum.cut.add(dead)
    for node_id, one in quorum.ones.items():
        if node_id != dead:
            quorum.act(node_id, one.do(one.replica.leader_gone(one.now_ms)))
    quorum.pass_ms(CONFIG.leader_gone_ms + 20)
    assert quorum.leader.key.id != dead
