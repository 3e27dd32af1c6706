// Topic matching against a reference that follows its definition word by word, and the checks of
// names against what they are for.
#include "core/names.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "core/utf8.h"

namespace once::core {
namespace {

using Parts = std::vector<std::string>;

std::string dotted(const Parts& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ".") + part;
  return text;
}

// `*` is one part, `>` is one part or more, anything else is itself.
bool reference_matches(const Parts& filter, const Parts& topic, std::size_t f = 0,
                       std::size_t t = 0) {
  if (f == filter.size() || t == topic.size()) return f == filter.size() && t == topic.size();
  if (filter[f] == ">") return true;
  return (filter[f] == "*" || filter[f] == topic[t]) &&
         reference_matches(filter, topic, f + 1, t + 1);
}

// What is Once's own is reached only by its name.
bool reference_reaches(const Parts& filter, const Parts& topic) {
  return topic.front() != "$once" || filter.front() == "$once";
}

Parts any_parts(std::initializer_list<const char*> of, std::size_t most) {
  const auto length = *rc::gen::inRange<std::size_t>(1, most + 1);
  const std::vector<std::string> words(of.begin(), of.end());
  return *rc::gen::container<Parts>(length, rc::gen::elementOf(words));
}

RC_GTEST_PROP(Names, MatchingIsAsItsDefinition, ()) {
  for (int pairs = 0; pairs < 20; ++pairs) {
    const Parts topic = any_parts({"a", "b", "ab", "$once"}, 4);
    Parts filter = any_parts({"a", "b", "ab", "$once", "*", "*"}, 4);
    if (*rc::gen::inRange(0, 3) == 0) filter.push_back(">");
    const bool expected = reference_reaches(filter, topic) && reference_matches(filter, topic);
    RC_ASSERT(matches(dotted(filter), dotted(topic)) == expected);
    RC_ASSERT(static_cast<bool>(check_topic(dotted(topic))) == (topic.front() != "$once"));
    RC_ASSERT(check_filter(dotted(filter)));
  }
}

RC_GTEST_PROP(Names, ATopicIsAFilterThatMatchesOnlyItself, ()) {
  const Parts one = any_parts({"a", "b", "ab"}, 3);
  const Parts other = any_parts({"a", "b", "ab"}, 3);
  RC_ASSERT(matches(dotted(one), dotted(other)) == (one == other));
}

// Whatever is taken as a topic is no filter in disguise and is as long as a subject may be.
RC_GTEST_PROP(Names, WhatIsTakenAsATopicHasNoWildcards, ()) {
  const auto any_char = rc::gen::element('a', 'b', '.', '*', '>', ' ', '\t', '$');
  const auto text = *rc::gen::container<std::string>(any_char);
  if (!check_topic(text)) return;
  RC_ASSERT(text.find_first_of("*> \t") == std::string::npos);
  RC_ASSERT(text.find("..") == std::string::npos);
  RC_ASSERT(!text.empty() && text.front() != '.' && text.back() != '.');
  RC_ASSERT(check_filter(text));
}

// Encoded by hand, decoded by nobody: what is built from code points is UTF-8, and stops being so
// when any one byte of a longer character is cut off.
RC_GTEST_PROP(Names, Utf8IsWhatCodePointsEncodeTo, ()) {
  const auto point = *rc::gen::suchThat(rc::gen::inRange<std::uint32_t>(1, 0x110000),
                                        [](auto p) { return p < 0xD800 || p > 0xDFFF; });
  std::string text;
  const auto byte = [&](std::uint32_t value) { text += static_cast<char>(value); };
  if (point < 0x80) {
    byte(point);
  } else if (point < 0x800) {
    byte(0xC0U | (point >> 6U)), byte(0x80U | (point & 0x3FU));
  } else if (point < 0x10000) {
    byte(0xE0U | (point >> 12U)), byte(0x80U | ((point >> 6U) & 0x3FU));
    byte(0x80U | (point & 0x3FU));
  } else {
    byte(0xF0U | (point >> 18U)), byte(0x80U | ((point >> 12U) & 0x3FU));
    byte(0x80U | ((point >> 6U) & 0x3FU)), byte(0x80U | (point & 0x3FU));
  }
  RC_ASSERT(valid_utf8("x" + text + "y"));
  if (text.size() == 1) return;
  for (std::size_t cut = 0; cut < text.size(); ++cut)
    RC_ASSERT(!valid_utf8("x" + std::string(text).erase(cut, 1) + "y"));
}

}  // namespace
}  // namespace once::core
