"""A partition changes as by Kafka's PartitionChangeBuilder: leader, in-sync and eligible replicas, reassignments.

Random partitions and random wishes are put to both. Ours differs on purpose in five things: who is no replica any more
is not eligible; a partition that had no leader has no last known one; a replica that was being added and is no longer
wanted does not keep the reassignment from its end; one that is elected out of the eligible replicas leaves no
others eligible where it is enough by itself; and the only one that had everything is the last known leader when it is
lost, also where the feature was off when its leadership was.
"""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from interop.kafka_peer import run_java_source

from penstock.metadata.image import PartitionRegistration, TopicImage
from penstock.metadata.partition_change import changed_partition

pytestmark = pytest.mark.java

SOURCE = """
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Scanner;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

public class Changes {
    static List<Integer> list(String text) {
        List<Integer> numbers = new ArrayList<>();
        for (String each : text.substring(1).split(",")) {
            if (!each.isEmpty()) {
                numbers.add(Integer.parseInt(each));
            }
        }
        return numbers;
    }

    static int[] array(String text) {
        return list(text).stream().mapToInt(Integer::intValue).toArray();
    }

    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            int[] replicas = array(words[0]);
            Uuid[] directories = new Uuid[replicas.length];
            for (int at = 0; at < replicas.length; at++) {
                directories[at] = new Uuid(0, 1000 + replicas[at]);
            }
            PartitionRegistration partition = new PartitionRegistration.Builder()
                .setReplicas(replicas).setDirectories(directories).setIsr(array(words[1]))
                .setElr(array(words[2])).setLastKnownElr(array(words[3]))
                .setRemovingReplicas(array(words[4])).setAddingReplicas(array(words[5]))
                .setLeader(Integer.parseInt(words[6]))
                .setLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(words[7])))
                .setLeaderEpoch(5).setPartitionEpoch(9).build();
            List<Integer> acceptable = list(words[8]);
            PartitionChangeBuilder builder = new PartitionChangeBuilder(
                partition, new Uuid(0, 7), 0, acceptable::contains, MetadataVersion.IBP_4_3_IV0,
                Integer.parseInt(words[9]), words[10].equals("elr"));
            builder.setDefaultDirProvider(broker -> new Uuid(0, 1000 + broker));
            builder.setElection(PartitionChangeBuilder.Election.valueOf(words[11]));
            if (!words[12].equals("-")) {
                builder.setTargetIsr(list(words[12]));
            }
            if (!words[13].equals("-")) {
                builder.setTargetReplicas(list(words[13]));
            }
            if (!words[14].equals("-")) {
                builder.setTargetRemoving(list(words[14]));
            }
            if (!words[15].equals("-")) {
                builder.setTargetAdding(list(words[15]));
            }
            if (!words[16].equals("-")) {
                builder.setUncleanShutdownReplicas(list(words[16]));
            }
            Optional<ApiMessageAndVersion> built = builder.build();
            if (built.isEmpty()) {
                System.out.println("nothing");
                continue;
            }
            PartitionChangeRecord change = (PartitionChangeRecord) built.get().message();
            System.out.println(
                ("leader=" + change.leader() + " isr=" + change.isr() + " replicas=" + change.replicas()
                + " removing=" + change.removingReplicas() + " adding=" + change.addingReplicas()
                + " recovery=" + change.leaderRecoveryState() + " elr=" + change.eligibleLeaderReplicas()
                + " last=" + change.lastKnownElr()).replace(", ", ","));
        }
    }
}
"""
SCENARIOS = 3000


class Scenario:
    """A partition, what is wanted of it, and who may lead."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.elr = random.random() < 0.5
        replicas = tuple(random.sample(range(1, 7), random.randrange(1, 5)))
        isr = tuple(each for each in replicas if random.random() < 0.6)
        if not isr and not self.elr:
            isr = replicas[:1]
        rest = [each for each in replicas if each not in isr]
        elr = tuple(sorted(each for each in rest if self.elr and random.random() < 0.4))
        leader = random.choice((*isr, -1)) if isr else -1
        last = random.choice(((), (random.choice(replicas),))) if self.elr and leader < 0 else ()
        moving = random.random() < 0.4 and len(replicas) > 1
        removing = tuple(sorted(random.sample(replicas, 1))) if moving else ()
        left = [each for each in replicas if each not in removing]
        adding = tuple(sorted(random.sample(left, 1))) if moving else ()
        self.partition = PartitionRegistration(
            replicas,
            isr,
            leader,
            directories=tuple(UUID(int=1000 + each) for each in replicas),
            elr=elr,
            last_known_elr=last,
            removing_replicas=removing,
            adding_replicas=adding,
            leader_recovery_state=int(random.random() < 0.1),
            leader_epoch=5,
            partition_epoch=9,
        )
        self.acceptable = [each for each in range(1, 7) if random.random() < 0.6]
        self.minimum = random.randrange(1, len(replicas) + 1)
        self.election = random.choice(("PREFERRED", "ONLINE", "UNCLEAN"))
        self.unclean_shutdown: int | None = None
        self.isr: tuple[int, ...] | None = None
        self.target: tuple[tuple[int, ...], tuple[int, ...] | None, tuple[int, ...] | None] | None = None
        wish = random.randrange(4)
        if wish == 1:
            self.isr = tuple(each for each in replicas if random.random() < 0.6)
            self.isr = self.isr if self.isr or self.elr else isr
        elif wish == 2:
            wanted = tuple(random.sample(range(1, 7), random.randrange(1, 4)))
            gone, new = sorted(set(replicas) - set(wanted)), sorted(set(wanted) - set(replicas))
            self.target = ((*wanted, *gone), tuple(gone) or None, tuple(new) or None)
        elif wish == 3:
            self.unclean_shutdown = random.choice(replicas)
            self.isr = tuple(each for each in isr if each != self.unclean_shutdown)

    def line(self) -> str:
        """For the Java program."""

        def text(numbers: Any) -> str:
            return "-" if numbers is None else "=" + ",".join(map(str, numbers))

        partition, target = self.partition, self.target or (None, None, None)
        unclean = None if self.unclean_shutdown is None else [self.unclean_shutdown]
        words = [partition.replicas, partition.isr, partition.elr, partition.last_known_elr]
        words += [partition.removing_replicas, partition.adding_replicas]
        before = [text(each) for each in words] + [str(partition.leader), str(partition.leader_recovery_state)]
        rules = [text(self.acceptable), str(self.minimum), "elr" if self.elr else "isr", self.election]
        return " ".join([*before, *rules, text(self.isr), *map(text, target), text(unclean)])

    def ours(self) -> str:
        """What our decision says, in the words of the Java program."""
        controller: Any = SimpleNamespace(
            elr_enabled=self.elr,
            min_insync_replicas=lambda topic: self.minimum,
            has_online_directory=lambda broker_id, directory: True,
            unheard=set(),
            patient=False,
            image=SimpleNamespace(brokers={}),
        )
        replicas, removing, adding = self.target or (None, None, None)
        record = changed_partition(
            controller,
            TopicImage("t", UUID(int=7), (self.partition,)),
            0,
            acceptable=lambda broker_id: broker_id in self.acceptable,
            isr=self.isr,
            replicas=replicas,
            removing=removing,
            adding=adding,
            unclean_shutdown=self.unclean_shutdown,
            preferred=self.election == "PREFERRED",
            unclean=self.election == "UNCLEAN",
        )
        if record is None:
            return "nothing"

        def text(numbers: list[int] | None) -> str:
            return "null" if numbers is None else str(numbers).replace(" ", "")

        return (
            f"leader={record.leader} isr={text(record.isr)} replicas={text(record.replicas)} "
            f"removing={text(record.removing_replicas)} adding={text(record.adding_replicas)} "
            f"recovery={record.leader_recovery_state} elr={text(record.eligible_leader_replicas)} "
            f"last={text(record.last_known_elr)}"
        )

    def on_purpose(self, theirs: str) -> bool:
        """Whether Kafka's answer has what ours leaves out on purpose."""
        found = {"leader": "-1", "replicas": "null", "elr": "null", "last": "null"}
        found |= dict(word.split("=") for word in theirs.split() if "=" in word)
        replicas = set(eval_list(found["replicas"]) or self.partition.replicas)
        told = eval_list(found["elr"])
        eligible = set(self.partition.elr if told is None else told)
        lost = set(self.partition.last_known_elr) - replicas
        wanted = self.target or (None, None, None)
        removing = set(self.partition.removing_replicas if wanted[1] is None else wanted[1])
        if removing & set(self.partition.adding_replicas if wanted[2] is None else wanted[2]):
            return True
        out_of_eligible = int(found["leader"]) not in (-1, *(self.partition.isr if self.isr is None else self.isr))
        if self.minimum == 1 and out_of_eligible and eligible:
            return True
        return not eligible <= replicas or found["last"] == "[-1]" or bool(lost)

    def with_the_last(self, theirs: str) -> str:
        """Kafka's answer, with the last known leader that ours adds where the only one that had everything is lost."""
        before = self.partition
        had_everything = before.isr or before.elr
        found = {"isr": "null", "elr": "null"} | dict(word.split("=") for word in theirs.split() if "=" in word)
        in_sync, eligible = eval_list(found["isr"]), eval_list(found["elr"])
        somebody = (before.isr if in_sync is None else in_sync) or (before.elr if eligible is None else eligible)
        if not self.elr or before.leader >= 0 or before.last_known_elr or len(had_everything) != 1 or somebody:
            return theirs
        return theirs.replace("last=null", f"last=[{had_everything[0]}]")


def eval_list(text: str) -> list[int] | None:
    """A list as the Java program writes it."""
    return None if text == "null" else [int(each) for each in text[1:-1].split(",") if each]


def test_every_change_is_kafkas() -> None:
    scenarios = [Scenario(seed) for seed in range(SCENARIOS)]
    lines = [each.line() for each in scenarios]
    theirs = run_java_source(SOURCE, stdin="\n".join(lines) + "\n").stdout.splitlines()
    assert len(theirs) == len(scenarios)
    compared = 0  # a list of replicas in sync that stays the same says nothing
    for seed, (each, kafka) in enumerate(zip(scenarios, theirs, strict=True)):
        if each.on_purpose(kafka):
            continue
        compared += 1
        same = str(list(each.partition.isr)).replace(" ", "")
        expected = each.with_the_last(kafka.replace(f" isr={same} ", " isr=null "))
        assert each.ours() == expected, f"seed {seed}: {lines[seed]}"
    assert compared > SCENARIOS * 0.8
