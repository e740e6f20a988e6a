package dev.nodelease;

import java.time.Instant;
import java.util.Map;

/**
 * The meaning of an ID's bits, from the highest down: time, node, sequence; with nodeLast time,
 * sequence, node.
 */
public record Layout(long epochMs, int tickMs, int timeBits, int nodeBits, int sequenceBits, boolean nodeLast) {
    public static final Layout DEFAULT = new Layout(1735689600000L, 1, 41, 10, 12, false);
    public static final Layout WIDE16 = new Layout(1735689600000L, 1, 41, 16, 6, false);
    public static final Layout JS53 = new Layout(1735689600000L, 1, 41, 6, 6, false);
    public static final Layout TWITTER = new Layout(1288834974657L, 1, 41, 10, 12, false);
    public static final Layout DISCORD = new Layout(1420070400000L, 1, 41, 10, 12, false);
    public static final Layout SONYFLAKE = new Layout(1409529600000L, 10, 39, 16, 8, true);

    /** A decoded ID. In a narrow pool node includes the sequence's upper end. */
    public record Parts(Instant time, int node, long sequence) {}

    static Layout of(Map<String, String> f) {
        return new Layout(Long.parseLong(f.get("epoch_ms")), Integer.parseInt(f.get("tick_ms")), Integer.parseInt(f.get("time_bits")),
                Integer.parseInt(f.get("node_bits")), Integer.parseInt(f.get("sequence_bits")), Boolean.parseBoolean(f.get("node_last")));
    }

    /** Decodes an ID of this layout. */
    public Parts decompose(long id) {
        if (id < 0) {
            throw new IllegalArgumentException(id + " is not an ID: use 0 to 2^63-1");
        }
        Instant time = Instant.ofEpochMilli(epochMs + (id >>> (nodeBits + sequenceBits)) * tickMs);
        long nodes = (1L << nodeBits) - 1;
        long sequences = (1L << sequenceBits) - 1;
        return nodeLast
                ? new Parts(time, (int) (id & nodes), id >>> nodeBits & sequences)
                : new Parts(time, (int) (id >>> sequenceBits & nodes), id & sequences);
    }
}
