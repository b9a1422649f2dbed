"""Limits of authentication: what a peer that nobody knows yet may make a node keep or compute."""

SCRAM_ITERATIONS_MIN = 4096
"""Fewest rounds of key derivation (RFC 7677, and Kafka's for both mechanisms): a credential or challenge with fewer
fails the login.
"""
SCRAM_CHALLENGE_ITERATIONS_MAX = 1_000_000
"""Most rounds that a server may ask of us as a client: half a second of a thread; more fail the login."""
SASL_MESSAGE_MAX_CHARACTERS = 64 * 1024
"""Longest message of an exchange that is parsed, whatever sasl.server.max.receive.size lets in; longer ones fail."""
