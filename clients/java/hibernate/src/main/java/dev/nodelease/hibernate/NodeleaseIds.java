package dev.nodelease.hibernate;

import dev.nodelease.IdGenerator;
import java.lang.reflect.Member;
import java.util.EnumSet;
import org.hibernate.MappingException;
import org.hibernate.engine.config.spi.ConfigurationService;
import org.hibernate.engine.spi.SharedSessionContractImplementor;
import org.hibernate.generator.AnnotationBasedGenerator;
import org.hibernate.generator.BeforeExecutionGenerator;
import org.hibernate.generator.EventType;
import org.hibernate.generator.EventTypeSets;
import org.hibernate.generator.GeneratorCreationContext;

/** Makes the identifiers of {@link NodeleaseId}. */
@SuppressWarnings("serial")
public final class NodeleaseIds implements BeforeExecutionGenerator, AnnotationBasedGenerator<NodeleaseId> {
    /** The name of a setting of Hibernate: an {@link IdGenerator}, closed by the code that set it. */
    public static final String SETTING = "nodelease.id_generator";

    /** The generator of the process: created when needed, and never closed. */
    private static final class Shared {
        static final IdGenerator IDS = new IdGenerator();
    }

    private IdGenerator ids;
    private boolean text;

    @Override
    public void initialize(NodeleaseId annotation, Member member, GeneratorCreationContext context) {
        Class<?> type = context.getType().getReturnedClass();
        text = type == String.class;
        if (!text && type != Long.class && type != long.class) {
            throw new MappingException(member + " has @NodeleaseId and the type " + type.getName() + ": use long, Long or String");
        }
        Object set = context.getServiceRegistry().requireService(ConfigurationService.class).getSettings().get(SETTING);
        if (set != null && !(set instanceof IdGenerator)) {
            throw new MappingException("the setting " + SETTING + " is a " + set.getClass().getName() + " (" + set + "): set a dev.nodelease.IdGenerator, or nothing");
        }
        ids = set == null ? Shared.IDS : (IdGenerator) set;
    }

    @Override
    public Object generate(SharedSessionContractImplementor session, Object owner, Object value, EventType event) {
        long id = ids.next();
        return text ? (Object) Long.toString(id) : (Object) id;
    }

    @Override
    public EnumSet<EventType> getEventTypes() {
        return EventTypeSets.INSERT_ONLY;
    }
}
