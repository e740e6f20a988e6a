package dev.nodelease;

import java.io.EOFException;
import java.io.IOException;
import java.io.StreamTokenizer;
import java.io.StringReader;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.StandardProtocolFamily;
import java.net.StandardSocketOptions;
import java.net.URI;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;

/**
 * A connection to the sidecar, on a Unix socket or TCP. Not thread-safe. The path to the first ID uses
 * no patterns and no lambdas: in a new process they cost more than the request.
 */
final class Sidecar implements AutoCloseable {
    private static final int MOST = 1 << 20; // bytes of an answer

    record Answer(int status, String body) {}

    /** The names and plain values of a JSON object, without those of the objects in it and after it, which a later release may add. */
    static Map<String, String> fields(String body) throws IOException {
        StreamTokenizer in = new StreamTokenizer(new StringReader(body));
        in.resetSyntax();
        in.whitespaceChars(0, ' ');
        in.quoteChar('"');
        in.wordChars('-', '9'); // not the colon after it
        in.wordChars('a', 'z');
        Map<String, String> all = new HashMap<>();
        String name = null, last = null;
        for (int token, depth = 0; (token = in.nextToken()) != StreamTokenizer.TT_EOF && (token != '}' || depth != 1); last = in.sval) {
            if ((depth += token == '{' ? 1 : token == '}' ? -1 : 0) == 1 && name != null && in.sval != null && !(token != '"' && in.sval.equals("null"))) {
                all.put(name, in.sval);
            }
            name = token == ':' ? last : null;
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
        unix = name.startsWith("unix:") ? name.substring(name.startsWith("unix://") ? 7 : 5) : null;
        url = unix == null ? URI.create(name) : null;
        if (unix != null) {
            // In a new process, loading the JDK's classes for a Unix socket takes most of the time to the first ID. A third of it, the random numbers, is loaded in parallel.
            // Invariant (liveness): the program ends without it, even if its random numbers come from a device that does not answer.
            new Thread("nodelease") { { setDaemon(true); } @Override public void run() { new SecureRandom(); } }.start();
        }
        if (unix != null ? unix.isEmpty() : !"http".equals(url.getScheme()) || url.getHost() == null || url.getPath().length() > 1) {
            throw new IllegalArgumentException("the sidecar's address " + name + " (NODELEASE_SIDECAR): use http://127.0.0.1:7373 or unix:/path/to/socket");
        }
    }

    /** Sends a POST without a body, and returns the answer. Any failure closes the connection. */
    Answer post(String target, long nanos) throws IOException {
        SocketChannel c = channel;
        channel = null; // ours again only after a whole answer
        boolean whole = false;
        // A channel has no time-outs: it is closed when the time is over.
        // Invariant (liveness): the time is that of the monotonic clock. A java.util.Timer follows the wall clock, which may be set back.
        CompletableFuture<Void> watch = new CompletableFuture<>();
        try {
            if (c == null) {
                c = unix != null ? SocketChannel.open(StandardProtocolFamily.UNIX) : SocketChannel.open();
            }
            SocketChannel mine = c;
            watch.orTimeout(Math.max(nanos, 1), TimeUnit.NANOSECONDS).whenComplete(new BiConsumer<Void, Throwable>() { @Override public void accept(Void none, Throwable late) { closeQuietly(late == null ? null : mine); } });
            if (!c.isConnected()) {
                SocketAddress to = unix != null ? UnixDomainSocketAddress.of(unix) : new InetSocketAddress(url.getHost().replace("[", "").replace("]", ""), url.getPort() < 0 ? 80 : url.getPort());
                c.connect(to);
                if (unix == null) {
                    c.setOption(StandardSocketOptions.TCP_NODELAY, true);
                }
            }
            ByteBuffer request = ByteBuffer.wrap(("POST " + target + " HTTP/1.1\r\nHost: " + (unix != null ? "localhost" : url.getAuthority()) + "\r\nContent-Length: 0\r\n\r\n").getBytes(StandardCharsets.US_ASCII));
            while (request.hasRemaining()) {
                c.write(request);
            }
            ByteBuffer in = ByteBuffer.allocate(8192);
            int end;
            while ((end = text(in).indexOf("\r\n\r\n")) < 0) {
                in = read(c, in);
            }
            String head = text(in).substring(0, end + 2);
            int length = -1;
            boolean keep = head.startsWith("HTTP/1.1 ");
            for (int at = 0, to; at < end; at = to + 2) {
                to = head.indexOf("\r\n", at);
                String line = head.substring(at, to).toLowerCase(Locale.ROOT);
                if (line.startsWith("content-length:")) {
                    length = Integer.parseInt(line.substring(15).trim());
                }
                keep &= !line.replace(" ", "").equals("connection:close");
            }
            if (!keep && !head.startsWith("HTTP/1.") || end < 12 || length < 0 || length > MOST) {
                throw new IOException("an answer that is not the sidecar's: " + head.lines().findFirst().orElse(""));
            }
            while (in.position() < end + 4 + length) {
                in = read(c, in);
            }
            Answer answer = new Answer(Integer.parseInt(head.substring(9, 12)), new String(in.array(), end + 4, length, StandardCharsets.UTF_8));
            whole = keep && in.position() == end + 4 + length;
            return answer;
        } catch (IllegalArgumentException e) { // that of a host without an address is none of the IOExceptions
            throw new IOException(e instanceof NumberFormatException ? "an answer that is not the sidecar's" : "an address that cannot be used: " + e, e);
        } finally {
            if (watch.complete(null) && whole) {
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

    static void closeQuietly(AutoCloseable c) {
        try {
            if (c != null) {
                c.close();
            }
        } catch (Exception e) { // the timer continues
            // Nothing is lost with it.
        }
    }

    @Override
    public void close() {
        closeQuietly(channel);
        channel = null;
    }
}
