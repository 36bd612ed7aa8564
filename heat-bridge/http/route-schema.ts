/**
 * Creates the schemas of HTTP routes. The server validates requests against them, and publishes
 * them as OpenAPI.
 */

import type { FastifySchema } from 'fastify';
import Type, { type Static, type TSchema, type TUnsafe } from 'typebox';
import { plainNumbers } from '#minion-protocol';
import { nearestName, type RouteOperation, routeSchema } from '#runtime';
import { isPlainMap } from '../commands/command-definition.ts';
import { BridgeError, type BridgeErrorCode } from '../errors.ts';

/** Returns the schema of a read-only list. */
export function listOf<S extends TSchema>(item: S): TUnsafe<readonly Static<S>[]> {
  return Type.Unsafe<readonly Static<S>[]>(Type.Array(item));
}

/** Schema of the body of an error response, by content type. */
const refusal: Readonly<Record<string, TSchema>> = {
  'application/json': Type.Object({
    error: Type.Object({ code: Type.String(), message: Type.String() }),
  }),
};

/**
 * Returns the schema of a route.
 * @param operation - description of the route. `access` defaults to `session`: the token of a
 * session, or a Keystone token
 */
export function describeRoute(
  operation: Omit<RouteOperation, 'access' | 'refusal'> & Partial<Pick<RouteOperation, 'access'>>,
): FastifySchema {
  return routeSchema({ access: 'session', refusal, ...operation });
}

/** Compiled schema, which validates values. */
interface CompiledSchema<T> {
  Errors(value: unknown): readonly {
    readonly instancePath: string;
    readonly keyword: string;
    readonly message: string;
  }[];
  Parse(value: unknown): T;
}

/**
 * Parses a value by its schema. Floats without a fraction become numbers.
 * @param whole - name for the whole value in messages
 * @throws BridgeError with the given code; its message contains no values
 */
export function parseForm<T>(
  form: CompiledSchema<T>,
  given: unknown,
  code: BridgeErrorCode,
  whole = 'the body',
): T {
  const value = plainNumbers(given);
  const [first] = form.Errors(value);
  if (first === undefined) return form.Parse(value);
  const field = first.instancePath.slice(1).replaceAll('/', '.') || whole;
  const problem = first.keyword === 'boolean' ? 'unknown field' : first.message;
  throw new BridgeError(code, `${field}: ${problem}`);
}

/**
 * Parses the body of a request for a run. Converts each `Float` (a float without a fraction, such
 * as `1.0`) to a plain number, except in the field `params`.
 * @throws BridgeError ERR_COMMAND_PARAMETERS; its message contains no values
 */
export function parseBody<T>(form: CompiledSchema<T> & { Type(): TSchema }, body: unknown): T {
  const plain = plainNumbers(body);
  const [first] = form.Errors(plain);
  if (first === undefined) {
    const parsed = form.Parse(plain);
    // The schema of the command validates the parameters.
    return isPlainMap(body) && Object.hasOwn(body, 'params')
      ? { ...parsed, params: body.params }
      : parsed;
  }
  // TypeBox reports an unknown field as a mismatch with the schema `false`. The message must not
  // repeat the field's name, which the caller chose.
  const isUnknown = first.keyword === 'boolean';
  const place = isUnknown ? 'a field' : first.instancePath.split('/')[1] || 'the body';
  const problem = isUnknown ? unknownField(form.Type(), first.instancePath) : first.message;
  throw new BridgeError('ERR_COMMAND_PARAMETERS', `${place}: ${problem}`);
}

/** Returns the message for an unknown field, with the most similar known field. */
function unknownField(schema: TSchema, instancePath: string): string {
  const known = Type.IsObject(schema) ? Object.keys(schema.properties) : [];
  const nearest = nearestName(instancePath.slice(1), known);
  const proposal =
    nearest === undefined ? `known fields are ${known.join(', ')}` : `did you mean ${nearest}?`;
  return known.length === 0 ? 'unknown field' : `unknown field; ${proposal}`;
}
