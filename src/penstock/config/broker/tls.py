"""Settings of TLS: keys, trust, protocols, and the principals that certificates stand for.

Each may be given for one listener (`config.prefixed`). Those that choose parts of a Java machine are not
here: see `config.without_meaning`.
"""

from __future__ import annotations

from penstock.config.checks import distinct
from penstock.config.setting import PER_BROKER, Group, Setting
from penstock.config.values import BOOLEAN, LIST, PASSWORD, STRING, Password

TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
STORE_TYPES = ("JKS", "PKCS12", "PEM")


def protocols(elements: tuple[str, ...]) -> str | None:
    """TLS 1.2 and 1.3, each once."""
    problem = distinct(elements)
    unknown = [each for each in elements if each not in TLS_VERSIONS]
    if problem is None and (unknown or not elements):
        return f"must be some of {', '.join(TLS_VERSIONS)}"
    return problem


def store_type(text: str) -> str | None:
    """Java's store types that can be read here, in any case."""
    return None if text.upper() in STORE_TYPES else f"is not known: it must be one of {', '.join(STORE_TYPES)}"


class TlsSettings(Group):
    """TLS on listeners and between nodes."""

    ssl_enabled_protocols = Setting(
        "ssl.enabled.protocols", LIST, default=TLS_VERSIONS, dynamic=PER_BROKER, check=protocols
    ).documented("Versions of TLS that are spoken.")
    ssl_cipher_suites = Setting[tuple[str, ...]](
        "ssl.cipher.suites", LIST, default=(), dynamic=PER_BROKER, check=distinct
    ).documented(
        "Cipher suites by Java's (IANA's) names; empty for all that are thought safe. Those of TLS 1.3 can be chosen "
        "only all together where Python has no way to choose."
    )
    ssl_client_auth = Setting(
        "ssl.client.auth", STRING, default="none", dynamic=PER_BROKER, one_of=("required", "requested", "none")
    ).documented(
        "Whether clients must show a certificate (required), may (requested), or are not asked (none). With SASL "
        "listeners only when it is set for the listener."
    )
    ssl_endpoint_identification_algorithm = Setting(
        "ssl.endpoint.identification.algorithm",
        STRING,
        default="https",
        dynamic=PER_BROKER,
        one_of=("https", "HTTPS", ""),
    ).documented("Whether this node checks that another one's certificate names its host: https, or empty for no.")
    ssl_keystore_type = Setting(
        "ssl.keystore.type", STRING, default="JKS", dynamic=PER_BROKER, check=store_type
    ).documented("Format of the key store: JKS (which reads PKCS12 too, as in Java), PKCS12 or PEM.")
    ssl_keystore_location = Setting[str | None](
        "ssl.keystore.location", STRING, default=None, dynamic=PER_BROKER
    ).documented("File with this node's private key and certificate chain. A change is taken over within seconds.")
    ssl_keystore_password = Setting[Password | None](
        "ssl.keystore.password", PASSWORD, default=None, dynamic=PER_BROKER
    ).documented("Password of the key store; not for PEM.")
    ssl_key_password = Setting[Password | None](
        "ssl.key.password", PASSWORD, default=None, dynamic=PER_BROKER
    ).documented("Password of the private key, when it is not the store's.")
    ssl_keystore_key = Setting[Password | None](
        "ssl.keystore.key", PASSWORD, default=None, dynamic=PER_BROKER
    ).documented("The private key itself as PEM (PKCS#8), with ssl.keystore.type=PEM.")
    ssl_keystore_certificate_chain = Setting[Password | None](
        "ssl.keystore.certificate.chain", PASSWORD, default=None, dynamic=PER_BROKER
    ).documented("The certificate chain itself as PEM, with ssl.keystore.type=PEM.")
    ssl_truststore_type = Setting(
        "ssl.truststore.type", STRING, default="JKS", dynamic=PER_BROKER, check=store_type
    ).documented("Format of the trust store: JKS (which reads PKCS12 too, as in Java), PKCS12 or PEM.")
    ssl_truststore_location = Setting[str | None](
        "ssl.truststore.location", STRING, default=None, dynamic=PER_BROKER
    ).documented(
        "File with the certificates that the other side's must come from. Unset: the system's. A change is taken over "
        "within seconds."
    )
    ssl_truststore_password = Setting[Password | None](
        "ssl.truststore.password", PASSWORD, default=None, dynamic=PER_BROKER
    ).documented("Password of the trust store; without it its integrity is not checked. Not for PEM.")
    ssl_truststore_certificates = Setting[Password | None](
        "ssl.truststore.certificates", PASSWORD, default=None, dynamic=PER_BROKER
    ).documented("The trusted certificates themselves as PEM, with ssl.truststore.type=PEM.")
    ssl_allow_dn_changes = Setting("ssl.allow.dn.changes", BOOLEAN, default=False).documented(
        "Whether a key store may change to a certificate of another subject while the node runs."
    )
    ssl_allow_san_changes = Setting("ssl.allow.san.changes", BOOLEAN, default=False).documented(
        "Whether a key store may change to a certificate that lacks a subject alternative name of the old one while "
        "the node runs."
    )
    ssl_principal_mapping_rules = Setting("ssl.principal.mapping.rules", STRING, default="DEFAULT").documented(
        "How the subject of a client's certificate becomes a user name: RULE:pattern/replacement/ with L or U for "
        "small or capital letters, or DEFAULT for the whole subject, with commas between; the first that matches wins."
    )
