package dev.nodelease;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.stream.LongStream;

/** The adapter of the conformance suite: clients/conformance/doc.go. */
public final class Adapter {
    private Adapter() {}

    private static IdGenerator ids;

    /** Clocks that stand still but for the suite's steps. */
    static final class Manual extends Clocks {
        long boot = 1_000_000_000_000L;
        long mono = 1_000_000_000_000L;
        long wall = 1_000_000_000_000_000_000L;

        Manual() {}

        Manual(Path vmClock) {
            super(vmClock.toString());
        }

        @Override
        long boot() {
            return boot;
        }

        @Override
        long mono() {
            return mono;
        }

        @Override
        long wall() {
            return wall;
        }
    }

    private static final Manual CLOCKS = new Manual();

    /** Threads of the platform; with the argument "virtual", of a newer JDK, virtual ones. */
    private static ExecutorService threads(int n) throws ReflectiveOperationException {
        return virtual ? (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null) : Executors.newFixedThreadPool(n);
    }

    private static boolean virtual;
    private static final List<Future<Long>> BEGUN = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        virtual = Arrays.asList(args).contains("virtual");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String out;
            try {
                Map<String, String> command = Sidecar.fields(line);
                if (line.contains("\"layout\":{")) {
                    command.putAll(Sidecar.fields(line.substring(line.indexOf("\"layout\":{"))));
                }
                out = answer(command);
            } catch (NodeleaseException e) {
                String word = e instanceof NodeleaseException.SidecarUnavailable ? "unavailable"
                        : e instanceof NodeleaseException.Fenced ? "fenced"
                        : e instanceof NodeleaseException.Exhausted ? "exhausted"
                        : e instanceof NodeleaseException.ClockBehind ? "clock" : "other";
                out = "{\"error\":\"" + word + "\",\"detail\":\"" + e.getMessage().replaceAll("[\"\\\\\\p{Cntrl}]", "'") + "\"}";
            }
            System.out.println(out);
            System.out.flush();
        }
    }

    private static String answer(Map<String, String> c) throws Exception {
        switch (c.get("op")) {
            case "new":
                ids = new IdGenerator(c.get("sidecar"), Duration.ofMinutes(1), CLOCKS);
                return "{}";
            case "timeout":
                ids.setTimeout(Duration.ofMillis(Long.parseLong(c.get("ms"))));
                return "{}";
            case "next":
                return list(LongStream.of(ids.next()));
            case "batch":
                return list(Arrays.stream(ids.batch(Integer.parseInt(c.get("n")))));
            case "threads":
                int threads = Integer.parseInt(c.get("threads"));
                int n = Integer.parseInt(c.get("n"));
                ExecutorService pool = threads(threads);
                List<Callable<long[]>> work = new ArrayList<>();
                for (int i = 0; i < threads; i++) {
                    work.add(() -> LongStream.generate(ids::next).limit(n).toArray());
                }
                LongStream all = LongStream.empty();
                List<Future<long[]>> made = pool.invokeAll(work);
                pool.shutdown();
                try {
                    for (Future<long[]> f : made) {
                        all = LongStream.concat(all, Arrays.stream(f.get()));
                    }
                } catch (ExecutionException e) {
                    throw e.getCause() instanceof NodeleaseException known ? known : e;
                }
                return list(all);
            case "beside":
                long before = ids.requests();
                ExecutorService two = threads(2);
                Future<long[]> batch = two.submit(() -> ids.batch(Integer.parseInt(c.get("n"))));
                while (ids.requests() == before) {
                    Thread.sleep(1);
                }
                long id = two.submit(() -> ids.next()).get();
                int count = batch.isDone() ? 0 : 1;
                two.shutdown();
                return list(LongStream.concat(LongStream.of(id), Arrays.stream(batch.get()))).replace("{", "{\"count\":" + count + ",");
            case "begin":
                // Behind those that wait for the sidecar one more thread runs: with the only carrier
                // pinned it would have to wait until they give up.
                ExecutorService starter = threads(64);
                for (int i = 0; i < 64; i++) {
                    BEGUN.add(starter.submit(ids::next));
                }
                starter.submit(() -> {}).get();
                starter.shutdown();
                return "{\"count\":" + BEGUN.stream().filter(Future::isDone).count() + "}";
            case "end":
                LongStream.Builder ended = LongStream.builder();
                for (Future<Long> f : BEGUN) {
                    ended.add(f.get());
                }
                return list(ended.build());
            case "step":
                long ns = Long.parseLong(c.get("ms")) * 1_000_000;
                switch (c.get("clock")) {
                    case "boot" -> CLOCKS.boot += ns;
                    case "mono" -> CLOCKS.mono += ns;
                    default -> CLOCKS.wall += ns;
                }
                return "{}";
            case "requests":
                return "{\"count\":" + ids.requests() + "}";
            case "decode":
                Layout l = new Layout(Long.parseLong(c.get("epoch_ms")), Integer.parseInt(c.get("tick_ms")), Integer.parseInt(c.get("time_bits")),
                        Integer.parseInt(c.get("node_bits")), Integer.parseInt(c.get("sequence_bits")), Boolean.parseBoolean(c.get("node_last")));
                Layout.Parts p = l.decompose(Long.parseLong(c.get("id")));
                return "{\"time_ms\":" + p.time().toEpochMilli() + ",\"node\":" + p.node() + ",\"sequence\":" + p.sequence() + "}";
            default:
                return "{}";
        }
    }

    private static String list(LongStream ids) {
        return "{\"ids\":[" + ids.mapToObj(id -> "\"" + id + "\"").collect(Collectors.joining(",")) + "]}";
    }
}
