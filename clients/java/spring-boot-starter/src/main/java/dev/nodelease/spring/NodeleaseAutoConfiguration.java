package dev.nodelease.spring;

import dev.nodelease.IdGenerator;
import dev.nodelease.hibernate.NodeleaseIds;
import io.micrometer.core.instrument.binder.MeterBinder;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.boot.hibernate.autoconfigure.HibernatePropertiesCustomizer;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** An IdGenerator for the application, with its health and metrics; Hibernate's {@code @NodeleaseId} uses it, too. */
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
        HealthIndicator nodeleaseHealthIndicator(IdGenerator ids) {
            return new NodeleaseHealthIndicator(ids);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(MeterBinder.class)
    static class Metrics {
        @Bean
        @ConditionalOnMissingBean
        NodeleaseMetrics nodeleaseMetrics(IdGenerator ids) {
            return new NodeleaseMetrics(ids);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass({HibernatePropertiesCustomizer.class, NodeleaseIds.class})
    static class Hibernate {
        @Bean
        HibernatePropertiesCustomizer nodeleaseHibernate(IdGenerator ids) {
            return settings -> settings.put(NodeleaseIds.SETTING, ids);
        }
    }
}
