"""The settings of a Guardian node, read from its own properties file.

    penstock.guardian.node.id=1
    penstock.guardian.listener=10.0.0.1:9500
    penstock.guardian.voters=1@10.0.0.1:9500,2@10.0.0.2:9500,3@10.0.0.3:9500
    penstock.guardian.data.dir=/var/lib/penstock-guardian

A Guardian node takes part in a quorum of its own, by the same code as a controller. So `node` is what these settings
come to for that code: the settings of a controller on one listener, GUARDIAN. Settings of Kafka's that say how a
listener is secured (`ssl.*`, `sasl.*`, `authorizer.class.name`, `super.users`) or what connections may use are taken
over under their own names; those that follow from Guardian's are refused. An unknown name is an error. How the node
logs in to registered clusters is said by `penstock.guardian.credentials.*` (`config.guardian_credentials`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from penstock.config.broker.network import SECURITY_PROTOCOLS, WITH_TLS
from penstock.config.guardian_credentials import CREDENTIALS, Credentials, entries_of, read_credentials
from penstock.config.listeners import VOTER, bracketed, split_address
from penstock.config.nearest import did_you_mean
from penstock.config.server import Settings, located
from penstock.config.setting import Group, Setting
from penstock.config.values import BOOLEAN, HOUR_MS, INT, LIST, MINUTE_MS, SECOND_MS, STRING, MiB
from penstock.errors import ConfigError, ConfigErrors

PREFIX = "penstock.guardian."
LISTENER = "GUARDIAN"
"""The name of the one listener, as in `listener.name.guardian.ssl.keystore.location`."""
NODE_COUNTS = (1, 3, 5)
"""Even numbers bear no more failures than one node fewer, and more than five only wait for each other."""
DERIVED_PREFIXES = ("controller.", "process.roles", "log.dir", "metadata.log.dir", "listeners", "advertised.listeners")
DERIVED = frozenset({"node.id", "broker.id", "listener.security.protocol.map", "inter.broker.listener.name"})
"""Settings of Kafka's that follow from Guardian's own."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Hosts that only this machine reaches."""
SETUP_TIMEOUTS = ("socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms")
"""Where these are not given, a connection to another node may take no longer than its answer: a TCP connection that is
tried anew is made sooner than one that has waited for longer and longer.
"""


class GuardianSettings(Group):
    """Settings of one Guardian node. Make them with `from_properties`.

    Attributes: `node`, what they come to for the code that every node shares. `credentials`, how this node logs in to
    registered clusters, by name.
    """

    node: Settings
    credentials: Mapping[str, Credentials]

    penstock_guardian_node_id = Setting(
        f"{PREFIX}node.id", INT, default=-1, at_least=0, also=(-1,), required=True
    ).documented("The id of this Guardian node, one of those in `penstock.guardian.voters`.")
    penstock_guardian_listener = Setting(f"{PREFIX}listener", STRING, default="127.0.0.1:9500").documented(
        "The address on which this node listens, for the other nodes and for `penstock guardian`."
    )
    penstock_guardian_security_protocol = Setting(
        f"{PREFIX}security.protocol", STRING, default="PLAINTEXT", one_of=SECURITY_PROTOCOLS
    ).documented("How that listener, and those of the other nodes, are secured; `ssl.*` and `sasl.*` say the rest.")
    penstock_guardian_voters = Setting(f"{PREFIX}voters", LIST, default=(), required=True).documented(
        "All nodes of this Guardian, as `ID@HOST:PORT`: one, three or five. The same on every node. The ids are fixed "
        "when a node is formatted; addresses may change."
    )
    penstock_guardian_data_dir = Setting(f"{PREFIX}data.dir", STRING, default="", required=True).documented(
        "The directory of this node's log. `penstock guardian format` makes it."
    )
    penstock_guardian_election_timeout_ms = Setting(
        f"{PREFIX}election.timeout.ms", INT, default=SECOND_MS, at_least=100
    ).documented(
        "How long a node waits for votes before it stands again. The leader acts by itself only while a majority has "
        "followed it within half of this time."
    )
    penstock_guardian_fetch_timeout_ms = Setting(
        f"{PREFIX}fetch.timeout.ms", INT, default=2 * SECOND_MS, at_least=200
    ).documented("How long a node waits for the leader's answers before it stands itself.")
    penstock_guardian_request_timeout_ms = Setting(
        f"{PREFIX}request.timeout.ms", INT, default=2 * SECOND_MS, at_least=100
    ).documented("How long a node waits for the answer of another one, also to a change that it hands on.")
    penstock_guardian_retry_backoff_ms = Setting(f"{PREFIX}retry.backoff.ms", INT, default=20, at_least=1).documented(
        "Pause before another node is asked again after a request failed."
    )
    penstock_guardian_snapshot_bytes = Setting(f"{PREFIX}snapshot.bytes", INT, default=20 * MiB, at_least=1).documented(
        "After so many bytes of changes a node writes a snapshot, which takes the place of the log before it."
    )
    penstock_guardian_rest_listener = Setting(f"{PREFIX}rest.listener", STRING, default="").documented(
        "Address of the REST API, host:port, for people and their tools with tokens; empty for none. It needs "
        f"`{PREFIX}rest.tls` unless it is on loopback: tokens do not go over a network in clear."
    )
    penstock_guardian_rest_tls = Setting(f"{PREFIX}rest.tls", BOOLEAN, default=False).documented(
        "Whether the REST API speaks TLS, with the certificate of the node's listener: "
        f"`{PREFIX}security.protocol` must be SSL or SASL_SSL."
    )
    penstock_guardian_sample_interval_ms = Setting(
        f"{PREFIX}sample.interval.ms", INT, default=10 * SECOND_MS, at_least=100
    ).documented(
        "How often the leader looks at the metadata, the disks and the ends of the partitions of each registered "
        "cluster."
    )

    penstock_guardian_alarm_confirm_ms = Setting(
        f"{PREFIX}alarm.confirm.ms", INT, default=30 * SECOND_MS, at_least=SECOND_MS
    ).documented(
        "How long something wrong with a cluster must be seen, in looks that follow each other, before it is an alarm; "
        "and how long it must not be seen before the alarm is over."
    )
    penstock_guardian_heal_delay_ms = Setting(
        f"{PREFIX}heal.delay.ms", INT, default=5 * MINUTE_MS, at_least=0
    ).documented(
        "How long Guardian waits after an alarm before it heals by itself: most brokers that are gone come back. So "
        "long replicas must be out of sync to be an alarm, too."
    )
    penstock_guardian_heal_calm_ms = Setting(f"{PREFIX}heal.calm.ms", INT, default=HOUR_MS, at_least=0).documented(
        "What comes back so soon after it was gone is the same alarm. It is not healed again: a person must look."
    )
    penstock_guardian_alarm_disk_full_ms = Setting(
        f"{PREFIX}alarm.disk.full.ms", INT, default=24 * HOUR_MS, at_least=MINUTE_MS
    ).documented("An alarm is raised for a disk that would be full within this time, if it went on filling as it does.")

    penstock_guardian_canary = Setting(
        f"{PREFIX}canary", STRING, default="by-mode", one_of=("by-mode", "always", "never")
    ).documented(
        "Where Guardian's leader measures brokers by a record every few seconds, in a topic of its own: where it may "
        "do more than observe (the mode of `heal`), in each cluster, or nowhere."
    )
    penstock_guardian_canary_interval_ms = Setting(
        f"{PREFIX}canary.interval.ms", INT, default=5 * SECOND_MS, at_least=100
    ).documented("How often each broker is measured so.")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> GuardianSettings:
        """Reads and checks the entries of a properties file, or any mapping of names to text.

        Raises ConfigError, with file and line when `properties` knows them; ConfigErrors when several are wrong.
        """
        declared = cls.by_name()
        values = {setting.attribute: setting.default for setting in declared.values()}
        problems = []
        for name, text in properties.items():
            try:
                if name in declared:
                    values[declared[name].attribute] = declared[name].parse(text)
                elif name.startswith(CREDENTIALS):
                    entries_of({name: text})
                else:
                    check_name(name, declared)
            except ConfigError as wrong:
                problems.append(located(wrong, properties, [name]))
        settings = cls(values)
        try:
            credentials = settings.__dict__["credentials"] = read_credentials(properties)
        except ConfigError as wrong:
            problems = problems or [wrong]
        if not problems:
            problems = [located(wrong, properties, [PREFIX + "voters"]) for wrong in settings._contradictions()]
        if problems:
            raise problems[0] if len(problems) == 1 else ConfigErrors(problems)
        others = {
            name: text for name, text in properties.items() if name not in declared and not name.startswith(CREDENTIALS)
        }
        patience = dict.fromkeys(SETUP_TIMEOUTS, str(settings.penstock_guardian_request_timeout_ms))
        derived = settings._derived()
        node = Settings.from_properties({**patience, **others, **derived}, strict=True)
        settings.__dict__["node"] = reaching(node, credentials.values())
        return settings

    @property
    def voter_ids(self) -> tuple[int, ...]:
        """The ids of all nodes, in order."""
        return tuple(sorted(voter.id for voter in self.node.voters))

    @property
    def lease_ms(self) -> int:
        """How long the leader may act by itself after a majority was known to follow it."""
        return self.penstock_guardian_election_timeout_ms // 2

    def _contradictions(self) -> Iterator[ConfigError]:
        """What is missing, or cannot be at the same time."""
        if self.penstock_guardian_node_id < 0:
            yield ConfigError(f"{PREFIX}node.id is missing: it says which of {PREFIX}voters this node is")
        if not self.penstock_guardian_data_dir:
            yield ConfigError(f"{PREFIX}data.dir is missing: it says where the log of this node is")
        try:
            split_address(self.penstock_guardian_listener, f"{PREFIX}listener", "10.0.0.1:9500")
        except ConfigError as wrong:
            yield wrong
        yield from self._rest_problems()
        yield from self._voter_problems()

    def _rest_problems(self) -> Iterator[ConfigError]:
        if self.penstock_guardian_rest_tls and self.penstock_guardian_security_protocol not in WITH_TLS:
            yield ConfigError(
                f"{PREFIX}rest.tls has the certificate of the node's listener: {PREFIX}security.protocol must be "
                f"{' or '.join(WITH_TLS)}"
            )
        if not self.penstock_guardian_rest_listener:
            return
        try:
            host, _ = split_address(self.penstock_guardian_rest_listener, f"{PREFIX}rest.listener", "127.0.0.1:9600")
        except ConfigError as wrong:
            yield wrong
            return
        if host not in LOOPBACK and not self.penstock_guardian_rest_tls:
            yield ConfigError(
                f"{PREFIX}rest.listener: {self.penstock_guardian_rest_listener} is open to the network, where tokens "
                f"would go in clear: set {PREFIX}rest.tls, or listen on 127.0.0.1"
            )

    def _voter_problems(self) -> Iterator[ConfigError]:
        ids = []
        for entry in self.penstock_guardian_voters:
            found = VOTER.fullmatch(entry)
            if found is None:
                yield ConfigError(f'{PREFIX}voters: "{entry}" is not a node: it must be like 1@10.0.0.1:9500')
                return
            ids.append(int(found["id"]))
        if len(ids) not in NODE_COUNTS:
            yield ConfigError(f"{PREFIX}voters names {len(ids)} nodes: it must be one, three or five")
        elif len(set(ids)) < len(ids):
            yield ConfigError(f"{PREFIX}voters names a node twice")
        elif self.penstock_guardian_node_id >= 0 and self.penstock_guardian_node_id not in ids:
            yield ConfigError(f"{PREFIX}voters does not name node {self.penstock_guardian_node_id}, which this is")

    def _derived(self) -> dict[str, str]:
        """The settings of a controller that these come to."""
        host, port = split_address(self.penstock_guardian_listener, f"{PREFIX}listener", "10.0.0.1:9500")
        return {
            "process.roles": "controller",
            "node.id": str(self.penstock_guardian_node_id),
            "listeners": f"{LISTENER}://{bracketed(host)}:{port}",
            "controller.listener.names": LISTENER,
            "listener.security.protocol.map": ",".join(
                [
                    f"{LISTENER}:{self.penstock_guardian_security_protocol}",
                    *(f"{each.listener}:{each.protocol}" for each in self.credentials.values()),
                ]
            ),
            "controller.quorum.voters": ",".join(self.penstock_guardian_voters),
            "log.dirs": self.penstock_guardian_data_dir,
            "controller.quorum.election.timeout.ms": str(self.penstock_guardian_election_timeout_ms),
            "controller.quorum.election.backoff.max.ms": str(self.penstock_guardian_election_timeout_ms),
            "controller.quorum.fetch.timeout.ms": str(self.penstock_guardian_fetch_timeout_ms),
            "controller.quorum.request.timeout.ms": str(self.penstock_guardian_request_timeout_ms),
            "controller.quorum.retry.backoff.ms": str(self.penstock_guardian_retry_backoff_ms),
            **{name: text for each in self.credentials.values() for name, text in each.properties().items()},
        }


def reaching(node: Settings, credentials: Collection[Credentials]) -> Settings:
    """The settings of a node that also dials registered clusters, and logs in there."""
    logins = {each.listener: each.login for each in credentials if each.login is not None}
    node.__dict__["sasl"] = replace(node.sasl, logins={**node.sasl.logins, **logins})
    node.__dict__["dialled_listeners"] = tuple(each.listener for each in credentials)
    return node


def check_name(name: str, declared: Mapping[str, Setting[Any]]) -> None:
    """Raises ConfigError for a name that has no place in a Guardian's file."""
    if name.startswith(PREFIX):
        raise ConfigError(f"unknown setting {name}{did_you_mean(name, declared)}")
    if name in DERIVED or name.startswith(DERIVED_PREFIXES):
        raise ConfigError(
            f"{name} is a setting of brokers and controllers: for Guardian it follows from settings under {PREFIX}*"
        )
