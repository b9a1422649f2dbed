"""Settings of SASL: mechanisms, who logs in with what, and for how long. See `config.sasl` for what follows from them.

Most may be given for one listener, or one mechanism of it (`config.prefixed`).
"""

from __future__ import annotations

from penstock.config.checks import distinct
from penstock.config.kerberos import local_rules
from penstock.config.setting import PER_BROKER, Group, Setting
from penstock.config.values import INT, LIST, LONG, PASSWORD, STRING, KiB, Password

GSSAPI = "GSSAPI"
"""Kafka's default mechanism."""


def distinct_rules(texts: tuple[str, ...]) -> str | None:
    """Rules that can be applied, none twice."""
    return distinct(texts) or local_rules(texts)


class SaslSettings(Group):
    """Logins of clients and of this node at others."""

    sasl_enabled_mechanisms = Setting(
        "sasl.enabled.mechanisms", LIST, default=(GSSAPI,), dynamic=PER_BROKER, check=distinct
    ).documented(
        "Mechanisms that clients may log in with, some of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI."
    )
    sasl_jaas_config = Setting[Password | None](
        "sasl.jaas.config", PASSWORD, default=None, dynamic=PER_BROKER
    ).documented(
        'A login module with its options, always as listener.name.NAME.MECHANISM.sasl.jaas.config. user_NAME="..." is '
        "a user of PLAIN; username and password are what this node itself logs in with where the listener is one "
        "between nodes."
    )
    sasl_mechanism_inter_broker_protocol = Setting(
        "sasl.mechanism.inter.broker.protocol", STRING, default=GSSAPI, dynamic=PER_BROKER
    ).documented("Mechanism that brokers log in with among themselves.")
    sasl_mechanism_controller_protocol = Setting(
        "sasl.mechanism.controller.protocol", STRING, default=GSSAPI
    ).documented("Mechanism that nodes log in with at controllers.")
    sasl_kerberos_service_name = Setting[str | None](
        "sasl.kerberos.service.name", STRING, default=None, dynamic=PER_BROKER
    ).documented("The first part of the brokers' names in Kerberos, mostly kafka.")
    sasl_kerberos_principal_to_local_rules = Setting(
        "sasl.kerberos.principal.to.local.rules",
        LIST,
        default=("DEFAULT",),
        dynamic=PER_BROKER,
        check=distinct_rules,
    ).documented(
        "Rules that make a short name of a Kerberos one, tried in this order: DEFAULT takes the first part of a name "
        "of this machine's realm, RULE:[n:format](match)s/from/to/g/L edits a name of n parts."
    )
    sasl_server_max_receive_size = Setting(
        "sasl.server.max.receive.size", INT, default=512 * KiB, at_least=1
    ).documented("Largest request before a client has logged in, in bytes; a larger one closes the connection.")
    connections_max_reauth_ms = Setting("connections.max.reauth.ms", LONG, default=0).documented(
        "How long a login lasts; a client that has not logged in again by then is disconnected. 0 or less: for ever."
    )
    connection_failed_authentication_delay_ms = Setting(
        "connection.failed.authentication.delay.ms", INT, default=100, at_least=0
    ).documented("How long a failed login waits for its answer, so that guessing takes its time.")
