"""The least score that any plan of a small model can have, proven by HiGHS' branch and bound.

What is compared is the score that the planner makes smaller (`guardian.plan.state`), whole: squared distances of
brokers and disks from their shares beyond the band, topics that crowd, bytes and leaderships moved. A mixed-integer
program has a binary for each replica on each disk and for each replica as a leader. The squares are convex, so
tangents from below stand for them: what the solver proves of the tangents is a bound of the true sum. Where the
solution lies above its tangents, more are drawn there and it is solved again, until sum and bound are next to each
other.

Rules: one replica of a partition on a broker, as many racks as possible, capacities at the 95th percentile. The model
must keep them at first, brokers must live, have hosts of their own, and as many racks as a partition has replicas.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import highspy
import numpy as np

from penstock.guardian.plan.applied import Places
from penstock.guardian.plan.model import BYTES, DISK_READ, DISK_RESOURCES, DISK_WRITE, PEAK, Array, Model
from penstock.guardian.plan.recomputed import BROKER_CAPACITIES, Standing, score, standing_of, used
from penstock.guardian.plan.rules import Rules
from penstock.guardian.plan.state import BAND_SHARE, DISK_MOVE_PRICE, LEADER_PRICE, LEADERS_WEIGHT

PROVEN = 0.01
"""The bound must come as near as this to a solution, as a fraction of it."""
ROUNDS_MAX = 30
TANGENTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0)
"""Where tangents are drawn first, beyond the band."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """No plan has a score below `bound`; one has `found`."""

    bound: float
    found: float


@dataclass(slots=True)
class Program:
    """A mixed-integer program that grows; columns and rows are numbered as they come."""

    costs: list[float] = field(default_factory=list)
    uppers: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    rows: list[tuple[float, float, list[int], list[float]]] = field(default_factory=list)

    def column(self, cost: float = 0.0, upper: float = highspy.kHighsInf, whole: bool = False) -> int:
        self.costs.append(cost)
        self.uppers.append(upper)
        self.whole.append(whole)
        return len(self.costs) - 1

    def row(self, terms: Iterable[tuple[int, float]], least: float, most: float) -> None:
        """least <= the sum of these columns times these numbers <= most."""
        terms = [(column, number) for column, number in terms if number != 0.0]
        self.rows.append((least, most, [column for column, _ in terms], [number for _, number in terms]))

    def solve(self, time_limit_seconds: float) -> tuple[Array, float]:
        """The best solution, and the bound below which there is none."""
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.costs), len(self.rows)
        lp.col_cost_, lp.col_lower_, lp.col_upper_ = self.costs, [0.0] * len(self.costs), self.uppers
        lp.row_lower_, lp.row_upper_ = [each[0] for each in self.rows], [each[1] for each in self.rows]
        kinds = highspy.HighsVarType
        lp.integrality_ = [kinds.kInteger if each else kinds.kContinuous for each in self.whole]
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.concatenate([[0], np.cumsum([len(each[2]) for each in self.rows])])
        lp.a_matrix_.index_ = [index for each in self.rows for index in each[2]]
        lp.a_matrix_.value_ = [value for each in self.rows for value in each[3]]
        solver = highspy.Highs()
        for name, value in (
            ("output_flag", False), ("threads", 1), ("random_seed", 1), ("mip_rel_gap", PROVEN / 10),
            ("mip_abs_gap", 1e-9), ("time_limit", time_limit_seconds),
        ):  # fmt: skip
            solver.setOptionValue(name, value)
        solver.passModel(lp)
        solver.run()
        return np.array(solver.getSolution().col_value), float(solver.getInfo().mip_dual_bound)


@dataclass(slots=True)
class Square:
    """A squared distance: its column, and what is used, in shares, as a sum of columns times numbers."""

    column: int
    terms: Sequence[tuple[int, float]]


class Best:
    """The program of a model."""

    def __init__(self, model: Model, rules: Rules) -> None:
        self.model, self.rules = model, rules
        assert model.brokers.alive.all()
        assert model.disks.alive.all()
        self.standing: Standing = standing_of(
            model, rules, np.zeros(model.replicas, np.bool_), np.zeros((len(model.brokers.ids), PEAK))
        )
        self.band = rules.goals.within * BAND_SHARE
        self.unit = self.standing.takers / model.replicas * rules.goals.bytes_price
        self.program = Program()
        self.squares: list[Square] = []
        self.place()
        self.keep_rules()
        self.measure()
        self.count_topics()

    def place(self) -> None:
        """Where each replica is, whether it leads, and both at once."""
        model, program = self.model, self.program
        disks, lead_price = len(model.disks.broker), LEADER_PRICE * self.unit
        led = set(model.leader.tolist())
        self.on, self.leads, self.leads_on = [], [], []
        for r in range(model.replicas):
            prices = np.where(model.disks.broker == model.broker[r], DISK_MOVE_PRICE, 1.0) * self.standing.price[r]
            prices[model.disk[r]] = 0
            self.on.append([program.column(float(price), 1, whole=True) for price in prices])
            self.leads.append(program.column(0.0 if r in led else lead_price, 1, whole=True))
            self.leads_on.append([program.column(0, 1) for _ in range(disks)])
            program.row([(each, 1) for each in self.on[r]], 1, 1)
            program.row([*((each, 1) for each in self.leads_on[r]), (self.leads[r], -1)], 0, 0)
            for both, on in zip(self.leads_on[r], self.on[r], strict=True):
                program.row([(both, 1), (on, -1)], -1, 0)

    def keep_rules(self) -> None:
        """One leader a partition; one replica a broker and a rack."""
        model = self.model
        for p in range(len(model.topic)):
            mine = range(model.first[p], model.first[p + 1])
            self.program.row([(self.leads[r], 1) for r in mine], 1, 1)
            domains = [model.brokers.rack[model.disks.broker] if self.rules.racks else model.disks.broker]
            for domain in (model.disks.broker, *domains):
                for each in np.unique(domain):
                    terms = [(self.on[r][d], 1.0) for r in mine for d in np.flatnonzero(domain == each)]
                    self.program.row(terms, 0, 1)

    def terms(self, disks: Array, columns: Sequence[int], scale: float) -> list[tuple[int, float]]:
        """What is used on these disks of resources together, times a number."""
        model = self.model
        as_follower = model.following[:, columns].sum(axis=1) * scale
        more = model.leading[:, columns].sum(axis=1) * scale - as_follower
        found = []
        for r in range(model.replicas):
            for d in disks:
                found.append((self.on[r][d], float(as_follower[r])))
                found.append((self.leads_on[r][d], float(more[r])))
        return found

    def measure(self) -> None:
        """Distances from shares, and capacities."""
        model, standing = self.model, self.standing
        for b in range(len(model.brokers.ids)):
            mine = np.flatnonzero(model.disks.broker == b)
            for k in range(PEAK):
                share = standing.broker_shares[b, k]
                if share > 0:
                    self.square(1.0, self.terms(mine, [k], 1 / share))
            leaders = [(self.leads_on[r][d], 1 / standing.broker_shares[b, PEAK]) for r in range(model.replicas)
                       for d in mine]  # fmt: skip
            self.square(LEADERS_WEIGHT, leaders)
            for at, (_, k, _, _) in enumerate(BROKER_CAPACITIES):
                limit = float(standing.broker_limits[b, at])
                self.program.row(self.terms(mine, [PEAK + k], 1 / limit), 0, 1)
        weight = standing.takers / standing.disk_takers
        for d in range(len(model.disks.broker)):
            one = np.array([d])
            for column, k in enumerate(DISK_RESOURCES):
                share = standing.disk_shares[d, column]
                if share > 0:
                    self.square(weight, self.terms(one, [k], 1 / share))
            for at, columns in enumerate(([PEAK + BYTES], [PEAK + DISK_WRITE, PEAK + DISK_READ])):
                self.program.row(self.terms(one, columns, 1 / float(standing.disk_limits[d, at])), 0, 1)

    def square(self, weight: float, terms: Sequence[tuple[int, float]]) -> None:
        """A squared distance in the sum, with its first tangents."""
        self.squares.append(Square(self.program.column(weight), terms))
        for beyond in TANGENTS[1:]:
            for sign in (1, -1):
                self.tangent(self.squares[-1], 1 + sign * (self.band + beyond))

    def tangent(self, square: Square, use: float) -> None:
        """The square is at least as large as its tangent at this use."""
        away = use - 1
        beyond = abs(away) - self.band
        if beyond <= 0:
            return
        slope = 2 * beyond * np.sign(away)
        # column >= beyond^2 + slope * (sum - use)
        terms = [(square.column, 1.0), *((column, -slope * number) for column, number in square.terms)]
        self.program.row(terms, beyond**2 - slope * use, highspy.kHighsInf)

    def count_topics(self) -> None:
        """Replicas of a topic on a broker beyond what is usual."""
        model, cost = self.model, self.rules.goals.topic_price * self.unit
        for t in range(len(model.topics)):
            mine = np.flatnonzero(model.topic[model.partition] == t)
            for b in range(len(model.brokers.ids)):
                disks = np.flatnonzero(model.disks.broker == b)
                more = self.program.column(cost)
                terms = [(self.on[r][d], 1.0) for r in mine for d in disks]
                self.program.row([*terms, (more, -1.0)], 0, float(self.standing.most[t]))

    def solved(self, time_limit_seconds: float) -> Optimum:
        """Solves, draws tangents where the solution is, and solves again."""
        best = np.inf
        for _ in range(ROUNDS_MAX):
            values, bound = self.program.solve(time_limit_seconds)
            best = min(best, self.true_score(values))
            if best - bound <= PROVEN * best + 1e-9:
                break
            for each in self.squares:
                self.tangent(each, sum(values[column] * number for column, number in each.terms))
        return Optimum(bound, best)

    def true_score(self, values: Array) -> float:
        model = self.model
        disk = np.array([int(np.argmax(values[each])) for each in self.on])
        leads = values[self.leads]
        leader = [model.first[p] + int(np.argmax(leads[model.first[p] : model.first[p + 1]]))
                  for p in range(len(model.topic))]  # fmt: skip
        places = Places(model.disks.broker[disk], disk, np.array(leader))
        load = model.following.copy()
        load[places.leader] = model.leading[places.leader]
        return score(model, self.rules, self.standing, used(model, load, places), places)


def optimum(model: Model, rules: Rules, time_limit_seconds: float) -> Optimum:
    """The least score; `time_limit_seconds` of each solution, after which the bound is what has been proven by then."""
    return Best(model, rules).solved(time_limit_seconds)
