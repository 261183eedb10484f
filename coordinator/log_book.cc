#include "coordinator/log_book.h"

#include <utility>

namespace stagecoach {
namespace {

// Of a record without its text.
constexpr size_t kRecordBytes = 256;

size_t BytesOf(const v1::LogRecord& record) { return kRecordBytes + record.line().text().size(); }

// At most `limit` bytes of UTF-8, whole characters.
void Cut(std::string& text, size_t limit) {
  if (text.size() <= limit) return;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;
  text.resize(limit);
}

}  // namespace

const LogBook::Lines* LogBook::Find(const JobId& job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : &found->second;
}

void LogBook::Add(const JobId& job, CoordinatorTerm term, const WorkerId& worker, const v1::LogLines& lines) {
  const auto [found, is_new] = jobs_.try_emplace(job);
  Lines& of_job = found->second;
  if (is_new) {
    of_job.place = by_use_.insert(by_use_.end(), job);
  } else {
    by_use_.splice(by_use_.end(), by_use_, of_job.place);
  }
  for (const v1::LogLine& line : lines.lines()) {
    v1::LogRecord record;
    record.mutable_token()->set_coordinator_term(term.value());
    record.mutable_token()->set_sequence(++of_job.last_sequence);
    record.set_worker(worker.value());
    *record.mutable_line() = line;
    Cut(*record.mutable_line()->mutable_text(), kMaxLineBytes);
    bytes_ += BytesOf(record);
    of_job.kept.push_back(std::move(record));
    if (of_job.kept.size() > limits_.lines_per_job) DropOldest(of_job);
  }
  Shrink();
}

void LogBook::Forget(const JobId& job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  while (!found->second.kept.empty()) DropOldest(found->second);
  by_use_.erase(found->second.place);
  jobs_.erase(found);
}

void LogBook::DropOldest(Lines& lines) {
  bytes_ -= BytesOf(lines.kept.front());
  lines.kept.pop_front();
}

void LogBook::Shrink() {
  for (auto job = by_use_.begin(); job != by_use_.end() && bytes_ > limits_.bytes; ++job) {
    Lines& lines = jobs_.at(*job);
    while (!lines.kept.empty() && bytes_ > limits_.bytes) DropOldest(lines);
  }
}

const v1::LogRecord* LogBook::FindAfter(const JobId& job, uint64_t sequence) const {
  const Lines* lines = Find(job);
  if (lines == nullptr || sequence >= lines->last_sequence || lines->kept.empty()) return nullptr;
  const uint64_t first = lines->kept.front().token().sequence();
  return sequence < first ? &lines->kept.front() : &lines->kept[sequence + 1 - first];
}

uint64_t LogBook::SequenceBeforeTail(const JobId& job, uint64_t tail,
                                     const std::function<bool(const v1::LogRecord&)>& matches) const {
  const Lines* lines = Find(job);
  if (lines == nullptr) return 0;
  for (auto record = lines->kept.rbegin(); record != lines->kept.rend(); ++record) {
    if (matches(*record) && --tail == 0) return record->token().sequence() - 1;
  }
  return 0;
}

uint64_t LogBook::LastSequence(const JobId& job) const {
  const Lines* lines = Find(job);
  return lines == nullptr ? 0 : lines->last_sequence;
}

}  // namespace stagecoach
