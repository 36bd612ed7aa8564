/** `saltbridge: bridge:`; each part of the bridge has its own section and schema. */
import type { Static, TSchema } from 'typebox';
import Type from '#typebox';
import { Compile } from '#typebox/compile';
import { renameProblem } from '../runtime/index.ts';
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
    /** See `murano/`. */
    murano: Type.Optional(Type.Unknown()),
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
  readonly murano?: unknown;
  readonly runs?: unknown;
}

/** @throws BridgeError ERR_BRIDGE_OPTIONS */
export function parseSections(value: unknown): BridgeSections {
  return parseSection('bridge', BridgeSection, value ?? {});
}

/**
 * One section, looked at by its schema.
 * @param name - as it stands in the message: `bridge:handles`
 * @throws BridgeError ERR_BRIDGE_OPTIONS, with the key, and never with the value
 */
export function parseSection<S extends TSchema>(
  name: string,
  schema: S,
  value: unknown,
): Static<S> {
  const check = Compile(schema);
  const [first] = check.Errors(value);
  if (first === undefined) return check.Parse(value);
  const key = `${name}${first.instancePath.replaceAll('/', ':')}`;
  // What no schema describes is measured against the schema `false`.
  const problem =
    first.keyword === 'boolean'
      ? (renameProblem(name, first.instancePath.slice(1)) ?? 'there is no such key')
      : first.message;
  throw new BridgeError('ERR_BRIDGE_OPTIONS', `saltbridge:${key}: ${problem}`);
}
