#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/file_system.h"
#include "formats/safetensors.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/reference/reference_device.h"
#include "worker/model/small_model.h"
#include "worker/model/stage_bench.h"

namespace stagecoach {
namespace {

// As in tests/golden/pytorch/make_golden.py, which says what the files hold.
constexpr double kLearningRates[] = {0.01, 0.008, 0.006};
constexpr double kMaxGradNorm = 0.5;
constexpr size_t kGradientStride = 3, kParameterStride = 11;

class GoldenFile {
 public:
  explicit GoldenFile(const std::string& variant)
      : reader_(*SafetensorsReader::Open(
            FileSystem::Posix(),
            absl::StrCat(STAGECOACH_SOURCE_DIR, "/tests/golden/pytorch/", variant, ".safetensors"))) {}

  // float32, float64 or int32, as T.
  template <typename T>
  std::vector<T> Read(const std::string& name) const {
    const SafetensorsTensor* tensor = reader_.Find(name);
    if (tensor == nullptr) {
      ADD_FAILURE() << "no tensor " << name;
      return {};
    }
    switch (tensor->type) {
      case SafetensorsType::kF32:
        return ReadAs<float, T>(*tensor);
      case SafetensorsType::kF64:
        return ReadAs<double, T>(*tensor);
      default:
        EXPECT_EQ(tensor->type, SafetensorsType::kI32);
        return ReadAs<int32_t, T>(*tensor);
    }
  }

 private:
  template <typename Stored, typename T>
  std::vector<T> ReadAs(const SafetensorsTensor& tensor) const {
    std::vector<Stored> values(tensor.bytes() / sizeof(Stored));
    EXPECT_TRUE(reader_.Read(tensor, 0, std::as_writable_bytes(std::span(values))).ok());
    std::vector<T> result;
    for (const Stored value : values) result.push_back(static_cast<T>(value));
    return result;
  }

  const SafetensorsReader reader_;
};

std::vector<double> EndToEnd(const std::map<std::string, std::vector<double>>& tensors, size_t stride) {
  std::vector<double> flat, sample;
  for (const auto& [name, values] : tensors) flat.insert(flat.end(), values.begin(), values.end());
  for (size_t i = 0; i < flat.size(); i += stride) sample.push_back(flat[i]);
  return sample;
}

double LargestDifference(std::span<const double> a, std::span<const double> b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!(std::abs(a[i] - b[i]) <= largest)) largest = std::abs(a[i] - b[i]);
  }
  return largest;
}

struct Bounds {
  double loss, gradients, parameters;
};

class PytorchGoldenTest : public testing::TestWithParam<std::tuple<std::string, std::string, std::string>> {
 protected:
  static v1::JobSpec Spec(const SmallModel& model, const std::string& rule) {
    v1::JobSpec spec = model.Spec();
    v1::OptimizerSpec& optimizer = *spec.mutable_optimizer();
    optimizer.set_name(rule);
    optimizer.set_eps(1e-5);
    optimizer.set_momentum(0.9);
    optimizer.set_nesterov(true);
    return spec;
  }

  // Two micro-batches of two samples, weighted by their labels.
  static void AddBatches(const GoldenFile& golden, const SmallModel& model, StageBench& bench) {
    const std::vector<int32_t> tokens = golden.Read<int32_t>("tokens"), labels = golden.Read<int32_t>("labels");
    const auto count = [](std::span<const int32_t> l) {
      return static_cast<double>(std::count_if(l.begin(), l.end(), [](int32_t label) { return label >= 0; }));
    };
    const size_t size = 2 * model.seq;
    for (uint32_t i = 0; i < 2; ++i) {
      BenchBatch batch = bench.MakeBatch(i, 2 * i, 2);
      batch.tokens.assign(tokens.data() + i * size, tokens.data() + (i + 1) * size);
      batch.labels.assign(labels.data() + i * size, labels.data() + (i + 1) * size);
      batch.micro_batch.loss_weight = count(batch.labels) / count(labels);
      bench.Add(std::move(batch));
    }
  }

  static void WriteInitialValues(const GoldenFile& golden, StageBench& bench) {
    for (size_t stage = 0; stage < bench.num_stages(); ++stage) {
      for (const StateTensor& tensor : bench.state(stage).tensors()) {
        if (!tensor.optimizer_state)
          WriteValues(tensor.tensor, golden.Read<double>(absl::StrCat("initial.", tensor.name)));
      }
    }
  }

  static std::map<std::string, std::vector<double>> Parameters(StageBench& bench) {
    std::map<std::string, std::vector<double>> parameters;
    for (size_t stage = 0; stage < bench.num_stages(); ++stage) {
      for (const StateTensor& tensor : bench.state(stage).tensors()) {
        if (tensor.owned && !tensor.optimizer_state) parameters[tensor.name] = ValuesOf(tensor.tensor);
      }
    }
    return parameters;
  }

  static std::map<std::string, double> SquaredNorms(StageBench& bench) {
    std::map<std::string, double> norms;
    for (size_t stage = 0; stage < bench.num_stages(); ++stage) {
      const auto report = *bench.state(stage).ReportGradients(bench.stream());
      EXPECT_EQ(report.num_non_finite, 0u);
      for (const NormReport& norm : report.norms) norms[norm.name] = norm.squared_norm;
    }
    return norms;
  }

  // Applies the update as the coordinator would have it: PyTorch's clip_grad_norm_ with these norms.
  static void Update(StageBench& bench, const std::map<std::string, double>& squared_norms, uint64_t step) {
    double sum = 0;
    for (const auto& [name, squared_norm] : squared_norms) sum += squared_norm;
    v1::CommitRecord record;
    record.set_step(step);
    record.set_verdict(v1::VERDICT_APPLY);
    record.set_clip_factor(std::min(1.0, kMaxGradNorm / (std::sqrt(sum) + 1e-6)));
    record.set_learning_rate(kLearningRates[step - 1]);
    record.set_num_updates(step);
    record.set_loss_scale(1);
    for (size_t stage = 0; stage < bench.num_stages(); ++stage) {
      ASSERT_EQ(bench.state(stage).Update(bench.stream(), record), absl::OkStatus());
    }
  }
};

TEST_P(PytorchGoldenTest, ThreeStepsAreAsPytorchMakesThem) {
  const auto& [device_kind, variant, rule] = GetParam();
  const GoldenFile golden(variant);
  const std::vector<double> deviation = golden.Read<double>(rule + ".float32_deviation");
  // In float64 nothing but the order of sums differs. In float32 the CPU may be four times as far from float64 as
  // PyTorch itself is, which rounds as often but in another order.
  const Bounds bounds = device_kind == "reference" ? Bounds{1e-9, 1e-9, 1e-9}
                                                   : Bounds{4 * deviation[0], 4 * deviation[1], 4 * deviation[2]};
  SmallModel model;
  model.hidden = 16;
  model.vocab = 32;
  model.seq = model.positions = 8;
  model.tied = variant == "tied";
  if (variant == "skips") model.skips = {{0, 2}, {1, 3}, {2, 4}};
  const std::unique_ptr<Device> device =
      device_kind == "reference" ? *ReferenceDevice::Create({}) : *CpuDevice::Create({});
  StageBench bench(*device, Spec(model, rule), model.Graph(), {0, 2});
  AddBatches(golden, model, bench);
  WriteInitialValues(golden, bench);

  const std::vector<double> losses = golden.Read<double>(rule + ".loss");
  const std::vector<double> all_norms = golden.Read<double>(rule + ".squared_norms");
  const std::vector<double> all_parameters = golden.Read<double>(rule + ".parameters");
  for (uint64_t step = 1; step <= 3; ++step) {
    SCOPED_TRACE(absl::StrCat("step ", step));
    bench.ZeroGradients();
    bench.RunStep();
    EXPECT_NEAR(bench.loss(), losses[step - 1], bounds.loss);
    const std::map<std::string, double> norms = SquaredNorms(bench);
    size_t i = (step - 1) * norms.size();
    for (const auto& [name, squared_norm] : norms) {
      EXPECT_NEAR(std::sqrt(squared_norm), std::sqrt(all_norms[i++]), 10 * bounds.gradients) << name;
    }
    if (step == 1) {
      EXPECT_LE(
          LargestDifference(EndToEnd(bench.Gradients(), kGradientStride), golden.Read<double>(rule + ".gradients")),
          bounds.gradients);
    }
    Update(bench, norms, step);
    const std::vector<double> parameters = EndToEnd(Parameters(bench), kParameterStride);
    const auto expected = std::span(all_parameters).subspan((step - 1) * parameters.size(), parameters.size());
    EXPECT_LE(LargestDifference(parameters, expected), bounds.parameters);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, PytorchGoldenTest,
                         testing::Combine(testing::Values("reference", "cpu"),
                                          testing::Values("tied", "untied", "skips"), testing::Values("adamw", "sgd")),
                         [](const auto& c) {
                           return absl::StrCat(std::get<0>(c.param), "_", std::get<1>(c.param), "_",
                                               std::get<2>(c.param));
                         });

}  // namespace
}  // namespace stagecoach
