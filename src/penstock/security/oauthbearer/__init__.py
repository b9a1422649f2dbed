"""OAUTHBEARER (RFC 7628, KIP-255, KIP-768): logins with a token that somebody else has signed."""
