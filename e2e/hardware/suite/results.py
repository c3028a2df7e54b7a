# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""What the suite found, and the page that says it."""

import json
import os


class Results:
    """Tables, and three lists: problems decide the exit status, skipped says what
    was not tried and why, notes say what is worth knowing and no fault."""

    def __init__(self, folder):
        self.folder = folder
        self.facts = {}
        self.tables = []
        self.problems, self.skipped, self.notes = [], [], []

    def problem(self, text):
        text = one_line(text)
        print("  PROBLEM: " + text, flush=True)
        self.problems.append(text)

    def skip(self, what, why):
        text = one_line("%s: %s" % (what, why))
        print("  skipped: " + text, flush=True)
        self.skipped.append(text)

    def note(self, text):
        self.notes.append(text)

    def table(self, title, header, rows, about=""):
        self.tables.append({"title": title, "header": header, "rows": rows, "about": about})
        self.write()  # what ends the suite from outside leaves what was found so far

    def path(self, name):
        """Where a file of the report lies."""
        return os.path.join(self.folder, name)

    def write(self):
        """Writes report.md for a reader and report.json for a program."""
        with open(self.path("report.json"), "w") as f:
            json.dump({key: getattr(self, key) for key in ("facts", "problems", "skipped", "notes", "tables")}, f, indent=1)
        with open(self.path("report.md"), "w") as f:
            f.write(self.markdown())

    def markdown(self):
        lines = ["# gpu_leak_exporter on real hardware", ""]
        lines += ["%d problems, %d things skipped." % (len(self.problems), len(self.skipped)), ""]
        for title, items in (("Problems", self.problems), ("Skipped", self.skipped), ("Notes", self.notes)):
            if items:
                lines += ["## " + title, ""] + ["- " + item for item in items] + [""]
        lines += ["## The machine", "", "| | |", "|---|---|"]
        lines += ["| %s | %s |" % (key, cell(value)) for key, value in self.facts.items()] + [""]
        for table in self.tables:
            lines += ["## " + table["title"], ""]
            if table["about"]:
                lines += [table["about"], ""]
            lines += ["| %s |" % " | ".join(table["header"]), "|" + "---|" * len(table["header"])]
            lines += ["| %s |" % " | ".join(cell(c) for c in row) for row in table["rows"]] + [""]
        return "\n".join(lines)


def one_line(text):
    """Errors of frameworks have many lines, some of them drawn."""
    return " ".join(str(text).split())[:600]


def cell(value):
    """A value as a table shows it; absent is a dash, not 0."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return "%.6g" % value
    return str(value).replace("|", "\\|").replace("\n", " ")
