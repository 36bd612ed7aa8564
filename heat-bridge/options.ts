/**
 * Options in the section `saltbridge: bridge:`. Each extension of the bridge has its own
 * subsections with their own schemas.
 */
import type { Static, TSchema } from 'typebox';
import Type from 'typebox';
import { compileSchema, schemaMistakes, type ValuePath } from '#runtime';
import { BridgeError } from './errors.ts';

/** Subsections of `saltbridge: bridge:`, not validated. Each extension validates its own. */
export interface BridgeSections {
  /** Files and directories with the catalog's definitions. */
  readonly catalog?: readonly string[];
  readonly runs?: unknown;
  readonly keystone?: unknown;
  readonly handles?: unknown;
  readonly enroll?: unknown;
  readonly deployments?: unknown;
  readonly murano?: unknown;
  readonly guests?: unknown;
}

const Catalog = Type.Array(Type.String({ minLength: 1, maxLength: 4096 }));

/**
 * Checks the names of the subsections.
 * @param names - names of the subsections that enabled extensions read
 * @throws BridgeOptionsError
 */
export function parseSections(
  value: unknown,
  names: readonly (keyof BridgeSections)[],
): BridgeSections {
  const sections = names.map((name): [string, TSchema] => [
    name,
    Type.Optional(name === 'catalog' ? Catalog : Type.Unknown()),
  ]);
  const schema = Type.Object(Object.fromEntries(sections), { additionalProperties: false });
  return parseSection('bridge', schema, value ?? {}) as BridgeSections; // of these names alone
}

/** Error in the options of the bridge. */
export interface SectionProblem {
  /**
   * Path of keys below `saltbridge`, separated by `:`, for example `bridge:handles`. `[0]` is the
   * first element of a list.
   */
  readonly key: string;
  readonly problem: string;
  /** File that contains the error. Absent if the error is in the configuration itself. */
  readonly file?: string;
  /** Line of the error in `file`. 0 if the error concerns the whole file. */
  readonly line?: number;
}

/**
 * Parses a section by its schema.
 * @param name - name of the section in messages, for example `bridge:handles`
 * @throws BridgeOptionsError with all errors; their messages quote only numbers, never other values
 */
export function parseSection<S extends TSchema>(
  name: string,
  schema: S,
  value: unknown,
): Static<S> {
  const check = compileSchema(schema);
  if (check.Check(value)) return check.Parse(value);
  throw new BridgeOptionsError(
    schemaMistakes(schema, value).map(({ path, problem }) => ({
      key: `saltbridge:${name}${keyText(path)}`,
      problem,
    })),
  );
}

/**
 * Returns the steps of a path as text that can be appended to the name of an option. For example,
 * `['masters', 0]` gives `:masters[0]`.
 */
export function keyText(path: ValuePath): string {
  return path.map((step) => (typeof step === 'number' ? `[${step}]` : `:${step}`)).join('');
}

/** Parses text that {@link keyText} returned. */
export function keyPath(text: string): ValuePath {
  return text
    .split(/:|(?=\[\d+\])/)
    .filter((step) => step !== '')
    .map((step) => {
      const [, index] = /^\[(\d+)\]$/.exec(step) ?? [];
      return index === undefined ? step : Number(index);
    });
}

/**
 * Parses each element of a list. If elements are invalid, collects the errors of all of them.
 * @param key - key of the list
 * @throws BridgeOptionsError
 */
export function attemptEach<T, R>(
  items: readonly T[],
  key: string,
  read: (item: T) => R,
): readonly R[] {
  const problems: SectionProblem[] = [];
  const done = items.flatMap((item, index) => {
    try {
      return [read(item)];
    } catch (cause) {
      const problem = cause instanceof Error ? cause.message : 'cannot be read';
      problems.push({ key: `${key}[${index}]`, problem });
      return [];
    }
  });
  if (problems.length > 0) throw new BridgeOptionsError(problems);
  return done;
}

/** Error for invalid options under `saltbridge: bridge:`. */
export class BridgeOptionsError extends BridgeError {
  declare readonly problems: readonly SectionProblem[];

  constructor(problems: readonly SectionProblem[], options?: ErrorOptions) {
    const text = problems.map(({ key, problem }) => `${key}: ${problem}`).join('\n');
    super('ERR_BRIDGE_OPTIONS', text, options);
    // Not enumerable: otherwise a log line would contain the problems twice.
    Object.defineProperty(this, 'problems', { value: problems, enumerable: false });
  }
}
