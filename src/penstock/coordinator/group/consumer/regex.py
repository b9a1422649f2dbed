"""Regular expressions that members subscribe to: RE2 syntax, matched on the server in time linear in the name.

A new expression is compiled when its member joins, so a wrong one is refused at once. All expressions of a group are
evaluated together over the names of all topics, some names a step (`RegexScan`), started by heartbeats: for a new one,
when topics were created since, and after `group.consumer.regex.refresh.interval.ms`. What they match is a record.

RE2 is the package google-re2, which is optional (`pip install 'penstock[regex]'`). Without it a member that subscribes
to a regular expression is refused; groups that have some already keep what they match.
Source: KIP-848, section "Regular Expression Based Subscriptions"; TopicRegexResolver of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from penstock.config.linear_regex import InvalidRegexError, compile_linear
from penstock.coordinator.group.context import everything
from penstock.coordinator.limits import (
    REGEX_COMPILING_MATCHES,
    REGEX_INSTRUCTIONS_PER_STEP,
    REGEX_MATCHES_PER_STEP,
    REGEX_PROGRAM_BYTES,
)
from penstock.errors import ErrorCode, RequestError
from penstock.events import events

logger = events("coordinator.group")


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matches, as of the image at offset `version`."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


def compile_regex(regex: str) -> Any:
    """Compiles it. Raises InvalidRegexError, also when it would take too much memory, or RE2 is missing."""
    return compile_linear(regex, REGEX_PROGRAM_BYTES)


def check_regex(regex: str) -> None:
    """Raises RequestError INVALID_REGULAR_EXPRESSION."""
    try:
        compile_regex(regex)
    except InvalidRegexError as error:
        raise RequestError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
        ) from None


class RegexScan:
    """The evaluation of a group's regular expressions over the names of all topics, as of the image at `version`.

    One expression after another, so that only one is compiled at a time. Of what matches, only topics that `sees` says
    yes to are kept.
    """

    def __init__(
        self,
        group_id: str,
        regexes: Iterable[str],
        names: Iterable[str],
        version: int,
        wall_ms: int,
        *,
        sees: Callable[[str], bool] = everything,
    ) -> None:
        self.group_id = group_id
        self.matches: dict[str, list[str]] = {regex: [] for regex in regexes}
        self.version = version
        self.started_ms = wall_ms
        self._sees = sees
        self._names = names
        self._matched = 0
        self._instructions = 0
        self._steps = self._in_steps()

    def step(self) -> bool:
        """Compiles and matches some. Returns whether all are done."""
        return next(self._steps, self._steps) is self._steps

    def _in_steps(self) -> Iterator[None]:
        for regex, found in self.matches.items():
            if self._step_is_over():
                yield
            try:
                pattern = compile_regex(regex)
            except InvalidRegexError as error:
                logger.error("regular expression matches nothing", group=self.group_id, regex=regex, reason=error)
                continue
            self._matched += REGEX_COMPILING_MATCHES
            for name in self._names:
                if self._step_is_over():
                    yield
                self._matched += 1
                self._instructions += pattern.programsize
                if pattern.fullmatch(name) is not None and self._sees(name):
                    found.append(name)

    def _step_is_over(self) -> bool:
        if self._matched < REGEX_MATCHES_PER_STEP and self._instructions < REGEX_INSTRUCTIONS_PER_STEP:
            return False
        self._matched = self._instructions = 0
        return True

    def resolved(self) -> dict[str, ResolvedRegex]:
        """The outcome, once all names are done."""
        return {
            regex: ResolvedRegex(frozenset(names), self.version, self.started_ms)
            for regex, names in self.matches.items()
        }
