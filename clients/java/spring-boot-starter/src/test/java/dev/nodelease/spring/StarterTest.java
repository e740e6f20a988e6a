package dev.nodelease.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.nodelease.IdGenerator;
import dev.nodelease.hibernate.NodeleaseId;
import dev.nodelease.hibernate.NodeleaseIds;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import jakarta.persistence.Entity;
import jakarta.persistence.EntityManager;
import jakarta.persistence.EntityManagerFactory;
import jakarta.persistence.Id;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.boot.Banner;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.health.actuate.endpoint.CompositeHealthDescriptor;
import org.springframework.boot.health.actuate.endpoint.HealthEndpoint;
import org.springframework.boot.health.actuate.endpoint.IndicatedHealthDescriptor;
import org.springframework.boot.health.contributor.CompositeHealthContributor;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.boot.health.contributor.Status;
import org.springframework.boot.hibernate.autoconfigure.HibernatePropertiesCustomizer;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ConfigurableApplicationContext;

/** A real Spring Boot application with Hibernate on H2, and a real sidecar. */
@EnabledIfEnvironmentVariable(named = "NODELEASE_SIDECAR", matches = ".+", disabledReason = "needs a sidecar: run clients/with-sidecar.sh mvn -f clients/java verify")
class StarterTest {
    @SpringBootApplication
    static class Shop {}

    @Entity(name = "orders")
    static class Order {
        @Id @NodeleaseId private Long id;
    }

    private static ConfigurableApplicationContext run(String... arguments) {
        return new SpringApplicationBuilder(Shop.class).web(WebApplicationType.NONE).logStartupInfo(false).bannerMode(Banner.Mode.OFF)
                .properties("spring.jpa.hibernate.ddl-auto=create-drop", "management.endpoint.health.show-details=always", "logging.level.root=warn").run(arguments);
    }

    private static IndicatedHealthDescriptor health(ConfigurableApplicationContext app) {
        return (IndicatedHealthDescriptor) ((CompositeHealthDescriptor) app.getBean(HealthEndpoint.class).health()).getComponents().get("nodelease");
    }

    private static double count(ConfigurableApplicationContext app, String name) {
        return app.getBean(MeterRegistry.class).get(name).functionCounter().count();
    }

    @Test
    void anApplicationHasIdsHealthAndMetrics() {
        IdGenerator ids;
        try (ConfigurableApplicationContext app = run()) {
            ids = app.getBean(IdGenerator.class);
            assertThat(health(app).getStatus()).isEqualTo(Status.UP);
            assertThat(health(app).getDetails()).containsKeys("node_id", "id_time", "requests");
            assertThat(ids.batch(1000)).hasSize(1000).isSorted().doesNotHaveDuplicates();
            Order order = new Order();
            try (EntityManager em = app.getBean(EntityManagerFactory.class).createEntityManager()) {
                em.getTransaction().begin();
                em.persist(order);
                em.getTransaction().commit();
                assertThat(em.createQuery("select id from orders", Long.class).getResultList()).containsExactly(order.id);
            }
            // Two looks at the health, the batch and the entity: all by the application's generator.
            assertThat(count(app, "nodelease.ids")).isEqualTo(1003);
            assertThat(count(app, "nodelease.blocks")).isBetween(1.0, 10.0);
            assertThat(count(app, "nodelease.failures")).isZero();
        }
        assertThatThrownBy(() -> ids.batch(1 << 20)).hasMessage("the generator is closed");
    }

    @Test
    void withoutASidecarItIsDown(@TempDir Path dir) {
        try (ConfigurableApplicationContext app = run("--nodelease.sidecar=unix:" + dir.resolve("none"), "--nodelease.timeout=10ms")) {
            assertThat(health(app).getStatus()).isEqualTo(Status.DOWN);
            assertThat(health(app).getDetails().get("error").toString()).contains("SidecarUnavailable").contains(dir.toString());
            assertThat(count(app, "nodelease.failures")).isPositive();
            assertThat(count(app, "nodelease.ids")).isZero();
        }
    }

    /** An application with two pools. */
    @Test
    void twoGenerators() {
        ApplicationContextRunner runner = new ApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(NodeleaseAutoConfiguration.class))
                .withBean("orders", IdGenerator.class, () -> new IdGenerator(null, Duration.ofSeconds(10)))
                .withBean("invoices", IdGenerator.class, () -> new IdGenerator("unix:/nowhere", Duration.ofMillis(10)));
        runner.run(app -> {
            assertThat(app).hasNotFailed();
            CompositeHealthContributor health = (CompositeHealthContributor) app.getBean("nodeleaseHealthIndicator");
            assertThat(((HealthIndicator) health.getContributor("orders")).health().getStatus()).isEqualTo(Status.UP);
            assertThat(((HealthIndicator) health.getContributor("invoices")).health().getStatus()).isEqualTo(Status.DOWN);
            SimpleMeterRegistry meters = new SimpleMeterRegistry();
            app.getBean(NodeleaseMetrics.class).bindTo(meters);
            assertThat(meters.get("nodelease.ids").tag("generator", "orders").functionCounter().count()).isEqualTo(1);
            assertThat(meters.get("nodelease.ids").tag("generator", "invoices").functionCounter().count()).isZero();
            // An entity needs one of them.
            Map<String, Object> settings = new HashMap<>();
            app.getBean(HibernatePropertiesCustomizer.class).customize(settings);
            assertThat(settings.get(NodeleaseIds.SETTING)).asString().contains("@Primary");
        });
        runner.withBean("mine", IdGenerator.class, () -> new IdGenerator(null, Duration.ofSeconds(1)), bean -> bean.setPrimary(true)).run(app -> {
            Map<String, Object> settings = new HashMap<>();
            app.getBean(HibernatePropertiesCustomizer.class).customize(settings);
            assertThat(settings.get(NodeleaseIds.SETTING)).isSameAs(app.getBean("mine"));
            assertThat(app.getBean("nodeleaseHealthIndicator")).isInstanceOf(NodeleaseHealthIndicator.class);
        });
    }

    @Test
    void nothingOfItIsNeeded() {
        ApplicationContextRunner runner = new ApplicationContextRunner().withConfiguration(AutoConfigurations.of(NodeleaseAutoConfiguration.class));
        runner.withClassLoader(new FilteredClassLoader("org.springframework.boot.health", "io.micrometer", "org.springframework.boot.hibernate", "org.hibernate", "dev.nodelease.hibernate"))
                .run(app -> assertThat(app).hasSingleBean(IdGenerator.class).doesNotHaveBean("nodeleaseHealthIndicator").doesNotHaveBean("nodeleaseMetrics"));
        runner.withPropertyValues("management.health.nodelease.enabled=false")
                .run(app -> assertThat(app).hasSingleBean(NodeleaseMetrics.class).doesNotHaveBean("nodeleaseHealthIndicator"));
        runner.withBean("mine", IdGenerator.class, () -> new IdGenerator(null, Duration.ofSeconds(1)))
                .run(app -> assertThat(app).getBeanNames(IdGenerator.class).containsExactly("mine"));
    }
}
