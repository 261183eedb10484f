#include "coordinator/plan/cost_table.h"

#include <gtest/gtest.h>

#include <string>

namespace stagecoach {
namespace {

v1::CostsMeasured Measured(const WorkerKind& kind, const std::string& shape, double forward) {
  v1::CostsMeasured measured;
  measured.set_numerics_class(kind.numerics_class);
  measured.set_device(kind.device);
  measured.set_threads(kind.threads);
  v1::MeasuredLayer& layer = *measured.add_layers();
  layer.set_shape(shape);
  layer.set_micro_batch_size(4);
  layer.mutable_seconds()->set_forward(forward);
  layer.mutable_seconds()->set_backward_input(2);
  layer.mutable_seconds()->set_backward_weight(3);
  return measured;
}

TEST(CostTableTest, KeepsCostsByKindOfWorker) {
  const WorkerKind kind = {"avx2", "cpu", 2};
  CostTable table;
  table.Apply(Measured(kind, "block", 1));
  ASSERT_NE(table.Of(kind), nullptr);
  EXPECT_EQ(*table.Of(kind)->Find("block", 4), (LayerSeconds{1, 2, 3}));
  EXPECT_EQ(table.Of({"avx2", "cpu", 4}), nullptr);
  EXPECT_EQ(table.Of({"avx2", "other", 2}), nullptr);
  EXPECT_EQ(table.Of({"sve", "cpu", 2}), nullptr);
}

TEST(CostTableTest, WhatOthersHoldDoesNotChange) {
  const WorkerKind kind = {"avx2", "cpu", 2};
  CostTable table;
  table.Apply(Measured(kind, "block", 1));
  const std::shared_ptr<const LayerCosts> before = table.Of(kind);
  table.Apply(Measured(kind, "head", 5));
  EXPECT_EQ(before->Find("head", 4), nullptr);
  EXPECT_NE(table.Of(kind)->Find("head", 4), nullptr);
  EXPECT_NE(table.Of(kind)->Find("block", 4), nullptr);
}

}  // namespace
}  // namespace stagecoach
