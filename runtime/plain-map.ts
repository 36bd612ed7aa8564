/** Whether the value is a map, and not a list or an instance of a class, such as bytes. */
export function isMap(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  // The prototypes of lists and of class instances inherit from Object.prototype.
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
