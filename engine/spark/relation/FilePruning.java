package icecore;

import java.util.Arrays;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import scala.collection.immutable.Seq;

/**
 * The choice of files by a query's filters, which Python makes: it plans again. Where it does not answer, or too late,
 * all files are read, since Spark applies the filters to rows anyway.
 */
public class FilePruning {
  private static final int SECONDS = 20;
  private static final ExecutorService THREADS = Executors.newCachedThreadPool(new Daemons());

  private final Function asked;
  private String lastText;
  private String lastAnswer;

  /** `asked` takes a filter as `FilterText` has it and gives a 1 or a 0 for each file, or an empty text for all. */
  public FilePruning(Function asked) {
    this.asked = asked;
  }

  /** Those of the chosen files that may hold rows of the filters. */
  public int[] pruned(int[] chosen, int count, Seq filters) {
    String answer;
    try {
      answer = answer(FilterText.of(filters));
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

  private synchronized String answer(String text) throws Exception {
    if (!text.equals(lastText)) {
      // A planner that does not answer is waited for once, not in each query.
      lastText = text;
      lastAnswer = null;
      // In a thread of its own: the one of Python that waits for this query may hold what planning needs.
      lastAnswer = (String) THREADS.submit(new Question(asked, text)).get(SECONDS, TimeUnit.SECONDS);
    }
    return lastAnswer;
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
