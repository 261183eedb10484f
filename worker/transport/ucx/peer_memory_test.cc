#include "worker/transport/ucx/peer_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace stagecoach {
namespace {

using testing::HasSubstr;

uint64_t AddressOf(const void* place) { return reinterpret_cast<uint64_t>(place); }

// In a process of its own: nothing of the test's may be used there but system calls.
int ExitCodeOf(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(PeerMemoryTest, ReadsWhatIsThere) {
  ASSERT_EQ(PeerMemory::Prepare(), absl::OkStatus());
  const PeerMemory memory(getpid());
  std::vector<std::byte> source(3 << 20), copy(source.size());
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i % 251);
  EXPECT_EQ(memory.Read(AddressOf(source.data()), copy), absl::OkStatus());
  EXPECT_EQ(copy, source);
  EXPECT_EQ(memory.Read(0, {}), absl::OkStatus());
}

TEST(PeerMemoryTest, AHoleIsAnErrorWhereverItIs) {
  constexpr size_t kPage = 4096;
  auto* pages =
      static_cast<std::byte*>(mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const PeerMemory memory(getpid());
  std::vector<std::byte> copy(4 * kPage);
  EXPECT_EQ(memory.Read(AddressOf(pages), copy), absl::OkStatus());
  munmap(pages + 3 * kPage, kPage);  // the kernel copies three pages and says so
  EXPECT_EQ(memory.Read(AddressOf(pages), copy).code(), absl::StatusCode::kInvalidArgument);
  munmap(pages, 3 * kPage);
  EXPECT_EQ(memory.Read(AddressOf(pages), copy).code(), absl::StatusCode::kInvalidArgument);
}

TEST(PeerMemoryTest, AnEndedProcessIsNotFound) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info;
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  uint64_t word = 0;
  const auto into = std::as_writable_bytes(std::span(&word, 1));
  EXPECT_EQ(PeerMemory(child).Read(AddressOf(&word), into).code(), absl::StatusCode::kNotFound);  // not reaped yet
  waitpid(child, nullptr, 0);
  EXPECT_EQ(PeerMemory(child).Read(AddressOf(&word), into).code(), absl::StatusCode::kNotFound);
}

TEST(PeerMemoryTest, AGuardHoldsUntilItIsCleared) {
  const PeerMemory memory(getpid());
  MemoryGuard guard;
  const MemoryGuard other;
  EXPECT_NE(guard.value(), other.value());
  EXPECT_TRUE(memory.IsGuarded(guard.address(), guard.value()));
  EXPECT_FALSE(memory.IsGuarded(guard.address(), other.value()));
  guard.Clear();
  EXPECT_FALSE(memory.IsGuarded(guard.address(), guard.value()));
  EXPECT_FALSE(memory.IsGuarded(0, guard.value()));
}

TEST(PeerMemoryTest, AnotherUsersProcessIsForbidden) {
  constexpr int kCannotTry = 77;
  const pid_t self = getpid();
  const uint64_t address = AddressOf(&self);
  const int code = ExitCodeOf([&] {
    if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0) return kCannotTry;
    const absl::Status checked = PeerMemory(self).Check(address);
    if (!absl::IsFailedPrecondition(checked)) return 1;
    return checked.message().find("use mode shm") == std::string::npos ? 2 : 0;
  });
  if (code == kCannotTry) GTEST_SKIP() << "only root can become another user";
  EXPECT_EQ(code, 0);
  EXPECT_EQ(PeerMemory(self).Check(address), absl::OkStatus());
}

}  // namespace
}  // namespace stagecoach
