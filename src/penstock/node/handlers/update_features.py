"""UpdateFeatures (key 57): finalizes feature levels (KIP-584, KIP-778).

Versions 0-2, flexible. All updates of a request happen or none; from version 2 on there are no results of single
features. `validate_only` (from 1) does all but append.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ErrorCode
from penstock.metadata.feature_updates import FeatureUpdate, update_features
from penstock.node.request import FORWARD, Append, Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.update_features_request import UpdateFeaturesRequest
from penstock.protocol.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.ALTER, ResourceType.CLUSTER)
NO_RESULTS_FROM = 2


def handle(node: Broker, request: Request[UpdateFeaturesRequest], now_ms: int) -> Outcome:
    body = request.body
    if not node.controller.active:
        return FORWARD
    updates = {
        each.feature: FeatureUpdate(each.feature, each.max_version_level, each.upgrade_type)
        for each in body.feature_updates
    }
    result = update_features(node.controller.state, updates, kraft_version=node.quorum.kraft_version)
    error = result.response
    if error.failed:
        sentence = f"The update failed for all features since the following feature had an error: {error.message}"
        return UpdateFeaturesResponse(error_code=error.code, error_message=sentence)
    response = UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None)
    if request.version < NO_RESULTS_FROM:
        response.results = [UpdatableFeatureResult(feature=name, error_message=None) for name in updates]
    return response if body.validate_only else Append(result.records, response)


HANDLERS = (Handler(ApiKey.UPDATE_FEATURES, handle, AUTHORIZE),)
