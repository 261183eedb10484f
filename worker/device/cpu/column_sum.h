#ifndef STAGECOACH_WORKER_DEVICE_CPU_COLUMN_SUM_H_
#define STAGECOACH_WORKER_DEVICE_CPU_COLUMN_SUM_H_

#include <cstdint>

namespace stagecoach {

// Of one task: two arrays of them stay in the first cache beside the rows that pass by.
inline constexpr int64_t kColumnsPerTask = 512;

// sum [columns] += column sums of rows [num_rows, columns]. Rows are added in blocks of fixed size and the blocks in
// order; a thread owns columns, so the bits do not depend on the number of threads.
void AddColumnSums(int threads, const float* rows, int64_t num_rows, int64_t columns, float* sum);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_CPU_COLUMN_SUM_H_
