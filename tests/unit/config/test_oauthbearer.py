"""The settings of OAUTHBEARER: on a listener, and where a client's token comes from."""

from __future__ import annotations

import pickle

import pytest
from support.issuer import AUDIENCE, CLIENT, ISSUER, SECRET, client_properties, listener_properties

from penstock.client.security import client_security
from penstock.config.broker.oauthbearer import PACKAGE, UNSECURED_HANDLER, VALIDATING_HANDLERS
from penstock.config.dynamic import check_dynamic
from penstock.config.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE
from penstock.config.oauthbearer import BearerListener, KeySource, TokenRules, check_url
from penstock.config.server import Settings
from penstock.config.token_source import TokenSource
from penstock.config.values import Password
from penstock.errors import ConfigError

KEYS = "https://issuer.example.com/keys"
TOKENS = "https://issuer.example.com/token"
PREFIX = "listener.name.secured.oauthbearer.sasl."
JAAS = f"{PREFIX}jaas.config"
HANDLER = f"{PREFIX}server.callback.handler.class"
ALLOWED = "penstock.sasl.oauthbearer.allowed.urls"


def settings(changes: dict[str, str | None] | None = None) -> Settings:
    given: dict[str, str | None] = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0,SECURED://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:0",
        "listener.name.secured.sasl.enabled.mechanisms": "OAUTHBEARER",
        **listener_properties(KEYS),
        **(changes or {}),
    }
    return Settings.from_properties({name: text for name, text in given.items() if text is not None}, strict=True)


def listener(changes: dict[str, str | None] | None = None) -> BearerListener:
    found = settings(changes).sasl.listeners["SECURED"].mechanisms["OAUTHBEARER"].bearer
    assert found is not None
    return found


def test_a_listener_says_whose_tokens_it_takes() -> None:
    assert listener() == BearerListener(TokenRules(ISSUER, (AUDIENCE,)), KeySource(KEYS, 3_600_000, 100, 10_000))
    assert settings().warnings == ()


def test_a_login_module_is_not_needed() -> None:
    assert listener({JAAS: None}) == listener()


def test_names_of_kafkas_are_understood() -> None:
    found = listener(
        {
            HANDLER: VALIDATING_HANDLERS[1],
            f"{PREFIX}oauthbearer.jwt.validator.class": f"{PACKAGE}BrokerJwtValidator",
            f"{PREFIX}oauthbearer.expected.audience": "kafka, other",
            f"{PREFIX}oauthbearer.sub.claim.name": "client_id",
            f"{PREFIX}oauthbearer.scope.claim.name": "scp",
            f"{PREFIX}oauthbearer.clock.skew.seconds": "5",
            f"{PREFIX}oauthbearer.jwks.endpoint.refresh.ms": "60000",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "7",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "8",
            JAAS: f'{OAUTHBEARER_MODULE} required ssl.truststore.type="PEM" ssl.truststore.location="/ca.pem";',
        }
    )
    assert found.rules == TokenRules(ISSUER, ("kafka", "other"), "client_id", "scp", 5000)
    tls = (("ssl.truststore.location", Password("/ca.pem")), ("ssl.truststore.type", Password("PEM")))
    assert found.keys == KeySource(KEYS, 60_000, 7, 8, tls)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {f"{PREFIX}oauthbearer.jwks.endpoint.url": None},
            "jwks.endpoint.url is missing: OAUTHBEARER on listener SECURED",
        ),
        ({f"{PREFIX}oauthbearer.jwks.endpoint.url": " "}, "jwks.endpoint.url is missing"),
        ({f"{PREFIX}oauthbearer.expected.issuer": None}, "expected.issuer is missing"),
        ({f"{PREFIX}oauthbearer.expected.issuer": "  "}, "expected.issuer is missing"),
        ({f"{PREFIX}oauthbearer.expected.audience": None}, "expected.audience is missing"),
        ({ALLOWED: None}, f"{KEYS} is not allowed: {ALLOWED} must have it"),
        ({ALLOWED: f"{KEYS}/"}, "is not allowed"),
        ({ALLOWED: "https://issuer.example.com"}, "is not allowed"),
        ({f"{PREFIX}oauthbearer.jwks.endpoint.url": "ftp://x/keys"}, "must begin with https, http or file"),
        ({f"{PREFIX}oauthbearer.jwt.validator.class": "com.example.Mine"}, "Java classes cannot be loaded here"),
        ({HANDLER: "com.example.Mine"}, "Java classes cannot be loaded here"),
        ({"sasl.server.callback.handler.class": VALIDATING_HANDLERS[0]}, "belongs to no mechanism of a listener"),
        ({f"{PREFIX}oauthbearer.sub.claim.name": ""}, "sub.claim.name is empty"),
        ({"sasl.oauthbearer.clock.skew.seconds": "-1"}, "clock.skew.seconds"),
        ({"sasl.oauthbearer.jwks.endpoint.refresh.ms": "0"}, "refresh.ms"),
        ({JAAS: f'{PLAIN_MODULE} required user_a="b";'}, "the login module of PLAIN, not of OAUTHBEARER"),
        ({JAAS: f'{OAUTHBEARER_MODULE} required clientid="x";'}, "the option clientid.*did you mean clientId"),
        ({JAAS: f'{OAUTHBEARER_MODULE} required unsecuredLoginStringClaim_sub="x";'}, "nobody has signed"),
        ({JAAS: f'{OAUTHBEARER_MODULE} required ssl.truststore.type="FLOPPY";'}, "ssl.truststore.type"),
        (
            {
                "listener.name.secured.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
                "listener.name.secured.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_a="b";',
                "listener.name.secured.plain.sasl.server.callback.handler.class": "com.example.Mine",
            },
            "secured.plain.sasl.server.callback.handler.class: Java classes cannot be loaded here",
        ),
        (
            {"inter.broker.listener.name": "SECURED", "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"},
            "nodes cannot log in among themselves by OAUTHBEARER",
        ),
    ],
)
def test_what_could_not_work_stops_the_start(changes: dict[str, str | None], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        settings(changes)


UNSIGNED: dict[str, str | None] = {HANDLER: UNSECURED_HANDLER}


def test_unsigned_tokens_are_taken_only_if_that_is_said_and_with_a_warning() -> None:
    options = (
        'unsecuredValidatorPrincipalClaimName="name" unsecuredValidatorScopeClaimName="scp"'
        ' unsecuredValidatorRequiredScope="A B" unsecuredValidatorAllowableClockSkewMs="7"'
    )
    changed = settings({**UNSIGNED, JAAS: f"{OAUTHBEARER_MODULE} required {options};"})
    ((name, bearer),) = changed.sasl.bearers
    rules = TokenRules("", (), "name", "scp", 7, unsigned=True, required_scope=("A", "B"))
    assert (name, bearer) == ("SECURED", BearerListener(rules, None))
    assert any("can log in as anyone" in warning for warning in changed.warnings)
    with pytest.raises(ConfigError, match="unsecuredValidatorAllowableClockSkewMs"):
        settings({**UNSIGNED, JAAS: f'{OAUTHBEARER_MODULE} required unsecuredValidatorAllowableClockSkewMs="-1";'})


def test_unsigned_tokens_are_not_switched_on_while_the_node_runs() -> None:
    with pytest.raises(ConfigError, match="must stand in the properties file"):
        settings().with_dynamic({}, {HANDLER: UNSECURED_HANDLER})
    assert not [each for _, each in settings().with_dynamic({}, {}).sasl.bearers if each.rules.unsigned]


@pytest.mark.parametrize(
    "name", ["oauthbearer.jwks.endpoint.url", "oauthbearer.expected.issuer", "oauthbearer.expected.audience"]
)
def test_whose_tokens_are_taken_is_not_changed_while_the_node_runs(name: str) -> None:
    for full in (f"{PREFIX}{name}", f"listener.name.secured.sasl.{name}", f"sasl.{name}"):
        with pytest.raises(ConfigError):
            check_dynamic({full: "https://evil.example.com"}, per_broker=True)
    with pytest.raises(ConfigError):
        check_dynamic({ALLOWED: "https://evil.example.com"}, per_broker=True)


def test_keys_that_come_in_clear_are_warned_about() -> None:
    for url, warned in (
        ("http://issuer.example.com/k", True),
        ("http://127.0.0.1:1/k", False),
        ("file:///etc/k", False),
    ):
        warnings = settings({f"{PREFIX}oauthbearer.jwks.endpoint.url": url, ALLOWED: url}).warnings
        assert any("is not encrypted" in warning for warning in warnings) == warned


@pytest.mark.parametrize(
    "url",
    [
        "", "keys", "/etc/keys", "gopher://x/", "javascript:alert(1)", "https://", "https:///keys", "http://:80/k",
        "https://user:password-canary@x/keys", "https://x:99999/keys", "https://x:0/", "https://[::1/keys",
        "https://x/a b", "https://x/a\nb", "https://x/\u00e4", "file://host/etc/keys", "file:keys", "file://",
    ],
)  # fmt: skip
def test_what_is_no_url_that_can_be_asked(url: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        check_url(url, "sasl.oauthbearer.jwks.endpoint.url")
    assert "canary" not in str(wrong.value)


# Clients


def source(properties: dict[str, str]) -> TokenSource:
    login = client_security(properties).login
    assert login is not None
    assert login.source is not None
    return login.source


def test_a_client_gets_its_token_by_client_credentials() -> None:
    options = f'clientId="{CLIENT}" clientSecret="{SECRET}" scope="a b" extension_zone="x" ssl.truststore.location="/t"'
    found = source(client_properties(TOKENS, options))
    assert (found.url, found.client_id, str(found.client_secret), found.scope) == (TOKENS, CLIENT, SECRET, "a b")
    assert (found.extensions, found.tls) == ((("zone", "x"),), (("ssl.truststore.location", "/t"),))
    assert not found.is_file


def test_kafka_4s_properties_go_before_the_login_module() -> None:
    more = {
        "sasl.oauthbearer.client.credentials.client.id": "id",
        "sasl.oauthbearer.client.credentials.client.secret": "canary-2",
        "sasl.oauthbearer.scope": "s",
        "sasl.oauthbearer.header.urlencode": "true",
        "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}ClientCredentialsJwtRetriever",
        "sasl.oauthbearer.jwt.validator.class": f"{PACKAGE}ClientJwtValidator",
        "sasl.login.callback.handler.class": f"{PACKAGE}secured.OAuthBearerLoginCallbackHandler",
        "sasl.login.connect.timeout.ms": "1",
        "sasl.login.read.timeout.ms": "2",
        "sasl.login.retry.backoff.ms": "3",
        "sasl.login.retry.backoff.max.ms": "4",
        "sasl.login.refresh.window.factor": "0.6",
        "sasl.login.refresh.window.jitter": "0",
        "sasl.login.refresh.min.period.seconds": "5",
        "sasl.login.refresh.buffer.seconds": "6",
    }
    for options in ("", 'clientId="other" clientSecret="other" scope="other"'):
        found = source({**client_properties(TOKENS, options), **more})
        assert (found.client_id, str(found.client_secret), found.scope, found.url_encoded) == (
            "id",
            "canary-2",
            "s",
            True,
        )
        assert (found.connect_timeout_ms, found.read_timeout_ms, found.retry_ms, found.retry_max_ms) == (1, 2, 3, 4)
        assert (found.window_factor, found.window_jitter, found.min_period_s, found.buffer_s) == (0.6, 0.0, 5, 6)


def test_a_file_needs_no_credentials() -> None:
    found = source(
        client_properties(
            "file:///run/token", "", sasl__oauthbearer__jwt__retriever__class=f"{PACKAGE}FileJwtRetriever"
        )
    )
    assert found == TokenSource("file:///run/token")
    assert found.is_file


def test_a_client_s_secret_does_not_show_and_goes_with_tasks() -> None:
    security = client_security(client_properties(TOKENS))
    assert SECRET not in repr(security)
    assert pickle.loads(pickle.dumps(security)) == security
    assert client_security(security.properties) == security


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sasl.oauthbearer.token.endpoint.url": ""}, "token.endpoint.url is missing"),
        ({"sasl.oauthbearer.token.endpoint.url": "ftp://x"}, "must begin with https, http or file"),
        (
            {"sasl.jaas.config": f"{OAUTHBEARER_MODULE} required;"},
            "client.credentials.client.id is missing, and so is clientId",
        ),
        ({"sasl.jaas.config": f'{OAUTHBEARER_MODULE} required clientId="x";'}, "client.secret is missing"),
        ({"sasl.jaas.config": f'{PLAIN_MODULE} required username="x" password="y";'}, "the login module of PLAIN"),
        (
            {"sasl.jaas.config": f'{OAUTHBEARER_MODULE} required unsecuredLoginStringClaim_sub="x";'},
            "nobody has signed",
        ),
        ({"sasl.jaas.config": f'{OAUTHBEARER_MODULE} required extension_auth="x";'}, "extension_auth is no name"),
        ({"sasl.jaas.config": f'{OAUTHBEARER_MODULE} required extension_a1="x";'}, "extension_a1 is no name"),
        ({"sasl.jaas.config": f'{OAUTHBEARER_MODULE} required extension_a="\u00e4";'}, "characters that no extension"),
        (
            {"sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}JwtBearerJwtRetriever"},
            "is not supported: it must be one of",
        ),
        ({"sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}FileJwtRetriever"}, "must be file:///PATH"),
        ({"sasl.oauthbearer.jwt.validator.class": "com.example.Mine"}, "is not supported"),
        ({"sasl.login.callback.handler.class": "com.example.Mine"}, "is not supported"),
        ({"sasl.oauthbearer.assertion.file": "/x"}, "jwt-bearer"),
        ({"sasl.login.refresh.window.factor": "0.4"}, "window.factor"),
        ({"sasl.oauthbearer.header.urlencode": "perhaps"}, "urlencode"),
        ({"sasl.login.class": "com.example.Mine"}, "names a Java class"),
    ],
)
def test_what_a_client_cannot_do_is_refused(changes: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as wrong:
        client_security({**client_properties(TOKENS), **changes})
    assert SECRET not in str(wrong.value)


def test_a_login_handler_is_for_oauthbearer_only() -> None:
    jaas = f'{PLAIN_MODULE} required username="a" password="b";'
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    with pytest.raises(ConfigError, match="names a Java class"):
        client_security({**given, "sasl.login.callback.handler.class": f"{PACKAGE}OAuthBearerLoginCallbackHandler"})
    unused = client_security({**given, "sasl.oauthbearer.token.endpoint.url": TOKENS}).unused
    assert unused == ("sasl.oauthbearer.token.endpoint.url",)


def test_a_name_that_no_client_has_is_told() -> None:
    given = client_properties(
        TOKENS, sasl__oauthbearer__tokn__endpoint__url="x", sasl__oauthbearer__expected__issuer="y"
    )
    assert client_security(given).unknown == ("sasl.oauthbearer.tokn.endpoint.url",)
