"""The models: does each endpoint answer, with this key; and is there a harness for rollouts."""

from __future__ import annotations

from facet_dagster.adapters.litellm_client import LitellmClient
from facet_dagster.adapters.model_listing import Listing, expected, listing
from facet_dagster.deployments import Deployment, ModelSpec, load_models
from facet_dagster.doctor.finding import Finding, Patient, broken, ok, warn
from facet_dagster.errors import FacetError
from facet_dagster.setup.harbor_tool import harbor_command, harbor_why_not

_LIVE_TOKENS = 16
_LIVE_SECONDS = 60.0
_ORDER = ("broken", "warn", "ok")


def model(patient: Patient) -> Finding:
    """Every model of a live run, at every endpoint; a replay needs none."""
    if not patient.settings.live:
        return ok("model", "none is configured: the tape is replayed")
    try:
        specs = load_models(patient.settings, patient.environment).used()
    except FacetError as error:
        return broken("model", str(error), "correct FACET_MODELS, or the variable or file of the key")
    return _worst("model", [_one(patient, "model", spec, d) for spec in specs for d in spec.deployments])


def teacher(patient: Patient) -> Finding:
    """The model behind the agents of rollouts."""
    s = patient.settings
    if not s.teacher:
        return ok("teacher", "none is configured: no rollouts")
    deployment = Deployment(model=s.teacher, api_base=s.teacher_base, key=s.teacher_key)
    found = _one(patient, "teacher", ModelSpec(name="teacher", deployments=(deployment,)), deployment)
    return found.model_copy(update={"mend": found.mend.replace("FACET_API_", "FACET_TEACHER_")})


def harbor(patient: Patient) -> Finding:
    """The Harbor tool, which rollouts and `facet verify-harbor` need and nothing else."""
    tool = harbor_command(patient.settings.home)
    if tool is not None:
        return ok("harbor", tool.argv[0])
    tell = broken if patient.settings.teacher else warn
    return tell("harbor", harbor_why_not(patient.settings.home), "run `make verify-harbor`, which sets it up")


def _worst(name: str, found: list[Finding]) -> Finding:
    """One finding of many: the worst state, and what was said under it."""
    state = min((f.state for f in found), key=_ORDER.index)
    chosen = [f for f in found if f.state == state]
    texts, mends = (list(dict.fromkeys(t)) for t in ((f.what for f in chosen), (f.mend for f in chosen if f.mend)))
    return Finding(name=name, state=state, what="; ".join(texts), mend="; ".join(mends))


def _one(patient: Patient, name: str, spec: ModelSpec, deployment: Deployment) -> Finding:
    if patient.live:
        return _asked(name, spec, deployment)
    found = listing(deployment, patient.environment)
    return _listed(name, deployment, found) if found else _key_alone(name, deployment)


def _asked(name: str, spec: ModelSpec, deployment: Deployment) -> Finding:
    """One short call, without a second try."""
    seconds = min(spec.seconds, _LIVE_SECONDS)
    alone = spec.model_copy(update={"deployments": (deployment,), "max_tokens": _LIVE_TOKENS, "seconds": seconds})
    try:
        LitellmClient(alone, retries=0).complete([{"role": "user", "content": "Answer with the word ok."}])
    except FacetError as error:
        return broken(name, str(error), f"set what is named (the key is expected in {expected(deployment)})")
    return ok(name, f"{deployment.model} answered a call")


def _listed(name: str, deployment: Deployment, found: Listing) -> Finding:
    at = f"{deployment.model} at {found.where}"
    if found.status == 401:
        return broken(name, f"{at}: the key is refused, or there is none", f"set {found.variable} to a valid key")
    if found.status == 0:
        return broken(name, f"{at} cannot be reached", "start that server, or correct the address (FACET_API_BASE)")
    if found.status != 200 or not found.names:
        return warn(name, f"{at} lists no models (status {found.status}), so the key was not tried", _LIVE)
    plain = deployment.model.partition("/")[2] or deployment.model
    if not {plain, deployment.model} & set(found.names):
        shown = ", ".join(found.names[:5])
        return warn(
            name,
            f"{at} is not among the {len(found.names)} models that it lists ({shown}, ...)",
            f"correct it. {_LIVE}",
        )
    return ok(name, f"{at} is listed under this key")


_LIVE = "`facet doctor --live` asks the model itself, which costs some tokens"


def _key_alone(name: str, deployment: Deployment) -> Finding:
    """For providers of whom no listing is known: is there a key at all?"""
    what = f"{deployment.model} is asked by a call alone"
    if not deployment.key:
        spec = ModelSpec(name=name, deployments=(deployment,))
        if missing := LitellmClient(spec).missing_variables():
            return broken(name, f"{deployment.model} has no key", f"set {' and '.join(missing)}")
    return warn(name, f"{what}, so its key was not tried", _LIVE)
