"""kafka-configs, which is Java's Admin, sets, describes and deletes client quotas: of Penstock as of Apache Kafka."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from interop.data_directory.turns import DataDirectory
from interop.kafka_peer import KafkaPeer, require_kafka, run_java_source, run_tool
from interop.tools.toolbox import CONFIGS, Outcome, Toolbox
from support.heard import until_heard

from penstock.cli.main import main
from penstock.testing.broker import LocalBroker

pytestmark = [pytest.mark.java, pytest.mark.slow]

Compare = Callable[..., tuple[Outcome, Outcome]]


@pytest.fixture(scope="module")
def both(kafka_peer: KafkaPeer) -> Iterator[Compare]:
    """Runs kafka-configs against Penstock and Kafka."""
    with Toolbox() as toolbox, LocalBroker() as broker:

        def run(*arguments: object) -> tuple[Outcome, Outcome]:
            ours, kafkas = (toolbox.run(CONFIGS, at, *arguments) for at in (broker.bootstrap, kafka_peer.bootstrap))
            until_heard(kafka_peer.bootstrap)
            return in_order(ours), in_order(kafkas)

        yield run


def in_order(outcome: Outcome) -> Outcome:
    """Lines in an order of their own, and the limits of a line, too; no traces."""

    def ordered(line: str) -> str:
        head, are, limits = line.partition(" are ")
        return head + are + ", ".join(sorted(limits.split(", ")))

    error = re.sub(r"^\tat .*\n", "", outcome.error, flags=re.MULTILINE)
    error = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:*", error)
    return Outcome(outcome.status, "\n".join(sorted(map(ordered, outcome.out.splitlines()))), error)


def agree(pair: tuple[Outcome, Outcome], *contains: str) -> None:
    ours, kafkas = pair
    assert ours == kafkas
    for each in contains:
        assert each in ours.out + ours.error


ENTITIES: dict[tuple[str, ...], str] = {
    ("--entity-type", "users", "--entity-name", "al/ice"): "user-principal 'al/ice'",
    ("--entity-type", "users", "--entity-default"): "the default user-principal",
    ("--entity-type", "clients", "--entity-name", "web"): "client-id 'web'",
    ("--entity-type", "clients", "--entity-default"): "the default client-id",
    ("--entity-type", "users", "--entity-name", "al/ice", "--entity-type", "clients", "--entity-name", "web"): (
        "user-principal 'al/ice', client-id 'web'"
    ),
    ("--entity-type", "users", "--entity-name", "al/ice", "--entity-type", "clients", "--entity-default"): (
        "user-principal 'al/ice', the default client-id"
    ),
    ("--entity-type", "users", "--entity-default", "--entity-type", "clients", "--entity-name", "web"): (
        "the default user-principal, client-id 'web'"
    ),
    ("--entity-type", "users", "--entity-default", "--entity-type", "clients", "--entity-default"): (
        "the default user-principal, the default client-id"
    ),
}
LIMITS = "producer_byte_rate=1000000000,consumer_byte_rate=2000000000,request_percentage=99999.5"


def test_quotas_of_users_and_clients(both: Compare) -> None:
    for words in ENTITIES:
        agree(both("--alter", *words, "--add-config", LIMITS), "Completed updating")
    for words, named in ENTITIES.items():
        agree(both("--describe", *words), f"Quota configs for {named} are ", "request_percentage=99999.5")
    agree(both("--alter", "--entity-type", "users", "--entity-name", "scram", "--add-config",
               "SCRAM-SHA-256=[iterations=4096,password=secret]"))  # fmt: skip
    agree(
        both("--describe", "--entity-type", "users"),
        "Quota configs for user-principal 'al/ice' are",
        "Quota configs for the default user-principal are",
        "SCRAM credential configs for user-principal 'scram' are SCRAM-SHA-256=iterations=4096",
    )
    agree(both("--describe", "--entity-type", "clients"), "client-id 'web'", "the default client-id")
    agree(
        both("--describe", "--entity-type", "users", "--entity-type", "clients"), "user-principal 'al/ice', client-id"
    )
    for words in ENTITIES:
        agree(both("--alter", *words, "--delete-config", "producer_byte_rate,request_percentage"), "Completed")
        agree(both("--describe", *words), "consumer_byte_rate=2.0E9")
    agree(both("--alter", *next(iter(ENTITIES)), "--delete-config", "producer_byte_rate"), "Invalid config(s)")
    for words in ENTITIES:
        agree(both("--alter", *words, "--delete-config", "consumer_byte_rate"), "Completed")
    agree(both("--describe", "--entity-type", "users", "--entity-type", "clients"))
    agree(both("--alter", "--entity-type", "users", "--entity-name", "scram", "--delete-config", "SCRAM-SHA-256"))


def test_quotas_of_addresses(both: Compare) -> None:
    rate = "connection_creation_rate=1000000"
    for words, named in {
        ("--entity-name", "10.0.0.7"): "ip '10.0.0.7'",
        ("--entity-default",): "the default ip",
    }.items():
        agree(both("--alter", "--entity-type", "ips", *words, "--add-config", rate), "Completed")
        agree(both("--describe", "--entity-type", "ips", *words), f"{named} are connection_creation_rate=1000000.0")
    agree(both("--describe", "--entity-type", "ips"), "10.0.0.7", "default ip")
    for words in (("--entity-name", "10.0.0.7"), ("--entity-default",)):
        agree(
            both("--alter", "--entity-type", "ips", *words, "--delete-config", "connection_creation_rate"), "Completed"
        )


def test_what_is_wrong_is_said_alike(both: Compare) -> None:
    alice = ("--alter", "--entity-type", "users", "--entity-name", "alice", "--add-config")
    agree(both(*alice, "producer_byte_rate=0"), "Quota producer_byte_rate must be greater than 0")
    agree(both(*alice, "producer_byte_rate=0.5"), "producer_byte_rate cannot be a fractional value.")
    agree(both(*alice, "producer_byte_rate=1e300"), "too large for a LONG")
    agree(both(*alice, "producer_byte_rate=much"), "Cannot parse quota configuration value")
    address = ("--alter", "--entity-type", "ips", "--entity-name", "10.0.0.7", "--add-config")
    agree(both(*address, "connection_creation_rate=2147483648"), "too large for an INT")


ADMIN = """
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.quota.*;

public class Quotas {
    static ClientQuotaEntity entity(String... pairs) {
        Map<String, String> entries = new HashMap<>();
        for (int each = 0; each < pairs.length; each += 2) entries.put(pairs[each], pairs[each + 1]);
        return new ClientQuotaEntity(entries);
    }

    static String tried(java.util.concurrent.Future<?> future) throws Exception {
        try {
            return String.valueOf(future.get());
        } catch (java.util.concurrent.ExecutionException error) {
            return error.getCause().getClass().getSimpleName() + ": " + error.getCause().getMessage();
        }
    }

    static void show(Admin admin, String what, ClientQuotaFilter filter) throws Exception {
        TreeMap<String, String> found = new TreeMap<>();
        admin.describeClientQuotas(filter).entities().get().forEach((entity, limits) ->
            found.put(new TreeMap<>(entity.entries()).toString(), new TreeMap<>(limits).toString()));
        System.out.println(what + " " + found);
    }

    public static void main(String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            List<ClientQuotaEntity> entities = List.of(
                entity("user", "al/ice"), entity("user", null), entity("client-id", "web"), entity("client-id", null),
                entity("user", "al/ice", "client-id", "web"), entity("user", null, "client-id", null),
                entity("ip", "10.0.0.7"), entity("ip", null), entity("user", "", "client-id", "web"),
                entity("ip", "10.0.0.7", "user", "x"));
            List<ClientQuotaAlteration> all = new ArrayList<>();
            for (ClientQuotaEntity each : entities) {
                String key = each.entries().containsKey("ip") ? "connection_creation_rate" : "consumer_byte_rate";
                all.add(new ClientQuotaAlteration(each, List.of(new ClientQuotaAlteration.Op(key, 1000000.0))));
            }
            AlterClientQuotasResult checked =
                admin.alterClientQuotas(all, new AlterClientQuotasOptions().validateOnly(true));
            for (ClientQuotaEntity each : entities) System.out.println("checked " + tried(checked.values().get(each)));
            show(admin, "nothing", ClientQuotaFilter.all());
            AlterClientQuotasResult altered = admin.alterClientQuotas(all);
            for (ClientQuotaEntity each : entities) System.out.println("altered " + tried(altered.values().get(each)));
            Thread.sleep(1000);
            show(admin, "all", ClientQuotaFilter.all());
            for (String type : List.of("user", "client-id", "ip")) {
                for (ClientQuotaFilterComponent component : List.of(
                        ClientQuotaFilterComponent.ofEntityType(type), ClientQuotaFilterComponent.ofDefaultEntity(type),
                        ClientQuotaFilterComponent.ofEntity(type, "al/ice"),
                        ClientQuotaFilterComponent.ofEntity(type, "10.0.0.7"))) {
                    show(admin, "contains " + component, ClientQuotaFilter.contains(List.of(component)));
                    show(admin, "contains only " + component, ClientQuotaFilter.containsOnly(List.of(component)));
                }
            }
            List<ClientQuotaAlteration> none = new ArrayList<>();
            for (ClientQuotaAlteration each : all.subList(0, 8)) {
                none.add(new ClientQuotaAlteration(each.entity(),
                    List.of(new ClientQuotaAlteration.Op(each.ops().iterator().next().key(), null))));
            }
            admin.alterClientQuotas(none).all().get();
            Thread.sleep(1000);
            show(admin, "gone", ClientQuotaFilter.all());
        }
    }
}
"""


def test_javas_admin_sets_describes_and_deletes_quotas(kafka_peer: KafkaPeer) -> None:
    """With all its filters; what it is told by Penstock is what Apache Kafka tells it."""
    with LocalBroker() as broker:
        ours, kafkas = (run_java_source(ADMIN, at).stdout for at in (broker.bootstrap, kafka_peer.bootstrap))
    assert ours == kafkas
    assert ours.count("altered null") == 8
    assert "altered InvalidRequestException" in ours
    assert ours.endswith("gone {}\n")


def test_our_command_on_kafka_shows_what_is_set_and_says_that_no_more_is_told(
    kafka_peer: KafkaPeer, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--client-id", "shown", "--bootstrap", kafka_peer.bootstrap]
    assert main(["quotas", "set", *words, "producer_byte_rate=1000"]) == 0
    until_heard(kafka_peer.bootstrap)
    try:
        capsys.readouterr()
        assert main(["quotas", "list", *words]) == 0
        shown = capsys.readouterr().out
        assert "client id shown  producer_byte_rate   1000" in shown
        assert "broker 1: it does not tell" in shown
        assert main(["quotas", "explain", *words]) == 0
        assert "producer_byte_rate: 1000, level 7, shared by all with client id shown" in capsys.readouterr().out
    finally:
        assert main(["quotas", "delete", *words]) == 0
        until_heard(kafka_peer.bootstrap)


RECORD = re.compile(r'\{"type":"CLIENT_QUOTA_RECORD","version":0,"data":(\{.*?\})\}')


def test_kafka_reads_the_quotas_in_the_metadata_log(tmp_path: Path) -> None:
    require_kafka()
    with LocalBroker(data_dir=tmp_path) as broker:
        words = ["--user", "a", "--client-id-default", "--bootstrap", broker.bootstrap]
        assert main(["quotas", "set", "producer_byte_rate=5", *words]) == 0
        assert main(["quotas", "delete", *words]) == 0
    log = tmp_path / "__cluster_metadata-0" / f"{0:020}.log"
    dumped = run_tool("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", log).stdout
    entity = [{"entityType": "client-id", "entityName": None}, {"entityType": "user", "entityName": "a"}]
    assert [json.loads(each) for each in RECORD.findall(dumped)] == [
        {"entity": entity, "key": "producer_byte_rate", "value": 5.0, "remove": False},
        {"entity": entity, "key": "producer_byte_rate", "value": 0.0, "remove": True},
    ]


def listed(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    capsys.readouterr()
    assert main(["quotas", "list", "--json", "--bootstrap", bootstrap]) == 0
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)["quotas"]
    return found


@pytest.mark.long
def test_a_directory_with_quotas_changes_hands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require_kafka()
    with DataDirectory(tmp_path, formatted_by="penstock") as shared:
        expected: list[dict[str, object]] = []
        for number, who in enumerate(("penstock", "kafka", "penstock")):
            with shared.served_by(who):
                assert listed(shared.bootstrap, capsys) == expected, who
                words = ["--user", f"u{number}", "--bootstrap", shared.bootstrap]
                assert main(["quotas", "set", *words, "producer_byte_rate=1e9", "request_percentage=9999.5"]) == 0
                assert main(["quotas", "delete", *words, "producer_byte_rate"]) == 0
                until_heard(shared.bootstrap)
                expected.append({"entity": {"user": f"u{number}"}, "limits": {"request_percentage": 9999.5}})
                assert listed(shared.bootstrap, capsys) == expected, who
