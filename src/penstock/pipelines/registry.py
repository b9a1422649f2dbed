"""Finds jobs: the built-in ones by name, a user's own by `module:name` or `file.py:name`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigError
from penstock.pipelines.job import Job

BUILT_IN: Mapping[str, str] = {
    "load": "penstock.pipelines.jobs.load:JOB",
    "activity": "penstock.pipelines.jobs.activity:JOB",
    "security": "penstock.pipelines.jobs.security:JOB",
    "operations": "penstock.pipelines.jobs.operations:JOB",
    "reports": "penstock.pipelines.jobs.reports:JOB",
    "mirror": "penstock.pipelines.jobs.mirror:JOB",
    "audit": "penstock.pipelines.jobs.audit:JOB",
}


def find_job(name: str, directory: Path | None = None) -> Job:
    """The job of a name.

    Args:
        name: a built-in job, `module:name` or `file.py:name`; the name is that of a Job, or of a function that takes a
            Context (it gets the options of the file as they are).
        directory: what the path of a file is relative to; the working directory by default.

    Raises:
        ConfigError: there is no such job, or its module does not import.
    """
    path = BUILT_IN.get(name, name)
    if not _is_path(path):
        known = ", ".join(BUILT_IN)
        raise ConfigError(
            f"there is no job {name}{did_you_mean(name, BUILT_IN)} (built in: {known}; or file.py:function)"
        )
    module, found = _found(path, directory, "a Job or a function")
    return found if isinstance(found, Job) else _job_of(module, found)


def find_function(name: str, directory: Path) -> Callable[..., Any]:
    """The function of a Python step.

    Args:
        name: `module:function` or `file.py:function`.
        directory: what the path of a file is relative to.

    Raises:
        ConfigError: there is no such function, or its module does not import.
    """
    if not _is_path(name):
        raise ConfigError(f"there is no function {name}: it must be module:function or file.py:function")
    _, found = _found(name, directory, "a function")
    if isinstance(found, Job):
        raise ConfigError(f"{name} is a Job, and a function is wanted")
    function: Callable[..., Any] = found
    return function


def _is_path(name: str) -> bool:
    where, _, attribute = name.rpartition(":")
    return bool(where and attribute)


def _found(path: str, directory: Path | None, wanted: str) -> tuple[ModuleType, Any]:
    """The module that a path names, and the job or function there."""
    where, _, attribute = path.rpartition(":")
    module = _from_file((directory or Path()) / where) if where.endswith(".py") else _imported(where)
    found = getattr(module, attribute, None)
    if isinstance(found, Job) or callable(found):
        return module, found
    raise ConfigError(f"{where} has no {attribute}{did_you_mean(attribute, _names(module))}: {wanted} is wanted")


def _job_of(module: ModuleType, function: Any) -> Job:
    """The module's Job that runs this function, else one that takes any options."""
    for each in vars(module).values():
        if isinstance(each, Job) and each.run is function:
            return each
    return Job(function, doc=function.__doc__ or "", open_options=True)


def _names(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if callable(value) or isinstance(value, Job)]


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (error.name == name or name.startswith(f"{error.name}.")):
            raise ConfigError(
                f"there is no module {error.name} (job {name}); is it installed, or on PYTHONPATH?"
            ) from None
        if name.startswith("penstock."):
            raise ConfigError(f"pipelines need {error.name}: pip install 'penstock[spark]'") from error
        raise ConfigError(f"job {name} needs the module {error.name}, which is not installed") from error
    except Exception as error:  # whatever a user's module does when it is imported
        raise ConfigError(f"job {name} does not import: {type(error).__name__}: {error}") from error


def _from_file(path: Path) -> ModuleType:
    """A file as a module, imported once; its directory is not put on the path."""
    path = path.absolute()
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    name = f"penstock_job_{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if not isinstance(error, Exception):
            raise
        raise ConfigError(f"{path} does not import: {type(error).__name__}: {error}") from error
    return module
