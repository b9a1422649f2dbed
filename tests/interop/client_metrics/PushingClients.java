import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;

/** A producer and a consumer with default settings, which print the ids that they push under, and work until stdin ends. */
public class PushingClients {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> configs = new HashMap<>(Map.of(
            "bootstrap.servers", arguments[0], "client.id", arguments[2], "group.id", "pushing",
            "auto.offset.reset", "earliest", "linger.ms", 0));
        try (Producer<byte[], byte[]> producer =
                 new KafkaProducer<>(configs, new ByteArraySerializer(), new ByteArraySerializer());
             Consumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(configs, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(arguments[1]));
            producer.send(new ProducerRecord<>(arguments[1], new byte[100])).get();
            while (consumer.poll(Duration.ofMillis(100)).isEmpty()) { }
            System.out.println(producer.clientInstanceId(Duration.ofSeconds(20)));
            System.out.println(consumer.clientInstanceId(Duration.ofSeconds(20)));
            System.out.flush();
            while (System.in.available() == 0) {
                producer.send(new ProducerRecord<>(arguments[1], new byte[100])).get();
                consumer.poll(Duration.ofMillis(20));
            }
        }
    }
}
