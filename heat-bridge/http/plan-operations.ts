/** What routes of plans take and give. */
import type { Static, TSchema } from 'typebox';
import Type from '#typebox';
import { Compile } from '#typebox/compile';
import type { Parameters } from '../catalog/argument-values.ts';
import type { PlanRequest } from '../plans/request.ts';
import { type Described, RunResult } from './command-operations.ts';
import { readForm } from './form.ts';
import { described } from './operation.ts';

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 4096 });
const Target = Type.Union([
  Text,
  Type.Array(Text, { minItems: 1, maxItems: 100_000 }),
  Type.Object({ target: Text, targetType: Text }, strict),
]);
const PlanForm = Type.Object(
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
const planForm = Compile(PlanForm);

/** @throws BridgeError ERR_COMMAND_PARAMETERS, without a value */
export function readPlanRun(body: unknown): PlanRequest {
  const { groups, params, ...rest }: Static<typeof PlanForm> = readForm(planForm, body);
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
const Group = Type.Object({
  description: Type.Optional(word),
  min: Type.Optional(Type.Integer()),
  max: Type.Optional(Type.Integer()),
  from: Type.Optional(word),
  select: Type.Optional(oneOf('first', 'rest')),
});
const Plan = Type.Object({
  name: word,
  description: word,
  version: Type.Integer(),
  parameters: Type.Unknown(),
  secret: texts,
  groups: Type.Record(Type.String(), Group),
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
const StepResult = Type.Object({
  step: word,
  command: word,
  status: oneOf('succeeded', 'failed', 'skipped'),
  results: Type.Array(RunResult),
  runs: texts,
  reason: Type.Optional(word),
});
const Outcome = Type.Object({
  id: word,
  plan: word,
  status: oneOf('succeeded', 'partial', 'failed', 'timeout', 'cancelled', 'interrupted'),
  steps: Type.Array(StepResult),
  undone: Type.Array(StepResult),
  failedStep: Type.Optional(word),
});
const about = { step: word, kind: oneOf('do', 'undo') };
const Counts = { all: Type.Integer(), ended: Type.Integer() };
/** One line of a run. */
const Told = Type.Union([
  Type.Object({
    type: Type.Literal('begun'),
    id: word,
    groups: Type.Record(Type.String(), texts),
    isRepeated: Type.Boolean(),
  }),
  Type.Object({
    type: Type.Literal('step'),
    ...about,
    state: oneOf('running', 'succeeded', 'failed'),
    minions: Type.Object({ ...Counts, succeeded: Type.Integer() }),
    steps: Type.Object(Counts),
    reason: Type.Optional(word),
  }),
  Type.Object({ type: Type.Literal('result'), ...about, result: RunResult }),
  Type.Object({ type: Type.Literal('outcome'), outcome: Outcome }),
  Type.Object({ type: Type.Literal('error'), code: word, message: word }),
]);
const lines = { answer: Told, answerTypes: ['application/x-ndjson'] } as const;

/** Of each route, what it is. */
export const planOperations: Readonly<
  Record<'list' | 'show' | 'run' | 'follow' | 'cancel', Described>
> = {
  list: described({
    summary: 'The plans of the catalog',
    answer: Type.Object({ plans: Type.Array(Plan) }),
  }),
  show: described({ summary: 'One plan', answer: Plan }),
  run: described({
    summary: 'Runs a plan; with Prefer: respond-async (202) only its beginning is told',
    body: PlanForm,
    ...lines,
  }),
  follow: described({
    summary: "What a run of a plan of the caller's tells, from its beginning",
    ...lines,
  }),
  cancel: described({
    summary: "Ends a run of a plan of the caller's, and takes back what is done",
    query: { undo: oneOf('true', 'false') },
    answer: Outcome,
  }),
};
