package dev.nodelease.spring;

import dev.nodelease.IdGenerator;
import dev.nodelease.hibernate.NodeleaseIds;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.Map;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.health.contributor.CompositeHealthContributor;
import org.springframework.boot.health.contributor.HealthContributor;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.boot.hibernate.autoconfigure.HibernatePropertiesCustomizer;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/**
 * An IdGenerator for the application, with its health and metrics; Hibernate's {@code @NodeleaseId} uses it, too.
 * Of several beans of this type it is the one that is @Primary. If none is, each has its own health and metrics.
 */
@AutoConfiguration
@EnableConfigurationProperties(NodeleaseProperties.class)
public class NodeleaseAutoConfiguration {
    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    IdGenerator nodeleaseIdGenerator(NodeleaseProperties properties) {
        return new IdGenerator(properties.sidecar(), properties.timeout());
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass({HealthIndicator.class, ConditionalOnEnabledHealthIndicator.class})
    static class Health {
        @Bean
        @ConditionalOnMissingBean(name = "nodeleaseHealthIndicator")
        @ConditionalOnEnabledHealthIndicator("nodelease")
        HealthContributor nodeleaseHealthIndicator(ObjectProvider<IdGenerator> one, Map<String, IdGenerator> all) {
            IdGenerator ids = one.getIfUnique();
            return ids == null ? CompositeHealthContributor.fromMap(all, NodeleaseHealthIndicator::new) : new NodeleaseHealthIndicator(ids);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(MeterBinder.class)
    static class Metrics {
        @Bean
        @ConditionalOnMissingBean
        NodeleaseMetrics nodeleaseMetrics(ObjectProvider<IdGenerator> one, Map<String, IdGenerator> all) {
            IdGenerator ids = one.getIfUnique();
            return ids == null ? new NodeleaseMetrics(all) : new NodeleaseMetrics(ids);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass({HibernatePropertiesCustomizer.class, NodeleaseIds.class})
    static class Hibernate {
        @Bean
        HibernatePropertiesCustomizer nodeleaseHibernate(ObjectProvider<IdGenerator> one) {
            IdGenerator ids = one.getIfUnique();
            // Invariant: no entity gets IDs of a pool that nobody chose. The text is an error, but only for @NodeleaseId.
            return settings -> settings.put(NodeleaseIds.SETTING, ids == null ? "one of several beans: declare one of them @Primary" : ids);
        }
    }
}
