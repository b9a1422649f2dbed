"""Kerberos names, and the rules that make them short. `tests/interop/security` compares them with Kafka's."""

from __future__ import annotations

import pytest

from penstock.config.kerberos import KerberosName, local_rules, parse_rules
from penstock.config.server import Settings
from penstock.errors import ConfigError
from penstock.security.kerberos import NoShortName, short_name


def short(name: str, *rules: str) -> str:
    return short_name(name, parse_rules(rules or ("DEFAULT",)), "ACME")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("alice@ACME", ("alice", None, "ACME")),
        ("kafka/host@ACME", ("kafka", "host", "ACME")),
        ("@", ("", None, "")),
        ("alice", ("alice", None, None)),
        ("a/b/c", ("a/b/c", None, None)),
    ],
)
def test_a_name_has_one_part_or_two_and_a_realm(text: str, parts: tuple[str, str | None, str | None]) -> None:
    assert KerberosName.parse(text) == KerberosName(*parts)


@pytest.mark.parametrize("text", ["a@b@c", "a/b/c@ACME", "admin\\@x@ACME", "admin\\/x@ACME", "a\\b"])
def test_a_name_that_could_be_taken_for_another_has_none(text: str) -> None:
    with pytest.raises(ValueError, match="malformed"):
        KerberosName.parse(text)
    with pytest.raises(NoShortName):
        short(text, "RULE:[1:$1]", "RULE:[2:$1]", "DEFAULT")


@pytest.mark.parametrize(
    ("name", "rules", "found"),
    [
        ("alice@ACME", (), "alice"),
        ("kafka/host@ACME", (), "kafka"),
        ("alice@ACME", ("RULE:[1:$1@$0](.*@ACME)s/@.*//",), "alice"),
        ("alice@OTHER", ("RULE:[1:$1@$0](.*@OTHER)s/@OTHER/-other/", "DEFAULT"), "alice-other"),
        ("alice@OTHER", ("RULE:[2:$1]", "RULE:[1:$1]"), "alice"),
        ("App.Service-1/h@ACME", ("RULE:[2:$1](App\\..*)s/App\\.([A-Z])/$1/g/L",), "service-1"),
        ("Alice@ACME", ("RULE:[1:$1]/L",), "alice"),
        ("Alice@ACME", ("RULE:[1:$1]/U",), "ALICE"),
        ("banana@ACME", ("RULE:[1:$1]s/a/o/",), "bonana"),
        ("banana@ACME", ("RULE:[1:$1]s/a/o/g",), "bonono"),
        ("banana@ACME", ("RULE:[1:$1]s/a/o/g/",), "bonono"),
        ("a/b@ACME", ("RULE:[2:$2.$1.$0]",), "b.a.ACME"),
    ],
)
def test_the_first_rule_that_applies_makes_it_short(name: str, rules: tuple[str, ...], found: str) -> None:
    assert short(name, *rules) == found


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("alice@OTHER", ("DEFAULT",)),
        ("alice@ACME", ("RULE:[2:$1]",)),
        ("alice@ACME", ("RULE:[1:$1@$0]", "DEFAULT")),
        ("alice@ACME", ("RULE:[1:$2]",)),
        ("alice@ACME", ("RULE:[1:$]",)),
        ("alice@ACME", ("RULE:[1:$1](bob)",)),
    ],
)
def test_where_no_rule_makes_it_short_there_is_no_name(name: str, rules: tuple[str, ...]) -> None:
    with pytest.raises(NoShortName):
        short(name, *rules)


@pytest.mark.parametrize(
    "rule", ["default", "RULE:[1:$1", "RULE:[:$1]", "RULE:[99999999999:$1]", "RULE:[1:$1](*)", "DEFAULT x",
             "RULE:[1:$1]s/(/x/", "RULE:[1:$1]s/a/$/"]
)  # fmt: skip
def test_a_rule_that_is_none_is_refused(rule: str) -> None:
    with pytest.raises(ConfigError):
        parse_rules((rule,))
    assert local_rules((rule,)) is not None
    with pytest.raises(ConfigError, match=r"sasl\.kerberos\.principal\.to\.local\.rules"):
        Settings.for_node(**{"sasl.kerberos.principal.to.local.rules": rule})
