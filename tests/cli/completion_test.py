#!/usr/bin/env python3
"""Completion scripts in the shells that they are for.

    completion_test.py STAGECOACH bash|fish|zsh

Without the shell it exits with 77, and nothing was tested.
"""

import os
import pty
import select
import shutil
import subprocess
import sys
import unittest

from command_line import BINARY, PATIENCE, CommandLineCase, wait_until

SHELL = sys.argv.pop(1)


class Fish:
    """`complete -C` says what a Tab would offer."""

    def __init__(self, case):
        self.case = case
        self.folder = case.directory / "fish" / "completions"
        self.folder.mkdir(parents=True)

    def install(self, script):
        (self.folder / "stagecoach.fish").write_text(script)

    def offers(self, line):
        environment = self.case.shell_environment() | {"XDG_CONFIG_HOME": str(self.case.directory)}
        result = subprocess.run(["fish", "-c", f"complete -C '{line}'"], capture_output=True, text=True, timeout=PATIENCE,
                                env=environment, cwd=self.case.directory)
        self.case.assertEqual((result.returncode, result.stderr), (0, ""))
        return [offer.split("\t")[0] for offer in result.stdout.splitlines()]


class Bash:
    """What the function leaves in COMPREPLY."""

    def __init__(self, case):
        self.case = case

    def install(self, script):
        (self.case.directory / "completion.bash").write_text(script)

    def offers(self, line):
        words = line.split(" ")
        code = ("source completion.bash; complete -p stagecoach > /dev/null || exit 1; COMP_WORDS=(\"$@\"); "
                "COMP_CWORD=$(($# - 1)); compopt() { :; }; _stagecoach; printf '%s\\n' \"${COMPREPLY[@]}\"")
        result = subprocess.run(["bash", "--norc", "-c", code, "bash", *words], capture_output=True, text=True,
                                timeout=PATIENCE, env=self.case.shell_environment(), cwd=self.case.directory)
        self.case.assertEqual((result.returncode, result.stderr), (0, ""))
        return [offer for offer in result.stdout.splitlines() if offer]


class Zsh:
    """An interactive one at a terminal: keys go in, and a key of its own writes the line that has become of them."""

    START = ("PROMPT='> '; unsetopt beep; fpath=({functions} $fpath); autoload -Uz compinit; compinit -u -d {directory}/dump; "
             "zstyle ':completion:*' menu no; setopt no_auto_menu list_ambiguous; "
             "write-line() {{ print -r -- \"$BUFFER\" > {directory}/part; mv {directory}/part {directory}/line; zle kill-whole-line; }}; "
             "zle -N write-line; bindkey '^X' write-line; {source} print -r ready > {directory}/ready")

    def __init__(self, case):
        self.case = case
        self.functions = case.directory / "functions"
        self.functions.mkdir()
        self.source = ""

    def install(self, script):
        (self.functions / "_stagecoach").write_text(script)

    def install_by_source(self, script):
        (self.case.directory / "completion.zsh").write_text(script)
        self.source = f"source {self.case.directory}/completion.zsh;"

    def start(self):
        pid, self.terminal = pty.fork()
        if pid == 0:
            os.chdir(self.case.directory)
            os.execvpe("zsh", ["zsh", "-f", "-i"], self.case.shell_environment() | {"TERM": "dumb"})
        self.case.addCleanup(self.end, pid)
        start = self.START.format(functions=self.functions, directory=self.case.directory, source=self.source)
        self.type(start + "\n")
        wait_until(lambda: self.read((self.case.directory / "ready").exists), "zsh")

    def end(self, pid):
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(self.terminal)

    def type(self, text):
        os.write(self.terminal, text.encode())

    def read(self, condition):
        """What the terminal shows has to be taken, or zsh waits."""
        while select.select([self.terminal], [], [], 0.01)[0]:
            if not os.read(self.terminal, 4096):
                break
        return condition()

    def offers(self, line):
        """The line after a Tab, as the only offer: what all offers begin with."""
        if not hasattr(self, "terminal"):
            self.start()
        written = self.case.directory / "line"
        self.type(line + "\t\x18")
        wait_until(lambda: self.read(written.exists), f"the line after {line}")
        text = written.read_text().removesuffix("\n")
        written.unlink()
        return [text.split(" ")[-1]] if text[-1] != " " else [text.split(" ")[-2]]


SHELLS = {"bash": Bash, "fish": Fish, "zsh": Zsh}


class CompletionScriptTest(CommandLineCase):
    def setUp(self):
        super().setUp()
        self.run_stagecoach("up", "--workers", 1, "--threads", 1, "--state-dir", self.directory / "state", "-d")
        self.addCleanup(self.run_stagecoach, "down", "--force")
        self.run_stagecoach("submit", self.spec, "--wait")
        self.shell = SHELLS[SHELL](self)
        self.script = self.run_stagecoach("completion", SHELL).stdout

    def shell_environment(self):
        path = f"{os.path.dirname(BINARY)}:{os.environ.get('PATH', '/usr/bin:/bin')}"
        return self.environment | {"PATH": path, "HOME": str(self.directory)}

    def check_offers(self):
        self.assertEqual(self.shell.offers("stagecoach submi"), ["submit"])
        self.assertEqual(self.shell.offers("stagecoach get wor"), ["workers"])
        self.assertEqual(self.shell.offers("stagecoach describe job c"), ["cli"])
        self.assertEqual(self.shell.offers("stagecoach submit --foll"), ["--follow"])
        (self.directory / "mine.yaml").write_text("")
        self.assertEqual(self.shell.offers("stagecoach submit min"), ["mine.yaml"])

    def test_it_completes_verbs_options_jobs_and_files(self):
        self.shell.install(self.script)
        self.check_offers()

    @unittest.skipUnless(SHELL == "zsh", "the others have one way to load it")
    def test_it_may_be_sourced(self):
        self.shell.install_by_source(self.script)
        self.check_offers()

    @unittest.skipIf(SHELL == "zsh", "its line has what all offers begin with")
    def test_it_offers_all_that_fits(self):
        self.shell.install(self.script)
        self.assertEqual(sorted(self.shell.offers("stagecoach get ")), ["checkpoints", "events", "jobs", "workers"])


if __name__ == "__main__":
    if shutil.which(SHELL) is None:
        print(f"skipped: there is no {SHELL} here; deploy/install-deps.sh test installs it")
        sys.exit(77)
    unittest.main()
