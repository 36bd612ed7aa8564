/** Schemas of the routes of commands: bodies, results and lines of a run. */

import type { FastifySchema } from 'fastify';
import Type, { type Static, type TSchema } from 'typebox';
import { compileSchema } from '#runtime';
import { describeRoute, parseBody } from '../http/route-schema.ts';
import { runStateSchema } from '../http/run-state.ts';
import type { CommandRequest } from './command-request.ts';
import type { Parameters } from './parameters.ts';

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 4096 });
const RunBody = Type.Object(
  {
    target: Type.Union([Text, Type.Array(Text, { minItems: 1, maxItems: 100_000 })]),
    targetType: Type.Optional(Text),
    params: Type.Optional(Type.Object({})),
    idempotencyKey: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    project: Type.Optional(Type.String({ maxLength: 255 })),
    /** Milliseconds since 1970. */
    deadline: Type.Optional(Type.Number({ minimum: 0 })),
  },
  strict,
);
const compiledRunBody = compileSchema(RunBody);

/** @throws BridgeError ERR_COMMAND_PARAMETERS, without a value */
export function parseRunBody(body: unknown): CommandRequest {
  const { target, targetType, params, ...rest }: Static<typeof RunBody> = parseBody(
    compiledRunBody,
    body,
  );
  const tgtType = targetType ?? (typeof target === 'string' ? 'glob' : 'list');
  // JSON, as it came; the command's schema looks at it.
  return { ...rest, target: { tgt: target, tgtType }, params: (params ?? {}) as Parameters };
}

const word: TSchema = Type.String();
const texts: TSchema = Type.Array(word);
const CommandSchema = Type.Object({
  name: word,
  description: word,
  version: Type.Integer(),
  function: word,
  state: Type.Optional(word),
  standing: Type.Union(['reviewed', 'unsafe', 'unknown'].map((it) => Type.Literal(it))),
  parameters: Type.Unknown(),
  secret: texts,
  timeout: Type.Number(),
  retries: Type.Integer(),
  idempotent: Type.Boolean(),
  concurrency: Type.Object({}),
  returns: Type.Optional(Type.Unknown()),
  deprecated: Type.Optional(word),
});
const resultStates = ['succeeded', 'failed', 'silent', 'reconnecting', 'unfinished', 'unaddressed'];
/** What became of a command at a minion. */
export const RunResultSchema: TSchema = Type.Object({
  minion: word,
  state: Type.Union(resultStates.map((it) => Type.Literal(it))),
  return: Type.Optional(Type.Unknown()),
  retcode: Type.Optional(Type.Unknown()),
  reason: Type.Optional(word),
});
const OutcomeSchema = Type.Object({
  id: word,
  command: word,
  status: Type.Union(
    ['succeeded', 'failed', 'timeout', 'cancelled', 'interrupted'].map((it) => Type.Literal(it)),
  ),
  results: Type.Array(RunResultSchema),
  jids: texts,
  isNarrowed: Type.Optional(Type.Literal(true)),
});
/** One line of a run. */
const RunUpdateSchema = Type.Union([
  Type.Object({
    type: Type.Literal('begun'),
    id: word,
    minions: texts,
    missing: texts,
    isRepeated: Type.Boolean(),
  }),
  Type.Object({
    type: Type.Union([Type.Literal('published'), Type.Literal('running')]),
    jid: word,
    minions: texts,
  }),
  Type.Object({ type: Type.Literal('result'), jid: word, result: RunResultSchema }),
  Type.Object({ type: Type.Literal('outcome'), outcome: OutcomeSchema }),
  Type.Object({ type: Type.Literal('error'), code: word, message: word }),
]);
const ndjsonAnswer = { answer: RunUpdateSchema, answerTypes: ['application/x-ndjson'] } as const;

/** Of each route, what it is. */
export const commandRouteSchemas: Readonly<
  Record<'list' | 'show' | 'run' | 'follow' | 'outcome' | 'cancel', FastifySchema>
> = {
  list: describeRoute({
    summary: 'The commands of the catalog',
    answer: Type.Object({ commands: Type.Array(CommandSchema) }),
  }),
  show: describeRoute({ summary: 'One command', answer: CommandSchema }),
  run: describeRoute({
    summary: 'Calls a command; with Prefer: respond-async (202) only its beginning is told',
    body: RunBody,
    ...ndjsonAnswer,
  }),
  follow: describeRoute({
    summary: "What a run of the caller's tells, from its beginning",
    ...ndjsonAnswer,
  }),
  outcome: describeRoute({
    summary: "Whether a run of the caller's has ended, and its outcome; answers at once",
    answer: runStateSchema(OutcomeSchema),
  }),
  cancel: describeRoute({ summary: "Ends a run of the caller's", answer: OutcomeSchema }),
};
