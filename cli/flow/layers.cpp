// Longest paths, then the usual sweeps: each layer is sorted by where its neighbours are, down and up
// again, and the order with the fewest crossings is kept.
#include "cli/flow/layers.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace once::cli {
namespace {

constexpr int kSweeps = 12;

struct Edge {
  std::size_t from{}, to{};
  bool dashed{};
  auto operator<=>(const Edge&) const = default;
};

std::vector<Edge> edges_of(const FlowView& flow) {
  std::map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < flow.steps.size(); ++i) places[flow.steps[i].step] = i;
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < flow.steps.size(); ++i) {
    for (const std::string& name : flow.steps[i].depends_on)
      if (const auto found = places.find(name); found != places.end())
        edges.push_back({found->second, i, false});
    if (const auto found = places.find(flow.steps[i].on_failure); found != places.end())
      edges.push_back({i, found->second, true});
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

// By relaxing: it does not matter in which order the steps are. A definition has no cycles.
std::vector<std::size_t> depths_of(std::size_t steps, const std::vector<Edge>& edges) {
  std::vector<std::size_t> depths(steps, 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (const Edge& edge : edges) {
      if (depths[edge.to] > depths[edge.from] || depths[edge.from] + 1 >= steps) continue;
      depths[edge.to] = depths[edge.from] + 1;
      changed = true;
    }
  }
  return depths;
}

class Layering {
 public:
  explicit Layering(const FlowView& flow) {
    const std::vector<Edge> edges = edges_of(flow);
    const std::vector<std::size_t> depths = depths_of(flow.steps.size(), edges);
    for (std::size_t i = 0; i < depths.size(); ++i) add({.step = i, .layer = depths[i]});
    for (const Edge& edge : edges) connect(edge);
    std::sort(links_.begin(), links_.end());
    links_.erase(std::unique(links_.begin(), links_.end()), links_.end());
  }

  FlowLayers arranged() && {
    std::vector<std::vector<std::size_t>> best = out_.layers;
    std::size_t fewest = crossings();
    for (int sweep = 0; sweep < kSweeps && fewest > 0; ++sweep) {
      sort_layers(sweep % 2 == 0);
      if (const std::size_t now = crossings(); now < fewest) {
        fewest = now;
        best = out_.layers;
      }
    }
    out_.layers = std::move(best);
    gather_nets();
    return std::move(out_);
  }

 private:
  std::size_t add(FlowItem item) {
    if (out_.layers.size() <= item.layer) out_.layers.resize(item.layer + 1);
    out_.items.push_back(item);
    out_.layers[item.layer].push_back(out_.items.size() - 1);
    return out_.items.size() - 1;
  }

  // All lines of a kind that leave a step and skip a layer pass it as one.
  void connect(const Edge& edge) {
    std::size_t last = edge.from;
    for (std::size_t layer = out_.items[edge.from].layer + 1; layer < out_.items[edge.to].layer;
         ++layer) {
      const auto [found, is_new] = passing_.try_emplace({edge.from, edge.dashed, layer}, 0);
      if (is_new) found->second = add({.layer = layer});
      links_.push_back({last, found->second, edge.dashed});
      last = found->second;
    }
    links_.push_back({last, edge.to, edge.dashed});
  }

  std::vector<std::size_t> places() const {
    std::vector<std::size_t> places(out_.items.size());
    for (const auto& layer : out_.layers)
      for (std::size_t i = 0; i < layer.size(); ++i) places[layer[i]] = i;
    return places;
  }

  void sort_layers(bool down) {
    for (std::size_t n = 0; n < out_.layers.size(); ++n) {
      std::vector<std::size_t>& layer = out_.layers[down ? n : out_.layers.size() - 1 - n];
      const std::vector<std::size_t> place = places();
      std::map<std::size_t, std::pair<double, double>> means;  // sum and count of the neighbours
      for (const Edge& link : links_) {
        auto& [sum, count] = means[down ? link.to : link.from];
        sum += static_cast<double>(place[down ? link.from : link.to]);
        if (down && link.dashed) sum += 0.25;
        ++count;
      }
      const auto wanted = [&](std::size_t item) {
        const auto found = means.find(item);
        return found == means.end() ? static_cast<double>(place[item])
                                    : found->second.first / found->second.second;
      };
      std::stable_sort(layer.begin(), layer.end(),
                       [&](std::size_t a, std::size_t b) { return wanted(a) < wanted(b); });
    }
  }

  // What a failure leads to leaves a step below the rest.
  static bool leaves_before(const Edge& one, const Edge& other,
                            const std::vector<std::size_t>& place) {
    return place[one.from] < place[other.from] ||
           (one.from == other.from && !one.dashed && other.dashed);
  }

  std::size_t crossings() const {
    const std::vector<std::size_t> place = places();
    std::size_t count = 0;
    for (std::size_t a = 0; a < links_.size(); ++a)
      for (std::size_t b = a + 1; b < links_.size(); ++b) {
        const Edge &one = links_[a], &other = links_[b];
        if (out_.items[one.from].layer != out_.items[other.from].layer) continue;
        const bool before = leaves_before(one, other, place);
        const bool after = leaves_before(other, one, place);
        count += (before && place[one.to] > place[other.to]) ||
                 (after && place[one.to] < place[other.to]);
      }
    return count;
  }

  void gather_nets() {
    const std::vector<std::size_t> place = places();
    out_.nets.resize(out_.layers.empty() ? 0 : out_.layers.size() - 1);
    for (std::size_t n = 0; n < out_.nets.size(); ++n)
      for (std::size_t item : out_.layers[n])
        for (bool dashed : {false, true}) gather(out_.nets[n], item, dashed, place);
  }

  void gather(std::vector<FlowNet>& nets, std::size_t item, bool dashed,
              const std::vector<std::size_t>& place) {
    std::vector<std::size_t> to;
    for (const Edge& link : links_)
      if (link.from == item && link.dashed == dashed) to.push_back(link.to);
    if (to.empty()) return;
    std::sort(to.begin(), to.end(),
              [&](std::size_t a, std::size_t b) { return place[a] < place[b]; });
    const auto same = std::find_if(nets.begin(), nets.end(), [&](const FlowNet& net) {
      return net.dashed == dashed && net.to == to;
    });
    if (same != nets.end()) {
      same->from.push_back(item);
    } else {
      nets.push_back({.from = {item}, .to = std::move(to), .dashed = dashed});
    }
  }

  FlowLayers out_;
  std::vector<Edge> links_;  // between items of neighbouring layers
  std::map<std::tuple<std::size_t, bool, std::size_t>, std::size_t> passing_;
};

}  // namespace

FlowLayers layers_of(const FlowView& flow) { return Layering(flow).arranged(); }

}  // namespace once::cli
