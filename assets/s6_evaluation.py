"""Stage 6: models, before and after training, on a benchmark."""

import dagster as dg

from assets._dagster import own, owner_of
from facet_dagster.pipeline.evaluation import VERSION, Evaluators, evaluate, load_evaluation
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.reports.evaluation import evaluation_markdown, evaluation_report
from facet_dagster.settings import Settings


@dg.asset(
    group_name="s6_evaluation",
    owners=[owner_of("s6_evaluation")],
    kinds={"docker", "openai"},
    code_version=VERSION,
    pool="docker",
)
def evaluation(
    context: dg.AssetExecutionContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    evaluators: dg.ResourceParam[Evaluators],
) -> dg.MaterializeResult[None]:
    """Endpoints of FACET_EVALUATION on its benchmark, several attempts on each task, with the paper's Table 2."""
    own(context)
    if settings.evaluation is None:
        raise dg.Failure("Nothing to evaluate: set FACET_EVALUATION to an evaluation.yaml", allow_retries=False)
    what = load_evaluation(settings.evaluation)
    failed = evaluate(what, evaluators, ledger=ledger, store=store, run_id=context.run.run_id)
    if failed:
        raise dg.Failure(
            f"{len(failed)} tasks have no result, first: {next(iter(failed.items()))}", allow_retries=False
        )
    found = evaluation_report(what, ledger, store)
    means = {f"solved/{line.endpoint}": line.mean.mean or 0.0 for line in found.endpoints}
    return dg.MaterializeResult(metadata={"evaluation": dg.MetadataValue.md(evaluation_markdown(found)), **means})
