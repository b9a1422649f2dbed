import java.io.FileReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Round trips by the Java client, each with a login of its own, under orders from standard input, one a line:
 *
 *     PROPERTIES BOOTSTRAP TOPIC VALUE    produces the value and reads it in a group
 *
 * with a line back: "ok" and what was read, or "refused" and the exception.
 */
public final class JavaLogins {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final int POLLS_MAX = 300;
    private static final int PATIENCE_MS = 60_000;

    public static void main(String[] ignored) {
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8).useDelimiter("\n");
        while (lines.hasNext()) {
            String[] order = lines.next().split(" ");
            String answer;
            try {
                answer = "ok " + trip(order[0], order[1], order[2], order[3]);
            } catch (Exception thrown) {
                Throwable cause = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
                answer = "refused " + cause.toString().replaceAll("\\s", " ");
            }
            System.out.println(answer);
            System.out.flush();
        }
    }

    private static String trip(String file, String bootstrap, String topic, String value) throws Exception {
        Properties settings = new Properties();
        try (FileReader text = new FileReader(file)) {
            settings.load(text);
        }
        settings.put("bootstrap.servers", bootstrap);
        Properties producing = new Properties();
        producing.putAll(settings);
        producing.put("max.block.ms", PATIENCE_MS);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(producing, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, value)).get();
        }
        settings.put("group.id", topic);
        settings.put("auto.offset.reset", "earliest");
        settings.put("fetch.max.wait.ms", 50);
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            for (int polls = 0; polls < POLLS_MAX; polls++) {
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    consumer.commitSync();
                    return record.value();
                }
            }
        }
        throw new IllegalStateException("nothing came");
    }
}
