"""Loads the functions that `principal.builder.class = MODULE:FUNCTION` names, when a node starts.

A module is found as any other: installed beside Penstock, or in a directory of PYTHONPATH. What is not there, cannot be
imported, is not a function of one argument, or names no principal for a session made up for the listener, stops the
start; so a mistake shows when the node starts, and not when everybody is refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from penstock.config.nearest import did_you_mean
from penstock.config.server import Settings
from penstock.errors import ConfigError
from penstock.events import events
from penstock.security.authorizer import ANONYMOUS
from penstock.security.builder import Principal, PrincipalBuilder, Session, problem_of, where_raised

logger = events("server")

SETTING = "principal.builder.class"
LOCAL_ADDRESS = "127.0.0.1"
TRIAL_NAME = "trial"


def load_builders(settings: Settings) -> dict[str, PrincipalBuilder]:
    """The functions that the settings name, by `MODULE:FUNCTION`, each tried. Raises ConfigError."""
    found: dict[str, PrincipalBuilder] = {}
    for endpoint in settings.listener_endpoints:
        name = settings.principal_builder(endpoint.listener)
        if name is not None:
            builder = found.get(name) or load(name)
            found[name] = builder
            try_builder(name, builder, trial_session(settings, endpoint.listener))
    return found


def load(name: str) -> PrincipalBuilder:
    """A function by `MODULE:FUNCTION`. Raises ConfigError."""
    module_name, _, attribute = name.partition(":")
    module = imported(name, module_name)
    builder = getattr(module, attribute, None)
    if builder is None:
        near = did_you_mean(attribute, [each for each in vars(module) if not each.startswith("_")])
        raise ConfigError(f"{SETTING} = {name}: module {module_name} has no {attribute}{near}")
    if not callable(builder):
        raise ConfigError(f"{SETTING} = {name}: {attribute} is not a function but {type(builder).__name__}")
    if inspect.iscoroutinefunction(builder) or inspect.isgeneratorfunction(builder):
        raise ConfigError(f"{SETTING} = {name}: {attribute} must be a plain function, which returns a Principal")
    try:
        inspect.signature(builder).bind(None)
    except (TypeError, ValueError):
        raise ConfigError(f"{SETTING} = {name}: {attribute} must take one argument, the session") from None
    function: PrincipalBuilder = builder
    return function


def imported(name: str, module_name: str) -> Any:
    """A module. Raises ConfigError."""
    try:
        return import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the module does when it is imported
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"{SETTING} = {name}: there is no module {error.name}\n"
                "  it must be installed beside Penstock, or its directory stand in PYTHONPATH"
            ) from None
        lacks = f": it needs {error.name}" if isinstance(error, ModuleNotFoundError) else ""
        raise ConfigError(
            f"{SETTING} = {name}: module {module_name} cannot be imported: {where_raised(error)}{lacks}"
        ) from None


def trial_session(settings: Settings, listener: str) -> Session:
    """A session such as the listener may see, of somebody on this machine."""
    sasl = settings.sasl.listeners.get(listener)
    protocol = settings.security_protocols[listener]
    if sasl is None:
        return Session(listener, protocol, LOCAL_ADDRESS, default=ANONYMOUS)
    mechanism = first(sasl.mechanisms)
    return Session(
        listener,
        protocol,
        LOCAL_ADDRESS,
        mechanism=mechanism,
        name=TRIAL_NAME,
        default=Principal("User", TRIAL_NAME),
    )


def first(names: Iterable[str]) -> str:
    return next(iter(names))


def try_builder(name: str, builder: PrincipalBuilder, session: Session) -> None:
    """Asks a function about a session that is made up. Raises ConfigError if it names no principal.

    To raise is how it refuses, which may be right for such a session: that is only warned about.
    """
    try:
        given: object = builder(session)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # see penstock.security.builder
        logger.warning(
            "the principal builder refuses a session that was made up to try it",
            builder=name,
            listener=session.listener,
            reason=where_raised(error),
        )
        return
    problem = problem_of(given)
    if problem:
        raise ConfigError(
            f"{SETTING} = {name} gives {problem} for listener {session.listener}: it must return a "
            "penstock.security.builder.Principal"
        )
