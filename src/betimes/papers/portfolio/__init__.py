"""Portfolio scheduling (JSSPP 2013): what its experiments measured, run again.

Of the published figures only what the slides say in words is at hand (`published.csv`). KTH-SP2 and SDSC-SP2 are the
paper's logs; DAS2-fs1 and LCG stand for DAS2-fs0 and LPC-EGEE, which are not at hand.
"""

from betimes.papers.portfolio.experiments import EXPERIMENTS

__all__ = ["EXPERIMENTS"]
