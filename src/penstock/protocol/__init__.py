"""Bytes to messages and back: frames, the message schema and its generator, API versions.

    schema.txt   the facts of Kafka's message definitions; schema.py reads it, a message when it is first asked for
    own_schema.txt  the messages of our own APIs, written by hand in the same notation
    messages/    one generated module a message: slotted classes that hold data, for all versions
    codec.py     encode and decode; decoder.py and encoder.py write the functions, explain.py names a faulty field
    api.py       API keys, versions, header versions, listeners
    frames.py    requests and responses with length and header
    record_frames.py   messages stored as records of the metadata log and of the coordinators

A new Kafka release: `python tools/kafka_schema.py JARS`, `python tools/generate_messages.py`, and review two diffs.
"""
