package dev.nodelease;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import jdk.crac.Core;
import jdk.crac.Resource;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What the conformance suite cannot reach: checkpoints, the VMClock device, bad addresses. */
class IdGeneratorTest {
    /** A sidecar that gives blocks of ten tickets. */
    private static HttpServer sidecar() throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        long[] first = {1 << 20};
        server.createContext("/v1/blocks", exchange -> {
            String nonce = exchange.getRequestURI().getQuery().replaceAll(".*nonce=([0-9a-f]+).*", "$1");
            byte[] body = ("{\"nonce\":\"" + nonce + "\",\"pool\":\"p\",\"node_id\":3,\"node_bits\":10,\"first\":\"" + first[0] + "\",\"count\":10,\"left_ms\":500,"
                    + "\"layout\":{\"epoch_ms\":1735689600000,\"tick_ms\":1,\"time_bits\":41,\"node_bits\":10,\"sequence_bits\":12,\"node_last\":false}}").getBytes();
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
