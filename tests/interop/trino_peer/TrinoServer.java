import io.trino.plugin.iceberg.IcebergPlugin;
import io.trino.server.testing.TestingTrinoServer;

/** A Trino that knows Iceberg, on a free port, which it says; it ends with its standard input. */
public final class TrinoServer
{
    private TrinoServer() {}

    public static void main(String[] args)
            throws Exception
    {
        try (TestingTrinoServer server = TestingTrinoServer.create()) {
            server.installPlugin(new IcebergPlugin());
            System.out.println("ready " + server.getBaseUrl());
            while (System.in.read() != -1) {
                // Nothing is said.
            }
        }
    }
}
