"""The corpus of bad requests: each is one frame that no well-behaved client sends, in every version that can say it.

A `Case` makes its frame for a broker (a `World`: topic ids differ) and a version. `CASES` are all of them; they are
sent to Penstock and to Apache Kafka, and the answers are compared.
"""

from __future__ import annotations

from collections.abc import Iterator

from interop.bad_input.admin_cases import configs_cases, describe_cases, producer_cases
from interop.bad_input.case import Case
from interop.bad_input.client_metrics_cases import client_metrics_cases
from interop.bad_input.data_cases import fetch_cases, list_offsets_cases, produce_cases
from interop.bad_input.frame_cases import broken_frames
from interop.bad_input.group_cases import group_cases
from interop.bad_input.quota_cases import quota_cases
from interop.bad_input.security_cases import security_cases
from interop.bad_input.topic_cases import create_topics_cases, delete_cases, metadata_cases, partitions_cases


def cases() -> Iterator[Case]:
    """All of them, API by API."""
    for family in (
        group_cases,
        produce_cases,
        fetch_cases,
        list_offsets_cases,
        metadata_cases,
        create_topics_cases,
        delete_cases,
        partitions_cases,
        producer_cases,
        configs_cases,
        describe_cases,
        security_cases,
        quota_cases,
        client_metrics_cases,
        broken_frames,
    ):
        yield from family()


CASES = tuple(cases())
