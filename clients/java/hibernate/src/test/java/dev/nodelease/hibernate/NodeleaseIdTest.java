package dev.nodelease.hibernate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.nodelease.IdGenerator;
import dev.nodelease.Layout;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Real Hibernate on H2, and a real sidecar. */
@EnabledIfEnvironmentVariable(named = "NODELEASE_SIDECAR", matches = ".+", disabledReason = "needs a sidecar: run clients/with-sidecar.sh mvn -f clients/java verify")
class NodeleaseIdTest {
    @Entity(name = "orders")
    static class Order {
        @Id @NodeleaseId private Long id;
        String text;
    }

    @Entity(name = "parcels")
    static class Parcel {
        @Id @NodeleaseId private String id;
    }

    @Entity(name = "wrong")
    static class Wrong {
        @Id @NodeleaseId private Integer id;
    }

    private static Configuration configuration(Class<?>... entities) {
        Configuration c = new Configuration().setProperty("hibernate.connection.url", "jdbc:h2:mem:" + System.nanoTime())
                .setProperty("hibernate.hbm2ddl.auto", "create-drop").setProperty("hibernate.jdbc.batch_size", "50");
        List.of(entities).forEach(c::addAnnotatedClass);
        return c;
    }

    @Test
    void entitiesHaveIds() {
        try (SessionFactory factory = configuration(Order.class, Parcel.class).buildSessionFactory()) {
            Set<Long> all = new HashSet<>();
            factory.inTransaction(session -> {
                long last = 0;
                for (int i = 0; i < 1000; i++) {
                    Order order = new Order();
                    order.text = "order " + i;
                    session.persist(order);
                    assertTrue(order.id > last, order.id + " after " + last);
                    last = order.id;
                    all.add(order.id);
                }
                Parcel parcel = new Parcel();
                session.persist(parcel);
                assertTrue(Long.parseLong(parcel.id) > last, parcel.id);
            });
            factory.inTransaction(session -> {
                assertEquals(all, new HashSet<>(session.createQuery("select id from orders", Long.class).list()));
                assertEquals(1, session.createQuery("select id from parcels", String.class).list().size());
            });
            // The same sidecar, by its node ID.
            try (IdGenerator ids = new IdGenerator()) {
                assertEquals(Layout.DEFAULT.decompose(ids.next()).node(), Layout.DEFAULT.decompose(all.iterator().next()).node());
            }
        }
    }

    @Test
    void theGeneratorCanBeSet() {
        try (IdGenerator ids = new IdGenerator(null, Duration.ofSeconds(9))) {
            Configuration c = configuration(Order.class);
            c.getProperties().put(NodeleaseIds.SETTING, ids);
            try (SessionFactory factory = c.buildSessionFactory()) {
                factory.inStatelessTransaction(session -> session.insert(new Order()));
                assertEquals(1, ids.issued());
            }
        }
    }

    @Test
    void mistakesAreExplained() {
        String message = assertThrows(RuntimeException.class, () -> configuration(Wrong.class).buildSessionFactory().close()).toString();
        assertTrue(message.contains("use long, Long or String"), message);
        Configuration c = configuration(Order.class);
        c.getProperties().put(NodeleaseIds.SETTING, "unix:/s");
        message = assertThrows(RuntimeException.class, () -> c.buildSessionFactory().close()).toString();
        assertTrue(message.contains("set a dev.nodelease.IdGenerator"), message);
    }
}
