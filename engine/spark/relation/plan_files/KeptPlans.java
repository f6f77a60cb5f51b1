package icecore;

import java.lang.ref.SoftReference;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The files of the plans that were used last, by their keys: so many as have no more than `mostFiles`, as long as the JVM
 * has memory for them.
 */
public class KeptPlans {
  private final int mostFiles;
  private final LinkedHashMap plans = new LinkedHashMap(16, 0.75f, true);

  public KeptPlans(int mostFiles) {
    this.mostFiles = mostFiles;
  }

  /** The files of a plan, null where they are not kept. */
  public synchronized PlanFiles get(String key) {
    SoftReference found = (SoftReference) plans.get(key);
    return found == null ? null : (PlanFiles) found.get();
  }

  /** Keeps the files of a plan, and lets those go that were not used for longest. */
  public synchronized void keep(PlanFiles files) {
    if (files.count() > mostFiles) return;
    plans.put(files.key(), new SoftReference(files));
    int count = 0;
    ArrayList used = new ArrayList(plans.entrySet());
    for (int i = used.size() - 1; i >= 0; i--) {
      Map.Entry e = (Map.Entry) used.get(i);
      PlanFiles kept = (PlanFiles) ((SoftReference) e.getValue()).get();
      if (kept != null) count += kept.count();
      if (kept == null || count > mostFiles) plans.remove(e.getKey());
    }
  }
}
