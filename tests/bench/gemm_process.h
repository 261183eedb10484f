#ifndef STAGECOACH_TESTS_BENCH_GEMM_PROCESS_H_
#define STAGECOACH_TESTS_BENCH_GEMM_PROCESS_H_

#include <cstdint>

namespace stagecoach {

// The matrices of a GPT-2 block: hidden x {3 hidden, hidden, 4 hidden} and 4 hidden x hidden, times so many rows.
struct BlockShape {
  int64_t rows = 0;
  int64_t hidden = 0;
};

// Floating-point operations per second, together, of so many processes of one thread that multiply a block's matrices
// (forward, for the input's gradient and for the weights') during the same seconds. The processes are this program
// again, with --gemm-process --seq <rows> --hidden <hidden> --gemm-seconds <seconds>, where it calls
// MultiplyWhenTold. Ends the program when that fails.
double GemmProcessesRate(int num_processes, const BlockShape& block, double seconds);

// Multiplies once, writes a byte to standard output, waits for one from standard input, multiplies for `seconds`, and
// writes its rate as a double.
void MultiplyWhenTold(const BlockShape& block, double seconds);

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_BENCH_GEMM_PROCESS_H_
