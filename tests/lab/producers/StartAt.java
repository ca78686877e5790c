import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;

/**
 * Runs another program's main at an instant: StartAt EPOCH_MS CLASS [WARM_UP... -- ...] ARGUMENT...
 * With "-" for the instant it is read from standard input after "ready" is printed.
 *
 * The JVM is up and the class loaded before, so that the perf tool's records begin inside the first window. The program
 * runs with each list of arguments that ends in "--" first, its output dropped: then its code is compiled, as of a
 * producer that has run for days.
 */
public class StartAt {
    public static void main(String[] args) throws Throwable {
        Class<?> program = Class.forName(args[1]);
        Class.forName("org.apache.kafka.clients.producer.KafkaProducer");
        PrintStream out = System.out;
        int from = 2;
        for (int to = from; to < args.length; to++) {
            if (args[to].equals("--")) {
                System.setOut(new PrintStream(OutputStream.nullOutputStream()));
                run(program, Arrays.copyOfRange(args, from, to));
                System.setOut(out);
                from = to + 1;
            }
        }
        System.out.println("ready");
        String start = args[0].equals("-") ? new BufferedReader(new InputStreamReader(System.in)).readLine() : args[0];
        long wait = Long.parseLong(start) - System.currentTimeMillis();
        if (wait < 0) {
            System.out.println("late by " + -wait + " ms");
        } else {
            Thread.sleep(wait);
        }
        run(program, Arrays.copyOfRange(args, from, args.length));
    }

    private static void run(Class<?> program, String[] args) throws Throwable {
        try {
            program.getMethod("main", String[].class).invoke(null, (Object) args);
        } catch (InvocationTargetException failed) {
            throw failed.getCause();
        }
    }
}
