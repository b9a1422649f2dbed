import java.io.FileReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts words exactly once: `WordCount BOOTSTRAP STATE_DIRECTORY NAME FROM TO`. Each word of each record gets a record
 * "WORD COUNT", as none is held back. "running" is printed whenever it has its partitions; the end of standard input
 * closes it.
 */
public final class WordCount {
    public static void main(String[] arguments) throws Exception {
        Properties settings = login();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, Path.of(arguments[1]).toString());
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[2]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 50);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put("consumer.session.timeout.ms", 6000);
        settings.put("consumer.heartbeat.interval.ms", 500);
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("producer.transaction.timeout.ms", 6000);
        settings.put("fetch.max.wait.ms", 50);

        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[3], Consumed.with(Serdes.String(), Serdes.String()))
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count()
                .toStream()
                .map((word, count) -> new org.apache.kafka.streams.KeyValue<>(word, word + " " + count))
                .to(arguments[4], Produced.with(Serdes.String(), Serdes.String()));

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        CountDownLatch failed = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(thrown -> {
            thrown.printStackTrace();
            failed.countDown();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                System.out.println("running");
                System.out.flush();
            }
        });
        streams.start();
        while (System.in.read() != -1) {
            // until it is closed
        }
        streams.close(Duration.ofSeconds(20));
        System.exit(failed.getCount() == 0 ? 1 : 0);
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
