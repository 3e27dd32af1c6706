// The fuzz targets' properties over mutated inputs from a seed, so that every test run fuzzes a
// little, with any compiler.
#include <gtest/gtest.h>

#include "../../fuzz/encoding_properties.h"
#include "support/random_json.h"
#include "support/random_record.h"

namespace once::encoding {
namespace {

class Mutator {
 public:
  Mutator(std::uint64_t seed, std::vector<std::string> corpus, std::vector<std::string> pieces)
      : random_(seed), corpus_(std::move(corpus)), pieces_(std::move(pieces)) {}

  std::string next() {
    std::string out = pick(corpus_);
    for (std::uint64_t i = 0, n = 1 + below(3); i < n; ++i) mutate(out);
    return out;
  }

 private:
  void mutate(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    switch (below(6)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1: text.erase(at, below(4)); break;
      case 2: text.insert(at, pick(pieces_)); break;
      case 3: text.insert(at, text.substr(below(text.size() + 1), below(24))); break;
      case 4:
        if (at < text.size()) text[at] = static_cast<char>(random_());
        break;
      default: {
        const std::string& other = pick(corpus_);
        text.resize(at);
        text += other.substr(below(other.size() + 1));
      }
    }
  }

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  const std::string& pick(const std::vector<std::string>& from) { return from[below(from.size())]; }

  std::mt19937_64 random_;
  std::vector<std::string> corpus_;
  std::vector<std::string> pieces_;
};

TEST(Mutation, CanonicalJson) {
  RandomJson random(3);
  std::vector<std::string> corpus;
  while (corpus.size() < 300) {
    std::string text = random.document();
    if (text.size() < 400) corpus.push_back(std::move(text));
  }
  Mutator mutator(4, std::move(corpus),
                  {"\"",
                   "\\",
                   "\\u",
                   "\\ud83d",
                   "\\ude02",
                   "{",
                   "}",
                   "[",
                   "]",
                   ",",
                   ":",
                   "0",
                   "-",
                   "e",
                   ".",
                   "1e400",
                   "1e-400",
                   "9007199254740993",
                   "295147905179352830000",
                   "null",
                   "true",
                   "\xF0\x9F\x98\x82",
                   "\xED\xA0\x80",
                   "\"a\":1,\"a\":2",
                   "{\"\":",
                   " "});
  int accepted = 0;
  for (int i = 0; i < 100'000; ++i) {
    const std::string text = mutator.next();
    ASSERT_EQ(fuzz::canonical_complaint(text), "") << ::testing::PrintToString(text);
    if (parse_json(text)) ++accepted;
  }
  EXPECT_GT(accepted, 5'000) << "mutations that all break the text look at little";
}

TEST(Mutation, Records) {
  RandomRecord random(5);
  std::vector<std::string> corpus = {encode_queue({.name = "q", .topic = "t.>", .from = 3})};
  while (corpus.size() < 300) {
    std::string bytes = encode(random.record());
    corpus.push_back(bytes);
    // The fields alone: the property seals them again.
    corpus.push_back(bytes.substr(1, bytes.size() - 1 - kChecksumSize));
    bytes = encode(random.order());
    corpus.push_back(bytes);
    corpus.push_back(bytes.substr(1, bytes.size() - 1 - kChecksumSize));
  }
  Mutator mutator(6, std::move(corpus),
                  {std::string("\0", 1), "\x01", "\x80", "\xFF\xFF\xFF\xFF\x0F", "\x19\x02\x02\x01",
                   "\x27\x02\x04\x01", "\x29\x02\x02\x01",
                   "\x1B\x01"
                   "1",
                   "\x7F", "\"retry\"", "1e19", "-1"});
  for (int i = 0; i < 100'000; ++i) {
    const std::string bytes = mutator.next();
    ASSERT_EQ(fuzz::record_complaint(bytes), "") << ::testing::PrintToString(bytes);
  }
}

}  // namespace
}  // namespace once::encoding
