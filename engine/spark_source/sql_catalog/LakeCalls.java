package icecore;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.classic.SparkSession;

/**
 * Questions to Python, as JSON. An answer is a Java object that Python had made, or JSON: a list, or an object with the
 * text of an `error`. What does not exist is null.
 *
 * Python puts the answer in the question's place, and returns nothing: a Java object that it returned could be let go of,
 * once its garbage is collected, before it was taken here, and would then be null.
 *
 * They are asked in threads of their own: the one that asks is in the midst of analysing a query, and the one of Python
 * that waits for it may hold what answering needs.
 */
public class LakeCalls {
  private static final int SECONDS = 600;
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final ExecutorService THREADS = Executors.newCachedThreadPool(new Daemons());

  private final SparkSession session;
  private final Function asked;

  public LakeCalls(SparkSession session, Function asked) {
    this.session = session;
    this.asked = asked;
  }

  public SparkSession session() {
    return session;
  }

  /** What Python answers to a question that reads; it must answer in time. */
  public Object ask(Object question) {
    return answer(text(question), SECONDS);
  }

  /**
   * A change, of which Python is told in an array, as it may have Java objects. It takes the time that it takes: where the
   * thread is interrupted its jobs are cancelled, but whether it was made is waited for.
   */
  public void change(Object[] question) {
    answer(question, Integer.MAX_VALUE);
  }

  private Object answer(Object question, int seconds) {
    Object found;
    try {
      found = awaited(new Question(session, asked, question), seconds);
    } catch (ExecutionException e) {
      throw new IllegalStateException("icecore did not answer: " + e.getCause(), e.getCause());
    } catch (TimeoutException e) {
      throw new IllegalStateException("icecore did not answer in " + seconds + " seconds");
    }
    if (!(found instanceof String)) return found;
    Object read = read((String) found);
    if (!(read instanceof Map)) return read;
    throw new IllegalArgumentException((String) ((Map) read).get("error"));
  }

  private static Object awaited(Question asking, int seconds) throws ExecutionException, TimeoutException {
    Future answer = THREADS.submit(asking);
    boolean isInterrupted = false;
    try {
      while (true) {
        try {
          return answer.get(isInterrupted ? 1 : seconds, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
          isInterrupted = true;
          if (!asking.isChange()) throw new IllegalStateException("interrupted while icecore was asked");
        } catch (TimeoutException e) {
          if (!isInterrupted) throw e;
        }
        // Those as well that began meanwhile.
        asking.cancelJobs();
      }
    } finally {
      if (isInterrupted) Thread.currentThread().interrupt();
    }
  }

  /** A value of maps, lists and texts as JSON. */
  public static String text(Object value) {
    try {
      return JSON.writeValueAsString(value);
    } catch (java.io.IOException e) {
      throw new IllegalStateException(e);
    }
  }

  /** The value that JSON has. */
  public static Object read(String text) {
    try {
      return JSON.readValue(text, Object.class);
    } catch (java.io.IOException e) {
      throw new IllegalStateException(e);
    }
  }

  /** One call of Python, with the session and the local properties of the thread that asks. */
  private static class Question implements Callable {
    private final SparkSession session;
    private final Function asked;
    private final Object question;
    private final Properties properties = new Properties();
    private final String tag = "icecore-" + UUID.randomUUID();

    Question(SparkSession session, Function asked, Object question) {
      this.session = session;
      this.asked = asked;
      this.question = question;
      Properties own = session.sparkContext().getLocalProperties();
      if (own != null) this.properties.putAll(own);
    }

    boolean isChange() {
      return question instanceof Object[];
    }

    void cancelJobs() {
      session.sparkContext().cancelJobsWithTag(tag);
    }

    public Object call() {
      session.sparkContext().setLocalProperties(properties);
      session.sparkContext().addJobTag(tag);
      SparkSession.setActiveSession(session);
      AtomicReference place = new AtomicReference(question);
      asked.apply(place);
      return place.get();
    }
  }

  /** Threads that keep no driver alive. */
  private static class Daemons implements ThreadFactory {
    public Thread newThread(Runnable r) {
      Thread out = new Thread(r, "icecore-catalog");
      out.setDaemon(true);
      return out;
    }
  }
}
