// What every publish and every ledger write pays before a store is touched: the canonical form and
// digest of a 256-byte body, and a record to bytes and back.
#include <benchmark/benchmark.h>

#include "codec/digest.h"
#include "codec/key_template.h"
#include "codec/record_codec.h"
#include "json/json.h"

namespace once::encoding {
namespace {

constexpr std::string_view kOrdered =
    R"({"amount":1299.5,"currency":"EUR","customer":{"country":"DE","id":48213377,"tier":"gold"},)"
    R"("documentId":"7f9c2ba4-e88f-4d2a-9c1e-0b7b0f6f3a51","lines":[{"quantity":3,"sku":"A-1001"},)"
    R"({"quantity":1,"sku":"B-2207"}],"objectKey":"in/2024/05/scan-0193.pdf","urgent":false})";
constexpr std::string_view kUnordered =
    R"({"urgent": false, "documentId": "7f9c2ba4-e88f-4d2a-9c1e-0b7b0f6f3a51", "objectKey": )"
    R"("in/2024/05/scan.pdf", "customer": {"tier": "gold", "id": 48213377, "country": "DE"}, )"
    R"("amount": 1.2995e3, "lines": [{"sku": "A\u002d1", "quantity": 3}], "currency": "EUR"})";

std::string_view body_text(const benchmark::State& state) {
  return state.range(0) == 0 ? kOrdered : kUnordered;
}

void name_body(benchmark::State& state) {
  state.SetLabel(state.range(0) == 0 ? "canonical already" : "out of order, spaced");
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(body_text(state).size()));
}

void canonical_text(benchmark::State& state) {
  const std::string_view text = body_text(state);
  std::string out;
  for (auto _ : state) {
    out.clear();
    benchmark::DoNotOptimize(canonicalise(text, out));
  }
  name_body(state);
}
BENCHMARK(canonical_text)->Arg(0)->Arg(1);

void canonical_and_digest(benchmark::State& state) {
  const Body body = Body::json(body_text(state)).value();
  for (auto _ : state) benchmark::DoNotOptimize(content_digest("orders.created", body));
  name_body(state);
}
BENCHMARK(canonical_and_digest)->Arg(0)->Arg(1);

// All of a publish that is not the store's: the body is checked, then digested.
void body_and_digest(benchmark::State& state) {
  for (auto _ : state) {
    const auto body = Body::json(body_text(state));
    benchmark::DoNotOptimize(content_digest("orders.created", *body));
  }
  name_body(state);
}
BENCHMARK(body_and_digest)->Arg(0)->Arg(1);

void tree(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(parse_json(body_text(state)));
  name_body(state);
}
BENCHMARK(tree)->Arg(0)->Arg(1);

void key_of_two_paths(benchmark::State& state) {
  const auto key_template = KeyTemplate::parse("{documentId}:{objectKey}").value();
  const Body body = Body::json(kOrdered).value();
  for (auto _ : state) benchmark::DoNotOptimize(key_template.key("id", "orders", body, {}));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(key_of_two_paths);

core::Record completed_record() {
  core::Record record;
  record.sequence = {123'456};
  record.digest = sha256("content");
  record.state = State::completed;
  record.claims = 1;
  record.counted = 1;
  record.nonce.bytes.fill(0x5A);
  record.member = {17};
  record.lease = Duration{30'000};
  record.since = Time{Duration{1'700'000'000'123}};
  core::Attempt attempt;
  attempt.number = 1;
  attempt.worker = "worker-7.example:4711";
  attempt.token = {987'654};
  attempt.started_at = Time{Duration{1'700'000'000'100}};
  attempt.ended_at = record.since;
  attempt.ending = core::Ending::completed;
  record.attempts.push_back(attempt);
  record.result = Body();
  return record;
}

void record_encode(benchmark::State& state) {
  const core::Record record = completed_record();
  for (auto _ : state) benchmark::DoNotOptimize(encode(record));
  state.SetItemsProcessed(state.iterations());
  state.counters["bytes"] = static_cast<double>(encode(record).size());
}
BENCHMARK(record_encode);

void record_decode(benchmark::State& state) {
  const std::string bytes = encode(completed_record());
  for (auto _ : state) benchmark::DoNotOptimize(decode(bytes));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(record_decode);

}  // namespace
}  // namespace once::encoding
