/** A layered drawing of a directed graph without cycles, after Sugiyama, Tagawa and Toda (1981).
 *
 * Nodes get a layer each, below all that they need. Edges that pass layers get a bend in each of them. Layers are ordered so
 * that few edges cross: each node goes to the mean position of its neighbours in the layer before, downwards and upwards in
 * turn. Then nodes move sideways towards their neighbours as far as the order and the gaps allow. */

const SWEEPS = 10;
const SHIFTS = 14;
const MOST_BENDS = 3000; // beyond, long edges are drawn straight through

/** @param sizes [{width, height}] by node
 *  @param edges [[from, to]]; `from` comes before `to`
 *  @param gaps {across, down, bend}
 *  @returns {nodes: [{x, y}] (centres), paths: [[{x, y}]] by edge, width, height} */
export function layOut(sizes, edges, gaps) {
  const layerOf = assignLayers(sizes.length, edges);
  const points = sizes.map((size, node) => ({
    width: size.width,
    height: size.height,
    layer: layerOf[node],
    up: [],
    down: [],
  }));
  const routes = routeEdges(points, edges, gaps);
  const layers = [];
  for (const point of points) (layers[point.layer] ||= []).push(point);
  orderLayers(layers);
  placeAcross(layers, gaps);
  return finished(points.slice(0, sizes.length), layers, routes, gaps);
}

/** The longest path from a start; what nothing leads to stands just above its first use. */
function assignLayers(count, edges) {
  const layer = new Array(count).fill(0);
  const first = new Array(count).fill(Infinity);
  const starts = new Array(count).fill(true);
  for (const [from, to] of [...edges].sort((a, b) => a[0] - b[0])) {
    layer[to] = Math.max(layer[to], layer[from] + 1);
    starts[to] = false;
  }
  for (const [from, to] of edges) first[from] = Math.min(first[from], layer[to]);
  return layer.map((own, node) => (starts[node] && first[node] < Infinity ? first[node] - 1 : own));
}

function routeEdges(points, edges, gaps) {
  const bends = edges.reduce((sum, [from, to]) => sum + points[to].layer - points[from].layer - 1, 0);
  return edges.map(([from, to]) => {
    const route = [points[from]];
    for (let layer = points[from].layer + 1; layer < points[to].layer && bends <= MOST_BENDS; layer++) {
      const bend = { width: gaps.bend, height: 0, layer, up: [], down: [], bend: true };
      points.push(bend);
      route.push(bend);
    }
    route.push(points[to]);
    for (let step = 1; step < route.length; step++) {
      route[step - 1].down.push(route[step]);
      route[step].up.push(route[step - 1]);
    }
    return route;
  });
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

function orderLayers(layers) {
  const number = (layer) => layer.forEach((point, position) => (point.order = position));
  layers.forEach(number);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const downwards = sweep % 2 === 0;
    for (const layer of downwards ? layers : [...layers].reverse()) {
      for (const point of layer) {
        const others = downwards ? point.up : point.down;
        point.wish = others.length ? mean(others.map((other) => other.order)) : point.order;
      }
      layer.sort((a, b) => a.wish - b.wish);
      number(layer);
    }
  }
}

function placeAcross(layers, gaps) {
  for (const layer of layers) {
    let x = 0;
    for (const point of layer) {
      point.x = x + point.width / 2;
      x += point.width + gaps.across;
    }
  }
  for (let shift = 0; shift < SHIFTS; shift++) {
    for (const layer of shift % 2 ? [...layers].reverse() : layers) {
      const wishes = layer.map((point) => {
        const others = shift < SHIFTS / 2 ? (shift % 2 ? point.down : point.up) : [...point.up, ...point.down];
        return others.length ? mean(others.map((other) => other.x)) : point.x;
      });
      spread(layer, wishes, gaps.across);
    }
  }
}

/** The positions nearest to the wishes (least squares) that keep the order and the gaps: neighbours that would overlap form a
 * block, which goes to the mean of its wishes. */
function spread(layer, wishes, gap) {
  const offsets = [];
  let offset = 0;
  layer.forEach((point, position) => {
    if (position) offset += (layer[position - 1].width + point.width) / 2 + gap;
    offsets.push(offset);
  });
  const blocks = [];
  wishes.forEach((wish, position) => {
    let block = { sum: wish - offsets[position], size: 1 };
    while (blocks.length && blocks[blocks.length - 1].sum / blocks[blocks.length - 1].size > block.sum / block.size) {
      const before = blocks.pop();
      block = { sum: before.sum + block.sum, size: before.size + block.size };
    }
    blocks.push(block);
  });
  let position = 0;
  for (const { sum, size } of blocks) {
    for (let member = 0; member < size; member++, position++) layer[position].x = sum / size + offsets[position];
  }
}

function finished(points, layers, routes, gaps) {
  let y = 0;
  for (const layer of layers) {
    const height = Math.max(...layer.map((point) => point.height));
    for (const point of layer) point.y = y + height / 2;
    y += height + gaps.down;
  }
  const all = layers.flat();
  const left = Math.min(...all.map((point) => point.x - point.width / 2));
  for (const point of all) point.x -= left;
  const width = Math.max(...all.map((point) => point.x + point.width / 2));
  const paths = routes.map((route) =>
    route.map(({ x, y: height }, step) => ({
      x,
      y: height + (step === 0 ? route[0].height / 2 : step === route.length - 1 ? -route[step].height / 2 : 0),
    })),
  );
  return { nodes: points.map(({ x, y: height }) => ({ x, y: height })), paths, width, height: y - gaps.down };
}
