"""Apache Kafka with a plugin that takes what clients push, and reads it with the classes of OpenTelemetry in its jars.

Without such a plugin Kafka does not know the APIs of KIP-714.
"""

from __future__ import annotations

from collections.abc import Sequence

from interop.kafka_peer import NODE_OPTIONS, KafkaPeer, compile_java, java

PLUGIN = """
import java.util.*;
import org.apache.kafka.common.metrics.*;
import org.apache.kafka.server.telemetry.*;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.MetricsData;

public class TakesClientMetrics implements MetricsReporter, ClientTelemetryExporterProvider {
    @Override public ClientTelemetryExporter clientTelemetryExporter() {
        return (context, payload) -> {
            try {
                MetricsData.parseFrom(payload.data());
            } catch (Exception wrong) {
                throw new IllegalArgumentException(wrong);
            }
        };
    }

    @Override public void init(List<KafkaMetric> metrics) { }
    @Override public void metricChange(KafkaMetric metric) { }
    @Override public void metricRemoval(KafkaMetric metric) { }
    @Override public void close() { }
    @Override public void configure(Map<String, ?> configs) { }
}
"""


class TakingPeer(KafkaPeer):
    """See the module's head."""

    def write_configuration(self) -> None:
        self._properties["metric.reporters"] = "TakesClientMetrics"
        super().write_configuration()

    def start(self, command: Sequence[str] | None = None) -> None:
        classes, _ = compile_java(PLUGIN)
        options = [*NODE_OPTIONS, *self._java_options]
        super().start(command or java(*self.node_words(), options=options, classes=classes))
