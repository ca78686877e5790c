import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends keyed records at once that are stamped as if each had come in its slot of some time:
 * StampedLoad BOOTSTRAP TOPIC FROM_EPOCH_MS SPAN_MS COUNT HEAVY_KEY,HEAVY_KEY [SETTING=VALUE...].
 *
 * Of 20 records 6 have the first heavy key, 3 the other, 11 one of 997; values are 20 to 379 bytes. The last line printed
 * is "sent acked=N failed=N".
 */
public class StampedLoad {
    private static final int KEYS = 997;

    public static void main(String[] args) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        for (int i = 6; i < args.length; i++) {
            String[] sides = args[i].split("=", 2);
            settings.put(sides[0], sides[1]);
        }
        long fromMs = Long.parseLong(args[2]);
        long spanMs = Long.parseLong(args[3]);
        int count = Integer.parseInt(args[4]);
        AtomicLong acked = new AtomicLong();
        AtomicLong failed = new AtomicLong();
        String[] heavy = args[5].split(",");
        Random random = new Random(7);
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = 0; i < count; i++) {
                String name = i % 20 < 6 ? heavy[0] : i % 20 < 9 ? heavy[1] : "key-" + i % KEYS;
                byte[] key = name.getBytes(StandardCharsets.US_ASCII);
                byte[] value = new byte[20 + random.nextInt(360)];
                long atMs = fromMs + (long) ((i + random.nextDouble()) * spanMs / count);
                producer.send(new ProducerRecord<>(args[1], null, atMs, key, value),
                    (metadata, error) -> (error == null ? acked : failed).incrementAndGet());
            }
        }
        System.out.printf("sent acked=%d failed=%d%n", acked.get(), failed.get());
    }
}
