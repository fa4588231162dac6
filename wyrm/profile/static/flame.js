// The flame chart: a step, its parts, the modules, and their stages, each as wide as its time.

const _rowHeight = 24;

function _flameNode(name, parent, part, stage = -1) {
  return { name, parent, part, stage, seconds: 0, children: [], byName: new Map(), depth: parent ? parent.depth + 1 : 0 };
}

function _flameTree() {
  const root = _flameNode("step", null, "outside");
  const child = (node, name, part) => {
    if (!node.byName.has(name)) {
      const made = _flameNode(name, node, part);
      node.byName.set(name, made);
      node.children.push(made);
    }
    return node.byName.get(name);
  };
  stages.forEach((stage, index) => {
    if (stage.seconds <= 0) return;
    const part = partOf(stage);
    let node = child(root, partNames[part], part);
    const path = stage.modules.length ? stage.modules[0].split(/\.|(?=\[)/) : [];
    for (const name of path) node = child(node, name, part);
    const leaf = _flameNode(stageTitle(stage), node, part, index);
    node.children.push(leaf);
    for (let around = leaf; around; around = around.parent) around.seconds += stage.seconds;
  });
  return root;
}

function showFlame() {
  const place = byId("flame");
  const root = _flameTree();
  let shown = root;
  let words = "";
  const buttons = new Map();
  const leaves = new Map();
  const collect = (node) => {
    if (node.stage >= 0) leaves.set(node.stage, node);
    node.children.forEach(collect);
  };
  collect(root);

  const matches = (node) => {
    if (!words) return true;
    const stage = stages[node.stage];
    const text = stage ? [node.name, stage.name, stage.location, ...stage.modules, ...stage.nodes].join(" ") : node.name;
    return text.toLowerCase().includes(words);
  };

  const describe = (node) => {
    const share = percentText(node.seconds / (profile.thread_seconds || 1));
    return `${node.name}: ${timeText(perStep(node.seconds))} a step, ${share}`;
  };

  function draw() {
    place.replaceChildren();
    buttons.clear();
    let deepest = 0;
    const above = [];
    for (let node = shown.parent; node; node = node.parent) above.unshift(node);
    above.forEach((node, row) => add(node, 0, 1, row));
    const visit = (node, left, width) => {
      if (width < 0.0004) return;
      add(node, left, width, node.depth);
      deepest = Math.max(deepest, node.depth);
      let start = left;
      for (const child of node.children) {
        const part = (width * child.seconds) / node.seconds;
        visit(child, start, part);
        start += part;
      }
    };
    visit(shown, 0, 1);
    place.style.height = `${(deepest + 1) * _rowHeight}px`;
    mark(chosenStage);
  }

  function add(node, left, width, row) {
    const button = element("button", {
      class: `part-${node.part}${node.stage >= 0 ? " leaf" : ""}`,
      style: `left:${100 * left}%;width:${100 * width}%;top:${row * _rowHeight}px`,
      title: describe(node),
      "aria-label": describe(node),
      tabindex: node === shown ? "0" : "-1",
      click: () => take(node),
      keydown: (event) => move(event, node),
    }, width > 0.02 ? node.name : "");
    buttons.set(node, button);
    place.append(button);
  }

  function take(node) {
    if (node.stage >= 0) {
      choose(node.stage);
    } else {
      shown = node === shown && node.parent ? node.parent : node;
      draw();
    }
    focus(buttons.has(node) ? node : shown);
  }

  function focus(node) {
    for (const [other, button] of buttons) button.tabIndex = other === node ? 0 : -1;
    buttons.get(node)?.focus();
  }

  function move(event, node) {
    const siblings = (node.parent?.children ?? [node]).filter((other) => buttons.has(other));
    const position = siblings.indexOf(node);
    const target = {
      ArrowLeft: siblings[position - 1], ArrowRight: siblings[position + 1], ArrowUp: node.parent,
      ArrowDown: node.children.find((child) => buttons.has(child)),
    }[event.key];
    if (target && buttons.has(target)) focus(target);
    else if (event.key === "Escape" && shown.parent) take(shown);
    else return;
    event.preventDefault();
  }

  function mark(index) {
    // A stage that is too short to be seen is marked by what it is in.
    let chosen = leaves.get(index);
    while (chosen && !buttons.has(chosen)) chosen = chosen.parent;
    for (const [node, button] of buttons) {
      button.classList.toggle("chosen", node === chosen);
      button.classList.toggle("faint", node.stage >= 0 && !matches(node));
    }
  }

  byId("search").addEventListener("input", (event) => {
    words = event.target.value.trim().toLowerCase();
    mark(chosenStage);
    showTable(words);
  });
  whenChosen(mark);
  draw();
}
