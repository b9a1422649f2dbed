"""Subjects of certificates and the rules for them, by us and by Java and Kafka: 500 generated names, to the letter."""

from __future__ import annotations

from base64 import b64decode, b64encode
from random import Random

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from interop.kafka_peer import run_java_source

from penstock.security.certificates import distinguished_name
from penstock.security.principals import MappingRules, NoMatchingRule

pytestmark = [pytest.mark.java, pytest.mark.slow]

JAVA = """
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

public class Names {
    static String hex(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_16BE));
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ", 2);
            String name = new X500Principal(Base64.getDecoder().decode(words[0])).getName();
            String mapped = "none";
            try {
                mapped = hex(SslPrincipalMapper.fromRules(words[1]).getName(name));
            } catch (IOException none) {
            }
            System.out.println(hex(name) + " " + mapped);
        }
    }
}
"""
ATTRIBUTES = (
    NameOID.COMMON_NAME,
    NameOID.COUNTRY_NAME,
    NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME,
    NameOID.STREET_ADDRESS,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.DOMAIN_COMPONENT,
    NameOID.USER_ID,
    NameOID.EMAIL_ADDRESS,
    NameOID.SERIAL_NUMBER,
    NameOID.TITLE,
    NameOID.GIVEN_NAME,
    x509.ObjectIdentifier("1.2.3.4.5678"),
)
TYPES = (_ASN1Type.UTF8String, _ASN1Type.PrintableString, _ASN1Type.IA5String, _ASN1Type.T61String, _ASN1Type.BMPString)
SPECIAL = ',=+<>#;"\\ \r\n\t*é߀漢𝒳/@.'
RULES = (
    "DEFAULT",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT",
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT",
    "RULE:^CN=(.*?)(,.*)?$/$1@$2@$3/U,RULE:.*/all/",
    r"RULE:^(.*)=(\w+)$/\$$1-$12/",
    "RULE:(.)(.*)/$2$1/,RULE:^$/empty/",
)


def generated(random: Random) -> x509.Name:
    """A name of a few parts, some with several attributes, of characters that need care."""
    parts = []
    for _ in range(random.randint(0, 5)):
        attributes = {}
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            kind, encoding = random.choice(ATTRIBUTES), random.choice(TYPES)
            size = random.randint(1, 12)
            letters = "abcXYZ019 " if encoding is not _ASN1Type.UTF8String else "abcXYZ01 " + SPECIAL
            if encoding is _ASN1Type.IA5String:
                letters += ',=+<>#;"\\@'
            text = "".join(random.choice(letters) for _ in range(size))
            if kind == NameOID.COUNTRY_NAME:
                text, encoding = random.choice(("DE", "US")), _ASN1Type.PrintableString
            elif random.random() < 0.2:
                text = f" {text} "
            attributes[kind] = x509.NameAttribute(kind, text, encoding, _validate=False)
        parts.append(x509.RelativeDistinguishedName(attributes.values()))
    return x509.Name(parts)


def test_500_names_are_printed_and_mapped_as_by_java() -> None:
    random = Random(18)
    names = [generated(random).public_bytes() for _ in range(500)]
    rules = [random.choice(RULES) for _ in names]
    lines = "".join(f"{b64encode(name).decode()} {rule}\n" for name, rule in zip(names, rules, strict=True))
    answers = run_java_source(JAVA, stdin=lines).stdout.split("\n")[: len(names)]
    wrong = []
    for encoded, rule, answer in zip(names, rules, answers, strict=True):
        ours = distinguished_name(encoded)
        try:
            mapped = in_utf16(MappingRules.of(rule).name_of(ours))
        except NoMatchingRule:
            mapped = "none"
        if answer != f"{in_utf16(ours)} {mapped}":
            theirs = [
                part if part == "none" else b64decode(part).decode("utf-16-be", "replace") for part in answer.split(" ")
            ]
            wrong.append((rule, [ours, mapped], theirs))
    assert wrong == []


def in_utf16(text: str) -> str:
    """As the Java program prints a text."""
    return b64encode(text.encode("utf-16-be")).decode()
