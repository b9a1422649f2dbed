"""The plain Fetch: a consumer without a session that reads one partition, led here, and finds enough at once. Most of
librdkafka's are such while it has something to catch up with.

It needs nothing of what a fetch keeps that may wait, or that has many partitions (`node.fetches`), and says the same.
Whatever is unusual is left to that, before anything has changed.
"""

from __future__ import annotations

from penstock.errors import ErrorCode
from penstock.node.fetch_answers import CONSUMER, put_records, replica_id
from penstock.node.fetches import READ_COMMITTED, TOPIC_IDS_FROM, Fetches
from penstock.node.request import Request
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from penstock.replication.fetch_session import FINAL_EPOCH, INVALID_SESSION_ID
from penstock.replication.partition import Partition
from penstock.security.rights import READ_TOPIC


def plain_answer(fetches: Fetches, request: Request[FetchRequest], now_ms: int) -> FetchResponse | None:
    """The answer to a plain Fetch, None for any other. May raise NotOpen, for the handler to be run again."""
    body, settings = request.body, fetches.state.settings
    if (
        body.session_epoch != FINAL_EPOCH
        or body.session_id != INVALID_SESSION_ID
        or len(body.topics) != 1
        or len(body.topics[0].partitions) != 1
        or replica_id(body) != CONSUMER
        or settings.replica_selector_class is not None
    ):
        return None
    topic = body.topics[0]
    wanted = topic.partitions[0]
    name = topic.topic if request.version < TOPIC_IDS_FROM else fetches.replicas.topic_name(topic.topic_id)
    if name is None or wanted.last_fetched_epoch >= 0 or not fetches.gate.would_allow(request, READ_TOPIC, name):
        return None
    partition = fetches.replicas.leader(name, wanted.partition, now_ms)
    if isinstance(partition, ErrorCode) or partition.check_epoch(wanted.current_leader_epoch):
        return None
    if request.version >= TOPIC_IDS_FROM and partition.topic_id != topic.topic_id:
        return None
    max_bytes = min(body.max_bytes, settings.fetch_max_bytes, fetches.quotas.fetch_max_bytes(request))
    committed = body.isolation_level == READ_COMMITTED
    limit_bytes = max(0, min(wanted.partition_max_bytes, max_bytes))
    found = read(partition, wanted.fetch_offset, limit_bytes, committed=committed)
    if found is None:
        return None
    data, size_bytes, next_offset = found
    if size_bytes < min(body.min_bytes, max_bytes) and now_ms < request.arrived_ms + body.max_wait_ms:
        return None
    fetches.gate.allowed(request, READ_TOPIC, name)
    if fetches.dispatcher.exit.holds_back(request, size_bytes, now_ms):
        return FetchResponse(responses=[])
    data.partition_index = wanted.partition
    fetches.looked_at += 1
    counters = fetches.topic_metrics.of(name)
    counters.fetches += 1
    counters.bytes_out += size_bytes
    traffic = partition.traffic
    traffic.bytes_out += size_bytes
    traffic.records_out += next_offset - wanted.fetch_offset
    return FetchResponse(responses=[FetchableTopicResponse(topic=name, topic_id=topic.topic_id, partitions=[data])])


def read(
    partition: Partition, offset: int, max_bytes: int, *, committed: bool
) -> tuple[PartitionData, int, int] | None:
    """What a consumer gets of a partition from an offset on, how many bytes, and where it goes on; None for nothing, or
    an error.
    """
    log, stable_offset = partition.log, partition.last_stable_offset
    upper_offset = stable_offset if committed else partition.high_watermark
    if not log.log_start_offset <= offset < upper_offset:
        return None
    data = PartitionData(
        high_watermark=partition.high_watermark,
        last_stable_offset=stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=[] if committed else None,
    )
    try:
        found = log.read(offset, max_bytes, upper_offset)
        if not found.size_bytes:
            return None
        put_records(data, log, offset, found)
    except Exception:  # whatever it is, `Fetch.look` meets it, too, and says or reads what has to be
        return None
    return data, found.size_bytes, found.next_offset
