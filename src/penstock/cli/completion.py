"""Print a completion script for a shell, made from the command line itself.

examples:
  penstock completion bash > ~/.local/share/bash-completion/completions/penstock
  penstock completion zsh > "${fpath[1]}/_penstock"
  penstock completion fish > ~/.config/fish/completions/penstock.fish
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field

SUMMARY = "print a completion script for a shell"
FILES = ("FILE", "DIR", "TABLE")
"""Metavariables that stand for paths."""
TOPICS = "TOPIC"
"""The metavariable that stands for a topic."""
ASK_TIMEOUT_MS = 1_000
"""How long a completion waits for a broker to name the topics."""


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell",
        choices=(*SCRIPTS, "topics"),
        help="shell to complete for; topics is for the scripts' own use: it lists the topics",
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the script, or the names that it asks for."""
    from penstock.cli.main import make_parser

    if arguments.shell == "topics":
        for name in topic_names():
            print(name)
        return 0
    print(SCRIPTS[arguments.shell](list(places(make_parser()))), end="")
    return 0


def topic_names() -> list[str]:
    """The topics of the broker that commands ask by default; none if it cannot be asked at once."""
    import asyncio
    import os

    from penstock.cli.common import DEFAULT_BOOTSTRAP, security_in
    from penstock.client.client import Client
    from penstock.errors import PenstockError

    async def ask() -> list[str]:
        bootstrap = os.environ.get("PENSTOCK_BOOTSTRAP", DEFAULT_BOOTSTRAP)
        security = security_in(os.environ.get("PENSTOCK_COMMAND_CONFIG"), quiet=True)
        async with Client(bootstrap, timeout_ms=ASK_TIMEOUT_MS, security=security) as client:
            return await client.topic_names()

    try:
        return asyncio.run(ask())
    except (PenstockError, ValueError):
        return []


@dataclass(frozen=True, slots=True)
class Option:
    """An option: its names, what it is for, and the values to choose from."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    choices: tuple[str, ...]
    path: bool
    topic: bool


@dataclass(frozen=True, slots=True)
class Place:
    """What can follow certain words, such as () or ("topics", "create")."""

    words: tuple[str, ...]
    commands: dict[str, str] = field(default_factory=dict)
    options: list[Option] = field(default_factory=list)
    choices: tuple[str, ...] = ()
    paths: bool = False
    topics: bool = False


def places(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[Place]:
    """The parser and all parsers below it."""
    place = Place(words)
    below: list[tuple[str, argparse.ArgumentParser]] = []
    choices: list[str] = []
    paths = topics = False
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                place.commands[choice.dest] = choice.help or ""
            below += action.choices.items()
        elif action.option_strings:
            place.options.append(
                Option(
                    tuple(action.option_strings),
                    (action.help or "").replace("%%", "%"),
                    action.nargs != 0,
                    tuple(map(str, action.choices or ())),
                    action.metavar in FILES,
                    action.metavar == TOPICS,
                )
            )
        else:
            choices += map(str, action.choices or ())
            paths = paths or action.metavar in FILES
            topics = topics or action.metavar == TOPICS
    yield Place(words, place.commands, place.options, tuple(choices), paths, topics)
    for name, each in below:
        yield from places(each, (*words, name))


def bash(all_places: list[Place]) -> str:
    """A script for bash: the words so far choose the list of what may follow."""
    cases = []
    values = []
    for place in all_places:
        follow = [*place.commands, *place.choices, *(name for option in place.options for name in option.names)]
        files = ("; files=1" if place.paths else "") + ("; topics=1" if place.topics else "")
        cases.append(f'    "{" ".join(place.words)}") follow="{" ".join(follow)}"{files} ;;')
        for option in place.options:
            for name in option.names if option.takes_value else ():
                what = f'follow="{" ".join(option.choices)}"' + ("; files=1" if option.path else "")
                what += "; topics=1" if option.topic else ""
                values.append(f'    "{" ".join((*place.words, name))}") {what} ;;')
    commands = " ".join('"' + " ".join(place.words) + '"' for place in all_places if place.words)
    return BASH.format(commands=commands, cases="\n".join(cases), values="\n".join(values))


BASH = """\
# bash completion of penstock; made by `penstock completion bash`
_penstock() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" path="" i known
  local follow="" files="" topics=""
  for (( i = 1; i < COMP_CWORD; i++ )); do
    for known in {commands}; do
      [[ "${{path:+$path }}${{COMP_WORDS[i]}}" == "$known" ]] && {{ path="$known"; break; }}
    done
  done
  case "${{path:+$path }}$previous" in
{values}
    *) case "$path" in
{cases}
    esac ;;
  esac
  [[ -n "$topics" ]] && follow="$follow $(penstock completion topics 2>/dev/null)"
  COMPREPLY=( $(compgen -W "$follow" -- "$word") )
  [[ -n "$files" ]] && COMPREPLY+=( $(compgen -f -- "$word") )
}}
complete -o filenames -F _penstock penstock
"""


def zsh(all_places: list[Place]) -> str:
    """A script for zsh: one function a place, by _arguments."""
    functions = []
    for place in all_places:
        specifications = [zsh_option(option) for option in place.options]
        if place.commands:
            listed = " ".join(quoted(f"{name}:{text}") for name, text in place.commands.items())
            branches = "\n".join(f"    {name}) {zsh_function((*place.words, name))} ;;" for name in place.commands)
            specifications += ["'1: :->command'", "'*:: :->rest'"]
            tail = ZSH_COMMANDS.format(listed=listed, branches=branches)
        else:
            if place.choices:
                specifications.append(quoted(f"1: :({' '.join(place.choices)})"))
            following = "_files" if place.paths else "_penstock_topics" if place.topics else ""
            specifications.append(f"'*: :{following}'")
            tail = ""
        arguments = " \\\n    ".join(specifications)
        functions.append(
            f"{zsh_function(place.words)}() {{\n  local state\n  _arguments -C \\\n    {arguments}\n{tail}}}\n"
        )
    head = "#compdef penstock\n# zsh completion of penstock; made by `penstock completion zsh`\n\n" + ZSH_TOPICS
    return head + "\n".join(functions) + f'\n{zsh_function(())} "$@"\n'


ZSH_TOPICS = """\
_penstock_topics() {
  local -a found; found=(${(f)"$(penstock completion topics 2>/dev/null)"}); compadd -a found
}

"""
ZSH_COMMANDS = """\
  case $state in
  command) local -a commands; commands=({listed}); _describe command commands ;;
  rest) case $words[1] in
{branches}
    esac ;;
  esac
"""


def zsh_function(words: tuple[str, ...]) -> str:
    return "_".join(("_penstock", *words)).replace("-", "_")


def zsh_option(option: Option) -> str:
    """One option as _arguments wants it."""
    value = ""
    if option.takes_value:
        action = "_files" if option.path else "_penstock_topics" if option.topic else ""
        value = f": :({' '.join(option.choices)})" if option.choices else f": :{action}"
    text = option.help.replace("[", "(").replace("]", ")").replace(":", "\\:")
    names = option.names[0] if len(option.names) == 1 else "{" + ",".join(option.names) + "}"
    return f"{names}{quoted(f'[{text}]{value}')}"


FISH_TOPICS = "(penstock completion topics 2>/dev/null)"


def fish(all_places: list[Place]) -> str:
    """A script for fish: one line an option or command, with the words under which it holds."""
    lines = ["# fish completion of penstock; made by `penstock completion fish`", "complete -c penstock -f"]
    for place in all_places:
        conditions = [f"__fish_seen_subcommand_from {word}" for word in place.words]
        if place.commands:
            conditions_here = [*conditions, f"not __fish_seen_subcommand_from {' '.join(place.commands)}"]
            for name, text in place.commands.items():
                lines.append(
                    f"complete -c penstock -n {quoted('; and '.join(conditions_here))} -a {name} -d {quoted(text)}"
                )
        where = f" -n {quoted('; and '.join(conditions))}" if conditions else ""
        for option in place.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = " -r" if option.takes_value else ""
            value += f" -a {quoted(' '.join(option.choices))}" if option.choices else " -F" if option.path else ""
            value += f" -a {quoted(FISH_TOPICS)}" if option.topic else ""
            lines.append(f"complete -c penstock{where} {names}{value} -d {quoted(option.help)}")
        if place.choices:
            lines.append(f"complete -c penstock{where} -a {quoted(' '.join(place.choices))}")
        if place.paths:
            lines.append(f"complete -c penstock{where} -F")
        if place.topics:
            lines.append(f"complete -c penstock{where} -a {quoted(FISH_TOPICS)}")
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


SCRIPTS = {"bash": bash, "zsh": zsh, "fish": fish}
