"""Say why no route gave a right artifact, and what to try next."""

from __future__ import annotations

from convert.errors import StageError
from convert.records import Outcome, Status
from convert.specs import format_input
from convert.steps.job import Attempts, Job


def failure(job: Job, attempts: Attempts) -> Outcome:
    """Name the route that got furthest, and what to try next."""
    order = ("", "toolchain", "export", "build", "check", "quality")
    if not attempts.results:
        raise StageError(f"{job.target.name} has no route for {job.precision}")
    best = max(attempts.results, key=lambda result: order.index(result.stage))
    reason = f"{best.route}: {best.reason}" if len(attempts.results) > 1 else best.reason
    proof_of_best = attempts.proofs[-1] if attempts.proofs else None
    checked = [result for result in attempts.results if result.stage in ("check", "quality")]
    for result, proof in zip(checked, attempts.proofs, strict=True):
        if result is best:
            proof_of_best = proof
    return job.outcome(
        Status.FAILED,
        best.stage,
        reason,
        advice=_advice(job, attempts),
        route=best.route,
        checks=proof_of_best.checks if proof_of_best else (),
        placement=proof_of_best.placement if proof_of_best else None,
        routes=tuple(attempts.results),
        quality=attempts.assessments[-1].quality if attempts.assessments else (),
        score=attempts.assessments[-1].score if attempts.assessments else None,
    )


def _advice(job: Job, attempts: Attempts) -> str:
    for proof in attempts.proofs:
        failed = {check.case for check in proof.checks if not check.passed}
        opt = {dim.name: dim.opt for dim in job.golden.dims}
        if failed and all(case.dims != opt for case in job.golden.cases if case.name in failed):
            fixed = " ".join(f"--input '{_fixed(format_input(spec), opt)}'" for spec in job.golden.inputs)
            return (
                f"it is right at one size only ({', '.join(f'{k}={v}' for k, v in opt.items())}), which the runtime "
                f"cannot change; fix the sizes with {fixed}"
            )
    said = [text for text in attempts.advice if text]
    return said[0] if said else "see the logs of the routes in the report"


def _fixed(text: str, sizes: dict[str, int]) -> str:
    head, _, rest = text.partition("[")
    shape, _, tail = rest.partition("]")
    return f"{head}[{','.join(str(sizes.get(size, size)) for size in shape.split(','))}]{tail}"
