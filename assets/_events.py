"""Results as Dagster's events: a materialization and a check for each partition, written in batches.

A materialization says under which code version and from which inputs it was made, so that the web UI can tell
what is stale. Dagster does this only for outputs, and a range of partitions must not have one output.
"""

import time
from collections.abc import Mapping, Sequence

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData,
)
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
    NULL_EVENT_POINTER,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)
from dagster._core.events import (
    DagsterEvent,
    DagsterEventBatchMetadata,
    DagsterEventType,
    generate_event_batch_id,
)

from assets.checks import CHECK
from assets.links import Links
from assets.rejections import Neighbours, metadata, reason_line
from facet_dagster.domain.outcome import StageResult, Verdict

Tags = dict[str, str]
_MADE = DagsterEventType.ASSET_MATERIALIZATION


class Emitter:
    """Writes the events of one run of one stage. Called with results, in any number of batches."""

    def __init__(self, context: dg.AssetExecutionContext, asset: str, links: Links, alike: Neighbours) -> None:
        self._context, self._links, self._alike = context, links, alike
        self._key = dg.AssetKey(asset)
        self._step = context.op_execution_context._step_execution_context
        spec = context.assets_def.specs_by_key[self._key]
        self._version = spec.code_version or ""
        self._parents = [dep.asset_key for dep in spec.deps]
        self._whole = dict[dg.AssetKey, str]()

    def __call__(self, results: Sequence[StageResult]) -> None:
        inputs = self._inputs([result.key for result in results])
        batch = generate_event_batch_id()
        for index, result in enumerate(results):
            event = dg.AssetMaterialization(
                self._key,
                partition=result.key,
                metadata=metadata(result, {**self._links(result.key), **self._alike.links(result)}),
                tags={
                    DATA_VERSION_TAG: (result.output or result.input_digest)[:32],
                    DATA_VERSION_IS_USER_PROVIDED_TAG: "true",
                    CODE_VERSION_TAG: self._version,
                    **inputs[result.key],
                },
            )
            last = DagsterEventBatchMetadata(batch, index == len(results) - 1)
            DagsterEvent.asset_materialization(self._step, event, last)
        self._check([result for result in results if result.verdict is not Verdict.NOT_REACHED])

    def _check(self, results: Sequence[StageResult]) -> None:
        storage = self._context.instance.event_log_storage
        numbers = storage.get_latest_storage_id_by_partition(self._key, _MADE, {result.key for result in results})
        batch = generate_event_batch_id()
        for index, result in enumerate(results):
            evaluation = self._evaluation(result, numbers[result.key])
            DagsterEvent.from_step(
                DagsterEventType.ASSET_CHECK_EVALUATION,
                self._step,
                evaluation,
                message=f"{CHECK}: {evaluation.description}",
                batch_metadata=DagsterEventBatchMetadata(batch, index == len(results) - 1),
            )

    def _evaluation(self, result: StageResult, number: int) -> dg.AssetCheckEvaluation:
        ok = result.verdict is Verdict.ACCEPTED
        return dg.AssetCheckEvaluation(
            asset_key=self._key,
            check_name=CHECK,
            passed=ok,
            partition=result.key,
            severity=dg.AssetCheckSeverity.WARN,
            description=reason_line(result),
            metadata={} if ok else metadata(result, {}),
            target_materialization_data=AssetCheckEvaluationTargetMaterializationData(
                storage_id=number, run_id=self._context.run.run_id, timestamp=time.time()
            ),
        )

    def _inputs(self, keys: Sequence[str]) -> Mapping[str, Tags]:
        """For each partition, which materialization of each asset above it was read, and its data version."""
        found: dict[str, Tags] = {key: {} for key in keys}
        storage = self._context.instance.event_log_storage
        for parent in self._parents:
            pointers = storage.get_latest_storage_id_by_partition(parent, _MADE, set(keys))
            versions = storage.get_latest_tags_by_partition(parent, _MADE, [DATA_VERSION_TAG], list(keys))
            for key in keys:
                version = versions.get(key, {}).get(DATA_VERSION_TAG)
                found[key][get_input_data_version_tag(parent)] = version or self._version_of(parent)
                found[key][get_input_event_pointer_tag(parent)] = str(pointers.get(key, NULL_EVENT_POINTER))
        return found

    def _version_of(self, parent: dg.AssetKey) -> str:
        """Data version of an asset without partitions."""
        if parent not in self._whole:
            event = self._context.instance.get_latest_materialization_event(parent)
            made = event.asset_materialization if event else None
            self._whole[parent] = ((made.tags if made else None) or {}).get(DATA_VERSION_TAG, "")
        return self._whole[parent]
