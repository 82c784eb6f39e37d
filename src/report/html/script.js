"use strict";
// The interactive parts of the page: tooltips for the point under the mouse or chosen with the arrow keys, sliders, the
// remaining rows of long tables, copying and saving. Nothing is loaded from or sent to anywhere else.
(() => {
  const REACH = 24; // maximum distance from the pointer to a point, in pixels
  const root = document.documentElement;
  root.classList.add("js");

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };

  const share = (along, value) =>
    along.log ? Math.log(value / along.from) / Math.log(along.to / along.from) : (value - along.from) / (along.to - along.from);

  /** A figure. Its data is parsed when first needed. */
  class Figure {
    constructor(element) {
      this.element = element;
      this.stage = element.querySelector(".stage");
      this.views = [...element.querySelectorAll(".view")];
      this.panel = 0;
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

    /** The entries of a row: numbers, texts, or null. */
    row(number) {
      return this.data.rows[number].map((entry) => (Array.isArray(entry) ? this.data.words[entry[0]] : entry));
    }

    /** Shows the view of the chosen panel. */
    show() {
      for (const view of this.views) {
        view.hidden = view.dataset.panel !== (this.slider ? String(this.panel) : "");
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
      if (this.views.length) {
        const button = make("button", { type: "button" }, "Save as SVG");
        button.addEventListener("click", () => this.save());
        row.append(button);
      }
      if (row.childElementCount) this.stage.after(row);
    }

    /** The visible drawing: its element, its size, and the positions of its panels. */
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

    /** All points of the drawing in keyboard order: panel, row, and position in units of the drawing. */
    places(drawing) {
      if (this.placed?.key === drawing.key) return this.placed.all;
      const all = [];
      this.placed = { key: drawing.key, all };
      drawing.panels.forEach((number, at) => {
        const frame = drawing.frames[at];
        const { at: points, rows } = this.data.panels[number];
        points.forEach((point, index) => {
          const x = share(frame.x, point[0]);
          const y = share(frame.y, point[1]);
          if (x >= -0.001 && x <= 1.001 && y >= -0.001 && y <= 1.001) {
            all.push({ number, row: rows[index], x: frame.left + x * frame.width, y: frame.top + (1 - y) * frame.height });
          }
        });
      });
      return all;
    }

    listen() {
      if (!this.data.panels.some((panel) => panel.rows.length)) return;
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
        const distance = (places[index].x - x) ** 2 + (places[index].y - y) ** 2;
        if (distance < nearest) {
          best = index;
          nearest = distance;
        }
      }
      if (best >= 0) {
        this.chosen = best;
        return this.describe(drawing, places[best]);
      }
      return this.hide();
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
      const lines = this.describe(drawing, places[this.chosen]);
      this.live.textContent = `${this.chosen + 1} of ${places.length}: ${lines.map((line) => line.join(" ")).join(", ")}`;
      return undefined;
    }

    /** Shows the tooltip of a point; returns its lines. */
    describe(drawing, place) {
      const panel = this.data.panels[place.number];
      const entries = this.row(place.row);
      const lines = panel.names.map((name, at) => [name, entries[at] ?? ""]).filter((line) => line[1] !== "");
      if (panel.title && drawing.panels.length > 1) lines.unshift(["", panel.title]);
      this.put(drawing, place.x, place.y, lines);
      return lines;
    }

    put(drawing, x, y, lines) {
      const rows = lines.map(([name, text]) => name
        ? make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, String(text)))
        : make("tr", {}, make("td", { colspan: "2" }, String(text))));
      this.tip.replaceChildren(make("table", {}, make("tbody", {}, ...rows)));
      const stage = this.stage.getBoundingClientRect();
      const left = x * drawing.unit + drawing.box.left - stage.left;
      const top = y * drawing.unit + drawing.box.top - stage.top;
      Object.assign(this.ring.style, { left: `${left}px`, top: `${top}px` });
      this.ring.hidden = false;
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

    /** Adds the remaining rows of a long table when it is first opened. */
    sheet() {
      const details = this.element.querySelector("details[data-rest]");
      details?.addEventListener("toggle", () => {
        const body = details.querySelector("tbody");
        const heads = details.querySelectorAll("thead th");
        for (const row of this.data.table.slice(body.childElementCount)) {
          body.append(make("tr", {}, ...this.row(row).map((entry, at) => {
            const text = String(entry ?? "–");
            const is = heads[at].className === "n" ? "n" : text.length <= 24 ? "s" : text.length > 60 ? "l" : "";
            return make("td", { class: is }, text);
          })));
        }
        details.querySelector(".rest").remove();
      }, { once: true });
    }

    /** Saves the visible drawing as an SVG file. */
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

  /** Copies a text when the button is clicked, and confirms it on the button. */
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
    return [...fact.querySelectorAll("dd")].map((text) => `${term}: ${(text.querySelector("code") ?? text).textContent}`);
  });
  for (const answers of document.querySelectorAll(".answers")) {
    const button = make("button", { type: "button" }, "Copy what was found and run as text");
    const ran = answers.parentElement.querySelector(":scope > .run");
    const simulated = answers.dataset.simulated ? [answers.dataset.simulated] : [];
    copies(button, () => [...simulated, ...lines(answers), ...(ran ? lines(ran) : [])].join("\n"));
    answers.append(make("div", { class: "tools" }, button));
  }
  for (const element of document.querySelectorAll("figure")) new Figure(element);

  // Opens short tables for printing.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details.sheet:not([open], [data-rest])")];
    opened.forEach((details) => { details.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((details) => { details.open = false; }));
})();
