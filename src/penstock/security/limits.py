"""Limits of security: what a peer that nobody knows yet, or a key store, may make a node keep or compute."""

from penstock.config.values import MiB

SCRAM_CHALLENGE_ITERATIONS_MAX = 1_000_000
"""Most rounds that a server may ask of us as a client: half a second of a thread; more fail the login."""
TOKEN_CREDENTIALS_MAX = 10_000
"""Keys of delegation tokens that a node keeps, one for each mechanism; the oldest gives way, and is derived again."""
SASL_MESSAGE_MAX_CHARACTERS = 64 * 1024
"""Longest message of an exchange that is parsed, whatever sasl.server.max.receive.size lets in; longer ones fail."""
STORE_MAX_BYTES = 4 * MiB
"""A key store or trust store; a larger file is refused before it is read."""
STORE_ENTRIES_MAX = 4096
"""Keys and certificates in one store; with more it is refused. A system's trusted certificates are about 150."""
STORE_ITERATIONS_MAX = 5_000_000
"""Iterations of a password's derivation that a store may ask for, as in Java; one that asks for more is refused."""
STORE_SCRYPT_BLOCKS_MAX = 1 << 21
"""Blocks of 128 bytes that one scrypt in a store may mix, 256 MiB in all; OpenSSL's default is 131,072 of them."""
CHAIN_CERTIFICATES_MAX = 32
"""Certificates in a chain that is put together from a store; what would follow is left out."""
DER_DEPTH_MAX = 32
"""Nested values that the search for iterations enters; what lies deeper is not looked at."""
PRINCIPAL_MAX_CHARACTERS = 1024
"""Type or name of a principal that an operator's function gives, or a token's subject; a longer one is refused."""
GSSAPI_CONTEXT_TOKENS_MAX = 8
"""Tokens of a client until its security context stands; with more the login fails. Kerberos takes one or two."""
JWKS_KEYS_MAX = 100
"""Keys in one JWKS; a set with more is refused. Issuers have two or three."""
JWKS_WANTED_PAUSE_MS = 10_000
"""Least time between two fetches of keys because a token named one that is not there; in between it is refused."""
JWKS_KEPT_MS = 24 * 3_600_000
"""How long keys are used that could not be fetched anew; then no token is taken until they are."""
KEY_ID_MAX_CHARACTERS = 1000
"""A key's id; a token or key with a longer one is refused."""
KEYS_TRIED_MAX = 8
"""Keys that the signature of one token is tried with, if it does not say which; the others do not count."""
RSA_KEY_MAX_BITS = 8192
"""An RSA key; a longer one is passed over: a signature costs 0.1 ms with 2048 bits, and 16 times as much with these."""
