import com.amazonaws.services.dynamodbv2.local.main.ServerRunner;
import java.nio.file.Files;
import java.nio.file.Path;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/**
 * Starts DynamoDB Local on 127.0.0.1 and a free port, and writes its endpoint to the file named
 * first: by default it listens on all addresses, and has no option to change that. With the
 * second argument "attached" it ends when its standard input ends, and so with the process that started it.
 */
class Loopback {
    public static void main(String[] args) throws Exception {
        var local = ServerRunner.createServerFromCommandLineArgs(
            new String[] {"-inMemory", "-sharedDb", "-disableTelemetry"});
        var field = local.getClass().getDeclaredField("server");
        field.setAccessible(true);
        var connector = (ServerConnector) ((Server) field.get(local)).getConnectors()[0];
        connector.setHost("127.0.0.1");
        connector.setPort(0);
        local.start();
        var ready = Path.of(args[0]);
        var written = Files.writeString(Path.of(args[0] + ".new"), "http://127.0.0.1:" + connector.getLocalPort() + "\n");
        Files.move(written, ready);
        if (args.length > 1 && args[1].equals("attached")) {
            System.in.transferTo(java.io.OutputStream.nullOutputStream());
            System.exit(0);
        }
        local.join();
    }
}
