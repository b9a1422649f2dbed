"""JAAS configurations are read as Kafka reads them."""

from __future__ import annotations

import pytest

from penstock.config.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE, parse
from penstock.errors import ConfigError


def options(text: str) -> dict[str, str]:
    return dict(parse(f"{SCRAM_MODULE} required {text}").options)


def test_a_client_and_a_server_of_plain() -> None:
    module = parse(
        f'{PLAIN_MODULE} required\n  username="admin"\n  password="admin-secret"\n  user_admin="admin-secret"\n'
        '  user_alice="alice-secret";'
    )
    assert (module.kind, module.username, module.password) == ("PLAIN", "admin", "admin-secret")
    assert module.users == {"admin": "admin-secret", "alice": "alice-secret"}
    assert module.serves("PLAIN")
    assert not module.serves("SCRAM-SHA-256")


def test_one_module_for_both_scram_mechanisms() -> None:
    module = parse(f"{SCRAM_MODULE} required;")
    assert module.serves("SCRAM-SHA-256")
    assert module.serves("SCRAM-SHA-512")
    assert not module.serves("PLAIN")
    assert (module.username, module.password, module.token, module.users) == (None, None, False, {})


def test_the_other_modules_and_flags() -> None:
    assert parse(f"{OAUTHBEARER_MODULE} SUFFICIENT;").kind == "OAUTHBEARER"
    assert parse(f'{SCRAM_MODULE} optional tokenauth="true";').token


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('k="a b;c=d";', "a b;c=d"),
        ("k='a\"b';", 'a"b'),
        (r'k="a\"b\\c";', 'a"b\\c'),
        (r'k="\t\n\101\0607\x";', "\t\nA07x"),
        ('k="";', ""),
        ("k=word-1_$.x;", "word-1_$.x"),
        ("k = \n 'v' ;", "v"),
        ("k=v // a comment\n;", "v"),
        ("k=/* a\ncomment */v;", "v"),
        ("k='first' k=\"last\";", "last"),
        ('k="http://host/path";', "http://host/path"),
        ("k=pässword€;", "pässword€"),
        ("'k'=v;", "v"),
    ],
)
def test_values(text: str, value: str) -> None:
    assert options(text) == {"k": value}


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        SCRAM_MODULE,
        f"{SCRAM_MODULE};",
        f"{SCRAM_MODULE} needed;",
        f"{SCRAM_MODULE} required",
        f"{SCRAM_MODULE} required k=v",
        f"{SCRAM_MODULE} required k;",
        f"{SCRAM_MODULE} required k=;",
        f"{SCRAM_MODULE} required k=1;",
        f"{SCRAM_MODULE} required k=a@b;",
        f"{SCRAM_MODULE} required =v;",
        f"{SCRAM_MODULE} required 1k=v;",
        f'{SCRAM_MODULE} required k="canary;',
        f'{SCRAM_MODULE} required k="canary\n";',
        f'{SCRAM_MODULE} required k="canary\\',
        f"{SCRAM_MODULE} required k=v; {SCRAM_MODULE} required;",
        f"{SCRAM_MODULE} required k=v; more",
        f"{SCRAM_MODULE} required k=my canary;",
        f'{SCRAM_MODULE} required k="my"canary;',
    ],
)
def test_what_is_malformed_is_refused_by_the_name_of_the_setting(text: str) -> None:
    with pytest.raises(ConfigError, match=r"listener\.name\.x\.sasl\.jaas\.config") as wrong:
        parse(text, "listener.name.x.sasl.jaas.config")
    assert "canary" not in str(wrong.value)


@pytest.mark.parametrize("module", ["com.sun.security.auth.module.JndiLoginModule", "Mine"])
def test_other_login_modules_do_not_exist(module: str) -> None:
    with pytest.raises(ConfigError, match="no login module"):
        parse(f"{module} required;")


def test_secrets_do_not_show() -> None:
    assert "canary" not in repr(parse(f'{PLAIN_MODULE} required password="canary";'))
