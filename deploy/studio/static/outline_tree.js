// The tree of a column's groups, moved by mouse and keyboard. What counts is the indented text below it: the tree is
// read from it, and each change is written back into it.
(() => {
  const editor = document.querySelector("[data-outline]");
  if (!editor) return;
  const MOST = 3000;
  const area = document.getElementById("field-text");
  const way = document.getElementById("field-form");
  const tree = editor.querySelector("[role=tree]");
  const status = editor.querySelector("[role=status]");
  const name = editor.querySelector("[data-name]");
  const target = editor.querySelector("[data-target]");
  const words = editor.dataset;
  const before = [], after = [];
  let root = [], chosen = new Set(), focused = null, dragged = false, renaming = false;

  const filled = (text, blanks) => text.replace(/\{(\w+)\}/g, (_, key) => blanks[key]);
  const say = (text) => { status.textContent = text; };

  // The same rule as the server's: what is indented below a line belongs to it. Null where a line is indented like none.
  const read = (text) => {
    const top = [], above = [];
    for (const line of text.split(/\r?\n/)) {
      const label = line.trim();
      if (!label || label.startsWith("#")) continue;
      const indent = line.length - line.trimStart().length;
      const deeper = above.length > 0 && indent > above.at(-1).indent;
      let left = deeper ? indent : 0;
      while (above.length && above.at(-1).indent >= indent) left = above.pop().indent;
      if (left !== indent) return null;
      const node = { label, below: [], group: false, open: true, parent: above.at(-1)?.node ?? null };
      if (node.parent) node.parent.group = true;
      (node.parent ? node.parent.below : top).push(node);
      above.push({ indent, node });
    }
    return top;
  };
  const written = (nodes, depth = 0) =>
    nodes.map((node) => `${"  ".repeat(depth)}${node.label}\n${written(node.below, depth + 1)}`).join("");
  const listOf = (node) => (node.parent ? node.parent.below : root);
  const every = (nodes) => nodes.flatMap((node) => [node, ...every(node.below)]);
  const shown = (nodes) => nodes.flatMap((node) => [node, ...(node.open ? shown(node.below) : [])]);
  const holds = (node, other) => other !== null && (node === other || holds(node, other.parent));
  // A chosen group moves with all that is below it.
  const tops = () => every(root).filter((node) => chosen.has(node) && !(node.parent && [...chosen].some((one) => holds(one, node.parent))));

  // A group that holds nothing any more would be read as a value.
  const tidy = (nodes) => nodes.filter((node) => { node.below = tidy(node.below); return !node.group || node.below.length > 0; });

  const change = (text, act) => {
    before.push(area.value); after.length = 0;
    act();
    root = tidy(root);
    area.value = written(root);
    if (way.value !== "tree" && every(root).some((node) => node.group)) { way.value = "tree"; way.dispatchEvent(new Event("change")); }
    chosen = new Set();
    renaming = false;
    if (!every(root).includes(focused)) focused = root[0] ?? null;
    draw();
    say(text);
  };
  const put = (nodes, parent) => {
    for (const node of nodes) listOf(node).splice(listOf(node).indexOf(node), 1);
    for (const node of nodes) { node.parent = parent; listOf(node).push(node); }
    if (parent) parent.open = true;
  };
  const counted = (nodes) => (nodes.length === 1 ? nodes[0].label : filled(words.many, { number: nodes.length }));

  const acts = {
    group() {
      const nodes = tops(), label = name.value.trim();
      if (!nodes.length) return say(words.choose);
      if (!label) { name.focus(); return say(words.named); }
      const parent = nodes[0].parent, made = { label, below: [], group: true, open: true, parent };
      change(filled(words.grouped, { what: counted(nodes), group: label }), () => {
        listOf(nodes[0]).splice(listOf(nodes[0]).indexOf(nodes[0]), 0, made);
        put(nodes, made);
        focused = made; name.value = "";
      });
      focus();
    },
    rename() {
      const [node] = chosen.size === 1 ? chosen : [null], label = name.value.trim();
      if (!node) return say(words.one);
      if (!label) { renaming = true; name.value = node.label; name.focus(); name.select(); return say(words.named); }
      change(filled(words.renamed, { what: node.label, name: label }), () => { node.label = label; name.value = ""; });
      focus();
    },
    move() {
      const nodes = tops(), parent = target.value === "" ? null : groups()[Number(target.value)];
      if (!nodes.length) return say(words.choose);
      moveTo(nodes, parent);
      focus();
    },
    dissolve() {
      const nodes = tops().filter((node) => node.group);
      if (!nodes.length) return say(words.nogroup);
      change(filled(words.dissolved, { what: counted(nodes) }), () => {
        for (const node of nodes) {
          const list = listOf(node), below = node.below;
          for (const one of below) one.parent = node.parent;
          list.splice(list.indexOf(node), 1, ...below);
          focused = below[0];
        }
      });
      focus();
    },
    undo() { step(before, after, words.undone); },
    redo() { step(after, before, words.redone); },
  };
  const step = (from, to, text) => {
    if (!from.length) return say(words.nothing);
    to.push(area.value);
    area.value = from.pop();
    load();
    say(text);
  };
  const moveTo = (nodes, parent) => {
    if (nodes.some((node) => holds(node, parent))) return say(words.inside);
    const text = filled(words.moved, { what: counted(nodes), group: parent ? parent.label : words.top });
    change(text, () => put(nodes, parent));
  };
  const groups = () => every(root).filter((node) => node.group);
  const path = (node) => (node.parent ? `${path(node.parent)} › ${node.label}` : node.label);

  const draw = () => {
    const lines = (nodes, level) => nodes.map((node, place) => {
      const line = document.createElement("li"), label = document.createElement("span");
      line.setAttribute("role", "treeitem");
      line.setAttribute("aria-level", level); line.setAttribute("aria-posinset", place + 1); line.setAttribute("aria-setsize", nodes.length);
      line.setAttribute("aria-selected", chosen.has(node));
      line.setAttribute("aria-label", node.group ? filled(words.holds, { group: node.label, number: node.below.length }) : node.label);
      line.tabIndex = node === focused ? 0 : -1;
      line.draggable = true;
      line.node = node; node.line = line;
      label.className = "node"; label.textContent = node.label;
      line.append(label);
      if (node.group) {
        line.setAttribute("aria-expanded", node.open);
        const count = document.createElement("span");
        count.className = "count"; count.textContent = node.below.length;
        label.append(" ", count);
        const list = document.createElement("ul");
        list.setAttribute("role", "group");
        list.append(...lines(node.below, level + 1));
        list.hidden = !node.open;
        line.append(list);
      }
      return line;
    });
    if (!focused) focused = root[0] ?? null;
    tree.replaceChildren(...lines(root, 1));
    target.replaceChildren(new Option(words.top, ""), ...groups().map((node, place) => new Option(path(node), place)));
    for (const button of editor.querySelectorAll("[data-act=undo], [data-act=redo]")) {
      button.setAttribute("aria-disabled", !(button.dataset.act === "undo" ? before : after).length);
    }
  };
  const load = () => {
    const found = read(area.value), known = found ? every(found).length : 0;
    const usable = ["values", "tree", "kept"].includes(way.value) && found !== null && known > 0 && known <= MOST;
    editor.hidden = !usable;
    if (!usable) return;
    root = found; chosen = new Set(); focused = null;
    draw();
  };
  const focus = () => focused?.line?.focus();
  const go = (node, event) => {
    if (!node) return;
    if (event.shiftKey) { chosen.add(focused); chosen.add(node); }
    focused = node;
    draw(); focus();
  };
  const choose = (node, event) => {
    if (event.shiftKey && focused) {
      const rows = shown(root), ends = [rows.indexOf(focused), rows.indexOf(node)].sort((a, b) => a - b);
      for (const one of rows.slice(ends[0], ends[1] + 1)) chosen.add(one);
    } else if (event.ctrlKey || event.metaKey) {
      if (!chosen.delete(node)) chosen.add(node);
    } else chosen = new Set([node]);
    focused = node;
    draw(); focus();
  };
  const keys = {
    ArrowDown: (rows, place, event) => go(rows[place + 1], event),
    ArrowUp: (rows, place, event) => go(rows[place - 1], event),
    Home: (rows, _, event) => go(rows[0], event),
    End: (rows, _, event) => go(rows.at(-1), event),
    ArrowRight: (rows, place, event) => {
      if (focused.group && !focused.open) { focused.open = true; draw(); focus(); } else if (focused.group) go(rows[place + 1], event);
    },
    ArrowLeft: (_, __, event) => {
      if (focused.group && focused.open) { focused.open = false; draw(); focus(); } else go(focused.parent, event);
    },
    " ": () => { if (!chosen.delete(focused)) chosen.add(focused); draw(); focus(); },
    F2: () => { chosen = new Set([focused]); renaming = true; draw(); name.value = focused.label; name.focus(); name.select(); },
    Delete: () => { if (!chosen.size) chosen.add(focused); acts.dissolve(); },
  };
  tree.addEventListener("keydown", (event) => {
    if (!focused) return;
    if ((event.ctrlKey || event.metaKey) && ["z", "y"].includes(event.key)) {
      event.preventDefault();
      acts[event.key === "z" ? "undo" : "redo"](); focus();
    } else if (event.key in keys && !event.ctrlKey && !event.altKey && !event.metaKey) {
      event.preventDefault();
      const rows = shown(root);
      keys[event.key](rows, rows.indexOf(focused), event);
    }
  });
  const nodeAt = (event) => event.target.closest?.("[role=treeitem]")?.node ?? null;
  tree.addEventListener("click", (event) => {
    const node = nodeAt(event);
    if (!node) return;
    // The mark before a group's name opens and closes it.
    if (node.group && event.target === node.line) { node.open = !node.open; focused = node; draw(); return focus(); }
    choose(node, event);
  });
  tree.addEventListener("dragstart", (event) => {
    const node = nodeAt(event);
    if (!node) return;
    if (!chosen.has(node)) { chosen = new Set([node]); focused = node; for (const line of tree.querySelectorAll("[role=treeitem]")) line.setAttribute("aria-selected", line.node === node); }
    dragged = true;
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", node.label);
  });
  const mark = (line) => { for (const one of tree.querySelectorAll(".over")) one.classList.remove("over"); line?.classList.add("over"); };
  const home = (node) => (node === null || node.group ? node : node.parent);
  tree.addEventListener("dragover", (event) => {
    if (!dragged) return;
    event.preventDefault();
    mark(home(nodeAt(event))?.line ?? tree);
  });
  tree.addEventListener("dragend", () => { dragged = false; mark(null); });
  tree.addEventListener("drop", (event) => {
    if (!dragged) return;
    event.preventDefault();
    dragged = false;
    mark(null);
    moveTo(tops(), home(nodeAt(event)));
  });
  for (const button of editor.querySelectorAll("[data-act]")) button.addEventListener("click", () => acts[button.dataset.act]());
  name.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();  // which would send the whole form
    acts[renaming ? "rename" : "group"]();
  });
  area.addEventListener("input", () => { before.length = after.length = 0; load(); });
  way.addEventListener("change", load);
  load();
})();
