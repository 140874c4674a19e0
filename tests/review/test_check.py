from __future__ import annotations

import json
from pathlib import Path
from shutil import copyfile

import pytest

from gateway.review.check import FOUND, HOLDS, USAGE, check
from tests.policy.edits import CONTROL, EXAMPLES, INTERNAL, PARTNER, edited, line_of

POLICIES = Path(__file__).parents[2] / "policies"


def write(path: Path, text: str) -> Path:
    """Write a policy file."""
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("name", [PARTNER, INTERNAL, CONTROL])
def test_the_worked_examples_hold(name: str) -> None:
    report = check([EXAMPLES / f"{name}.yaml"])
    assert report.status == HOLDS, report.as_text()
    assert f"plane {name}" in report.as_text()


def test_the_shipped_policies_hold_together() -> None:
    report = check([POLICIES])
    assert report.status == HOLDS, report.as_text()
    assert {file.plane for file in report.files} >= {PARTNER, INTERNAL}


def test_a_clean_report_says_how_much_was_checked_and_what_is_not_enforced() -> None:
    (file,) = check([EXAMPLES / "control.yaml"]).files
    assert file.cases == 20
    first, second = file.lines()
    assert f"20 cases hold, and notice each of {file.changes} changes" in first
    assert "not enforced yet by this version: endpoints.sleep" in second


def test_problems_are_told_with_file_line_and_sentence(tmp_path: Path) -> None:
    text = edited(INTERNAL, ("unlisted: drop", "unlisted: dorp"), ("top_k, min_p", "top_k, minp"))
    path = write(tmp_path / "a.yaml", text)
    report = check([path])
    assert report.status == FOUND
    (problem,) = report.files[0].problems
    assert problem.line == line_of(text, "unlisted: dorp")
    assert report.as_text() == str(problem)
    assert report.as_text().startswith(f"{path}:{problem.line}:")


def test_failing_cases_are_told_with_what_was_expected_and_got(tmp_path: Path) -> None:
    text = edited(INTERNAL, ("permit: {sent: {n: 1}}", "permit: {sent: {n: 2}}"))
    report = check([write(tmp_path / "a.yaml", text)])
    assert report.status == FOUND
    assert "'one answer is asked for instead of two': expected sent.n: 2; got sent.n: 1" in report.as_text()
    assert f"a.yaml:{line_of(text, '    - name: one answer')}:" in report.as_text()


def test_changes_that_no_case_notices_are_told_with_their_line(tmp_path: Path) -> None:
    text = edited(INTERNAL, ("permit: {sent: {n: 1}}", "permit: {}"))
    report = check([write(tmp_path / "a.yaml", text)])
    assert report.status == FOUND
    line = line_of(text, "      n: {at_most: 1")
    assert {problem.line for problem in report.files[0].unnoticed} == {line - 1, line}
    told = "parameters.chat.caps.n.at_most: no case notices when this becomes `2`"
    assert told in report.as_text()


def test_the_machine_reads_the_same(tmp_path: Path) -> None:
    broken = write(tmp_path / "broken.yaml", "policy: 1\n")
    toothless = write(
        tmp_path / "toothless.yaml", edited(INTERNAL, ("permit: {sent: {n: 1}}", "permit: {sent: {n: 2}}"))
    )
    report = check([broken, toothless, EXAMPLES / "control.yaml"])
    data = json.loads(report.as_json())
    assert data["holds"] is False
    assert data["unreadable"] == []
    first, second, third = data["files"]
    assert first["plane"] is None
    assert {"file", "line", "column", "where", "sentence"} <= first["problems"][0].keys()
    assert second["failing"][0]["expected"] == "sent.n: 2"
    assert second["failing"][0]["got"] == "sent.n: 1"
    assert third["problems"] == third["failing"] == third["unnoticed"] == []
    assert third["not_enforced"][0] == "endpoints.sleep"


def test_a_folder_means_the_yaml_files_directly_inside(tmp_path: Path) -> None:
    copyfile(EXAMPLES / "control.yaml", tmp_path / "control.yaml")
    write(tmp_path / "notes.txt", "no policy")
    write(tmp_path / "other.yml", "no policy")
    (tmp_path / "more").mkdir()
    write(tmp_path / "more" / "hidden.yaml", "no policy")
    (tmp_path / "folder.yaml").mkdir()
    report = check([tmp_path, tmp_path / "control.yaml"])
    assert [file.file for file in report.files] == [str(tmp_path / "control.yaml")]
    assert report.status == HOLDS


def test_files_are_one_set(tmp_path: Path) -> None:
    """The worked examples come from three owners: two of them call different issuers corp."""
    for name in (PARTNER, INTERNAL):
        copyfile(EXAMPLES / f"{name}.yaml", tmp_path / f"{name}.yaml")
    report = check([tmp_path])
    assert report.status == FOUND
    (problem,) = [problem for file in report.files for problem in file.problems]
    assert problem.where == "trust.callers.corp"


@pytest.mark.parametrize("there", [False, True])
def test_a_path_without_policies_is_a_mistake_of_use(tmp_path: Path, there: bool) -> None:  # noqa: FBT001  (whether the folder exists)
    path = tmp_path if there else tmp_path / "nothing.yaml"
    report = check([path])
    assert report.status == USAGE
    assert report.files == ()
    assert str(path) in report.as_text()
    assert json.loads(report.as_json())["unreadable"] == list(report.unreadable)


def test_a_file_that_is_not_utf_8_is_refused_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"policy: 1\nplane: caf\xe9\n")
    report = check([path])
    assert report.status == FOUND
    assert report.as_text() == f"{path}:2:1: this line is not UTF-8"
