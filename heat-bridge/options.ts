/** `saltbridge: bridge:`; each part of the bridge has its own section and schema. */
import type { Static, TSchema } from 'typebox';
import Type from '#typebox';
import { Compile } from '#typebox/compile';
import { nearestName, renameProblem } from '../runtime/index.ts';
import { BridgeError } from './errors.ts';

const strictObject = { additionalProperties: false };

const BridgeSection = Type.Object(
  {
    /** Directories of the command catalog. */
    catalog: Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 4096 }))),
    /** See `signals/`. */
    handles: Type.Optional(Type.Unknown()),
    /** See `enroll/`. */
    enroll: Type.Optional(Type.Unknown()),
    /** See `keystone/`. */
    keystone: Type.Optional(Type.Unknown()),
    /** See `deployments/`. */
    deployments: Type.Optional(Type.Unknown()),
    /** See `guests/`. */
    guests: Type.Optional(Type.Unknown()),
    /** See `run/`. */
    runs: Type.Optional(Type.Unknown()),
  },
  strictObject,
);

/** The sections, each as somebody wrote it; its part looks at it. */
export interface BridgeSections {
  readonly catalog?: readonly string[];
  readonly handles?: unknown;
  readonly enroll?: unknown;
  readonly keystone?: unknown;
  readonly deployments?: unknown;
  readonly guests?: unknown;
  readonly runs?: unknown;
}

/** @throws BridgeOptionsError */
export function parseSections(value: unknown): BridgeSections {
  return parseSection('bridge', BridgeSection, value ?? {});
}

/** A mistake in a section. */
export interface SectionProblem {
  /** Names of keys from `saltbridge` on, with `:` between them. */
  readonly key: string;
  readonly problem: string;
}

/**
 * One section, looked at by its schema.
 * @param name - as it stands in the message: `bridge:handles`
 * @throws BridgeOptionsError with every key that is wrong, and of values with numbers alone
 */
export function parseSection<S extends TSchema>(
  name: string,
  schema: S,
  value: unknown,
): Static<S> {
  const check = Compile(schema);
  const problems = new Map<string, string>();
  const errors = [...check.Errors(value)];
  for (const error of errors) {
    // Told with the name of each beside it.
    if (error.keyword === 'additionalProperties' && errors.length > 1) continue;
    // Alternatives of a schema report each, and members of a value what the value reports.
    const [member = ''] = error.instancePath.split('/').slice(1, 2);
    if (problems.has(member)) continue;
    problems.set(member, sectionProblem(name, schema, value, error));
  }
  if (problems.size === 0) return check.Parse(value);
  throw new BridgeOptionsError(
    [...problems].map(([member, problem]) => ({
      key: ['saltbridge', name, ...(member === '' ? [] : [member])].join(':'),
      problem,
    })),
  );
}

type SchemaError = ReturnType<ReturnType<typeof Compile>['Errors']>[number];

function sectionProblem(
  name: string,
  schema: TSchema,
  value: unknown,
  { instancePath, keyword, message, params }: SchemaError,
): string {
  const [member = '', ...inner] = instancePath.split('/').slice(1);
  const place = inner.length === 0 ? '' : `${inner.join(':')}: `;
  // What no schema describes is measured against the schema `false`.
  if (keyword === 'boolean') {
    const unknown = inner.at(-1) ?? member;
    const known = inner.length === 0 && Type.IsObject(schema) ? Object.keys(schema.properties) : [];
    return `${place}${renameProblem(name, unknown) ?? unknownKey(unknown, known)}`;
  }
  const found = valueAt(value, instancePath);
  const bound = 'limit' in params ? params.limit : undefined;
  if (typeof found === 'number' && typeof bound === 'number') {
    return `${place}${found} is ${found > bound ? 'over' : 'under'} ${bound}`;
  }
  return `${place}${message}`;
}

function unknownKey(name: string, known: readonly string[]): string {
  const nearest = nearestName(name, known);
  const proposal =
    nearest === undefined ? `known are ${known.join(', ')}` : `did you mean ${nearest}?`;
  return known.length === 0 ? 'there is no such key' : `there is no such key; ${proposal}`;
}

function valueAt(value: unknown, instancePath: string): unknown {
  let found = value;
  for (const name of instancePath.split('/').slice(1)) {
    if (typeof found !== 'object' || found === null) return undefined;
    found = new Map<string, unknown>(Object.entries(found)).get(name);
  }
  return found;
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
