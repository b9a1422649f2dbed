"""An admin who has the cluster speak the newer protocol of transactions, and the older, while transactions go on."""

from __future__ import annotations

from penstock.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from simulator.cluster.chaos_admins import FEATURES_VERSION, SAFE_DOWNGRADE, TIMEOUT_MS, UPGRADE, ChaosAdmin
from simulator.transactions.load import BY_EPOCHS, TRANSACTION_VERSION


def change_transaction_version(admin: ChaosAdmin) -> None:
    """Raises or lowers transaction.version; which of these it is, the controller knows."""
    level = admin.random.randint(0, BY_EPOCHS)
    kind = admin.random.choice((UPGRADE, SAFE_DOWNGRADE))
    key = FeatureUpdateKey(feature=TRANSACTION_VERSION, max_version_level=level, upgrade_type=kind)
    request = UpdateFeaturesRequest(timeout_ms=TIMEOUT_MS, feature_updates=[key])
    admin.ask(request, FEATURES_VERSION, lambda response: [response.error_code])
