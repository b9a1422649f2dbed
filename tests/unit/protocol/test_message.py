"""What message classes have in common: slots, constructors that are written at their first call, equality."""

from __future__ import annotations

from uuid import UUID

import pytest

from penstock.protocol import schema
from penstock.protocol.api import message_class
from penstock.protocol.message import ABSENT, Message, Struct
from penstock.protocol.messages.fetch_request import FetchRequest, ReplicaState
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.produce_request import ProduceRequest, TopicProduceData


def test_every_message_can_be_made_of_nothing_and_of_all_its_fields() -> None:
    for name in schema.headings():
        cls = message_class(name)
        empty = cls()
        fields = {field: getattr(empty, field) for field in cls.__slots__}
        assert list(fields) == [field.attribute for field in schema.message(name).root.fields]
        assert cls(**fields) == empty
        assert not hasattr(empty, "__dict__")
        assert (name, schema.message(name).heading.api_key) == (cls.NAME, cls.KEY)


def test_fields_have_their_defaults_and_are_given_by_name() -> None:
    data = TopicProduceData(name="clicks")
    assert (data.name, data.topic_id, data.partition_data) == ("clicks", UUID(int=0), [])
    assert ProduceRequest().transactional_id is None
    with pytest.raises(TypeError, match="nmae"):
        TopicProduceData(nmae="clicks")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        TopicProduceData("clicks")  # type: ignore[misc]
    with pytest.raises(AttributeError):
        data.topic = "clicks"  # type: ignore[attr-defined]


def test_what_is_new_in_each_message_is_shared_by_none() -> None:
    one, other = FetchRequest(), FetchRequest()
    assert type(one.replica_state) is ReplicaState
    assert one.topics == other.topics == []
    assert one.topics is not other.topics
    assert one.replica_state is not other.replica_state


def test_messages_are_equal_field_by_field() -> None:
    assert HeartbeatRequest(group_id="g") == HeartbeatRequest(group_id="g")
    assert HeartbeatRequest(group_id="g") != HeartbeatRequest(group_id="h")
    assert HeartbeatRequest() != FetchRequest()
    assert repr(TopicProduceData(name="c")).startswith("TopicProduceData(name='c', topic_id=UUID(")


def test_a_class_of_one_s_own_is_made_like_those_of_the_schema() -> None:
    class Own(Message, key=7, versions=(1, 3)):
        items: list[int] = ABSENT
        note: str = ""

    class Derived(Own):
        more: int = 3

    class Bare(Struct):
        pass

    assert (Own.NAME, Own.KEY, Own.MIN_VERSION, Own.MAX_VERSION, Own.FLEXIBLE_FROM) == ("Own", 7, 1, 3, None)
    assert (Own(note="n").items, Own(note="n").note) == ([], "n")
    assert (Derived(note="n").note, Derived(more=4).more, Derived().items) == ("n", 4, [])
    assert Derived(note="n") != Derived()
    assert Derived.NAME == "Own"
    assert Bare() == Bare()
