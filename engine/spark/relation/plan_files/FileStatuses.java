package icecore;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Arrays;
import java.util.HashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;

/**
 * What file systems say of planned files, asked in parallel and once for each: with a size that is too small Spark would
 * leave out row groups without a word.
 */
public class FileStatuses {
  private static final int THREADS = 32;
  private static final int ALONE = 16;
  private static final String HIVES = "org.apache.hadoop.hive.ql.io.ProxyLocalFileSystem";

  private final SparkSession session;
  private final PlanFiles files;
  private final FileStatus[] known;

  public FileStatuses(SparkSession session, PlanFiles files) {
    this.session = session;
    this.files = files;
    this.known = new FileStatus[files.count()];
  }

  /** The statuses of those of the files, in their order. */
  public synchronized FileStatus[] of(int[] wanted) {
    find(wanted);
    FileStatus[] out = new FileStatus[wanted.length];
    for (int k = 0; k < out.length; k++) out[k] = known[wanted[k]];
    return out;
  }

  private void find(int[] wanted) {
    int[] missing = new int[wanted.length];
    int count = 0;
    for (int k = 0; k < wanted.length; k++) if (known[wanted[k]] == null) missing[count++] = wanted[k];
    if (count == 0) return;
    Finder finder = new Finder(Arrays.copyOf(missing, count), session.sessionState().newHadoopConf());
    Thread[] threads = new Thread[count <= ALONE ? 0 : Math.min(THREADS, count / ALONE)];
    for (int i = 0; i < threads.length; i++) {
      threads[i] = new Thread(finder, "icecore-file-status-" + i);
      threads[i].setDaemon(true);
      threads[i].start();
    }
    finder.run();
    try {
      for (int i = 0; i < threads.length; i++) threads[i].join();
    } catch (InterruptedException e) {
      finder.stop();
      Thread.currentThread().interrupt();
      throw new RuntimeException("interrupted while looking for planned files");
    }
    finder.check();
  }

  /**
   * Whether it is the file system of this host itself. Of the two classes for it, which differ in how files are renamed,
   * Hadoop takes the one that it comes upon last.
   */
  public static boolean isLocal(FileSystem system) {
    return system.getClass() == LocalFileSystem.class || system.getClass().getName().equals(HIVES);
  }

  /** Finds statuses of files, in as many threads as run it. */
  private class Finder implements Runnable {
    private final int[] wanted;
    private final Path[] found;
    private final FileSystem[] systems;
    private final FileSystem local;
    private final long localBlock;
    private final AtomicInteger next = new AtomicInteger();
    private volatile IOException failure;
    private volatile boolean stopped;

    Finder(int[] wanted, Configuration conf) {
      this.wanted = wanted;
      this.found = new Path[wanted.length];
      this.systems = new FileSystem[wanted.length];
      // Opened by the thread that asks, since Hadoop keeps file systems by user.
      HashMap opened = new HashMap();
      FileSystem system = null;
      String before = null;
      FileSystem here = null;
      try {
        for (int k = 0; k < wanted.length; k++) {
          found[k] = files.path(wanted[k]);
          String home = found[k].toUri().getScheme() + "://" + found[k].toUri().getAuthority();
          if (!home.equals(before)) {
            if (!opened.containsKey(home)) opened.put(home, found[k].getFileSystem(conf));
            system = (FileSystem) opened.get(home);
            before = home;
            if (isLocal(system)) here = system;
          }
          systems[k] = system;
        }
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
      this.local = here;
      this.localBlock = here == null ? 0L : here.getDefaultBlockSize(new Path("/"));
    }

    public void run() {
      try {
        for (int k = next.getAndIncrement(); k < wanted.length && !stopped; k = next.getAndIncrement()) {
          known[wanted[k]] = status(systems[k], found[k]);
        }
      } catch (IOException e) {
        failure = e;
        stopped = true;
      } catch (RuntimeException e) {
        failure = new IOException(e);
        stopped = true;
      }
    }

    /** As the file system gives it; of a local disk by one call, which takes a fifth of the CPU. */
    private FileStatus status(FileSystem system, Path path) throws IOException {
      if (system != local) return system.getFileStatus(path);
      try {
        BasicFileAttributes a = Files.readAttributes(
            new File(path.toUri().getPath()).toPath(), BasicFileAttributes.class, new LinkOption[0]);
        return new FileStatus(a.size(), a.isDirectory(), 1, localBlock, a.lastModifiedTime().toMillis(), path);
      } catch (NoSuchFileException e) {
        throw new FileNotFoundException("File " + path + " does not exist");
      }
    }

    void stop() {
      stopped = true;
    }

    void check() {
      if (failure instanceof FileNotFoundException) {
        throw new IllegalStateException(
            "a file of this DataFrame's plan is gone, as after its snapshot expired: plan again; where a new plan says so too,"
                + " the table lacks it, as `icecore verify` tells (" + failure.getMessage() + ")",
            failure);
      }
      if (failure != null) throw new UncheckedIOException(failure);
    }
  }
}
