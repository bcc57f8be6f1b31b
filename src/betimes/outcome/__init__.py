"""The outcome of a run: columns, measures, summaries, intervals, tables, pictures and files."""

from betimes.outcome.intervals import Interval, interval, over_seeds
from betimes.outcome.plots import plot_allocations, plot_cdf, plot_timeline
from betimes.outcome.result import (
    AbsenceColumns,
    DecisionColumns,
    IntervalColumns,
    JobColumns,
    JobState,
    LeaseColumns,
    ResourceUse,
    Result,
    SegmentColumns,
    SelectionColumns,
    Timing,
)
from betimes.outcome.selection_plot import plot_selections
from betimes.outcome.store import load, save
from betimes.outcome.summary import job_metric, parse_measure, selected, summarise, to_json
from betimes.outcome.tables import comparison_list, comparison_table, result_table, show

__all__ = [
    "AbsenceColumns",
    "DecisionColumns",
    "Interval",
    "IntervalColumns",
    "JobColumns",
    "JobState",
    "LeaseColumns",
    "ResourceUse",
    "Result",
    "SegmentColumns",
    "SelectionColumns",
    "Timing",
    "comparison_list",
    "comparison_table",
    "interval",
    "job_metric",
    "load",
    "over_seeds",
    "parse_measure",
    "plot_allocations",
    "plot_cdf",
    "plot_selections",
    "plot_timeline",
    "result_table",
    "save",
    "selected",
    "show",
    "summarise",
    "to_json",
]
