import java.io.FileReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactional producers by the Java client, under orders from standard input, one a line. Each gets one line back:
 * "ok" and what was asked for, or "refused" and the exception.
 *
 *     open PRODUCER ID TIMEOUT_MS
 *     begin PRODUCER
 *     send PRODUCER TOPIC PARTITION VALUES...       until they are acknowledged
 *     commit PRODUCER
 *     abort PRODUCER
 *     close PRODUCER
 *     copy ID GROUP PROTOCOL FROM TO COUNT BATCH    by transactions with the group's offsets, the first one aborted
 *     read TOPIC PARTITION LAST                     what is committed, up to the value LAST
 */
public final class TransactionalClient {
    private static final Duration POLL = Duration.ofMillis(500);
    private static final long PATIENCE_NS = 30_000_000_000L;
    private static final Map<String, KafkaProducer<String, String>> PRODUCERS = new HashMap<>();
    private static String bootstrap;

    public static void main(String[] arguments) {
        bootstrap = arguments[0];
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8).useDelimiter("\n");
        while (lines.hasNext()) {
            String answer;
            try {
                answer = ("ok " + obey(lines.next().split(" "))).strip();
            } catch (Exception thrown) {
                Throwable cause = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
                answer = "refused " + cause.toString().replaceAll("\\s", " ");
            }
            System.out.println(answer);
            System.out.flush();
        }
        PRODUCERS.values().forEach(producer -> producer.close(Duration.ZERO));
    }

    private static String obey(String[] order) throws Exception {
        switch (order[0]) {
            case "open" -> open(order[1], order[2], order[3]);
            case "begin" -> PRODUCERS.get(order[1]).beginTransaction();
            case "send" -> send(PRODUCERS.get(order[1]), order[2], Integer.parseInt(order[3]),
                    Arrays.asList(order).subList(4, order.length));
            case "commit" -> PRODUCERS.get(order[1]).commitTransaction();
            case "abort" -> PRODUCERS.get(order[1]).abortTransaction();
            case "close" -> PRODUCERS.remove(order[1]).close(Duration.ZERO);
            case "copy" -> copy(order);
            case "read" -> {
                return read(new TopicPartition(order[1], Integer.parseInt(order[2])), order[3]);
            }
            default -> throw new IllegalArgumentException(order[0]);
        }
        return "";
    }

    private static KafkaProducer<String, String> producer(String id, String timeoutMs) {
        Properties settings = login();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", id);
        settings.put("transaction.timeout.ms", timeoutMs);
        settings.put("max.block.ms", 30_000);
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    private static void open(String name, String id, String timeoutMs) {
        PRODUCERS.put(name, producer(id, timeoutMs));
    }

    private static void send(
            KafkaProducer<String, String> producer, String topic, int partition, List<String> values) throws Exception {
        List<Future<?>> sent = new ArrayList<>();
        for (String value : values) {
            sent.add(producer.send(new ProducerRecord<>(topic, partition, null, value)));
        }
        producer.flush();
        for (Future<?> each : sent) {
            each.get();
        }
    }

    private static KafkaConsumer<String, String> consumer(String... more) {
        Properties settings = login();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        settings.put("fetch.max.wait.ms", 50);
        for (int each = 0; each < more.length; each += 2) {
            settings.put(more[each], more[each + 1]);
        }
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private static void copy(String[] order) throws Exception {
        String from = order[4];
        String to = order[5];
        int count = Integer.parseInt(order[6]);
        List<String> settings = new ArrayList<>(List.of("group.id", order[2], "max.poll.records", order[7]));
        if (!order[3].equals("classic")) {
            settings.addAll(List.of("group.protocol", order[3]));
        }
        long end = System.nanoTime() + PATIENCE_NS;
        try (KafkaProducer<String, String> producer = producer(order[1], "60000");
                KafkaConsumer<String, String> consumer = consumer(settings.toArray(new String[0]))) {
            consumer.subscribe(List.of(from));
            boolean first = true;
            for (int copied = 0; copied < count; ) {
                if (System.nanoTime() > end) {
                    throw new IllegalStateException("only " + copied + " records were copied in time");
                }
                ConsumerRecords<String, String> records = consumer.poll(POLL);
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(to, record.partition(), null, "copied:" + record.value()));
                    offsets.put(new TopicPartition(from, record.partition()), new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (first) {
                    producer.abortTransaction();
                    rewind(consumer);
                } else {
                    producer.commitTransaction();
                    copied += records.count();
                }
                first = false;
            }
        }
    }

    private static void rewind(KafkaConsumer<String, String> consumer) {
        consumer.committed(consumer.assignment()).forEach((partition, offset) -> {
            if (offset == null) {
                consumer.seekToBeginning(List.of(partition));
            } else {
                consumer.seek(partition, offset);
            }
        });
    }

    private static String read(TopicPartition partition, String last) {
        List<String> values = new ArrayList<>();
        long end = System.nanoTime() + PATIENCE_NS;
        try (KafkaConsumer<String, String> consumer = consumer()) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            while (values.isEmpty() || !values.get(values.size() - 1).equals(last)) {
                if (System.nanoTime() > end) {
                    throw new IllegalStateException("only these came: " + values);
                }
                consumer.poll(POLL).forEach(record -> values.add(record.value()));
            }
        }
        return String.join(" ", values);
    }

    /** What CLIENT_PROPERTIES in the environment names, a file of how to log in; nothing without it. */
    private static Properties login() {
        Properties found = new Properties();
        String file = System.getenv("CLIENT_PROPERTIES");
        if (file != null) {
            try (FileReader text = new FileReader(file)) {
                found.load(text);
            } catch (IOException failed) {
                throw new UncheckedIOException(failed);
            }
        }
        return found;
    }
}
