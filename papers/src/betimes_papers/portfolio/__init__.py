"""Portfolio scheduling (JSSPP 2013): its experiments, run again.

Only the published values in the text of the slides are available (`published.csv`). KTH-SP2 and SDSC-SP2 are the
paper's logs; DAS2-fs1 and LCG stand for DAS2-fs0 and LPC-EGEE, which are not available.
"""

from betimes_papers.portfolio.experiments import EXPERIMENTS

__all__ = ["EXPERIMENTS"]
