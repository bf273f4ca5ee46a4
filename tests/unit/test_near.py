"""`make near` knows the tests of each kind of file."""

import re

import pytest

from tests import near
from tests.paths import CHECKOUT


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        pytest.param("exporter/spec_decode_exporter/core/urls.py", ["core/test_urls.py"], id="module"),
        pytest.param(
            "exporter/spec_decode_exporter/core/version.py", ["core"], id="module without tests of its own"
        ),
        pytest.param("exporter/spec_decode_exporter/web/static/page.css", ["web"], id="file of a package"),
        pytest.param(
            "exporter/spec_decode_exporter/config/policy.py",
            ["config", "findings", "../contract/docs/test_reference.py"],
            id="key",
        ),
        pytest.param("tests/unit/core/test_urls.py", ["core/test_urls.py"], id="test"),
        pytest.param("tests/unit/web/conftest.py", ["web"], id="fixtures of a package"),
        pytest.param("tests/near.py", ["test_near.py"], id="tool"),
    ],
)
def test_a_changed_file_runs_its_tests(path, tests):
    assert near.tests_of(path) == [f"tests/unit/{test}".replace("unit/../", "") for test in tests]


@pytest.mark.parametrize("path", ["tests/fakes/windows.py", "LICENSE", "tests/unit/core/test_deleted.py"])
def test_a_file_may_have_no_tests_of_its_own(path):
    assert near.tests_of(path) == []


def test_every_package_has_tests():
    packages = (CHECKOUT / "exporter" / "spec_decode_exporter").glob("*/__init__.py")
    assert not [
        package
        for package in packages
        if not near.tests_of(f"exporter/spec_decode_exporter/{package.parent.name}/any.py")
    ]


def test_every_row_concerns_files_that_exist():
    files = near._git("ls-files")
    rows = [pattern for pattern, _ in near.ROWS]
    used = {next((row for row in rows if re.fullmatch(row, file)), None) for file in files}
    assert used >= set(rows)
    assert all(
        near.tests_of(file) for file in files if re.fullmatch(rows[0], file) and (CHECKOUT / file).exists()
    )


def test_a_folder_stands_for_the_files_in_it():
    changed = ["tests/unit/core/test_urls.py", "exporter/spec_decode_exporter/core/version.py"]
    assert near.selected(changed) == ["tests/unit/core"]


def test_documents_need_no_type_checker_and_code_does():
    programs = [
        command[0].rpartition("/")[2]
        for command in near.commands(["README.md"], ["tests/contract/docs/test_documents.py"])
    ]
    assert programs == ["pytest"]
    programs = [
        command[0].rpartition("/")[2]
        for command in near.commands(["exporter/spec_decode_exporter/core/urls.py"], [])
    ]
    assert programs == ["ruff", "ruff", "mypy", "lint-imports", "python"]
