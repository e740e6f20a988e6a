package dev.nodelease.hibernate;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.hibernate.annotations.IdGeneratorType;

/**
 * Used with {@code @Id}: identifiers are IDs of Nodelease, made in this process. The attribute is a long
 * or Long, or a String, which gets the ID's decimal digits.
 *
 * <pre>{@code @Id @NodeleaseId private Long id;}</pre>
 *
 * The generator is the one in the setting {@link NodeleaseIds#SETTING}, as the Spring Boot starter
 * sets it, or one for the process, on the sidecar at NODELEASE_SIDECAR.
 */
@IdGeneratorType(NodeleaseIds.class)
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.FIELD, ElementType.METHOD})
public @interface NodeleaseId {}
