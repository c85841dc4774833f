// For versions of Node that run hooks of modules in a thread of their own.
import vitestSource from "./vitest_source.cjs";

export async function load(url, context, next) {
  return vitestSource.handing(url, await next(url, context));
}
