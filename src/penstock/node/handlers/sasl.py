"""SaslHandshake (key 17) and SaslAuthenticate (key 36): a client logs in (KIP-43, KIP-152, KIP-368).

SaslHandshake, versions 0-1, names a mechanism and is answered with those that the listener has; after version 0 tokens
follow without headers. SaslAuthenticate, versions 0-2, flexible from 2, carries a token; from 1 on its answer says how
long the login lasts. What is allowed when, and what a failure leads to, is `penstock.node.logins`. On a listener
without SASL, and for who is logged in and need not log in again, both are ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.node.request import Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake_request import SaslHandshakeRequest

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def handle_handshake(node: Broker, request: Request[SaslHandshakeRequest], now_ms: int) -> Outcome:
    return node.dispatcher.logins.handshake(request)


def handle_authenticate(node: Broker, request: Request[SaslAuthenticateRequest], now_ms: int) -> Outcome:
    return node.dispatcher.logins.authenticate(request)


HANDLERS = (
    Handler(ApiKey.SASL_HANDSHAKE, handle_handshake),
    Handler(ApiKey.SASL_AUTHENTICATE, handle_authenticate),
)
