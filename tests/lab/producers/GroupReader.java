import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A consumer group that reads until it is ended: GroupReader BOOTSTRAP GROUP TOPIC MEMBER... */
public class GroupReader {
    public static void main(String[] args) {
        for (int i = 3; i < args.length; i++) {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", args[0]);
            settings.put("group.id", args[1]);
            settings.put("client.id", args[i]);
            settings.put("auto.offset.reset", "earliest");
            settings.put("fetch.min.bytes", "65536"); // a fetch every half second, not one per record
            KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.subscribe(List.of(args[2]));
            Thread thread = new Thread(() -> {
                while (true) {
                    consumer.poll(Duration.ofSeconds(1));
                }
            }, args[i]);
            thread.start();
        }
        System.out.println("ready");
    }
}
