package icecore;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import scala.collection.immutable.Seq;

/**
 * The choice of files by a query's filters, which Python makes: it plans again, and may then know aggregates of the rows.
 * Where it does not answer, or too late, all files are read, since Spark applies the filters to rows anyway.
 */
public class FilePruning {
  private static final int SECONDS = 20;
  private static final ExecutorService THREADS = Executors.newCachedThreadPool(new Daemons());

  private final Function asked;
  private final boolean isFiltered;
  private final Last files = new Last();
  private final Last joined = new Last();
  private final Last aggregates = new Last();

  /**
   * `asked` takes a filter as `FilterText` has it and gives a 1 or a 0 for each file, or an empty text for all.
   *
   * Below the filter may stand a line of aggregates, as min:6964 of a column whose name is given in hexadecimal, or count:
   * of rows. Then it gives their answers, + and the text in hexadecimal or - for null, or an empty text.
   *
   * `isFiltered` says whether the files are chosen by the query's own filters already.
   */
  public FilePruning(Function asked, boolean isFiltered) {
    this.asked = asked;
    this.isFiltered = isFiltered;
  }

  /** Those of the chosen files that may hold rows of the filters. */
  public int[] pruned(int[] chosen, int count, Seq filters) {
    if (isFiltered) return chosen;
    String answer;
    try {
      answer = answer(files, FilterText.of(filters));
    } catch (Exception e) {
      return chosen;
    } catch (StackOverflowError e) {
      return chosen;
    }
    if (answer == null || answer.length() != count) return chosen;
    int[] out = new int[chosen.length];
    int kept = 0;
    for (int k = 0; k < chosen.length; k++) if (answer.charAt(chosen[k]) != '0') out[kept++] = chosen[k];
    return Arrays.copyOf(out, kept);
  }

  /** Whether each of the files may hold rows of a filter that is met while a query runs; null where that is not known. */
  public BitSet joined(int count, String filter) {
    String answer;
    try {
      answer = answer(joined, filter);
    } catch (Exception e) {
      return null;
    }
    if (answer == null || answer.length() != count) return null;
    BitSet out = new BitSet(count);
    for (int i = 0; i < count; i++) if (answer.charAt(i) != '0') out.set(i);
    return out;
  }

  /** The answers to aggregates, as `KnownAggregates.Source` has it. */
  public List answers(String filter, List questions) {
    StringBuilder text = new StringBuilder(filter).append('\n');
    for (int i = 0; i < questions.size(); i++) {
      List question = (List) questions.get(i);
      if (i > 0) text.append(' ');
      text.append(question.get(0)).append(':');
      if (question.get(1) != null) text.append(FilterText.hex((String) question.get(1)));
    }
    try {
      String answer = answer(aggregates, text.toString());
      String[] told = answer == null ? new String[0] : answer.split(" ");
      if (told.length != questions.size()) return null;
      ArrayList out = new ArrayList();
      for (int i = 0; i < told.length; i++) {
        if (told[i].charAt(0) == '+') out.add(text(told[i]));
        else if (told[i].equals("-")) out.add(null);
        else return null;
      }
      return out;
    } catch (Exception e) {
      return null;
    }
  }

  private static String text(String told) {
    byte[] bytes = new byte[told.length() / 2];
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = (byte) Integer.parseInt(told.substring(2 * i + 1, 2 * i + 3), 16);
    }
    return new String(bytes, StandardCharsets.UTF_8);
  }

  private synchronized String answer(Last last, String text) throws Exception {
    if (!text.equals(last.text)) {
      // A planner that does not answer is waited for once, not in each query.
      last.text = text;
      last.answer = null;
      try {
        // In a thread of its own: the one of Python that waits for this query may hold what planning needs.
        last.answer = (String) THREADS.submit(new Question(asked, text)).get(SECONDS, TimeUnit.SECONDS);
      } catch (InterruptedException e) {
        // The query is to end, as when a stream is stopped; the next one asks again.
        last.text = null;
        Thread.currentThread().interrupt();
        throw e;
      }
    }
    return last.answer;
  }

  /** The question that was asked last, with its answer. */
  private static class Last {
    private String text;
    private String answer;
  }

  /** One call of Python. */
  private static class Question implements Callable {
    private final Function asked;
    private final String text;

    Question(Function asked, String text) {
      this.asked = asked;
      this.text = text;
    }

    public Object call() {
      return asked.apply(text);
    }
  }

  /** Threads that keep no driver alive. */
  private static class Daemons implements ThreadFactory {
    public Thread newThread(Runnable r) {
      Thread out = new Thread(r, "icecore-file-pruning");
      out.setDaemon(true);
      return out;
    }
  }
}
