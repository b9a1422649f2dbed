import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.service.Service;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.nodemanager.NodeManager;
import org.apache.hadoop.yarn.server.resourcemanager.ResourceManager;

/**
 * The servers of Hadoop that the arguments name, in one Java machine: format, namenode, datanode, resourcemanager,
 * nodemanager. Says READY when they run, and ends when its standard input does, so that it outlives no test.
 */
public final class HadoopNode {
    public static void main(String[] arguments) {
        try {
            run(Arrays.asList(arguments));
            System.out.println("READY");
            while (System.in.read() >= 0) {
            }
        } catch (Throwable failure) {
            failure.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        Runtime.getRuntime().halt(0);
    }

    private static void run(List<String> roles) throws Exception {
        DefaultMetricsSystem.setMiniClusterMode(true); // a format registers what the namenode then registers, too
        Configuration hdfs = new HdfsConfiguration();
        if (roles.contains("format")) {
            NameNode.format(hdfs);
        }
        if (roles.contains("namenode")) {
            NameNode.createNameNode(new String[0], hdfs);
        }
        if (roles.contains("datanode")) {
            DataNode node = DataNode.createDataNode(new String[0], hdfs);
            while (!node.isDatanodeFullyStarted()) {
                Thread.sleep(20);
            }
        }
        if (roles.contains("resourcemanager")) {
            started(new ResourceManager());
        }
        if (roles.contains("nodemanager")) {
            started(new NodeManager());
        }
    }

    private static void started(Service service) {
        service.init(new YarnConfiguration());
        service.start();
    }
}
