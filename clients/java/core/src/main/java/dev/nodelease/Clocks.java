package dev.nodelease;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;

/** The clocks of the machine, in nanoseconds, and its generation. Not thread-safe. */
class Clocks implements AutoCloseable {
    private static final Path UPTIME = Path.of("/proc/uptime");
    private static final int GENERATION = 104; // offset in the page of a VMClock device
    private final FileChannel vm;
    private long boot, bootRead;
    private boolean read;

    Clocks() { this(Path.of("/dev/vmclock0")); }

    Clocks(Path vmClock) { vm = open(vmClock); }

    /** What all clocks say at one moment. */
    record Reading(long boot, long mono, long wall, long generation) {}

    final Reading read() { return new Reading(boot(), mono(), wall(), generation()); }

    /** Whether a clock says that the time since a reading is over. One that went back may hide a sleep. */
    final boolean over(Reading began, long left) {
        return gone(mono() - began.mono, left) || gone(wall() - began.wall, left) || gone(boot() - began.boot, left) || generation() != began.generation;
    }

    private static boolean gone(long nanos, long left) { return nanos < 0 || nanos >= left; }

    /** The boot clock, which counts the time that the machine slept; 0 where there is none. */
    long boot() {
        long now = System.nanoTime();
        if (!read || now - bootRead >= 5_000_000) {
            try {
                String text = Files.readString(UPTIME);
                boot = (long) (Double.parseDouble(text.substring(0, text.indexOf(' '))) * 1e9);
            } catch (Exception e) {
                boot = 0;
            }
            bootRead = now;
            read = true;
        }
        return boot;
    }

    long mono() { return System.nanoTime(); }

    long wall() { return System.currentTimeMillis() * 1_000_000; }

    /** Changes when the machine is restored from a snapshot; 0 where there is no VMClock device. */
    long generation() {
        try {
            return vm == null ? 0 : at(vm, GENERATION, 8).getLong(0);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static FileChannel open(Path path) {
        try {
            FileChannel c = FileChannel.open(path);
            ByteBuffer head = at(c, 0, 32); // little endian
            if (head.getInt(0) == 0x4b4c4356 && head.getShort(8) == 1 && (head.get(25) & 1) == 1) {
                return c;
            }
            c.close();
        } catch (IOException e) {
            return null; // there is none, or it cannot be read
        }
        return null; // it has no counter
    }

    private static ByteBuffer at(FileChannel c, long offset, int length) throws IOException {
        ByteBuffer b = ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN);
        c.read(b, offset);
        return b;
    }

    @Override
    public void close() {
        try {
            if (vm != null) {
                vm.close();
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
