import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Files;
import org.apache.iceberg.StaticTableOperations;
import org.apache.iceberg.Table;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.ExpressionParser;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;

/** Plans one scan of a table several times, as Java Iceberg does it, and prints the seconds of each and the files. */
public class PlanningBenchmark {
  static class LocalIO implements FileIO {
    @Override
    public InputFile newInputFile(String path) {
      return Files.localInput(path);
    }

    @Override
    public OutputFile newOutputFile(String path) {
      return Files.localOutput(path);
    }

    @Override
    public void deleteFile(String path) {
      throw new UnsupportedOperationException();
    }
  }

  public static void main(String[] args) throws Exception {
    Table table = new BaseTable(new StaticTableOperations(args[0], new LocalIO()), "t");
    Expression filter = ExpressionParser.fromJson(args[1], table.schema());
    int rounds = Integer.parseInt(args[2]);
    List<String> seconds = new ArrayList<>();
    List<String> cpu = new ArrayList<>();
    OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    int files = 0;
    for (int round = 0; round < rounds; round++) {
      List<FileScanTask> tasks = new ArrayList<>();
      long startCpu = system.getProcessCpuTime();
      long start = System.nanoTime();
      try (CloseableIterable<FileScanTask> planned = table.newScan().filter(filter).planFiles()) {
        planned.forEach(tasks::add);
      }
      seconds.add(Double.toString((System.nanoTime() - start) / 1e9));
      cpu.add(Double.toString((system.getProcessCpuTime() - startCpu) / 1e9));
      files = tasks.size();
    }
    System.out.println(
        "{\"seconds\": [" + String.join(", ", seconds) + "], \"cpu\": [" + String.join(", ", cpu)
            + "], \"files\": " + files + "}");
  }
}
