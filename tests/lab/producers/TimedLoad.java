import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Constructor;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Time;

/**
 * ProducerPerformance's loop with that client's own throttler, noting System.nanoTime() of all it does.
 *
 * Arguments: SETTINGS_FILE TOPIC RECORDS RATE PAYLOAD_FILE RECORDS_FILE CLOCK_FILE [BURST_RECORDS].
 * Payloads are the file's lines in turn. With BURST_RECORDS so many are sent at once, bursts evenly apart, as PlayArrivals
 * does it.
 * RECORDS_FILE gets five big-endian longs per record: before send(), after it, in the callback, partition, offset.
 * CLOCK_FILE gets two per reading of the clock by the sender's thread: 0 for milliseconds (Sender.runOnce reads it
 * before it looks for ready nodes) or 1 for nanoseconds (Selector.poll reads it before and after select() and when it
 * is done with the sockets), and the instant.
 */
public class TimedLoad {
    private static final int CLOCK_LIMIT = 8_000_000;
    private static long[] clock = new long[CLOCK_LIMIT];
    private static byte[] clockKind = new byte[CLOCK_LIMIT];
    private static int clockCount;

    public static void main(String[] args) throws Throwable {
        Properties settings = new Properties();
        try (FileInputStream in = new FileInputStream(args[0])) {
            settings.load(in);
        }
        String topic = args[1];
        int count = Integer.parseInt(args[2]);
        int rate = Integer.parseInt(args[3]);
        byte[][] payloads = Files.readAllLines(Path.of(args[4])).stream().map(String::getBytes).toArray(byte[][]::new);
        int burst = args.length > 7 ? Integer.parseInt(args[7]) : 0;
        long[] before = new long[count];
        long[] after = new long[count];
        long[] done = new long[count];
        long[] place = new long[count];
        long[] offset = new long[count];
        KafkaProducer<byte[], byte[]> producer = create(settings);
        long startMs = System.currentTimeMillis();
        Throttle throttle = new Throttle(rate, startMs);
        long startNs = System.nanoTime();
        for (int i = 0; i < count; i++) {
            int index = i;
            if (burst > 0 && i % burst == 0) {
                long dueNs = startNs + i * 1_000_000_000L / rate;
                for (long left = dueNs - System.nanoTime(); left > 0; left = dueNs - System.nanoTime()) {
                    LockSupport.parkNanos(left);
                }
            }
            byte[] payload = payloads[i % payloads.length];
            ProducerRecord<byte[], byte[]> record =
                new ProducerRecord<>(topic, burst > 0 ? Arrays.copyOf(payload, payload.length) : payload);
            long sendStartMs = System.currentTimeMillis();
            before[i] = System.nanoTime();
            producer.send(record, (metadata, error) -> {
                done[index] = System.nanoTime();
                place[index] = error == null ? metadata.partition() : -1;
                offset[index] = error == null ? metadata.offset() : -1;
            });
            after[i] = System.nanoTime();
            if (burst == 0) {
                throttle.afterSend(i, sendStartMs);
            }
        }
        producer.close();
        write(args[5], before, after, done, place, offset);
        long[] kinds = new long[clockCount];
        for (int i = 0; i < clockCount; i++) {
            kinds[i] = clockKind[i];
        }
        write(args[6], kinds, Arrays.copyOf(clock, clockCount));
        System.out.printf("sent %d records in %d ms%n", count, System.currentTimeMillis() - startMs);
    }

    private static void write(String file, long[]... columns) throws IOException {
        try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(Path.of(file))))) {
            for (int i = 0; i < columns[0].length; i++) {
                for (long[] column : columns) {
                    out.writeLong(column[i]);
                }
            }
        }
    }

    /** The producer's constructor for tests takes a clock; which other arguments it takes depends on the version. */
    @SuppressWarnings("unchecked")
    private static KafkaProducer<byte[], byte[]> create(Properties settings) throws Exception {
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        ProducerConfig config = new ProducerConfig(settings);
        for (Constructor<?> constructor : KafkaProducer.class.getDeclaredConstructors()) {
            Class<?>[] types = constructor.getParameterTypes();
            if (types.length > 0 && types[0] == ProducerConfig.class && types[types.length - 1] == Time.class) {
                Object[] arguments = new Object[types.length];
                arguments[0] = config;
                arguments[types.length - 1] = notedClock();
                for (int i = 0; i < types.length; i++) {
                    if (types[i].getSimpleName().equals("ApiVersions")) { // since 4.0, and never null
                        arguments[i] = types[i].getConstructor().newInstance();
                    }
                }
                constructor.setAccessible(true);
                return (KafkaProducer<byte[], byte[]>) constructor.newInstance(arguments);
            }
        }
        throw new IllegalStateException("no constructor with a clock");
    }

    private static Time notedClock() {
        Time real = Time.SYSTEM;
        return (Time) Proxy.newProxyInstance(TimedLoad.class.getClassLoader(), new Class<?>[] {Time.class},
            (self, method, arguments) -> {
                byte kind = (byte) (method.getName().equals("milliseconds") ? 0 : 1);
                boolean reading = kind == 0 || method.getName().equals("nanoseconds");
                if (!reading) {
                    return method.invoke(real, arguments);
                }
                long nanos = System.nanoTime();
                if (Thread.currentThread().getName().startsWith("kafka-producer-network") && clockCount < CLOCK_LIMIT) {
                    clockKind[clockCount] = kind;
                    clock[clockCount++] = nanos;
                }
                return kind == 0 ? (Object) System.currentTimeMillis() : (Object) nanos;
            });
    }

    /** The throttler moved between packages; its two methods kept their names. */
    private static final class Throttle {
        private final MethodHandle shouldThrottle;
        private final MethodHandle throttle;

        Throttle(int rate, long startMs) throws Exception {
            Class<?> type;
            try {
                type = Class.forName("org.apache.kafka.server.util.ThroughputThrottler");
            } catch (ClassNotFoundException older) {
                type = Class.forName("org.apache.kafka.tools.ThroughputThrottler");
            }
            Constructor<?> constructor = type.getConstructors()[0];
            Object self = constructor.getParameterTypes()[0] == int.class
                ? constructor.newInstance(rate, startMs) : constructor.newInstance((long) rate, startMs);
            MethodHandles.Lookup lookup = MethodHandles.publicLookup();
            shouldThrottle = lookup.findVirtual(
                type, "shouldThrottle", MethodType.methodType(boolean.class, long.class, long.class)).bindTo(self);
            throttle = lookup.findVirtual(type, "throttle", MethodType.methodType(void.class)).bindTo(self);
        }

        void afterSend(long sent, long sendStartMs) throws Throwable {
            if ((boolean) shouldThrottle.invokeExact(sent, sendStartMs)) {
                throttle.invokeExact();
            }
        }
    }
}
