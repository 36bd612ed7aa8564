/**
 * Declares the entries of the table of RPC methods. An entry contains everything that the server,
 * the access check, the client and the documentation need.
 */

import type { Static, TSchema } from 'typebox';
import { compileSchema } from '#runtime';
import type {
  AuditRequester,
  InProcessApi,
  MasterApi,
  MethodAudit,
  RpcAccess,
  RpcMethod,
  WholeRequest,
} from '../api/index.ts';

/** Parameters of a method, without the user's token. The client adds the token. */
type Given<S extends TSchema> = Omit<Static<S>, 'token'>;

/** Function that converts the arguments of the API method to RPC parameters. */
type ArgumentMapping<S extends TSchema> = ((...args: never) => Given<S>) | undefined;

/**
 * Arguments with which TypeScript code calls the method. If the method has no `args` function, the
 * only argument is the object of parameters.
 */
type ArgumentsOf<S extends TSchema, F> = F extends (...args: infer A) => unknown
  ? A
  : Record<never, never> extends Given<S>
    ? [parameters?: Given<S>]
    : [parameters: Given<S>];

type Row<S extends TSchema, F, R> = RpcMethod<
  ArgumentsOf<S, F>,
  R,
  WholeRequest<ArgumentsOf<S, F>>
>;

/** Declaration of an RPC method. */
interface MethodDefinition<S extends TSchema, F extends ArgumentMapping<S>, R> {
  /** Schema of the parameters. */
  readonly parameters: S;
  /**
   * Function that converts the arguments of the API method to the RPC parameters. Default: the
   * first argument is the object of parameters.
   */
  readonly args?: F;
  /** Access level that the method requires. Default: `everything`. */
  readonly access?: RpcAccess;
  /**
   * Whether the method can safely be repeated. See {@link RpcMethod.isIdempotent}. Default: false.
   */
  readonly isIdempotent?: boolean;
  /**
   * Calls the method.
   * @param by - requester for the audit log. `undefined` for the local interface
   */
  readonly call: (
    api: InProcessApi,
    parameters: Static<S>,
    signal: AbortSignal,
    by?: AuditRequester,
  ) => R;
  /**
   * Definition of the record that a call adds to the audit log. Absent for methods that only read,
   * whose calls are not recorded.
   */
  readonly audit?: MethodAudit<Static<S>, NoInfer<Awaited<R>>>;
}

/** Declares a method that returns a single value. */
export function method<S extends TSchema, T, F extends ArgumentMapping<S> = undefined>(
  definition: MethodDefinition<S, F, Promise<T>>,
): Row<S, F, Promise<T>> {
  return rowOf<S, F, Promise<T>>(definition, { isStream: false });
}

/** Declares a method that returns a single value and can safely be repeated. */
export function query<S extends TSchema, T, F extends ArgumentMapping<S> = undefined>(
  definition: Omit<MethodDefinition<S, F, Promise<T>>, 'isIdempotent'>,
): Row<S, F, Promise<T>> {
  return rowOf<S, F, Promise<T>>({ ...definition, isIdempotent: true }, { isStream: false });
}

/** Declares a method that returns a stream. The stream starts when it is first read. */
export function streamMethod<S extends TSchema, T, F extends ArgumentMapping<S> = undefined>(
  definition: MethodDefinition<S, F, AsyncIterable<T> | Promise<AsyncIterable<T>>>,
): Row<S, F, AsyncIterable<T>> {
  return rowOf<S, F, AsyncIterable<T>>(definition, { isStream: true });
}

/**
 * Declares a method that returns a live stream, for example of events. Its promise resolves when
 * the stream has started. The stream does not wait for slow readers, but disconnects them.
 */
export function liveStreamMethod<S extends TSchema, T, F extends ArgumentMapping<S> = undefined>(
  definition: MethodDefinition<S, F, Promise<AsyncIterable<T>>>,
): Row<S, F, Promise<AsyncIterable<T>>> {
  return rowOf<S, F, Promise<AsyncIterable<T>>>(definition, { isStream: true, isLive: true });
}

/** Declaration of a method of an extension. The method receives the master's public interface. */
type ExtensionDefinition<S extends TSchema, F extends ArgumentMapping<S>, R> = Omit<
  MethodDefinition<S, F, R>,
  'call'
> & { readonly call: (api: MasterApi, parameters: Static<S>, signal: AbortSignal) => R };

/** Declares a method of an extension that returns a single value. */
export function extensionMethod<S extends TSchema, T, F extends ArgumentMapping<S> = undefined>(
  definition: ExtensionDefinition<S, F, Promise<T>>,
): Row<S, F, Promise<T>> {
  return method<S, T, F>(definition);
}

/** Declares a method of an extension that returns a stream. */
export function extensionStream<S extends TSchema, T, F extends ArgumentMapping<S> = undefined>(
  definition: ExtensionDefinition<S, F, AsyncIterable<T> | Promise<AsyncIterable<T>>>,
): Row<S, F, AsyncIterable<T>> {
  return streamMethod<S, T, F>(definition);
}

function rowOf<S extends TSchema, F extends ArgumentMapping<S>, R>(
  definition: MethodDefinition<S, F, R | Promise<R>>,
  kind: Pick<RpcMethod, 'isStream' | 'isLive'>,
): Row<S, F, R> {
  const { parameters, args, access = 'everything', isIdempotent = false, call, audit } = definition;
  const toParameters = args ?? ((given: object = {}): object => given);
  const check = compileSchema(parameters);
  return {
    ...kind,
    parameters,
    access,
    isIdempotent,
    ...(audit === undefined ? {} : { audit }),
    arity: args?.length ?? (takesNothing(parameters) ? 0 : 1),
    toParameters: toParameters as (...args: ArgumentsOf<S, F>) => object,
    complaint: (given) => {
      const [first] = check.Errors(given);
      if (first === undefined) return undefined;
      const name = first.instancePath.slice(1).replaceAll('/', '.') || 'parameters';
      // The validator reports a property that the schema does not define as a mismatch with the
      // schema `false`.
      return first.keyword === 'boolean' ? `unknown parameter ${name}` : `${name} ${first.message}`;
    },
    invoke: (api, given, signal, by) => call(api, check.Parse(given), signal, by),
  };
}

function takesNothing(parameters: TSchema): boolean {
  if (!('properties' in parameters)) return false;
  return Object.keys(Object(parameters.properties)).length === 0;
}
