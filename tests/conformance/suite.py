"""Plays the client scenarios of the official conformance suite one at a time, and tells whether all is as expected.

    suite.py NODE DIRECTORY [--write-docs]

DIRECTORY has the suite in `npm/` and the client under test as `client`; `run` puts them there.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXPECTED = HERE / "expected-failures.txt"
DOCS = HERE.parent.parent / "docs" / "conformance.md"
BEGIN = "<!-- written by tests/conformance/run --write-docs -->\n"
END = "<!-- end of what is written -->\n"

# The suite itself gives a client 30 s.
PATIENCE = 90


@dataclass(frozen=True)
class Run:
    """A scenario of one version of the suite, played in one revision of the protocol."""

    version: str
    scenario: str
    revision: str

    def __str__(self):
        return f"{self.version} {self.scenario} {self.revision}"


@dataclass(frozen=True)
class Outcome:
    # None: it did not end.
    exit_code: int | None
    checks: list
    # What the client wrote on stderr. It writes only if it failed, which some scenarios forgive, and this script does not.
    complaint: str
    log: str

    @property
    def passed(self):
        return sum(status == "SUCCESS" for status in self.checks)

    @property
    def judged(self):
        return sum(status in ("SUCCESS", "FAILURE", "WARNING") for status in self.checks)

    @property
    def is_pass(self):
        # The suite also exits with 0 when it has skipped a scenario; then it has judged nothing.
        return self.exit_code == 0 and self.passed == self.judged > 0 and not self.complaint


def suites():
    """Each version of the suite, with the name under which npm has installed it."""
    dependencies = json.loads((HERE / "package.json").read_text())["dependencies"]
    return {spec.rpartition("@")[2]: name for name, spec in dependencies.items()}


def expectations():
    """What is not played, as patterns, and which runs fail; each with its reason."""
    not_played, fails = {}, {}
    for line in EXPECTED.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        what, _, reason = line.partition(": ")
        match what.split(), reason.strip():
            case ["not-played", pattern], reason if reason:
                not_played[pattern] = reason
            case ["fails", version, scenario, revision], reason if reason:
                fails[Run(version, scenario, revision)] = reason
            case _:
                sys.exit(f"{EXPECTED.name}: this line cannot be read: {line}")
    return not_played, fails


class Suite:
    """One version of the suite."""

    def __init__(self, node, directory, version, package):
        self.index = directory / "npm" / "node_modules" / package / "dist" / "index.js"
        self.node, self.directory, self.version = node, directory, version

    def scenarios(self):
        """The names of all client scenarios, with the revisions that each is for."""
        command = [self.node, self.index, "list", "--client"]
        listed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        found = re.findall(r"^ +- (\S+) \[(\S+)\]$", listed, re.MULTILINE)
        if len(found) != len(re.findall(r"^ +- ", listed, re.MULTILINE)) or not found:
            sys.exit(f"the list of the suite {self.version} cannot be read:\n{listed}")
        return {name: revisions.split(",") for name, revisions in found}

    def play(self, run):
        results = self.directory / "results" / run.version / run.scenario / run.revision
        # A relative path to the client, since the suite splits the command at its spaces.
        command = [self.node, self.index, "client", "--command", "./client", "--scenario", run.scenario]
        command += ["--spec-version", run.revision, "--output-dir", results]
        # 0.1.16 does not tell the client for which revision it is played, but hands the environment on.
        environment = os.environ | {"MCP_CONFORMANCE_PROTOCOL_VERSION": run.revision}
        try:
            ended = subprocess.run(command, cwd=self.directory, env=environment, timeout=PATIENCE,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            exit_code, log = ended.returncode, ended.stdout
        except subprocess.TimeoutExpired:
            exit_code, log = None, f"it did not end within {PATIENCE} s"
        checks = [check["status"] for file in results.rglob("checks.json") for check in json.loads(file.read_text())]
        complaint = "".join(file.read_text() for file in results.rglob("stderr.txt"))
        return Outcome(exit_code, checks, complaint, log)


def judge(outcomes, fails):
    """What is wrong with the outcomes, measured by the failures that are expected."""
    for run, outcome in outcomes.items():
        if run in fails and outcome.is_pass:
            yield f"{run}: it passes, so it is to be taken out of {EXPECTED.name}"
        if run not in fails and not outcome.is_pass:
            yield f"{run}: it fails"
    for run in fails.keys() - outcomes.keys():
        yield f"{run}: there is no such run, so it is to be taken out of {EXPECTED.name}"


def table(version, outcomes, fails, not_played):
    """The outcomes of one version, in Markdown. Without bars at the ends of lines: in the docs, tables that have them are
    read by a test."""
    yield f"### Version {version}\n\n"
    yield "scenario | revision | result | checks passed\n---|---|---|---\n"
    for run, outcome in outcomes.items():
        if run.version == version:
            reason = f"expected failure: {fails[run]}" if run in fails else "**fail**"
            result = "pass" if outcome.is_pass else reason
            yield f"{run.scenario} | {run.revision} | {result} | {outcome.passed} of {outcome.judged}\n"
    yield "\n"
    for (pattern, reason), runs in not_played.items():
        if count := len({run.scenario for run in runs if run.version == version}):
            yield f"Not played: `{pattern}` ({count} scenarios): {reason}.\n\n"


def check_docs(text, write):
    """Whether the text is what stands between the markers in the docs; or puts it there."""
    docs = DOCS.read_text()
    before, begin, rest = docs.partition(BEGIN)
    between, end, after = rest.partition(END)
    if not (begin and end):
        return f"{DOCS.name} does not have both markers"
    if write and between != text:
        DOCS.write_text(before + begin + text + end + after)
    elif between != text:
        return f"{DOCS.name} says something else: look at the tables above, then run this with --write-docs"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("node")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--write-docs", action="store_true")
    arguments = parser.parse_args()

    not_played, fails = expectations()
    skipped = {entry: [] for entry in not_played.items()}
    outcomes = {}
    shutil.rmtree(arguments.directory / "results", ignore_errors=True)
    for version, package in suites().items():
        suite = Suite(arguments.node, arguments.directory, version, package)
        for scenario, revisions in suite.scenarios().items():
            runs = [Run(version, scenario, revision) for revision in revisions]
            pattern = next((pattern for pattern in not_played if fnmatch(scenario, pattern)), None)
            if pattern:
                skipped[pattern, not_played[pattern]] += runs
                continue
            for run in runs:
                outcome = outcomes[run] = suite.play(run)
                print(f"{run}: {'pass' if outcome.is_pass else 'fail'}", file=sys.stderr)
                if not outcome.is_pass and run not in fails:
                    print(outcome.log, outcome.complaint, sep="\n", file=sys.stderr)

    text = "\n" + "".join("".join(table(version, outcomes, fails, skipped)) for version in suites())
    print(text)
    problems = list(judge(outcomes, fails))
    problems += [f"{pattern}: no scenario matches it" for (pattern, _), runs in skipped.items() if not runs]
    # What is wrong is not written down as if it were so.
    if docs := check_docs(text, arguments.write_docs and not problems):
        problems.append(docs)
    for problem in problems:
        print(f"conformance: {problem}", file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
