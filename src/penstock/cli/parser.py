"""The parser of the command line: help that fits the terminal, and errors that name near misses.

Line breaks in help texts have no meaning: paragraphs are filled to the terminal's width. What follows `examples:` stays
line by line; if the terminal is too narrow, a comment behind a command goes below it, and the command is continued with
a backslash.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, Self

from penstock.config.nearest import did_you_mean

EXAMPLES = "examples:"
COMMENT_GAP = "   "
"""What separates an example from a comment behind it, at least."""
CONTINUED = " \\"


class Parser(argparse.ArgumentParser):
    """A parser that reports its own errors: a wrong option of an action is reported with that action's name."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"formatter_class": Formatter, **options})

    def examples(self, *lines: str) -> Self:
        """Ends the help with examples, and returns the parser."""
        self.epilog = "\n  ".join([EXAMPLES, *lines])
        return self

    def parse_known_args(  # type: ignore[override]  # argparse has overloads for namespaces of other types
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        parsed, rest = super().parse_known_args(args, namespace)
        if rest:
            word = rest[0]
            what = "unknown option" if word.startswith("-") else "unexpected argument"
            self.error(f"{what} {word}{did_you_mean(word.partition('=')[0], self._option_string_actions)}")
        return parsed, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            near = did_you_mean(str(value), known)
            raise argparse.ArgumentError(action, f"{value} is not one of {', '.join(known)}{near}")

    def error(self, message: str) -> NoReturn:
        """Prints the error and where the right arguments are listed; exit code 2."""
        from penstock.cli.output import RED, paint

        sys.stdout.flush()
        self.exit(2, f"{paint('error:', RED, sys.stderr)} {message}\n  `{self.prog} --help` shows what there is\n")


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Fills paragraphs, keeps examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        prose, examples, lines = text.strip().partition(EXAMPLES)
        paragraphs = [textwrap.fill(" ".join(each.split()), width) for each in prose.split("\n\n") if each.strip()]
        if examples:
            folded = [part for line in lines.strip("\n").splitlines() for part in example(line, width)]
            paragraphs.append("\n".join([examples, *folded]))
        return "\n\n".join(paragraphs)


def example(line: str, width: int) -> Iterator[str]:
    if len(line) <= width:
        yield line
        return
    start = len(line) - len(line.lstrip())
    command, gap, comment = line[start:].partition(COMMENT_GAP)
    if gap:
        yield f"{line[:start]}# {comment.strip()}"
    yield from continued(line[:start] + command.rstrip(), width)


def continued(command: str, width: int) -> Iterator[str]:
    """A command over several lines, cut at blanks outside of quotes."""
    indent = " " * (len(command) - len(command.lstrip()) + 4)
    while len(command) > width:
        cuts = [cut for cut in blanks(command) if len(indent) < cut <= width - len(CONTINUED)]
        if not cuts:
            break
        yield command[: cuts[-1]] + CONTINUED
        command = indent + command[cuts[-1] :].lstrip()
    yield command


def blanks(command: str) -> Iterator[int]:
    """Where a shell would see a blank between words."""
    quote = ""
    for position, character in enumerate(command):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == " ":
            yield position
