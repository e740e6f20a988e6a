package dev.nodelease;

/** The base of all errors of this library. */
@SuppressWarnings("serial")
public class NodeleaseException extends RuntimeException {
    private final String word;

    NodeleaseException(String message, String word, Throwable cause) {
        super(message, cause);
        this.word = word;
    }

    /** The sidecar's word for the error, or an empty string. */
    public String word() { return word; }

    /** No sidecar answers at the address. */
    public static final class SidecarUnavailable extends NodeleaseException {
        SidecarUnavailable(String message, Throwable cause) { super(message, "", cause); }
    }

    /** The node ID cannot be used now: DynamoDB does not answer, or another process has it. */
    public static final class Fenced extends NodeleaseException {
        Fenced(String message, String word) { super(message, word, null); }
    }

    /** More IDs were requested than the layout has for one node ID. */
    public static final class Exhausted extends NodeleaseException {
        Exhausted(String message, String word) { super(message, word, null); }
    }

    /** The sidecar's clock was set back; it makes IDs when the clock has caught up. */
    public static final class ClockBehind extends NodeleaseException {
        ClockBehind(String message, String word) { super(message, word, null); }
    }

    static NodeleaseException of(String word, String message) {
        return switch (word) {
            case "suspended", "lost", "closed" -> new Fenced(message, word);
            case "busy" -> new Exhausted(message, word);
            case "clock_behind" -> new ClockBehind(message, word);
            default -> new NodeleaseException(message, word, null);
        };
    }
}
