#include "tests/simulation/simulated_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/jobs/job_state.h"

namespace stagecoach::simulation {
namespace {

absl::Duration RetryDelay(World& world) {
  return world.random.Between(absl::Milliseconds(10), absl::Milliseconds(400));
}

}  // namespace

void SimulatedFollower::Violate(const std::string& what) {
  world_.violations.Report("followers", absl::StrCat("job ", job_, ": ", what));
}

void SimulatedFollower::Dial() {
  SimulatedCoordinator* const coordinator = find_();
  if (coordinator == nullptr) {
    return world_.scheduler.After(RetryDelay(world_), [this] { Dial(); });
  }
  v1::FollowJobRequest request;
  request.set_job(job_);
  request.set_after_sequence(token_.value_or(0));
  request.set_only_new(only_new_ && !token_.has_value());
  last_step_of_stream_.reset();
  stream_ = std::make_shared<FollowStream>(
      world_, FollowStream::Reader{.on_event = [this](const v1::JobEvent& event) { OnEvent(event); },
                                   .on_end = [this](const absl::Status& why) { OnEnd(why); }});
  coordinator->Follow(request, stream_);
}

void SimulatedFollower::OnEvent(const v1::JobEvent& event) {
  if (saw_end_) Violate("an event after the job's end");
  if (token_.has_value() && event.sequence() <= *token_) {
    Violate(absl::StrCat("event ", event.sequence(), " after event ", *token_));
  }
  token_ = event.sequence();
  if (event.has_step()) OnStep(event);
  if (event.has_validation()) OnValidation(event.validation());
  if (event.has_status() && HasEnded(event.status().state())) saw_end_ = true;
}

void SimulatedFollower::OnStep(const v1::JobEvent& event) {
  const uint64_t step = event.step().step();
  const uint64_t expected = last_step_.has_value() ? *last_step_ + 1 : only_new_ ? step : 1;
  CheckAnnounced(event);
  last_step_ = std::max(step, last_step_.value_or(0));
  if (step == expected) return;
  // A loss of power takes steps away that are run again, with the same bits: the reader shows each number once.
  if (laws_.power_was_lost() && step < expected) return;
  // Steps that only workers remember, and old ones of a journal that was made smaller, are announced as missing, by a
  // coordinator that does not know which of them this reader has seen from the one before it.
  const bool may_miss = laws_.power_was_lost() || laws_.was_compacted();
  if (may_miss && step > expected && step - expected <= event.num_missing()) return;
  Violate(absl::StrCat("step ", step, " was seen where step ", expected, " comes next, with ", event.num_missing(),
                       " announced as missing"));
}

// Whatever was seen before: from one step of a stream to the next it is exactly what lies between them.
void SimulatedFollower::CheckAnnounced(const v1::JobEvent& event) {
  const uint64_t step = event.step().step();
  const std::optional<uint64_t> previous = std::exchange(last_step_of_stream_, step);
  if (!previous.has_value() || step == *previous + 1 + event.num_missing()) return;
  Violate(absl::StrCat("step ", step, " came after step ", *previous, " on one stream, with ", event.num_missing(),
                       " announced as missing"));
}

void SimulatedFollower::OnValidation(const v1::Validation& validation) {
  const bool again = validation.step() <= last_validated_step_;
  last_validated_step_ = std::max(last_validated_step_, validation.step());
  if (again && !laws_.power_was_lost())
    Violate(absl::StrCat("the validation after step ", validation.step(), " came twice"));
  if (!last_step_.has_value()) return;  // it follows what happens from now on
  if (validation.step() > *last_step_ || (validation.step() < *last_step_ && !laws_.power_was_lost())) {
    Violate(absl::StrCat("the validation after step ", validation.step(), " came after step ", *last_step_));
  }
}

void SimulatedFollower::OnEnd(const absl::Status& why) {
  stream_.reset();
  if (!why.ok()) {
    if (absl::IsNotFound(why)) return Violate("a job that was submitted is not known");
    world_.Cover("a follower dialled again");
    return world_.scheduler.After(RetryDelay(world_), [this] { Dial(); });
  }
  done_ = true;
  if (!saw_end_) Violate("the stream has ended without the job's end");
  const uint64_t steps = laws_.LastStep(job_);
  if (only_new_ && !last_step_.has_value()) return;
  // What a loss of power has taken away was seen, and is not there any more when the job has failed.
  if (laws_.power_was_lost() && last_step_.value_or(0) > steps) return;
  if (last_step_.value_or(0) != steps) {
    Violate(absl::StrCat(last_step_.value_or(0), " steps were seen, and ", steps, " committed"));
  }
}

SimulatedClient::SimulatedClient(World& world, const JobLaws& laws, FindCoordinator find, v1::JobSpec spec)
    : world_(world),
      laws_(laws),
      find_(std::move(find)),
      spec_(std::move(spec)),
      submission_id_(absl::StrCat("submission of ", spec_.name())) {}

void SimulatedClient::Ask(const std::string& what, MakeInput make_input, SimulatedCoordinator::Answer answer) {
  const auto again = [this, what, make_input, answer] { Ask(what, make_input, answer); };
  SimulatedCoordinator* const coordinator = find_();
  if (coordinator == nullptr) return world_.scheduler.After(RetryDelay(world_), again);
  coordinator->Ask(make_input, [this, what, answer, again](const absl::StatusOr<JobId>& result) {
    world_.Note("client: ", what, " of ", spec_.name(), ": ", result.status().ToString());
    if (absl::IsUnavailable(result.status())) {
      world_.scheduler.After(RetryDelay(world_), again);
    } else {
      answer(result);
    }
  });
}

void SimulatedClient::Submit() {
  Ask(
      "submission",
      [this](uint64_t request) -> Input {
        return JobRequested{request, spec_, submission_id_};
      },
      [this](const absl::StatusOr<JobId>& job) {
        if (!job.ok()) {
          return world_.violations.Report("submission",
                                          absl::StrCat(spec_.name(), " was refused: ", job.status().message()));
        }
        if (job_.has_value() && *job_ != job->value()) {
          return world_.violations.Report("submission",
                                          absl::StrCat(spec_.name(), " is ", *job_, " and ", job->value()));
        }
        if (job_.has_value()) return;
        job_ = job->value();
        Follow(/*only_new=*/false);
      });
}

void SimulatedClient::AskAboutJob(const std::string& what, std::function<Input(uint64_t, const JobId&)> make_input) {
  if (!job_.has_value()) return;
  Ask(
      what, [job = JobId(*job_), make_input](uint64_t request) { return make_input(request, job); },
      [](const absl::StatusOr<JobId>&) {});
}

void SimulatedClient::Do(Request request) {
  switch (request) {
    case Request::kCancel:
      return AskAboutJob("cancel", [](uint64_t id, const JobId& job) -> Input { return CancelRequested{id, job}; });
    case Request::kPause:
      return AskAboutJob("pause", [](uint64_t id, const JobId& job) -> Input { return PauseRequested{id, job}; });
    case Request::kResume:
      return AskAboutJob("resume", [](uint64_t id, const JobId& job) -> Input { return ResumeRequested{id, job}; });
    case Request::kCheckpoint:
      return AskAboutJob("checkpoint", [](uint64_t id, const JobId& job) -> Input {
        return CheckpointRequested{id, job};
      });
    case Request::kFollow:
      return Follow(/*only_new=*/true);
    case Request::kSubmitAgain:
      return Submit();
  }
}

void SimulatedClient::Follow(bool only_new) {
  if (!job_.has_value()) return;
  followers_.push_back(std::make_unique<SimulatedFollower>(world_, laws_, find_, *job_, only_new));
}

bool SimulatedClient::followers_done() const {
  return std::all_of(followers_.begin(), followers_.end(), [](const auto& follower) { return follower->done(); });
}

}  // namespace stagecoach::simulation
