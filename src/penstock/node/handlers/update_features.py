"""UpdateFeatures (key 57): finalizes feature levels (KIP-584, KIP-778).

Versions 0-2, flexible. All updates of a request happen or none; from version 2 on there are no results of single
features. `validate_only` (from 1) does all but append. kraft.version is a feature of the quorum itself: when all voters
have told the leader that they support 1, the update writes them and their directories into the log (KIP-853).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.feature_updates import FeatureUpdate, update_features
from penstock.metadata.features import KRAFT_VERSION
from penstock.metadata.result import ApiError
from penstock.node.handlers.bounds import check_few
from penstock.node.request import FORWARD, Append, Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.update_features_request import UpdateFeaturesRequest
from penstock.protocol.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse

if TYPE_CHECKING:
    from penstock.node.broker import Broker

NO_RESULTS_FROM = 2


def handle(node: Broker, request: Request[UpdateFeaturesRequest], now_ms: int) -> Outcome:
    body = request.body
    if not node.controller.active:
        return FORWARD
    check_few(body.feature_updates)
    updates = {
        each.feature: FeatureUpdate(each.feature, each.max_version_level, each.upgrade_type)
        for each in body.feature_updates
    }
    result = update_features(node.controller.state, updates, kraft_version=node.quorum.kraft_version)
    error = result.response
    wanted = updates.get(KRAFT_VERSION)
    if not error.failed and wanted is not None:
        try:
            node.quorum.upgrade_kraft_version(wanted.level, now_ms, validate_only=body.validate_only)
        except RequestError as refused:
            error = ApiError(refused.code, str(refused))
    if error.failed:
        sentence = f"The update failed for all features since the following feature had an error: {error.message}"
        return UpdateFeaturesResponse(error_code=error.code, error_message=sentence)
    response = UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None)
    if request.version < NO_RESULTS_FROM:
        response.results = [UpdatableFeatureResult(feature=name, error_message=None) for name in updates]
    return response if body.validate_only else Append(result.records, response)


HANDLERS = (Handler(ApiKey.UPDATE_FEATURES, handle),)
