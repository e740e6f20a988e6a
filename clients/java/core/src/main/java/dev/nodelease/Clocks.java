package dev.nodelease;

import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;

/** The clocks of the machine, in nanoseconds, and its generation. Not thread-safe. */
class Clocks implements AutoCloseable {
    private static final Path UPTIME = Path.of("/proc/uptime");
    private static final int GENERATION = 104; // offset in the page of a VMClock device
    private final FileChannel vm = vmClock(Path.of("/dev/vmclock0"));
    private long boot;
    private long bootRead;
    private boolean read;

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

    long mono() {
        return System.nanoTime();
    }

    long wall() {
        return System.currentTimeMillis() * 1_000_000;
    }

    /** Changes when the machine is restored from a snapshot; 0 where there is no VMClock device. */
    long generation() {
        return vm == null ? 0 : at(vm, GENERATION, 8).getLong(0);
    }

    static FileChannel vmClock(Path path) {
        if (!Files.exists(path)) {
            return null;
        }
        try {
            FileChannel c = FileChannel.open(path);
            ByteBuffer head = at(c, 0, 32); // little endian
            if (head.getInt(0) == 0x4b4c4356 && head.getShort(8) == 1 && (head.get(25) & 1) == 1) {
                return c;
            }
            c.close();
        } catch (Exception e) {
            return null; // it cannot be read, or has no counter
        }
        return null;
    }

    private static ByteBuffer at(FileChannel c, long offset, int length) {
        try {
            ByteBuffer b = ByteBuffer.allocate(length).order(java.nio.ByteOrder.LITTLE_ENDIAN);
            c.read(b, offset);
            return b;
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    @Override
    public void close() {
        try {
            if (vm != null) {
                vm.close();
            }
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }
}
