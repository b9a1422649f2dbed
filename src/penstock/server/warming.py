"""Makes the codecs that common clients need, one at a time, while the node has just started and is idle.

A codec is made at its first use, which takes a millisecond or two; a client's first requests need a dozen of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from penstock.node.handlers import registry
from penstock.protocol.api import ApiKey
from penstock.protocol.codec import DECODERS, ENCODERS, make_decoder, make_encoder

STEP_EVERY_S = 0.01

USUAL_VERSIONS: tuple[tuple[ApiKey, tuple[int, ...]], ...] = (
    (ApiKey.API_VERSIONS, (3, 4, 0)),
    (ApiKey.METADATA, (13, 5)),
    (ApiKey.PRODUCE, (10, 12, 13, 9, 7)),
    (ApiKey.FETCH, (16, 17, 18, 12, 11)),
    (ApiKey.LIST_OFFSETS, (7, 11, 5)),
    (ApiKey.INIT_PRODUCER_ID, (4, 5, 0)),
    (ApiKey.CREATE_TOPICS, (7,)),
)
"""What librdkafka, the Java client, kafka-python and aiokafka send to a broker of this level, most usual first."""


def steps() -> Iterator[None]:
    """Makes one codec a step; existing ones take no step."""
    served = registry()
    for key, versions in USUAL_VERSIONS:
        handler = served.get(key)
        if handler is None:
            continue
        for version in versions:
            if not handler.min_version <= version <= handler.max_version:
                continue
            if (handler.api.request_class, version) not in DECODERS:
                make_decoder(handler.api.request_class, version)
                yield
            if (handler.api.response_class, version) not in ENCODERS:
                make_encoder(handler.api.response_class, version)
                yield


async def warm() -> None:
    """Runs all steps, with pauses in which the node serves."""
    for _ in steps():
        await asyncio.sleep(STEP_EVERY_S)
