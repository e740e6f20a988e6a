package dev.nodelease;

import java.io.EOFException;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.StandardProtocolFamily;
import java.net.StandardSocketOptions;
import java.net.URI;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A connection to the sidecar, on a Unix socket or TCP. Not thread-safe. */
final class Sidecar implements AutoCloseable {
    private static final int MOST = 1 << 20; // bytes of an answer
    /** The names and plain values of a JSON object; the names of the sidecar's nested objects are unique. */
    private static final Pattern FIELD = Pattern.compile("\"((?:[^\"\\\\]|\\\\.)*)\"(?:\\s*:\\s*(?:\"((?:[^\"\\\\]|\\\\.)*)\"|(-?\\d+|true|false)))?");

    record Answer(int status, String body) {}

    /** The fields of a JSON object that have a plain value. */
    static Map<String, String> fields(String body) {
        Map<String, String> all = new HashMap<>();
        for (Matcher m = FIELD.matcher(body); m.find(); ) {
            String value = m.group(2) != null ? m.group(2) : m.group(3);
            if (value != null) {
                all.put(m.group(1), value);
            }
        }
        return all;
    }

    final String name;
    private final String unix;
    private final URI url;
    private SocketChannel channel;

    Sidecar(String address) {
        String text = address != null ? address : System.getenv("NODELEASE_SIDECAR");
        name = text == null || text.isEmpty() ? "http://127.0.0.1:7373" : text;
        unix = name.startsWith("unix:") ? name.substring(5).replaceFirst("^//", "") : null;
        url = unix == null ? URI.create(name) : null;
        if (unix != null ? unix.isEmpty() : !"http".equals(url.getScheme()) || url.getHost() == null || !url.getPath().matches("/?")) {
            throw new IllegalArgumentException("the sidecar's address " + name + " (NODELEASE_SIDECAR): use http://127.0.0.1:7373 or unix:/path/to/socket");
        }
    }

    /** Sends a POST without a body, and returns the answer. Whatever fails closes the connection. */
    Answer post(String target, long nanos) throws IOException {
        SocketChannel c = channel;
        channel = null; // ours again only after a whole answer
        boolean whole = false;
        // A channel has no time-outs: it is closed when the time is over.
        CompletableFuture<Void> watch = new CompletableFuture<>();
        try {
            if (c == null) {
                c = unix != null ? SocketChannel.open(StandardProtocolFamily.UNIX) : SocketChannel.open();
            }
            SocketChannel mine = c;
            watch.completeOnTimeout(null, Math.max(nanos, 1_000_000), TimeUnit.NANOSECONDS).thenRun(() -> closeQuietly(mine));
            if (!c.isConnected()) {
                SocketAddress to = unix != null ? UnixDomainSocketAddress.of(unix) : new InetSocketAddress(url.getHost().replaceAll("[\\[\\]]", ""), url.getPort() < 0 ? 80 : url.getPort());
                c.connect(to);
                if (unix == null) {
                    c.setOption(StandardSocketOptions.TCP_NODELAY, true);
                }
            }
            String host = unix != null ? "localhost" : url.getAuthority();
            ByteBuffer request = ByteBuffer.wrap(("POST " + target + " HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 0\r\n\r\n").getBytes(StandardCharsets.US_ASCII));
            while (request.hasRemaining()) {
                c.write(request);
            }
            ByteBuffer in = ByteBuffer.allocate(8192);
            int end;
            while ((end = text(in).indexOf("\r\n\r\n")) < 0) {
                in = read(c, in);
            }
            String[] head = text(in).substring(0, end).split("\r\n");
            int length = -1;
            boolean keep = head[0].startsWith("HTTP/1.1 ");
            for (String line : head) {
                String lower = line.toLowerCase(Locale.ROOT);
                if (lower.startsWith("content-length:")) {
                    length = Integer.parseInt(lower.substring(15).trim());
                }
                keep &= !lower.replace(" ", "").equals("connection:close");
            }
            if (!head[0].matches("HTTP/1\\.[01] \\d{3}.*") || length < 0 || length > MOST) {
                throw new IOException("an answer that is not the sidecar's: " + head[0]);
            }
            while (in.position() < end + 4 + length) {
                in = read(c, in);
            }
            String body = new String(in.array(), end + 4, length, StandardCharsets.UTF_8);
            whole = keep && in.position() == end + 4 + length;
            return new Answer(Integer.parseInt(head[0].substring(9, 12)), body);
        } catch (NumberFormatException e) {
            throw new IOException("an answer that is not the sidecar's", e);
        } finally {
            if (watch.cancel(false) && whole) {
                channel = c;
            } else {
                closeQuietly(c);
            }
        }
    }

    private static String text(ByteBuffer in) { return new String(in.array(), 0, in.position(), StandardCharsets.ISO_8859_1); }

    private static ByteBuffer read(SocketChannel c, ByteBuffer in) throws IOException {
        if (!in.hasRemaining()) {
            if (in.capacity() > MOST) {
                throw new IOException("an answer that is not the sidecar's: it does not end");
            }
            in = ByteBuffer.allocate(in.capacity() * 2).put(in.flip());
        }
        if (c.read(in) < 0) {
            throw new EOFException("the connection was closed");
        }
        return in;
    }

    private static void closeQuietly(SocketChannel c) {
        try {
            if (c != null) {
                c.close();
            }
        } catch (IOException e) {
            // Nothing is lost with it.
        }
    }

    @Override
    public void close() {
        closeQuietly(channel);
        channel = null;
    }
}
