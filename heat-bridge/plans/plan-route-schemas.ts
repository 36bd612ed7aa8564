/** Schemas of the routes of plans: bodies, results and lines of a run. */

import type { FastifySchema } from 'fastify';
import Type, { type Static, type TSchema } from 'typebox';
import { compileSchema } from '#runtime';
import { RunResultSchema } from '../commands/command-route-schemas.ts';
import type { Parameters } from '../commands/parameters.ts';
import { describeRoute, parseBody } from '../http/route-schema.ts';
import { runStateSchema } from '../http/run-state.ts';
import type { PlanRequest } from './plan-request.ts';

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 4096 });
const Target = Type.Union([
  Text,
  Type.Array(Text, { minItems: 1, maxItems: 100_000 }),
  Type.Object({ target: Text, targetType: Text }, strict),
]);
const PlanRunBody = Type.Object(
  {
    groups: Type.Record(Type.String(), Target, { maxProperties: 32 }),
    params: Type.Optional(Type.Object({})),
    idempotencyKey: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    project: Type.Optional(Type.String({ maxLength: 255 })),
    /** Milliseconds since 1970. */
    deadline: Type.Optional(Type.Number({ minimum: 0 })),
  },
  strict,
);
const compiledPlanRunBody = compileSchema(PlanRunBody);

/** @throws BridgeError ERR_COMMAND_PARAMETERS, without a value */
export function parsePlanRunBody(body: unknown): PlanRequest {
  const { groups, params, ...rest }: Static<typeof PlanRunBody> = parseBody(
    compiledPlanRunBody,
    body,
  );
  const targets = Object.entries(groups).map(([name, target]) => {
    if (typeof target === 'string' || Array.isArray(target)) return [name, target];
    return [name, { tgt: target.target, tgtType: target.targetType }];
  });
  // JSON, as it came; the schemas of the plan and its commands look at it.
  return { ...rest, groups: Object.fromEntries(targets), params: (params ?? {}) as Parameters };
}

const word: TSchema = Type.String();
const texts: TSchema = Type.Array(word);
const oneOf = (...words: readonly string[]): TSchema =>
  Type.Union(words.map((it) => Type.Literal(it)));
const GroupSchema = Type.Object({
  description: Type.Optional(word),
  min: Type.Optional(Type.Integer()),
  max: Type.Optional(Type.Integer()),
  from: Type.Optional(word),
  select: Type.Optional(oneOf('first', 'rest')),
});
const PlanSchema = Type.Object({
  name: word,
  description: word,
  version: Type.Integer(),
  parameters: Type.Unknown(),
  secret: texts,
  groups: Type.Record(Type.String(), GroupSchema),
  steps: Type.Array(
    Type.Object({
      name: word,
      command: word,
      group: word,
      needs: texts,
      onFailure: oneOf('stop', 'continue'),
      undo: Type.Optional(word),
    }),
  ),
  timeout: Type.Number(),
  parallel: Type.Integer(),
  deprecated: Type.Optional(word),
});
const StepResultSchema = Type.Object({
  step: word,
  command: word,
  status: oneOf('succeeded', 'failed', 'skipped'),
  results: Type.Array(RunResultSchema),
  runs: texts,
  reason: Type.Optional(word),
});
const PlanOutcomeSchema = Type.Object({
  id: word,
  plan: word,
  status: oneOf('succeeded', 'partial', 'failed', 'timeout', 'cancelled', 'interrupted'),
  steps: Type.Array(StepResultSchema),
  undone: Type.Array(StepResultSchema),
  failedStep: Type.Optional(word),
});
const stepFields = { step: word, kind: oneOf('do', 'undo') };
const Counts = { all: Type.Integer(), ended: Type.Integer() };
/** One line of a run. */
const PlanUpdateSchema = Type.Union([
  Type.Object({
    type: Type.Literal('begun'),
    id: word,
    groups: Type.Record(Type.String(), texts),
    narrowed: texts,
    isRepeated: Type.Boolean(),
  }),
  Type.Object({
    type: Type.Literal('step'),
    ...stepFields,
    state: oneOf('running', 'succeeded', 'failed'),
    minions: Type.Object({ ...Counts, succeeded: Type.Integer() }),
    steps: Type.Object(Counts),
    reason: Type.Optional(word),
  }),
  Type.Object({ type: Type.Literal('result'), ...stepFields, result: RunResultSchema }),
  Type.Object({ type: Type.Literal('outcome'), outcome: PlanOutcomeSchema }),
  Type.Object({ type: Type.Literal('error'), code: word, message: word }),
]);
const ndjsonAnswer = { answer: PlanUpdateSchema, answerTypes: ['application/x-ndjson'] } as const;

/** Of each route, what it is. */
export const planRouteSchemas: Readonly<
  Record<'list' | 'show' | 'run' | 'follow' | 'outcome' | 'cancel', FastifySchema>
> = {
  list: describeRoute({
    summary: 'The plans of the catalog',
    answer: Type.Object({ plans: Type.Array(PlanSchema) }),
  }),
  show: describeRoute({ summary: 'One plan', answer: PlanSchema }),
  run: describeRoute({
    summary: 'Runs a plan; with Prefer: respond-async (202) only its beginning is told',
    body: PlanRunBody,
    ...ndjsonAnswer,
  }),
  follow: describeRoute({
    summary: "What a run of a plan of the caller's tells, from its beginning",
    ...ndjsonAnswer,
  }),
  outcome: describeRoute({
    summary: "Whether a run of a plan of the caller's has ended, and its outcome; answers at once",
    answer: runStateSchema(PlanOutcomeSchema),
  }),
  cancel: describeRoute({
    summary: "Ends a run of a plan of the caller's, and takes back what is done",
    query: { undo: oneOf('true', 'false') },
    answer: PlanOutcomeSchema,
  }),
};
