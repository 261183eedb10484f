#!/usr/bin/env python3
"""What a specification meets at the command line: validate, plan, and every way of being wrong."""

import json
import pathlib
import shutil
import unittest

from command_line import CommandLineCase


class ValidateTest(CommandLineCase):
    def test_prints_the_resolved_specification(self):
        self.assertIn("cli is valid", self.run_stagecoach("validate", self.spec).stdout)
        resolved = self.run_stagecoach("validate", self.spec, "-o", "yaml").stdout
        again = self.run_stagecoach("validate", "-", "-o", "yaml", stdin=resolved).stdout
        self.assertEqual(resolved, again)
        self.assertEqual(self.get_json("validate", self.spec)["name"], "cli")

    def test_errors_say_where(self):
        self.spec.write_text(self.spec.read_text().replace("seq_len: 16", "seq_length: 16"))
        result = self.run_stagecoach("validate", self.spec, code=2)
        self.assertRegex(result.stderr, r"spec\.yaml:\d+:\d+: training\.seq_length: .*seq_len")

    def test_errors_in_json_name_the_field(self):
        result = self.run_stagecoach("validate", self.spec, "--set", "training.stepz=1", "-o", "json", code=2)
        error = json.loads(result.stdout)["error"]
        self.assertEqual(error["code"], "INVALID_ARGUMENT")
        self.assertEqual(error["field"], "training.stepz")
        self.assertIn("steps", error["hint"])
        self.assertIn("training.stepz", result.stderr)


AUTO = ("--set", "parallelism.schedule=auto")


class PlanTest(CommandLineCase):
    def test_has_the_published_fields(self):
        plan = self.get_json("plan", self.spec, "--workers", 2)
        for field in ("schedule", "num_micro_batches", "step_seconds", "bubble_ratio", "lower_bound_seconds",
                      "partition_imbalance_ratio"):
            self.assertIn(field, plan)
        self.assertEqual(len(plan["stages"]), 2)
        for stage in plan["stages"]:
            for field in ("first_layer", "last_layer", "parameters", "forward_seconds", "backward_input_seconds",
                          "backward_weight_seconds"):
                self.assertIn(field, stage)
            memory = stage["memory_bytes"]
            parts = ("parameters", "gradients", "optimizer", "activations", "pending_weight", "receive", "scratch",
                     "snapshot")
            self.assertEqual(sum(memory[p] for p in parts), memory["total"])

    def test_has_the_schedules_that_were_compared(self):
        plan = self.get_json("plan", self.spec, *AUTO, "--workers", 2)
        candidates = plan["candidates"]
        self.assertEqual([set(each) for each in candidates], [
            {"schedule", "virtual_stages", "step_seconds", "bubble_ratio", "memory_bytes", "why_not"}] * len(candidates))
        self.assertEqual({each["schedule"] for each in candidates},
                         {"1f1b", "gpipe", "zb_h1", "interleaved", "zb_v", "v_half", "dualpipe_v", "auto"})
        best = candidates[0]
        self.assertEqual((best["schedule"], best["step_seconds"]), (plan["schedule"], plan["step_seconds"]))
        fitting = [each for each in candidates if not each["why_not"]]
        self.assertEqual(fitting[1:], sorted(fitting[1:], key=lambda each: each["step_seconds"]))
        # An order that was searched has to be shorter by so much.
        self.assertLessEqual(best["step_seconds"] * 0.998, fitting[1]["step_seconds"])
        # 2 workers x 4 stages, and there are 4 blocks.
        self.assertIn("8 stages", candidates[-1]["why_not"])
        text = self.run_stagecoach("plan", self.spec, *AUTO, "--workers", 2).stdout
        self.assertRegex(text, r"stage +worker +layers")
        table = text[text.index("SCHEDULE"):].splitlines()[1:len(candidates) + 1]
        self.assertEqual([line.split()[0] for line in table], [each["schedule"] for each in candidates])
        self.assertIn("8 stages", table[-1])

    def test_an_order_that_is_shorter_than_every_schedule(self):
        plan = self.get_json("plan", self.spec, *AUTO, "--workers", 3)
        self.assertEqual((plan["schedule"], plan["candidates"][0]["schedule"]), ("auto", "auto"))
        named = plan["candidates"][1]
        self.assertLess(plan["step_seconds"], 0.998 * named["step_seconds"])
        self.assertEqual(plan, self.get_json("plan", self.spec, *AUTO, "--workers", 3))
        text = self.run_stagecoach("plan", self.spec, *AUTO, "--workers", 3).stdout
        self.assertRegex(text, rf"schedule auto \(an order searched for this job, a step \d+\.\d% shorter than that of {named['schedule']}\), 4 micro")
        self.assertNotIn("one more micro-batch", text)

    def test_memory_that_is_no_size(self):
        for memory in ("-5", "-1KiB", "99999999999999999999", "nan", "GiB"):
            self.refuse(self.spec, f"--memory={memory}", says="is no size: expected bytes, or 64GiB", verb="plan")

    def test_memory_is_what_is_asked(self):
        roomy = self.get_json("plan", self.spec, *AUTO, "--workers", 2)
        most = max(each["memory_bytes"] for each in roomy["candidates"])
        self.assertEqual(roomy, self.get_json("plan", self.spec, *AUTO, "--workers", 2, "--memory", 2 * most))
        least = min(each["memory_bytes"] for each in roomy["candidates"] if not each["why_not"])
        tight = self.get_json("plan", self.spec, *AUTO, "--workers", 2, "--memory", least)
        self.assertRegex(" ".join(each["why_not"] for each in tight["candidates"]), r"its best cut lacks \d+ bytes on worker \d")
        for_four = max(stage["memory_bytes"]["total"] for stage in self.get_json("plan", self.spec, "--workers", 4)["stages"])
        self.refuse(self.spec, *AUTO, "--workers", 2, "--memory", (for_four + least) // 2, says="are lacking; it fits with",
                    verb="plan")
        self.refuse(self.spec, *AUTO, "--memory", "1KiB", says="are lacking; it does not fit on up to", verb="plan")

    def test_more_workers_than_layers(self):
        self.refuse(self.spec, "--workers", 5, says="5 stages for 4 transformer blocks", verb="plan")
        self.refuse(self.spec, "--workers", 3, "--set", "parallelism.schedule=zb_v", verb="plan",
                    says="6 stages (3 workers x 2) for 4 transformer blocks")
        for verb in ("plan", "validate", "train"):
            self.refuse(self.spec, "--set", "parallelism.pipeline_parallel_degree=5", verb=verb,
                        says="pipeline_parallel_degree 5 is more than num_hidden_layers 4")

    def test_stages_that_a_schedule_is_not_made_for(self):
        for name in ("zb_v", "v_half", "dualpipe_v"):
            self.refuse(self.spec, "--workers", 1, "--set", f"parallelism.schedule={name}", "--set",
                        "parallelism.virtual_stages=3", verb="plan",
                        says=f"virtual_stages is 3, with which schedule {name} does not run; it is made for 2")

    def test_draws_a_picture_and_a_trace(self):
        trace = json.loads(self.run_stagecoach("plan", self.spec, "--workers", 2, "-o", "trace").stdout)
        self.assertEqual(len([e for e in trace["traceEvents"] if e["ph"] == "X"]), 2 * 2 * 4)
        self.assertIn("worker 1", self.run_stagecoach("plan", self.spec, "--workers", 2).stdout)

    def test_says_what_limits_the_step_and_what_would_change_it(self):
        text = self.run_stagecoach("plan", self.spec, "--workers", 2).stdout
        self.assertRegex(text, r"critical +stage \d on worker \d: \S+ of \S+ on the critical path")
        self.assertRegex(text, r"one block moved +.*transformer\.h\.\d from stage \d to stage \d: step [+-]")
        self.assertRegex(text, r"one more micro-batch +step \+")
        self.assertIn("no stage has a block to spare", self.run_stagecoach("plan", self.spec, "--workers", 4).stdout)


FROZEN = ("--set", "model.frozen_layers=[transformer.wte, transformer.h.0-1, lm_head]")


class FrozenLayersTest(CommandLineCase):
    def test_are_resolved(self):
        spec = self.get_json("validate", self.spec, *FROZEN)
        self.assertEqual(spec["model"]["frozen_layers"],
                         ["transformer.wte", "transformer.h.0", "transformer.h.1", "lm_head"])
        resolved = self.run_stagecoach("validate", self.spec, *FROZEN, "-o", "yaml").stdout
        self.assertIn("frozen_layers: [transformer.wte, transformer.h.0, transformer.h.1, lm_head]", resolved)
        self.assertEqual(resolved, self.run_stagecoach("validate", "-", "-o", "yaml", stdin=resolved).stdout)
        self.assertRegex(self.run_stagecoach("validate", self.spec, *FROZEN).stdout,
                         r"frozen +4 layer\(s\); \d+ parameters are trained")

    def test_plan_shows_what_is_left(self):
        args = ("--workers", 2, "--set", "parallelism.partition=even")
        plan = self.get_json("plan", self.spec, *FROZEN, *args)
        frozen, trained = plan["stages"]
        self.assertEqual(frozen["backward_input_seconds"], 0)
        self.assertEqual(frozen["backward_weight_seconds"], 0)
        self.assertEqual(int(frozen["memory_bytes"]["gradients"]), 0)
        self.assertEqual(int(frozen["memory_bytes"]["optimizer"]), 0)
        self.assertGreater(trained["backward_weight_seconds"], 0)
        self.assertLess(plan["step_seconds"], self.get_json("plan", self.spec, *args)["step_seconds"])
        text = self.run_stagecoach("plan", self.spec, *FROZEN, *args).stdout
        self.assertIn("stage 0: layers 0 to 2 are frozen: no backward\n", text)
        self.assertIn("stage 1: layer 6 is frozen\n", text)
        self.assertNotRegex(text, r"\b0[BIW]\d")
        middle = self.run_stagecoach("plan", self.spec, *args, "--set", "model.frozen_layers=[transformer.h.2-3, transformer.ln_f]",
                                     "--set", "model.config.tie_word_embeddings=false").stdout
        self.assertNotIn("I alone", middle)  # the head is trained
        passing = self.run_stagecoach("plan", self.spec, *args, "--set", "model.config.tie_word_embeddings=false",
                                      "--set", "model.frozen_layers=[transformer.h.2-3, transformer.ln_f, lm_head]").stdout
        self.assertIn("stage 1: layers 3 to 6 are frozen: gradients pass through, I alone\n", passing)
        inside = self.run_stagecoach("plan", self.spec, *args, "--set", "model.config.tie_word_embeddings=false",
                                     "--set", "model.frozen_layers=[transformer.wte, transformer.h.0]").stdout
        self.assertIn("stage 0: layers 0 to 1 are frozen: the backward ends at layer 2\n", inside)

    def test_are_trained_without(self):
        untied = ("--set", "model.config.tie_word_embeddings=false", "--set", "training.steps=3")
        digests = set()
        for workers in (1, 2):
            self.run_stagecoach("train", self.spec, "--workers", workers, *untied, "--set",
                                "model.frozen_layers=[transformer.wte, transformer.h.0-1]")
            digests.add(self.run_stagecoach("checkpoint", "digest", "--state", self.checkpoints).stdout)
            shutil.rmtree(self.checkpoints)
        self.assertEqual(len(digests), 1)

    def test_wrong_lists(self):
        for layers, says in (
                ("[transformer.h.9]", '"transformer.h.9" is no layer of the model; the layers are transformer.wte, transformer.h.0 '
                                      'to transformer.h.3, transformer.ln_f and lm_head'),
                ("[transformer.ln_g]", "did you mean transformer.ln_f?"),
                ("[transformer.h.1.ln_1.weight]", "layers are frozen whole; did you mean transformer.h.1?"),
                ('["*.mlp"]', '"*.mlp" matches no layer'),
                ("[transformer.h.1, transformer.h.0-2]", "model.frozen_layers[1]: transformer.h.1 is frozen by model.frozen_layers[0]"),
                ('["*"]', "every layer is frozen, and nothing is left to train"),
                ("[lm_head]", "lm_head is frozen and transformer.wte is not, and model.config.tie_word_embeddings"),
                ("transformer.wte", "expected a list of layers")):
            for verb in ("train", "validate", "plan", "submit"):
                self.refuse(self.spec, "--set", f"model.frozen_layers={layers}", says=says, verb=verb)


SKIPS = ("--set", "model.skip_connections=[{from: transformer.h.1, to: transformer.ln_f}, {from: transformer.h.0, to: transformer.h.3}]")


class SkipConnectionsTest(CommandLineCase):
    def test_are_resolved(self):
        spec = self.get_json("validate", self.spec, *SKIPS)
        self.assertEqual(spec["model"]["skip_connections"], [{"from": "transformer.h.0", "to": "transformer.h.3"},
                                                             {"from": "transformer.h.1", "to": "transformer.ln_f"}])
        resolved = self.run_stagecoach("validate", self.spec, *SKIPS, "-o", "yaml").stdout
        self.assertIn("skip_connections: [{from: transformer.h.0, to: transformer.h.3}, {from: transformer.h.1, to: transformer.ln_f}]",
                      resolved)
        self.assertEqual(resolved, self.run_stagecoach("validate", "-", "-o", "yaml", stdin=resolved).stdout)
        self.assertRegex(self.run_stagecoach("validate", self.spec, *SKIPS).stdout, r"skips +2 connection\(s\) past layers")
        self.assertNotIn("skips", self.run_stagecoach("validate", self.spec).stdout)

    def test_plan_shows_which_stages_they_join(self):
        args = ("--workers", 2, "--set", "parallelism.partition=even", "--set", "parallelism.schedule=1f1b")
        text = self.run_stagecoach("plan", self.spec, *SKIPS, *args).stdout
        self.assertRegex(text, r"stage 0 to stage 1: 2 skip connections, \d\.\d\d MiB a micro-batch, and 2 gradients back\n")
        frozen = self.run_stagecoach("plan", self.spec, *SKIPS, *args, "--set", "model.config.tie_word_embeddings=false",
                                     "--set", "model.frozen_layers=[transformer.wte, transformer.h.0]").stdout
        self.assertRegex(frozen, r"stage 0 to stage 1: 2 skip connections, .* a micro-batch, and 1 gradient back\n")
        self.assertNotIn("skip connection", self.run_stagecoach("plan", self.spec, *args).stdout)
        self.assertNotIn("skip connection", self.run_stagecoach("plan", self.spec, *SKIPS, "--workers", 1, "--set",
                                                                "parallelism.schedule=1f1b").stdout)

    def test_wrong_lists(self):
        for connections, says in (
                ("[{from: transformer.h.0, to: transformer.h.9}]", 'model.skip_connections[0].to: "transformer.h.9" is no layer of the model'),
                ("[{from: transformer.h.0}]", "model.skip_connections[0].to: is required and missing"),
                ("[{from: transformer.h.3, to: transformer.h.0}]", "leads back, from transformer.h.3 to transformer.h.0"),
                ("[{from: transformer.h.0, to: transformer.h.1}]", "leads past no layer"),
                ("[{from: transformer.h.0, to: transformer.h.2}, {from: transformer.h.0, to: lm_head}]",
                 "transformer.h.0 is the start of model.skip_connections[0] already"),
                ("transformer.h.0", "expected a list of connections")):
            for verb in ("train", "validate", "plan", "submit"):
                self.refuse(self.spec, "--set", f"model.skip_connections={connections}", says=says, verb=verb)


class OwnOrderTest(CommandLineCase):
    """An order of the user's own as parallelism.schedule. The specification has four micro-batches."""

    ORDER = "0F0,0F1,0B0,0F2,0I1,0F3,0I2,0W1,0W2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n"

    def setUp(self):
        super().setUp()
        self.order = self.directory / "order.csv"
        self.order.write_text(self.ORDER)
        self.own = (self.spec, "--set", f"parallelism.schedule={self.order}")

    def refuse_order(self, text, says):
        self.order.write_text(text)
        for verb in ("validate", "plan", "train", "submit"):
            self.refuse(*self.own, says=says, verb=verb)

    def test_is_resolved_into_its_rows(self):
        resolved = self.run_stagecoach("validate", *self.own, "-o", "yaml").stdout
        for row in self.ORDER.splitlines():
            self.assertIn(f'\n    - "{row}"\n', resolved)
        self.assertIn("pipeline_parallel_degree: 2\n", resolved)
        self.order.unlink()
        self.assertEqual(self.run_stagecoach("validate", "-", "-o", "yaml", stdin=resolved).stdout, resolved)

    def test_is_planned_and_runs_with_the_bits_of_1f1b(self):
        plan = self.get_json("plan", *self.own)
        self.assertEqual((plan["schedule"], len(plan["stages"]), plan["num_micro_batches"]), ("csv", 2, 4))
        self.assertEqual([each["schedule"] for each in plan["candidates"]], ["csv"])
        self.assertIn("schedule csv (the order of the specification), 4 micro-batches",
                      self.run_stagecoach("plan", *self.own).stdout)
        digests = []
        for settings in (self.own, (self.spec,)):
            self.run_stagecoach("train", *settings, "--workers", 2)
            digests.append(self.run_stagecoach("checkpoint", "digest", "--state", self.checkpoints).stdout)
            shutil.rmtree(self.checkpoints)
        self.assertEqual(digests[0], digests[1])

    def test_a_job_resumes_from_it_and_into_it_at_another_number_of_workers(self):
        self.run_stagecoach("train", self.spec, "--workers", 3)
        whole = self.run_stagecoach("checkpoint", "digest", "--state", self.checkpoints).stdout
        shutil.rmtree(self.checkpoints)
        self.run_stagecoach("train", *self.own, "--set", "training.steps=2")
        # The file is for two workers.
        result = self.run_stagecoach("train", *self.own, "--workers", 1, "--resume", "auto", code=2)
        self.assertIn("the order of parallelism.schedule is for 2 workers and 1 are free", result.stderr)
        self.run_stagecoach("train", self.spec, "--set", "training.steps=4", "--workers", 1, "--resume", "auto")
        self.run_stagecoach("train", *self.own, "--workers", 2, "--resume", "auto")
        self.assertEqual(self.run_stagecoach("checkpoint", "digest", "--state", self.checkpoints).stdout, whole)

    def test_the_example_runs_the_tiny_job(self):
        examples = pathlib.Path(__file__).resolve().parents[2] / "examples"
        plan = self.get_json("plan", examples / "tiny.yaml", "--set",
                             f"parallelism.schedule={examples / 'tiny-4-workers.csv'}")
        self.assertEqual((plan["schedule"], len(plan["stages"])), ("csv", 4))

    def test_a_file_that_is_no_order(self):
        self.refuse_order("", f"parallelism.schedule: {self.order}: there are no actions")
        self.refuse_order("0F0;0B0\n", f"{self.order}: line 1, column 1 (cell 1): \"0F0;0B0\" is no action")
        self.refuse_order(self.ORDER.replace("1B3", "1G3"), f"{self.order}: line 2, column 29 (cell 8): \"1G3\" is no action")
        self.refuse_order(self.ORDER.replace("1B3", "1B2"), "(cell 8, 1B2): is there a second time; the first is line 2")
        self.refuse_order(self.ORDER.replace(",1B3", ""), f"{self.order}: line 2: 1B3 is missing")
        self.refuse_order("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", "this is a lowered file")

    def test_a_file_that_cannot_be_read(self):
        self.order.unlink()
        for verb in ("validate", "plan", "train", "submit"):
            self.refuse(*self.own, says=str(self.order), verb=verb)
        self.refuse(self.spec, "--set", "parallelism.schedule=order.csv", says="is not an absolute path", verb="plan")

    def test_an_order_that_does_not_fit_the_job(self):
        self.refuse_order("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n",
                          "the order of parallelism.schedule is for 2 micro-batch(es), and global_batch_size 8 makes 4")
        rows = self.ORDER.splitlines()
        waiting = "1F0,1F1,1B1,1B0,1F2,1B2,1F3,1B3"
        self.refuse_order(f"{rows[0].replace('0F1,0B0', '0B0,0F1')}\n{waiting}\n",
                          "the order of parallelism.schedule: these never begin, since each waits for another or for what nothing makes")
        self.order.write_text(self.ORDER)
        self.refuse(*self.own, "--set", "parallelism.pipeline_parallel_degree=4", verb="plan",
                    says="pipeline_parallel_degree is 4, and the order of parallelism.schedule is for 2 worker(s)")
        self.refuse(*self.own, "--set", "parallelism.virtual_stages=2", verb="plan", says="virtual_stages is 2")


class WrongSpecificationTest(CommandLineCase):
    def refuse_spec(self, text, says):
        self.spec.write_text(text)
        for verb in ("train", "validate", "plan", "submit"):
            self.refuse(self.spec, says=says, verb=verb)

    def refuse_change(self, old, new, says):
        self.assertIn(old, self.good)
        self.refuse_spec(self.good.replace(old, new), says)

    def setUp(self):
        super().setUp()
        self.good = self.spec.read_text()

    def test_keys_and_values(self):
        self.refuse_change("steps: 6", "steps: 6, stepz: 7", "stepz: unknown key; did you mean steps?")
        self.refuse_change("steps: 6", "steps: six", "training.steps")
        self.refuse_change("steps: 6", "steps: 6, steps: 7", "training.steps: the key is given twice")

    def test_numbers(self):
        self.refuse_change("global_batch_size: 8", "global_batch_size: 9", "global_batch_size 9 is not a multiple")
        self.refuse_change("lr: 1.0e-3", "lr: .nan", "optimizer.lr")
        self.refuse_change("lr: 1.0e-3", "lr: .inf", "optimizer.lr")

    def test_what_is_not_built_yet_is_refused_by_name(self):
        self.refuse_spec(self.good + "loss_scale: {initial: 2}\n", "loss_scale: is not supported yet")
        self.refuse_spec(self.good + "fault_tolerance: {on_worker_loss: repartition}\n", "fault_tolerance")

    def test_an_empty_document(self):
        self.refuse_spec("", "the specification is empty")

    def test_documents_that_are_attacks(self):
        self.refuse_spec("a: " + "[" * 10000 + "]" * 10000, "nest")
        self.refuse_spec("# " + "x" * (10 << 20) + self.good, "at most 1048576")
        bomb = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
            f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(8))
        self.refuse_spec(bomb, "alias")

    def test_files_that_cannot_be_read(self):
        self.refuse(self.directory / "none.yaml", says="none.yaml")
        self.refuse(self.directory, says=str(self.directory))


if __name__ == "__main__":
    unittest.main()
