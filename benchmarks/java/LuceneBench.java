import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintStream;
import java.io.Reader;
import java.io.StringReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.en.EnglishAnalyzer;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
import org.apache.lucene.analysis.tokenattributes.PositionIncrementAttribute;
import org.apache.lucene.document.BinaryDocValuesField;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.StoredField;
import org.apache.lucene.document.StringField;
import org.apache.lucene.document.TextField;
import org.apache.lucene.index.BinaryDocValues;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.DocValues;
import org.apache.lucene.index.IndexReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.LeafReader;
import org.apache.lucene.index.LogDocMergePolicy;
import org.apache.lucene.index.SerialMergeScheduler;
import org.apache.lucene.queryparser.classic.QueryParser;
import org.apache.lucene.search.BooleanClause;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.search.similarities.BM25Similarity;
import org.apache.lucene.store.FSDirectory;
import org.apache.lucene.util.Version;

/**
 * Lucene timed inside its own virtual machine: no bridge, one thread's own clock, no query cache.
 *
 * <p>Uses only what Lucene 8, 9 and 10 share. Files are UTF-8, one record a line; inside a record a
 * backslash, tab, newline and carriage return are written \\ \t \n \r.
 *
 * <pre>
 *   LuceneBench index   RECORDS OUT THREADS           records are id TAB title TAB text
 *   LuceneBench search  INDEX QUERIES K REPEATS WARMUP
 *   LuceneBench analyze TEXTS                         one text a line
 *   LuceneBench like    INDEX SETS                    k TAB text TAB text ... a line; needs lucene-queries too
 * </pre>
 *
 * Results go to standard output as JSON lines.
 */
public final class LuceneBench {
  private static final ThreadMXBean CLOCK = ManagementFactory.getThreadMXBean();
  private static final double RAM_BUFFER_MB = 256;

  public static void main(String[] args) throws Exception {
    PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    String command = args.length == 0 ? "" : args[0];
    if (command.equals("index") && args.length == 4) {
      out.println(index(Path.of(args[1]), Path.of(args[2]), Integer.parseInt(args[3])));
    } else if (command.equals("search") && args.length == 6) {
      search(Path.of(args[1]), Path.of(args[2]), Integer.parseInt(args[3]), Integer.parseInt(args[4]),
          Integer.parseInt(args[5]), out);
    } else if (command.equals("analyze") && args.length == 2) {
      analyze(Path.of(args[1]), out);
    } else if (command.equals("like") && args.length == 3) {
      like(Path.of(args[1]), Path.of(args[2]), out);
    } else {
      System.err.println("expected: index RECORDS OUT THREADS | search INDEX QUERIES K REPEATS WARMUP | analyze TEXTS"
          + " | like INDEX SETS");
      System.exit(2);
    }
    out.flush();
  }

  static Analyzer analyzer() {
    return new StandardAnalyzer(EnglishAnalyzer.ENGLISH_STOP_WORDS_SET);
  }

  /** The document of one passage: contents is title, newline, text; no title, no title field. */
  static Document document(String id, String title, String text) {
    Document document = new Document();
    document.add(new StringField("id", id, Field.Store.YES));
    document.add(new BinaryDocValuesField("id", new org.apache.lucene.util.BytesRef(id)));
    document.add(new StoredField("text", text));
    if (title.isEmpty()) {
      document.add(new TextField("contents", text, Field.Store.NO));
    } else {
      document.add(new TextField("title", title, Field.Store.YES));
      document.add(new TextField("contents", title + "\n" + text, Field.Store.NO));
    }
    return document;
  }

  /** An empty index's writer; adjacent segments are merged, so one thread keeps the passages' order. */
  static IndexWriter writer(Path out, int threads) throws IOException {
    IndexWriterConfig config = new IndexWriterConfig(analyzer());
    config.setSimilarity(new BM25Similarity(1.2f, 0.75f));
    config.setOpenMode(IndexWriterConfig.OpenMode.CREATE);
    config.setRAMBufferSizeMB(RAM_BUFFER_MB);
    config.setMergePolicy(new LogDocMergePolicy());
    config.setUseCompoundFile(false);
    if (threads == 1) {
      config.setMergeScheduler(new SerialMergeScheduler()); // so that this thread's clock sees all the work
    }
    return new IndexWriter(FSDirectory.open(out), config);
  }

  static String index(Path records, Path out, int threads) throws Exception {
    long wall = System.nanoTime();
    long cpu = CLOCK.getCurrentThreadCpuTime();
    long process = processCpu();
    long passages;
    try (BufferedReader reader = Files.newBufferedReader(records); IndexWriter writer = writer(out, threads)) {
      passages = threads == 1 ? addAll(reader, writer) : addAll(reader, writer, threads);
      writer.forceMerge(1);
      writer.commit();
    }
    double bytes = 0;
    try (var files = Files.list(out)) {
      for (Path file : (Iterable<Path>) files::iterator) {
        bytes += Files.size(file);
      }
    }
    return "{\"lucene\": " + json(Version.LATEST.toString()) + ", \"passages\": " + passages
        + ", \"threads\": " + threads + ", \"wall_seconds\": " + (System.nanoTime() - wall) / 1e9
        + ", \"thread_cpu_seconds\": " + (CLOCK.getCurrentThreadCpuTime() - cpu) / 1e9
        + ", \"process_cpu_seconds\": " + (processCpu() - process) / 1e9
        + ", \"bytes\": " + (long) bytes + "}";
  }

  private static long addAll(BufferedReader reader, IndexWriter writer) throws IOException {
    long passages = 0;
    for (String line; (line = reader.readLine()) != null; passages++) {
      writer.addDocument(document(line));
    }
    return passages;
  }

  /** The usual way with several cores: the order of passages, and so of ties, is not kept. */
  private static long addAll(BufferedReader reader, IndexWriter writer, int threads)
      throws IOException, InterruptedException, ExecutionException {
    String end = new String("end"); // an identity, not a value: no record is this object
    BlockingQueue<String> queue = new ArrayBlockingQueue<>(4096);
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    List<Future<Void>> workers = new ArrayList<>();
    for (int i = 0; i < threads; i++) {
      workers.add(pool.submit(() -> {
        for (String line; (line = queue.take()) != end; ) {
          writer.addDocument(document(line));
        }
        return null;
      }));
    }
    pool.shutdown();
    long passages = 0;
    for (String line; (line = reader.readLine()) != null; passages++) {
      while (!queue.offer(line, 1, TimeUnit.SECONDS)) {
        throwIfFailed(workers);
      }
    }
    for (int i = 0; i < threads; i++) {
      while (!queue.offer(end, 1, TimeUnit.SECONDS)) {
        throwIfFailed(workers);
      }
    }
    for (Future<Void> worker : workers) {
      worker.get();
    }
    return passages;
  }

  private static void throwIfFailed(List<Future<Void>> workers) throws InterruptedException, ExecutionException {
    for (Future<Void> worker : workers) {
      if (worker.isDone()) {
        worker.get();
      }
    }
  }

  private static Document document(String line) {
    String[] columns = line.split("\t", -1);
    if (columns.length != 3) {
      throw new IllegalArgumentException("expected id TAB title TAB text, found " + columns.length + " columns: " + line);
    }
    return document(unescape(columns[0]), unescape(columns[1]), unescape(columns[2]));
  }

  /**
   * Every query, in the file's order, WARMUP times untimed and REPEATS times timed.
   *
   * <p>One line a query: its hits, and its mean and least microseconds, in three parts: parse, search, fetch (ids).
   */
  static void search(Path index, Path queryFile, int k, int repeats, int warmup, PrintStream out) throws Exception {
    List<String> queries = new ArrayList<>();
    try (BufferedReader reader = Files.newBufferedReader(queryFile)) {
      for (String line; (line = reader.readLine()) != null; ) {
        queries.add(unescape(line));
      }
    }
    try (DirectoryReader reader = DirectoryReader.open(FSDirectory.open(index))) {
      IndexSearcher searcher = new IndexSearcher(reader);
      searcher.setSimilarity(new BM25Similarity(1.2f, 0.75f));
      searcher.setQueryCache(null);
      QueryParser parser = new QueryParser("contents", analyzer());
      Timing[] timings = new Timing[queries.size()];
      for (int pass = -warmup; pass < repeats; pass++) {
        for (int q = 0; q < timings.length; q++) {
          if (pass <= 0) {
            timings[q] = new Timing(); // the warm-up's clock readings are dropped
          }
          run(searcher, parser, queries.get(q), k, timings[q]);
        }
      }
      for (int q = 0; q < timings.length; q++) {
        out.println(timings[q].json(queries.get(q), repeats));
      }
    }
  }

  private static void run(IndexSearcher searcher, QueryParser parser, String text, int k, Timing timing) throws IOException {
    long wall = System.nanoTime();
    long start = CLOCK.getCurrentThreadCpuTime();
    try {
      Query query = parser.parse(text);
      long parsed = CLOCK.getCurrentThreadCpuTime();
      ScoreDoc[] hits = searcher.search(query, k).scoreDocs;
      long found = CLOCK.getCurrentThreadCpuTime();
      timing.ids = ids(searcher, hits);
      timing.hits = hits;
      long fetched = CLOCK.getCurrentThreadCpuTime();
      timing.add(parsed - start, found - parsed, fetched - found, System.nanoTime() - wall);
    } catch (org.apache.lucene.queryparser.classic.ParseException e) {
      timing.error = e.getMessage();
    }
  }

  /**
   * For each set of texts the terms of Lucene's MoreLikeThis with its defaults, and its first k passages.
   *
   * <p>MoreLikeThis is found by name, so that the other commands need no jar of lucene-queries.
   */
  static void like(Path index, Path sets, PrintStream out) throws Exception {
    Class<?> moreLikeThis = Class.forName("org.apache.lucene.queries.mlt.MoreLikeThis");
    try (DirectoryReader reader = DirectoryReader.open(FSDirectory.open(index));
        BufferedReader lines = Files.newBufferedReader(sets)) {
      IndexSearcher searcher = new IndexSearcher(reader);
      searcher.setSimilarity(new BM25Similarity(1.2f, 0.75f));
      Object maker = moreLikeThis.getConstructor(IndexReader.class).newInstance(reader);
      moreLikeThis.getMethod("setAnalyzer", Analyzer.class).invoke(maker, analyzer());
      moreLikeThis.getMethod("setFieldNames", String[].class).invoke(maker, (Object) new String[] {"contents"});
      for (String line; (line = lines.readLine()) != null; ) {
        String[] columns = line.split("\t", -1);
        Reader[] texts = new Reader[columns.length - 1];
        for (int i = 0; i < texts.length; i++) {
          texts[i] = new StringReader(unescape(columns[i + 1]));
        }
        Query query = (Query) moreLikeThis.getMethod("like", String.class, Reader[].class).invoke(maker, "contents", texts);
        StringBuilder terms = new StringBuilder("[");
        for (BooleanClause clause : ((BooleanQuery) query).clauses()) {
          append(terms, json(term(clause)));
        }
        StringBuilder found = new StringBuilder("[");
        for (String id : ids(searcher, searcher.search(query, Integer.parseInt(columns[0])).scoreDocs)) {
          append(found, json(id));
        }
        out.println("{\"lucene\": " + json(Version.LATEST.toString()) + ", \"terms\": " + terms + "], \"ids\": " + found + "]}");
      }
    }
  }

  /** The clause's query is a method in Lucene 8 to 9, a record's component in Lucene 10: both are called by name. */
  private static String term(BooleanClause clause) throws ReflectiveOperationException {
    Object query;
    try {
      query = BooleanClause.class.getMethod("query").invoke(clause);
    } catch (NoSuchMethodException e) {
      query = BooleanClause.class.getMethod("getQuery").invoke(clause);
    }
    return ((TermQuery) query).getTerm().text();
  }

  private static String[] ids(IndexSearcher searcher, ScoreDoc[] hits) throws IOException {
    String[] ids = new String[hits.length];
    for (int i = 0; i < hits.length; i++) {
      for (var leaf : searcher.getIndexReader().leaves()) {
        LeafReader segment = leaf.reader();
        int doc = hits[i].doc - leaf.docBase;
        if (doc >= 0 && doc < segment.maxDoc()) {
          BinaryDocValues values = DocValues.getBinary(segment, "id");
          values.advanceExact(doc);
          ids[i] = values.binaryValue().utf8ToString();
        }
      }
    }
    return ids;
  }

  private static final class Timing {
    private final long[] sums = new long[3];
    private long wallSum;
    private long least = Long.MAX_VALUE;
    private String[] ids = {};
    private ScoreDoc[] hits = {};
    private String error;

    void add(long parse, long search, long fetch, long wall) {
      sums[0] += parse;
      sums[1] += search;
      sums[2] += fetch;
      wallSum += wall;
      least = Math.min(least, parse + search + fetch);
    }

    String json(String query, int repeats) {
      StringBuilder line = new StringBuilder("{\"query\": ").append(LuceneBench.json(query)).append(", \"hits\": [");
      for (int i = 0; i < hits.length; i++) {
        line.append(i == 0 ? "[" : ", [").append(LuceneBench.json(ids[i])).append(", ").append(hits[i].score).append("]");
      }
      line.append("]");
      if (error != null) {
        return line.append(", \"error\": ").append(LuceneBench.json(error)).append("}").toString();
      }
      double unit = 1e3 * repeats; // nanoseconds over all repeats to microseconds a query
      return line.append(", \"cpu_us\": ").append((sums[0] + sums[1] + sums[2]) / unit)
          .append(", \"least_cpu_us\": ").append(least / 1e3)
          .append(", \"parse_us\": ").append(sums[0] / unit)
          .append(", \"search_us\": ").append(sums[1] / unit)
          .append(", \"fetch_us\": ").append(sums[2] / unit)
          .append(", \"wall_us\": ").append(wallSum / unit).append("}").toString();
    }
  }

  /** One JSON array of terms a text; null where a stop word was removed. */
  static void analyze(Path texts, PrintStream out) throws IOException {
    try (Analyzer analyzer = analyzer(); BufferedReader reader = Files.newBufferedReader(texts)) {
      for (String line; (line = reader.readLine()) != null; ) {
        StringBuilder terms = new StringBuilder("[");
        try (TokenStream stream = analyzer.tokenStream("contents", unescape(line))) {
          CharTermAttribute term = stream.addAttribute(CharTermAttribute.class);
          PositionIncrementAttribute step = stream.addAttribute(PositionIncrementAttribute.class);
          stream.reset();
          while (stream.incrementToken()) {
            gaps(terms, step.getPositionIncrement() - 1);
            append(terms, json(term.toString()));
          }
          stream.end();
          gaps(terms, step.getPositionIncrement());
        }
        out.println(terms.append("]"));
      }
    }
  }

  private static void gaps(StringBuilder terms, int count) {
    for (int i = 0; i < count; i++) {
      append(terms, "null");
    }
  }

  private static void append(StringBuilder terms, String item) {
    terms.append(terms.length() == 1 ? "" : ", ").append(item);
  }

  private static long processCpu() {
    return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
  }

  private static String unescape(String text) {
    if (text.indexOf('\\') < 0) {
      return text;
    }
    StringBuilder plain = new StringBuilder(text.length());
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c == '\\' && i + 1 < text.length()) {
        c = text.charAt(++i);
        c = c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c;
      }
      plain.append(c);
    }
    return plain.toString();
  }

  private static String json(String text) {
    StringBuilder quoted = new StringBuilder("\"");
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c == '"' || c == '\\') {
        quoted.append('\\').append(c);
      } else if (c < 0x20 || Character.isSurrogate(c) || c == 0x2028 || c == 0x2029 || c == 0x85) {
        quoted.append(String.format("\\u%04x", (int) c));
      } else {
        quoted.append(c);
      }
    }
    return quoted.append('"').toString();
  }

  private LuceneBench() {}
}
