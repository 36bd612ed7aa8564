/**
 * Applies a function to a value, or to the result of a promise. A value is processed synchronously,
 * which avoids the delay of a promise. For nearly all requests, the value is available at once.
 */
export function mapMaybePromise<Value, Result>(
  value: Value | Promise<Value>,
  next: (value: Value) => Result | Promise<Result>,
): Result | Promise<Result> {
  return value instanceof Promise ? value.then(next) : next(value);
}
