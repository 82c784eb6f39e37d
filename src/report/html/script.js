"use strict";
// What the page does beyond being read: it tells what is known of the place under the mouse, or of the places that the arrow keys step through;
// it moves sliders, switches scales, makes the rest of long tables, copies and saves. Nothing here reaches beyond this file.
(() => {
  const REACH = 24; // pixels within which a place is meant
  const root = document.documentElement;
  root.classList.add("js");

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };

  // A column is an array of numbers, or words and which of them each row has.
  const entry = (column, row) => (Array.isArray(column) ? column[row] : column.w[column.i[row]]) ?? null;

  const share = (along, value) =>
    along.log ? Math.log(value / along.from) / Math.log(along.to / along.from) : (value - along.from) / (along.to - along.from);
  const valueAt = (along, part) =>
    along.log ? along.from * (along.to / along.from) ** part : along.from + part * (along.to - along.from);

  // Whether a place lies within closed lines: a ray to the right crosses them an odd number of times.
  const within = (lines, [x, y]) => lines.flatMap((line) => line.map((from, index) => [from, line[(index + 1) % line.length]]))
    .filter(([a, b]) => (a[1] > y) !== (b[1] > y) && x < a[0] + ((y - a[1]) * (b[0] - a[0])) / (b[1] - a[1])).length % 2 === 1;

  const UNITS = { count: "", bytes: " GiB", C: " °C" };
  const written = ([label, unit, names], value) => {
    if (names.length) return `${label} ${names[Math.round(value)] ?? ""}`;
    const number = unit === "bytes" ? value / 2 ** 30 : value;
    const digits = Math.abs(number) >= 100 || unit === "tokens" ? Math.round(number) : Number(number.toPrecision(3));
    return `${label} ${digits}${UNITS[unit] ?? ` ${unit}`}`;
  };

  /** A figure: its data is read when it is first needed. */
  class Figure {
    constructor(element) {
      this.element = element;
      this.stage = element.querySelector(".stage");
      this.views = [...element.querySelectorAll(".view")];
      this.panel = 0;
      this.scale = 0;
      this.chosen = -1;
      this.tip = make("div", { class: "tip", hidden: "", "aria-hidden": "true" });
      this.ring = make("div", { class: "ring", hidden: "", "aria-hidden": "true" });
      this.live = make("p", { class: "unseen", "aria-live": "polite" });
      this.stage.append(this.ring, this.tip);
      this.stage.after(this.live);
      this.slide();
      this.tools();
      this.sheet();
      this.show();
      if (this.views.length) this.listen();
    }

    get data() {
      this.read ??= JSON.parse(this.element.querySelector("script.data").textContent);
      return this.read;
    }

    /** Shows the view of the panel and the scale that are chosen. */
    show() {
      for (const view of this.views) {
        const { panel, scale } = view.dataset;
        const meant = this.slider ? panel === String(this.panel) : panel === "";
        view.hidden = !(meant && scale === String(this.scale));
      }
      this.hide();
    }

    slide() {
      const row = this.element.querySelector(".slider");
      if (!row) return;
      this.slider = row.querySelector("input");
      const output = row.querySelector("output");
      row.hidden = false;
      this.slider.addEventListener("input", () => {
        this.panel = Number(this.slider.value);
        const title = this.data.panels[this.panel].title;
        output.textContent = title;
        this.slider.setAttribute("aria-valuetext", title);
        this.show();
      });
    }

    tools() {
      const row = make("div", { class: "tools" });
      if (this.views.some((view) => view.dataset.scale === "1")) {
        const button = make("button", { type: "button", "aria-pressed": "false" }, this.element.dataset.other);
        button.addEventListener("click", () => {
          this.scale = 1 - this.scale;
          button.setAttribute("aria-pressed", String(this.scale === 1));
          this.show();
        });
        row.append(button);
      }
      if (this.views.length) {
        const button = make("button", { type: "button" }, "Save as SVG");
        button.addEventListener("click", () => this.save());
        row.append(button);
      }
      if (row.childElementCount) this.stage.after(row);
    }

    /** The drawing that can be seen: its element, its size, and where its panels are. */
    drawing() {
      const index = this.views.findIndex((view) => !view.hidden);
      if (index < 0) return null;
      for (const width of ["wide", "narrow"]) {
        const svg = this.views[index].querySelector(`.${width} svg`);
        if (svg?.getClientRects().length) {
          const { panels, [width]: drawn } = this.data.views[index];
          const box = svg.getBoundingClientRect();
          return { key: `${index} ${width}`, svg, panels, frames: drawn.frames, size: drawn.size, box, unit: box.width / drawn.size[0] };
        }
      }
      return null;
    }

    /** Every place of the drawing in the order of the keys: panel, row, and where it is, in units of the drawing. */
    places(drawing) {
      if (this.placed?.key === drawing.key) return this.placed.all;
      const all = [];
      this.placed = { key: drawing.key, all };
      drawing.panels.forEach((number, at) => {
        const frame = drawing.frames[at];
        const places = this.data.panels[number].places;
        const [xs, ys] = places.at.map((column) => this.data.columns[column]);
        for (let row = places.from; row < places.from + places.count; row += 1) {
          const x = share(frame.x, xs[row]);
          const y = share(frame.y, ys[row]);
          if (x >= -0.001 && x <= 1.001 && y >= -0.001 && y <= 1.001) {
            all.push({ number, row, x: frame.left + x * frame.width, y: frame.top + (1 - y) * frame.height });
          }
        }
      });
      return all;
    }

    listen() {
      const told = this.data.panels.some((panel) => panel.places.count || panel.ground);
      if (!told) return;
      const { stage } = this;
      const title = this.element.querySelector("h2, h3, h4, h5, h6").textContent;
      for (const [name, value] of Object.entries({
        tabindex: "0",
        role: "application",
        "aria-label": `${title}: arrow keys step through the places`,
        "aria-describedby": this.element.getAttribute("aria-describedby"),
      })) stage.setAttribute(name, value);
      stage.addEventListener("pointermove", (event) => event.pointerType !== "touch" && this.point(event));
      stage.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && this.hide());
      stage.addEventListener("click", (event) => this.point(event));
      stage.addEventListener("blur", () => this.hide());
      stage.addEventListener("keydown", (event) => this.key(event));
    }

    point(event) {
      const drawing = this.drawing();
      if (!drawing) return this.hide();
      const x = (event.clientX - drawing.box.left) / drawing.unit;
      const y = (event.clientY - drawing.box.top) / drawing.unit;
      let best = -1;
      let nearest = (REACH / drawing.unit) ** 2;
      const places = this.places(drawing);
      for (let index = 0; index < places.length; index += 1) {
        const apart = (places[index].x - x) ** 2 + (places[index].y - y) ** 2;
        if (apart < nearest) {
          best = index;
          nearest = apart;
        }
      }
      if (best >= 0) {
        this.chosen = best;
        return this.tell(drawing, places[best]);
      }
      return this.between(drawing, x, y);
    }

    key(event) {
      const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
      if (event.key === "Escape") return this.hide();
      const step = steps[event.key];
      const drawing = step && !event.ctrlKey && !event.metaKey && !event.altKey && this.drawing();
      if (!drawing) return undefined;
      const places = this.places(drawing);
      if (!places.length) return undefined;
      event.preventDefault();
      const first = step < 0 ? places.length - 1 : 0;
      const next = this.chosen < 0 && Number.isFinite(step) ? first : this.chosen + step;
      this.chosen = Math.min(Math.max(next, 0), places.length - 1);
      const lines = this.tell(drawing, places[this.chosen]);
      this.live.textContent = `${this.chosen + 1} of ${places.length}: ${lines.map((line) => line.join(" ")).join(", ")}`;
      return undefined;
    }

    /** Tells of a place; gives what it told. */
    tell(drawing, place) {
      const panel = this.data.panels[place.number];
      const lines = panel.places.names
        .map((name, at) => [name, entry(this.data.columns[panel.places.told[at]], place.row)])
        .filter((line) => line[1] !== null && line[1] !== "");
      if (panel.title && drawing.panels.length > 1) lines.unshift(["", panel.title]);
      this.put(drawing, place.x, place.y, lines, true);
      return lines;
    }

    /** Tells what is proven of a place that nobody asked about, and by what; apart from that, what is only predicted. */
    between(drawing, x, y) {
      const at = drawing.frames.findIndex(
        (frame) =>
          x >= frame.left && x <= frame.left + frame.width && y >= frame.top && y <= frame.top + frame.height,
      );
      const panel = at < 0 ? null : this.data.panels[drawing.panels[at]];
      if (!panel?.ground) return this.hide();
      const frame = drawing.frames[at];
      const here = [
        valueAt(frame.x, (x - frame.left) / frame.width),
        valueAt(frame.y, 1 - (y - frame.top) / frame.height),
      ];
      const { rising, fits, fails, clips, band, predicted } = panel.ground;
      // Whether the first is at least as hard as the second.
      const harder = (one, other) => rising.every((up, axis) => (up ? one[axis] >= other[axis] : one[axis] <= other[axis]));
      const fit = fits.find((corner) => harder(corner, here));
      const fail = fails.find((corner) => harder(here, corner));
      const clip = clips.find((corner) => harder(here, corner));
      const lines = [["", `${written(panel.x, here[0])}, ${written(panel.y, here[1])}`]];
      if (within(band, here)) lines.push(["", "in the band: answers contradict"]);
      else if (fit) lines.push(["proven to fit by", fit[2]]);
      else if (fail) lines.push(["proven to fail by", fail[2]]);
      else if (clip) lines.push(["refused or not tested from", clip[2]]);
      else if (within(predicted, here)) lines.push(["", "predicted to fit, not proven"]);
      else lines.push(["", "open: no probe proves what happens here"]);
      this.chosen = -1;
      return this.put(drawing, x, y, lines, false);
    }

    put(drawing, x, y, lines, ring) {
      const rows = lines.map(([name, text]) => name
        ? make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, String(text)))
        : make("tr", {}, make("td", { colspan: "2" }, String(text))));
      this.tip.replaceChildren(make("table", {}, make("tbody", {}, ...rows)));
      const stage = this.stage.getBoundingClientRect();
      const left = x * drawing.unit + drawing.box.left - stage.left;
      const top = y * drawing.unit + drawing.box.top - stage.top;
      Object.assign(this.ring.style, { left: `${left}px`, top: `${top}px` });
      this.ring.hidden = !ring;
      this.tip.hidden = false;
      const { offsetWidth: width, offsetHeight: height } = this.tip;
      const room = left + 16 + width <= stage.width ? left + 16 : Math.max(0, left - 16 - width);
      const above = top + 16 + height > stage.height && top - 16 - height > 0;
      Object.assign(this.tip.style, { left: `${room}px`, top: `${above ? top - 16 - height : top + 16}px` });
    }

    hide() {
      this.chosen = -1;
      this.tip.hidden = true;
      this.ring.hidden = true;
      this.live.textContent = "";
    }

    /** Makes the rows of a long table that are not in the page, once it is opened. */
    sheet() {
      const details = this.element.querySelector("details[data-rest]");
      details?.addEventListener("toggle", () => {
        const body = details.querySelector("tbody");
        const columns = this.data.table.map((column) => this.data.columns[column]);
        const rows = document.createDocumentFragment();
        for (let row = body.childElementCount; row < this.data.rows; row += 1) {
          rows.append(make("tr", {}, ...columns.map((column) => {
            const text = String(entry(column, row) ?? "–");
            const is = Array.isArray(column) ? "n" : text.length <= 24 ? "s" : text.length > 60 ? "l" : "";
            return make("td", { class: is }, text);
          })));
        }
        body.append(rows);
        details.querySelector(".rest").remove();
      }, { once: true });
    }

    /** Saves the drawing that can be seen as a file of its own. */
    save() {
      const drawing = this.drawing();
      if (!drawing) return;
      const copy = drawing.svg.cloneNode(true);
      copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
      copy.setAttribute("width", drawing.size[0]);
      copy.setAttribute("height", drawing.size[1]);
      const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
      style.textContent = document.getElementById("plot-style").textContent;
      copy.prepend(style);
      const address = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }));
      make("a", { href: address, download: `${this.element.id}.svg` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 10000);
    }
  }

  /** Copies a text, and says so on the button. */
  const copies = (button, text) => {
    const label = button.textContent;
    button.addEventListener("click", async () => {
      let done = true;
      try {
        await navigator.clipboard.writeText(text());
      } catch {
        const area = make("textarea", { readonly: "" });
        area.value = text();
        document.body.append(area);
        area.select();
        done = document.execCommand("copy");
        area.remove();
        button.focus();
      }
      button.textContent = done ? "Copied" : "Not allowed";
      setTimeout(() => { button.textContent = label; }, 1600);
    });
  };

  for (const box of document.querySelectorAll(".paste")) {
    const button = make("button", { type: "button" }, "Copy");
    const text = box.textContent;
    copies(button, () => text);
    box.append(button);
  }
  const lines = (section) => [...section.querySelectorAll(".facts > div")].flatMap((fact) => {
    const term = fact.querySelector("dt").textContent;
    return [...fact.querySelectorAll("dd")].map((told) => `${term}: ${(told.querySelector("code") ?? told).textContent}`);
  });
  for (const answers of document.querySelectorAll(".answers")) {
    const button = make("button", { type: "button" }, "Copy what was found and run as text");
    const ran = answers.parentElement.querySelector(":scope > .run");
    const simulated = answers.dataset.simulated ? [answers.dataset.simulated] : [];
    copies(button, () => [...simulated, ...lines(answers), ...(ran ? lines(ran) : [])].join("\n"));
    answers.append(make("div", { class: "tools" }, button));
  }
  for (const element of document.querySelectorAll("figure")) new Figure(element);

  // On paper, short tables are shown.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details.sheet:not([open], [data-rest])")];
    opened.forEach((details) => { details.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((details) => { details.open = false; }));
})();
