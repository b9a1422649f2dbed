import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

/** Reads lines "class version hex" and writes each message in every version it has: "version=hex version=refused ...". */
public class Messages {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ", -1);
            Message message = (Message) Class.forName(parts[0]).getDeclaredConstructor().newInstance();
            ByteBufferAccessor data = new ByteBufferAccessor(ByteBuffer.wrap(HexFormat.of().parseHex(parts[2])));
            message.read(data, Short.parseShort(parts[1]));
            StringBuilder answer = new StringBuilder("left=" + data.remaining());
            for (int version = message.lowestSupportedVersion(); version <= message.highestSupportedVersion(); version++) {
                answer.append(' ').append(version).append('=').append(written(message, (short) version));
            }
            System.out.println(answer);
        }
    }

    private static String written(Message message, short version) {
        try {
            ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
            byte[] bytes = new byte[buffer.remaining()];
            buffer.get(bytes);
            return HexFormat.of().formatHex(bytes);
        } catch (UnsupportedVersionException refusal) {
            return "unsupported";
        } catch (RuntimeException refusal) {
            return "refused";
        }
    }
}
