"""`principal.builder.class`: who names the principal of a connection.

Kafka's own builder, by the name of its class, or `MODULE:FUNCTION`, a function in Python. A function is code, so only
the file of the node may name one: a dynamic config can come from whoever may alter those.
"""

from __future__ import annotations

import re

KAFKA_BUILDER = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
FUNCTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*:[A-Za-z_]\w*", re.ASCII)


def builder_name(text: str) -> str | None:
    """Kafka's builder, or a function."""
    if text == KAFKA_BUILDER or FUNCTION.fullmatch(text):
        return None
    return (
        f"is no principal builder: it must be {KAFKA_BUILDER}, or MODULE:FUNCTION in Python (Java classes cannot be "
        "loaded here)"
    )


def remote_builder_name(text: str) -> str | None:
    """Kafka's builder only."""
    return None if text == KAFKA_BUILDER else "names code, which only the properties file of a node may do"
