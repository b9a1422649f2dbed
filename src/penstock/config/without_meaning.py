"""Settings that Kafka knows and that mean nothing here: ignored, unless that would betray what they ask for."""

from __future__ import annotations

from penstock.config.setting import Setting
from penstock.config.values import shown
from penstock.errors import ConfigError

NOT_SUPPORTED_YET: dict[str, object] = {
    "remote.log.storage.system.enable": True,
    "transaction.two.phase.commit.enable": True,
}
"""What must not be ignored in silence when it is asked for."""
OF_JAVA = {
    "ssl.engine.factory.class": ("org.apache.kafka.common.security.ssl.DefaultSslEngineFactory",),
    "ssl.keymanager.algorithm": ("SunX509", "PKIX"),
    "ssl.protocol": ("TLSv1.3", "TLSv1.2", "TLS"),
    "ssl.provider": (),
    "ssl.secure.random.implementation": (),
    "ssl.trustmanager.algorithm": ("PKIX",),
}
"""Parts of a Java machine that Kafka's TLS lets one choose, with what does the same here. (`ssl.protocol` names Java's
context; which versions are spoken is said by ssl.enabled.protocols, there and here.)"""


def check_ignored(setting: Setting[object], text: str, name: str | None = None) -> None:
    """Checks the value of a setting that means nothing here; `name` is how it was written, if not as it is called.

    Raises ConfigError also where ignoring it would betray what it asks.
    """
    name = name or setting.name
    value = setting.parse(text)
    if setting.name in OF_JAVA:
        if value in ("", *OF_JAVA[setting.name]):
            return
        wanted = "".join(f", or use {each}" for each in OF_JAVA[setting.name][:1])
        raise ConfigError(
            f"{name} = {shown(text)} chooses a part of a Java machine, which is not here: leave it out{wanted}"
        )
    if setting.name.endswith((".class", ".class.name")) and value not in ("", setting.default):
        raise ConfigError(f"{name} = {shown(text)}: Java classes cannot be loaded here; leave it out")
    if NOT_SUPPORTED_YET.get(setting.name) == value or (setting.name == "config.providers" and value):
        raise ConfigError(f"{name} = {shown(text)} is not supported yet: leave it out")
