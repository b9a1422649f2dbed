"""Rules that turn a certificate's subject into a user name, as Kafka's SslPrincipalMapper (KIP-371) applies them."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.security.authorizer import ANONYMOUS, Principal
from penstock.security.principals import MappingRules, NoMatchingRule, principal_of

ALICE = "CN=Alice,OU=ServiceUsers,O=Example,C=US"


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", ALICE, ALICE),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", ALICE, "Alice"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", ALICE, "alice"),
        ("RULE:^cn=(.*?),ou=(.*?),.*$/$1@$2/,RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U", ALICE, "ALICE@SERVICEUSERS"),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L , DEFAULT", "OU=x,CN=Bob.7", "bob.7"),
        ("RULE:^CN=nobody$/x/,DEFAULT", ALICE, ALICE),
        (r"RULE:^CN=(\w+)\/(\w+)$/$2/", "CN=a/b", "b"),
        (r"RULE:^CN=(\w+).*$/\$1-$1/", ALICE, "$1-Alice"),
        ("RULE:^CN=(\\w+).*$/$1@$4/", ALICE, "Alice@$4"),
        ("RULE:^CN=(\\w+).*$/$12/", ALICE, "Alice2"),
        ("RULE:^CN=(?<who>\\w+).*$/${who}/", ALICE, "Alice"),
        ("RULE:.*/u/", "CN=x", "uu"),
        ("RULE:.*/u/", "CN=a\rb", None),
        ("RULE:CN=[.]+/u/", "CN=..", "u"),
        (r"RULE:CN=a\.b/u/", "CN=axb", None),
        (r"RULE:CN=\w+/u/", "CN=é", None),
        ("", "CN=x", None),
        ("RULE:^CN=nobody$/x/", ALICE, None),
    ],
)
def test_the_first_rule_that_matches_all_wins(rules: str, subject: str, name: str | None) -> None:
    mapping = MappingRules.of(rules)
    if name is None:
        with pytest.raises(NoMatchingRule):
            mapping.name_of(subject)
    else:
        assert principal_of(subject, mapping) == Principal("User", name)


def test_who_shows_no_certificate_is_anonymous() -> None:
    assert principal_of(None, MappingRules.of("DEFAULT")) is ANONYMOUS


@pytest.mark.parametrize(
    "rules",
    ["RULE:", "DEFAULTS", "RULE:a/b", "RULE:(/x/", "RULE:a/$1/", "RULE:(a)/${b}/", "RULE:(a)/$x/", "RULE:a/b/X"],
)
def test_a_rule_that_is_none_is_refused(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        MappingRules.of(rules)
