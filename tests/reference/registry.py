"""Makes a policy from its specification, such as "wfq:thresholds=5,weights=1/2+1/2,zeta_min=0,delta=0.1"."""

from fractions import Fraction

from tests.reference.afs import Afs
from tests.reference.fifo import Fifo
from tests.reference.las import Las
from tests.reference.max_min import MaxMin
from tests.reference.policy import Policy, parameters_of, parse_list, parse_number
from tests.reference.srsf import Srsf
from tests.reference.srtf import Srtf
from tests.reference.themis import Themis
from tests.reference.wfq import Wfq

WITHOUT_PARAMETERS = {"fifo": Fifo, "srsf": Srsf, "srtf": Srtf, "afs": Afs, "max-min": MaxMin}


def make_policy(spec: str, number: type) -> Policy:
    """Numbers are read as `number`: float, or Fraction; weights are always fractions."""
    name, given = parameters_of(spec)
    if name in WITHOUT_PARAMETERS:
        policy = WITHOUT_PARAMETERS[name]()
    elif name == "las":
        policy = Las(parse_number(given.pop("quantum"), number))
    elif name == "themis":
        policy = Themis(parse_number(given.pop("lease", "600"), number))
    elif name == "wfq":
        policy = Wfq(
            thresholds=[parse_number(item, number) for item in parse_list(given.pop("thresholds", ""))],
            weights=[Fraction(item) for item in parse_list(given.pop("weights", "1"))],
            zeta_min=parse_number(given.pop("zeta_min", "0"), number),
            delta=parse_number(given.pop("delta", "0.1"), number),
            cap=given.pop("cap", "first-violation"),
        )
    else:
        raise ValueError(f"unknown policy: {name}")
    if given:
        raise ValueError(f"{name} has no parameters {sorted(given)}")
    return policy
