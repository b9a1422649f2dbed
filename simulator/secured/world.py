"""A simulated cluster in which rights matter.

    SecuredWorld(seed, SECURED_SCENARIOS["secured"]).run()

Its nodes have an authorizer. Between themselves, and for the load of every cluster, they have a listener whose clients
are super users; on a second one guests and the admin of ACLs log in, and their sessions are short.

`guests` is who they are and what they know, `tokens` who has delegation tokens, `rules` what holds of each decision,
`scenarios` what happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from simulator.cluster.scenarios import Scenario
from simulator.cluster.world import AnyAdmin, ClusterWorld
from simulator.secured.guests import ADMIN, HIDDEN, SHOWN, AclAdmin, Guest, password
from simulator.secured.rules import DecisionRules
from simulator.secured.tokens import HOLDER, LONG_MS, SWEPT_EVERY_MS, Holder
from simulator.world.machine import Machine
from simulator.world.network import Address

GUESTS = 4
GUESTS_LISTENER, GUESTS_PORT = "GUESTS", 9094
SESSION_MS = (2_000, 4_000)
"""Whoever logs in again within a second is refused, as Kafka does it."""
EARLY_PROBABILITY = 0.5
"""How likely a broker serves guests before it knows the ACLs."""
KNOCK_MS = 60
USERS = [ADMIN, HOLDER, *(f"guest-{number}" for number in range(GUESTS))]
NODE = "node"
PASSWORDS = " ".join(f'user_{user}="{password(user)}"' for user in USERS)
MODULE = f"org.apache.kafka.common.security.plain.PlainLoginModule required {PASSWORDS};"
CONTROLLER_MODULE = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="{NODE}" password="{password(NODE)}" user_{NODE}="{password(NODE)}";'
)
PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "SASL_PLAINTEXT", GUESTS_LISTENER: "SASL_PLAINTEXT"}
OTHER_PRODUCERS, OTHER_PLAIN, OTHER_READERS = 2, 1, 1


class SecuredWorld(ClusterWorld):
    """See the module's head."""

    def __init__(self, seed: int, scenario: Scenario) -> None:
        super().__init__(seed, scenario)
        del self.producers[OTHER_PRODUCERS:], self.plain[OTHER_PLAIN:], self.readers[OTHER_READERS:]
        known = len(self.load.clients)
        brokers = [each.address(GUESTS_LISTENER) for each in self.machines if each.settings.is_broker]
        self.guests = [Guest(self.load, number, brokers, renews=number % 2 == 0) for number in range(GUESTS)]
        self.acl_admin = AclAdmin(self.load, brokers, [guest.user for guest in self.guests])
        self.holder = Holder(self.load, brokers, self._wall_ms)
        self.rules = {machine: DecisionRules(machine, self.guests, self.holder) for machine in self.machines}
        for machine, rules in self.rules.items():
            machine.audit = rules
        self.faults.cluster.clients += [client.name for client in self.load.clients[known:]]

    def _settings(self, controller_ids: Sequence[int]) -> dict[str, Any]:
        return {
            **super()._settings(controller_ids),
            "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super_users": f"User:ANONYMOUS;User:{ADMIN};User:{NODE}",
            "connections_max_reauth_ms": self.random.choice(SESSION_MS),
            "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256",
            "sasl_mechanism_controller_protocol": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": CONTROLLER_MODULE,
            "listener_security_protocol_map": ",".join(f"{name}:{protocol}" for name, protocol in PROTOCOLS.items()),
            "delegation_token_secret_key": "the-key-of-the-tokens",
            "delegation_token_expiry_time_ms": LONG_MS,
            "delegation_token_max_lifetime_ms": LONG_MS,
            "delegation_token_expiry_check_interval_ms": SWEPT_EVERY_MS,
        }

    def _listeners(self, host: str, *, broker: bool, controller: bool) -> dict[str, str]:
        settings = super()._listeners(host, broker=broker, controller=controller)
        if not broker:
            return settings
        early = {"early.start.listeners": GUESTS_LISTENER} if self.random.random() < EARLY_PROBABILITY else {}
        guests = f"{GUESTS_LISTENER}://{host}:{GUESTS_PORT}"
        return {
            **settings,
            **early,
            "listeners": f"{settings['listeners']},{guests}",
            "listener.name.guests.plain.sasl.jaas.config": MODULE,
        }

    def _wall_ms(self, address: Address) -> int:
        """What the clock of the machine at an address says."""
        machine = next(each for each in self.machines if each.host == address[0])
        return self.simulation.now_ms + machine.wall_ahead_ms

    def _mend(self, machine: Machine) -> None:
        """Whoever waits for a broker is there while it starts."""
        super()._mend(machine)
        if machine.settings.is_broker:
            address = machine.address(GUESTS_LISTENER)
            for guest in self.guests:
                self.simulation.after_ms(self.random.randrange(KNOCK_MS), partial(guest.knock, address))

    def _observe(self, machine: Machine) -> None:
        super()._observe(machine)
        self.rules[machine].look()

    # The run

    def _boot(self) -> None:
        super()._boot()
        self._make_topics([SHOWN, HIDDEN], 1, self._topic_configs())

    def _suffer(self) -> None:
        for guest in self.guests:
            guest.go_on()
        super()._suffer()

    def _all_admins(self) -> list[AnyAdmin]:
        return [*super()._all_admins(), self.acl_admin, self.holder]

    def _compare_metadata(self) -> None:
        super()._compare_metadata()
        self.acl_admin.check_acls({acl for _, acl in self.checker.image.acls.by_id.items()})
        clocks = [self.simulation.now_ms + machine.wall_ahead_ms for machine in self.machines]
        self.holder.check_tokens(self.checker.image.delegation_tokens, min(clocks), max(clocks))
