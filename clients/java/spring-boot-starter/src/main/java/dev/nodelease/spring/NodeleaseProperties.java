package dev.nodelease.spring;

import java.time.Duration;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The settings {@code nodelease.*}.
 *
 * @param sidecar {@code nodelease.sidecar}: unix:/path or http://host:port; by default NODELEASE_SIDECAR, or port 7373 of this machine
 * @param timeout {@code nodelease.timeout}: how long a call may wait for a sidecar that does not answer
 */
@ConfigurationProperties("nodelease")
public record NodeleaseProperties(String sidecar, @DefaultValue("2s") Duration timeout) {}
