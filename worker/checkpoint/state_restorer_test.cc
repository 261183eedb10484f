// A model's state from checkpoints that were written at other cuts, and what is wrong with those that do not fit.
#include "worker/checkpoint/state_restorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"
#include "formats/checkpoint.h"
#include "formats/checkpoint_manifest.h"
#include "formats/checkpoint_reader.h"
#include "tests/testing/fault_file_system.h"
#include "tests/testing/temporary_directory.h"
#include "worker/checkpoint/shard_writer.h"
#include "worker/checkpoint/state_source.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/reference/reference_device.h"
#include "worker/model/small_model.h"

namespace stagecoach {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Stages by their first layers.
using Cut = std::vector<uint32_t>;
using States = std::vector<std::unique_ptr<StageState>>;

class StateRestorerTest : public testing::TestWithParam<std::string> {
 protected:
  States Create(const Cut& cut) {
    States states;
    for (size_t i = 0; i < cut.size(); ++i) {
      const uint32_t last = (i + 1 < cut.size() ? cut[i + 1] : model_.num_layers()) - 1;
      states.push_back(
          *StageState::Create(*device_, *stream_, spec_, model_.Graph(), LayerIndex(cut[i]), LayerIndex(last)));
    }
    return states;
  }
  // Steps with gradients that are a function of the parameter alone, so that a tied pair stays equal.
  void Train(const States& states, uint64_t first_step, uint64_t last_step) {
    for (uint64_t step = first_step; step <= last_step; ++step) {
      for (const auto& state : states) {
        for (uint32_t layer = 0; layer < model_.num_layers(); ++layer) {
          for (const Parameter& parameter : state->parameters(LayerIndex(layer))) FillGradient(parameter, step);
        }
        v1::CommitRecord record;
        record.set_step(step);
        record.set_verdict(v1::VERDICT_APPLY);
        record.set_clip_factor(1);
        record.set_learning_rate(0.01);
        record.set_num_updates(step);
        record.set_loss_scale(1);
        ASSERT_TRUE(state->Update(*stream_, record).ok());
      }
    }
  }
  void FillGradient(const Parameter& parameter, uint64_t step) {
    const double value = 0.1 * static_cast<double>(step) + 0.01 * static_cast<double>(parameter.spec->name().size());
    ASSERT_TRUE(device_->operations().elementwise().EnqueueFill(*stream_, parameter.gradient, value).ok());
  }
  std::map<std::string, std::string> Digests(const States& states, bool owned = true) {
    std::map<std::string, std::string> digests;
    for (const auto& state : states) {
      for (const StateTensor& tensor : state->tensors()) {
        if (tensor.owned == owned) digests[tensor.name] = state->Digest(*stream_, tensor.tensor)->Hex();
      }
    }
    return digests;
  }
  // A checkpoint of `states`, a shard each.
  std::string Write(const States& states) {
    const uint64_t step = states.front()->applied_step().value();
    const std::string checkpoint = *MakeCheckpointDirectory(files_, directory_.path(), Step(step));
    std::vector<ShardReceipt> receipts;
    for (const auto& state : states) {
      StageState* const one[] = {state.get()};
      const auto source = StateSource::Create(*device_, *stream_, one, Step(step));
      const Incarnation writer(100 + receipts.size());
      v1::WriteCheckpoint order;
      order.set_step(step);
      order.set_directory(checkpoint);
      order.set_file(ShardFileName(StageIndex(static_cast<uint32_t>(receipts.size()))));
      const auto written = ShardWriter(files_, {JobId("job"), Epoch(1), writer}).Write(**source, order, may_go_on_);
      EXPECT_TRUE(written.ok()) << written.status();
      receipts.push_back({*written, writer});
    }
    v1::CheckpointManifest manifest;
    manifest.set_version(kManifestVersion);
    manifest.set_job("job");
    manifest.set_epoch(1);
    manifest.set_step(step);
    manifest.set_num_updates(states.front()->num_updates());
    *manifest.mutable_spec() = spec_;
    EXPECT_TRUE(AddShards(receipts, manifest).ok());
    EXPECT_TRUE(PublishCheckpoint(files_, checkpoint, manifest).ok());
    UseManifest(checkpoint);
    return checkpoint;
  }
  // As it lies there now.
  void UseManifest(const std::string& checkpoint) {
    assignment_.mutable_restore()->set_directory(checkpoint);
    assignment_.mutable_restore()->set_manifest_digest(
        ManifestDigest(*ReadFile(files_, checkpoint + "/" + kManifestFileName, kMaxManifestBytes)));
  }
  absl::Status Restore(const States& states) {
    *assignment_.mutable_spec() = spec_;
    *assignment_.mutable_graph() = model_.Graph();
    std::vector<StageState*> pointers;
    for (const auto& state : states) pointers.push_back(state.get());
    return RestoreStates({.files = files_,
                          .device = *device_,
                          .stream = *stream_,
                          .states = pointers,
                          .assignment = assignment_,
                          .may_go_on = may_go_on_});
  }
  void ExpectRefusal(absl::StatusCode code, const std::vector<std::string>& texts, const Cut& cut = {0}) {
    const absl::Status status = Restore(Create(cut));
    EXPECT_EQ(status.code(), code) << status;
    for (const std::string& text : texts) EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
  static void Overwrite(const std::string& path, int64_t offset, char with) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(offset, offset < 0 ? std::ios::end : std::ios::beg);
    file.put(with);
  }

  SmallModel model_;
  v1::JobSpec spec_ = model_.Spec();
  TemporaryDirectory directory_;
  FaultFileSystem files_;
  const std::unique_ptr<Device> device_ = GetParam() == "cpu" ? *CpuDevice::Create({}) : *ReferenceDevice::Create({});
  const std::unique_ptr<Stream> stream_ = *device_->CreateStream();
  v1::AssignStages assignment_;
  std::function<absl::Status()> may_go_on_ = [] { return absl::OkStatus(); };
};

TEST_P(StateRestorerTest, AnyCutReadsACheckpointOfAnyCutAndTrainsOnEqually) {
  for (const bool tied : {false, true}) {
    model_.tied = tied;
    spec_ = model_.Spec();
    const States straight = Create({0});
    Train(straight, 1, 5);
    for (const Cut& written : {Cut{0}, Cut{0, 2}, Cut{0, 1, 4}}) {
      const States before = Create(written);
      Train(before, 1, 3);
      Write(before);
      for (const Cut& read : {Cut{0}, Cut{0, 3}, Cut{0, 1, 2}}) {
        SCOPED_TRACE(absl::StrCat(written.size(), " to ", read.size(), " stages", tied ? ", tied" : ""));
        const States after = Create(read);
        const absl::Status restored = Restore(after);
        ASSERT_TRUE(restored.ok()) << restored;
        EXPECT_EQ(Digests(after), Digests(before));
        for (const auto& state : after) {
          EXPECT_EQ(state->applied_step(), Step(3));
          EXPECT_EQ(state->num_updates(), 3u);
        }
        // The copy of a tied tensor, which no shard has under a name of its own.
        const std::map<std::string, std::string> copies = Digests(after, /*owned=*/false);
        EXPECT_EQ(copies.empty(), !tied || read.size() == 1);
        for (const auto& [name, digest] : copies) EXPECT_EQ(digest, Digests(before).at(name));
        Train(after, 4, 5);
        EXPECT_EQ(Digests(after), Digests(straight));
      }
    }
  }
}

TEST_P(StateRestorerTest, AManifestThatIsNotTheVerifiedOneIsDataLoss) {
  States states = Create({0, 2});
  Train(states, 1, 2);
  const std::string checkpoint = Write(states);
  assignment_.mutable_restore()->set_manifest_digest(std::string(32, '0'));
  ExpectRefusal(absl::StatusCode::kDataLoss, {checkpoint + "/manifest.json", std::string(32, '0')});
  UseManifest(checkpoint);
  ASSERT_TRUE(files_.RemoveTree(checkpoint + "/manifest.json").ok());
  ExpectRefusal(absl::StatusCode::kDataLoss, {"not a checkpoint", "manifest.json"});
}

TEST_P(StateRestorerTest, DamagedShardsAreDataLossAndNameTheFile) {
  States states = Create({0, 2});
  Train(states, 1, 2);
  const std::string checkpoint = Write(states);
  const std::string shard = checkpoint + "/stage-00001.safetensors";
  const std::string whole = *ReadFile(files_, shard, 1 << 20);

  Overwrite(shard, -1, static_cast<char>(whole.back() ^ 1));
  ExpectRefusal(absl::StatusCode::kDataLoss, {shard, "tensor ", "its bytes have digest"});
  // Of a worker whose layers are all in the other shard it is no business.
  States elsewhere;
  elsewhere.push_back(*StageState::Create(*device_, *stream_, spec_, model_.Graph(), LayerIndex(1), LayerIndex(1)));
  EXPECT_TRUE(Restore(elsewhere).ok());

  ASSERT_TRUE(WriteFileAtomically(files_, shard, whole.substr(0, whole.size() - 4)).ok());
  ExpectRefusal(absl::StatusCode::kDataLoss, {shard, "bytes, the manifest says"});
  ASSERT_TRUE(files_.RemoveTree(shard).ok());
  ExpectRefusal(absl::StatusCode::kDataLoss, {shard, "No such file"});
  ASSERT_TRUE(WriteFileAtomically(files_, shard, whole).ok());
  EXPECT_TRUE(Restore(Create({0})).ok());
}

TEST_P(StateRestorerTest, ErrorsOfTheFileSystemKeepTheirCodes) {
  States states = Create({0});
  Train(states, 1, 1);
  Write(states);
  // Its length, its header, and then tensors.
  files_.Add({FileOperation::kRead, "stage-00000", 5, absl::UnknownError("Input/output error")});
  ExpectRefusal(absl::StatusCode::kUnknown, {"stage-00000.safetensors", "Input/output error", "tensor "});
}

TEST_P(StateRestorerTest, AnotherOptimizerIsNamed) {
  States adamw = Create({0});
  Train(adamw, 1, 1);
  const std::string with_adamw = Write(adamw);
  spec_.mutable_optimizer()->set_name("sgd");
  spec_.mutable_optimizer()->set_momentum(0.9);
  ExpectRefusal(absl::StatusCode::kFailedPrecondition,
                {with_adamw + "/manifest.json", ".momentum", "\"adamw\", the job has \"sgd\""});
  States sgd = Create({0});
  Train(sgd, 1, 1);
  const std::string with_sgd = Write(sgd);
  spec_ = model_.Spec();
  ExpectRefusal(absl::StatusCode::kFailedPrecondition, {with_sgd, ".exp_avg", "\"sgd\", the job has \"adamw\""});
}

TEST_P(StateRestorerTest, AnotherModelIsNamedByItsTensors) {
  model_.blocks = 2;
  States two = Create({0});
  Train(two, 1, 1);
  const std::string of_two = Write(two);
  model_.blocks = 3;
  ExpectRefusal(absl::StatusCode::kFailedPrecondition, {of_two, "\"transformer.h.2.", "the checkpoint does not"});
  model_.blocks = 1;
  ExpectRefusal(absl::StatusCode::kFailedPrecondition,
                {of_two, "\"transformer.h.1.", "the job's model has no such one"});
  model_.blocks = 2;
  model_.hidden = 8;
  ExpectRefusal(absl::StatusCode::kFailedPrecondition,
                {of_two + "/stage-00000.safetensors", "[18], here it must be", "[24]"});
}

TEST_P(StateRestorerTest, StopsBetweenPieces) {
  States states = Create({0});
  Train(states, 1, 1);
  Write(states);
  for (const int allowed : {0, 1, 3}) {
    may_go_on_ = [left = allowed]() mutable {
      return left-- > 0 ? absl::OkStatus() : absl::AbortedError("a newer epoch");
    };
    ExpectRefusal(absl::StatusCode::kAborted, {"a newer epoch"});
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, StateRestorerTest, testing::Values("cpu", "reference"),
                         [](const auto& device) { return device.param; });

}  // namespace
}  // namespace stagecoach
