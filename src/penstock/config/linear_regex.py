"""Regular expressions of RE2: matched in time linear in the text, whoever wrote them.

RE2 is the package google-re2, which is optional (`pip install 'penstock[regex]'`): without it no expression is valid.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

MISSING = (
    "this broker cannot evaluate regular expressions: the package google-re2 is not installed "
    "(pip install 'penstock[regex]')"
)

KAFKAS_WORDS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
    "unexpected )": "regexp/syntax: internal error",
}
"""What RE2 says, and what Kafka's port of it says."""


class InvalidRegexError(ValueError):
    """Not a regular expression. The text says why."""


@cache
def re2() -> ModuleType | None:
    """The library, if it is installed."""
    try:
        library: ModuleType = import_module("re2")
    except ImportError:
        return None
    return library


def compile_linear(regex: str, program_bytes: int) -> Any:
    """Compiles it into at most so much memory. Raises InvalidRegexError, also when it would take more, or RE2 is
    missing.
    """
    library = re2()
    if library is None:
        raise InvalidRegexError(MISSING)
    options = library.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = program_bytes
    try:
        return library.compile(regex, options)
    except library.error as error:
        raise InvalidRegexError(reason(error.args[0])) from None


def reason(told: bytes | str) -> str:
    """Why an expression is wrong, in Kafka's words."""
    text = told.decode("utf-8", "replace") if isinstance(told, bytes) else told
    what = text.partition(": ")[0]
    return KAFKAS_WORDS.get(what, what)
