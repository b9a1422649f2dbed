import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own producer, driven by lines on the standard input, so that its machine is warm when it is measured. Each line
 * is answered by one line of numbers.
 *
 *   transact TOPIC PARTITIONS RECORDS TRANSACTIONS PRODUCERS ABORT_EVERY -> seconds, p50 and p99 of a commit in us
 *   plain TOPIC PARTITIONS RECORDS TIMES -> seconds, for batches of records that are flushed instead of committed
 *   pulse TOPIC PARTITION ID SECONDS -> transactions, longest time between two commits in ms
 */
public final class TransactionClient {
    private static final int RECORD_BYTES = 100;
    private static String bootstrap;
    private static final List<KafkaProducer<byte[], byte[]>> PRODUCERS = new ArrayList<>();

    private static KafkaProducer<byte[], byte[]> producer(String id) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("linger.ms", "0");
        properties.put("batch.size", "131072");
        properties.put("max.block.ms", "120000");
        if (id != null) properties.put("transactional.id", id);
        KafkaProducer<byte[], byte[]> made =
            new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
        if (id != null) made.initTransactions();
        return made;
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, String topic, int partitions, int records) {
        byte[] value = new byte[RECORD_BYTES];
        for (int each = 0; each < records; each++)
            producer.send(new ProducerRecord<>(topic, each % partitions, null, value));
    }

    private static long[] commits(
        KafkaProducer<byte[], byte[]> producer, String topic, int partitions, int records, int count, int abortEvery) {
        long[] took = new long[count];
        for (int each = 0; each < count; each++) {
            producer.beginTransaction();
            send(producer, topic, partitions, records);
            producer.flush();
            long began = System.nanoTime();
            if (abortEvery > 0 && each % abortEvery == 0) producer.abortTransaction();
            else producer.commitTransaction();
            took[each] = System.nanoTime() - began;
        }
        return took;
    }

    private static String transact(String[] words) throws Exception {
        int partitions = Integer.parseInt(words[2]), records = Integer.parseInt(words[3]);
        int count = Integer.parseInt(words[4]), producers = Integer.parseInt(words[5]);
        int abortEvery = Integer.parseInt(words[6]);
        while (PRODUCERS.size() < producers) PRODUCERS.add(producer("bench-" + PRODUCERS.size()));
        ExecutorService threads = Executors.newFixedThreadPool(producers);
        List<Callable<long[]>> work = new ArrayList<>();
        for (KafkaProducer<byte[], byte[]> each : PRODUCERS.subList(0, producers))
            work.add(() -> commits(each, words[1], partitions, records, count / producers, abortEvery));
        long began = System.nanoTime();
        List<Future<long[]>> done = threads.invokeAll(work);
        double seconds = (System.nanoTime() - began) / 1e9;
        threads.shutdown();
        List<Long> all = new ArrayList<>();
        for (Future<long[]> each : done)
            for (long took : each.get()) all.add(took);
        all.sort(null);
        return seconds + " " + all.get(all.size() / 2) / 1e3 + " " + all.get(all.size() * 99 / 100) / 1e3;
    }

    private static String plain(String[] words) {
        int partitions = Integer.parseInt(words[2]), records = Integer.parseInt(words[3]);
        int times = Integer.parseInt(words[4]);
        try (KafkaProducer<byte[], byte[]> producer = producer(null)) {
            producer.partitionsFor(words[1]);
            long began = System.nanoTime();
            for (int each = 0; each < times; each++) {
                send(producer, words[1], partitions, records);
                producer.flush();
            }
            return String.valueOf((System.nanoTime() - began) / 1e9);
        }
    }

    private static String pulse(String[] words) {
        long end = System.nanoTime() + (long) (Double.parseDouble(words[4]) * 1e9), last = 0, longest = 0, commits = 0;
        KafkaProducer<byte[], byte[]> producer = producer(words[3]);
        while (System.nanoTime() < end) {
            try {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(words[1], Integer.parseInt(words[2]), null, new byte[RECORD_BYTES]));
                producer.commitTransaction();
                long now = System.nanoTime();
                if (last > 0) longest = Math.max(longest, now - last);
                last = now;
                commits++;
            } catch (ProducerFencedException fenced) {
                throw fenced;
            } catch (KafkaException failed) {
                System.err.println("a transaction failed: " + failed);
                try {
                    producer.abortTransaction();
                } catch (KafkaException fatal) {
                    producer.close(java.time.Duration.ZERO);
                    producer = producer(words[3]);
                }
            }
        }
        longest = Math.max(longest, System.nanoTime() - last);
        producer.close(java.time.Duration.ZERO);
        return commits + " " + longest / 1e6;
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = lines.readLine()) != null) {
            String[] words = line.split(" ");
            String answer = switch (words[0]) {
                case "transact" -> transact(words);
                case "plain" -> plain(words);
                case "pulse" -> pulse(words);
                default -> throw new IllegalArgumentException(Arrays.toString(words));
            };
            System.out.println(answer);
            System.out.flush();
        }
        System.exit(0);
    }
}
