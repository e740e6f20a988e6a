package jdk.crac;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;

/** As in a JDK with CRaC: it holds resources weakly. */
public final class Core {
    private Core() {}

    public static final List<WeakReference<Resource>> REGISTERED = new ArrayList<>();

    public static Context<Resource> getGlobalContext() {
        return new Context<>() {
            @Override
            public void register(Resource resource) {
                REGISTERED.add(new WeakReference<>(resource));
            }
        };
    }
}
