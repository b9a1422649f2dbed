import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The Java client at work until its standard input ends, with the properties of a file:
 *
 *     produce FILE TOPIC NAME    writes NAME-0, NAME-1, ...; says "acknowledged VALUE PARTITION OFFSET"
 *     consume FILE TOPIC         reads in the group of the file, and commits; says "read VALUE PARTITION OFFSET"
 *
 * Whatever goes wrong is a line "failed", and why.
 */
public final class Numbers {
    private static final long PACE_MS = 5;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (InputStream file = Files.newInputStream(Path.of(arguments[1]))) {
            settings.load(file);
        }
        try {
            if (arguments[0].equals("produce")) {
                produce(settings, arguments[2], arguments[3]);
            } else {
                consume(settings, arguments[2]);
            }
        } catch (Exception thrown) {
            tell("failed " + thrown);
        }
    }

    private static synchronized void tell(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static boolean goesOn() throws IOException {
        return System.in.available() == 0;
    }

    private static void produce(Properties settings, String topic, String name) throws Exception {
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; goesOn(); number++) {
                String value = name + "-" + number;
                producer.send(new ProducerRecord<>(topic, value), (at, thrown) -> tell(thrown == null
                        ? "acknowledged " + value + " " + at.partition() + " " + at.offset()
                        : "failed " + value + " " + thrown));
                Thread.sleep(PACE_MS);
            }
        }
    }

    private static void consume(Properties settings, String topic) throws Exception {
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic), new CommitFirst(consumer));
            while (goesOn()) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
                for (ConsumerRecord<String, String> record : records) {
                    tell("read " + record.value() + " " + record.partition() + " " + record.offset());
                }
                if (!records.isEmpty()) {
                    commit(consumer);
                }
            }
        }
    }

    private static void commit(KafkaConsumer<String, String> consumer) {
        try {
            consumer.commitSync();
        } catch (RebalanceInProgressException later) {
            // what stays ours is committed next time, what goes away when it is revoked
        }
    }

    private record CommitFirst(KafkaConsumer<String, String> consumer) implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            commit(consumer);
        }
    }
}
