// Works on ConfigMaps with fabric8's client, as it is by default, and prints what it sees.
//
// Three runs, by the first argument:
//
//     watch  KUBECONFIG NAMESPACE UNTIL    lists, then watches until it is told of the object UNTIL
//     inform KUBECONFIG NAMESPACE UNTIL    the same with an informer
//     lead   KUBECONFIG NAMESPACE NAME     stands for election until its standard input ends
//
// The first two print one line for each thing that happens, in the order in which it happens:
//
//     SYNCED                          the first state is complete
//     ADDED|MODIFIED|DELETED NAME RV  an object, as the list or the watch told of it
//     LOST WHY                        the watch has ended and does not go on by itself
//     STORE NAME RV                   an object that is there at the end, by what was told
//
// The third prints STANDING when it has begun, LEADING when it leads and STOPPED when it does so no more.

import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapList;
import io.fabric8.kubernetes.api.model.ListOptionsBuilder;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.Watch;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import io.fabric8.kubernetes.client.extended.leaderelection.LeaderCallbacks;
import io.fabric8.kubernetes.client.extended.leaderelection.LeaderElectionConfigBuilder;
import io.fabric8.kubernetes.client.extended.leaderelection.LeaderElector;
import io.fabric8.kubernetes.client.extended.leaderelection.resourcelock.LeaseLock;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import java.io.File;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

public final class Driver {
    private static final int PATIENCE_SECONDS = 180;

    public static void main(String[] args) throws Exception {
        try (KubernetesClient client =
                new KubernetesClientBuilder().withConfig(Config.fromKubeconfig(new File(args[1]))).build()) {
            if (args[0].equals("watch")) {
                watch(client, args[2], args[3]);
            } else if (args[0].equals("inform")) {
                inform(client, args[2], args[3]);
            } else {
                lead(client, args[2], args[3]);
            }
        }
        System.exit(0);
    }

    private static synchronized void say(String... words) {
        System.out.println(String.join(" ", words));
        System.out.flush();
    }

    private static String name(ConfigMap object) {
        return object.getMetadata().getName();
    }

    private static String revision(ConfigMap object) {
        return object.getMetadata().getResourceVersion();
    }

    private static void await(CountDownLatch done, String until) throws InterruptedException {
        if (!done.await(PATIENCE_SECONDS, TimeUnit.SECONDS)) {
            throw new IllegalStateException("not told of " + until);
        }
    }

    private static void watch(KubernetesClient client, String namespace, String until) throws Exception {
        ConfigMapList list = client.configMaps().inNamespace(namespace).list();
        Map<String, String> there = new TreeMap<>();
        for (ConfigMap item : list.getItems()) {
            there.put(name(item), revision(item));
            say("ADDED", name(item), revision(item));
        }
        CountDownLatch done = new CountDownLatch(1);
        Watcher<ConfigMap> watcher = new Watcher<>() {
            @Override
            public void eventReceived(Action action, ConfigMap object) {
                if (action == Action.BOOKMARK) {
                    return;
                }
                say(action.name(), name(object), revision(object));
                if (action == Action.DELETED) {
                    there.remove(name(object));
                } else {
                    there.put(name(object), revision(object));
                }
                if (name(object).equals(until)) {
                    done.countDown();
                }
            }

            @Override
            public void onClose(WatcherException why) {
                say("LOST", String.valueOf(why.getMessage()));
            }
        };
        var options = new ListOptionsBuilder().withResourceVersion(list.getMetadata().getResourceVersion()).build();
        try (Watch watch = client.configMaps().inNamespace(namespace).watch(options, watcher)) {
            say("SYNCED");
            await(done, until);
        }
        there.forEach((name, revision) -> say("STORE", name, revision));
    }

    private static void inform(KubernetesClient client, String namespace, String until) throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        AtomicInteger told = new AtomicInteger();
        SharedIndexInformer<ConfigMap> informer = client.configMaps().inNamespace(namespace).runnableInformer(0);
        informer.addEventHandler(new ResourceEventHandler<>() {
            @Override
            public void onAdd(ConfigMap object) {
                say("ADDED", name(object), revision(object));
                told.incrementAndGet();
                if (name(object).equals(until)) {
                    done.countDown();
                }
            }

            @Override
            public void onUpdate(ConfigMap before, ConfigMap object) {
                say("MODIFIED", name(object), revision(object));
            }

            @Override
            public void onDelete(ConfigMap object, boolean isFromList) {
                say(isFromList ? "LOST" : "DELETED", name(object), revision(object));
            }
        });
        informer.start().toCompletableFuture().get(PATIENCE_SECONDS, TimeUnit.SECONDS);
        // Handlers are told on a thread of their own.
        while (told.get() < informer.getStore().list().size()) {
            Thread.sleep(10);
        }
        say("SYNCED");
        await(done, until);
        Map<String, String> there = new TreeMap<>();
        informer.getStore().list().forEach(object -> there.put(name(object), revision(object)));
        there.forEach((name, revision) -> say("STORE", name, revision));
        informer.close();
    }

    private static void lead(KubernetesClient client, String namespace, String name) throws Exception {
        String identity = "candidate-" + ProcessHandle.current().pid();
        LeaderCallbacks callbacks =
            new LeaderCallbacks(() -> say("LEADING", identity), () -> say("STOPPED", identity), leader -> {});
        LeaderElector elector = client.leaderElector()
            .withConfig(new LeaderElectionConfigBuilder()
                .withName(name)
                .withLock(new LeaseLock(namespace, name, identity))
                .withLeaseDuration(Duration.ofSeconds(15))
                .withRenewDeadline(Duration.ofSeconds(10))
                .withRetryPeriod(Duration.ofMillis(500))
                .withReleaseOnCancel(true)
                .withLeaderCallbacks(callbacks)
                .build())
            .build();
        CompletableFuture<?> standing = elector.start();
        say("STANDING", identity);
        while (System.in.read() != -1) {}
        standing.cancel(true);
        elector.release();
    }
}
