package org.apache.iceberg.data;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.ExpireSnapshots;
import org.apache.iceberg.ManageSnapshots;
import org.apache.iceberg.Table;
import org.apache.iceberg.Transaction;
import org.apache.iceberg.UpdatePartitionSpec;
import org.apache.iceberg.UpdateProperties;
import org.apache.iceberg.UpdateSchema;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.expressions.Term;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;

/** Commits that change no rows, or move references: schema, spec, properties, manifests, snapshots. */
final class ShapeCommits {
  private ShapeCommits() {}

  static JsonNode commit(Table table, String op, JsonNode q) {
    switch (op) {
      case "rewrite_manifests":
        table.rewriteManifests().clusterBy(file -> file.partition().toString()).commit();
        break;
      case "expire":
        expire(table, q);
        break;
      case "refs":
        refs(table.manageSnapshots(), q);
        break;
      case "schema":
        schema(table.updateSchema(), q);
        break;
      case "spec":
        spec(table.updateSpec(), q);
        break;
      case "properties":
        properties(table.updateProperties(), q);
        break;
      case "transaction":
        Transaction t = table.newTransaction();
        properties(t.updateProperties(), q);
        schema(t.updateSchema(), q);
        spec(t.updateSpec(), q);
        t.commitTransaction();
        break;
      default:
        throw new IllegalArgumentException("no such command: " + q);
    }
    return FuzzPeer.NODES.nullNode();
  }

  private static void expire(Table table, JsonNode q) {
    ExpireSnapshots expire = table.expireSnapshots().cleanExpiredFiles(q.path("clean").asBoolean(true));
    q.get("ids").forEach(id -> expire.expireSnapshotId(id.asLong()));
    expire.commit();
  }

  private static void refs(ManageSnapshots manage, JsonNode q) {
    for (JsonNode e : q.get("edits")) {
      String name = e.path("name").asText();
      switch (e.get("do").asText()) {
        case "create_branch":
          manage.createBranch(name, e.get("snapshot").asLong());
          break;
        case "create_tag":
          manage.createTag(name, e.get("snapshot").asLong());
          break;
        case "remove_branch":
          manage.removeBranch(name);
          break;
        case "remove_tag":
          manage.removeTag(name);
          break;
        case "rename_branch":
          manage.renameBranch(name, e.get("to").asText());
          break;
        case "replace_branch":
          manage.replaceBranch(name, e.get("snapshot").asLong());
          break;
        case "replace_tag":
          manage.replaceTag(name, e.get("snapshot").asLong());
          break;
        case "fast_forward":
          manage.fastForwardBranch(name, e.get("to").asText());
          break;
        case "rollback":
          manage.rollbackTo(e.get("snapshot").asLong());
          break;
        case "set_current":
          manage.setCurrentSnapshot(e.get("snapshot").asLong());
          break;
        case "cherry_pick":
          manage.cherrypick(e.get("snapshot").asLong());
          break;
        default:
          throw new IllegalArgumentException("no such change: " + e);
      }
    }
    manage.commit();
  }

  private static void schema(UpdateSchema update, JsonNode q) {
    for (JsonNode e : q.path("schema")) {
      String name = e.path("name").asText();
      switch (e.get("do").asText()) {
        case "add":
          Type type = Types.fromPrimitiveString(e.get("type").asText());
          update.addColumn(name, type);
          break;
        case "rename":
          update.renameColumn(name, e.get("to").asText());
          break;
        case "drop":
          update.deleteColumn(name);
          break;
        case "promote":
          update.updateColumn(name, Types.fromPrimitiveString(e.get("type").asText()).asPrimitiveType());
          break;
        case "first":
          update.moveFirst(name);
          break;
        case "after":
          update.moveAfter(name, e.get("to").asText());
          break;
        default:
          throw new IllegalArgumentException("no such change: " + e);
      }
    }
    update.commit();
  }

  private static void spec(UpdatePartitionSpec update, JsonNode q) {
    for (JsonNode e : q.path("spec")) {
      if (e.get("do").asText().equals("remove")) {
        update.removeField(e.get("name").asText());
      } else {
        update.addField(e.get("name").asText(), term(e));
      }
    }
    update.commit();
  }

  private static Term term(JsonNode e) {
    String column = e.get("column").asText();
    switch (e.get("transform").asText()) {
      case "identity":
        return Expressions.ref(column);
      case "bucket":
        return Expressions.bucket(column, e.get("width").asInt());
      case "truncate":
        return Expressions.truncate(column, e.get("width").asInt());
      case "year":
        return Expressions.year(column);
      case "month":
        return Expressions.month(column);
      case "day":
        return Expressions.day(column);
      default:
        throw new IllegalArgumentException("no such transform: " + e);
    }
  }

  private static void properties(UpdateProperties update, JsonNode q) {
    q.path("set").fields().forEachRemaining(e -> update.set(e.getKey(), e.getValue().asText()));
    q.path("remove").forEach(e -> update.remove(e.asText()));
    update.commit();
  }
}
