import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.MessageOrBuilder;
import com.google.protobuf.util.JsonFormat;
import io.opensergo.ConfigKind;
import io.opensergo.OpenSergoClient;
import io.opensergo.OpenSergoSubscribeClientObserver;
import io.opensergo.proto.router.v1.ClusterFallbackConfig_ClusterConfig;
import io.opensergo.subscribe.OpenSergoConfigSubscriber;
import io.opensergo.subscribe.SubscribeKey;
import io.opensergo.subscribe.SubscribedData;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BooleanSupplier;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogManager;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/**
 * Subscribes rules with the OpenSergo SDK for Java and prints what the SDK tells it.
 *
 * <p>{@code Driver HOST PORT} takes the commands of the driver in Go from standard input and prints the same lines. One
 * command does more: {@code start} makes a new client in place of the one before and subscribes again what was
 * subscribed, because a stream of this SDK ends ten seconds after it began and the SDK never opens another.
 */
public final class Driver {
    private static final JsonFormat.Printer RULES = JsonFormat.printer()
            .omittingInsignificantWhitespace()
            .usingTypeRegistry(JsonFormat.TypeRegistry.newBuilder()
                    .add(ClusterFallbackConfig_ClusterConfig.getDescriptor())
                    .build());

    private static final Duration PATIENCE = Duration.ofSeconds(5);

    private final String host;
    private final int port;
    private final Set<SubscribeKey> subscribed = new LinkedHashSet<>();
    private final Set<SubscribeKey> refused = ConcurrentHashMap.newKeySet();
    private OpenSergoClient client;

    private Driver(String host, int port) {
        this.host = host;
        this.port = port;
    }

    public static void main(String[] arguments) throws Exception {
        hearComplaints();
        Driver driver = new Driver(arguments[0], Integer.parseInt(arguments[1]));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = lines.readLine()) != null && !line.equals("close")) {
            driver.obey(line.split(" "));
        }
        driver.leave();
        System.exit(0);
    }

    private void obey(String[] words) throws Exception {
        if (words[0].equals("start")) {
            start();
            return;
        }
        SubscribeKey key = new SubscribeKey(words[1], words[2], kindNamed(words[3]));
        JsonObject line = about(words[0], key);
        switch (words[0]) {
            case "subscribe":
                subscribed.add(key);
                if (client != null) {
                    subscribe(key);
                }
                break;
            case "unsubscribe":
                subscribed.remove(key);
                letItAnswer();
                line.addProperty("ok", client.unsubscribeConfig(key));
                break;
            case "refuse":
                refused.add(key);
                break;
            case "cached":
                describe(line, client.getConfigCache().getDataFor(key));
                break;
            default:
                throw new IllegalArgumentException("no such command: " + String.join(" ", words));
        }
        print(line);
    }

    private void start() throws Exception {
        leave();
        client = new OpenSergoClient.Builder().endpoint(host, port).build();
        client.start();
        for (SubscribeKey key : subscribed) {
            subscribe(key);
        }
        JsonObject line = new JsonObject();
        line.addProperty("event", "start");
        line.addProperty("ok", true);
        print(line);
    }

    private void leave() throws Exception {
        if (client != null) {
            client.close();
        }
    }

    /**
     * Subscribes, and waits for the answer. It tells of that itself when it was too quick: the SDK registers the
     * subscriber after it has asked, and what comes before is only in its cache.
     */
    private void subscribe(SubscribeKey key) throws InterruptedException {
        Told told = new Told(client);
        SubscribedData before = client.getConfigCache().getDataFor(key);
        letItAnswer();
        client.subscribeConfig(key, told);
        await(() -> client.getConfigCache().getDataFor(key) != before);
        letItAnswer();
        if (client.getConfigCache().getDataFor(key) != before && !told.something) {
            told.tell(key);
        }
    }

    /**
     * Waits until the SDK has acknowledged what it got. It does so in a thread of its own without a lock, and two that
     * write at once break the stream, so that nothing may be asked meanwhile.
     */
    private static void letItAnswer() throws InterruptedException {
        String observer = OpenSergoSubscribeClientObserver.class.getName();
        await(() -> Thread.getAllStackTraces().values().stream()
                .flatMap(Arrays::stream)
                .noneMatch(frame -> frame.getClassName().equals(observer)));
    }

    /** Waits until something is so, but not for ever: whoever reads the output notices what is missing. */
    private static void await(BooleanSupplier state) throws InterruptedException {
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (!state.getAsBoolean() && System.nanoTime() < end) {
            Thread.sleep(1);
        }
    }

    private static ConfigKind kindNamed(String simple) {
        return Arrays.stream(ConfigKind.values())
                .filter(kind -> kind.getSimpleKindName().equals(simple))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("no kind " + simple));
    }

    /** Begins a line about a subscription. */
    private static JsonObject about(String event, SubscribeKey key) {
        JsonObject line = new JsonObject();
        line.addProperty("event", event);
        line.addProperty("namespace", key.getNamespace());
        line.addProperty("app", key.getApp());
        line.addProperty("kind", key.getKind().getSimpleKindName());
        return line;
    }

    /** Adds the rules to a line, and the version that the SDK holds them at. */
    private static void describe(JsonObject line, SubscribedData held) {
        if (held == null) {
            return;
        }
        JsonArray rules = new JsonArray();
        for (Object rule : (List<?>) held.getData()) {
            try {
                rules.add(JsonParser.parseString(RULES.print((MessageOrBuilder) rule)));
            } catch (InvalidProtocolBufferException unknown) {
                throw new IllegalStateException("a rule holds what has no JSON form", unknown);
            }
        }
        line.add("rules", rules);
        line.addProperty("version", held.getVersion());
    }

    private static synchronized void print(JsonObject line) {
        System.out.println(line);
    }

    /** A subscriber that prints what it is told. */
    private final class Told implements OpenSergoConfigSubscriber {
        private final OpenSergoClient from;
        private volatile boolean something;

        Told(OpenSergoClient from) {
            this.from = from;
        }

        void tell(SubscribeKey key) {
            something = true;
            JsonObject line = about("data", key);
            describe(line, from.getConfigCache().getDataFor(key));
            print(line);
        }

        @Override
        public boolean onConfigUpdate(SubscribeKey key, Object data) {
            tell(key);
            if (refused.contains(key)) {
                throw new IllegalStateException("refused as told");
            }
            return true;
        }
    }

    private static void hearComplaints() {
        LogManager.getLogManager().reset();
        Logger.getLogger("").addHandler(new Handler() {
            @Override
            public void publish(LogRecord record) {
                if (record.getLevel().intValue() < Level.WARNING.intValue()) {
                    return;
                }
                Throwable thrown = record.getThrown();
                JsonObject line = new JsonObject();
                line.addProperty("event", "trouble");
                line.addProperty("message", record.getMessage() + (thrown == null ? "" : ": " + thrown));
                print(line);
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        });
    }
}
