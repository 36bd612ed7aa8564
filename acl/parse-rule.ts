/** Parses rules. This module validates their form; `compile-rule.ts` validates their patterns. */

import Type, { type TSchema } from 'typebox';
import {
  compileSchema,
  nearestName,
  type SchemaCheck,
  schemaMistakes,
  type ValuePath,
} from '#runtime';
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
  pillar: Type.Object({ environment: Patterns }, strict),
  key: Type.Object({ operation: Patterns }, strict),
  subscribe: Type.Object({ tag: Patterns }, strict),
};

const schemas: ReadonlyMap<string, TSchema> = new Map(
  Object.entries(resources).map(([action, resource]) => [action, ruleSchema(resource)]),
);
const checks: ReadonlyMap<string, SchemaCheck<TSchema>> = new Map(
  [...schemas].map(([action, schema]) => [action, compileSchema(schema)]),
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
 * Parses one rule. The default of `effect` is `allow`.
 * @param name - key of the rule in the file
 * @param value - plain data: objects, lists, texts, numbers
 * @throws PolicyError ERR_POLICY_FORM
 */
export function parseRule(name: string, value: unknown, origin?: RuleOrigin): PolicyRule {
  if (checks.get(actionOf(value))?.Check(value) !== true) {
    const [first] = ruleFormProblems(name, value);
    throw (
      first ??
      new PolicyError('ERR_POLICY_FORM', { rule: name, field: '' }, 'it is not a valid rule')
    );
  }
  // The schema of the action has validated every field.
  const rule = { effect: 'allow', ...(value as object), name } as PolicyRule;
  return origin === undefined ? rule : { ...rule, origin };
}

/** Returns every mistake in the form of a rule. */
export function ruleFormProblems(name: string, value: unknown): readonly PolicyError[] {
  const refuse = (path: ValuePath, problem: string): PolicyError =>
    new PolicyError('ERR_POLICY_FORM', { rule: name, field: path.join('.'), path }, problem);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return [refuse([], 'must be a map with subject, action and resource')];
  }
  const schema = schemas.get(actionOf(value));
  const found = schemaMistakes(schema ?? ruleSchema(Type.Unknown()), value);
  const mistakes = found.map(({ path, problem }) => refuse(path, problem));
  if (schema !== undefined || !('action' in value)) return mistakes;
  const known = [...schemas.keys()];
  const { action } = value;
  const meant = typeof action === 'string' ? nearestName(action, known) : undefined;
  const proposal = meant === undefined ? '' : `; did you mean ${meant}?`;
  return [...mistakes, refuse(['action'], `expected one of ${known.join(', ')}${proposal}`)];
}

function actionOf(value: unknown): string {
  const hasAction = typeof value === 'object' && value !== null && 'action' in value;
  return hasAction && typeof value.action === 'string' ? value.action : '';
}
