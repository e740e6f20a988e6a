package dev.nodelease;

import java.lang.reflect.Proxy;

/** Listens for checkpoints (CRaC), on a JDK that has them, without a dependency. */
final class Checkpoints {
    /** The loader of the JDK's modules. The loader of this class would open each jar of the program, in vain on most JDKs. */
    static ClassLoader jdk = ClassLoader.getPlatformClassLoader();

    private Checkpoints() {}

    /** Returns an object to keep for as long as the two are to be called; null on another JDK. */
    static Object register(IdGenerator ids) {
        try {
            Class<?> resource = Class.forName("jdk.crac.Resource", true, jdk);
            Object heard = Proxy.newProxyInstance(Checkpoints.class.getClassLoader(), new Class<?>[] {resource}, (proxy, method, args) -> {
                switch (method.getName()) {
                    case "beforeCheckpoint" -> ids.beforeCheckpoint();
                    case "afterRestore" -> ids.afterRestore();
                    case "equals" -> { return proxy == args[0]; }
                    case "hashCode" -> { return System.identityHashCode(proxy); }
                    default -> { return "nodelease"; }
                }
                return null;
            });
            Object context = Class.forName("jdk.crac.Core", true, jdk).getMethod("getGlobalContext").invoke(null);
            Class.forName("jdk.crac.Context", true, jdk).getMethod("register", resource).invoke(context, heard);
            return heard;
        } catch (ClassNotFoundException e) {
            return null;
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("this library does not support the CRaC of this JDK", e);
        }
    }
}
