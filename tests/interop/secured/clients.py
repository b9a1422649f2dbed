"""Clients of a secured run: whoever makes one for a secured address gets one that logs in.

Clients in Python are changed where they are made; those in other languages take how to log in from the environment
(`CLIENT_LOGIN`, `CLIENT_PROPERTIES`), as kcat (`KCAT_CONFIG`) and our own commands do (`PENSTOCK_COMMAND_CONFIG`); and
Kafka's tools are given `--command-config`.
"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.admin
from interop import kafka_peer
from interop.clients.wire import Wire
from interop.secured.brokers import Brokers
from interop.secured_kafka import ALICE, PASSWORD, properties_of_alice, write_properties
from interop.tools.toolbox import CLUSTER, Toolbox
from support import heard

from penstock.client.client import Client
from penstock.client.security import UNSECURED, client_security
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake_request import SaslHandshakeRequest

BOOTSTRAP = "--bootstrap-server"
COMMAND_CONFIG = "--command-config"
Given = dict[str, Any]


class Clients:
    """Everything that makes clients, changed once a process."""

    def __init__(self, brokers: Brokers, directory: Path) -> None:
        self._brokers = brokers
        properties = properties_of_alice(brokers.trust, "PLAIN", PASSWORD)
        self._security = client_security(properties)
        self.properties = write_properties(directory / "client.properties", properties)
        self._librdkafka = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": ALICE,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(brokers.trust),
        }
        self._python = {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": ALICE,
            "sasl_plain_password": PASSWORD,
        }
        login = {"mechanism": "PLAIN", "user": ALICE, "password": PASSWORD, "trust": str(brokers.trust)}
        kcat = write_properties(directory / "kcat.conf", self._librdkafka)
        os.environ["CLIENT_LOGIN"] = json.dumps(login)
        os.environ["CLIENT_PROPERTIES"] = os.environ["PENSTOCK_COMMAND_CONFIG"] = str(self.properties)
        os.environ["KCAT_CONFIG"] = str(kcat)

    def secure(self) -> None:
        """Changes them all."""
        self._secure_librdkafka()
        for kind in (kafka.KafkaProducer, kafka.KafkaConsumer, kafka.admin.KafkaAdminClient):
            self._by_keywords(kind, {**self._python, "ssl_cafile": str(self._brokers.trust)})
        context = ssl.create_default_context(cafile=str(self._brokers.trust))
        for kind in (aiokafka.AIOKafkaProducer, aiokafka.AIOKafkaConsumer, aiokafka.admin.AIOKafkaAdminClient):
            self._by_keywords(kind, {**self._python, "ssl_context": context})
        self._secure_our_own()
        self._secure_wires()
        self._secure_tools()

    def _secure_librdkafka(self) -> None:
        def secured(given: Given) -> Given:
            return {**self._librdkafka, **given} if self._brokers.knows(given.get("bootstrap.servers")) else given

        def after(make: Callable[..., None]) -> Callable[..., None]:
            def made(client: Any, given: Given | None = None, *arguments: Any, **more: Any) -> None:
                if given is None:
                    given, more = more, {}
                make(client, secured(given), *arguments, **more)

            return made

        class Producer(confluent_kafka.Producer):
            __init__ = after(confluent_kafka.Producer.__init__)  # type: ignore[assignment]  # of C

        class Consumer(confluent_kafka.Consumer):
            __init__ = after(confluent_kafka.Consumer.__init__)  # type: ignore[assignment]  # of C

        confluent_kafka.Producer, confluent_kafka.Consumer = Producer, Consumer  # type: ignore[misc]  # tests import them from there
        admin = confluent_kafka.admin.AdminClient
        admin.__init__ = after(admin.__init__)

    def _by_keywords(self, kind: Any, login: Given) -> None:
        """Clients in Python, whose classes can be changed in place."""
        make = kind.__init__

        @wraps(make)
        def made(client: Any, *arguments: Any, **given: Any) -> None:
            more = login if self._brokers.knows(given.get("bootstrap_servers")) else {}
            make(client, *arguments, **{**more, **given})

        kind.__init__ = made

    def _secure_our_own(self) -> None:
        make = Client.__init__

        @wraps(make)
        def made(client: Client, bootstrap: Any, **given: Any) -> None:
            if self._brokers.knows(bootstrap) and given.get("security", UNSECURED) is UNSECURED:
                given["security"] = self._security
            make(client, bootstrap, **given)

        Client.__init__ = made  # type: ignore[method-assign]  # tests are not asked

    def _secure_wires(self) -> None:
        """Connections that speak byte by byte; and the harness's look at what brokers know, which is no client's."""
        make, until_heard = Wire.__init__, heard.until_heard
        context = ssl.create_default_context(cafile=str(self._brokers.trust))

        @wraps(make)
        def made(wire: Wire, bootstrap: str, *arguments: Any) -> None:
            make(wire, bootstrap, *arguments)
            if self._brokers.knows(bootstrap):
                wire.socket = context.wrap_socket(wire.socket, server_hostname=bootstrap.rpartition(":")[0])
                assert wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
                token = f"\0{ALICE}\0{PASSWORD}".encode()
                assert wire.ask(SaslAuthenticateRequest(auth_bytes=token), 2).error_code == 0

        Wire.__init__ = made  # type: ignore[method-assign]  # tests are not asked
        heard.until_heard = lambda addresses: until_heard(self._brokers.plain_of(addresses))

    def _secure_tools(self) -> None:
        run, run_tool = Toolbox.run, kafka_peer.run_tool

        def secured(words: tuple[object, ...]) -> list[object]:
            """With `--command-config` behind the address, unless that is there."""
            found = list(words)
            if COMMAND_CONFIG not in found and BOOTSTRAP in found:
                place = found.index(BOOTSTRAP) + 2
                if self._brokers.knows(str(found[place - 1])):
                    found[place:place] = [COMMAND_CONFIG, self.properties]
            return found

        def ran(toolbox: Toolbox, tool: str, bootstrap: str, *arguments: object, **more: Any) -> Any:
            if COMMAND_CONFIG not in arguments and self._brokers.knows(bootstrap):
                action = arguments[:1] if tool == CLUSTER else ()
                arguments = (*action, COMMAND_CONFIG, self.properties, *arguments[len(action) :])
            return run(toolbox, tool, bootstrap, *arguments, **more)

        def tool_ran(class_name: str, *arguments: object, **more: Any) -> Any:
            return run_tool(class_name, *secured(arguments), **more)

        Toolbox.run = ran  # type: ignore[method-assign,assignment]  # tests are not asked
        kafka_peer.run_tool = tool_ran
