/** Counts the work of native searches, which does not depend on the speed of the machine. */

/**
 * Returns the number of elements and characters that searches in lists and texts examine during
 * synchronous work.
 */
export function examinedBy(work: () => unknown): number {
  const { includes, some } = Array.prototype;
  const { indexOf, matchAll } = String.prototype;
  let examined = 0;
  Array.prototype.includes = function (...args) {
    examined += this.length;
    return includes.apply(this, args);
  };
  Array.prototype.some = function (isFound, thisArg) {
    return some.call(this, (item, at, all) => {
      examined += 1;
      return isFound.call(thisArg, item, at, all);
    });
  };
  String.prototype.indexOf = function (text, from = 0) {
    const found = indexOf.call(this, text, from);
    examined += (found === -1 ? this.length : found) - from + 1;
    return found;
  };
  String.prototype.matchAll = function (pattern) {
    examined += this.length;
    return matchAll.call(this, pattern);
  };
  try {
    work();
  } finally {
    Object.assign(Array.prototype, { includes, some });
    Object.assign(String.prototype, { indexOf, matchAll });
  }
  return examined;
}
