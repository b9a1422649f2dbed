"""Config providers: what a local properties file takes from files, directories and the environment."""

from __future__ import annotations

import pytest

from penstock.config.properties import Properties, parse
from penstock.config.providers import World, resolved
from penstock.errors import ConfigError

PACKAGE = "org.apache.kafka.common.config.provider"
HEAD = f"""
config.providers=file,dir,env
config.providers.file.class={PACKAGE}.FileConfigProvider
config.providers.dir.class={PACKAGE}.DirectoryConfigProvider
config.providers.env.class={PACKAGE}.EnvVarConfigProvider
"""
FILES = {
    "/secrets/client.properties": b"password=s3cret\nuser = alice\nnested=${env:USER}\n",
    "/secrets/run/token": b"t0ken\n",
    "/elsewhere/client.properties": b"password=other\n",
}
LINKS = {"/secrets/link": "/elsewhere/client.properties"}


def read(path: str) -> bytes:
    if path not in FILES:
        raise FileNotFoundError(2, "No such file or directory", path)
    return FILES[path]


WORLD = World(read, lambda path: LINKS.get(path, path.replace("/secrets/../", "/")), {"USER": "bob", "HOME": "/home"})


def of(text: str, head: str = HEAD) -> Properties:
    return resolved(parse(head + text, "conf"), WORLD)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("${file:/secrets/client.properties:password}", "s3cret"),
        ("user=${file:/secrets/client.properties:user}, ${env:USER}", "user=alice, bob"),
        ("${dir:/secrets/run:token}", "t0ken\n"),
        ("${env:USER}", "bob"),
        ("${file:/secrets/client.properties:nested}", "${env:USER}"),
        ("${vault:/a:b}", "${vault:/a:b}"),
        ("plain", "plain"),
        ("${USER}", "${USER}"),
    ],
)
def test_a_reference_is_replaced_once_by_what_a_declared_provider_has(value: str, expected: str) -> None:
    assert of(f"x={value}")["x"] == expected


def test_a_value_from_a_provider_hides_itself_and_the_declarations_are_gone() -> None:
    properties = of("x=${env:USER}\ny=1")
    assert dict(properties) == {"x": "bob", "y": "1"}
    assert repr(properties["x"]) == "[hidden]"
    assert (properties.line_of("x"), properties.line_of("config.providers")) == (6, None)


def test_without_declared_providers_references_stay_text() -> None:
    assert of("x=${env:USER}", head="")["x"] == "${env:USER}"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("${file:/secrets/client.properties:pasword}", "does not have; did you mean password?"),
        ("${file:/secrets/gone:x}", "which cannot be read: no such file"),
        ("${file:x}", "has no path: it must be ${PROVIDER:FILE:KEY}"),
        ("${dir:/secrets:../elsewhere/client.properties}", "which is no file of a directory"),
        ("${dir:/secrets:}", "which is no file of a directory"),
        ("${env:/etc:USER}", "has a path, and the environment has none"),
        ("${env:NOBODY}", "names NOBODY, which the environment does not have"),
    ],
)
def test_what_a_provider_cannot_give_is_an_error_that_names_the_property_and_its_line(value: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        of(f"x={value}")
    assert str(refused.value).startswith("x: ${")
    assert why in str(refused.value)
    assert "in conf, line 6" in str(refused.value)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "path",
    ["/elsewhere/client.properties", "/secrets/link", "/secrets/../elsewhere/client.properties", "/secretsX/a"],
)
def test_paths_beside_the_allowed_ones_are_refused_links_included(path: str) -> None:
    head = f"{HEAD}config.providers.file.param.allowed.paths=/secrets,/more\n"
    assert of("x=${file:/secrets/client.properties:user}", head)["x"] == "alice"
    with pytest.raises(ConfigError, match=r"which is not below allowed\.paths = /secrets,/more"):
        of(f"x=${{file:{path}:password}}", head)


def test_variables_that_the_allow_list_does_not_match_are_refused() -> None:
    head = f"{HEAD}config.providers.env.param.allowlist.pattern=US.*\n"
    assert of("x=${env:USER}", head)["x"] == "bob"
    with pytest.raises(ConfigError, match=r"names HOME, which allowlist\.pattern = US\.\* does not match"):
        of("x=${env:HOME}", head)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("config.providers=x", "config.providers.x.class is missing: it must be one of"),
        ("config.providers=x\nconfig.providers.x.class=com.example.Vault", "= com.example.Vault: it must be one of"),
        (f"config.providers=x\nconfig.providers.x.class={PACKAGE}.EnvVarConfigProvider\n"
         "config.providers.x.param.allowlist.pattern=(", "is no regular expression"),
        (f"config.providers=x\nconfig.providers.x.class={PACKAGE}.EnvVarConfigProvider\n"
         "config.providers.x.param.allowed.paths=/", "configures no provider"),
    ],
)  # fmt: skip
def test_declarations_that_mean_nothing_are_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        of("", head=text)
    assert why in str(refused.value)
