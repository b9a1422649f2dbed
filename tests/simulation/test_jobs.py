"""Seeds on several processes: each is run once, some twice; whatever goes wrong in one of them is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from simulator import jobs
from simulator.__main__ import FAMILIES, main
from simulator.cluster.scenarios import SCENARIOS
from simulator.compacted.scenarios import COMPACTED_SCENARIOS
from simulator.groups.scenarios import GROUP_SCENARIOS
from simulator.jobs import SAME_TRACE, run_all
from simulator.quotas.scenarios import QUOTA_SCENARIOS
from simulator.quotas.sharing import TENANT_SCENARIOS
from simulator.secured.scenarios import SECURED_SCENARIOS
from simulator.transactions.scenarios import TRANSACTION_SCENARIOS
from simulator.world.checks import Violation
from simulator.worlds import WORLDS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "simulator.md"
PLANTED = """
import logging, os
from simulator import jobs
from simulator.world.checks import Violation
class Run:
    def __init__(self, trace): self.trace_hash = trace
def broken(seed):
    if seed == 5: logging.getLogger("penstock.node").warning("partitions without a leader")
    if seed == 3: raise Violation("a write was lost")
    return Run(str(seed))
def dies(seed):
    os._exit(7)
jobs.WORLDS.update(log=broken, raft=dies)
jobs.WORLDS.update(calm=lambda seed: Run(str(seed)), storm=lambda seed: Run(str(hash(str(seed)))))
jobs.main()
"""


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers whose worlds cost nothing."""
    monkeypatch.setattr(jobs, "WORKER", ("-c", PLANTED))


def test_every_seed_is_run_once_whoever_runs_it() -> None:
    tasks = [("calm", seed) for seed in range(40)]
    outcomes = list(run_all(tasks, processes=2))
    assert sorted(outcome.seed for outcome in outcomes) == list(range(40))
    assert all(outcome.trace == str(outcome.seed) and outcome.broken is None for outcome in outcomes)


def test_a_trace_that_depends_on_the_hash_seed_is_found() -> None:
    outcomes = list(run_all([("storm", 1)], processes=1, twice=[("calm", 5), ("storm", 5)]))
    broken = [outcome for outcome in outcomes if outcome.broken is not None]
    assert [(outcome.scenario, outcome.seed) for outcome in broken] == [("storm", 5)]
    assert str(broken[0].broken).startswith(SAME_TRACE)
    assert "--scenario storm --seeds 5 " in str(broken[0].broken)


def test_the_command_says_which_seed_broke_a_rule_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "log", "--seeds", "1..5", "--jobs", "2"]) == 1
    assert capsys.readouterr().out == "seed 3 breaks a rule: a write was lost\n5 seeds, 1 broke a rule\n"


def test_one_process_runs_seeds_and_tells_which_broke_a_rule(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class World:
        trace_hash = "f00"

    def world(seed: int) -> World:
        if seed == 3:
            raise Violation("a write was lost")
        return World()

    monkeypatch.setitem(WORLDS, "log", world)
    assert main(["--seeds", "1..2"]) == 0
    assert capsys.readouterr().out == "2 seeds, 0 broke a rule\n"
    assert main(["--seeds", "2..3", "--json"]) == 1
    assert [json.loads(line)["broken"] for line in capsys.readouterr().out.splitlines()] == [None, "a write was lost"]
    with pytest.raises(SystemExit):
        main(["--seeds", "9..1"])


@pytest.mark.parametrize("family", FAMILIES)
def test_all_scenarios_of_a_family_are_run_by_one_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    monkeypatch.setitem(FAMILIES, family, ("calm", "storm"))
    assert main(["--scenario", family, "--seeds", "1..3", "--twice", "1"]) == 1
    printed = capsys.readouterr().out
    assert f"{'calm':24}     3 seeds" in printed
    assert printed.endswith("6 seeds, 1 broke a rule\n"), "what is run twice counts once"


def test_every_scenario_of_a_cluster_is_in_one_family() -> None:
    alone = {"log", "node", "raft", "raft-full", "guardian", "governed"}
    assert sorted(name for names in FAMILIES.values() for name in names) == sorted(set(WORLDS) - alone)


def test_a_process_that_is_gone_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="seed 1 of raft is gone: 7"):
        list(run_all([("raft", 1)], processes=2))


def test_what_simulated_nodes_log_stays_off_the_terminal() -> None:
    command = [sys.executable, "-c", PLANTED]
    worker = subprocess.run(command, input="log 5\n", capture_output=True, text=True, check=True)
    assert json.loads(worker.stdout)["trace"] == "5"
    assert worker.stderr == ""


def test_the_page_about_the_simulator_tells_every_scenario() -> None:
    scenarios = (*SCENARIOS.values(), *COMPACTED_SCENARIOS.values(), *GROUP_SCENARIOS.values())
    scenarios += (*TRANSACTION_SCENARIOS.values(), *SECURED_SCENARIOS.values(), *QUOTA_SCENARIOS.values())
    scenarios += tuple(TENANT_SCENARIOS.values())
    rows = [f"| `{each.name}` | {each.doc} |" for each in scenarios]
    told = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert told == rows
