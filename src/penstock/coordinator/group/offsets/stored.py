"""Offset commits as bytes: a coordinator that writes or loads a million of them makes no message of each.

The forms that brokers of today write are here: keys of type 1, values of version 3 and 4 with texts below 127
bytes and at most the topic's id as a tag. Anything else, and anything that looks broken, is left to the codecs, which
read it or say what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from uuid import UUID

from penstock.coordinator.group.offsets.committed import CommittedOffset
from penstock.coordinator.group.offsets.replay import ensure_group
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.shard import Stored
from penstock.protocol.message import ZERO_UUID

PARTITION = Struct(">i")
FLEXIBLE_HEAD = Struct(">hqiB")
"""Version, offset, leader epoch, length of the text plus one."""
FLEXIBLE_TAIL = Struct(">qB")
"""Time of the commit, number of tags."""
HEAD = Struct(">hqih")
"""Version, offset, leader epoch, length of the text."""
TAIL = Struct(">q")
FLEXIBLE = 4
NO_TEXT = 1
"""The length of an empty text, plus one."""
FLEXIBLE_VERSION, PLAIN_VERSION = b"\0\4", b"\0\3"
TEXT_MAX_BYTES = 126
TOPIC_ID_TAG = b"\0\20"
"""Tag 0 of 16 bytes."""
ONE_TAG = b"\1" + TOPIC_ID_TAG
TAGGED_BYTES = 18
WITHOUT_TEXT = Struct(">2sqiBq3s16s")
"""The commonest value: version 4 without a text, with the topic's id."""
NO_EXPIRY = -1
new_tuple = tuple.__new__
"""Makes a named tuple at a third of the cost of its own constructor, which is written in Python."""
NAMES_MAX, TOPICS_MAX = 4096, 4096


def replay(state: GroupState, records: Sequence[Stored]) -> int:
    """Applies offsets that no transaction has committed, up to one that does not have the usual form; how many."""
    found: dict[bytes, dict[int, CommittedOffset]] = {}
    count = 0
    for key, (record_offset, value) in records:
        head = key[:-4]
        places = found.get(head)
        if places is None:
            if names_of(head) is None:
                break
            places = found[head] = {}
        committed = committed_of(value, record_offset)
        if committed is None:
            break
        (partition,) = PARTITION.unpack(key[-4:])
        places[partition] = committed
        count += 1
    for head, places in found.items():
        names = names_of(head)
        if names is not None and places:
            ensure_group(state, names[0])
            state.offsets.committed.put_all(*names, places)
    return count


@lru_cache(NAMES_MAX)
def names_of(head: bytes) -> tuple[str, str] | None:
    """Group and topic of a key without its partition."""
    group_end = 4 + int.from_bytes(head[2:4], "big", signed=True)
    topic_at = group_end + 2
    if not 4 <= group_end <= len(head) - 2:
        return None
    if topic_at + int.from_bytes(head[group_end:topic_at], "big", signed=True) != len(head):
        return None
    try:
        return head[4:group_end].decode(), head[topic_at:].decode()
    except UnicodeDecodeError:
        return None


def committed_of(value: bytes, record_offset: int) -> CommittedOffset | None:
    """The offset in a value, if it has the usual form."""
    if len(value) == WITHOUT_TEXT.size:
        start, offset, leader_epoch, no_text, timestamp_ms, tag, topic_id = WITHOUT_TEXT.unpack(value)
        if start == FLEXIBLE_VERSION and no_text == NO_TEXT and tag == ONE_TAG:
            fields = (offset, leader_epoch, "", timestamp_ms, NO_EXPIRY, uuid_of(topic_id), record_offset)
            return new_tuple(CommittedOffset, fields)
    version = value[:2]
    if version == FLEXIBLE_VERSION and len(value) >= FLEXIBLE_HEAD.size + FLEXIBLE_TAIL.size:
        return flexible(value, record_offset)
    if version == PLAIN_VERSION and len(value) >= HEAD.size + TAIL.size:
        _, offset, leader_epoch, length = HEAD.unpack_from(value)
        if length < 0 or len(value) != HEAD.size + length + TAIL.size:
            return None
        text = text_of(value[HEAD.size : HEAD.size + length])
        (timestamp_ms,) = TAIL.unpack_from(value, HEAD.size + length)
        if text is not None:
            return CommittedOffset(offset, leader_epoch, text, timestamp_ms, record_offset=record_offset)
    return None


def flexible(value: bytes, record_offset: int) -> CommittedOffset | None:
    """A value of version 4."""
    _, offset, leader_epoch, length = FLEXIBLE_HEAD.unpack_from(value)
    end = FLEXIBLE_HEAD.size + length - 1
    if not 1 <= length <= TEXT_MAX_BYTES + 1 or len(value) < end + FLEXIBLE_TAIL.size:
        return None
    text = "" if length == NO_TEXT else text_of(value[FLEXIBLE_HEAD.size : end])
    timestamp_ms, tags = FLEXIBLE_TAIL.unpack_from(value, end)
    rest = value[end + FLEXIBLE_TAIL.size :]
    if tags == 1 and len(rest) == TAGGED_BYTES and rest[:2] == TOPIC_ID_TAG:
        topic_id = uuid_of(rest[2:])
    elif tags or rest:
        return None
    else:
        topic_id = ZERO_UUID
    if text is None:
        return None
    return CommittedOffset(offset, leader_epoch, text, timestamp_ms, NO_EXPIRY, topic_id, record_offset)


def flexible_tail(timestamp_ms: int, topic_id: UUID) -> bytes:
    """The end of a value of version 4, after the text."""
    if topic_id == ZERO_UUID:
        return FLEXIBLE_TAIL.pack(timestamp_ms, 0)
    return FLEXIBLE_TAIL.pack(timestamp_ms, 1) + TOPIC_ID_TAG + topic_id.bytes


def text_of(data: bytes) -> str | None:
    """A client's text, unless it is no UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


@lru_cache(TOPICS_MAX)
def uuid_of(data: bytes) -> UUID:
    """The id of a topic; there are few, and one object of each is enough."""
    return UUID(bytes=data)
