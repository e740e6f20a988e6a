package dev.nodelease;

import cn.hutool.core.lang.Snowflake;
import com.github.f4b6a3.tsid.TsidFactory;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import java.util.function.LongSupplier;
import java.util.stream.LongStream;

/** The client in Java beside TSID Creator and hutool. Writes lines of JSON for run.py. */
public final class Bench {
    private static volatile long sink;

    /** Calls f for some time, and returns the IDs per second. */
    private static double rate(LongSupplier f, int each, double seconds) {
        long began = System.nanoTime();
        long until = began + (long) (seconds * 1e9);
        long n = 0;
        long now;
        long last = 0;
        do {
            for (int i = 0; i < 1000; i += each) {
                last = f.getAsLong();
                n += each;
            }
            now = System.nanoTime();
        } while (now < until);
        sink = last;
        return n * 1e9 / (now - began);
    }

    public static void main(String[] args) throws Exception {
        double seconds = Double.parseDouble(args[1]);
        switch (args[0]) {
            case "first" -> {
                long began = System.nanoTime();
                IdGenerator ids = new IdGenerator();
                sink = ids.next();
                System.out.println((System.nanoTime() - began) / 1e6);
                began = System.nanoTime();
                ids = new IdGenerator();
                sink = ids.next();
                System.out.println((System.nanoTime() - began) / 1e6);
            }
            case "together" -> {
                IdGenerator ids = new IdGenerator();
                rate(() -> ids.batch(10_000)[9999], 10_000, seconds);
                long before = System.currentTimeMillis();
                double rate = rate(() -> ids.batch(10_000)[9999], 10_000, 3);
                long after = System.currentTimeMillis();
                System.out.println("[" + rate * (after - before) / 1000 + "," + before + "," + after + "]");
            }
            case "served" -> served(seconds);
            default -> rounds(seconds);
        }
    }

    private static void rounds(double seconds) {
        IdGenerator ids = new IdGenerator();
        Snowflake hutool = new Snowflake(1, 1);
        TsidFactory tsid = TsidFactory.newInstance1024(1);
        for (int round = -1; round < 5; round++) { // the first one warms up
            double next = rate(ids::next, 1, seconds);
            long requests = ids.requests();
            long issued = ids.issued();
            double batch = rate(() -> ids.batch(10_000)[9999], 10_000, seconds);
            double perRequest = (double) (ids.issued() - issued) / (ids.requests() - requests);
            double h = rate(hutool::nextId, 1, seconds);
            double t = rate(() -> tsid.create().toLong(), 1, seconds);
            double ahead = com.github.f4b6a3.tsid.Tsid.from(tsid.create().toLong()).getInstant().toEpochMilli() - System.currentTimeMillis();
            if (round >= 0) {
                System.out.printf("{\"next\":%f,\"batch\":%f,\"per_request\":%f,\"hutool\":%f,\"TSID Creator\":%f,\"ahead_ms\":%f,\"failures\":%d}%n", next, batch, perRequest, h, t, ahead, ids.failures());
            }
        }
    }

    /** Sixteen clients that never have enough: how long each request for a block takes. */
    private static void served(double seconds) throws Exception {
        long[][] took = new long[16][];
        Thread[] threads = new Thread[16];
        CyclicBarrier connected = new CyclicBarrier(threads.length);
        for (int c = 0; c < threads.length; c++) {
            int client = c;
            threads[c] = new Thread(() -> {
                LongStream.Builder all = LongStream.builder();
                try (Sidecar sidecar = new Sidecar(null)) {
                    sidecar.post("/v1/blocks?client=bench" + client + "&nonce=bench" + client + "&n=1", Duration.ofSeconds(5).toNanos());
                    connected.await(); // the cost of a new process is measured as its first ID
                    long until = System.nanoTime() + (long) (seconds * 1e9);
                    for (long i = 0, now; (now = System.nanoTime()) < until; i++) {
                        Sidecar.Answer answer = sidecar.post("/v1/blocks?client=bench" + client + "&nonce=bench" + client + "x" + i + "&n=1048576", Duration.ofSeconds(5).toNanos());
                        all.add(System.nanoTime() - now);
                        if (answer.status() != 200) {
                            throw new IllegalStateException(answer.body());
                        }
                    }
                } catch (java.io.IOException | InterruptedException | BrokenBarrierException e) {
                    throw new IllegalStateException(e);
                }
                took[client] = all.build().toArray();
            });
            threads[c].start();
        }
        for (Thread t : threads) {
            t.join();
        }
        long[] all = Arrays.stream(took).flatMapToLong(Arrays::stream).sorted().toArray();
        System.out.printf("{\"requests\":%d,\"least\":%d,\"p50\":%f,\"p99\":%f,\"p999\":%f,\"max\":%f}%n", all.length, Arrays.stream(took).mapToInt(one -> one.length).min().getAsInt(),
                all[all.length / 2] / 1e6, all[all.length * 99 / 100] / 1e6, all[(int) (all.length * 999L / 1000)] / 1e6, all[all.length - 1] / 1e6);
    }
}
