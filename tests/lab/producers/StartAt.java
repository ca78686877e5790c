import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;

/**
 * Runs another program's main at an instant: StartAt EPOCH_MS CLASS ARGUMENT...
 * The JVM is up and the class loaded before, so that the perf tool's records begin inside the first window.
 */
public class StartAt {
    public static void main(String[] args) throws Throwable {
        Class<?> program = Class.forName(args[1]);
        Class.forName("org.apache.kafka.clients.producer.KafkaProducer");
        System.out.println("ready");
        long wait = Long.parseLong(args[0]) - System.currentTimeMillis();
        if (wait > 0) {
            Thread.sleep(wait);
        }
        Object rest = Arrays.copyOfRange(args, 2, args.length);
        try {
            program.getMethod("main", String[].class).invoke(null, rest);
        } catch (InvocationTargetException failed) {
            throw failed.getCause();
        }
    }
}
