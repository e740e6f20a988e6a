package dev.nodelease.spring;

import dev.nodelease.IdGenerator;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.binder.MeterBinder;

/** Counts IDs, blocks and failed requests. */
public class NodeleaseMetrics implements MeterBinder {
    private final IdGenerator ids;

    public NodeleaseMetrics(IdGenerator ids) {
        this.ids = ids;
    }

    @Override
    public void bindTo(MeterRegistry registry) {
        FunctionCounter.builder("nodelease.ids", ids, IdGenerator::issued).description("IDs that were made").register(registry);
        FunctionCounter.builder("nodelease.blocks", ids, IdGenerator::requests).description("Blocks that were fetched from the sidecar").register(registry);
        FunctionCounter.builder("nodelease.failures", ids, IdGenerator::failures).description("Requests for a block that failed").register(registry);
    }
}
