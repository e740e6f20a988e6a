package jdk.crac;

/** As in a JDK with CRaC, which this test does not need. */
public interface Resource {
    void beforeCheckpoint(Context<? extends Resource> context) throws Exception;

    void afterRestore(Context<? extends Resource> context) throws Exception;
}
