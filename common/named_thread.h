#ifndef STAGECOACH_COMMON_NAMED_THREAD_H_
#define STAGECOACH_COMMON_NAMED_THREAD_H_

#include <functional>
#include <string>
#include <thread>

namespace stagecoach {

// A thread with a name that debuggers and `top` show (at most 15 characters of it). The destructor joins, so its owner
// must have told `body` to end.
class NamedThread {
 public:
  NamedThread() = default;
  NamedThread(std::string name, std::function<void()> body);
  ~NamedThread() { Join(); }
  NamedThread(NamedThread&&) = default;
  NamedThread& operator=(NamedThread&& other);

  void Join();  // idempotent

 private:
  std::thread thread_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_NAMED_THREAD_H_
