#!/usr/bin/env python3
"""`stagecoach up` and `down`: a cluster that stays, its processes and what becomes of them."""

import os
import signal
import unittest

from command_line import BINARY, FOREVER, CommandLineCase, children_of, name_of, parent_of, pathlib, wait_until


class LocalClusterCase(CommandLineCase):
    def setUp(self):
        super().setUp()
        self.state = self.directory / "state"
        self.addCleanup(self.end_cluster)

    def end_cluster(self):
        """Also when a test has failed half-way."""
        pid = self.supervisor()
        if pid and parent_of(pid):
            os.kill(pid, signal.SIGKILL)

    def up(self, *arguments, workers=2, code=0):
        return self.run_stagecoach("up", "--workers", workers, "--threads", 1, "--state-dir", self.state, "-d", *arguments, code=code)

    def supervisor(self):
        try:
            return int((self.state / "supervisor.pid").read_text())
        except (OSError, ValueError):
            return 0

    def workers(self):
        return {worker["name"]: worker for worker in self.get_json("get", "workers")["workers"]}

    def processes(self):
        return {name_of(pid): pid for pid in children_of(self.supervisor())}

    def kill_and_wait(self, name):
        """Until another process has taken its place."""
        old = self.processes()[name]
        os.kill(old, signal.SIGKILL)
        wait_until(lambda: self.processes().get(name, old) != old, f"{name} to be started again")


class UpDownTest(LocalClusterCase):
    def test_up_makes_the_cluster_the_current_context_and_down_forgets_it(self):
        self.assertIn("context state is the current one", self.up().stderr)
        self.assertEqual(os.stat(self.directory / "config.yaml").st_mode & 0o777, 0o600)
        workers = self.workers()
        self.assertEqual(sorted(workers), ["worker-0", "worker-1"])
        for worker in workers.values():
            self.assertEqual((worker["state"], worker["job"], worker["stages"], worker["device"]), ("IDLE", "", [], "cpu"))
            self.assertEqual(parent_of(worker["pid"]), self.supervisor())
            self.assertGreater(worker["incarnation"], 0)
            self.assertLess(worker["last_seen_seconds"], 60)
        self.assertEqual(sorted(self.processes()), ["stagecoach-coordinator", "stagecoach-worker worker-0",
                                                    "stagecoach-worker worker-1"])
        commands = pathlib.Path(f"/proc/{self.processes()['stagecoach-coordinator']}/cmdline").read_bytes().decode().split("\0")
        self.assertEqual(commands[1:3], ["--state-dir", str(self.state)])
        children = self.processes()
        self.run_stagecoach("down")
        for name, pid in children.items():
            self.assertEqual(parent_of(pid), 0, name)
        self.assertEqual(self.run_stagecoach("config", "get-contexts", "-o", "name").stdout, "local\n")

    def test_in_the_foreground_it_ends_with_ctrl_c(self):
        with self.started("up", "--workers", 1, "--state-dir", self.state) as process:
            wait_until(lambda: "Ctrl-C ends it" in process.stderr.readline(), "the cluster")
            children = children_of(process.pid)
            self.assertEqual(len(children), 2)
            process.send_signal(signal.SIGINT)
            self.end_of(process, 0)
            self.assertEqual([parent_of(child) for child in children], [0, 0])

    def test_a_second_one_in_the_same_directory_is_a_conflict(self):
        self.up(workers=1)
        result = self.up(workers=1, code=9)
        self.assertIn(f"a cluster runs in {self.state} already (pid {self.supervisor()})", result.stderr)
        self.assertEqual(sorted(self.workers()), ["worker-0"])
        self.run_stagecoach("down")

    def test_down_where_nothing_runs(self):
        result = self.run_stagecoach("down", "--state-dir", self.state, code=5)
        self.assertIn("there has been no cluster in", result.stderr)
        self.up(workers=1)
        self.run_stagecoach("down", "--state-dir", self.state)
        self.assertIn("no cluster runs in", self.run_stagecoach("down", "--state-dir", self.state).stderr)

    def test_down_does_not_end_jobs_unless_it_is_forced_to(self):
        self.up(workers=1)
        forever = ("--set", FOREVER)
        self.run_stagecoach("submit", self.spec, *forever)
        self.run_stagecoach("submit", self.spec, *forever, "--set", "name=waits")
        self.run_stagecoach("wait", "cli", "--for=step=1")
        refused = self.run_stagecoach("down", code=9)
        self.assertIn("have not ended: cli, waits", refused.stderr)
        self.assertIn("stagecoach down --force", refused.stderr)
        self.assertEqual(self.get_json("get", "job", "cli")["state"], "RUNNING")
        self.run_stagecoach("down", "--force")
        wait_until(lambda: parent_of(self.supervisor()) == 0, "the supervisor's end")
        self.up(workers=1)
        jobs = {job["name"]: job for job in self.get_json("get", "jobs")["jobs"]}
        self.assertEqual({name: job["state"] for name, job in jobs.items()}, {"cli": "CANCELLED", "waits": "CANCELLED"})
        self.assertEqual(self.run_stagecoach("checkpoint", "digest", self.checkpoints).stdout.strip(), jobs["cli"]["digest"])
        self.run_stagecoach("down")  # nothing is left to lose

    def test_down_says_which_jobs_were_lost_all_the_same(self):
        self.up(workers=1)
        self.run_stagecoach("submit", self.spec, "--set", FOREVER)
        self.run_stagecoach("wait", "cli", "--for=step=1")
        worker = self.processes()["stagecoach-worker worker-0"]
        os.kill(worker, signal.SIGSTOP)  # its lease is longer than the grace
        with self.started("down", "--force", "--grace", "1ms") as process:
            wait_until(lambda: "not cancelled within 1ms, and lost: cli" in process.stderr.readline(), "the loss")
            os.kill(worker, signal.SIGCONT)
            self.end_of(process, 0)

    def test_a_supervisor_that_is_killed_takes_its_children_along(self):
        self.up(workers=1)
        children = self.processes()
        os.kill(self.supervisor(), signal.SIGKILL)
        for name, pid in children.items():
            wait_until(lambda: parent_of(pid) == 0, f"the end of {name}")
        result = self.run_stagecoach("get", "jobs", code=6)  # at once: there is nobody to wait for
        self.assertIn(f"no cluster runs in {self.state}; start one with: stagecoach up --state-dir {self.state}", result.stderr)
        self.run_stagecoach("down")  # the stale pid is nobody's
        self.up(workers=1)
        self.assertEqual(sorted(self.workers()), ["worker-0"])
        self.run_stagecoach("down")


class RestartTest(LocalClusterCase):
    def test_the_dead_are_started_again(self):
        self.up()
        before = self.workers()
        self.kill_and_wait("stagecoach-worker worker-1")
        wait_until(lambda: self.workers()["worker-1"]["pid"] != before["worker-1"]["pid"], "worker-1 to register")
        after = self.workers()
        self.assertNotEqual(after["worker-1"]["incarnation"], before["worker-1"]["incarnation"])
        self.assertEqual(after["worker-0"]["incarnation"], before["worker-0"]["incarnation"])
        # A coordinator comes back at the same address, and the workers to it.
        self.kill_and_wait("stagecoach-coordinator")
        wait_until(lambda: [w["state"] for w in self.workers().values()] == ["IDLE", "IDLE"], "the workers to dial again")
        self.assertEqual({w["pid"] for w in self.workers().values()}, {w["pid"] for w in after.values()})
        self.run_stagecoach("down")

    def test_never_leaves_them_dead(self):
        self.up("--restart", "never")
        os.kill(self.processes()["stagecoach-worker worker-0"], signal.SIGKILL)
        wait_until(lambda: self.workers()["worker-0"]["state"] == "LOST", "the loss")
        self.assertEqual(sorted(self.processes()), ["stagecoach-coordinator", "stagecoach-worker worker-1"])
        self.run_stagecoach("down")


class UpFailsTest(LocalClusterCase):
    def test_programs_that_are_missing(self):
        alone = self.directory / "stagecoach"
        os.link(BINARY, alone)
        result = self.run_stagecoach("up", "--workers", 1, "--state-dir", self.state, code=1, binary=alone)
        self.assertIn(f"there is no program {self.directory}/stagecoach-coordinator", result.stderr)
        self.run_stagecoach("up", "--workers", 1, "--state-dir", self.state, "-d", code=1, binary=alone)
        self.run_stagecoach("train", self.spec, "--workers", 1, code=1, binary=alone)

    def test_a_journal_that_is_none(self):
        self.state.mkdir()
        (self.state / "journal.sqlite").write_bytes(b"this is no journal" * 1000)
        result = self.up(workers=1, code=1)
        self.assertRegex(result.stderr, r"coordinator exited with 1 at its start; its log says:\n  \| .*journal")

    def test_a_state_directory_that_is_a_file(self):
        self.state.write_text("")
        self.assertIn(str(self.state), self.up(workers=1, code=1).stderr)


if __name__ == "__main__":
    unittest.main()
