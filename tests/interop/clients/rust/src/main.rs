//! rskafka under orders: `rust-client BOOTSTRAP`.
//!
//! Orders come on standard input as JSON, one a line, and each gets one line of JSON back, {"error": ...} when it
//! failed. Bytes are base 64, null is null. The client has no idempotent producer, no transactions, no topic configs,
//! and a header name at most once a record. CLIENT_LOGIN in the environment says how to log in, as in the Go clients: by
//! PLAIN over TLS.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{stdin, stdout, BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use base64::prelude::{Engine, BASE64_STANDARD};
use chrono::{DateTime, Utc};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder, Credentials, SaslConfig};
use rskafka::record::Record;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{json, Value};

type Outcome<T> = Result<T, Box<dyn Error>>;

const TIMEOUT_MS: i32 = 20_000;
const FETCH_BYTES: std::ops::Range<i32> = 1..10_000_000;

fn bytes(value: &Value) -> Outcome<Option<Vec<u8>>> {
    Ok(value.as_str().map(|text| BASE64_STANDARD.decode(text)).transpose()?)
}

fn text(data: &Option<Vec<u8>>) -> Value {
    data.as_ref().map_or(Value::Null, |data| json!(BASE64_STANDARD.encode(data)))
}

fn time(milliseconds: &Value) -> Outcome<DateTime<Utc>> {
    let milliseconds = milliseconds.as_i64().ok_or("a time is a number")?;
    Ok(DateTime::from_timestamp_millis(milliseconds).ok_or("no such time")?)
}

fn record(row: &Value) -> Outcome<Record> {
    let mut headers = BTreeMap::new();
    for header in row["headers"].as_array().ok_or("no headers")? {
        let name = header["name"].as_str().ok_or("no name")?.to_string();
        headers.insert(name, bytes(&header["value"])?.unwrap_or_default());
    }
    Ok(Record { key: bytes(&row["key"])?, value: bytes(&row["value"])?, headers, timestamp: time(&row["timestamp"])? })
}

fn row(record: &Record) -> Value {
    let headers: Vec<Value> = record
        .headers
        .iter()
        .map(|(name, value)| json!({"name": name, "value": BASE64_STANDARD.encode(value)}))
        .collect();
    json!({
        "timestamp": record.timestamp.timestamp_millis(),
        "key": text(&record.key),
        "value": text(&record.value),
        "headers": headers,
    })
}

fn compression(name: &str) -> Outcome<Compression> {
    Ok(match name {
        "none" => Compression::NoCompression,
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        other => return Err(format!("unknown codec {other}").into()),
    })
}

async fn partition(client: &Client, topic: &str) -> Outcome<PartitionClient> {
    Ok(client.partition_client(topic, 0, UnknownTopicHandling::Retry).await?)
}

async fn produce(client: &Client, order: &Value, topic: &str) -> Outcome<Value> {
    let rows = order["rows"].as_array().ok_or("no rows")?;
    let records = rows.iter().map(record).collect::<Outcome<Vec<_>>>()?;
    let codec = compression(order["codec"].as_str().unwrap_or("none"))?;
    partition(client, topic).await?.produce(records, codec).await?;
    Ok(json!({}))
}

async fn read(client: &Client, topic: &str, count: usize) -> Outcome<Value> {
    let partition = partition(client, topic).await?;
    let mut rows = Vec::new();
    let mut next = partition.get_offset(OffsetAt::Earliest).await?;
    while rows.len() < count {
        let (records, _) = partition.fetch_records(next, FETCH_BYTES, TIMEOUT_MS).await?;
        next = records.last().ok_or("no more records came")?.offset + 1;
        rows.extend(records.iter().map(|each| row(&each.record)));
    }
    Ok(json!({"rows": rows}))
}

async fn times(client: &Client, topic: &str, times: &Value) -> Outcome<Value> {
    let partition = partition(client, topic).await?;
    let mut offsets = Vec::new();
    for each in times.as_array().ok_or("no times")? {
        offsets.push(partition.get_offset(OffsetAt::Timestamp(time(each)?)).await?);
    }
    Ok(json!({"offsets": offsets}))
}

async fn obey(client: &Client, order: &Value) -> Outcome<Value> {
    let topic = order["topic"].as_str().unwrap_or_default();
    match order["do"].as_str().unwrap_or_default() {
        "create" => {
            let partitions = i32::try_from(order["partitions"].as_i64().unwrap_or(1))?;
            client.controller_client()?.create_topic(topic, partitions, 1, TIMEOUT_MS).await?;
            Ok(json!({}))
        }
        "delete" => {
            client.controller_client()?.delete_topic(topic, TIMEOUT_MS).await?;
            Ok(json!({}))
        }
        "topics" => {
            let topics: Vec<String> = client.list_topics().await?.into_iter().map(|each| each.name).collect();
            Ok(json!({"topics": topics}))
        }
        "partitions" => {
            let topics = client.list_topics().await?;
            let found = topics.iter().find(|each| each.name == topic).ok_or("no such topic")?;
            Ok(json!({"partitions": found.partitions.len()}))
        }
        "produce" => produce(client, order, topic).await,
        "read" => read(client, topic, usize::try_from(order["count"].as_u64().unwrap_or(0))?).await,
        "times" => times(client, topic, &order["times"]).await,
        other => Err(format!("rskafka cannot do {other}").into()),
    }
}

fn logging_in(builder: ClientBuilder) -> Outcome<ClientBuilder> {
    let Ok(told) = std::env::var("CLIENT_LOGIN") else {
        return Ok(builder);
    };
    let login: Value = serde_json::from_str(&told)?;
    let of = |name: &str| login[name].as_str().unwrap_or_default().to_string();
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(of("trust"))? {
        roots.add(certificate?)?;
    }
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let credentials = Credentials::new(of("user"), of("password"));
    Ok(builder.tls_config(Arc::new(config)).sasl_config(SaslConfig::Plain(credentials)))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let bootstrap = std::env::args().nth(1).ok_or("no bootstrap server")?;
    let client = logging_in(ClientBuilder::new(vec![bootstrap]))?.build().await?;
    let limit = Duration::from_millis(TIMEOUT_MS as u64);
    for line in stdin().lock().lines() {
        let order: Value = serde_json::from_str(&line?)?;
        let answer = match tokio::time::timeout(limit, obey(&client, &order)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => json!({"error": error.to_string()}),
            Err(_) => json!({"error": "it took too long"}),
        };
        writeln!(stdout(), "{answer}")?;
        stdout().flush()?;
    }
    Ok(())
}
