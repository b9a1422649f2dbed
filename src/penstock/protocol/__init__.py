"""Bytes to messages and back: frames, the message schema and its generator, API versions."""
