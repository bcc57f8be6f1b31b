"""The options of squeue, sacct, sinfo, scancel and others, as in Slurm's manual, and the variables that stand for them.

An option that changes nothing here is taken; one whose promise would be broken is refused with what to do instead.
Source: the manual pages of Slurm 24.11.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from betimes.errors import InputError, nearest
from betimes.service.spec.spelling import CLUSTERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REFUSED = {
    "steps": "steps of a job are not listed; leave it out",
    "yaml": "write --json",
    "associations": "there are no accounts with numbers; write --accounts=NAME",
    "batch-script": "see `betimes job 41`, which has the script of a job",
    "completion": "what is over is in the service's own log; leave it out",
    "env-vars": "see `betimes job 41 --json`, which has the environment of a job",
    "file": "what is over is in the service's own log; leave it out",
    "interactive": "`betimes cancel` asks",
    "gid": "groups are not known here; write --user or --accounts",
    "group": "groups are not known here; write --user or --accounts",
    "timelimit-max": "write --format=JobID,TimelimitRaw and choose among the lines",
    "timelimit-min": "write --format=JobID,TimelimitRaw and choose among the lines",
    "flags": "how a job was chosen is not told; leave it out",
    "only-job-state": "write --format=%i,%T",
    "uid": "whose jobs may be changed is said by the token in BETIMES_TOKEN; leave it out",
}
"""Options that are refused, as ignoring them would break a script, and what to do instead."""


class Grammar(NamedTuple):
    """Options as words: `all/a` is a switch, `format=/o` has a value, `json?` may have one; `!`: it is refused.

    variables: those of the environment behind `prefix`, and the option if that is another. takes_jobs, takes_words:
    what other words are.
    """

    options: str
    prefix: str = ""
    variables: str = ""
    takes_jobs: bool = False
    takes_words: bool = False


GRAMMARS = {
    "squeue": Grammar(
        """
        account=/A all/a array/r array-unique clusters=/M expand-patterns federation format=/o Format=/O helpFormat
        hide iterate=/i jobs?/j json? licenses=/L local long/l me name=/n noconvert nodelist=/w noheader/h notme
        only-job-state! partition=/p priority/P qos=/q reservation=/R sibling sort=/S start states=/t steps?!/s
        user=/u verbose/v yaml?!
        """,
        "SQUEUE_",
        """
        ACCOUNT ALL ARRAY ARRAY_UNIQUE FEDERATION FORMAT FORMAT2=Format LICENSES LOCAL NAMES=name PARTITION PRIORITY QOS
        SIBLING SORT STATES USERS=user
        """,
    ),
    "sacct": Grammar(
        """
        accounts=/A allclusters/L allocations/X allusers/a array associations=!/x batch-script!/B brief/b clusters=/M
        completion!/c constraints=/C delimiter= duplicates/D endtime=/E env-vars! expand-patterns federation file=!/f
        flags=!/F format=/o gid=!/g group=! helpformat/e jobs=/j json? local long/l name= ncpus=/I nnodes=/i noconvert
        nodelist=/N noheader/n parsable/p parsable2/P partition=/r qos=/q reason=/R starttime=/S state=/s
        timelimit-max=!/K timelimit-min=!/k truncate/T uid= units= use-local-uid user=/u verbose/v wckeys=/W
        whole-hetjob? yaml?!
        """,
        "SACCT_",
        "FEDERATION FORMAT LOCAL",
    ),
    "sinfo": Grammar(
        """
        all/a clusters=/M dead/d exact/e federation format=/o Format=/O future/F helpFormat hide iterate=/i json?!
        list-reasons/R local long/l noconvert Node/N nodes=/n noheader/h partition=/p reservation!/T responding/r
        sort=/S states=/t summarize/s verbose/v yaml?!
        """,
        "SINFO_",
        "ALL FEDERATION FORMAT LOCAL PARTITION SORT",
    ),
    "scancel": Grammar(
        """
        account=/A batch/b clusters=/M ctld cron full/f hurry/H interactive!/i jobname= me name=/n nodelist=/w
        partition=/p qos=/q quiet/Q reservation=/R sibling=! signal=/s state=/t user=/u verbose/v wckey=!
        """,
        takes_jobs=True,
    ),
    "sacctmgr": Grammar(
        "associations/s immediate/i noheader/n oneliner/o parsable/p parsable2/P quiet/Q readonly/r verbose/v",
        takes_words=True,
    ),
    "sshare": Grammar(
        """
        accounts=/A all/a clusters=/M format=/o long/l noheader/n parsable/p parsable2/P partition/m users=/u Users/U
        verbose/v
        """
    ),
    "scontrol": Grammar(
        """
        all/a clusters=/M details/d federation future/F hide json? local oneliner/o quiet/Q sibling uid=!/u verbose/v
        yaml?!
        """,
        "SCONTROL_",
        "ALL FEDERATION FUTURE LOCAL SIBLING",
        takes_words=True,
    ),
}
_OPTION = re.compile(r"(?P<name>[\w-]+)(?P<kind>[=?]?)(?P<refused>!?)(?:/(?P<letter>\w))?")


class Asked:
    """The options of a call, and those of the environment. Raises InputError for one that is not known or is refused.

    Long names may be cut where that is clear, as everywhere in Slurm.
    """

    def __init__(self, command: str, words: Sequence[str], environ: Mapping[str, str] = os.environ) -> None:
        grammar = GRAMMARS[command]
        known = {match["name"]: match for match in _OPTION.finditer(grammar.options)}
        letters = {match["letter"]: name for name, match in known.items() if match["letter"]}
        self.command = command
        self.switches: set[str] = set()
        self.values: dict[str, str] = {}
        self.rest: list[str] = []
        left = [*words]
        while left:
            word = left.pop(0)
            given, equals, value = word.partition("=")
            if given.startswith("--") and len(given) > 2:
                name = self._name(given[2:], known)
            elif re.match("-[A-Za-z]", word):
                given, rest = word[:2], word[2:]
                name = letters.get(word[1], "")
                if rest and name and not known[name]["kind"]:  # `-hX`
                    left.insert(0, f"-{rest}")
                    rest = ""
                equals, value = rest and "=", rest.removeprefix("=")
            elif grammar.takes_jobs or grammar.takes_words:
                self.rest.append(word)
                continue
            else:
                raise InputError(f"{word[:40]!r} is no option; write {command} --NAME=VALUE")
            if not name:
                raise InputError(f"{given[:40]}: {command} of Slurm has no such option; leave it out")
            self._refuse(known[name])
            kind = known[name]["kind"]
            if kind == "=" and not equals:
                if not left:
                    raise InputError(f"--{name} needs a value; write --{name}=VALUE")
                value = left.pop(0)
            elif kind == "?" and not equals and name == "jobs" and left and re.match(r"\d", left[0]):
                value = left.pop(0)  # `-j 41`
            elif not kind and equals:
                raise InputError(f"--{name} takes no value; write --{name}")
            self._take(name, value, has_value=kind == "=" or bool(value))
        if self.rest and grammar.takes_jobs:
            self._take("jobs", ",".join(self.rest), has_value=True)
        self._take_variables(grammar, known, environ)
        if self.values.get("clusters", "all") not in CLUSTERS:
            raise InputError(f"--clusters={self.values['clusters']}: there is one service; leave it out")

    def has(self, switch: str) -> bool:
        """Whether an option is given."""
        return switch in self.switches or switch in self.values

    def value(self, *names: str) -> str | None:
        """The value of the first of these options that is given."""
        return next((self.values[name] for name in names if name in self.values), None)

    def words(self, *names: str) -> set[str] | None:
        """The values, separated by commas, of the first of these that is given; null: none is, which is all."""
        text = self.value(*names)
        return None if text is None else {part.strip() for part in text.split(",") if part.strip()}

    def _take(self, name: str, value: str, *, has_value: bool) -> None:
        if not has_value:
            self.switches.add(name)
        elif name == "jobs" and name in self.values:  # `-j 41 -j 42`
            self.values[name] += f",{value}"
        else:
            self.values[name] = value

    def _take_variables(
        self, grammar: Grammar, known: Mapping[str, re.Match[str]], environ: Mapping[str, str]
    ) -> None:
        """Those of the environment, for options that are not given; of --format and --Format one prevails."""
        named = [each.partition("=") for each in grammar.variables.split()]
        variables = [
            (grammar.prefix + ending, name or ending.lower().replace("_", "-")) for ending, _, name in named
        ]
        for variable, name in (*variables, ("SLURM_CLUSTERS", "clusters")):
            is_given = self.has(name) or (
                name in ("format", "Format") and self.has({"format", "Format"}.difference({name}).pop())
            )
            if variable in environ and not is_given:
                self._refuse(known[name])
                self._take(name, environ[variable], has_value=bool(known[name]["kind"]))

    def _refuse(self, option: re.Match[str]) -> None:
        if option["refused"]:
            name = option["name"]
            raise InputError(f"--{name}: cannot be kept; {REFUSED.get(name, 'leave it out')}")

    def _name(self, given: str, known: Mapping[str, re.Match[str]]) -> str:
        """The full name of an option, which may be cut, or have an `s` too many; empty: there is none."""
        if given in known:
            return given
        found = [name for name in known if name.startswith(given) or name == given.removesuffix("s")]
        if len(found) > 1:
            raise InputError(
                f"--{given}: may be {' or '.join(f'--{name}' for name in found)}; write it in full"
            )
        if not found and (near := nearest(given, known)):
            raise InputError(
                f"--{given[:40]}: {self.command} of Slurm has no such option; did you mean --{near[0]}?"
            )
        return found[0] if found else ""


def help_of(command: str) -> str:
    """The options of a command as lines, with those that are refused apart."""
    found = list(_OPTION.finditer(GRAMMARS[command].options))
    lines: list[str] = []
    for option in (each for each in found if not each["refused"]):
        ending = {"=": "=VALUE", "?": "[=VALUE]"}.get(option["kind"], "")
        letter = f"-{option['letter']}, " if option["letter"] else "    "
        lines.append(f"  {letter}--{option['name']}{ending}")
    refused = [f"--{each['name']}" for each in found if each["refused"]]
    if refused:
        lines.append(f"Not kept, and refused: {' '.join(refused)}")
    return "\n".join(lines)
