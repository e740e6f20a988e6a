package dev.nodelease.spring;

import dev.nodelease.IdGenerator;
import dev.nodelease.Layout;
import dev.nodelease.NodeleaseException;
import org.springframework.boot.health.contributor.AbstractHealthIndicator;
import org.springframework.boot.health.contributor.Health;

/** Up if an ID can be made: the check makes one, which costs a request only if no block is open. */
public class NodeleaseHealthIndicator extends AbstractHealthIndicator {
    private final IdGenerator ids;

    public NodeleaseHealthIndicator(IdGenerator ids) {
        super("no ID can be made");
        this.ids = ids;
    }

    @Override
    protected void doHealthCheck(Health.Builder builder) {
        try {
            long next = ids.next(); // the layout is known after it
            Layout.Parts id = ids.layout().decompose(next);
            builder.up().withDetail("node_id", id.node()).withDetail("id_time", id.time().toString()).withDetail("requests", ids.requests());
        } catch (NodeleaseException e) {
            builder.down(e).withDetail("word", e.word());
        }
    }
}
