"""Writes src/penstock/config/known.py: the broker settings that Kafka knows and that mean nothing here.

Asks Kafka's own classes for every definition (name, type, default, bounds, update mode) and leaves out what is declared
under src/penstock/config/broker/. Run it after declaring a setting, or for a new version of Kafka:

    .venv/bin/python tools/known_settings.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "src" / "penstock" / "config" / "known.py"
BEGIN, END = 'TABLE = """\\\n', '"""\n\n\ndef number'

JAVA = """
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;

public class ConfigFacts {
    static String quoted(Object value) {
        if (value == null) return "null";
        String text = value.toString().replace("\\\\", "\\\\\\\\").replace("\\"", "\\\\\\"");
        return "\\"" + text.replace("\\n", "\\\\n").replace("\\t", "\\\\t") + "\\"";
    }

    static boolean mayBeEmpty(ConfigDef.Validator validator) throws Exception {
        if (!(validator instanceof ConfigDef.ValidList)) return true;
        var field = ConfigDef.ValidList.class.getDeclaredField("isEmptyAllowed");
        field.setAccessible(true);
        return field.getBoolean(validator);
    }

    static void print(String kind, ConfigDef definition) throws Exception {
        Map<String, String> modes = org.apache.kafka.server.config.DynamicBrokerConfig.dynamicConfigUpdateModes();
        for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
            Object value = key.hasDefault() ? key.defaultValue : null;
            String validator = key.validator == null ? "" : key.validator.getClass().getSimpleName();
            System.out.println("{\\"kind\\":" + quoted(kind) + ",\\"name\\":" + quoted(key.name)
                + ",\\"type\\":" + quoted(key.type) + ",\\"required\\":" + !key.hasDefault()
                + ",\\"default\\":" + quoted(ConfigDef.convertToString(value, key.type))
                + ",\\"validator\\":" + quoted(validator) + ",\\"allowed\\":" + quoted(key.validator)
                + ",\\"empty\\":" + mayBeEmpty(key.validator) + ",\\"internal\\":" + key.internalConfig + ",\\"mode\\":"
                + quoted(kind.equals("broker") ? modes.getOrDefault(key.name, "read-only") : "read-only") + "}");
        }
    }

    public static void main(String[] arguments) throws Exception {
        print("broker", kafka.server.KafkaConfig.configDef());
        print("topic", org.apache.kafka.storage.internals.log.LogConfig.configDefCopy());
    }
}
"""


def kafka_facts() -> dict[str, dict[str, dict[str, Any]]]:
    """Kafka's definitions: kind (broker, topic) to name to facts."""
    sys.path.insert(0, str(ROOT / "tests"))
    from interop.kafka_peer import run_java_source

    facts: dict[str, dict[str, dict[str, Any]]] = {"broker": {}, "topic": {}}
    for line in run_java_source(JAVA).stdout.splitlines():
        row = json.loads(line)
        facts[row["kind"]][row["name"]] = row
    return facts


def bounds(fact: dict[str, Any]) -> tuple[str, str, str]:
    """At least, at most, and the allowed values with commas or the name of a check; empty where there is none."""
    allowed = fact["allowed"] or ""
    if fact["validator"] == "Range":
        low, _, high = allowed.strip("[]").partition(",...")
        return low, high.lstrip(",").removesuffix("..."), ""
    if fact["validator"] in ("ValidString", "ValidList", "CaseInsensitiveValidString") and "[" in allowed:
        any_case = "~" if fact["validator"].startswith("Case") else ""
        return "", "", any_case + allowed[allowed.index("[") + 1 : -1].replace(", ", ",")
    if fact["validator"] == "ValidList":
        return "", "", "distinct" if fact["empty"] else "some-distinct"
    if fact["validator"] == "NonEmptyString":
        return "", "", "not-empty"
    return "", "", ""


def row(fact: dict[str, Any]) -> str:
    """One row of the table."""
    low, high, allowed = bounds(fact)
    limits = f"{low}..{high}" if low or high else allowed or "-"
    mode = fact["mode"] + (",internal" if fact["internal"] else "")
    default = "null" if fact["default"] is None else "=" + fact["default"]
    return f"{fact['name']} {fact['type']} {limits} {mode} {default}"


def table(facts: dict[str, dict[str, Any]], declared: set[str]) -> str:
    """The rows of every broker setting that is not declared, sorted by name."""
    return "".join(row(facts[name]) + "\n" for name in sorted(facts) if name not in declared)


def main() -> None:
    """Rewrites the table in place."""
    from penstock.config.server import SETTINGS

    head, _, rest = TARGET.read_text().partition(BEGIN)
    _, found, tail = rest.partition(END)
    assert found, f"{TARGET} has lost the shape that this tool expects"
    TARGET.write_text(head + BEGIN + table(kafka_facts()["broker"], set(SETTINGS)) + END + tail)


if __name__ == "__main__":
    main()
