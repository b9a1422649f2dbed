"""The broker's settings by area; `penstock.config.server.Settings` is all of them together."""
