#include "worker/agent/session_keeper.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "common/log.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kLogInterval = absl::Minutes(1);
constexpr uint64_t kHelloSequence = 0;  // heartbeats are 1, 2, ...

}  // namespace

SessionKeeper::SessionKeeper(const AgentOptions& options, SessionDialer dialer, Says says, Inbox& inbox)
    : options_(options),
      dialer_(std::move(dialer)),
      says_(std::move(says)),
      inbox_(inbox),
      rules_(options.session, options.incarnation.value(), options.clock.Now()),
      last_end_(absl::UnavailableError("no coordinator was reached")),
      log_at_(options.clock.Now()) {}

std::optional<SessionRules::Deed> SessionKeeper::DoDue() {
  while (const std::optional<SessionRules::Deed> deed = rules_.TakeDue(options_.clock.Now())) {
    switch (*deed) {
      case SessionRules::Deed::kDial:
        Dial();
        break;
      case SessionRules::Deed::kHangUp:
        last_end_ = absl::UnavailableError("the coordinator does not answer");
        LogNoSession();
        HangUp();
        break;
      case SessionRules::Deed::kHeartbeat:
        SendHeartbeat();
        break;
      default:
        return deed;
    }
  }
  return std::nullopt;
}

absl::Duration SessionKeeper::UntilDue() const {
  return std::clamp(rules_.NextDue() - options_.clock.Now(), absl::ZeroDuration(), options_.longest_sleep);
}

void SessionKeeper::Dial() {
  HangUp();
  open_ = std::make_unique<OpenSession>();
  open_->number = ++num_sessions_;
  open_->session = dialer_();
  clock_offset_.Reset();
  clock_offset_.OnSent(kHelloSequence, options_.clock.Now());
  SendNow(says_.hello());
  open_->reader = NamedThread("session", [this, open = open_.get()] { Read(*open); });
}

void SessionKeeper::Read(OpenSession& open) {
  while (true) {
    absl::StatusOr<v1::CoordinatorMessage> message = open.session->Receive(absl::InfiniteDuration());
    if (absl::IsDeadlineExceeded(message.status())) continue;
    const bool has_ended = !message.ok();
    InboxItem item = FromSession{open.number, std::move(message)};
    // The agent's thread, which empties the inbox, may be waiting for this one to end.
    while (absl::IsResourceExhausted(inbox_.Push(std::move(item))) && !open.hung_up.load()) std::this_thread::yield();
    if (has_ended) return;
  }
}

void SessionKeeper::Stop() {
  rules_.OnSessionEnded(options_.clock.Now());
  HangUp();
}

void SessionKeeper::HangUp() {
  if (open_ == nullptr) return;
  open_->hung_up.store(true);
  open_->session->Close();
  open_->reader.Join();
  open_.reset();
}

void SessionKeeper::OnWelcome(const v1::Welcome& welcome) {
  rules_.OnWelcome(welcome);
  if (!is_up()) return;
  NoteCoordinatorsClock(kHelloSequence, welcome.clock_nanoseconds());
  log_at_ = options_.clock.Now();
  spdlog::info("worker {}: in session with the coordinator", options_.worker.value());
}

void SessionKeeper::OnHeartbeatReply(const v1::HeartbeatReply& reply) {
  rules_.OnHeartbeatReply(reply.sequence());
  NoteCoordinatorsClock(reply.sequence(), reply.clock_nanoseconds());
}

void SessionKeeper::NoteCoordinatorsClock(uint64_t sequence, int64_t nanoseconds) {
  clock_offset_.OnAnswer(sequence, absl::Nanoseconds(nanoseconds), options_.clock.Now());
}

void SessionKeeper::OnEnded(const absl::Status& why) {
  last_end_ = why;
  rules_.OnSessionEnded(options_.clock.Now());
  LogNoSession();
  HangUp();
}

void SessionKeeper::LogNoSession() {
  const absl::Duration now = options_.clock.Now();
  if (now < log_at_) return;
  log_at_ = now + kLogInterval;
  spdlog::warn("worker {}: no session with the coordinator ({}); dialling", options_.worker.value(),
               std::string(last_end_.message()));
}

void SessionKeeper::SendHeartbeat() {
  v1::WorkerMessage message = says_.heartbeat();
  message.mutable_heartbeat()->set_sequence(rules_.heartbeat_sequence());
  clock_offset_.OnSent(rules_.heartbeat_sequence(), options_.clock.Now());
  SendNow(std::move(message));
}

void SessionKeeper::Send(v1::WorkerMessage message) {
  if (is_up()) SendNow(std::move(message));
}

// A session that takes no message is of no use: it is closed, and its reader says so in the inbox.
void SessionKeeper::SendNow(v1::WorkerMessage message) {
  if (!open_->session->Send(std::move(message)).ok()) open_->session->Close();
}

}  // namespace stagecoach
