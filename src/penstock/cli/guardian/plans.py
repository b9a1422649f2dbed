"""Submit plans to Guardian, approve, pause, bound and cancel them, and see what becomes of their moves."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from penstock.cli.common import Actions, add_option
from penstock.cli.guardian.asking import add_asking, add_group, asked, call, done, listed
from penstock.errors import UsageError
from penstock.guardian.model.plan_file import read_plan

PLANS, MOVES, LIMITS, DECISIONS = "/v1/plans", "/v1/moves", "/v1/limits", "/v1/decisions"
KEPT = ("partitions", "leaders", "moves", "digest", "seed")
"""What of a plan's file Guardian needs; of its figures only the scores."""
DIGITS_MAX = 18
UNITS = {"K": 1_000, "M": 1_000_000, "G": 1_000_000_000}


def register(actions: Actions[argparse.ArgumentParser]) -> None:
    """Adds the actions on plans and moves."""
    below = add_group(actions, "plans", "submit plans, and show how far they are")
    submitting = add_asking(below, "submit", submit, "submit a plan for a cluster").examples(
        "penstock guardian plans submit plan.json --cluster clicks --rate 20M"
    )
    submitting.add_argument("file", metavar="FILE", type=Path, help="the plan, as `guardian plan --json` prints it")
    add_cluster_option(submitting, required=True)
    add_option(submitting, "--action", "ACTION", "kind of action whose mode decides (default: balance)")
    add_bounds(submitting)
    submitting.add_argument("--thin", action="store_true", help="also move partitions that have no replica to spare")
    add_cluster_option(add_asking(below, "list", list_plans, "show the plans"))
    showing = add_asking(below, "show", show_plan, "show one plan, and what was decided about it")
    showing.add_argument("plan", metavar="PLAN", type=int, help="its number")
    for name, function, summary in (
        ("approve", approve, "have a plan run that waits for approval"),
        ("pause", pause, "have a plan begin no more moves; those that copy go on"),
        ("resume", resume, "have a paused plan go on"),
        ("cancel", cancel, "end a plan: what copies is taken back"),
        ("rate", rate, "bound what a plan copies, also while it runs"),
    ):
        changing = add_asking(actions, name, function, summary).examples(f"penstock guardian {name} 3")
        changing.add_argument("plan", metavar="PLAN", type=int, help="its number")
        if name == "rate":
            changing.add_argument(
                "bytes", metavar="RATE", nargs="?", help="bytes a second of one broker, as for --rate"
            )
            add_caps(changing)
    moves = add_asking(actions, "moves", list_moves, "show the moves of plans, and how far they are").examples(
        "penstock guardian moves --plan 3 --state blocked"
    )
    add_option(moves, "--plan", "PLAN", "only those of this plan", type=int)
    add_cluster_option(moves)
    add_option(moves, "--state", "STATE", "only those at this stage")
    explaining = add_asking(actions, "explain", explain, "tell a move in sentences: why, how far, what it waits for")
    explaining.examples("penstock guardian explain 3-17").add_argument("move", metavar="MOVE", help="PLAN-NUMBER")
    limits = add_asking(actions, "limits", list_limits, "show the throttles that Guardian has set")
    add_cluster_option(limits)
    decisions = add_asking(actions, "decisions", list_decisions, "show what was decided, by whom, from what")
    add_option(decisions, "--plan", "PLAN", "only about this plan", type=int)


def add_cluster_option(parser: Any, *, required: bool = False) -> None:
    """Adds --cluster."""
    parser.add_argument("--cluster", metavar="NAME", required=required, help="the cluster")


def add_bounds(parser: Any) -> None:
    """Adds --rate and --cap."""
    add_option(parser, "--rate", "RATE", "bytes a second that the copies of one broker may take: 20M, 0 for no bound, "
               "`auto` for what does not hold up others (default: 0)")  # fmt: skip
    add_caps(parser)


def add_caps(parser: Any) -> None:
    parser.add_argument("--cap", metavar="NAME=N", action="append", default=[],
                        help="moves that copy at once: disk, broker_in, broker_out, cluster, fleet")  # fmt: skip


def rate_of(text: str) -> int | str:
    """Bytes a second, or `auto`."""
    if text == "auto":
        return text
    digits = text.upper().removesuffix("B")
    unit = UNITS.get(digits[-1:], 1)
    digits = digits[:-1] if unit > 1 else digits
    if not digits.isdecimal() or len(digits) > DIGITS_MAX:
        raise UsageError(f"{text}: a rate is bytes a second, such as 20M, 500K or 0, or `auto`")
    return int(digits) * unit


def caps_of(words: list[str]) -> dict[str, int]:
    """The caps of the command line."""
    found = {}
    for word in words:
        name, _, number = word.partition("=")
        if not number.isdecimal() or len(number) > DIGITS_MAX:
            raise UsageError(f"--cap {word}: it must be NAME=N, such as broker_in=3")
        found[name] = int(number)
    return found


def submit(arguments: argparse.Namespace) -> int:
    """Submits a plan."""
    document = read_plan(arguments.file)
    if not isinstance(document, dict):
        raise UsageError(f"{arguments.file} is no plan: it must be a JSON object with partitions")
    plan = {name: document[name] for name in KEPT if name in document}
    for when in ("before", "after"):
        if isinstance(document.get(when), dict) and "score" in document[when]:
            plan[when] = {"score": document[when]["score"]}
    body: dict[str, Any] = {"cluster": arguments.cluster, "plan": plan, "thin": arguments.thin}
    if arguments.action is not None:
        body["action"] = arguments.action
    if arguments.rate is not None:
        body["rate_bytes"] = rate_of(arguments.rate)
    if arguments.cap:
        body["caps"] = caps_of(arguments.cap)
    answer = call(arguments, "POST", PLANS, body)
    number = answer.body["id"]
    said = f"Plan {number} for {arguments.cluster} is {answer.body['state']}: {answer.body['moves']} moves.\n"
    return done(arguments, answer, f"{said}`penstock guardian approve {number}` has it run.")


def change(arguments: argparse.Namespace, body: dict[str, Any]) -> int:
    """Changes a plan, and says what it is then."""
    answer = call(arguments, "PATCH", f"{PLANS}/{arguments.plan}", body)
    return done(arguments, answer, f"Plan {arguments.plan} is {answer.body['state']}.")


def approve(arguments: argparse.Namespace) -> int:
    """Has a plan run."""
    return change(arguments, {"state": "approved"})


def pause(arguments: argparse.Namespace) -> int:
    """Has a plan begin nothing more."""
    return change(arguments, {"state": "paused"})


def resume(arguments: argparse.Namespace) -> int:
    """Has a plan go on."""
    return change(arguments, {"state": "running"})


def cancel(arguments: argparse.Namespace) -> int:
    """Ends a plan."""
    return change(arguments, {"state": "cancelled"})


def rate(arguments: argparse.Namespace) -> int:
    """Bounds a plan."""
    body: dict[str, Any] = {}
    if arguments.bytes is not None:
        body["rate_bytes"] = rate_of(arguments.bytes)
    if arguments.cap:
        body["caps"] = caps_of(arguments.cap)
    if not body:
        raise UsageError("give a rate, such as 20M, or --cap NAME=N")
    answer = call(arguments, "PATCH", f"{PLANS}/{arguments.plan}", body)
    caps = ", ".join(f"{name} {number}" for name, number in answer.body["caps"].items())
    return done(arguments, answer, f"Plan {arguments.plan}: rate {answer.body['rate_bytes']}, at once {caps}.")


def list_plans(arguments: argparse.Namespace) -> int:
    """Prints the plans."""
    answer = call(arguments, "GET", asked(PLANS, cluster=arguments.cluster))
    rows = [
        (each["id"], each["cluster"], each["state"], each["moves"], states_text(each), each["principal"])
        for each in answer.body["plans"]
    ]
    return listed(
        arguments, answer.body, ("PLAN", "CLUSTER", "STATE", "MOVES", "OF THEM", "BY"), rows, "There is no plan."
    )


def states_text(plan: dict[str, Any]) -> str:
    """How many moves of a plan are at each stage."""
    return ", ".join(f"{count} {state}" for state, count in plan["states"].items())


def show_plan(arguments: argparse.Namespace) -> int:
    """Prints one plan."""
    from penstock.cli.output import print_json, printable

    plan = call(arguments, "GET", f"{PLANS}/{arguments.plan}").body
    decisions = call(arguments, "GET", asked(DECISIONS, plan=arguments.plan)).body["decisions"]
    if arguments.json:
        print_json({**plan, "decisions": decisions})
        return 0
    print(f"Plan {plan['id']} for {plan['cluster']} is {plan['state']}: {states_text(plan)}.")
    for each in reversed(decisions):
        print(printable(each["text"]))
    return 0


def list_moves(arguments: argparse.Namespace) -> int:
    """Prints the moves, page by page."""
    found: list[dict[str, Any]] = []
    after: str | None = None
    while True:
        path = asked(MOVES, plan=arguments.plan, cluster=arguments.cluster, state=arguments.state, after=after)
        body = call(arguments, "GET", path).body
        found += body["moves"]
        if not body["more"]:
            break
        after = found[-1]["id"]
    rows = [
        (each["id"], f"{each['topic']}-{each['partition']}", brokers(each["before"]), brokers(each["replicas"]),
         each["state"], each["reason"] or "-")
        for each in found
    ]  # fmt: skip
    head = ("MOVE", "PARTITION", "FROM", "TO", "STATE", "REASON")
    return listed(arguments, {"moves": found}, head, rows, "There is no such move.")


def brokers(ids: list[int]) -> str:
    return ",".join(map(str, ids))


def explain(arguments: argparse.Namespace) -> int:
    """Tells a move in sentences."""
    from penstock.cli.output import printable

    answer = call(arguments, "GET", f"{MOVES}/{arguments.move}")
    return done(arguments, answer, "\n".join(map(printable, answer.body["sentences"])))


def list_limits(arguments: argparse.Namespace) -> int:
    """Prints the throttles."""
    answer = call(arguments, "GET", asked(LIMITS, cluster=arguments.cluster))
    rows = [
        (each["cluster"], f"broker {each['broker']}" if "broker" in each else f"topic {each['topic']}", each["config"],
         each["value"], each["before"] if each["before"] is not None else "-", each["state"])
        for each in answer.body["limits"]
    ]  # fmt: skip
    head = ("CLUSTER", "OF", "CONFIG", "VALUE", "BEFORE", "STATE")
    return listed(arguments, answer.body, head, rows, "No throttle of Guardian's is set.")


def list_decisions(arguments: argparse.Namespace) -> int:
    """Prints what was decided."""
    answer = call(arguments, "GET", asked(DECISIONS, plan=arguments.plan))
    rows = [(each["id"], each["plan"] or "-", each["text"]) for each in answer.body["decisions"]]
    return listed(arguments, answer.body, ("DECISION", "PLAN", "WHAT"), rows, "Nothing has been decided yet.")
