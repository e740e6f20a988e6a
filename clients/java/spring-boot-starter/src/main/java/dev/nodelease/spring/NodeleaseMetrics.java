package dev.nodelease.spring;

import dev.nodelease.IdGenerator;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.Map;

/** Counts IDs, blocks and failed requests. */
public class NodeleaseMetrics implements MeterBinder {
    private final Map<String, IdGenerator> all;

    public NodeleaseMetrics(IdGenerator ids) {
        this(Map.of("", ids));
    }

    /** Counts those of several generators, by name: each counter has the tag {@code generator}. */
    public NodeleaseMetrics(Map<String, IdGenerator> all) {
        this.all = Map.copyOf(all);
    }

    @Override
    public void bindTo(MeterRegistry registry) {
        all.forEach((name, ids) -> {
            Tags tags = name.isEmpty() ? Tags.empty() : Tags.of("generator", name);
            FunctionCounter.builder("nodelease.ids", ids, IdGenerator::issued).tags(tags).description("IDs that were made").register(registry);
            FunctionCounter.builder("nodelease.blocks", ids, IdGenerator::requests).tags(tags).description("Blocks that were fetched from the sidecar").register(registry);
            FunctionCounter.builder("nodelease.failures", ids, IdGenerator::failures).tags(tags).description("Requests for a block that failed").register(registry);
        });
    }
}
