#!/usr/bin/env bash
# Makes the seeds of worker_message_fuzzer and client_request_fuzzer, whose inputs are moves and messages (see there and
# input_reader.h). Run in the root of the tree after a change of either.
set -euo pipefail

message() { protoc -Iproto --encode="stagecoach.v1.$1" proto/stagecoach/v1/{worker,coordinator}.proto; }
# Bytes with their length before them.
sized() {
  local file length
  file=$(mktemp)
  cat > "$file"
  length=$(stat -c %s "$file")
  if [ "$length" -lt 128 ]; then printf "\\x$(printf %x "$length")"; else
    printf "\\x$(printf %x $((128 + length / 256)))\\x$(printf %x $((length % 256)))"
  fi
  cat "$file"
  rm "$file"
}
move() { printf "\\x$(printf %x "$1")"; }

out=tests/fuzz/seeds/worker_message_fuzzer
mkdir -p $out
tasks() { move 0; }
run() { move 1; move "$1"; }
answer() { move 2; sized; move "$1"; }  # with the message merged into it, by the worker
say() { move 5; sized; move "$1"; }
{ tasks; run 255; tasks; run 255; tasks; run 255; } > $out/whole_job
{ tasks; run 255; move 12; move 9; : | sized; move 0; move 9; : | sized; move 1; tasks; run 255; tasks; run 255; tasks; } > $out/restart
{ tasks; run 12; move 14; move 0; move 1; run 40; move 14; move 0; move 2; run 255; move 14; move 0; move 0; run 255; tasks; } > $out/pause_cancel
{ tasks; run 20; message WorkerMessage <<< 'failure {code: 13 message: "no" step: 1 action: "0F0"}' | say 0; run 30; move 10; move 1; move 2; run 9; } > $out/failure
{ tasks; run 8
  message WorkerMessage <<< 'step_prepared {num_non_finite: 3 squared_norms {name: "x" value: nan} loss_parts {micro_batch: 9 value: inf} busy_seconds {total: -1}}' | answer 0
  run 99; } > $out/votes
{ tasks; run 30; move 12
  move 9; message Hello <<< 'held {job: "job0" epoch: 1 applied_step: 1 prepared_step: 2 last_commit {step: 2 verdict: VERDICT_APPLY clip_factor: 1 learning_rate: 0.5 num_updates: 2 loss_scale: 1 next_loss_scale: 1}}' | sized; move 0
  move 9; : | sized; move 1; tasks; run 99; } > $out/take_over
{ tasks; run 20
  message WorkerMessage <<< 'heartbeat {sequence: 1 run {run: 1 step: 1 instruction: 70000 action: "0F0" waiting: true channel: 99 usual_seconds: nan}}' | say 0
  move 11; move 200; message WorkerMessage <<< 'leaving {reason: "x"}' | say 1; move 11; move 200; } > $out/heartbeats
{ tasks; run 255
  message WorkerMessage <<< 'shard_written {file: "../x" bytes: 18446744073709551615 digest: "zz" tensors {name: "layer.0.weight" dtype: 77 shape: [0, 18446744073709551615, 2]}}' | answer 0
  run 99; message WorkerMessage <<< 'log_lines {lines {severity: 99 text: "line" stages: [7]}}' | say 1; tasks; run 99; } > $out/checkpoint

out=tests/fuzz/seeds/client_request_fuzzer
mkdir -p $out
job='job: "job"'
{ move 0; message SubmitJobRequest <<< 'submission_id: "x" spec {training {steps: 7} resources {threads_per_worker: 1}}' | sized
  move 0; : | sized; move 0; message SubmitJobRequest <<< 'submission_id: "x" spec {name: "other" training {micro_batch_size: 3}}' | sized; } > $out/submit
{ move 0; : | sized; move 1; message GetJobRequest <<< "$job" | sized; move 2; : | sized; move 3; : | sized; move 4; message CancelJobRequest <<< "$job" | sized
  move 5; message PauseJobRequest <<< "$job" | sized; move 6; message ResumeJobRequest <<< "$job" | sized
  move 7; message FollowJobRequest <<< "$job only_new: true" | sized; move 3; move 0
  move 8; message FollowLogsRequest <<< "$job follow: true stage: 1 tail: 3 after {coordinator_term: 1 sequence: 2}" | sized; move 3; move 0; } > $out/requests
{ move 9; message Hello <<< 'worker: "w" numerics_class: "c" memory_bytes: 1000000000 max_threads: 2 protocol_version: 1 device: "cpu" host: "h" pid: 1' | sized; move 1; move 1
  move 10; move 0; message WorkerMessage <<< 'fence {incarnation: 1 coordinator_term: 1} heartbeat {sequence: 1}' | sized
  move 10; move 0; message WorkerMessage <<< 'fence {incarnation: 1 coordinator_term: 1} leaving {reason: "x"}' | sized
  move 3; : | sized; move 11; move 0; } > $out/session
