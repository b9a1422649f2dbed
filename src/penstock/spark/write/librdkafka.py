"""Kafka's properties of security as librdkafka's, and its errors as ours.

librdkafka reads PEM and PKCS12, knows no JAAS and calls cipher suites as OpenSSL does. So a task reads the stores
itself and hands over PEM texts, name and password. Before a producer is made our own client connects once: where that
fails it says why, and librdkafka would try a refused login for a minute.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.client.bearer_tokens import tokens_of
from penstock.client.client import Client
from penstock.client.security import UNSECURED, ClientSecurity
from penstock.client.tls import pem_block, read_material
from penstock.config.token_source import TokenSource
from penstock.config.values import Password
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.spark.write.options import WriteOptions

NOT_IN_LIBRDKAFKA = ("ssl.enabled.protocols", "ssl.protocol", "ssl.cipher.suites")


def librdkafka_settings(security: ClientSecurity) -> dict[str, Any]:
    """librdkafka's settings; reads the stores. Raises ConfigError for what cannot be read, or that it cannot do."""
    if security.protocol == UNSECURED.protocol:
        return {}
    settings: dict[str, Any] = {"security.protocol": security.protocol.lower()}
    if (login := security.login) is not None:
        if login.is_token:
            raise ConfigError("option kafka.sasl.jaas.config: delegation tokens need penstock.exactly.once = true here")
        settings["sasl.mechanism"] = login.mechanism
        if login.source is not None:
            settings["oauth_cb"] = partial(librdkafka_token, login.source)
        else:
            settings |= {"sasl.username": login.username, "sasl.password": Password(login.password)}
    if security.has_tls:
        settings |= _tls(security)
    return settings


def librdkafka_token(source: TokenSource, _: str) -> tuple[str, float, str, dict[str, str]]:
    """A token as librdkafka asks for one, first and before it ends: with its end in seconds since the epoch, about whom
    it is, and what goes with it.
    """
    token = tokens_of(source).get()
    return token.text, token.expires_at_ms / 1000, token.subject, dict(source.extensions)


def _tls(security: ClientSecurity) -> dict[str, str]:
    for name in NOT_IN_LIBRDKAFKA:
        if name in security.properties:
            raise ConfigError(f"option kafka.{name} needs penstock.exactly.once = true in a write; leave it out")
    told = security.settings()
    material = read_material(told)
    settings = {
        "ssl.endpoint.identification.algorithm": "https" if told.ssl_endpoint_identification_algorithm else "none"
    }
    if material.trusted is not None:
        settings["ssl.ca.pem"] = "".join(pem_block("CERTIFICATE", each) for each in material.trusted)
    if material.key is not None:
        settings["ssl.key.pem"] = Password(pem_block("PRIVATE KEY", material.key.key))
        settings["ssl.certificate.pem"] = "".join(pem_block("CERTIFICATE", each) for each in material.key.chain)
    return settings


def check_access(options: WriteOptions) -> None:
    """Connects once to a secured cluster. Raises AuthenticationError, UnreachableError, ConfigError."""

    async def connect() -> None:
        async with Client(options.bootstrap, timeout_ms=options.max_block_ms, security=options.security):
            pass

    if options.security.protocol != UNSECURED.protocol:
        try:
            asyncio.run(connect())
        except ValueError as error:
            raise ConfigError(f"option kafka.bootstrap.servers: {error}") from None


def refusal(options: WriteOptions, why: str) -> str:
    """The sentence for a login or handshake that librdkafka was refused."""
    return f"no broker at {options.bootstrap} accepts this client: {why}"
