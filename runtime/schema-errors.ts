/**
 * Describes why a value does not match a schema. TypeBox takes about five microseconds for each
 * entry of a list or map, because it does not use compiled code here and visits valid entries too.
 * For lists with many duplicates, the time grows with the square of their length. This module
 * therefore passes only the first entries of the lists and maps in a large value to TypeBox.
 */

import type { TLocalizedValidationError } from 'typebox/error';
import { isMap } from './plain-map.ts';

/** Methods of a compiled schema that this module uses. */
interface CompiledCheck {
  Check(value: unknown): boolean;
  Errors(value: unknown): readonly [boolean, readonly TLocalizedValidationError[]];
}

/**
 * Maximum number of entries in a value that is passed to TypeBox, counted over all its lists and
 * maps.
 */
const fewEntries = 500;

/**
 * Maximum numbers of entries to which the lists and maps of a large value are shortened before its
 * mistakes are determined. The next number is tried if the shortened value is still too large, or
 * if the shortening may have caused all its mistakes.
 */
const beginnings = [64, 16, 4] as const;

/**
 * Schema keywords that a list or map may violate only because it was shortened. Mistakes about
 * these keywords are ignored in shortened lists and maps.
 */
const wholeKeywords: ReadonlySet<string> = new Set([
  'const',
  'contains',
  'enum',
  'minItems',
  'minProperties',
]);

/**
 * Returns the mistakes in a value, or an empty list if the value matches the schema. In a large
 * value, only the first entries of its lists and maps are examined. If these entries are valid, the
 * result is one mistake about the first list or map that was shortened.
 */
export function schemaErrors(
  check: CompiledCheck,
  schema: unknown,
  value: unknown,
): readonly TLocalizedValidationError[] {
  if (check.Check(value)) return [];
  const names = propertyNames(schema);
  let beginning = value;
  const lacking = new Map<string, object>();
  for (const entries of beginnings) {
    beginning = new Beginning(entries, names, lacking).of(beginning, '');
    if (!isSmall(beginning)) continue;
    if (lacking.size === 0) return check.Errors(value)[1];
    if (check.Check(beginning)) break;
    const certain = check
      .Errors(beginning)[1]
      .filter(
        ({ keyword, instancePath }) => !wholeKeywords.has(keyword) || !lacking.has(instancePath),
      );
    if (certain.length > 0) return certain;
  }
  const [[instancePath, large] = ['', {}]] = lacking;
  const message = `must contain only valid entries, and not too many (it has ${Object.keys(large).length})`;
  return [{ keyword: 'maxItems', schemaPath: '', instancePath, params: { limit: 0 }, message }];
}

/** Whether all lists and maps in the value together contain at most {@link fewEntries} entries. */
function isSmall(value: unknown): boolean {
  const waiting: unknown[] = [value];
  let entries = 0;
  while (waiting.length > 0) {
    for (const [, item] of entriesOf(waiting.pop())) {
      entries += 1;
      if (entries > fewEntries) return false;
      waiting.push(item);
    }
  }
  return true;
}

/**
 * Returns the entries of a list or map one by one, so that a caller can stop early. Other values
 * have no entries.
 */
function* entriesOf(value: unknown): Generator<readonly [string | number, unknown], void, void> {
  if (Array.isArray(value)) {
    yield* value.entries();
  } else if (isMap(value)) {
    for (const name in value) {
      if (Object.hasOwn(value, name)) yield [name, value[name]];
    }
  }
}

/** Returns the names of all properties that a schema contains at any place. */
function propertyNames(schema: unknown): ReadonlySet<string> {
  const names = new Set<string>();
  const visit = (part: unknown): void => {
    if (typeof part !== 'object' || part === null) return;
    for (const [key, inner] of Object.entries(part)) {
      if (key === 'properties') for (const name of Object.keys(Object(inner))) names.add(name);
      visit(inner);
    }
  };
  visit(schema);
  return names;
}

/** Copies values, with only the first entries of each list and map. */
class Beginning {
  readonly #entries: number;
  readonly #names: ReadonlySet<string>;
  readonly #lacking: Map<string, object>;

  /**
   * @param entries - maximum number of entries to copy from each list and map
   * @param names - keys of maps that are always copied
   * @param lacking - receives each list or map of which only a part was copied. The key is its path
   */
  constructor(entries: number, names: ReadonlySet<string>, lacking: Map<string, object>) {
    this.#entries = entries;
    this.#names = names;
    this.#lacking = lacking;
  }

  of(value: unknown, path: string): unknown {
    if (Array.isArray(value)) {
      if (value.length > this.#entries) this.#note(path, value);
      return value.slice(0, this.#entries).map((item, at) => this.of(item, `${path}/${at}`));
    }
    return isMap(value) ? this.#ofMap(value, path) : value;
  }

  #ofMap(map: Readonly<Record<string, unknown>>, path: string): object {
    const copy: Record<string, unknown> = Object.create(null);
    let left = this.#entries;
    for (const [name, item] of entriesOf(map)) {
      if (left === 0) {
        this.#note(path, map);
        break;
      }
      left -= 1;
      copy[name] = this.of(item, `${path}/${name}`);
    }
    for (const name of this.#names) {
      if (!Object.hasOwn(copy, name) && Object.hasOwn(map, name))
        copy[name] = this.of(map[name], `${path}/${name}`);
    }
    return copy;
  }

  #note(path: string, container: object): void {
    if (!this.#lacking.has(path)) this.#lacking.set(path, container);
  }
}
