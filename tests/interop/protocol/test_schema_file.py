"""The schema file says what the definitions inside Apache Kafka's jars say."""

from __future__ import annotations

import kafka_schema
import pytest
from interop.kafka_peer import JARS

pytestmark = pytest.mark.java


def test_the_schema_file_is_what_the_jars_say(kafka_jars: None) -> None:
    assert kafka_schema.schema_text(JARS) == kafka_schema.SCHEMA.read_text()


def test_comments_and_sentences_are_left_out() -> None:
    definition = kafka_schema.parse(
        """
        // A licence.
        { "name": "X", "type": "data", "validVersions": "0-1", "flexibleVersions": "1+",
          // A comment.
          "fields": [{ "name": "A", "type": "int32", "versions": "0+", "default": "0x10", "about": "A sentence." }] }
        """
    )
    assert kafka_schema.block("-", definition) == "X data - 0-1 1+\n A int32 0+ default=16"
