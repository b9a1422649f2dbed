import java.io.FileReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of groups by the Java client, each a thread, under orders from standard input, one a line:
 *
 *     open MEMBER topics=a,b | pattern=java | re2=re2  SETTING=VALUE ...
 *     close MEMBER           leaves the group
 *     abandon MEMBER         ends without leaving
 *
 * Each event is a line of standard output: the member, what happened, and to which partitions or records.
 */
public final class Members {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Map<String, Member> MEMBERS = new ConcurrentHashMap<>();

    public static void main(String[] ignored) {
        Scanner lines = new Scanner(System.in).useDelimiter("\n");
        while (lines.hasNext()) {
            String[] order = lines.next().split(" ");
            switch (order[0]) {
                case "open" -> {
                    Member member = new Member(order[1], Arrays.copyOfRange(order, 2, order.length));
                    MEMBERS.put(order[1], member);
                    member.start();
                }
                case "close" -> MEMBERS.remove(order[1]).end(CloseOptions.GroupMembershipOperation.DEFAULT);
                case "abandon" -> MEMBERS.remove(order[1]).end(CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP);
                default -> throw new IllegalArgumentException(order[0]);
            }
        }
        MEMBERS.values().forEach(member -> member.end(CloseOptions.GroupMembershipOperation.DEFAULT));
    }

    private static synchronized void tell(String member, String event, Stream<String> places) {
        StringBuilder line = new StringBuilder(member + " " + event);
        places.forEach(place -> line.append(' ').append(place));
        System.out.println(line);
        System.out.flush();
    }

    private static final class Member extends Thread implements ConsumerRebalanceListener {
        private final String name;
        private final Properties settings = login();
        private volatile CloseOptions.GroupMembershipOperation ending;
        private KafkaConsumer<byte[], byte[]> consumer;

        Member(String name, String[] settings) {
            this.name = name;
            for (String each : settings) {
                String[] pair = each.split("=", 2);
                this.settings.put(pair[0], pair[1]);
            }
        }

        void end(CloseOptions.GroupMembershipOperation how) {
            ending = how;
        }

        @Override
        public void run() {
            String topics = (String) settings.remove("topics");
            String pattern = (String) settings.remove("pattern");
            String re2 = (String) settings.remove("re2");
            try {
                consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
                if (topics != null) {
                    consumer.subscribe(List.of(topics.split(",")), this);
                } else if (pattern != null) {
                    consumer.subscribe(Pattern.compile(pattern), this);
                } else {
                    consumer.subscribe(new SubscriptionPattern(re2), this);
                }
                while (ending == null) {
                    process(consumer.poll(POLL));
                }
                consumer.close(CloseOptions.groupMembershipOperation(ending));
                tell(name, "closed", Stream.of());
            } catch (Exception thrown) {
                tell(name, "failed", Stream.of(thrown.toString().replaceAll("\\s", "_")));
            }
        }

        private void process(ConsumerRecords<byte[], byte[]> records) {
            if (!records.isEmpty()) {
                tell(name, "read", records.partitions().stream().flatMap(at -> records.records(at).stream()).map(Member::place));
                commit();
            }
        }

        private void commit() {
            try {
                consumer.commitSync();
            } catch (RebalanceInProgressException later) {
                // what stays ours is committed next time, what goes away when it is revoked
            }
        }

        private static String place(ConsumerRecord<byte[], byte[]> record) {
            return record.topic() + ":" + record.partition() + ":" + record.offset();
        }

        private void called(String what, Collection<TopicPartition> partitions) {
            tell(name, what, partitions.stream().map(each -> each.topic() + ":" + each.partition()));
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            called("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            commit();
            called("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            called("lost", partitions);
        }
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
