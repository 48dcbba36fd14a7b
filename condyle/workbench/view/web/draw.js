// Draws one motion with WebGL 2: the robot with a lamp and its shadow, a ground with a grid, arrows, polylines and a path.
// `condyleDrawing(canvas, data)` gives { draw(view), free() }, or null where there is no WebGL 2.
"use strict";
(() => {
  if (window.condyleDrawing) return;

  const MAP = 1024; // pixels of the lamp's picture

  const LIT_VERTEX = `#version 300 es
    precision highp float;
    layout(location = 0) in vec3 place;
    layout(location = 1) in vec3 normal;
    layout(location = 2) in vec4 color;
    uniform mat4 camera, model, lampView;
    uniform vec4 tint;
    uniform float off;
    out vec3 at, n, lampAt;
    out vec4 c;
    void main() {
      vec4 world = model * vec4(place, 1.0);
      at = world.xyz;
      mat3 m = mat3(model);
      n = m * (normal / vec3(dot(m[0], m[0]), dot(m[1], m[1]), dot(m[2], m[2])));
      c = tint.a > 0.0 ? tint : color;
      lampAt = (lampView * vec4(at + normalize(n) * off, 1.0)).xyz * 0.5 + 0.5;
      gl_Position = camera * world;
    }`;

  const LIT_FRAGMENT = `#version 300 es
    precision highp float;
    in vec3 at, n, lampAt;
    in vec4 c;
    uniform vec3 eye, lamp, sky, bounce, key;
    uniform float shine, rim, bias;
    uniform sampler2D lampPicture;
    out vec4 seen;
    float hidden(vec3 p) {
      if (p.x <= 0.0 || p.y <= 0.0 || p.x >= 1.0 || p.y >= 1.0) return 0.0;
      float sum = 0.0;
      for (int i = -1; i <= 1; i++) for (int j = -1; j <= 1; j++)
        sum += texture(lampPicture, p.xy + vec2(i, j) / ${MAP}.0).r < p.z - bias ? 1.0 : 0.0;
      return sum / 9.0;
    }
    void main() {
      vec3 m = normalize(n), toward = normalize(eye - at);
      if (!gl_FrontFacing) m = -m;
      float facing = clamp(abs(dot(m, toward)), 0.0, 1.0), up = 0.5 + 0.5 * m.z;
      float lit = clamp(dot(m, lamp), 0.0, 1.0) * (1.0 - 0.85 * hidden(lampAt));
      float gloss = pow(clamp(dot(m, normalize(toward + lamp)), 0.0, 1.0), 32.0) * sqrt(lit);
      vec3 light = pow(c.rgb, vec3(2.2)) * (mix(bounce, sky, up) + lit * key);
      light += shine * gloss + rim * pow(1.0 - facing, 4.0) * (0.35 + 0.65 * up);
      light = mix(light, 1.0 - 0.3 * exp(-(light - 0.7) / 0.3), step(0.7, light));
      seen = vec4(pow(clamp(light, 0.0, 1.0), vec3(1.0 / 2.2)), c.a);
    }`;

  const LAMP_VERTEX = `#version 300 es
    layout(location = 0) in vec3 place;
    uniform mat4 lampView, model;
    void main() { gl_Position = lampView * model * vec4(place, 1.0); }`;

  const LAMP_FRAGMENT = `#version 300 es
    precision mediump float;
    void main() {}`;

  const GROUND_VERTEX = `#version 300 es
    precision highp float;
    layout(location = 0) in vec3 place;
    uniform mat4 camera;
    uniform vec3 middle;
    uniform float reach;
    out vec3 at;
    void main() { at = middle + vec3(place.xy * reach, 0.0); gl_Position = camera * vec4(at, 1.0); }`;

  const GROUND_FRAGMENT = `#version 300 es
    precision highp float;
    in vec3 at;
    uniform vec3 middle, ground, line, shade;
    uniform float reach, square, strength, range, spread;
    uniform mat4 lampView;
    uniform sampler2D lampPicture;
    out vec4 seen;
    float lines(vec2 p) {
      vec2 width = fwidth(p) + 1e-6;
      vec2 on = clamp(1.15 - abs(p - round(p)) / width, 0.0, 1.0) * clamp(1.6 - 4.0 * width, 0.0, 1.0);
      return max(on.x, on.y);
    }
    float dark() {
      vec3 p = (lampView * vec4(at, 1.0)).xyz * 0.5 + 0.5;
      if (p.x <= 0.0 || p.y <= 0.0 || p.x >= 1.0 || p.y >= 1.0) return 0.0;
      float turn = 6.2832 * fract(52.98 * fract(dot(gl_FragCoord.xy, vec2(0.0671, 0.00584))));
      float before = 0.0, found = 0.0, sum = 0.0;
      // how far away what casts the shadow is, then an edge as soft as that
      for (int i = 0; i < 12; i++) {
        float r = sqrt((float(i) + 0.5) / 12.0) * 0.035, a = float(i) * 2.39996 + turn;
        float d = texture(lampPicture, p.xy + r * vec2(cos(a), sin(a))).r;
        if (d < 1.0) { before += max(p.z - d, 0.0); found += 1.0; }
      }
      if (found == 0.0) return 0.0;
      float soft = clamp(0.002 + before / found * spread, 0.002, 0.035);
      for (int i = 0; i < 24; i++) {
        float r = sqrt((float(i) + 0.5) / 24.0) * soft, a = float(i) * 2.39996 + turn;
        sum += texture(lampPicture, p.xy + r * vec2(cos(a), sin(a))).r < 1.0 ? 1.0 : 0.0;
      }
      return sum / 24.0;
    }
    void main() {
      float away = length(at.xy - middle.xy) / reach;
      float clear = smoothstep(1.0, 0.2, away);
      float on = max(0.55 * lines(at.xy / square), lines(at.xy / (5.0 * square))) * strength;
      vec3 c = mix(ground, line, on);
      seen = vec4(mix(c, shade, 0.62 * dark()), clear);
    }`;

  const SKY_VERTEX = `#version 300 es
    layout(location = 0) in vec3 place;
    out float height;
    void main() { height = place.y * 0.5 + 0.5; gl_Position = vec4(place.xy, 0.9999, 1.0); }`;

  const SKY_FRAGMENT = `#version 300 es
    precision highp float;
    in float height;
    uniform vec3 above, horizon;
    out vec4 seen;
    void main() { seen = vec4(mix(horizon, above, pow(clamp(height, 0.0, 1.0), 1.5)), 1.0); }`;

  // -- small algebra: 4 x 4 matrices by columns

  const sub = (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
  const unit = (a) => { const l = Math.hypot(...a) || 1; return [a[0] / l, a[1] / l, a[2] / l]; };

  function times(a, b) {
    const out = new Float32Array(16);
    for (let j = 0; j < 4; j++) for (let i = 0; i < 4; i++)
      out[4 * j + i] = a[i] * b[4 * j] + a[4 + i] * b[4 * j + 1] + a[8 + i] * b[4 * j + 2] + a[12 + i] * b[4 * j + 3];
    return out;
  }

  function looking(eye, right, up, back) {
    return [right[0], up[0], back[0], 0, right[1], up[1], back[1], 0, right[2], up[2], back[2], 0,
      -dot(right, eye), -dot(up, eye), -dot(back, eye), 1];
  }

  function axes(eye, target) {
    const back = unit(sub(eye, target));
    const right = unit(cross([0, 0, 1], back));
    return [right, cross(back, right), back];
  }

  function pose(x, y, z, w, px, py, pz) {
    return new Float32Array([1 - 2 * (y * y + z * z), 2 * (x * y + z * w), 2 * (x * z - y * w), 0,
      2 * (x * y - z * w), 1 - 2 * (x * x + z * z), 2 * (y * z + x * w), 0,
      2 * (x * z + y * w), 2 * (y * z - x * w), 1 - 2 * (x * x + y * y), 0, px, py, pz, 1]);
  }

  // the matrix that takes a thing along +z, of length and radius 1, to a place and direction
  function along(start, way, radius) {
    const z = unit(way), x = unit(cross(Math.abs(z[0]) < 0.8 ? [1, 0, 0] : [0, 1, 0], z)), y = cross(z, x);
    return new Float32Array([...x.map((k) => k * radius), 0, ...y.map((k) => k * radius), 0, ...way, 0, ...start, 1]);
  }

  const HERE = pose(0, 0, 0, 1, 0, 0, 0);

  // -- things to draw

  function turned(profile, sides) {
    const places = [], normals = [], faces = [];
    for (const [r, z, nr, nz] of profile) for (let k = 0; k < sides; k++) {
      const a = (2 * Math.PI * k) / sides;
      places.push(r * Math.cos(a), r * Math.sin(a), z);
      normals.push(nr * Math.cos(a), nr * Math.sin(a), nz);
    }
    for (let ring = 0; ring < profile.length - 1; ring += 1) for (let k = 0; k < sides; k++) {
      const a = ring * sides + k, b = ring * sides + ((k + 1) % sides);
      faces.push(a, b, b + sides, a, b + sides, a + sides);
    }
    return { places: new Float32Array(places), normals: new Float32Array(normals), faces: new Uint32Array(faces) };
  }

  const SHAFT = turned([[0, 0, 0, -1], [1, 0, 0, -1], [1, 0, 1, 0], [1, 1, 1, 0]], 16);
  const HEAD = turned([[0, 0, 0, -1], [1, 0, 0, -1], [1, 0, 0.93, 0.37], [0, 1, 0.93, 0.37]], 24);
  const BALL = turned(Array.from({ length: 13 }, (_, k) => {
    const a = (Math.PI * k) / 12 - Math.PI / 2;
    return [Math.cos(a), Math.sin(a), Math.cos(a), Math.sin(a)];
  }), 20);
  const SHEET = { places: new Float32Array([-1, -1, 0, 1, -1, 0, 1, 1, 0, -1, 1, 0]), faces: new Uint32Array([0, 1, 2, 0, 2, 3]) };

  window.condyleDrawing = (canvas, data) => {
    const gl = canvas.getContext("webgl2", { antialias: true, alpha: false, powerPreference: "low-power" });
    if (!gl) return null;

    function program(vertex, fragment) {
      const p = gl.createProgram();
      for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
        const s = gl.createShader(kind);
        gl.shaderSource(s, text);
        gl.compileShader(s);
        gl.attachShader(p, s);
      }
      gl.linkProgram(p);
      if (!gl.getProgramParameter(p, gl.LINK_STATUS)) throw new Error(`shader: ${gl.getProgramInfoLog(p)}`);
      const uniforms = {};
      for (let k = 0; k < gl.getProgramParameter(p, gl.ACTIVE_UNIFORMS); k++) {
        const name = gl.getActiveUniform(p, k).name;
        uniforms[name] = gl.getUniformLocation(p, name);
      }
      return { p, uniforms };
    }

    function thing({ places, normals, colors, faces }) {
      const vao = gl.createVertexArray();
      gl.bindVertexArray(vao);
      [[places, 3, gl.FLOAT, false], [normals, 3, gl.FLOAT, false], [colors, 4, gl.UNSIGNED_BYTE, true]].forEach(
        ([array, size, kind, whole], where) => {
          if (!array) return;
          gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
          gl.bufferData(gl.ARRAY_BUFFER, array, gl.STATIC_DRAW);
          gl.enableVertexAttribArray(where);
          gl.vertexAttribPointer(where, size, kind, whole, 0, 0);
        });
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
      gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, faces, gl.STATIC_DRAW);
      gl.bindVertexArray(null);
      return { vao, count: faces.length };
    }

    const lit = program(LIT_VERTEX, LIT_FRAGMENT), lamp = program(LAMP_VERTEX, LAMP_FRAGMENT);
    const floor = program(GROUND_VERTEX, GROUND_FRAGMENT), sky = program(SKY_VERTEX, SKY_FRAGMENT);
    const robot = thing(data.body), trail = data.trail ? thing(data.trail) : null;
    const [shaft, head, ball, sheet] = [SHAFT, HEAD, BALL, SHEET].map(thing);

    const map = gl.createTexture(), frame = gl.createFramebuffer();
    gl.bindTexture(gl.TEXTURE_2D, map);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.DEPTH_COMPONENT24, MAP, MAP, 0, gl.DEPTH_COMPONENT, gl.UNSIGNED_INT, null);
    for (const [name, value] of [[gl.TEXTURE_MIN_FILTER, gl.NEAREST], [gl.TEXTURE_MAG_FILTER, gl.NEAREST],
      [gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE], [gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE]]) gl.texParameteri(gl.TEXTURE_2D, name, value);
    gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
    gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, gl.TEXTURE_2D, map, 0);

    const set = (u, name, value) => {
      const where = u[name];
      if (where === undefined) return;
      if (typeof value === "number") gl.uniform1f(where, value);
      else if (value.length === 3) gl.uniform3fv(where, value);
      else if (value.length === 4) gl.uniform4fv(where, value);
      else gl.uniformMatrix4fv(where, false, value);
    };

    function part(from, first, count) {
      gl.bindVertexArray(from.vao);
      gl.drawElements(gl.TRIANGLES, count, gl.UNSIGNED_INT, 4 * first);
    }

    // view: { eye, target, fov, theme, links: matrices, arrows: [[start, way, rgb]], lines: [[point, ...]], center, path: 0..1, level, shadowAt }
    function draw(view) {
      const theme = view.theme, size = data.size;
      const wide = gl.drawingBufferWidth, high = gl.drawingBufferHeight;
      const [right, up, back] = axes(view.eye, view.target);
      const flat = unit([back[0], back[1], 0]);
      const toLamp = unit([0, 1, 2].map((k) => -0.52 * right[k] + 0.42 * flat[k] + (k === 2 ? 1 : 0)));
      const near = 0.02 * size, far = Math.hypot(...sub(view.eye, view.target)) + 40 * size;
      const f = 1 / Math.tan((view.fov * Math.PI) / 360);
      const lens = [(f * high) / wide, 0, 0, 0, 0, f, 0, 0, 0, 0, (far + near) / (near - far), -1, 0, 0, (2 * far * near) / (near - far), 0];
      const camera = times(lens, looking(view.eye, right, up, back));
      // the lamp sees the robot, and what lies behind it down to the ground
      const half = 0.75 * size, deep = 2 * size + Math.abs(view.shadowAt[2] - data.level) * 2;
      const lampAxes = axes(toLamp, [0, 0, 0]);
      const lampView = times([1 / half, 0, 0, 0, 0, 1 / half, 0, 0, 0, 0, -1 / deep, 0, 0, 0, 0, 1], looking(view.shadowAt, ...lampAxes));
      const arrowSize = data.arrowSize;
      const solids = [];
      for (const group of data.groups) if (group.solid) solids.push([robot, group.first, group.count, view.links[group.link] || HERE, null]);
      for (const [start, way, rgb] of view.arrows) {
        const long = Math.hypot(...way);
        if (long < 1e-3 * size) continue;
        const tip = Math.min(6 * arrowSize, 0.6 * long), neck = way.map((k) => (k * (long - tip)) / long);
        solids.push([shaft, 0, shaft.count, along(start, neck, arrowSize), [...rgb, 1]]);
        solids.push([head, 0, head.count, along(start.map((k, i) => k + neck[i]), way.map((k) => (k * tip) / long), Math.min(2.6 * arrowSize, 0.5 * tip)), [...rgb, 1]]);
      }
      gl.enable(gl.DEPTH_TEST);
      gl.disable(gl.BLEND);
      gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
      gl.viewport(0, 0, MAP, MAP);
      gl.clear(gl.DEPTH_BUFFER_BIT);
      gl.useProgram(lamp.p);
      set(lamp.uniforms, "lampView", lampView);
      for (const [from, first, count, model] of solids) { set(lamp.uniforms, "model", model); part(from, first, count); }

      gl.bindFramebuffer(gl.FRAMEBUFFER, null);
      gl.viewport(0, 0, wide, high);
      gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
      gl.depthMask(false);
      gl.useProgram(sky.p);
      set(sky.uniforms, "above", theme.above);
      set(sky.uniforms, "horizon", theme.horizon);
      part(sheet, 0, 6);
      gl.depthMask(true);
      gl.enable(gl.BLEND);
      gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
      const common = { camera, lampView, eye: view.eye, lamp: toLamp, ...theme, ground: theme.floor, strength: theme.line_strength, square: data.square };
      if (view.eye[2] > data.level) {
        gl.useProgram(floor.p);
        const middle = [view.target[0], view.target[1], data.level];
        for (const [name, value] of Object.entries({ ...common, middle, reach: 6 * size, spread: 0.055 * deep / half })) set(floor.uniforms, name, value);
        part(sheet, 0, 6);
      }
      gl.useProgram(lit.p);
      for (const [name, value] of Object.entries({ ...common, off: 0.004 * size, bias: 0.002 * size / deep })) set(lit.uniforms, name, value);
      const marks = [];
      if (trail && view.path > 0) marks.push([trail, 0, 3 * Math.floor((trail.count / 3) * view.path), HERE, [...data.colors.path, 1]]);
      const mark = (at, radius, rgb) => {
        const round = pose(0, 0, 0, 1, ...at).map((k, i) => (i % 5 === 0 && i < 15 ? k * radius : k));
        marks.push([ball, 0, ball.count, round, [...rgb, 1]]);
      };
      if (view.center) mark(view.center, 0.022 * size, data.colors.center);
      for (const line of view.lines) line.forEach((at, k) => {
        mark(at, data.dotSize, data.colors.plan);
        const way = k ? sub(at, line[k - 1]) : [0, 0, 0];
        if (Math.hypot(...way) > 1e-5 * size) marks.push([shaft, 0, shaft.count, along(line[k - 1], way, data.lineSize), [...data.colors.plan, 1]]);
      });
      solids.push(...marks);
      for (const group of data.groups) if (!group.solid) solids.push([robot, group.first, group.count, view.links[group.link] || HERE, null, true]);
      for (const [from, first, count, model, tint, clear] of solids) {
        set(lit.uniforms, "model", model);
        set(lit.uniforms, "tint", tint || [0, 0, 0, 0]);
        gl.depthMask(!clear);
        part(from, first, count);
      }
      // marks inside the robot shine through
      gl.depthFunc(gl.GREATER);
      gl.depthMask(false);
      for (const [from, first, count, model, tint] of marks) {
        set(lit.uniforms, "model", model);
        set(lit.uniforms, "tint", [...tint.slice(0, 3), 0.5]);
        part(from, first, count);
      }
      gl.depthFunc(gl.LESS);
      gl.depthMask(true);
    }

    return { draw, pose, free: () => { const lose = gl.getExtension("WEBGL_lose_context"); if (lose) lose.loseContext(); } };
  };
})();
