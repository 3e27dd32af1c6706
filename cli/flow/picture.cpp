// In two coordinates, whichever way the picture goes: `along` from layer to layer, `across` within
// one. Items get places across in which they are near to what they are connected with; each net gets
// a track of its own between the layers, unless it is a straight line; then everything is put on the
// canvas, which notices when two nets share a cell in which they do not just cross.
#include "cli/flow/picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "shapes/values.h"

namespace once::cli {
namespace {

// Where a line leaves a cell.
enum Leaves : unsigned { kUp = 1, kDown = 2, kLeft = 4, kRight = 8 };
constexpr unsigned kUpright = kUp | kDown;
constexpr unsigned kFlat = kLeft | kRight;
constexpr std::array<std::string_view, 16> kLines{" ", "╵", "╷", "│", "╴", "┘", "┐", "┤",
                                                  "╶", "└", "┌", "├", "─", "┴", "┬", "┼"};

class Canvas {
 public:
  void line(int x, int y, int net, unsigned leaves, bool dashed) {
    for (Line& line : cells_[{y, x}].lines) {
      if (line.net != net) continue;
      line.leaves |= leaves;
      line.dashed = line.dashed && dashed;
      return;
    }
    cells_[{y, x}].lines.push_back({net, leaves, dashed});
  }

  void text(int x, int y, const FlowLabel& label) {
    cells_[{y, x}].label = &label;
    cells_[{y, x}].glyph = label.styled;
  }
  void glyph(int x, int y, std::string_view glyph) { cells_[{y, x}].glyph = glyph; }

  std::optional<FlowPicture> picture() const {
    FlowPicture picture;
    std::string row;
    int x = 0, y = 0;
    for (const auto& [place, cell] : cells_) {
      if (!clean(cell)) return {};
      for (; y < place.first; ++y, x = 0) finish(picture, row, x);
      row.append(static_cast<std::size_t>(std::max(place.second - x, 0)), ' ');
      row += glyph_of(cell);
      x = place.second + (cell.label ? static_cast<int>(display_width(cell.label->text)) : 1);
    }
    finish(picture, row, x);
    return picture;
  }

 private:
  struct Line {
    int net{};
    unsigned leaves{};
    bool dashed{};
  };
  struct Cell {
    std::vector<Line> lines{};
    const FlowLabel* label{};
    std::string glyph{};
  };

  static void finish(FlowPicture& picture, std::string& row, int width) {
    picture.width = std::max(picture.width, static_cast<std::size_t>(width));
    picture.text += row + '\n';
    row.clear();
  }

  static bool clean(const Cell& cell) {
    if (cell.lines.size() < 2) return cell.glyph.empty() || cell.lines.empty();
    return cell.lines.size() == 2 && cell.glyph.empty() &&
           (cell.lines[0].leaves ^ cell.lines[1].leaves) == (kUpright | kFlat) &&
           (cell.lines[0].leaves == kUpright || cell.lines[0].leaves == kFlat);
  }

  // Of two that cross the upright one is on top.
  static std::string glyph_of(const Cell& cell) {
    if (!cell.glyph.empty()) return cell.glyph;
    const Line& line =
        cell.lines.back().leaves == kUpright ? cell.lines.back() : cell.lines.front();
    if (line.dashed && line.leaves == kUpright) return "┆";
    if (line.dashed && line.leaves == kFlat) return "┄";
    return std::string(kLines[line.leaves]);
  }

  std::map<std::pair<int, int>, Cell> cells_;  // by row, then column
};

// Places that keep their order and distances, as near to the wanted ones as can be: what is too
// close is moved together. All are multiples of `unit`.
std::vector<int> settle(const std::vector<double>& wanted, const std::vector<int>& sizes,
                        int unit) {
  struct Block {
    double sum{};
    double count{};
    double mean() const { return sum / count; }
    // Halves so that of two beside each other the first is in line with what leads to both.
    int place(int unit) const {
      const double exact = mean() / unit;
      return static_cast<int>(count > 1 ? std::floor(exact + 0.5) : std::ceil(exact - 0.5)) * unit;
    }
  };
  std::vector<Block> blocks;
  std::vector<int> offsets;
  int offset = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    offsets.push_back(offset);
    blocks.push_back({wanted[i] - offset, 1});
    offset += sizes[i];
    while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() >= blocks.back().mean()) {
      const Block last = blocks.back();
      blocks.pop_back();
      blocks.back().sum += last.sum;
      blocks.back().count += last.count;
    }
  }
  std::vector<int> places;
  for (const Block& block : blocks)
    for (int i = 0; i < static_cast<int>(block.count); ++i)
      places.push_back(block.place(unit) + offsets[places.size()]);
  return places;
}

class Drawing {
 public:
  Drawing(const FlowLayers& layers, const std::vector<FlowLabel>& labels, FlowWay way)
      : layers_(layers), labels_(labels), way_(way), spots_(layers.items.size()) {}

  std::optional<FlowPicture> draw() {
    find_ports();
    for (std::size_t i = 0; i < spots_.size(); ++i) measure(i);
    place_items();
    int start = 0;
    for (std::size_t n = 0; n < layers_.layers.size(); ++n) {
      starts_.push_back(start);
      if (n < layers_.nets.size() && !find_tracks(n)) return {};
      start = next_start(n);
    }
    for (std::size_t i = 0; i < spots_.size(); ++i) put_item(i);
    for (std::size_t n = 0; n < layers_.nets.size(); ++n)
      for (std::size_t net = 0; net < layers_.nets[n].size(); ++net) put_net(n, net);
    return canvas_.picture();
  }

 private:
  struct Spot {
    std::vector<std::size_t> in{}, out{};      // nets between this layer and its neighbours
    std::vector<int> in_ports{}, out_ports{};  // where these arrive and leave, from `place` on
    int place{}, size{}, middle{};             // across; the middle is where its label is
  };
  struct Track {
    int low{}, high{};  // across
    int number{};       // -1: a straight line
  };

  bool down() const { return way_ == FlowWay::down; }
  int row_size() const { return way_ == FlowWay::right_wide ? 2 : 1; }
  bool is_step(std::size_t item) const { return layers_.items[item].step.has_value(); }
  const FlowLabel& label(std::size_t item) const { return labels_[*layers_.items[item].step]; }
  int label_width(std::size_t item) const {
    return is_step(item) ? static_cast<int>(display_width(label(item).text)) : 1;
  }

  void find_ports() {
    for (const auto& nets : layers_.nets)
      for (std::size_t net = 0; net < nets.size(); ++net) {
        for (std::size_t item : nets[net].from) spots_[item].out.push_back(net);
        for (std::size_t item : nets[net].to) spots_[item].in.push_back(net);
      }
  }

  void measure(std::size_t item) {
    Spot& spot = spots_[item];
    const int in = static_cast<int>(spot.in.size()), out = static_cast<int>(spot.out.size());
    if (down()) {
      spot.size = std::max({label_width(item), 2 * in - 1, 2 * out - 1});
      spot.middle = (spot.size - 1) / 2;
      for (int i = 0; i < in; ++i) spot.in_ports.push_back((spot.size - 2 * in + 1) / 2 + 2 * i);
      for (int i = 0; i < out; ++i) spot.out_ports.push_back((spot.size - 2 * out + 1) / 2 + 2 * i);
    } else {
      spot.middle = in > 1 ? (in - 1) / 2 * row_size() : 0;
      for (int i = 0; i < in; ++i) spot.in_ports.push_back(i * row_size());
      for (int i = 0; i < out; ++i) spot.out_ports.push_back(spot.middle + i * row_size());
      spot.size = std::max({row_size(), in * row_size(), spot.middle + out * row_size()});
    }
  }

  void place_items() {
    for (const auto& layer : layers_.layers) {
      int place = 0;
      for (std::size_t item : layer) {
        spots_[item].place = place;
        place += spots_[item].size + gap();
      }
    }
    for (int sweep = 0; sweep < 8; ++sweep)
      for (std::size_t n = 0; n < layers_.layers.size(); ++n)
        place_layer(sweep % 2 == 0 ? n : layers_.layers.size() - 1 - n, sweep % 2 == 0);
    int least = spots_.empty() ? 0 : spots_.front().place;
    for (const Spot& spot : spots_) least = std::min(least, spot.place);
    for (Spot& spot : spots_) spot.place -= least;
  }

  int gap() const { return down() ? 3 : 0; }

  void place_layer(std::size_t n, bool by_those_before) {
    std::map<std::size_t, std::pair<double, double>> means;
    const bool any = by_those_before ? n > 0 : n < layers_.nets.size();
    if (!any) return;
    for (const FlowNet& net : layers_.nets[by_those_before ? n - 1 : n])
      for (std::size_t from : net.from)
        for (std::size_t to : net.to) {
          const Spot& other = spots_[by_those_before ? from : to];
          auto& [sum, count] = means[by_those_before ? to : from];
          sum += other.place + other.middle;
          ++count;
        }
    std::vector<double> wanted;
    std::vector<int> sizes;
    for (std::size_t item : layers_.layers[n]) {
      const Spot& spot = spots_[item];
      const auto found = means.find(item);
      wanted.push_back(found == means.end()
                           ? spot.place
                           : found->second.first / found->second.second - spot.middle);
      sizes.push_back(spot.size + gap());
    }
    const std::vector<int> places = settle(wanted, sizes, row_size());
    for (std::size_t i = 0; i < places.size(); ++i) spots_[layers_.layers[n][i]].place = places[i];
  }

  static int port(const Spot& spot, const std::vector<std::size_t>& nets,
                  const std::vector<int>& ports, std::size_t net) {
    const auto found = std::find(nets.begin(), nets.end(), net);
    return spot.place + ports[static_cast<std::size_t>(found - nets.begin())];
  }
  int out_port(std::size_t item, std::size_t net) const {
    return port(spots_[item], spots_[item].out, spots_[item].out_ports, net);
  }
  int in_port(std::size_t item, std::size_t net) const {
    return port(spots_[item], spots_[item].in, spots_[item].in_ports, net);
  }

  // A net that leaves where another one arrives turns off before that one does. False: in a circle.
  bool find_tracks(std::size_t n) {
    const std::vector<FlowNet>& nets = layers_.nets[n];
    sort_in_ports(n);
    for (;;) {
      std::vector<std::set<std::size_t>> before(nets.size());
      std::map<int, std::size_t> leaving;
      for (std::size_t net = 0; net < nets.size(); ++net)
        for (std::size_t item : nets[net].from) leaving[out_port(item, net)] = net;
      for (std::size_t net = 0; net < nets.size(); ++net)
        for (std::size_t item : nets[net].to)
          if (const auto found = leaving.find(in_port(item, net));
              found != leaving.end() && found->second != net)
            before[net].insert(found->second);
      if (give_tracks(n, before)) return true;
      if (!make_way(n, leaving)) return false;
    }
  }

  // Lines that come from above arrive above.
  void sort_in_ports(std::size_t n) {
    const std::vector<FlowNet>& nets = layers_.nets[n];
    const auto source = [&](std::size_t net) {
      double sum = 0;
      for (std::size_t item : nets[net].from) sum += out_port(item, net);
      return sum / static_cast<double>(nets[net].from.size());
    };
    for (std::size_t item : layers_.layers[n + 1])
      std::stable_sort(spots_[item].in.begin(), spots_[item].in.end(),
                       [&](std::size_t a, std::size_t b) { return source(a) < source(b); });
  }

  bool give_tracks(std::size_t n, const std::vector<std::set<std::size_t>>& before) {
    const std::vector<FlowNet>& nets = layers_.nets[n];
    std::vector<Track> tracks(nets.size());
    std::vector<std::size_t> order;
    for (std::size_t net = 0; net < nets.size(); ++net) {
      std::vector<int> ports;
      for (std::size_t item : nets[net].from) ports.push_back(out_port(item, net));
      for (std::size_t item : nets[net].to) ports.push_back(in_port(item, net));
      const auto [low, high] = std::minmax_element(ports.begin(), ports.end());
      tracks[net] = {*low, *high, -1};
      if (*low != *high) order.push_back(net);
    }
    const int apart = down() ? 1 : 0;  // ┐└ in a row would seem to be one
    int count = 0;
    std::vector<std::size_t> done;
    while (!order.empty()) {
      const auto next = std::find_if(order.begin(), order.end(), [&](std::size_t net) {
        return std::none_of(order.begin(), order.end(),
                            [&](std::size_t other) { return before[net].contains(other); });
      });
      if (next == order.end()) return false;
      Track& track = tracks[*next];
      track.number = 0;
      for (std::size_t other : done) {
        const Track& there = tracks[other];
        if (before[*next].contains(other)) track.number = std::max(track.number, there.number + 1);
      }
      const auto taken = [&](std::size_t other) {
        const Track& there = tracks[other];
        return there.number == track.number && there.low <= track.high + apart &&
               track.low <= there.high + apart;
      };
      while (std::any_of(done.begin(), done.end(), taken)) ++track.number;
      count = std::max(count, track.number + 1);
      done.push_back(*next);
      order.erase(next);
    }
    tracks_.push_back(std::move(tracks));
    counts_.push_back(count);
    return true;
  }

  // A line that arrives where another leaves is moved a bit, if it can be.
  bool make_way(std::size_t n, const std::map<int, std::size_t>& leaving) {
    for (std::size_t item : layers_.layers[n + 1]) {
      Spot& spot = spots_[item];
      for (std::size_t i = 0; i < spot.in.size(); ++i) {
        const auto found = leaving.find(spot.place + spot.in_ports[i]);
        if (found == leaving.end() || found->second == spot.in[i] || !has_room(item, i)) continue;
        ++spot.in_ports[i];
        if (!is_step(item)) ++spot.out_ports.front();
        return true;
      }
    }
    return false;
  }
  bool has_room(std::size_t item, std::size_t i) const {
    const std::vector<int>& ports = spots_[item].in_ports;
    if (way_ == FlowWay::right_wide) return ports[i] % 2 == 0;  // the free row
    return down() && ports[i] + 1 < spots_[item].size &&
           (i + 1 == ports.size() || ports[i] + 2 < ports[i + 1]);
  }

  bool joins(std::size_t item) const {
    const Spot& spot = spots_[item];
    return !down() && !spot.in.empty() &&
           (spot.in.size() > 1 || spot.in_ports.front() != spot.middle);
  }
  bool splits(std::size_t item) const { return !down() && spots_[item].out.size() > 1; }

  template <class Is>
  bool any_in(std::size_t layer, Is is) const {
    const auto& items = layers_.layers[layer];
    return std::any_of(items.begin(), items.end(), is);
  }
  bool splits_after(std::size_t n) const {
    return any_in(n, [&](std::size_t item) { return splits(item); });
  }
  bool joins_before(std::size_t n) const {
    return any_in(n, [&](std::size_t item) { return joins(item); });
  }

  int thickness(std::size_t n) const {
    int most = 1;
    if (!down())
      for (std::size_t item : layers_.layers[n]) most = std::max(most, label_width(item));
    return most;
  }

  // Along, to the right: a label, a space, a line, the column in which what leaves a step is split,
  // the tracks, the column in which what arrives at a step is joined, an arrow and a space.
  int split_at(std::size_t n) const { return starts_[n] + thickness(n) + 2; }
  int track_at(std::size_t n, int number) const {
    if (down()) return starts_[n] + 1 + number;
    return split_at(n) + 2 * number + (splits_after(n) ? 2 : 0);
  }
  int join_at(std::size_t n) const { return track_at(n, counts_[n]); }
  int next_start(std::size_t n) const {
    if (n >= layers_.nets.size()) return 0;
    if (down()) return track_at(n, counts_[n]) + 1;
    const bool bare = counts_[n] == 0 && !splits_after(n) && !joins_before(n + 1);
    return join_at(n) + (joins_before(n + 1) ? 2 : 0) + (bare ? 1 : 0) + 2;
  }
  int arrow_at(std::size_t item) const {
    return starts_[layers_.items[item].layer] - (down() ? 1 : 2);
  }

  // Where the line that leaves an item begins, and where one that arrives there ends.
  int begin_of(std::size_t item) const {
    const std::size_t n = layers_.items[item].layer;
    if (!is_step(item)) return starts_[n];
    if (splits(item)) return split_at(n) + 1;
    return starts_[n] + (down() ? 1 : label_width(item) + 1);
  }
  int end_of(std::size_t item) const {
    const std::size_t n = layers_.items[item].layer;
    if (!is_step(item)) return starts_[n] - 1;
    return (joins(item) ? join_at(n - 1) : arrow_at(item)) - 1;
  }

  void along(int from, int to, int across, int net, bool dashed) {
    for (int at = from; at <= to; ++at) cell(at, across, net, kAlong, dashed);
  }
  void across(int at, int from, int to, int net, bool dashed) {
    for (int i = from; i <= to; ++i)
      cell(at, i, net, (i > from ? kNearer : 0U) | (i < to ? kFarther : 0U), dashed);
  }

  // The leaves of a cell in this picture's own terms.
  static constexpr unsigned kBack = 1, kAhead = 2, kNearer = 4, kFarther = 8;
  static constexpr unsigned kAlong = kBack | kAhead;
  void cell(int at, int across, int net, unsigned leaves, bool dashed) {
    unsigned turned = 0;
    if (leaves & kBack) turned |= down() ? kUp : kLeft;
    if (leaves & kAhead) turned |= down() ? kDown : kRight;
    if (leaves & kNearer) turned |= down() ? kLeft : kUp;
    if (leaves & kFarther) turned |= down() ? kRight : kDown;
    down() ? canvas_.line(across, at, net, turned, dashed)
           : canvas_.line(at, across, net, turned, dashed);
  }

  // Lines of an item itself have a number that no net has.
  int own(std::size_t item) const { return -1 - static_cast<int>(item); }
  int number_of(std::size_t n, std::size_t net) const { return static_cast<int>(n * 10'000 + net); }

  void put_item(std::size_t item) {
    const Spot& spot = spots_[item];
    const std::size_t n = layers_.items[item].layer;
    if (!is_step(item)) return;
    const int middle = spot.place + spot.middle;
    if (down()) {
      const int first = spot.place + (spot.size - label_width(item)) / 2;
      canvas_.text(first, starts_[n], label(item));
      for (int x = spot.place; x < spot.place + spot.size; ++x)
        if (x < first || x >= first + label_width(item)) canvas_.glyph(x, starts_[n], "─");
      for (int port : spot.in_ports) canvas_.glyph(spot.place + port, arrow_at(item), "▼");
      return;
    }
    canvas_.text(starts_[n], middle, label(item));
    if (!spot.in.empty()) canvas_.glyph(arrow_at(item), middle, "▶");
    if (joins(item)) put_join(item);
    if (splits(item)) put_split(item);
  }

  void put_join(std::size_t item) {
    const Spot& spot = spots_[item];
    const std::size_t n = layers_.items[item].layer - 1;
    const bool dashed = std::all_of(spot.in.begin(), spot.in.end(),
                                    [&](std::size_t net) { return layers_.nets[n][net].dashed; });
    const int middle = spot.place + spot.middle;
    const auto [low, high] = std::minmax_element(spot.in_ports.begin(), spot.in_ports.end());
    across(join_at(n), std::min(spot.place + *low, middle), std::max(spot.place + *high, middle),
           own(item), dashed);
    for (int port : spot.in_ports) cell(join_at(n), spot.place + port, own(item), kBack, dashed);
    cell(join_at(n), middle, own(item), kAhead, dashed);
    along(join_at(n) + 1, arrow_at(item) - 1, middle, own(item), dashed);
  }

  void put_split(std::size_t item) {
    const Spot& spot = spots_[item];
    const std::size_t n = layers_.items[item].layer;
    const int middle = spot.place + spot.middle;
    along(starts_[n] + label_width(item) + 1, split_at(n) - 1, middle, own(item), false);
    cell(split_at(n), middle, own(item), kBack, false);
    across(split_at(n), middle, spot.place + spot.out_ports.back(), own(item), false);
    for (int port : spot.out_ports) cell(split_at(n), spot.place + port, own(item), kAhead, false);
  }

  void put_net(std::size_t n, std::size_t index) {
    const FlowNet& net = layers_.nets[n][index];
    const Track& track = tracks_[n][index];
    const int number = number_of(n, index);
    if (track.number < 0) {
      along(begin_of(net.from.front()), end_of(net.to.front()), track.low, number, net.dashed);
      return;
    }
    const int at = track_at(n, track.number);
    across(at, track.low, track.high, number, net.dashed);
    for (std::size_t item : net.from) {
      along(begin_of(item), at - 1, out_port(item, index), number, net.dashed);
      cell(at, out_port(item, index), number, kBack, net.dashed);
    }
    for (std::size_t item : net.to) {
      along(at + 1, end_of(item), in_port(item, index), number, net.dashed);
      cell(at, in_port(item, index), number, kAhead, net.dashed);
    }
  }

  const FlowLayers& layers_;
  const std::vector<FlowLabel>& labels_;
  const FlowWay way_;
  std::vector<Spot> spots_;                 // per item
  std::vector<int> starts_;                 // per layer, along
  std::vector<std::vector<Track>> tracks_;  // as the nets
  std::vector<int> counts_;                 // of tracks between two layers
  Canvas canvas_;
};

}  // namespace

std::optional<FlowPicture> picture_of(const FlowLayers& layers,
                                      const std::vector<FlowLabel>& labels, FlowWay way) {
  return Drawing(layers, labels, way).draw();
}

}  // namespace once::cli
