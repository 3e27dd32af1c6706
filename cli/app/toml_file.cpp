#include "cli/app/toml_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <cmath>
#include <sstream>

namespace once::cli {
namespace {

using Json = nlohmann::ordered_json;

class Converter {
 public:
  explicit Converter(TomlFile& to) : to_(to) {}

  Json value(const toml::node& node, const std::string& path) {
    to_.lines[path] = node.source().begin.line;
    if (const auto* table = node.as_table()) return object(*table, path);
    if (const auto* array = node.as_array()) return list(*array, path);
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* number = node.as_integer()) return number->get();
    if (const auto* flag = node.as_boolean()) return flag->get();
    if (const auto* number = node.as_floating_point(); number && std::isfinite(number->get()))
      return number->get();
    std::ostringstream text;
    node.visit([&](const auto& each) {
      if constexpr (toml::is_value<decltype(each)>) text << each.get();
    });
    return text.str();
  }

 private:
  Json object(const toml::table& table, const std::string& path) {
    Json made = Json::object();
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      made[name] = value(node, path.empty() ? name : path + "." + name);
    }
    return made;
  }
  Json list(const toml::array& array, const std::string& path) {
    Json made = Json::array();
    for (std::size_t i = 0; i < array.size(); ++i)
      made.push_back(value(array[i], fmt::format("{}[{}]", path, i)));
    return made;
  }

  TomlFile& to_;
};

}  // namespace

Result<TomlFile> parse_toml(const std::string& text) try {
  TomlFile file;
  const toml::table table = toml::parse(text);
  file.value = Converter(file).value(table, "");
  return file;
} catch (const toml::parse_error& error) {
  return Error{.code = Code::invalid_input,
               .message = fmt::format("line {}: {}", error.source().begin.line,
                                      std::string_view(error.description()))};
}

}  // namespace once::cli
