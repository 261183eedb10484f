#include "common/named_thread.h"

#include <pthread.h>

#include <utility>

namespace stagecoach {

NamedThread::NamedThread(std::string name, std::function<void()> body)
    : thread_([name = std::move(name), body = std::move(body)] {
        pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
        body();
      }) {}

NamedThread& NamedThread::operator=(NamedThread&& other) {
  Join();
  thread_ = std::move(other.thread_);
  return *this;
}

void NamedThread::Join() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace stagecoach
