// The toy of metric scaling on "The paper in pictures": a slider for alpha, and what it does.
// A plain script rather than a module: browsers load no modules from a file on the disk.
"use strict";

(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const WIDTH = 12, HEIGHT = 8; // of the plane, in its own units
  const CLASSES = [
    { name: "disc", at: [3, 2.5], rgb: [11, 110, 153] },
    { name: "square", at: [9, 2.8], rgb: [196, 100, 20] },
    { name: "triangle", at: [5.6, 6.3], rgb: [26, 127, 75] },
  ];
  // Queries: their class and place. One disc lies nearer to the square.
  const QUERIES = [
    [0, 2, 1.4], [0, 4.1, 3.3], [0, 6.7, 2.2], [1, 8.1, 1.5], [1, 10.4, 3.5], [1, 7.3, 4.1],
    [2, 4.6, 7.1], [2, 7.4, 5.9], [2, 3.9, 4.9],
  ].map(([own, x, y]) => ({ own, at: [x, y] }));
  const ASKED = [5.4, 3.4];

  const distance = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);

  /** p(k | z) = softmax(-alpha d(z, c_k)), one number a class. */
  function probabilities(point, alpha) {
    const scores = CLASSES.map((one) => -alpha * distance(point, one.at));
    const most = Math.max(...scores);
    const powers = scores.map((score) => Math.exp(score - most));
    const sum = powers.reduce((total, power) => total + power, 0);
    return powers.map((power) => power / sum);
  }

  /** Where the loss moves a query: minus its gradient, divided by alpha as in the paper's lemma. */
  function pull({ own, at }, alpha) {
    const shares = probabilities(at, alpha);
    const total = [0, 0];
    CLASSES.forEach((one, k) => {
      const weight = (k === own ? 1 : 0) - shares[k];
      const far = distance(at, one.at);
      for (const axis of [0, 1]) total[axis] += (weight * (one.at[axis] - at[axis])) / far;
    });
    return total;
  }

  /** alpha of a position of the slider: 0.1 at 0, 100 at 120, evenly in the logarithm. */
  const alphaAt = (position) => 0.1 * 10 ** (position / 40);
  const written = (alpha) => (alpha < 10 ? alpha.toFixed(1) : alpha.toFixed(0));
  const percent = (share) => `${Math.round(100 * share)} %`;

  function element(name, attributes = {}, space = SVG) {
    const made = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  /** A disc, square or triangle of a class. */
  function mark(k, [x, y], size) {
    const kind = { class: `toy-mark toy-${CLASSES[k].name}` };
    if (k === 0) return element("circle", { ...kind, cx: x, cy: y, r: size });
    if (k === 1) {
      const side = 1.8 * size;
      return element("rect", { ...kind, x: x - side / 2, y: y - side / 2, width: side, height: side });
    }
    const points = [[0, -1.2], [1.15, 0.8], [-1.15, 0.8]];
    const corners = points.map(([dx, dy]) => `${x + dx * size},${y + dy * size}`);
    return element("polygon", { ...kind, points: corners.join(" ") });
  }

  /** Colours the plane by what each place would be answered. */
  function paint(canvas, alpha) {
    const pen = canvas.getContext("2d");
    const picture = pen.createImageData(canvas.width, canvas.height);
    for (let row = 0; row < canvas.height; row += 1) {
      for (let column = 0; column < canvas.width; column += 1) {
        const at = [(WIDTH * (column + 0.5)) / canvas.width, (HEIGHT * (row + 0.5)) / canvas.height];
        const shares = probabilities(at, alpha);
        const place = 4 * (row * canvas.width + column);
        for (const channel of [0, 1, 2]) {
          picture.data[place + channel] =
            shares.reduce((sum, share, k) => sum + share * CLASSES[k].rgb[channel], 0);
        }
        picture.data[place + 3] = 30 + 100 * (Math.max(...shares) - 1 / 3);
      }
    }
    pen.putImageData(picture, 0, 0);
  }

  function arrow(query, alpha) {
    const [dx, dy] = pull(query, alpha);
    const long = Math.hypot(dx, dy);
    const [x, y] = query.at;
    const end = [x + 0.95 * dx, y + 0.95 * dy];
    const group = element("g", { class: long < 0.05 ? "toy-arrow toy-still" : "toy-arrow" });
    group.append(element("line", { x1: x, y1: y, x2: end[0], y2: end[1] }));
    if (long >= 0.05) {
      const [ux, uy] = [dx / long, dy / long];
      const size = Math.min(0.28, 0.6 * long);
      const tip = [[0, 0], [-size, size / 2], [-size, -size / 2]]
        .map(([along, across]) => [end[0] + along * ux - across * uy, end[1] + along * uy + across * ux]);
      group.append(element("polygon", { points: tip.map((point) => point.join(",")).join(" ") }));
    }
    return group;
  }

  function build(place) {
    place.replaceChildren();
    const plane = document.createElement("div");
    plane.className = "toy-plane";
    const canvas = document.createElement("canvas");
    canvas.width = 180;
    canvas.height = 120;
    canvas.setAttribute("aria-hidden", "true");
    const drawing = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
    drawing.setAttribute(
      "aria-label",
      "A plane with the prototypes of three classes, nine queries with arrows that show where the loss " +
        "moves them, and a point that is asked about. The text below says what alpha does to them."
    );
    const arrows = element("g");
    drawing.append(arrows);
    for (const query of QUERIES) drawing.append(mark(query.own, query.at, 0.15));
    CLASSES.forEach((one, k) => {
      const prototype = mark(k, one.at, 0.36);
      prototype.classList.add("toy-prototype");
      drawing.append(prototype);
    });
    drawing.append(element("circle", { class: "toy-asked", cx: ASKED[0], cy: ASKED[1], r: 0.24 }));
    const question = element("text", { class: "toy-question", x: ASKED[0], y: ASKED[1] + 0.12 });
    question.textContent = "?";
    drawing.append(question);
    plane.append(canvas, drawing);

    const label = document.createElement("label");
    label.className = "toy-label";
    const words = document.createElement("span");
    const slider = document.createElement("input");
    Object.assign(slider, { type: "range", min: 0, max: 120, step: 1, value: 40 });
    slider.className = "toy-slider";
    label.append(words, slider);

    const bars = document.createElement("ul");
    bars.className = "toy-bars";
    const rows = CLASSES.map((one) => {
      const row = document.createElement("li");
      const [name, bar, share] = ["span", "span", "span"].map((tag) => document.createElement(tag));
      bar.className = `toy-bar toy-${one.name}`;
      name.textContent = one.name;
      const filled = document.createElement("i");
      bar.append(filled);
      row.append(name, bar, share);
      bars.append(row);
      return { filled, share };
    });
    const said = document.createElement("p");
    said.className = "toy-said";
    said.setAttribute("role", "status");
    place.append(plane, label, bars, said);

    function show() {
      const alpha = alphaAt(Number(slider.value));
      words.textContent = `alpha = ${written(alpha)}`;
      slider.setAttribute("aria-valuetext", written(alpha));
      paint(canvas, alpha);
      arrows.replaceChildren(...QUERIES.map((query) => arrow(query, alpha)));
      probabilities(ASKED, alpha).forEach((share, k) => {
        rows[k].filled.style.width = `${100 * share}%`;
        rows[k].share.textContent = percent(share);
      });
      const moved = QUERIES.filter((query) => Math.hypot(...pull(query, alpha)) >= 0.05).length;
      said.textContent = `${moved} of ${QUERIES.length} queries still move.`;
    }
    slider.addEventListener("input", show);
    show();
  }

  const place = document.getElementById("alpha-toy");
  if (place) build(place);
})();
