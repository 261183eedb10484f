#ifndef STAGECOACH_TESTS_BENCH_WAITING_THREADS_H_
#define STAGECOACH_TESTS_BENCH_WAITING_THREADS_H_

#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// Trains with two workers, puts the last stage's device to sleep inside a loss, then the first stage's inside an
// embedding, and prints what each thread of this process uses of a core while they sleep. The bar: under 3%.
void PrintWaitingThreads(const v1::JobSpec& spec);

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_BENCH_WAITING_THREADS_H_
