package org.apache.iceberg.data;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;
import org.apache.iceberg.Schema;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.ByteBuffers;

/** Values of rows as JSON: structs and lists as arrays, times as ISO text, bytes as hex, NaN as "NaN". */
final class Values {
  private Values() {}

  static List<Record> rows(Schema schema, JsonNode rows) {
    List<Record> out = new ArrayList<>();
    if (rows != null) {
      rows.forEach(row -> out.add(record(schema.asStruct(), row)));
    }
    return out;
  }

  static Record record(Types.StructType type, JsonNode row) {
    Record record = GenericRecord.create(type);
    for (int i = 0; i < type.fields().size(); i++) {
      record.set(i, value(type.fields().get(i).type(), row.get(i)));
    }
    return record;
  }

  static Object value(Type type, JsonNode v) {
    if (v == null || v.isNull()) {
      return null;
    }
    switch (type.typeId()) {
      case BOOLEAN:
        return v.asBoolean();
      case INTEGER:
        return v.intValue();
      case LONG:
        return v.longValue();
      case FLOAT:
        return v.isTextual() ? Float.parseFloat(v.asText()) : (Object) v.floatValue();
      case DOUBLE:
        return v.isTextual() ? Double.parseDouble(v.asText()) : (Object) v.doubleValue();
      case STRING:
        return v.asText();
      case DATE:
        return LocalDate.parse(v.asText());
      case TIMESTAMP:
        return LocalDateTime.parse(v.asText());
      case DECIMAL:
        return new BigDecimal(v.asText()).setScale(((Types.DecimalType) type).scale());
      case BINARY:
        return ByteBuffer.wrap(bytes(v.asText()));
      case STRUCT:
        return record(type.asStructType(), v);
      case LIST:
        List<Object> out = new ArrayList<>();
        v.forEach(e -> out.add(value(type.asListType().elementType(), e)));
        return out;
      default:
        throw new UnsupportedOperationException(type.toString());
    }
  }

  static JsonNode json(Type type, Object v) {
    if (v == null) {
      return FuzzPeer.NODES.nullNode();
    }
    switch (type.typeId()) {
      case BOOLEAN:
        return FuzzPeer.NODES.booleanNode((Boolean) v);
      case INTEGER:
      case LONG:
        return FuzzPeer.NODES.numberNode(((Number) v).longValue());
      case FLOAT:
      case DOUBLE:
        double d = ((Number) v).doubleValue();
        return Double.isNaN(d) ? FuzzPeer.NODES.textNode("NaN") : FuzzPeer.NODES.numberNode(d);
      case DECIMAL:
        return FuzzPeer.NODES.textNode(((BigDecimal) v).toPlainString());
      case BINARY:
        StringBuilder hex = new StringBuilder();
        for (byte b : ByteBuffers.toByteArray((ByteBuffer) v)) {
          hex.append(String.format("%02x", b));
        }
        return FuzzPeer.NODES.textNode(hex.toString());
      case STRUCT:
        return json(type.asStructType(), (StructLike) v);
      case LIST:
        ArrayNode out = FuzzPeer.NODES.arrayNode();
        ((List<?>) v).forEach(e -> out.add(json(type.asListType().elementType(), e)));
        return out;
      default:
        return FuzzPeer.NODES.textNode(v.toString());
    }
  }

  static ArrayNode json(Types.StructType type, StructLike row) {
    ArrayNode out = FuzzPeer.NODES.arrayNode();
    for (int i = 0; i < type.fields().size(); i++) {
      out.add(json(type.fields().get(i).type(), row.get(i, Object.class)));
    }
    return out;
  }

  private static byte[] bytes(String hex) {
    byte[] out = new byte[hex.length() / 2];
    for (int i = 0; i < out.length; i++) {
      out[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
    }
    return out;
  }
}
