"""Histories of what no well-behaved client does, each told by a `Raw`: the same to Penstock and to Apache Kafka.

A history is a function that tells what came of each of its steps. `HISTORIES` are all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from interop.transactions.raw import GROUP, Id, Raw, codes

from penstock.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.delete_groups_request import DeleteGroupsRequest
from penstock.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from penstock.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from penstock.protocol.messages.end_txn_request import EndTxnRequest
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.protocol.messages.list_transactions_request import ListTransactionsRequest

ADDING, OFFSETS, ENDING, COMMITTING = range(4), range(5), range(6), range(6)
"""Versions of AddPartitionsToTxn by clients, AddOffsetsToTxn, EndTxn and TxnOffsetCommit."""
PRODUCERS = 100
HIGHEST_EPOCH = 32_767
MAX_TIMEOUT_MS = 900_000
"""transaction.max.timeout.ms by default."""

History = Callable[[Raw], None]


def each_request(raw: Raw, who: str, producer: Id, topic: str, group: str) -> None:
    """What a producer could ask for, in every version, by one that is not who it says."""
    for version in ADDING:
        raw.tell(f"{who} adds a partition, version {version}", raw.add(producer, {topic: [0]}, version))
    for version in OFFSETS:
        raw.tell(f"{who} adds a group, version {version}", raw.add_offsets(producer, group, version))
    for version in COMMITTING:
        answer = raw.commit_offsets(producer, group, topic, version=version)
        raw.tell(f"{who} commits offsets, version {version}", answer)
    for version in ENDING:
        for commit in (True, False):
            raw.tell(f"{who} ends ({commit}), version {version}", raw.end(producer, commit=commit, version=version))
    for verify_only in (True, False):
        answer = raw.add_several((producer, {topic: [0]}, verify_only))
        raw.tell(f"{who} is added by a broker, verified {verify_only}", answer)
    for version in (9, 11, 12):
        raw.tell(f"{who} produces, version {version}", raw.produce(producer, topic, version=version))


def wrong_epochs(raw: Raw) -> None:
    """An older epoch, a newer one, and no epoch at all."""
    topic, group = raw.create_topic("epochs"), raw.name("group")
    for _ in range(3):
        producer = raw.initialised("epochs")
    for change in (-1, 1):
        impostor = producer.with_epoch(producer.producer_epoch + change)
        each_request(raw, f"epoch {change:+}", impostor, topic, group)
    for epoch in (-1, HIGHEST_EPOCH):
        raw.tell(f"epoch {epoch} ends", raw.end(producer.with_epoch(epoch)))
        raw.tell(f"epoch {epoch} adds", raw.add(producer.with_epoch(epoch), {topic: [0]}))
    raw.tell("the right one adds", raw.add(producer, {topic: [0]}))
    each_request(raw, "an older one in a transaction", producer.with_epoch(0), topic, group)
    raw.tell("the right one commits", raw.end(producer))


def unknown_producers(raw: Raw) -> None:
    """Ids that nobody was given, for ids that nobody has, and for one that somebody has."""
    topic, group = raw.create_topic("unknown"), raw.name("group")
    each_request(raw, "nobody", Id(raw.name("nobody"), 123_456_789, 0), topic, group)
    known = raw.initialised("known")
    stranger = Id(known.transactional_id, known.producer_id + 1_000_000, known.producer_epoch)
    each_request(raw, "a stranger", stranger, topic, group)
    for number in (-1, -2, 2**62):
        other = Id(known.transactional_id, number, 0)
        raw.tell(f"producer {number} adds", raw.add(other, {topic: [0]}))
        raw.tell(f"producer {number} ends", raw.end(other))
        raw.tell(f"producer {number} is added by a broker", raw.add_several((other, {topic: [0]}, True)))
    empty = Id("", known.producer_id, known.producer_epoch)
    raw.tell("an empty id adds", raw.add(empty, {topic: [0]}))
    raw.tell("an empty id adds a group", raw.add_offsets(empty, group))
    raw.tell("an empty id ends", raw.end(empty))
    raw.tell("an empty id commits offsets", raw.commit_offsets(empty, group, topic))
    raw.tell("an empty id is added by a broker", raw.add_several((empty, {topic: [0]}, True)))


def topics_that_are_not_there(raw: Raw) -> None:
    """A topic that never was, one more partition than there are, and good ones beside them."""
    topic, missing = raw.create_topic("there"), raw.name("never")
    producer = raw.initialised("topics")
    for version in ADDING:
        raw.tell(f"an unknown topic, version {version}", raw.add(producer, {missing: [0]}, version))
        raw.tell(f"an unknown partition, version {version}", raw.add(producer, {topic: [7]}, version))
        raw.tell(f"a negative partition, version {version}", raw.add(producer, {topic: [-1]}, version))
        raw.tell(f"good and bad, version {version}", raw.add(producer, {topic: [0], missing: [0, 1]}, version))
        raw.tell(f"no topic, version {version}", raw.add(producer, {}, version))
        raw.tell(f"no partition, version {version}", raw.add(producer, {topic: []}, version))
    raw.tell("a bad name", raw.add(producer, {"a/b": [0], "": [0]}))
    raw.tell("internal topics", raw.add(producer, {"__transaction_state": [0], "__cluster_metadata": [0]}))
    raw.tell("of a broker", raw.add_several((producer, {missing: [0], topic: [0, 7]}, False)))
    raw.tell("the state", raw.state(producer.transactional_id).transaction_state)
    raw.tell("nothing was added: an end", raw.end(producer))
    for version in (11, 12):
        raw.tell(f"produce to an unknown topic, version {version}", raw.produce(producer, missing, version=version))
        answer = raw.produce(producer, topic, 7, version=version)
        raw.tell(f"produce to an unknown partition, version {version}", answer)
    answer = raw.commit_offsets(producer, raw.name("group"), missing, version=5)
    raw.tell("offsets of an unknown topic", answer)
    raw.tell("the end of it", raw.end(producer))


def deleted_and_made_again(raw: Raw) -> None:
    """A topic goes, and comes again by the same name, in the middle of transactions, which end nevertheless."""
    for commit in (True, False):
        for again in (False, True):
            name = f"gone-{commit}-{again}"
            doomed, other = raw.create_topic(name), raw.create_topic(f"{name}-other")
            producer = raw.begun(name, doomed)
            raw.tell("another is added", raw.add(producer, {other: [0]}))
            raw.tell("it is written to", raw.produce(producer, other))
            raw.delete_topic(doomed)
            if again:
                raw.create_topic(name)
                for version in (11, 12):
                    raw.tell(
                        f"a record for the new one, version {version}", raw.produce(producer, doomed, version=version)
                    )
            else:
                for version in (11, 12):
                    raw.tell(f"a record for none, version {version}", raw.produce(producer, doomed, version=version))
            raw.tell("its end", raw.end(producer, commit=commit, version=4))
            state = raw.wait_for_state(producer, "CompleteCommit", "CompleteAbort")
            raw.tell("its state", (state.transaction_state, len(state.topics)))
            raw.tell("what is stable of the other", raw.end_offset(other))
            if again:
                raw.tell("what is stable of the new one", raw.end_offset(doomed))
            raw.tell("the next one begins", raw.add(raw.initialised(name), {other: [0]}))


def ends_in_the_wrong_state(raw: Raw) -> None:
    """Nothing has begun, it has ended so, it has ended otherwise: in every version."""
    topic = raw.create_topic("ends")
    for version in ENDING:
        producer = raw.initialised(f"ends-{version}")
        for commit in (True, False):
            answer = raw.end(producer, commit=commit, version=version)
            raw.tell(f"nothing has begun, {commit}, version {version}", answer)
        for first in (True, False):
            producer = raw.initialised(f"ends-{version}")
            raw.add(producer, {topic: [0]})
            answer = raw.end(producer, commit=first, version=version)
            raw.tell(f"it ends {first}, version {version}", answer)
            raw.tell("the epoch grows by", answer.producer_epoch - producer.producer_epoch if version >= 5 else "?")
            for second in (first, not first, first):
                answer = raw.end(producer, commit=second, version=version)
                raw.tell(f"it ends again {second}, version {version}", answer)
            grown = producer.with_epoch(producer.producer_epoch + 1)
            raw.tell(f"with the next epoch, version {version}", raw.end(grown, version=version))
            raw.tell("the state", raw.state(producer.transactional_id).transaction_state)
            raw.tell("the old epoch adds", raw.add(producer, {topic: [0]}))


def illegal_timeouts(raw: Raw) -> None:
    """None at all, a negative one, and more than the broker allows."""
    for version in range(6):
        for timeout_ms in (0, -1, -(2**31), 1, MAX_TIMEOUT_MS, MAX_TIMEOUT_MS + 1, 2**31 - 1):
            name = raw.name(f"timeout-{version}-{timeout_ms}")
            raw.tell(f"{timeout_ms} ms, version {version}", raw.init(name, timeout_ms, version=version))
    raw.tell("none, without an id", raw.init(None, 0))
    raw.tell("negative, without an id", raw.init(None, -1))
    raw.tell("an empty id", raw.init("", 1000))


def who_a_producer_was(raw: Raw) -> None:
    """A producer that asks for the next epoch with the one that it has (KIP-360), or with one that it has not."""
    topic = raw.create_topic("was")
    name = raw.name("was")
    for _ in range(3):
        producer = raw.initialised("was")
    for change in (-2, -1, 0, 1, -1, 0):
        was = producer.with_epoch(producer.producer_epoch + change)
        answer = raw.init(name, was=was)
        raw.tell(f"it had {change:+}", answer)
        raw.tell("it has", answer.producer_epoch - producer.producer_epoch if answer.producer_id >= 0 else "nothing")
        raw.tell("the id is the same", answer.producer_id == producer.producer_id)
    raw.tell("another id", raw.init(name, was=Id(name, producer.producer_id + 500_000, 0)))
    raw.tell("a new id with a past", raw.init(raw.name("was-new"), was=Id("", producer.producer_id, 5)))
    for producer_id, epoch in ((producer.producer_id, -1), (-1, 5), (-5, 5), (producer.producer_id, -7)):
        raw.tell(f"{producer_id >= 0}, {epoch}", raw.init(name, was=Id(name, producer_id, epoch)))
    running = raw.begun("was-running", topic)
    answer = raw.init(running.transactional_id, was=running)
    raw.tell("in a transaction", answer)
    raw.tell("its epoch grows by", answer.producer_epoch - running.producer_epoch)
    raw.tell("what it had is aborted", raw.wait_for_state(running, "CompleteAbort", "Empty").transaction_state)
    raw.tell("what it was ends", raw.end(running))


def markers_of_strangers(raw: Raw) -> None:
    """Markers for producers that nobody knows, by coordinators of the past, and to what is not there."""
    topic = raw.create_topic("marked", 2)
    for version in (1, 2):
        stranger = Id("", 987_654_321 + version, 3)
        for commit in (True, False):
            raw.tell(
                f"a stranger, {commit}, version {version}",
                raw.markers(stranger, {topic: [0]}, commit=commit, version=version),
            )
        raw.tell("an older epoch of it", raw.markers(stranger.with_epoch(2), {topic: [0]}, version=version))
        raw.tell("a newer epoch of it", raw.markers(stranger.with_epoch(4), {topic: [0]}, version=version))
        raw.tell("a negative epoch", raw.markers(stranger.with_epoch(-1), {topic: [0]}, version=version))
        for where in (
            {raw.name("never"): [0]},
            {topic: [7]},
            {topic: [-1]},
            {"__cluster_metadata": [0]},
            {},
            {topic: []},
        ):
            raw.tell(f"to {len(where)} topics that are not there", raw.markers(stranger, where, version=version))
        raw.tell("to good and bad", raw.markers(stranger, {topic: [0, 1, 7], raw.name("never"): [0]}, version=version))
        raw.tell(
            "the coordinator is newer",
            raw.markers(stranger.with_epoch(5), {topic: [1]}, coordinator_epoch=9, version=version),
        )
        raw.tell(
            "the coordinator is older",
            raw.markers(stranger.with_epoch(5), {topic: [1]}, coordinator_epoch=8, version=version),
        )
    for level in (0, 1, 2, 3, -1):
        producer = raw.begun(f"marked-{level}", topic)
        old = producer.with_epoch(producer.producer_epoch - 1)
        answer = raw.markers(old, {topic: [0]}, version=2, transaction_version=level)
        raw.tell(f"an older epoch, transaction version {level}", answer)
        answer = raw.markers(producer, {topic: [0]}, version=2, transaction_version=level)
        raw.tell(f"the same epoch, transaction version {level}", answer)
        raw.tell("its record after that", raw.produce(producer, topic))
        raw.tell("its end after that", raw.end(producer))
    raw.wait_until_stable(topic)


def offsets_of_dead_groups(raw: Raw) -> None:
    """Groups that never were, that are gone, and members that are not theirs."""
    topic = raw.create_topic("offsets")
    producer = raw.initialised("offsets")
    group = raw.name("dead")
    for version in COMMITTING:
        raw.tell(f"a group is added, version {version}", raw.add_offsets(producer, group, min(version, 4)))
        answer = raw.commit_offsets(producer, group, topic, version=version)
        raw.tell(f"a group that is not there, version {version}", answer)
    for version in (3, 4, 5):
        for fields in (
            {"generation_id": 1},
            {"generation_id": 5, "member_id": "nobody"},
            {"generation_id": -1, "member_id": "nobody"},
            {"generation_id": 5, "member_id": "nobody", "group_instance_id": "static"},
        ):
            answer = raw.commit_offsets(producer, group, topic, version=version, **fields)
            raw.tell(f"{sorted(fields.items())}, version {version}", answer)
        raw.tell("a negative partition", raw.commit_offsets(producer, group, topic, version=version, partition=-1))
        raw.tell("a negative offset", raw.commit_offsets(producer, group, topic, -7, version=version))
        raw.tell("an empty group", raw.commit_offsets(producer, "", topic, version=version))
    raw.tell("an empty group is added", raw.add_offsets(producer, ""))
    raw.tell("it commits", raw.end(producer, version=4))
    raw.tell("the group is deleted", raw.ask_until_settled(DeleteGroupsRequest(groups_names=[group]), 2))
    producer = raw.initialised("offsets")
    raw.tell("it is added", raw.add_offsets(producer, group))
    raw.tell("offsets of the deleted one", raw.commit_offsets(producer, group, topic))
    raw.tell("it is deleted meanwhile", raw.ask_until_settled(DeleteGroupsRequest(groups_names=[group]), 2))
    raw.tell("offsets once more", raw.commit_offsets(producer, group, topic))
    raw.tell("it commits after all", raw.end(producer, version=4))


def offsets_of_consumer_groups(raw: Raw) -> None:
    """A group of the new protocol: epochs and members that are not the group's."""
    topic = raw.create_topic("epochs-of-members")
    producer, group = raw.initialised("members"), raw.name("new")
    raw.find(group, GROUP)
    joining = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="the-member",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )
    joined = raw.ask_until_settled(joining, 1)
    raw.tell("it joins", joined)
    raw.tell("the group is added", raw.add_offsets(producer, group))
    for version in (3, 4, 5):
        for member, change in (("the-member", 0), ("the-member", -1), ("the-member", 1), ("another", 0), ("", 0)):
            fields = {"generation_id": joined.member_epoch + change, "member_id": member}
            answer = raw.commit_offsets(producer, group, topic, version=version, **fields)
            raw.tell(f"{member or 'nobody'} with epoch {change:+}, version {version}", answer)
        raw.tell("nobody without an epoch", raw.commit_offsets(producer, group, topic, version=version))
    raw.tell("it aborts", raw.end(producer, commit=False, version=4))


def one_id_of_many_producers(raw: Raw) -> None:
    """A hundred producers initialise one id, one after the other: only the last may do anything."""
    topic = raw.create_topic("one-id")
    producers = [raw.initialised("one-id") for _ in range(PRODUCERS)]
    raw.tell("they have one producer id", len({each.producer_id for each in producers}))
    raw.tell("their epochs", [each.producer_epoch - producers[0].producer_epoch for each in producers])
    for producer in producers[:-1]:
        raw.tell("an older one adds", raw.add(producer, {topic: [0]}))
        raw.tell("an older one ends", raw.end(producer))
        raw.tell("an older one asks again", raw.init(producer.transactional_id, was=producer))
    raw.tell("the last one adds", raw.add(producers[-1], {topic: [0]}))
    raw.tell("the last one writes", raw.produce(producers[-1], topic))
    raw.tell("the last one commits", raw.end(producers[-1]))


def one_that_never_ends(raw: Raw) -> None:
    """It opens, writes and is silent: it is aborted for it, and what it says later is refused."""
    topic, group = raw.create_topic("open"), raw.name("group")
    for _ in range(2):
        producer = raw.begun("open", topic, timeout_ms=300)
        raw.tell("offsets are added", raw.add_offsets(producer, group))
        raw.tell("and committed", raw.commit_offsets(producer, group, topic))
        state = raw.wait_for_state(producer, "CompleteAbort")
        raw.tell("its epoch has grown by", state.producer_epoch - producer.producer_epoch)
        raw.tell("its partitions", len(state.topics))
        raw.tell("its records", raw.produce(producer, topic))
        raw.tell("its commit", raw.end(producer, version=4))
        raw.tell("its commit of today", raw.end(producer))
        raw.tell("its abort", raw.end(producer, commit=False))
        raw.tell("its offsets", raw.commit_offsets(producer, group, topic))
        raw.tell(
            "what is open",
            len([each for each in raw.producers(topic).active_producers if each.current_txn_start_offset >= 0]),
        )
        raw.tell("it asks again", raw.init(producer.transactional_id, was=producer))
    raw.wait_until_stable(topic)
    raw.tell("what is aborted", len(raw.fetched(topic).aborted_transactions))


def records_out_of_place(raw: Raw) -> None:
    """Records of transactions that have not begun, of partitions that are not theirs, and of no transaction."""
    topic = raw.create_topic("records", 4)
    for version in (3, 9, 11, 12):
        producer = raw.initialised(f"records-{version}")
        raw.tell(f"nothing was added, version {version}", raw.produce(producer, topic, version=version))
        raw.add(producer, {topic: [0]})
        raw.tell("what was added", raw.produce(producer, topic, version=version))
        raw.tell("a partition that was not", raw.produce(producer, topic, 1, version=version))
        raw.tell("a gap", raw.produce(producer, topic, version=version, sequence=50))
        raw.tell("not from the start", raw.produce(producer, topic, 2, version=version, sequence=3))
        raw.tell("again", raw.produce(producer, topic, version=version, sequence=0))
        raw.tell("of no transaction", raw.produce(producer, topic, version=version, is_transactional=False))
        raw.tell("without an id", raw.produce(producer, topic, version=version, transactional_id=None))
        raw.tell(
            "by another id", raw.produce(producer, topic, 3, version=version, transactional_id=raw.name("another"))
        )
        raw.tell("a marker of its own", raw.produce(producer, topic, version=version, is_control=True))
        raw.tell("the end", raw.end(producer, version=4 if version < 12 else 5))
        raw.wait_for_state(producer, "CompleteCommit", "CompleteAbort", "Empty")
        raw.tell("after the end", raw.produce(producer, topic, version=version))
        raw.tell("the end of that", raw.end(producer, version=4 if version < 12 else 5))
        raw.tell("the next one", raw.init(producer.transactional_id))
    raw.wait_until_stable(topic)
    nobody = Id(raw.name("records-nobody"), 55_555_555, 0)
    for version in (11, 12):
        raw.tell(f"of nobody, version {version}", raw.produce(nobody, topic, version=version))
        answer = raw.produce(nobody, topic, 3, version=version, transactional_id=None)
        raw.tell(f"of nobody without an id, version {version}", answer)


def brokers_that_verify(raw: Raw) -> None:
    """AddPartitionsToTxn of several producers at once, of which some are wrong."""
    topic = raw.create_topic("verified", 2)
    good, idle = raw.begun("good", topic), raw.initialised("idle")
    old, nobody = good.with_epoch(good.producer_epoch + 1), Id(raw.name("nobody"), 5, 0)
    for version in (4, 5):
        for verify_only in (True, False):
            answer = raw.add_several(
                (good, {topic: [0, 1]}, True),
                (nobody, {topic: [0]}, verify_only),
                (idle, {topic: [0], raw.name("never"): [0]}, verify_only),
                version=version,
            )
            raw.tell(f"several, {verify_only}, version {version}", answer)
        raw.tell("a newer epoch", raw.add_several((old, {topic: [0]}, True), version=version))
        raw.tell(
            "the same twice", raw.add_several((good, {topic: [0]}, True), (good, {topic: [1]}, True), version=version)
        )
        raw.end(good, version=4)
        raw.tell("ended", raw.add_several((good, {topic: [0]}, True), version=version))


def administrators(raw: Raw) -> None:
    """Lists and descriptions of what is not there, and filters that make no sense."""
    topic = raw.create_topic("described")
    producer = raw.begun("described", topic)
    ids = [producer.transactional_id, raw.name("nobody"), "", producer.transactional_id]
    for found in raw.ask(DescribeTransactionsRequest(transactional_ids=ids), 0).transaction_states:
        raw.tell("described", (ErrorCode(found.error_code).name, found.transaction_state, found.transaction_timeout_ms))
        raw.tell("its topics", [len(each.partitions) for each in found.topics])
    raw.tell("no ids", len(raw.ask(DescribeTransactionsRequest(transactional_ids=[]), 0).transaction_states))
    for states in (["Ongoing"], ["Ongoing", "Sleeping"], ["ongoing"], [""], ["PrepareCommit", "CompleteAbort", "Dead"]):
        answer = raw.ask(ListTransactionsRequest(state_filters=states, producer_id_filters=[]), 0)
        raw.tell(f"states {states}", (ErrorCode(answer.error_code).name, sorted(answer.unknown_state_filters)))
        raw.tell(
            "it is there", producer.transactional_id in [each.transactional_id for each in answer.transaction_states]
        )
    for duration_ms in (-5, 0, 10**9):
        answer = raw.ask(ListTransactionsRequest(duration_filter=duration_ms), 1)
        raw.tell(f"for {duration_ms} ms", ErrorCode(answer.error_code).name)
        raw.tell(
            "it is there", producer.transactional_id in [each.transactional_id for each in answer.transaction_states]
        )
    for pattern in (".*described", "described", "(", "", None, "[a-", "*", raw.prefix + ".{0,20}"):
        answer = raw.ask(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
        said = str(pattern).replace(raw.prefix, "")
        raw.tell(f"by {said}", ErrorCode(answer.error_code).name)
        raw.tell(
            "it is there", producer.transactional_id in [each.transactional_id for each in answer.transaction_states]
        )
    answer = raw.ask(ListTransactionsRequest(producer_id_filters=[-1, producer.producer_id + 10**6]), 0)
    raw.tell("by producers that are not there", (ErrorCode(answer.error_code).name, len(answer.transaction_states)))
    for name, partitions in ((topic, [0, 1, -1]), (raw.name("never"), [0]), ("__cluster_metadata", [0]), ("a/b", [0])):
        asked = DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=partitions)])
        for found in raw.ask(asked, 0).topics[0].partitions:
            raw.tell("producers", (ErrorCode(found.error_code).name, len(found.active_producers)))
    for version in range(7):
        for key in ("", raw.name("described")):
            asked = {"key": key} if version < 4 else {"coordinator_keys": [key]}
            for kind in (1, 7) if version else ():
                answer = raw.ask_until_settled(FindCoordinatorRequest(key_type=kind, **asked), version)
                raw.tell(f"the coordinator of {len(key)}, kind {kind}, version {version}", answer)
    raw.tell("it ends", raw.end(producer))


def ends_that_race(raw: Raw) -> None:
    """What comes while the end is under way is put off or done, and never breaks anything."""
    topic = raw.create_topic("racing", 4)
    allowed = {ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS}
    for turn in range(20):
        producer = raw.initialised("racing")
        raw.add(producer, {topic: range(4)})
        raw.produce(producer, topic)
        raw.ask(EndTxnRequest(**producer.fields, committed=turn % 2 == 0), 4)
        early = raw.add(producer, {topic: [0]}, settled=False)
        asked = InitProducerIdRequest(transactional_id=producer.transactional_id, transaction_timeout_ms=60_000)
        fenced = raw.ask(asked, 5)
        raw.tell("nothing unexpected", set(codes(early)) | set(codes(fenced)) <= allowed)
        raw.tell("the end of what it began", raw.init(producer.transactional_id))
    raw.wait_until_stable(topic)


HISTORIES: Sequence[History] = (
    wrong_epochs,
    unknown_producers,
    topics_that_are_not_there,
    deleted_and_made_again,
    ends_in_the_wrong_state,
    illegal_timeouts,
    who_a_producer_was,
    markers_of_strangers,
    offsets_of_dead_groups,
    offsets_of_consumer_groups,
    one_id_of_many_producers,
    one_that_never_ends,
    records_out_of_place,
    brokers_that_verify,
    administrators,
    ends_that_race,
)


def told(bootstrap: str, history: History, prefix: str) -> Iterator[str]:
    """What a broker says to a history."""
    with Raw(bootstrap, prefix) as raw:
        history(raw)
        yield from raw.heard
