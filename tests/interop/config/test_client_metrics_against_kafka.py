"""Client metrics subscriptions as Kafka's own classes take them: what may be set, and what a client is asked for."""

from __future__ import annotations

import base64
import json
from random import Random
from uuid import UUID

import pytest
from interop.kafka_peer import run_java_source

from penstock.config.client_metrics import CLIENT_METRICS_SETTINGS, ClientMetricsConfigs
from penstock.errors import ConfigError, ErrorCode, RequestError
from penstock.metadata.image import ConfigResource
from penstock.node.client_metrics.instances import text_of
from penstock.node.client_metrics.subscriptions import Subscriptions

pytestmark = pytest.mark.java

CHECK = """
import java.util.*;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;

public class CheckClientMetricsConfigs {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        System.out.println(String.join(",", new TreeSet<>(ClientMetricsConfigs.names())));
        while (lines.hasNextLine()) {
            String[] parts = lines.nextLine().split(" ", -1);
            Properties configs = new Properties();
            for (int at = 0; at + 1 < parts.length; at += 2)
                configs.setProperty(text(parts[at]), text(parts[at + 1]));
            try {
                ClientMetricsConfigs.validate("name", configs);
                System.out.println("NONE");
            } catch (org.apache.kafka.common.config.ConfigException wrong) {
                System.out.println("INVALID_CONFIG");
            } catch (Exception wrong) {
                System.out.println(Errors.forException(wrong));
            }
        }
    }

    static String text(String encoded) {
        return new String(Base64.getDecoder().decode(encoded));
    }
}
"""
TELL = """
import java.net.InetAddress;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.GetTelemetrySubscriptionsRequestData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.*;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.*;
import org.apache.kafka.common.security.auth.*;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.ClientMetricsManager;
import org.apache.kafka.server.metrics.ClientTelemetryExporterPlugin;

public class TellSubscriptions {
    public static void main(String[] arguments) throws Exception {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            Scanner words = new Scanner(lines.nextLine());
            Uuid id = Uuid.fromString(words.next());
            try (ClientMetricsManager manager = new ClientMetricsManager(
                    new ClientTelemetryExporterPlugin(), 1000, Time.SYSTEM, new Metrics())) {
                while (words.hasNext()) {
                    String name = words.next();
                    Properties configs = new Properties();
                    configs.setProperty("metrics", words.next());
                    configs.setProperty("interval.ms", words.next());
                    manager.updateSubscription(name, configs);
                }
                RequestHeader header = new RequestHeader(ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS, (short) 0, "c", 0);
                RequestContext context = new RequestContext(header, "1", InetAddress.getLoopbackAddress(),
                    Optional.of(9), KafkaPrincipal.ANONYMOUS, ListenerName.normalised("P"),
                    SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY, false);
                GetTelemetrySubscriptionsRequest request = new GetTelemetrySubscriptionsRequest.Builder(
                    new GetTelemetrySubscriptionsRequestData().setClientInstanceId(id), true).build((short) 0);
                var told = manager.processGetTelemetrySubscriptionRequest(request, context).data();
                System.out.println(told.subscriptionId() + " " + told.pushIntervalMs() + " "
                    + String.join(",", told.requestedMetrics()));
            }
        }
    }
}
"""
TEXTS = (
    *("", " ", "*", "a", "a,b", " a , b ", "a,,b", ",", "a,", "a,a", "*,a", "0", "99", "100", " 100 ", "3600000"),
    *("3600001", "2147483648", "-1", "1e3", "client_id", "client_id=", "client_id=a", " client_id = a ", "=a", "="),
    *("client_id=a=b", "client_id=a=", "client_id==a", "client_id=(", "client_id=[a", "client_id=a{2}", "id=a"),
    *("CLIENT_ID=a", "client_id=a,client_id=b", "client_id=a,client_software_name=b.*", "client_id=.*,"),
    "client_instance_id=a,client_source_address=127[.].*,client_source_port=9+,client_software_version=[0-9.]+",
)
ONLY_JAVAS = ("client_id=a(?!b)", r"client_id=(a)\1", "client_id=a++")
"""What Java takes and RE2 does not; here it is INVALID_CONFIG."""


def cases() -> list[dict[str, str]]:
    found = [{name: text} for name in CLIENT_METRICS_SETTINGS for text in TEXTS]
    found += [{}, {"metric": "a"}, {"metrics": "a", "x": "1"}, {"interval.ms": "x", "x": "1"}]
    return [*found, {"interval.ms": "99", "match": "x"}, {"interval.ms": "1", "metrics": "a,a"}]


def ours(configs: dict[str, str]) -> str:
    try:
        ClientMetricsConfigs.resolve(configs)
    except RequestError as wrong:
        return wrong.code.name
    except ConfigError:
        return ErrorCode.INVALID_CONFIG.name
    return ErrorCode.NONE.name


def encoded(configs: dict[str, str]) -> str:
    words = [base64.b64encode(text.encode()).decode() for pair in configs.items() for text in pair]
    return " ".join(words)


def test_configs_are_what_kafka_takes() -> None:
    given = cases()
    names, *theirs = run_java_source(CHECK, stdin="".join(f"{encoded(each)}\n" for each in given)).stdout.split()
    assert names.split(",") == sorted(CLIENT_METRICS_SETTINGS)
    different = [
        (configs, kafka, ours(configs)) for configs, kafka in zip(given, theirs, strict=True) if kafka != ours(configs)
    ]
    assert different == []
    assert {"NONE", "INVALID_CONFIG", "INVALID_REQUEST"} <= set(theirs)


def test_what_only_java_takes_is_refused() -> None:
    text = "".join(f"{encoded({'match': each})}\n" for each in ONLY_JAVAS)
    assert run_java_source(CHECK, stdin=text).stdout.split()[1:] == ["NONE"] * len(ONLY_JAVAS)
    assert [ours({"match": each}) for each in ONLY_JAVAS] == ["INVALID_CONFIG"] * len(ONLY_JAVAS)


def told(line: str) -> str:
    instance, *words = line.split()
    found = Subscriptions()
    for name, metrics, interval in zip(words[::3], words[1::3], words[2::3], strict=True):
        found.configure({(ConfigResource.CLIENT_METRICS, name): {"metrics": metrics, "interval.ms": interval}})
    wanted = found.of(dict.fromkeys(("client_id",), "c"))
    padded = UUID(bytes=base64.urlsafe_b64decode(instance + "=="))
    return f"{wanted.subscription_id(padded)} {wanted.push_interval_ms} {','.join(wanted.metrics)}"


def test_clients_are_asked_for_the_same_under_the_same_id() -> None:
    """Also where brokers of Kafka are in the cluster: the id is told by one broker, and checked by another."""
    random, lines = Random(714), []
    for _ in range(300):
        words = [text_of(UUID(int=random.getrandbits(128), version=4))]
        for number in range(random.choice((1, 1, 2, 3, 20))):
            count = random.choice((1, 2, 5, 13, 40))
            metrics = [f"org.apache.kafka.{random.choice('abcdefg')}.m{random.randrange(200)}." for _ in range(count)]
            metrics += ["*"] * (random.random() < 0.05) + ["\u00e4\U0001f600"] * (random.random() < 0.2)
            words += [f"s{number}", ",".join(dict.fromkeys(metrics)), str(random.randrange(100, 3_600_000))]
        lines.append(" ".join(words))
    kafkas = run_java_source(TELL, stdin="".join(f"{line}\n" for line in lines)).stdout.splitlines()
    assert len(kafkas) == len(lines)
    different = [(line, kafka, told(line)) for line, kafka in zip(lines, kafkas, strict=True) if kafka != told(line)]
    assert different == [], json.dumps(different[:1])
