"""Begins logins: the server's side of a mechanism on a listener, and the client's side with this node's credentials."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from penstock.config.oauthbearer import KeySource
from penstock.config.sasl import Sasl, SaslListener, SaslLogin
from penstock.metadata.scram import Credentials, ScramCredential, ScramMechanism
from penstock.security.gssapi import GssapiClient, GssapiServer, Kerberos
from penstock.security.oauthbearer.exchange import OAuthBearerServer
from penstock.security.oauthbearer.keys import KeyRing
from penstock.security.plain import PlainClient, PlainServer
from penstock.security.sasl import SaslClient, SaslServer
from penstock.security.scram import ScramClient, ScramServer, TokenCredential
from penstock.security.tokens import DelegationTokenSource, TokenLogins

NONCE_BITS = 160
DECOY_KEY_BITS = 256


class Mechanisms:
    """See the module's head.

    Args:
        settings: the present ones. credentials: those of SCRAM at present.
        nonces: randomness that nobody outside may guess. kerberos: makes the contexts of GSSAPI, if there is any.
        tokens: where delegation tokens are; None: there are none.

    Attributes: `rings`, the keys that tokens of OAUTHBEARER are signed with, which the world outside fetches.
    """

    def __init__(
        self,
        settings: Callable[[], Sasl],
        credentials: Callable[[], Credentials],
        nonces: Random,
        *,
        kerberos: Kerberos | None = None,
        tokens: DelegationTokenSource | None = None,
    ) -> None:
        self.rings: dict[KeySource, KeyRing] = {}
        self._kerberos = kerberos
        self._settings = settings
        self._credentials = credentials
        self._nonces = nonces
        self._tokens = None if tokens is None else TokenLogins(tokens, nonces)
        self._decoy_key = nonces.getrandbits(DECOY_KEY_BITS).to_bytes(DECOY_KEY_BITS // 8, "big")

    def of(self, listener: str) -> SaslListener | None:
        """What clients can log in with on a listener; None if they need not."""
        return self._settings().listeners.get(listener)

    def server(self, listener: str, mechanism: str, wall_ms: Callable[[], int]) -> SaslServer:
        """Begins a login of a client with a mechanism that the listener has. `wall_ms`: the time, since the epoch."""
        scram = ScramMechanism.named(mechanism)
        if scram is None:
            of_mechanism = self._settings().listeners[listener].mechanisms[mechanism]
            if of_mechanism.bearer is not None:
                return OAuthBearerServer(of_mechanism.bearer, self.ring(of_mechanism.bearer.keys), wall_ms)
            if of_mechanism.kerberos is None:
                return PlainServer(of_mechanism.users)
            accept = partial(self.kerberos.acceptor, of_mechanism.kerberos)
            return GssapiServer(accept, ends_with_ticket=of_mechanism.max_reauth_ms > 0)
        return ScramServer(scram, self._nonce(), partial(self._look_up, scram), self._decoy_key)

    def login(self, listener: str) -> SaslLogin | None:
        """How this node logs in on a listener of another node; None if it need not."""
        return self._settings().logins.get(listener)

    @property
    def kerberos(self) -> Kerberos:
        """What makes the contexts of GSSAPI."""
        assert self._kerberos is not None, "a node that may speak GSSAPI is given what it needs"
        return self._kerberos

    def client(self, login: SaslLogin, host: str) -> SaslClient:
        """Begins a login of this node at a host."""
        if login.kerberos is not None:
            return GssapiClient(partial(self.kerberos.initiator, login.kerberos, host))
        scram = ScramMechanism.named(login.mechanism)
        if scram is None:
            return PlainClient(login.user, login.password)
        return ScramClient(scram, login.user, login.password, self._nonce())

    def ring(self, source: KeySource | None) -> KeyRing:
        """The keys of a source: none before they have been fetched. Without a source nobody needs any."""
        return KeyRing() if source is None else self.rings.setdefault(source, KeyRing())

    def _nonce(self) -> str:
        return f"{self._nonces.getrandbits(NONCE_BITS):040x}"

    def _look_up(
        self, mechanism: ScramMechanism, user: str, is_token: bool
    ) -> ScramCredential | TokenCredential | None:
        """The credential of a user or a delegation token. Raises NotResident, see `security.tokens`."""
        if is_token:
            return None if self._tokens is None else self._tokens.look_up(mechanism, user)
        return self._credentials().get((int(mechanism), user))
