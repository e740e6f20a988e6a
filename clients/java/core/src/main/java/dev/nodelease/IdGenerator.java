package dev.nodelease;

import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Makes snowflake IDs in this process, from blocks that the Nodelease sidecar has drawn. Safe for
 * any number of threads, platform or virtual: one at a time waits for the sidecar, none pins a carrier.
 * It follows the rules of docs/protocol-clients.md.
 */
public final class IdGenerator implements AutoCloseable {
    private static final int FIRST = 256; // size of the requested blocks: at first, and at most
    private static final int MOST = 1 << 20;
    private static final int CHUNK = 4096; // IDs of a batch between two readings of the clocks

    private final ReentrantLock lock = new ReentrantLock(true); // fair, so that a large batch does not overtake those that wait
    private final Condition restored = lock.newCondition();
    private final Sidecar sidecar;
    private final Clocks clocks;
    private final Object checkpoints; // a strong reference: CRaC holds its resources weakly
    private volatile Duration timeout;

    // Guarded by lock.
    private String name = token();
    private boolean closed;
    private boolean checkpoint;
    private String pool;
    private int want = FIRST;
    private long dropped; // IDs made from earlier blocks
    private volatile long issued, failed, requests;
    private volatile Layout layout;
    // The block: the tickets from next up to end, until one of the clocks has advanced by left.
    private long first, next, end, mask, node, left;
    private int low, shift;
    private Clocks.Reading began;

    /** A generator on the sidecar at NODELEASE_SIDECAR, or on port 7373 of this machine. */
    public IdGenerator() { this(null, Duration.ofSeconds(2)); }

    /**
     * A generator on a sidecar.
     *
     * @param sidecar unix:/path or http://host:port; null for NODELEASE_SIDECAR, or the default
     * @param timeout how long a call may wait for a sidecar that does not answer; 73 years at most
     */
    public IdGenerator(String sidecar, Duration timeout) { this(sidecar, timeout, new Clocks()); }

    IdGenerator(String sidecar, Duration timeout, Clocks clocks) {
        this.sidecar = new Sidecar(sidecar);
        this.timeout = timeout;
        this.clocks = clocks;
        this.checkpoints = Checkpoints.register(this);
    }

    /** Returns the next ID, from 0 to 2^63-1. */
    public long next() {
        if (lock.tryLock()) {
            try {
                // The clocks are read before the ticket is taken.
                if (!checkpoint && next < end && !clocks.over(began, left)) {
                    return id(next++);
                }
            } finally {
                lock.unlock();
            }
        }
        return batch(1)[0];
    }

    /** Returns n IDs that grow. */
    public long[] batch(int n) {
        long[] out = new long[n];
        long until = 0;
        String mine = null;
        for (int i = 0; i < n; ) {
            until = enter(until); // for one block at a time: other calls take IDs in between
            try {
                awaitRestore();
                if (mine != name) { // after a checkpoint, another process may return the IDs so far
                    until = i > 0 ? 0 : until;
                    i = 0;
                    mine = name;
                }
                if (next >= end || clocks.over(began, left)) {
                    fetch(n - i, until = patience(until));
                }
                while (i < n && next < end && !clocks.over(began, left)) {
                    until = 0;
                    for (int to = i + (int) Math.min(Math.min(n - i, end - next), CHUNK); i < to; i++) {
                        out[i] = id(next++);
                    }
                }
                until = patience(until);
            } finally {
                lock.unlock();
            }
        }
        return out;
    }

    // Nothing here waits for the lock, which a thread that waits for the sidecar holds.

    /** The layout of the pool, or null before the first ID. */
    public Layout layout() { return layout; }

    /** How many blocks were fetched so far. */
    public long requests() { return requests; }

    /** How many requests for a block have failed so far, including those that were sent again. */
    public long failures() { return failed; }

    /** How many IDs were made so far; while another thread makes some, a slightly older count. */
    public long issued() {
        if (lock.tryLock()) {
            issued = dropped + next - first;
            lock.unlock();
        }
        return issued;
    }

    /** How long a call may wait for a sidecar that does not answer. */
    public void setTimeout(Duration timeout) { this.timeout = timeout; }

    /** Drops the block and the connection. */
    @Override
    public void close() {
        locked(() -> {
            closed = true;
            drop();
            sidecar.close();
            clocks.close();
        });
    }

    private void locked(Runnable f) {
        lock.lock();
        try {
            f.run();
        } finally {
            lock.unlock();
        }
    }

    private long id(long ticket) { return ticket >>> low << shift | node | ticket & mask; }

    private void drop() {
        dropped += next - first;
        first = next = end = left = 0;
    }

    /** Takes the lock. Returns the time at which the call gives up, if it had to wait: waiting counts. */
    private long enter(long until) {
        if ((until == 0 || !lock.hasQueuedThreads()) && lock.tryLock()) {
            return until;
        }
        until = patience(until);
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    if (lock.tryLock(until - System.nanoTime(), TimeUnit.NANOSECONDS)) {
                        return until;
                    }
                    throw late();
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        } finally {
            Clocks.interrupt(interrupted);
        }
    }

    /** The time at which a call that waits for a usable block gives up. */
    private long patience(long until) {
        long now = System.nanoTime();
        if (until == 0) {
            return now + Math.min(TimeUnit.NANOSECONDS.convert(timeout), Long.MAX_VALUE / 4); // not more than the clock and timers can count
        }
        if (now - until > 0) {
            throw late();
        }
        return until;
    }

    private NodeleaseException late() {
        return new NodeleaseException.SidecarUnavailable("no block from the sidecar at " + sidecar.name + " in time: it does not answer, its answers take longer than blocks may be used, or too many other calls draw IDs", null);
    }

    private void fetch(int need, long until) {
        if (closed) {
            throw new NodeleaseException("the generator is closed", "", null);
        }
        for (long delay = 0; ; delay = Math.min(Math.max(delay * 2, 10_000_000), 200_000_000)) {
            if (end > 0) { // used up: request more; too old: as many as were used
                want = (int) (next >= end ? Math.min(want * 2L, MOST) : Math.max(FIRST, Math.min((next - first) * 2, MOST)));
            }
            drop();
            String nonce = token();
            // The clocks are read before sending: left_ms was computed later, so the block ends early, never late.
            Clocks.Reading before = clocks.read();
            NodeleaseException error;
            try {
                Sidecar.Answer answer = sidecar.post("/v1/blocks?client=" + name + "&nonce=" + nonce + "&n=" + Math.min(Math.max(want, need), MOST), until - System.nanoTime());
                error = accept(answer, nonce, before);
                if (error == null) {
                    return;
                }
            } catch (IOException e) {
                error = new NodeleaseException.SidecarUnavailable("no sidecar answers at " + sidecar.name + " (" + e + "): start `nodelease serve`, or set NODELEASE_SIDECAR", e);
            } finally {
                failed += next < end ? 0 : 1; // no block came
            }
            if (System.nanoTime() + delay - until >= 0 || Thread.currentThread().isInterrupted()) {
                throw error;
            }
            LockSupport.parkNanos(delay); // at first 0: the sidecar was restarted, and the connection is old
        }
    }

    /** Takes the block of an answer. Returns an error that a retry may resolve, throws any other. */
    private NodeleaseException accept(Sidecar.Answer answer, String nonce, Clocks.Reading before) throws IOException {
        Map<String, String> f = Sidecar.fields(answer.body());
        try {
            if (f.get(answer.status() == 200 ? "nonce" : "error") == null) {
                throw new IllegalArgumentException("neither a block nor an error");
            }
            if (answer.status() != 200) {
                NodeleaseException error = NodeleaseException.of(f.get("error"), f.get("detail") + ": " + f.get("remedy"));
                if (error.word().equals("lost") || error.word().equals("closed")) { // the sidecar is restarting
                    return error;
                }
                throw error;
            }
            // A cached answer has been used before.
            if (!f.get("nonce").equals(nonce)) {
                throw new NodeleaseException("the answer belongs to another request: is there a proxy or a cache in front of the sidecar?", "", null);
            }
            int bits = answer.body().indexOf("\"layout\":"); // a pool may have this name
            Map<String, String> outer = Sidecar.fields(answer.body().substring(0, bits));
            Layout l = Layout.of(Sidecar.fields(answer.body().substring(bits)));
            long nodeId = Long.parseLong(outer.get("node_id"));
            int width = Integer.parseInt(outer.get("node_bits"));
            long ticket = Long.parseLong(outer.get("first"));
            long count = Long.parseLong(outer.get("count"));
            long ms = Long.parseLong(outer.get("left_ms"));
            if (width < 0 || width > l.nodeBits() || nodeId < 0 || nodeId >= 1L << width || count < 1 || ticket < 0) {
                throw new IllegalArgumentException("a node ID or a count that is out of range");
            }
            String serves = outer.get("pool");
            if (pool != null && !(pool.equals(serves) && layout.equals(l))) {
                throw new NodeleaseException("the sidecar now serves pool " + serves + " " + l + ", not " + pool + " " + layout + " as before: IDs of two pools may be equal; restart the program", "", null);
            }
            pool = String.valueOf(serves);
            layout = l;
            began = before;
            low = l.nodeLast() ? 0 : l.sequenceBits();
            shift = low + width;
            mask = (1L << low) - 1;
            node = nodeId << low;
            first = next = ticket;
            end = ticket + count;
            left = ms * 1_000_000;
            requests++;
            return null;
        } catch (IllegalArgumentException | IndexOutOfBoundsException e) {
            throw new NodeleaseException("an answer that is not the sidecar's (" + answer.status() + ", " + e + "): does NODELEASE_SIDECAR name a sidecar of this release?", "", e);
        }
    }

    // Several processes may start from one checkpoint: it contains no block, no connection and no open
    // device, which CRaC refuses, and no ID is made between the two calls.

    void beforeCheckpoint() {
        locked(() -> {
            checkpoint = true;
            drop();
            sidecar.close();
            clocks.close();
        });
    }

    void afterRestore() {
        locked(() -> {
            checkpoint = false;
            if (!closed) {
                clocks.open();
            }
            drop();
            name = token();
            restored.signalAll();
        });
    }

    private void awaitRestore() {
        while (checkpoint) {
            restored.awaitUninterruptibly();
        }
    }

    /** 64 bits that no other process and no copy of this one has, from the system, which loads faster than the JDK's providers. */
    private static String token() {
        try (InputStream in = new FileInputStream("/dev/urandom")) {
            return Long.toHexString(ByteBuffer.wrap(in.readNBytes(8)).getLong());
        } catch (IOException e) { // Windows
            return Long.toHexString(new SecureRandom().nextLong());
        }
    }
}
