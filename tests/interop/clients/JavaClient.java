import java.io.FileReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The Java client under orders from standard input, one a line: what it does is written to standard output, one line an
 * order. Bytes are base 64, null is "-". A row is timestamp, key, value, and pairs of header name and value, with
 * commas; rows are parted by blanks.
 *
 *     produce TOPIC CODEC ROWS    the offset of the last
 *     read TOPIC COUNT            the rows
 *     times TOPIC MS,MS,...       the offset for each time, or "-"
 */
public final class JavaClient {
    private static final int LARGEST_REQUEST_BYTES = 10_000_000;
    private static final Duration POLL = Duration.ofMillis(500);
    private static final int POLLS_MAX = 40;
    private final String bootstrap;

    private JavaClient(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        JavaClient client = new JavaClient(arguments[0]);
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8).useDelimiter("\n");
        while (lines.hasNext()) {
            System.out.println(client.obey(lines.next().split(" ")));
            System.out.flush();
        }
    }

    private String obey(String[] order) throws Exception {
        return switch (order[0]) {
            case "produce" -> produce(order[1], order[2], List.of(order).subList(3, order.length));
            case "read" -> read(order[1], Integer.parseInt(order[2]));
            case "times" -> times(order[1], order[2].split(","));
            default -> throw new IllegalArgumentException(order[0]);
        };
    }

    private String produce(String topic, String codec, List<String> rows) throws Exception {
        Properties settings = login();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("compression.type", codec);
        settings.put("max.request.size", LARGEST_REQUEST_BYTES);
        settings.put("linger.ms", 5);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (String row : rows) {
                String[] parts = row.split(",", -1);
                ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                        topic, 0, Long.parseLong(parts[0]), bytes(parts[1]), bytes(parts[2]));
                for (int i = 3; i < parts.length; i += 2) {
                    record.headers().add(parts[i], bytes(parts[i + 1]));
                }
                sent.add(producer.send(record));
            }
        }
        return String.valueOf(sent.get(sent.size() - 1).get().offset());
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Properties settings = login();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("auto.offset.reset", "none");
        settings.put("fetch.max.wait.ms", 50);
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private String read(String topic, int count) {
        TopicPartition partition = new TopicPartition(topic, 0);
        List<String> rows = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            for (int polls = 0; rows.size() < count && polls < POLLS_MAX; polls++) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                    rows.add(row(record));
                }
            }
        }
        return String.join(" ", rows);
    }

    private static String row(ConsumerRecord<byte[], byte[]> record) {
        StringBuilder row = new StringBuilder();
        row.append(record.timestamp()).append(',').append(text(record.key())).append(',').append(text(record.value()));
        for (Header header : record.headers()) {
            row.append(',').append(header.key()).append(',').append(text(header.value()));
        }
        return row.toString();
    }

    private String times(String topic, String[] times) {
        TopicPartition partition = new TopicPartition(topic, 0);
        List<String> offsets = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            for (String time : times) {
                OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, Long.parseLong(time))).get(partition);
                offsets.add(found == null ? "-" : String.valueOf(found.offset()));
            }
        }
        return String.join(" ", offsets);
    }

    private static byte[] bytes(String text) {
        return text.equals("-") ? null : Base64.getDecoder().decode(text);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "-" : Base64.getEncoder().encodeToString(bytes);
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
