import java.lang.reflect.Method;
import java.lang.reflect.Proxy;

/** One node of OpenSearch or Elasticsearch: SearchNode RUNNER-CLASS FOLDER name=value… ends with its process. */
public class SearchNode {
    public static void main(String[] args) throws Exception {
        Class<?> runnerClass = Class.forName(args[0]);
        Class<?> builder = Class.forName(args[0] + "$Builder");
        Object runner = runnerClass.getConstructor().newInstance();
        // The runner has settings of its own, such as one name for all nodes; those given here come first.
        Object settings = Proxy.newProxyInstance(builder.getClassLoader(), new Class<?>[] {builder}, (self, method, given) -> {
            Method put = given[1].getClass().getMethod("put", String.class, String.class);
            for (int at = 2; at < args.length; at++) {
                String[] pair = args[at].split("=", 2);
                put.invoke(given[1], pair[0], pair[1]);
            }
            return null;
        });
        runnerClass.getMethod("onBuild", builder).invoke(runner, settings);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                runnerClass.getMethod("close").invoke(runner);
            } catch (ReflectiveOperationException error) {
                error.printStackTrace();
            }
        }));
        // A node never outlives who started it.
        ProcessHandle.current().parent().ifPresent(parent -> parent.onExit().thenRun(() -> System.exit(0)));
        String[] options = {"-basePath", args[1], "-numOfNode", "1"};
        runnerClass.getMethod("build", String[].class).invoke(runner, (Object) options);
        Thread.currentThread().join();
    }
}
