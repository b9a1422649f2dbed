package org.apache.spark.kafka010;

/** A cluster that hands out delegation tokens; there is none. */
public final class KafkaTokenClusterConf {
  private KafkaTokenClusterConf() {}
}
