"""The pytest plugin of Penstock. The fixtures are in `penstock.testing.plugin`, which imports nothing more at first."""

from penstock.testing.plugin import penstock, penstock_secure, penstock_session, penstock_settings

__all__ = ["penstock", "penstock_secure", "penstock_session", "penstock_settings"]
