// Players of motions: every element of the class `condyle-player` gets a canvas, buttons and a slider.
// `window.condylePlayers` lists them, each with time, duration, playing, drawn, play(), pause() and seek(t).
"use strict";
(() => {
  const players = (window.condylePlayers = window.condylePlayers || []);
  const RATES = [0.1, 0.25, 0.5, 1, 2, 4];
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const still = window.matchMedia("(prefers-reduced-motion: reduce)");

  function bytes(text) {
    const raw = atob(text), out = new Uint8Array(raw.length);
    for (let k = 0; k < raw.length; k++) out[k] = raw.charCodeAt(k);
    return out.buffer;
  }
  const floats = (text) => new Float32Array(bytes(text));

  function element(tag, properties, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  const ICONS = { play: "M4 2.5v11l9-5.5z", pause: "M4 2.5h3v11H4zM9 2.5h3v11H9z",
    home: "M8 2a6 6 0 1 1-5.6 3.9l1.5.5A4.4 4.4 0 1 0 8 3.6V6L4.2 2.8 8-.3z" };

  function icon(name) {
    const space = "http://www.w3.org/2000/svg", svg = document.createElementNS(space, "svg"), path = document.createElementNS(space, "path");
    for (const [key, value] of Object.entries({ viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" })) svg.setAttribute(key, value);
    path.setAttribute("d", ICONS[name]);
    path.setAttribute("fill", "currentColor");
    svg.append(path);
    return svg;
  }

  function button(label, inside, pressed) {
    const made = element("button", { type: "button", title: label }, inside);
    made.setAttribute("aria-label", label);
    if (pressed !== undefined) made.setAttribute("aria-pressed", String(pressed));
    return made;
  }

  function unpacked(root) {
    const data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
    const b = data.body;
    data.body = { places: floats(b.places), normals: floats(b.normals), colors: new Uint8Array(bytes(b.colors)), faces: new Uint32Array(bytes(b.faces)) };
    if (data.trail) data.trail = { places: floats(data.trail.places), normals: floats(data.trail.normals), faces: new Uint32Array(bytes(data.trail.faces)) };
    for (const name of ["t", "poses", "center", "starts", "ways"]) data[name] = floats(data[name]);
    for (const line of data.polylines) line.points = floats(line.points);
    return data;
  }

  class Player {
    constructor(root) {
      this.root = root;
      this.data = unpacked(root);
      this.time = 0;
      this.rate = 1;
      this.playing = false;
      this.drawn = 0;
      this.drawing = null;
      this.duration = this.data.t[this.data.t.length - 1];
      this.show = { forces: true, plan: true, path: this.data.path, follow: this.data.follow };
      this.stage = root.querySelector(".condyle-stage");
      this.controls();
      this.pointer();
      this.reset();
      dark.addEventListener("change", () => this.ask());
      new ResizeObserver(() => this.ask()).observe(this.stage);
      new IntersectionObserver((seen) => this.visible(seen[seen.length - 1].isIntersecting), { rootMargin: "160px" }).observe(this.stage);
      if (this.data.autoplay && this.duration > 0 && !still.matches) this.play();
      this.label();
    }

    // -- buttons

    controls() {
      const bar = this.root.querySelector(".condyle-bar");
      this.toggle = button("Play", icon("play"));
      this.toggle.addEventListener("click", () => (this.playing ? this.pause() : this.play()));
      this.slider = element("input", { type: "range", min: 0, max: this.duration, step: "any", value: 0 });
      this.slider.setAttribute("aria-label", "Time");
      this.slider.addEventListener("input", () => { const t = Number(this.slider.value); this.pause(); this.seek(t); });
      this.clock = element("output", { className: "condyle-clock" });
      const rates = element("select", { title: "Speed" }, ...RATES.map((r) => element("option", { value: r, textContent: `${r}\u00d7`, selected: r === 1 })));
      rates.setAttribute("aria-label", "Speed");
      rates.addEventListener("change", () => (this.rate = Number(rates.value)));
      const home = button("Reset the view", icon("home"));
      home.addEventListener("click", () => this.reset());
      if (this.duration > 0) bar.append(this.toggle, this.slider, this.clock, rates);
      const has = { forces: this.data.arrows > 0, plan: this.data.polylines.length > 0, path: !!this.data.trail, follow: this.duration > 0 };
      const words = { forces: "Show forces as arrows", plan: "Show the plan", path: "Show the way of the centre of mass", follow: "Follow the robot" };
      for (const name of ["forces", "plan", "path", "follow"]) {
        if (!has[name]) continue;
        const made = button(words[name], name, this.show[name]);
        made.addEventListener("click", () => {
          this.show[name] = !this.show[name];
          made.setAttribute("aria-pressed", String(this.show[name]));
          this.ask();
        });
        bar.append(made);
      }
      bar.append(home);
    }

    pointer() {
      const stage = this.stage;
      let last = null;
      stage.addEventListener("pointerdown", (e) => { last = [e.clientX, e.clientY]; stage.setPointerCapture(e.pointerId); });
      stage.addEventListener("pointerup", () => (last = null));
      stage.addEventListener("pointercancel", () => (last = null));
      stage.addEventListener("pointermove", (e) => {
        if (!last) return;
        const [dx, dy] = [e.clientX - last[0], e.clientY - last[1]];
        last = [e.clientX, e.clientY];
        if (e.shiftKey) this.slide(dx, dy);
        else {
          this.azimuth -= 0.008 * dx;
          this.elevation = Math.min(1.5, Math.max(-0.1, this.elevation + 0.008 * dy));
        }
        this.ask();
      });
      stage.addEventListener("dblclick", () => this.reset());
      // the wheel scrolls the page, unless the player has been clicked or Ctrl is held
      stage.addEventListener("wheel", (e) => {
        if (!(e.ctrlKey || e.metaKey || this.root.contains(document.activeElement))) return;
        e.preventDefault();
        this.distance = Math.min(30, Math.max(0.25, this.distance * Math.exp(0.0012 * e.deltaY)));
        this.ask();
      }, { passive: false });
      this.root.addEventListener("keydown", (e) => {
        const step = this.duration / Math.max(this.data.t.length - 1, 1);
        if (e.target.tagName === "SELECT" || (e.target.tagName === "BUTTON" && e.key === " ")) return;
        if (e.key === " ") this.playing ? this.pause() : this.play();
        else if (e.key === "ArrowRight" && e.target !== this.slider) { this.pause(); this.seek(this.time + step); }
        else if (e.key === "ArrowLeft" && e.target !== this.slider) { this.pause(); this.seek(this.time - step); }
        else return;
        e.preventDefault();
      });
    }

    slide(dx, dy) {
      const scale = (1.2 * this.distance * this.data.camera.distance) / this.stage.clientHeight / 2;
      const [c, s] = [Math.cos(this.azimuth), Math.sin(this.azimuth)];
      this.shift = [this.shift[0] + dx * scale * s, this.shift[1] - dx * scale * c, this.shift[2] + dy * scale];
    }

    reset() {
      const { eye, target } = this.data.camera;
      const d = eye.map((k, i) => k - target[i]);
      this.azimuth = Math.atan2(d[1], d[0]);
      this.elevation = Math.atan2(d[2], Math.hypot(d[0], d[1]));
      this.distance = 1;
      this.shift = [0, 0, 0];
      this.ask();
    }

    // -- time

    play() {
      if (this.time >= this.duration) this.time = 0;
      this.playing = true;
      this.before = null;
      this.label();
      this.ask();
    }

    pause() {
      this.playing = false;
      this.label();
    }

    seek(t) {
      this.time = Math.min(this.duration, Math.max(0, t));
      this.label();
      this.ask();
    }

    label() {
      this.slider.value = this.time;
      this.slider.setAttribute("aria-valuetext", `${this.time.toFixed(2)} seconds`);
      this.clock.textContent = `${this.time.toFixed(2)} / ${this.duration.toFixed(2)} s`;
      if (this.toggle.getAttribute("aria-label") === (this.playing ? "Pause" : "Play")) return;
      this.toggle.replaceChildren(icon(this.playing ? "pause" : "play"));
      this.toggle.title = this.playing ? "Pause" : "Play";
      this.toggle.setAttribute("aria-label", this.toggle.title);
    }

    // -- pictures

    visible(seen) {
      this.seen = seen;
      // browsers have few contexts: a player out of sight has none, and its poster again
      if (!seen && this.drawing) this.put(null);
      this.before = null;
      if (seen) this.ask();
    }

    put(drawing) {
      if (this.drawing && !drawing) { this.drawing.free(); this.canvas.remove(); }
      this.drawing = drawing;
      this.root.classList.toggle("condyle-live", !!drawing);
    }

    begin() {
      this.canvas = element("canvas", {});
      this.canvas.setAttribute("role", "img");
      this.canvas.setAttribute("aria-label", this.data.title);
      this.canvas.addEventListener("webglcontextlost", (e) => { e.preventDefault(); if (e.target === this.canvas) this.put(null); });
      this.stage.append(this.canvas);
      let made = null;
      try { made = window.condyleDrawing(this.canvas, this.data); } catch (error) { console.warn(error); }
      if (!made) { this.canvas.remove(); this.failed = true; return; }
      this.put(made);
    }

    ask() {
      if (!this.waiting && this.seen && !this.failed) this.waiting = requestAnimationFrame((now) => { this.waiting = 0; this.picture(now); });
    }

    picture(now) {
      if (!this.seen) return;
      if (this.playing) {
        if (this.before !== null) this.time += Math.min(0.1, (now - this.before) / 1000) * this.rate;
        this.before = now;
        if (this.time > this.duration) this.time = this.data.loop ? this.time % this.duration : this.duration;
        if (this.time === this.duration) this.pause();
        this.label();
      }
      if (!this.drawing) this.begin();
      if (this.drawing) this.frame();
      if (this.playing) this.ask();
    }

    frame() {
      const d = this.data, canvas = this.canvas, sharp = Math.min(window.devicePixelRatio || 1, 2);
      const wide = Math.max(1, Math.round(this.stage.clientWidth * sharp)), high = Math.max(1, Math.round(this.stage.clientHeight * sharp));
      if (canvas.width !== wide || canvas.height !== high) { canvas.width = wide; canvas.height = high; }
      const last = d.t.length - 1;
      let k = 0, top = last;
      while (top - k > 1) { const mid = (k + top) >> 1; if (d.t[mid] <= this.time) k = mid; else top = mid; }
      const next = Math.min(k + 1, last), span = d.t[next] - d.t[k];
      const part = span > 0 ? Math.min(1, Math.max(0, (this.time - d.t[k]) / span)) : 0;
      const mix = (array, a, b) => array[a] * (1 - part) + array[b] * part;
      const links = [], p = new Float32Array(7);
      for (let i = 0; i < d.links; i++) {
        for (let j = 0; j < 7; j++) p[j] = mix(d.poses, 7 * (k * d.links + i) + j, 7 * (next * d.links + i) + j);
        const l = Math.hypot(p[0], p[1], p[2], p[3]) || 1;
        links.push(this.drawing.pose(p[0] / l, p[1] / l, p[2] / l, p[3] / l, p[4], p[5], p[6]));
      }
      const three = (array, i, many) => [0, 1, 2].map((j) => mix(array, 3 * (k * many + i) + j, 3 * (next * many + i) + j));
      const center = three(d.center, 0, 1), first = [0, 1, 2].map((j) => d.center[j]);
      const arrows = [];
      if (this.show.forces) for (let i = 0; i < d.arrows; i++) arrows.push([three(d.starts, i, d.arrows), three(d.ways, i, d.arrows), d.colors[i < d.contacts ? "force" : "push"]]);
      const lines = this.show.plan ? d.polylines.map((line) => Array.from({ length: line.count }, (_, i) => three(line.points, i, line.count))) : [];
      const moved = center.map((c, j) => (this.show.follow ? c - first[j] : 0));
      const target = d.camera.target.map((c, j) => c + this.shift[j] + (j < 2 ? moved[j] : 0));
      const reach = this.distance * d.camera.distance * Math.max(1, 1.6 * high / wide);
      const e = this.elevation, a = this.azimuth;
      const eye = [target[0] + reach * Math.cos(e) * Math.cos(a), target[1] + reach * Math.cos(e) * Math.sin(a), target[2] + reach * Math.sin(e)];
      eye[2] = Math.max(eye[2], d.level + 0.01 * d.size);
      const shadowAt = center.map((c, j) => c + d.lampShift[j]);
      this.drawing.draw({ eye, target, fov: d.camera.fov, theme: d.themes[dark.matches ? "dark" : "light"], links, arrows, lines, shadowAt,
        center: this.show.path ? center : null, path: this.show.path && this.duration > 0 ? this.time / this.duration : 0 });
      this.drawn += 1;
    }
  }

  function start() {
    for (const root of document.querySelectorAll(".condyle-player:not([data-ready])")) {
      root.setAttribute("data-ready", "");
      players.push(new Player(root));
    }
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
