"""Show what is wrong with clusters, and have it healed."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.cli.common import Actions, add_option
from penstock.cli.guardian.asking import add_asking, asked, call, done
from penstock.cli.guardian.clusters import path_of
from penstock.cli.times import timestamp_text
from penstock.errors import UsageError

ALARMS = "/v1/alarms"
SWITCH = {"on": "act", "advise": "advise", "off": "observe"}
"""What `heal` is set to, and the mode that this is."""


def register(actions: Actions[argparse.ArgumentParser]) -> None:
    """Adds the actions on alarms."""
    showing = add_asking(actions, "alarms", alarms_action, "show what is wrong with clusters, or looks wrong")
    showing.examples(
        "penstock guardian alarms",
        "penstock guardian alarms --cluster clicks --state confirmed --json",
        "penstock guardian alarms 2c1f... --acknowledge",
    )
    showing.add_argument("id", metavar="ID", nargs="?", help="one alarm, with all that is known of it")
    add_option(showing, "--cluster", "NAME", "only those of one cluster")
    add_option(showing, "--state", "STATE", "only suspect, confirmed, acting, recovered or escalated ones")
    showing.add_argument("--acknowledge", action="store_true", help="say that somebody looks after it")
    healing = add_asking(
        actions, "heal", heal_action, "have an alarm healed now, or say whether Guardian may heal a cluster by itself"
    ).examples("penstock guardian heal 2c1f...", "penstock guardian heal --cluster clicks on")
    healing.add_argument("what", metavar="ID|on|advise|off", help="the alarm; or, with --cluster, what Guardian may do")
    add_option(healing, "--cluster", "NAME", "the cluster in which healing is switched on or off")


def alarms_action(arguments: argparse.Namespace) -> int:
    """Prints alarms, or acknowledges one."""
    from penstock.cli.output import print_json

    if arguments.id is None:
        if arguments.acknowledge:
            raise UsageError("--acknowledge needs the id of an alarm")
        return list_alarms(arguments)
    if arguments.acknowledge:
        answer = call(arguments, "PATCH", f"{ALARMS}/{arguments.id}", {"acknowledged": True})
    else:
        answer = call(arguments, "GET", f"{ALARMS}/{arguments.id}")
    if arguments.json:
        print_json(answer.body)
    else:
        show_alarm(answer.body)
    return 0


def list_alarms(arguments: argparse.Namespace) -> int:
    """Prints the alarms that were asked for; without a state, all that are not over."""
    from penstock.cli.output import print_json, print_table

    answer = call(arguments, "GET", asked(ALARMS, cluster=arguments.cluster, state=arguments.state))
    alarms = answer.body["alarms"]
    if arguments.json:
        print_json({"alarms": alarms, "node": answer.node_id, "leader": answer.leader_id, "age_ms": answer.age_ms})
        return 0
    if arguments.state is None:
        alarms = [each for each in alarms if each["state"] != "recovered"]
    if not alarms:
        print("Nothing is wrong that Guardian can see.")
        return 0
    rows = [
        (each["state"], each["cluster"], each["kind"], about(each), timestamp_text(each["since_ms"]), each["id"] or "-")
        for each in alarms
    ]
    print_table(("STATE", "CLUSTER", "KIND", "ABOUT", "SINCE", "ID"), rows)
    return 0


def show_alarm(alarm: dict[str, Any]) -> None:
    """One alarm for a person."""
    from penstock.cli.output import counted

    print(f"{alarm['state']}: {alarm['kind']}, {about(alarm)} of cluster {alarm['cluster']}")
    print(f"first seen {timestamp_text(alarm['began_ms'])}, {alarm['state']} since {timestamp_text(alarm['since_ms'])}")
    for sentence in alarm["evidence"]:
        print(f"- {sentence}")
    if alarm["reason"]:
        print(f"why it is {alarm['state']}: {alarm['reason']}")
    print(f"remedy ({alarm['mode']}): {alarm['remedy']}")
    if alarm["acknowledged"]:
        print(f"acknowledged by {alarm['acknowledged']}")
    plan = alarm.get("plan")
    if plan is not None:
        print(f"the plan has {counted(len(plan['moves']), 'move')}; --json prints it for kafka-reassign-partitions")
        for each in plan["violations"]:
            print(f"left alone: {each['text']}")


def heal_action(arguments: argparse.Namespace) -> int:
    """Has an alarm healed, or sets the mode of `heal` of a cluster."""
    if arguments.cluster is None:
        if arguments.what in SWITCH:
            raise UsageError(f"heal {arguments.what} needs --cluster: which one?")
        answer = call(arguments, "PATCH", f"{ALARMS}/{arguments.what}", {"heal": True})
        sentence = f"Guardian heals {about(answer.body)} of {answer.body['cluster']} as soon as a look shows it again."
    else:
        if arguments.what not in SWITCH:
            raise UsageError(f"heal {arguments.what}: with --cluster it must be one of {', '.join(SWITCH)}")
        mode = SWITCH[arguments.what]
        answer = call(arguments, "PATCH", path_of(arguments.cluster), {"modes": {"heal": mode}})
        sentence = f"Cluster {arguments.cluster}: the mode of heal is {mode}."
    return done(arguments, answer, sentence)


def about(alarm: dict[str, Any]) -> str:
    """What an alarm is about."""
    return f"broker {alarm['broker']}" + (f" {alarm['dir']}" if alarm["dir"] else "")
