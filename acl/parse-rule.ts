/** Rules as they come from a file or a program: their form is checked here, their patterns later. */
import type { TSchema } from 'typebox';
import type { Validator } from 'typebox/compile';
import Type from '#typebox';
import { Compile } from '#typebox/compile';
import { PolicyError } from './errors.ts';
import type { PolicyRule, RuleAction } from './rule.ts';
import type { RuleOrigin } from './types.ts';

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 4096 });
const Pattern = Type.Union([Text, Type.Object({ regex: Text }, strict)]);
const Patterns = Type.Union([Pattern, Type.Array(Pattern, { minItems: 1 })]);
const Condition = Type.Union([Pattern, Type.Null()]);
const Arguments = Type.Object(
  {
    args: Type.Optional(Type.Array(Condition)),
    kwargs: Type.Optional(Type.Record(Type.String(), Condition)),
  },
  strict,
);
const facts = Type.Optional(Type.Literal('pillar'));
const call = { fun: Patterns, arguments: Type.Optional(Type.Array(Arguments, { minItems: 1 })) };
const Call = Type.Object(call, strict);

const SubjectSchema = Type.Object(
  {
    minion: Type.Optional(Patterns),
    grain: Type.Optional(Text),
    pillar: Type.Optional(Text),
    nodegroup: Type.Optional(Text),
    target: Type.Optional(Text),
    user: Type.Optional(Patterns),
    group: Type.Optional(Patterns),
    eauth: Type.Optional(Text),
    project: Type.Optional(Patterns),
    role: Type.Optional(Patterns),
    domain: Type.Optional(Patterns),
    service: Type.Optional(Patterns),
    token: Type.Optional(Patterns),
    except: Type.Optional(Patterns),
  },
  strict,
);

const resources: Readonly<Record<RuleAction, TSchema>> = {
  signal: Type.Object(
    {
      tag: Text,
      schema: Type.Optional(Type.Union([Type.Boolean(), Type.Object({})])),
      bytes: Type.Optional(Type.Integer({ minimum: 1 })),
    },
    strict,
  ),
  publish: Type.Object(
    { ...call, within: Type.Optional(Text), facts, environment: Type.Optional(Patterns) },
    strict,
  ),
  runner: Call,
  wheel: Call,
  command: Type.Object({ ...call, within: Type.Optional(Text), facts }, strict),
  mine: Type.Object({ fun: Patterns, owner: Type.Optional(Patterns), facts }, strict),
  'file-send': Type.Object({ path: Patterns }, strict),
  key: Type.Object({ operation: Patterns }, strict),
  subscribe: Type.Object({ tag: Patterns }, strict),
};

const checks: ReadonlyMap<string, Validator> = new Map(
  Object.entries(resources).map(([action, resource]) => [action, Compile(ruleSchema(resource))]),
);

function ruleSchema(resource: TSchema): TSchema {
  return Type.Object(
    {
      effect: Type.Optional(Type.Union([Type.Literal('allow'), Type.Literal('deny')])),
      subject: SubjectSchema,
      action: Type.String(),
      resource,
      rate: Type.Optional(Text),
      expires: Type.Optional(Text),
    },
    strict,
  );
}

/**
 * Reads one rule. Without `effect` it permits.
 * @param name its key in the file
 * @param value plain data: objects, lists, texts, numbers
 * @throws PolicyError ERR_POLICY_FORM
 */
export function parseRule(name: string, value: unknown, origin?: RuleOrigin): PolicyRule {
  const check = checks.get(actionOf(name, value));
  if (check === undefined) {
    const known = [...checks.keys()].join(', ');
    throw formError(name, 'action', `expected one of ${known}`);
  }
  const problem = firstProblem(check, value);
  if (problem !== undefined) throw formError(name, problem.field, problem.text);
  // The check has looked at every field of it, by its action.
  const rule = { effect: 'allow', ...(value as object), name } as PolicyRule;
  return origin === undefined ? rule : { ...rule, origin };
}

function actionOf(name: string, value: unknown): string {
  const isMap = typeof value === 'object' && value !== null && !Array.isArray(value);
  if (!isMap) throw formError(name, '', 'expected a map with subject, action and resource');
  return 'action' in value && typeof value.action === 'string' ? value.action : '';
}

function firstProblem(
  check: Validator,
  value: unknown,
): { readonly field: string; readonly text: string } | undefined {
  const [first] = check.Errors(value);
  if (first === undefined) return undefined;
  const field = first.instancePath.slice(1).replaceAll('/', '.');
  // What no schema describes is measured against the schema `false`.
  return { field, text: first.keyword === 'boolean' ? 'rules have no such field' : first.message };
}

function formError(rule: string, field: string, problem: string): PolicyError {
  return new PolicyError('ERR_POLICY_FORM', { rule, field }, problem);
}
