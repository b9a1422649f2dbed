"""--command-config: every command that talks to a cluster has it, reads it, and says what in it means nothing."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.common import read_properties, security_of
from penstock.cli.completion import Place, places
from penstock.cli.main import COMMANDS, main, make_parser
from penstock.client.limits import SETTINGS_FILE_MAX_BYTES
from penstock.client.security import UNSECURED
from penstock.errors import ConfigError

TALKING = {"--bootstrap", "--broker"}
"""Options that say where brokers are."""
WITHOUT = {("pipeline", "init")}
"""Writes the address into a file, and asks nobody; a pipeline's file names its client properties."""
SECRET = "s3cret-canary"


def talking(command: str) -> Iterator[Place]:
    for place in places(make_parser(command)):
        if TALKING & {name for option in place.options for name in option.names}:
            yield place


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_talks_to_brokers_has_it(command: str) -> None:
    for place in talking(command):
        names = {name for option in place.options for name in option.names}
        assert place.words in WITHOUT or "--command-config" in names, place.words


def test_there_are_such_commands() -> None:
    assert sum(1 for command in COMMANDS for _ in talking(command)) > 25


def test_the_environment_names_a_file_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_COMMAND_CONFIG", "/etc/penstock/client.properties")
    arguments = make_parser("topics").parse_args(["topics", "list"])
    assert arguments.command_config == "/etc/penstock/client.properties"


def test_without_a_file_there_is_no_security() -> None:
    assert security_of(Namespace(command_config=None)) is UNSECURED


def test_what_means_nothing_is_warned_about_in_a_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "bootstrap.servers=a:1\nsecurity.protocol=PLAINTEXT\nssl.truststore.location=/x\nssl.trustore.type=PEM\nacks=all\n"
    )
    security = security_of(Namespace(command_config=str(file)))
    assert (security.protocol, security.tls, security.login) == ("PLAINTEXT", (), None)
    told = capsys.readouterr().err.splitlines()
    assert [line.partition(f"{file}: ")[2] for line in told] == [
        "no effect with security.protocol=PLAINTEXT: ssl.truststore.location",
        "ssl.trustore.type is not used by this command; did you mean ssl.truststore.type?",
        "acks is not used by this command",
    ]


def test_a_wrong_file_ends_the_command_with_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=x required password={SECRET}")
    assert main(["topics", "list", "--command-config", str(file)]) == 1
    said = capsys.readouterr().err
    assert "sasl.jaas.config is not a JAAS configuration" in said
    assert f"in {file}, line 3" in said
    assert SECRET not in said


def test_a_file_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match=r"cannot read /nowhere/x: no such file"):
        security_of(Namespace(command_config="/nowhere/x"))


def test_the_file_of_a_node_takes_values_from_providers_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", SECRET)
    file = tmp_path / "server.properties"
    file.write_text(
        "config.providers=env\n"
        "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        "ssl.key.password=${env:CANARY}\n"
    )
    properties = read_properties(str(file), ["ssl.keystore.password=${env:CANARY}"])
    assert dict(properties) == {"ssl.key.password": SECRET, "ssl.keystore.password": SECRET}
    assert SECRET not in repr(dict(properties))


PROVIDED = (
    "config.providers=file\n"
    "config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
    "security.protocol=${{file:{large}:key}}\n"
)


@pytest.mark.parametrize("text", ["", PROVIDED])
def test_what_is_too_large_for_a_file_of_settings_is_not_read_whole(tmp_path: Path, text: str) -> None:
    large, file = tmp_path / "large", tmp_path / "client.properties"
    with large.open("wb") as sparse:
        sparse.truncate(SETTINGS_FILE_MAX_BYTES + 1)
    file.write_text(text.format(large=large))
    with pytest.raises(ConfigError, match=r"cannot (be )?read.*: it has more than 16 mib"):
        security_of(Namespace(command_config=str(file if text else large)))
