#include "worker/model/stage_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "worker/device/cpu/cpu_device.h"
#include "worker/device/reference/reference_device.h"
#include "worker/model/small_model.h"
#include "worker/model/stage_bench.h"

namespace stagecoach {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Device> MakeDevice(const std::string& kind) {
  return kind == "cpu" ? *CpuDevice::Create({}) : *ReferenceDevice::Create({});
}

v1::CommitRecord Apply(uint64_t step, uint64_t num_updates) {
  v1::CommitRecord record;
  record.set_step(step);
  record.set_verdict(v1::VERDICT_APPLY);
  record.set_clip_factor(0.5);
  record.set_learning_rate(0.01);
  record.set_num_updates(num_updates);
  record.set_loss_scale(4);
  return record;
}

v1::CommitRecord Skip(uint64_t step, uint64_t num_updates) {
  v1::CommitRecord record = Apply(step, num_updates);
  record.set_verdict(v1::VERDICT_SKIP);
  return record;
}

class StageStateTest : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<StageState> Create(const SmallModel& model, uint32_t first, uint32_t last) {
    return *StageState::Create(*device_, *stream_, model.Spec(), model.Graph(), LayerIndex(first), LayerIndex(last));
  }
  static const StateTensor* Find(const StageState& state, const std::string& name) {
    for (const StateTensor& tensor : state.tensors()) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }
  // Fills accumulators with one value.
  static void FillGradients(const StageState& state, uint32_t first, uint32_t last, double value) {
    for (uint32_t layer = first; layer <= last; ++layer) {
      for (const Parameter& parameter : state.parameters(LayerIndex(layer))) {
        WriteValues(parameter.gradient,
                    std::vector<double>(static_cast<size_t>(parameter.gradient.num_elements()), value));
      }
    }
  }

  const std::unique_ptr<Device> device_ = MakeDevice(GetParam());
  const std::unique_ptr<Stream> stream_ = *device_->CreateStream();
};

TEST_P(StageStateTest, InitialValuesDoNotDependOnTheCut) {
  for (const bool tied : {false, true}) {
    SmallModel model;
    model.tied = tied;
    StageBench whole(*device_, model.Spec(), model.Graph(), {0});
    for (const std::vector<uint32_t>& cut : {std::vector<uint32_t>{0, 1}, {0, 3}, {0, 1, 2, 3, 4}}) {
      StageBench bench(*device_, model.Spec(), model.Graph(), cut);
      EXPECT_EQ(bench.StateDigests(), whole.StateDigests());
    }
  }
}

TEST_P(StageStateTest, InitialValuesAreNormalAndDifferByTensorAndSeed) {
  SmallModel model;
  model.hidden = 64;
  model.std = 0.02;
  const auto state = Create(model, 1, 2);
  std::set<double> first_values;
  for (const char* name :
       {"transformer.h.0.mlp.c_fc.weight", "transformer.h.1.mlp.c_fc.weight", "transformer.h.0.mlp.c_proj.weight"}) {
    const std::vector<double> values = ValuesOf(Find(*state, name)->tensor);
    first_values.insert(values[0]);
    double sum = 0, squares = 0, fourth = 0;
    for (const double value : values) {
      const double z = value / model.std;
      sum += z, squares += z * z, fourth += z * z * z * z;
    }
    // 16384 elements: five standard deviations of each estimate.
    const auto n = static_cast<double>(values.size());
    EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n)) << name;
    EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n)) << name;
    EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96 / n)) << name;
  }
  EXPECT_EQ(first_values.size(), 3u);
  v1::JobSpec other = model.Spec();
  other.mutable_model()->mutable_init()->set_seed(99);
  const auto other_state = *StageState::Create(*device_, *stream_, other, model.Graph(), LayerIndex(1), LayerIndex(2));
  EXPECT_FALSE(first_values.contains(ValuesOf(Find(*other_state, "transformer.h.0.mlp.c_fc.weight")->tensor)[0]));
  EXPECT_EQ(ValuesOf(Find(*state, "transformer.h.0.ln_1.weight")->tensor), std::vector<double>(64, 1));
  EXPECT_EQ(ValuesOf(Find(*state, "transformer.h.0.ln_1.bias")->tensor), std::vector<double>(64, 0));
}

TEST_P(StageStateTest, BytesAreElementsTimesTheirSize) {
  SmallModel model;
  const uint64_t element = BytesOf(device_->capabilities().compute_dtype);
  const uint64_t embedding = (7 + 9) * 6, block = 4 * 6 + 6 * 18 + 18 + 36 + 6 + 144 + 24 + 144 + 6, norm = 12,
                 head = 7 * 6;
  struct Case {
    bool tied;
    uint32_t first, last;
    uint64_t values, accumulators;
  };
  for (const Case& c :
       {Case{true, 0, 4, embedding + 2 * block + norm, embedding + 2 * block + norm + head},
        Case{false, 0, 4, embedding + 2 * block + norm + head, embedding + 2 * block + norm + head},
        Case{true, 0, 1, embedding + block, embedding + block}, Case{true, 3, 4, norm + head, norm + head}}) {
    model.tied = c.tied;
    v1::JobSpec spec = model.Spec();
    const auto expect_moments = [&](uint64_t moments) {
      const auto state =
          *StageState::Create(*device_, *stream_, spec, model.Graph(), LayerIndex(c.first), LayerIndex(c.last));
      EXPECT_EQ(state->bytes().parameters, c.values * element);
      EXPECT_EQ(state->bytes().gradients, c.accumulators * element);
      EXPECT_EQ(state->bytes().optimizer, moments * c.values * element);
      uint64_t bytes = 0;
      for (const StateTensor& tensor : state->tensors()) bytes += tensor.tensor.bytes();
      EXPECT_EQ(bytes, state->bytes().parameters + state->bytes().optimizer);
    };
    expect_moments(2);
    spec.mutable_optimizer()->set_name("sgd");
    expect_moments(0);
    spec.mutable_optimizer()->set_momentum(0.9);
    expect_moments(1);
  }
}

TEST_P(StageStateTest, ListsTensorsInBytewiseOrderWithOwners) {
  SmallModel model;
  const auto last = Create(model, 3, 4);
  std::vector<std::string> names;
  for (const StateTensor& tensor : last->tensors()) {
    names.push_back(tensor.name);
    EXPECT_EQ(tensor.owned, !tensor.name.starts_with("transformer.wte.weight"));
  }
  EXPECT_THAT(names, testing::ElementsAre("transformer.ln_f.bias", "transformer.ln_f.weight", "transformer.wte.weight",
                                          "transformer.ln_f.bias.exp_avg", "transformer.ln_f.bias.exp_avg_sq",
                                          "transformer.ln_f.weight.exp_avg", "transformer.ln_f.weight.exp_avg_sq",
                                          "transformer.wte.weight.exp_avg", "transformer.wte.weight.exp_avg_sq"));
  const auto whole = Create(model, 0, 4);
  for (const StateTensor& tensor : whole->tensors()) EXPECT_TRUE(tensor.owned) << tensor.name;
  const auto report = *last->ReportGradients(*stream_);
  ASSERT_EQ(report.norms.size(), 2u);
  EXPECT_EQ(report.norms[0].name, "transformer.ln_f.weight");
}

TEST_P(StageStateTest, ReportsNormsAndNonFiniteElements) {
  SmallModel model;
  const auto state = Create(model, 3, 3);
  FillGradients(*state, 3, 3, 0.5);
  auto report = *state->ReportGradients(*stream_);
  ASSERT_EQ(report.norms.size(), 2u);
  EXPECT_EQ(report.norms[0].squared_norm, 6 * 0.25);
  EXPECT_EQ(report.num_non_finite, 0u);
  WriteValues(state->parameters(LayerIndex(3))[1].gradient, {1, NAN, 1, INFINITY, 1, 1});
  report = *state->ReportGradients(*stream_);
  EXPECT_EQ(report.num_non_finite, 2u);
  ASSERT_TRUE(state->EnqueueZeroGradients(*stream_).ok());
  report = *state->ReportGradients(*stream_);
  EXPECT_EQ(report.norms[1].squared_norm, 0);
  EXPECT_EQ(report.num_non_finite, 0u);
}

TEST_P(StageStateTest, TiedCopiesStayEqual) {
  SmallModel model;
  StageBench bench(*device_, model.Spec(), model.Graph(), {0, 3});
  bench.Add(bench.MakeBatch(0, 7, 2));
  for (uint64_t step = 1; step <= 3; ++step) {
    bench.ZeroGradients();
    bench.RunStep();
    EXPECT_EQ(ValuesOf(bench.state(0).tied_gradient()), ValuesOf(bench.state(1).tied_gradient()));
    for (size_t stage = 0; stage < 2; ++stage) {
      ASSERT_TRUE(bench.state(stage).Update(bench.stream(), Apply(step, step)).ok());
    }
    for (const char* name : {"transformer.wte.weight", "transformer.wte.weight.exp_avg_sq"}) {
      EXPECT_EQ(ValuesOf(Find(bench.state(0), name)->tensor), ValuesOf(Find(bench.state(1), name)->tensor));
    }
  }
  StageBench whole(*device_, model.Spec(), model.Graph(), {0});
  whole.Add(whole.MakeBatch(0, 7, 2));
  for (uint64_t step = 1; step <= 3; ++step) {
    whole.ZeroGradients();
    whole.RunStep();
    ASSERT_TRUE(whole.state(0).Update(whole.stream(), Apply(step, step)).ok());
  }
  EXPECT_EQ(bench.StateDigests(), whole.StateDigests());
}

TEST_P(StageStateTest, ATieIsReducedOnlyWithWhatIsMissing) {
  SmallModel model;
  const auto whole = Create(model, 0, 4), first = Create(model, 0, 1), middle = Create(model, 1, 2);
  EXPECT_EQ(whole->EnqueueReduceTie(*stream_, first->tied_gradient()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(first->EnqueueReduceTie(*stream_, {}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(first->EnqueueReduceTie(*stream_, first->tied_gradient().Slice(0, 2)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(middle->tied_gradient().empty());
  EXPECT_EQ(middle->EnqueueReduceTie(*stream_, {}).code(), absl::StatusCode::kFailedPrecondition);
  model.tied = false;
  EXPECT_TRUE(Create(model, 0, 4)->tied_gradient().empty());
}

TEST_P(StageStateTest, AnUpdateHappensOnce) {
  SmallModel model;
  StageBench bench(*device_, model.Spec(), model.Graph(), {0});
  StageState& state = bench.state(0);
  FillGradients(state, 0, 4, 0.25);
  ASSERT_TRUE(state.Update(*stream_, Apply(1, 1)).ok());
  EXPECT_EQ(state.applied_step(), Step(1));
  EXPECT_EQ(state.num_updates(), 1u);
  const auto once = bench.StateDigests();
  ASSERT_TRUE(state.Update(*stream_, Apply(1, 1)).ok());
  EXPECT_EQ(bench.StateDigests(), once);
  EXPECT_EQ(state.Update(*stream_, Apply(3, 2)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(state.Update(*stream_, Apply(2, 1)).code(), absl::StatusCode::kFailedPrecondition);
  v1::CommitRecord undecided = Apply(2, 2);
  undecided.set_verdict(v1::VERDICT_UNSPECIFIED);
  EXPECT_EQ(state.Update(*stream_, undecided).code(), absl::StatusCode::kInvalidArgument);
  v1::CommitRecord unscaled = Apply(2, 2);
  unscaled.set_loss_scale(0);
  EXPECT_EQ(state.Update(*stream_, unscaled).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(bench.StateDigests(), once);
  EXPECT_EQ(state.applied_step(), Step(1));
}

TEST_P(StageStateTest, ASkipAdvancesTheStepAlone) {
  SmallModel model;
  StageBench bench(*device_, model.Spec(), model.Graph(), {0});
  StageState& state = bench.state(0);
  FillGradients(state, 0, 4, NAN);
  const auto before = bench.StateDigests();
  ASSERT_TRUE(state.Update(*stream_, Skip(1, 0)).ok());
  EXPECT_EQ(state.applied_step(), Step(1));
  EXPECT_EQ(state.num_updates(), 0u);
  EXPECT_EQ(bench.StateDigests(), before);

  // The next update is the first: as if the skipped step had not been.
  FillGradients(state, 0, 4, 0.25);
  ASSERT_TRUE(state.Update(*stream_, Apply(2, 1)).ok());
  StageBench other(*device_, model.Spec(), model.Graph(), {0});
  FillGradients(other.state(0), 0, 4, 0.25);
  ASSERT_TRUE(other.state(0).Update(*stream_, Apply(1, 1)).ok());
  EXPECT_EQ(bench.StateDigests(), other.StateDigests());
}

TEST_P(StageStateTest, DecaysMatricesOnly) {
  SmallModel model;
  const auto state = Create(model, 1, 1);
  const auto untouched = Create(model, 1, 1);
  FillGradients(*state, 1, 1, 0);
  ASSERT_TRUE(state->Update(*stream_, Apply(1, 1)).ok());
  const double factor = 1 - 0.01 * 0.1;
  for (const Parameter& parameter : state->parameters(LayerIndex(1))) {
    const std::vector<double> after = ValuesOf(parameter.value);
    const std::vector<double> before = ValuesOf(Find(*untouched, parameter.spec->name())->tensor);
    for (size_t i = 0; i < after.size(); ++i) {
      EXPECT_NEAR(after[i], before[i] * (parameter.spec->weight_decay() ? factor : 1), 1e-7 * std::abs(before[i]));
      EXPECT_TRUE(parameter.spec->weight_decay() || after[i] == before[i]);
    }
  }
}

// Refuses the update of one tensor, as a stream that is cancelled half-way does.
class InterruptedDevice : public Device, private TensorOperations, private UpdateOperations {
 public:
  explicit InterruptedDevice(Device& device) : device_(device) {}
  int updates_before_abort = 1 << 30;

  const DeviceCapabilities& capabilities() const override { return device_.capabilities(); }
  absl::StatusOr<std::unique_ptr<Memory>> Allocate(size_t bytes, MemoryKind kind) override {
    return device_.Allocate(bytes, kind);
  }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override { return device_.CreateStream(); }
  absl::StatusOr<EventRef> Record(Stream& stream) override { return device_.Record(stream); }
  absl::Status EnqueueWait(Stream& stream, const EventRef& event) override {
    return device_.EnqueueWait(stream, event);
  }
  absl::Status EnqueueCopy(Stream& stream, void* to, const void* from, size_t bytes) override {
    return device_.EnqueueCopy(stream, to, from, bytes);
  }
  absl::Status WaitComplete(const EventRef& event, absl::Duration timeout) override {
    return device_.WaitComplete(event, timeout);
  }
  TensorOperations& operations() override { return *this; }

 private:
  MatmulOperations& matmul() override { return device_.operations().matmul(); }
  AttentionOperations& attention() override { return device_.operations().attention(); }
  NormOperations& norm() override { return device_.operations().norm(); }
  ElementwiseOperations& elementwise() override { return device_.operations().elementwise(); }
  VocabularyOperations& vocabulary() override { return device_.operations().vocabulary(); }
  UpdateOperations& update() override { return *this; }
  absl::Status EnqueueAdamW(Stream& stream, const Tensor& parameter, const Tensor& gradient, const Tensor& exp_avg,
                            const Tensor& exp_avg_sq, const AdamW& adamw) override {
    if (updates_before_abort-- == 0) return absl::AbortedError("the stream was cancelled");
    return device_.operations().update().EnqueueAdamW(stream, parameter, gradient, exp_avg, exp_avg_sq, adamw);
  }
  absl::Status EnqueueSgd(Stream& stream, const Tensor& parameter, const Tensor& gradient, const Tensor& momentum,
                          const Sgd& sgd) override {
    return device_.operations().update().EnqueueSgd(stream, parameter, gradient, momentum, sgd);
  }
  absl::Status EnqueueSquaredNorm(Stream& stream, const Tensor& t, const Tensor& squared_norm,
                                  const Tensor& num_non_finite) override {
    return device_.operations().update().EnqueueSquaredNorm(stream, t, squared_norm, num_non_finite);
  }
  absl::Status EnqueueDigest(Stream& stream, const Tensor& t, const Tensor& digest) override {
    return device_.operations().update().EnqueueDigest(stream, t, digest);
  }

  Device& device_;
};

TEST_P(StageStateTest, AnInterruptedUpdateIsFinishedNotRepeated) {
  SmallModel model;
  StageBench whole(*device_, model.Spec(), model.Graph(), {0});
  FillGradients(whole.state(0), 0, 4, 0.25);
  ASSERT_TRUE(whole.state(0).Update(*stream_, Apply(1, 1)).ok());
  InterruptedDevice device(*device_);
  StageBench bench(device, model.Spec(), model.Graph(), {0});
  FillGradients(bench.state(0), 0, 4, 0.25);
  device.updates_before_abort = 7;
  EXPECT_EQ(bench.state(0).Update(*stream_, Apply(1, 1)).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(bench.state(0).applied_step(), Step(0));
  device.updates_before_abort = 1 << 30;
  ASSERT_TRUE(bench.state(0).Update(*stream_, Apply(1, 1)).ok());
  EXPECT_EQ(bench.StateDigests(), whole.StateDigests());
}

TEST_P(StageStateTest, StartsFromAStepThatSomeoneElseHasMade) {
  const SmallModel model;
  const auto trained = Create(model, 0, 4);
  FillGradients(*trained, 0, 4, 0.5);
  ASSERT_TRUE(trained->Update(*stream_, Apply(1, 1)).ok());
  ASSERT_TRUE(trained->Update(*stream_, Skip(2, 1)).ok());
  const auto restored = Create(model, 0, 4);
  for (size_t i = 0; i < trained->tensors().size(); ++i) {
    WriteValues(restored->tensors()[i].tensor, ValuesOf(trained->tensors()[i].tensor));
  }
  ASSERT_TRUE(restored->StartFrom(Step(2), 1).ok());
  EXPECT_EQ(restored->applied_step(), Step(2));
  EXPECT_EQ(restored->num_updates(), 1u);
  for (const auto& state : {trained.get(), restored.get()}) {
    FillGradients(*state, 0, 4, 0.25);
    ASSERT_TRUE(state->Update(*stream_, Apply(3, 2)).ok());
  }
  for (size_t i = 0; i < trained->tensors().size(); ++i) {
    EXPECT_EQ(*trained->Digest(*stream_, trained->tensors()[i].tensor),
              *restored->Digest(*stream_, restored->tensors()[i].tensor))
        << trained->tensors()[i].name;
  }
}

TEST_P(StageStateTest, StartsOnceAndFromAStepThatCanBe) {
  const auto state = Create(SmallModel(), 1, 2);
  EXPECT_EQ(state->StartFrom(Step(2), 3).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(state->applied_step(), Step(0));
  ASSERT_TRUE(state->StartFrom(Step(2), 2).ok());
  EXPECT_EQ(state->StartFrom(Step(3), 3).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(state->applied_step(), Step(2));
  FillGradients(*state, 1, 2, 0.5);
  EXPECT_EQ(state->Update(*stream_, Apply(4, 3)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(state->Update(*stream_, Apply(3, 4)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(state->Update(*stream_, Apply(3, 3)).ok());
}

TEST_P(StageStateTest, IsNotBuiltOnACancelledStream) {
  SmallModel model;
  const std::unique_ptr<Stream> cancelled = *device_->CreateStream();
  cancelled->Cancel();
  EXPECT_EQ(StageState::Create(*device_, *cancelled, model.Spec(), model.Graph(), LayerIndex(0), LayerIndex(4))
                .status()
                .code(),
            absl::StatusCode::kAborted);
}

TEST_P(StageStateTest, RefusesWhatItCannotHold) {
  SmallModel model;
  const auto message = [&](const v1::ModelGraph& graph, const v1::JobSpec& spec, uint32_t last) {
    return StageState::Create(*device_, *stream_, spec, graph, LayerIndex(0), LayerIndex(last)).status().ToString();
  };
  EXPECT_THAT(message(model.Graph(), model.Spec(), 5), HasSubstr("a stage of layers 0 to 5 in a model of 5 layers"));
  v1::ModelGraph graph = model.Graph();
  graph.mutable_layers(2)->mutable_parameters(0)->set_name("transformer.h.0.ln_1.weight");
  EXPECT_THAT(message(graph, model.Spec(), 4), HasSubstr("that another layer has too"));
  graph = model.Graph();
  graph.mutable_layers(0)->mutable_parameters(0)->set_shape(0, UINT64_MAX);
  EXPECT_THAT(message(graph, model.Spec(), 4), HasSubstr("transformer.wte.weight must have"));
  graph = model.Graph();
  graph.mutable_layers(0)->mutable_parameters(0)->clear_initializer();
  EXPECT_THAT(message(graph, model.Spec(), 4), HasSubstr("has no initializer"));
  v1::JobSpec spec = model.Spec();
  spec.mutable_optimizer()->set_name("lamb");
  EXPECT_THAT(message(model.Graph(), spec, 4), HasSubstr("must be adamw or sgd"));
}

INSTANTIATE_TEST_SUITE_P(Devices, StageStateTest, testing::Values("reference", "cpu"),
                         [](const auto& device) { return device.param; });

}  // namespace
}  // namespace stagecoach
