/** What a route says of itself, for /openapi.json. */
import type { TSchema } from 'typebox';

/** Who is asked for what: nothing; a session; credentials or a token in the body. */
export type OperationAccess = 'anybody' | 'session' | 'credentials' | 'token';

/** One method of one path. */
export interface Operation {
  readonly summary: string;
  readonly access: OperationAccess;
  /** What may stand in the query, by name. Default: nothing. */
  readonly query?: Readonly<Record<string, TSchema>>;
  /** The body. Default: none is looked at. */
  readonly body?: TSchema;
  /** Media types of the body, the usual one first. Default: JSON. */
  readonly bodyTypes?: readonly string[];
  /** What is answered. Default: anything. */
  readonly answer?: TSchema;
  /** Media types of the answer. Default: JSON. */
  readonly answerTypes?: readonly string[];
  /** What is answered where it is refused, if it is not what Salt's routes answer then. */
  readonly refusal?: TSchema;
  /** Of an answer. Default 200. */
  readonly status?: number;
  /** For a path with `:method`: what each of some values takes. */
  readonly variants?: Readonly<Record<string, Pick<Operation, 'access' | 'body'>>>;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What the route is, for whoever reads /openapi.json; also in routes of plugins. */
    readonly openapi?: Operation;
  }
}
