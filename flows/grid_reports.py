"""What became of a grid's runs, as the flow hands it back."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class GridRunReport(BaseModel):
    """One run of a grid: what it computed, and whether it landed."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    experiment: str
    status: str  # completed, degraded or failed
    status_reason: str | None
    seconds: float
    n_computed: int = 0  # stages
    n_shared: int = 0  # stages that another run of the grid computed or looked up
    n_cached: int = 0  # stages that were stored before
    spooled_because: str | None = None  # why it waits in the spool; None: in the warehouse


class GridReport(BaseModel):
    """A grid's runs, in its order."""

    model_config = ConfigDict(frozen=True)

    grid_id: str
    name: str
    primary_measure: str
    home: str
    seconds: float
    runs: list[GridRunReport]
    n_tasks: int  # of all its flow runs

    @property
    def n_failed(self) -> int:
        """Runs that failed."""
        return sum(run.status == "failed" for run in self.runs)
