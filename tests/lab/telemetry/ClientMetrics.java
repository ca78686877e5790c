import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

/**
 * A broker's reporter that keeps what clients push (KIP-714): a file each, named by the instant, with one line (instance id,
 * client id, software name and version, tab-separated) before the OTLP message. Its folder is `lab.telemetry.folder`.
 */
public final class ClientMetrics implements MetricsReporter, ClientTelemetry, ClientTelemetryReceiver {
    private final AtomicLong count = new AtomicLong();
    private Path folder;

    @Override
    public void configure(Map<String, ?> configs) {
        folder = Path.of((String) configs.get("lab.telemetry.folder"));
    }

    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return this;
    }

    @Override
    public void exportMetrics(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        var client = ((RequestContext) context).clientInformation;
        String[] told = {payload.clientInstanceId().toString(), context.clientId(), client.softwareName(), client.softwareVersion()};
        byte[] head = (String.join("\t", told) + "\n").getBytes(StandardCharsets.UTF_8);
        ByteBuffer message = payload.data().duplicate();
        byte[] bytes = new byte[head.length + message.remaining()];
        System.arraycopy(head, 0, bytes, 0, head.length);
        message.get(bytes, head.length, message.remaining());
        String name = System.currentTimeMillis() + "-" + count.incrementAndGet();
        try {
            Path partial = Files.write(folder.resolve(name + ".partial"), bytes);
            Files.move(partial, folder.resolve(name + ".otlp"));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public void init(List<KafkaMetric> metrics) {}

    @Override
    public void metricChange(KafkaMetric metric) {}

    @Override
    public void metricRemoval(KafkaMetric metric) {}

    @Override
    public void close() {}
}
