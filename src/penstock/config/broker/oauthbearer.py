"""Settings of OAUTHBEARER: whose tokens a listener takes, and where the keys are that they are signed with.

Each may be given for one listener, or for the mechanism of it (`config.prefixed`), and none while the node runs. See
`config.oauthbearer` for what follows from them.
"""

from __future__ import annotations

from penstock.config.checks import distinct
from penstock.config.setting import Group, Setting
from penstock.config.values import CLASS, INT, LIST, LONG, STRING

PACKAGE = "org.apache.kafka.common.security.oauthbearer."
VALIDATING_HANDLERS = (
    f"{PACKAGE}OAuthBearerValidatorCallbackHandler",
    f"{PACKAGE}secured.OAuthBearerValidatorCallbackHandler",
)
UNSECURED_HANDLER = f"{PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
"""Takes tokens that nobody has signed. In Kafka it is the default."""
DEFAULT_VALIDATOR = f"{PACKAGE}DefaultJwtValidator"
VALIDATORS = (DEFAULT_VALIDATOR, f"{PACKAGE}BrokerJwtValidator")


class OAuthBearerSettings(Group):
    """Tokens of OAuth 2 and OpenID Connect."""

    sasl_oauthbearer_jwks_endpoint_url = Setting[str | None](
        "sasl.oauthbearer.jwks.endpoint.url", STRING, default=None
    ).documented(
        "Where the keys are that tokens are signed with (a JWKS, RFC 7517): https, http, or a file as file:///PATH. "
        "penstock.sasl.oauthbearer.allowed.urls must have it."
    )
    penstock_sasl_oauthbearer_allowed_urls = Setting[tuple[str, ...]](
        "penstock.sasl.oauthbearer.allowed.urls", LIST, default=(), check=distinct
    ).documented(
        "The URLs that OAUTHBEARER may make this node ask, or files as file:///PATH, each written as it is where it is "
        "used. In Kafka this is the Java property org.apache.kafka.sasl.oauthbearer.allowed.urls."
    )
    sasl_oauthbearer_expected_issuer = Setting[str | None](
        "sasl.oauthbearer.expected.issuer", STRING, default=None
    ).documented("Who must have issued a token: its claim iss. Without it there is no OAUTHBEARER here.")
    sasl_oauthbearer_expected_audience = Setting[tuple[str, ...]](
        "sasl.oauthbearer.expected.audience", LIST, default=(), check=distinct
    ).documented(
        "For whom a token must be: its claim aud must have one of these. Without it there is no OAUTHBEARER here."
    )
    sasl_oauthbearer_sub_claim_name = Setting("sasl.oauthbearer.sub.claim.name", STRING, default="sub").documented(
        "Claim that names the user: the principal is User: and its value."
    )
    sasl_oauthbearer_scope_claim_name = Setting(
        "sasl.oauthbearer.scope.claim.name", STRING, default="scope"
    ).documented("Claim with the scopes of a token; if it is there, it must be well-formed.")
    sasl_oauthbearer_clock_skew_seconds = Setting(
        "sasl.oauthbearer.clock.skew.seconds", INT, default=30, at_least=0
    ).documented("How far the clocks of this node and of who issues tokens may be apart, in seconds.")
    sasl_oauthbearer_jwks_endpoint_refresh_ms = Setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, default=3_600_000, at_least=1
    ).documented(
        "How often the keys are fetched anew. A token that names an unknown key has them fetched sooner, at most every "
        "10 seconds. While they cannot be fetched the old ones are used for a day."
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, default=100, at_least=1
    ).documented("First pause after keys could not be fetched; it doubles with each further failure.")
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, default=10_000, at_least=1
    ).documented("Longest pause after keys could not be fetched, and how long the start tries to fetch them at all.")
    sasl_oauthbearer_jwt_validator_class = Setting(
        "sasl.oauthbearer.jwt.validator.class", CLASS, default=DEFAULT_VALIDATOR
    ).documented(
        "How tokens are checked; only Kafka's DefaultJwtValidator and BrokerJwtValidator have a counterpart here."
    )
    sasl_server_callback_handler_class = Setting[str | None](
        "sasl.server.callback.handler.class", CLASS, default=None
    ).documented(
        "For OAUTHBEARER: Kafka's OAuthBearerValidatorCallbackHandler, which is the default here, or its "
        "OAuthBearerUnsecuredValidatorCallbackHandler, the default in Kafka, with which anybody can be anyone: it "
        "takes tokens that are not signed. In the properties file only, and only for the mechanism of one listener."
    )
