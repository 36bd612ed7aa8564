/** Functions that wrap some members of an object. */
type Wrappers<T> = { readonly [K in keyof T]?: (inner: T[K]) => T[K] };

/**
 * Returns a copy of an object, and wraps the given members of the copy. Each getter is evaluated
 * once.
 */
export function decorate<T extends object>(inner: T, wrappers: Wrappers<T>): T {
  const wrapped: T = { ...inner };
  for (const name in wrappers) wrap(wrapped, inner, name, wrappers);
  return wrapped;
}

function wrap<T extends object, K extends keyof T>(
  wrapped: T,
  inner: T,
  name: K,
  wrappers: Wrappers<T>,
): void {
  const wrapper = wrappers[name];
  if (wrapper !== undefined) wrapped[name] = wrapper(inner[name]);
}
