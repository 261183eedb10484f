#include "tests/simulation/toy_model.h"

#include <bit>
#include <cstddef>
#include <optional>

#include "absl/strings/str_cat.h"
#include "tests/simulation/random.h"

namespace stagecoach::simulation {
namespace {

// One layer's gradient in so many is not finite: a step of three layers is skipped now and then.
constexpr uint64_t kNonFiniteOneIn = 64;

uint64_t BitsOf(double value) { return std::bit_cast<uint64_t>(value); }

// Two terms, in whatever order.
uint64_t Sum(uint64_t a, uint64_t b) { return a + b; }

// The skip connection that starts, or ends, at a layer.
std::optional<uint32_t> ConnectionAt(const v1::ModelGraph& graph, size_t layer, bool starts) {
  for (int i = 0; i < graph.skip_connections_size(); ++i) {
    const v1::SkipConnection& connection = graph.skip_connections(i);
    if ((starts ? connection.from_layer() : connection.to_layer()) == layer) return static_cast<uint32_t>(i);
  }
  return std::nullopt;
}

v1::TensorDigestReport ReportOf(const std::string& name, uint64_t value, uint64_t num_updates, bool optimizer_state,
                                const v1::ParameterSpec& parameter) {
  v1::TensorDigestReport report;
  report.set_name(name);
  report.set_dtype(v1::DTYPE_F32);
  for (const uint64_t extent : parameter.shape()) report.add_shape(extent);
  report.set_low(Mix(value, name.size()));
  report.set_high(num_updates);
  report.set_optimizer_state(optimizer_state);
  return report;
}

}  // namespace

uint64_t InitialValue(uint64_t seed, uint32_t layer) { return Mix(Mix(10, seed), layer); }
uint64_t LoadedSamples(uint64_t first_sample, uint32_t micro_batch, uint32_t samples) {
  return Mix(Mix(Mix(11, first_sample), micro_batch), samples);
}
uint64_t ForwardLayer(uint64_t input, uint64_t value) { return Mix(Mix(12, input), value); }
uint64_t BackwardLayer(uint64_t output_gradient, uint64_t value) { return Mix(Mix(13, output_gradient), value); }

std::vector<uint64_t> ForwardLayers(const v1::ModelGraph& graph, uint32_t first_layer,
                                    const std::vector<uint64_t>& values, uint64_t input, Skips& skips) {
  std::vector<uint64_t> activations;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto ending = ConnectionAt(graph, first_layer + i, /*starts=*/false);
    if (ending.has_value()) input = Sum(input, skips.at(*ending));
    activations.push_back(input);
    input = ForwardLayer(input, values[i]);
    const auto starting = ConnectionAt(graph, first_layer + i, /*starts=*/true);
    if (starting.has_value()) skips[*starting] = input;
  }
  activations.push_back(input);
  return activations;
}

std::vector<uint64_t> BackwardLayers(const v1::ModelGraph& graph, uint32_t first_layer,
                                     const std::vector<uint64_t>& values, uint64_t output_gradient, Skips& skips) {
  std::vector<uint64_t> gradients(values.size() + 1);
  for (size_t i = values.size(); i-- > 0;) {
    const auto starting = ConnectionAt(graph, first_layer + i, /*starts=*/true);
    if (starting.has_value()) output_gradient = Sum(output_gradient, skips.at(*starting));
    gradients[i + 1] = output_gradient;
    output_gradient = BackwardLayer(output_gradient, values[i]);
    const auto ending = ConnectionAt(graph, first_layer + i, /*starts=*/false);
    if (ending.has_value()) skips[*ending] = output_gradient;
  }
  gradients[0] = output_gradient;
  return gradients;
}

uint64_t LossGradient(uint64_t output, double loss_weight) { return Mix(Mix(14, output), BitsOf(loss_weight)); }
uint64_t AddWeightGradient(uint64_t accumulator, uint64_t input, uint64_t output_gradient) {
  return Mix(Mix(Mix(15, accumulator), input), output_gradient);
}
double LossOf(uint64_t output) { return 1 + static_cast<double>(output % 4096) / 1024; }
double SquaredNormOf(uint64_t gradient) { return static_cast<double>(gradient % 4096 + 1) / 512; }
bool IsNonFinite(uint64_t gradient) { return gradient % kNonFiniteOneIn == 0; }

uint64_t UpdatedValue(uint64_t value, uint64_t gradient, const v1::CommitRecord& record) {
  if (record.verdict() != v1::VERDICT_APPLY) return value;
  return Mix(Mix(Mix(Mix(Mix(16, value), gradient), BitsOf(record.clip_factor())), BitsOf(record.learning_rate())),
             record.num_updates());
}

std::vector<v1::TensorDigestReport> ReportsOf(const v1::LayerSpec& layer, uint64_t value, uint64_t num_updates) {
  std::vector<v1::TensorDigestReport> reports;
  for (const v1::ParameterSpec& parameter : layer.parameters()) {
    if (parameter.has_tied_to_layer()) continue;
    reports.push_back(ReportOf(parameter.name(), value, num_updates, false, parameter));
    reports.push_back(ReportOf(absl::StrCat(parameter.name(), ".momentum"), value, num_updates, true, parameter));
  }
  return reports;
}

std::vector<v1::SquaredNorm> NormsOf(const v1::LayerSpec& layer, uint64_t gradient) {
  std::vector<v1::SquaredNorm> norms;
  for (const v1::ParameterSpec& parameter : layer.parameters()) {
    if (parameter.has_tied_to_layer()) continue;
    v1::SquaredNorm& norm = norms.emplace_back();
    norm.set_name(parameter.name());
    norm.set_value(SquaredNormOf(Mix(gradient, static_cast<uint64_t>(norms.size()))));
  }
  return norms;
}

}  // namespace stagecoach::simulation
