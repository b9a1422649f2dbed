"""The message formats of before Kafka 0.11, read from the bytes of their files.

`kafka07` is the format of Kafka 0.7, `kafka08` that of 0.8 to 0.10, each as a `formats.Format`. `scan` walks over one
file and finds its way past damage, `wrappers` opens compressed messages, `compression` the codecs as they were then.
All bytes are hostile: whatever they are, what comes out is records and descriptions of damage, within named limits.
"""
