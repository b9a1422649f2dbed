"""Synthetic streams with known contents, for tests, demonstrations and measurements."""
