"""Options of Spark that say how to reach a secured cluster, under the names of the official connector.

    .option("kafka.security.protocol", "SASL_SSL")
    .option("kafka.sasl.mechanism", "SCRAM-SHA-512")
    .option("kafka.sasl.jaas.config", 'org.apache.kafka.common.security.scram.ScramLoginModule required ...;')
    .option("kafka.ssl.truststore.location", "/etc/penstock/truststore.p12")

Files are read on the driver and on every executor, where they must have the same path; what is given as text
(`kafka.ssl.truststore.certificates`) travels with the tasks. A reference to a config provider (`${file:...}`) stays
text here: options come from whoever sends a job, and executors read with other rights (CVE-2024-31141).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from penstock.client.security import NAMES, PREFIXES, SASL_MECHANISM, UNSECURED, ClientSecurity, client_security
from penstock.config.broker.sasl import GSSAPI
from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigError

logger = logging.getLogger(__name__)
KAFKA = "kafka."
OPTION_PREFIXES = tuple(KAFKA + prefix for prefix in PREFIXES)


def is_security(option: str) -> bool:
    """Whether an option, in any case, is about security."""
    return option.lower().startswith(OPTION_PREFIXES)


def security_of(options: Mapping[str, str]) -> ClientSecurity:
    """What options of a read, a write or a load say about security; names in any case, others are left alone.

    Raises ConfigError, which names the option and shows no secret.
    """
    given = {name.lower().removeprefix(KAFKA): text for name, text in options.items() if is_security(name)}
    asked = given.get(SASL_MECHANISM, "").strip().upper() == GSSAPI
    try:
        security = UNSECURED if asked else client_security(given, KAFKA)
    except ConfigError as error:
        raise ConfigError(f"option {error}") from None
    if asked or (security.login is not None and security.login.kerberos is not None):
        raise ConfigError(f"option {KAFKA}{SASL_MECHANISM} = {GSSAPI} is not supported: take PLAIN or SCRAM-SHA-512")
    for name in security.unknown:
        raise ConfigError(f"unknown option {KAFKA}{name}{did_you_mean(name, NAMES)}")
    if security.unused:
        names = ", ".join(f"{KAFKA}{name}" for name in security.unused)
        logger.warning("%s have no effect: kafka.security.protocol is %s", names, security.protocol)
    return security
