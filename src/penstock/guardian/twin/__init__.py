"""The twin of a cluster: what a plan takes and does, worked out on a model, without touching anything."""
