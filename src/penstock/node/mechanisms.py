"""The SASL mechanisms of a node: its settings, users and delegation tokens, as they are when somebody logs in."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from penstock.metadata.scram import Credentials
from penstock.node.plugged import Plugged
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.security.mechanisms import Mechanisms
from penstock.security.tokens import DelegationTokenSource


def mechanisms_of(
    state: NodeState, scheduler: Scheduler, plugged: Plugged, credentials: Callable[[], Credentials], nonces: Random
) -> Mechanisms:
    """See the module's head. `nonces`: randomness that nobody outside may guess."""
    tokens = DelegationTokenSource(
        state.settings.delegation_token_secret_key or "",
        lambda: state.image.delegation_tokens,
        lambda: scheduler.wall.at(scheduler.now_ms),
        state.metadata_directory.index,
    )
    return Mechanisms(lambda: state.settings.sasl, credentials, nonces, kerberos=plugged.kerberos, tokens=tokens)
