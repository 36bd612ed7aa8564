/** `saltbridge: bridge:`. Each extension of the bridge has its own section and schema. */
import type { Static, TSchema } from 'typebox';
import Type from 'typebox';
import { compileSchema, schemaMistakes, type ValuePath } from '#runtime';
import { BridgeError } from './errors.ts';

/** The sections as they are written. Each extension checks its own. */
export interface BridgeSections {
  /** Files and directories of the command catalog. */
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
 * @param names - sections that the enabled extensions have
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

/** A mistake in a section. */
export interface SectionProblem {
  /** Names of keys from `saltbridge` on, with `:` between them and `[0]` for the first of a list. */
  readonly key: string;
  readonly problem: string;
  /** The file that it is in, where that is not the configuration. */
  readonly file?: string;
  /** In that file; 0: the whole. */
  readonly line?: number;
}

/**
 * One section, looked at by its schema.
 * @param name - as it stands in the message: `bridge:handles`
 * @throws BridgeOptionsError with every mistake, and of values with numbers alone
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

/** What stands behind a key for a path below it. */
export function keyText(path: ValuePath): string {
  return path.map((step) => (typeof step === 'number' ? `[${step}]` : `:${step}`)).join('');
}

/** The path that {@link keyText} makes text of. */
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
 * Reads each item of a list.
 * @param key - of the list
 * @throws BridgeOptionsError with all that cannot be read
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
      const problem = cause instanceof Error ? cause.message : 'it cannot be read';
      problems.push({ key: `${key}[${index}]`, problem });
      return [];
    }
  });
  if (problems.length > 0) throw new BridgeOptionsError(problems);
  return done;
}

/** Options under `saltbridge: bridge:` that cannot be used. */
export class BridgeOptionsError extends BridgeError {
  declare readonly problems: readonly SectionProblem[];

  constructor(problems: readonly SectionProblem[], options?: ErrorOptions) {
    const text = problems.map(({ key, problem }) => `${key}: ${problem}`).join('\n');
    super('ERR_BRIDGE_OPTIONS', text, options);
    // A log would show them twice.
    Object.defineProperty(this, 'problems', { value: problems, enumerable: false });
  }
}
