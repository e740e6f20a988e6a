package jdk.crac;

/** As in a JDK with CRaC. */
public abstract class Context<R extends Resource> {
    public abstract void register(R resource);
}
