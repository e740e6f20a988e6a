package dev.nodelease;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Provider;
import java.security.Security;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import jdk.crac.Core;
import jdk.crac.Resource;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What the conformance suite cannot reach: checkpoints, the VMClock device, bad addresses. */
class IdGeneratorTest {
    static {
        System.setProperty("sun.net.httpserver.nodelay", "true"); // otherwise each answer waits for an acknowledgement
    }

    /** A sidecar that gives blocks of ten tickets. */
    private static HttpServer sidecar() throws Exception {
        return sidecar("p");
    }

    private static HttpServer sidecar(String pool) throws Exception {
        return sidecar(pool, "");
    }

    private static HttpServer sidecar(String pool, String more) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        long[] first = {1 << 20};
        server.createContext("/v1/blocks", exchange -> {
            String nonce = exchange.getRequestURI().getQuery().replaceAll(".*nonce=([0-9a-f]+).*", "$1");
            byte[] body = ("{\"nonce\":\"" + nonce + "\",\"pool\":\"" + pool + "\",\"node_id\":3,\"node_bits\":10,\"first\":\"" + first[0] + "\",\"count\":10,\"left_ms\":500," + more
                    + "\"layout\":{\"epoch_ms\":1735689600000,\"tick_ms\":1,\"time_bits\":41,\"node_bits\":10,\"sequence_bits\":12," + more + "\"node_last\":false}" + (more.isEmpty() ? "" : "," + more + "\"last\":{\"sequence_bits\":4}") + "}").getBytes();
            first[0] += 10;
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
        return server;
    }

    /** The JDK's loader finds what any of its modules has, those of the program's loader included: jdk.compiler is one. */
    @Test
    void theLoaderOfTheJDK() throws Exception {
        assertNotNull(Class.forName("com.sun.tools.javac.Main", false, Checkpoints.jdk));
        assertThrows(ClassNotFoundException.class, () -> Class.forName("jdk.crac.Resource", false, Checkpoints.jdk), "this JDK has CRaC: test with it");
    }

    @Test
    void aCheckpointHasNoBlock() throws Exception {
        HttpServer server = sidecar();
        Core.REGISTERED.clear();
        ClassLoader jdk = Checkpoints.jdk;
        Checkpoints.jdk = Core.class.getClassLoader(); // the stand-in is no part of the JDK
        try (IdGenerator ids = new IdGenerator("http://127.0.0.1:" + server.getAddress().getPort(), Duration.ofMinutes(1), new Adapter.Manual())) {
            long id = ids.next();
            assertEquals(id + 1, ids.next());
            System.gc(); // the JDK holds what is registered weakly
            Resource resource = Core.REGISTERED.get(0).get();
            assertNotNull(resource);
            resource.beforeCheckpoint(null);
            CompletableFuture<Long> waiting = CompletableFuture.supplyAsync(ids::next);
            resource.afterRestore(null);
            assertEquals(3, Layout.DEFAULT.decompose(waiting.get()).node());
            assertEquals(id + 10, waiting.get(), "an ID of a block of before the checkpoint");
            assertEquals(2, ids.requests());
        } finally {
            Checkpoints.jdk = jdk;
            server.stop(0);
        }
    }

    @Test
    void addresses() {
        for (String bad : new String[] {"unix:", "https://127.0.0.1", "127.0.0.1:7373", "http://127.0.0.1/path"}) {
            assertThrows(IllegalArgumentException.class, () -> new IdGenerator(bad, Duration.ofSeconds(1)), bad);
        }
    }

    @Test
    void noSidecar(@TempDir Path dir) {
        try (IdGenerator ids = new IdGenerator("unix:" + dir.resolve("none"), Duration.ofMillis(50))) {
            assertInstanceOf(NodeleaseException.SidecarUnavailable.class, assertThrows(NodeleaseException.class, ids::next));
        }
    }

    /** While the name of its host has no address, a sidecar is unavailable like one that does not answer. */
    @Test
    void aHostWithoutAnAddress() {
        String host = "x".repeat(64); // too long for a label, so that no name server is asked
        try (IdGenerator ids = new IdGenerator("http://" + host + ":7373", Duration.ofSeconds(1))) {
            NodeleaseException e = assertThrows(NodeleaseException.class, ids::next);
            assertInstanceOf(NodeleaseException.SidecarUnavailable.class, e);
            assertTrue(ids.failures() > 1, "the call was not sent again");
        }
    }

    /** A program ends although the JDK's random numbers are not there yet, as while they wait for a device. */
    @Test
    void noThreadKeepsTheProgramFromEnding(@TempDir Path dir) throws Exception {
        CompletableFuture<Thread> loads = new CompletableFuture<>();
        CompletableFuture<Object> random = new CompletableFuture<>();
        Provider slow = new Provider("slow", "1", "") {
            { putService(new Service(this, "SecureRandom", "slow", "none", null, null) {
                @Override public Object newInstance(Object parameter) {
                    loads.complete(Thread.currentThread());
                    return random.join();
                }
            }); }
        };
        Security.insertProviderAt(slow, 1);
        try (IdGenerator ids = new IdGenerator("unix:" + dir.resolve("none"), Duration.ofMillis(50))) {
            Thread load = loads.get(1, TimeUnit.MINUTES);
            assertTrue(load.isDaemon(), () -> ids + " loads its random numbers on " + load + ", which is no daemon");
        } finally {
            Security.removeProvider("slow");
            random.completeExceptionally(new IllegalStateException("the test has ended"));
        }
    }

    /** A request that waits for its answer has not failed: the metric would go back with the answer. */
    @Test
    void aRequestInFlightHasNotFailed() throws Exception {
        HttpServer server = sidecar();
        server.removeContext("/v1/blocks");
        CompletableFuture<Void> asked = new CompletableFuture<>();
        CompletableFuture<Void> answer = new CompletableFuture<>();
        server.createContext("/v1/blocks", exchange -> {
            asked.complete(null);
            answer.join();
            exchange.sendResponseHeaders(503, -1);
            exchange.close();
        });
        try (IdGenerator ids = new IdGenerator("http://127.0.0.1:" + server.getAddress().getPort(), Duration.ofMinutes(1))) {
            CompletableFuture<Long> call = CompletableFuture.supplyAsync(ids::next);
            asked.join();
            long inFlight = ids.failures();
            answer.complete(null);
            assertEquals(0, inFlight);
            assertThrows(ExecutionException.class, call::get);
            assertEquals(1, ids.failures());
        } finally {
            server.stop(0);
        }
    }

    @Test
    void aTimeoutWithoutEnd() throws Exception {
        HttpServer server = sidecar();
        for (Duration timeout : new Duration[] {ChronoUnit.FOREVER.getDuration(), Duration.ofDays(365_000), Duration.ofDays(365 * 250)}) {
            try (IdGenerator ids = new IdGenerator("http://127.0.0.1:" + server.getAddress().getPort(), timeout)) {
                assertEquals(25, LongStream.of(ids.batch(25)).distinct().count());
            }
        }
        server.stop(0);
    }

    @Test
    void callsTakeTurns() throws Exception {
        HttpServer server = sidecar();
        try (IdGenerator ids = new IdGenerator("http://127.0.0.1:" + server.getAddress().getPort(), Duration.ofMinutes(1), new Adapter.Manual())) {
            List<CompletableFuture<long[]>> large = new ArrayList<>();
            for (int i = 0; i < 2; i++) {
                CompletableFuture<long[]> made = new CompletableFuture<>();
                new Thread(() -> made.complete(ids.batch(600))).start();
                large.add(made);
            }
            while (ids.requests() == 0) {
                Thread.sleep(1);
            }
            LongStream all = LongStream.of(LongStream.generate(ids::next).limit(10).toArray());
            for (CompletableFuture<long[]> made : large) {
                assertTrue(!made.isDone(), "next waited for a large batch");
            }
            for (CompletableFuture<long[]> made : large) {
                assertTrue(LongStream.of(made.get()).boxed().toList().equals(LongStream.of(made.get()).sorted().boxed().toList()), "IDs do not grow");
                all = LongStream.concat(all, LongStream.of(made.get()));
            }
            assertEquals(1210, all.distinct().count());
        } finally {
            server.stop(0);
        }
    }

    /** A batch whose blocks are fetched before and after a checkpoint returns none of before: the checkpoint's other copy has those. */
    @Test
    void aCheckpointWithinABatch() throws Exception {
        HttpServer server = sidecar();
        try (IdGenerator ids = new IdGenerator("http://127.0.0.1:" + server.getAddress().getPort(), Duration.ofMinutes(1), new Adapter.Manual())) {
            CompletableFuture<long[]> made = new CompletableFuture<>();
            new Thread(() -> made.complete(ids.batch(600))).start();
            while (ids.requests() == 0) {
                Thread.sleep(1);
            }
            ids.beforeCheckpoint();
            long before = ids.requests();
            assertTrue(before < 60, "the checkpoint waited for a large batch");
            ids.afterRestore();
            assertEquals((1 << 20) + 10 * before, Layout.DEFAULT.decompose(made.get()[0]).sequence() + 4096 * (made.get()[0] >>> 22), "an ID of before the checkpoint");
            assertEquals(before + 60, ids.requests());
        } finally {
            server.stop(0);
        }
    }

    @Test
    void anErrorOfAnotherServer() throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", exchange -> {
            byte[] body = "<html>Bad Gateway</html>".getBytes();
            exchange.sendResponseHeaders(502, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
        try (IdGenerator ids = new IdGenerator("http://127.0.0.1:" + server.getAddress().getPort(), Duration.ofMinutes(1))) {
            String message = assertThrows(NodeleaseException.class, ids::next).getMessage();
            assertTrue(message.contains("not the sidecar's (502"), message);
        } finally {
            server.stop(0);
        }
    }

    /** The VMClock device is a page of memory: a magic number, a version, flags, and the generation's counter. */
    private static void device(Path path, int magic, int flags, long generation) throws Exception {
        ByteBuffer page = ByteBuffer.allocate(4096).order(ByteOrder.LITTLE_ENDIAN);
        Files.write(path, page.putInt(0, magic).putShort(8, (short) 1).putLong(24, flags).putLong(104, generation).array());
    }

    @Test
    void aRestoredMachineHasNoBlock(@TempDir Path dir) throws Exception {
        HttpServer server = sidecar();
        Path path = dir.resolve("vmclock0");
        device(path, 0x4b4c4356, 1 << 8, 7);
        try (IdGenerator ids = new IdGenerator("http://127.0.0.1:" + server.getAddress().getPort(), Duration.ofMinutes(1), new Adapter.Manual(path))) {
            long id = ids.next();
            assertEquals(id + 1, ids.next());
            device(path, 0x4b4c4356, 1 << 8, 8);
            assertEquals(id + 10, ids.next(), "an ID of a block of before the restore");
            assertEquals(2, ids.requests());
            assertEquals(3, ids.issued());
        } finally {
            server.stop(0);
        }
    }

    /** CRaC refuses a checkpoint while a file is open, and may restore it on a machine without the device. */
    @Test
    void aCheckpointHasNoOpenDevice(@TempDir Path dir) throws Exception {
        Path path = dir.resolve("vmclock0");
        device(path, 0x4b4c4356, 1 << 8, 7);
        HttpServer server = sidecar();
        try (IdGenerator ids = new IdGenerator("http://127.0.0.1:" + server.getAddress().getPort(), Duration.ofMinutes(1), new Adapter.Manual(path))) {
            long id = ids.next();
            assertTrue(isOpen(path));
            ids.beforeCheckpoint();
            assertTrue(!isOpen(path), "the checkpoint would fail");
            ids.afterRestore();
            assertEquals(id + 10, ids.next());
            assertTrue(isOpen(path));
            device(path, 0x4b4c4356, 1 << 8, 8);
            assertEquals(id + 20, ids.next(), "an ID of a block of before the restore of the machine");
            ids.beforeCheckpoint();
            Files.delete(path);
            ids.afterRestore();
            assertEquals(id + 30, ids.next());
        } finally {
            server.stop(0);
        }
    }

    /** Whether this process has a file open, as Linux says. */
    private static boolean isOpen(Path path) throws Exception {
        try (Stream<Path> all = Files.list(Path.of("/proc/self/fd"))) {
            return all.anyMatch(fd -> {
                try {
                    return Files.readSymbolicLink(fd).equals(path.toRealPath());
                } catch (IOException e) {
                    return false; // closed meanwhile
                }
            });
        }
    }

    /** An interrupted thread closes the channel that it reads from. */
    @Test
    void anInterruptLeavesTheVMClock(@TempDir Path dir) throws Exception {
        HttpServer server = sidecar();
        Path path = dir.resolve("vmclock0");
        device(path, 0x4b4c4356, 1 << 8, 7);
        try (IdGenerator ids = new IdGenerator("http://127.0.0.1:" + server.getAddress().getPort(), Duration.ofMinutes(1), new Adapter.Manual(path))) {
            long id = ids.next();
            Thread.currentThread().interrupt();
            assertEquals(id + 1, ids.next());
            assertTrue(Thread.interrupted(), "the interrupt was forgotten");
            assertEquals(id + 2, ids.next());
            device(path, 0x4b4c4356, 1 << 8, 8);
            assertEquals(id + 10, ids.next(), "an ID of a block of before the restore");
        } finally {
            server.stop(0);
        }
    }

    @Test
    void aPoolNamedLikeAField() throws Exception {
        for (String pool : new String[] {"layout", "nonce", "node_id", "null"}) {
            HttpServer server = sidecar(pool);
            try (IdGenerator ids = new IdGenerator("http://127.0.0.1:" + server.getAddress().getPort(), Duration.ofMinutes(1))) {
                assertEquals(3, Layout.DEFAULT.decompose(ids.next()).node(), pool);
            } finally {
                server.stop(0);
            }
        }
    }

    /** The contract of the sidecar: any release may add fields to JSON objects. */
    @Test
    void aLaterReleaseAddsFields() throws Exception {
        HttpServer server = sidecar("p", "\"newer\":1,\"from\":{\"node_id\":7,\"node_bits\":4,\"list\":[{\"first\":\"1\"}]},");
        try (IdGenerator ids = new IdGenerator("http://127.0.0.1:" + server.getAddress().getPort(), Duration.ofMinutes(1))) {
            assertEquals(3, Layout.DEFAULT.decompose(ids.next()).node());
            assertEquals(Layout.DEFAULT, ids.layout());
        } finally {
            server.stop(0);
        }
    }

    @Test
    void noVMClock(@TempDir Path dir) throws Exception {
        Path path = dir.resolve("vmclock0");
        assertEquals(0, new Clocks(path.toString()).generation(), "there is none");
        device(path, 1, 1 << 8, 7);
        assertEquals(0, new Clocks(path.toString()).generation(), "another device");
        device(path, 0x4b4c4356, 0, 7);
        assertEquals(0, new Clocks(path.toString()).generation(), "it has no counter");
        device(path, 0x4b4c4356, 1 << 8, 7);
        assertEquals(7, new Clocks(path.toString()).generation());
    }
}
