/**
 * Applies a function to a value or to the result of a promise. For a value it runs at once, without
 * the event loop turns of a promise, because nearly all requests wait for nothing.
 */
export function mapMaybePromise<Value, Result>(
  value: Value | Promise<Value>,
  next: (value: Value) => Result | Promise<Result>,
): Result | Promise<Result> {
  return value instanceof Promise ? value.then(next) : next(value);
}
