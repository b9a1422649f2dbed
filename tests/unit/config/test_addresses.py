"""Addresses in settings: each spelling of one is that one, and host names are refused."""

from __future__ import annotations

import pytest

from penstock.config.addresses import address_overrides
from penstock.config.server import Settings
from penstock.errors import ConfigError

NAME = "max.connections.per.ip.overrides"


def test_limits_of_addresses_are_of_the_address_in_any_spelling() -> None:
    text = "127.0.0.1:200, [::1]:5, 2001:DB8:0:0::7:3,[fe80::1%eth0]:2,::ffff:10.0.0.7 : 9,10.1:4,"
    assert address_overrides(text) == {
        "127.0.0.1": 200,
        "::1": 5,
        "2001:db8::7": 3,
        "fe80::1": 2,
        "10.0.0.7": 9,
        "10.0.0.1": 4,
    }
    assert address_overrides("localhost:1,127.0.0.1:2") == {"127.0.0.1": 2}, "the last counts"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("127.0.0.1", "not an entry: it must be like 10.0.0.7:100"),
        (":5", "not an entry"),
        ("10.0.0.7:-5", "not an entry"),
        ("10.0.0.7:\u0665", "not an entry"),
        ("10.0.0.7:many", "not an entry"),
        ("10.0.0.256:5", "10.0.0.256.*not an address"),
        ("client.example.org:5", "client.example.org.*names of hosts are not looked up here"),
        ("[10.0.0.7]:5", "not an address"),
    ],
)
def test_what_is_no_address_with_a_number_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=f"{NAME} = .*{sentence}"):
        Settings.for_node(**{NAME: f"10.0.0.1:1,{text}"})


def test_a_host_name_from_another_version_is_left_out_and_nothing_else() -> None:
    changed = Settings.for_node().with_dynamic({NAME: "client.example.org:5", "max.connections": "7"}, {})
    assert (changed.max_connections, changed.max_connections_per_ip_overrides) == (7, "")
    assert "client.example.org" in changed.warnings[-1]
