package dev.nodelease;

import java.io.FileInputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ClosedChannelException;
import java.nio.charset.StandardCharsets;

/** The clocks of the machine, in nanoseconds, and its generation. Not thread-safe. */
class Clocks implements AutoCloseable {
    private final String device;
    private RandomAccessFile vm; // plain files: channels take longer to load in a new process
    private long boot, bootRead = System.nanoTime() - 5_000_000;

    Clocks() { this("/dev/vmclock0"); }

    Clocks(String vmClock) {
        device = vmClock;
        open();
    }

    /** Opens the VMClock device, if this machine has one: after a checkpoint, it may be another machine. */
    final void open() { vm = open(device); }

    /** The readings of all clocks at one moment. */
    record Reading(long boot, long mono, long wall, long generation) {}

    final Reading read() { return new Reading(boot(), mono(), wall(), generation()); }

    /** Whether the time since a reading is over by any clock. A clock that went back may hide a sleep. */
    final boolean over(Reading began, long left) {
        return gone(mono() - began.mono, left) || gone(wall() - began.wall, left) || gone(boot() - began.boot, left) || generation() != began.generation;
    }

    private static boolean gone(long nanos, long left) { return nanos < 0 || nanos >= left; }

    /** The boot clock, which counts the time that the machine slept; 0 if there is none. */
    long boot() {
        long now = System.nanoTime();
        if (now - bootRead >= 5_000_000) {
            try (FileInputStream in = new FileInputStream("/proc/uptime")) {
                String text = new String(in.readNBytes(64), StandardCharsets.ISO_8859_1);
                boot = (long) (Double.parseDouble(text.substring(0, text.indexOf(' '))) * 1e9);
            } catch (Exception e) {
                boot = 0;
            }
            bootRead = now;
        }
        return boot;
    }

    long mono() { return System.nanoTime(); }

    long wall() { return System.currentTimeMillis() * 1_000_000; }

    /** Changes when the machine is restored from a snapshot; 0 if there is no VMClock device. */
    long generation() {
        boolean interrupted = vm != null && Thread.interrupted();
        try {
            for (ByteBuffer b = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN); vm != null; ) {
                try {
                    vm.getChannel().read(b, 104); // its place in the device's page; the device knows pread, but no seek
                    return b.getLong(0);
                } catch (ClosedChannelException e) {
                    // Invariant (liveness): an interrupt ends no reading. It has closed the file, for all threads and for good.
                    interrupted |= Thread.interrupted();
                    vm = new RandomAccessFile(device, "r");
                }
            }
            return 0;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } finally {
            interrupt(interrupted);
        }
    }

    /** Lets a thread know again that it was interrupted. */
    static void interrupt(boolean interrupted) { if (interrupted) { Thread.currentThread().interrupt(); } }

    private static RandomAccessFile open(String path) {
        try {
            RandomAccessFile f = new RandomAccessFile(path, "r");
            ByteBuffer head = ByteBuffer.allocate(32).order(ByteOrder.LITTLE_ENDIAN);
            f.read(head.array());
            if (head.getInt(0) == 0x4b4c4356 && head.getShort(8) == 1 && (head.get(25) & 1) == 1) {
                return f;
            }
            f.close();
        } catch (IOException e) {
            // There is none, or it cannot be read.
        }
        return null;
    }

    @Override
    public void close() { Sidecar.closeQuietly(vm); }
}
