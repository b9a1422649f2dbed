import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Scanner;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's tools one after the other in one Java machine. Each line of standard input is a class name, its standard
 * input, and its arguments, in base 64 and parted by blanks; each line of output is the exit status and what the tool
 * wrote to standard output and to standard error, likewise. What a tool leaves to the end of the machine, as the console
 * producer leaves its flush, is done at the end of the tool.
 */
public final class Tools {
    private static final class Ended extends RuntimeException {
        final int status;

        Ended(int status) {
            super(null, null, false, false);
            this.status = status;
        }
    }

    private static Ended ended;

    /** Some tools catch what ends them and end again: the first end counts, and nothing is heard of them after it. */
    private static void end(int status, String ignored) {
        if (ended == null) {
            ended = new Ended(status);
            System.out.flush();
            System.err.flush();
            System.setOut(new PrintStream(OutputStream.nullOutputStream()));
            System.setErr(new PrintStream(OutputStream.nullOutputStream()));
        }
        throw ended;
    }

    public static void main(String[] ignored) throws Exception {
        Exit.setExitProcedure(Tools::end);
        Exit.setHaltProcedure(Tools::end);
        List<Runnable> hooks = new ArrayList<>();
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        PrintStream answers = System.out;
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8).useDelimiter("\n");
        while (lines.hasNext()) {
            String[] order = Arrays.stream(lines.next().split(" ")).map(Tools::decoded).toArray(String[]::new);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream(order[1].getBytes(StandardCharsets.UTF_8)));
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            ended = null;
            int status = run(order[0], Arrays.copyOfRange(order, 2, order.length));
            hooks.forEach(Runnable::run);
            hooks.clear();
            System.out.flush();
            System.err.flush();
            answers.println(status + " " + encoded(out) + " " + encoded(err));
            answers.flush();
        }
    }

    private static int run(String tool, String[] arguments) throws Exception {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return ended == null ? 0 : ended.status;
        } catch (InvocationTargetException thrown) {
            if (ended != null) {
                return ended.status;
            }
            thrown.getCause().printStackTrace();
            return 1;
        }
    }

    private static String decoded(String text) {
        return new String(Base64.getDecoder().decode(text.substring(1)), StandardCharsets.UTF_8);
    }

    private static String encoded(ByteArrayOutputStream bytes) {
        return "=" + Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
}
