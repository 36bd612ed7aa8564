/** What a route says of itself, for /openapi.json. */
import type { TSchema } from 'typebox';
import Type from '#typebox';

/** Who is asked for what: nothing; a session; credentials or a token in the body. */
export type OperationAccess = 'anybody' | 'session' | 'credentials' | 'token';

/** A code, as docs/errors.md has them; a fault of the server has Salt's text in place of one. */
export const usualRefusal: Readonly<Record<string, TSchema>> = {
  'application/json': Type.Object({
    status: Type.Integer(),
    error: Type.Optional(Type.String()),
    message: Type.Optional(Type.String()),
  }),
};

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
  /** Of an answer. Default 200. */
  readonly status?: number;
  /** What is answered to whom it refuses, by media type. Default: {@link usualRefusal}. */
  readonly refusal?: Readonly<Record<string, TSchema>>;
  /** For a path with `:method`: what each of some values takes. */
  readonly variants?: Readonly<Record<string, Pick<Operation, 'access' | 'body'>>>;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What the route is, for whoever reads /openapi.json; also in routes of plugins. */
    readonly openapi?: Operation;
  }
}
