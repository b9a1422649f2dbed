"""Key stores and trust stores: bytes in, keys and certificates out. PEM, PKCS12 and Java's JKS."""
