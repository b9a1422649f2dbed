"""Warming makes the usual codecs, one a step, and has nothing to do the second time."""

from __future__ import annotations

from penstock.node.handlers import registry
from penstock.protocol.api import ApiKey
from penstock.protocol.codec import DECODERS, ENCODERS
from penstock.server.warming import USUAL_VERSIONS, steps


def test_all_usual_versions_are_served_and_made() -> None:
    for _ in steps():
        pass
    assert list(steps()) == []
    served = registry()
    for key, versions in USUAL_VERSIONS:
        for version in versions:
            assert served[key].min_version <= version <= served[key].max_version
            assert (served[key].api.request_class, version) in DECODERS
            assert (served[key].api.response_class, version) in ENCODERS
    assert ApiKey.PRODUCE in dict(USUAL_VERSIONS)
