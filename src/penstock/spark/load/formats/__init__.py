"""What record values are, and how they become columns: raw bytes, JSON, Avro."""
