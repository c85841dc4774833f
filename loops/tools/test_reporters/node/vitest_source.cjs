"use strict";

const LINE = '\n;globalThis[Symbol.for("agentops.vitest")]?.(Vitest);';

/** The source of the module that defines the runner, with a line that hands it over; any other as it is. */
function handing(url, loaded) {
  if (!/\/vitest\/dist\/.*\.js$/.test(url) || loaded.format !== "module" || !loaded.source) return loaded;
  const source = typeof loaded.source === "string" ? loaded.source : Buffer.from(loaded.source).toString();
  return /^(export )?class Vitest \{/m.test(source) ? { ...loaded, source: source + LINE } : loaded;
}

module.exports = { handing };
