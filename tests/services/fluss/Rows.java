// Prints the rows of a table as Fluss's Java client reads them, one a line, cells divided by tabs.
// usage: java -cp JARS Rows.java BOOTSTRAP DATABASE TABLE (log|keys)
// `log` reads the log from its first to its present end, with the change type in front of each row; `keys` the rows of a
// primary-key table. Times are milliseconds and nanoseconds in them, floats their bits, bytes hexadecimal.

import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import org.apache.fluss.client.Connection;
import org.apache.fluss.client.ConnectionFactory;
import org.apache.fluss.client.admin.OffsetSpec;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.scanner.ScanRecord;
import org.apache.fluss.config.Configuration;
import org.apache.fluss.metadata.PartitionInfo;
import org.apache.fluss.metadata.TableBucket;
import org.apache.fluss.metadata.TableInfo;
import org.apache.fluss.metadata.TablePath;
import org.apache.fluss.row.InternalArray;
import org.apache.fluss.row.InternalMap;
import org.apache.fluss.row.InternalRow;
import org.apache.fluss.row.TimestampLtz;
import org.apache.fluss.row.TimestampNtz;
import org.apache.fluss.types.ArrayType;
import org.apache.fluss.types.DataType;
import org.apache.fluss.types.MapType;
import org.apache.fluss.types.RowType;

public class Rows {
    public static void main(String[] args) throws Exception {
        Configuration conf = new Configuration();
        conf.setString("bootstrap.servers", args[0]);
        TablePath path = TablePath.of(args[1], args[2]);
        boolean log = args[3].equals("log");
        try (Connection connection = ConnectionFactory.createConnection(conf);
                Table table = connection.getTable(path)) {
            TableInfo info = table.getTableInfo();
            List<Integer> buckets = new ArrayList<>();
            for (int bucket = 0; bucket < info.getNumBuckets(); bucket++) {
                buckets.add(bucket);
            }
            if (!info.isPartitioned()) {
                Map<Integer, Long> ends = connection.getAdmin().listOffsets(path, buckets, new OffsetSpec.LatestSpec()).all().get();
                print(table, info, null, ends, log);
                return;
            }
            for (PartitionInfo partition : connection.getAdmin().listPartitionInfos(path).get()) {
                Map<Integer, Long> ends = connection.getAdmin()
                        .listOffsets(path, partition.getPartitionName(), buckets, new OffsetSpec.LatestSpec()).all().get();
                print(table, info, partition.getPartitionId(), ends, log);
            }
        }
    }

    static void print(Table table, TableInfo info, Long partition, Map<Integer, Long> ends, boolean log) throws Exception {
        for (Map.Entry<Integer, Long> end : ends.entrySet()) {
            if (end.getValue() == 0) {
                continue;
            }
            TableBucket bucket = new TableBucket(info.getTableId(), partition, end.getKey());
            if (log) {
                printLog(table, info, bucket, end.getValue());
            } else {
                printKeys(table, info, bucket);
            }
        }
    }

    static void printLog(Table table, TableInfo info, TableBucket bucket, long end) throws Exception {
        try (var scanner = table.newScan().createLogScanner()) {
            if (bucket.getPartitionId() == null) {
                scanner.subscribeFromBeginning(bucket.getBucket());
            } else {
                scanner.subscribeFromBeginning(bucket.getPartitionId(), bucket.getBucket());
            }
            long reached = 0;
            while (reached < end) {
                for (ScanRecord record : scanner.poll(Duration.ofSeconds(1))) {
                    System.out.println(record.getChangeType().shortString() + "\t" + text(record.getRow(), info.getRowType()));
                    reached = record.logOffset() + 1;
                }
            }
        }
    }

    static void printKeys(Table table, TableInfo info, TableBucket bucket) throws Exception {
        try (var scanner = table.newScan().limit(10_000_000).createBatchScanner(bucket)) {
            while (true) {
                var rows = scanner.pollBatch(Duration.ofSeconds(30));
                if (rows == null) {
                    return;
                }
                while (rows.hasNext()) {
                    System.out.println(text(rows.next(), info.getRowType()));
                }
            }
        }
    }

    static String text(InternalRow row, RowType type) {
        StringJoiner cells = new StringJoiner("\t");
        for (int i = 0; i < type.getFieldCount(); i++) {
            cells.add(text(InternalRow.createFieldGetter(type.getTypeAt(i), i).getFieldOrNull(row), type.getTypeAt(i)));
        }
        return cells.toString();
    }

    static String text(Object value, DataType type) {
        if (value == null) {
            return "null";
        }
        if (value instanceof TimestampNtz time) {
            return time.getMillisecond() + ":" + time.getNanoOfMillisecond();
        }
        if (value instanceof TimestampLtz time) {
            return time.getEpochMillisecond() + ":" + time.getNanoOfMillisecond();
        }
        if (value instanceof Float number) {
            return Integer.toUnsignedString(Float.floatToRawIntBits(number), 16);
        }
        if (value instanceof Double number) {
            return Long.toUnsignedString(Double.doubleToRawLongBits(number), 16);
        }
        if (value instanceof byte[] bytes) {
            return HexFormat.of().formatHex(bytes);
        }
        if (value instanceof InternalArray array) {
            return text(array, ((ArrayType) type).getElementType());
        }
        if (value instanceof InternalMap map) {
            MapType of = (MapType) type;
            return text(map.keyArray(), of.getKeyType()) + text(map.valueArray(), of.getValueType());
        }
        if (value instanceof InternalRow row) {
            return "(" + text(row, (RowType) type).replace("\t", ",") + ")";
        }
        return value.toString();
    }

    static String text(InternalArray array, DataType element) {
        StringJoiner items = new StringJoiner(",", "[", "]");
        for (int i = 0; i < array.size(); i++) {
            items.add(text(InternalArray.createElementGetter(element).getElementOrNull(array, i), element));
        }
        return items.toString();
    }
}
