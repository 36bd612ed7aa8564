/**
 * Learns the least policy that permits what was refused, and replays decisions against another one.
 */

import {
  builtInDenyNames,
  createPolicy,
  type Decision,
  explain,
  isGrantable,
  literalGlob,
  type Policy,
  type PolicyRule,
  parseRule,
  type RuleAction,
} from '#acl';
import { isWireMap, type WireValue } from '#minion-protocol';
import type {
  AclApi,
  LearnedPolicy,
  LearnedRule,
  RecordedDecision,
  ReplayChange,
  ReplayReport,
} from '../api/index.ts';
import { type DecisionRecorder, questionsOf } from './decisions.ts';
import type { LivePolicy } from './policy.ts';

// Inference of JSON Schemas from examples; a schema accepts only their shapes.

/** One schema for each shape; examples of the same shape differ in nothing that it says. */
function inferSchema(samples: readonly WireValue[]): unknown {
  const schemas = distinct(samples.map(schemaOf));
  return schemas.length === 1 ? schemas[0] : { anyOf: schemas };
}

function schemaOf(value: WireValue): unknown {
  if (value === null) return { type: 'null' };
  if (Array.isArray(value)) {
    const items = distinct(value.map(schemaOf));
    if (items.length === 0) return { type: 'array', maxItems: 0 };
    return { type: 'array', items: items.length === 1 ? items[0] : { anyOf: items } };
  }
  if (!isWireMap(value)) return { type: typeOf(value) };
  const names = Object.keys(value).sort();
  return {
    type: 'object',
    properties: Object.fromEntries(names.map((name) => [name, schemaOf(value[name] ?? null)])),
    required: names,
    additionalProperties: false,
  };
}

function typeOf(value: WireValue): string {
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  return typeof value;
}

function distinct(schemas: readonly unknown[]): unknown[] {
  return [...new Map(schemas.map((schema) => [JSON.stringify(schema), schema])).values()];
}

/** How rules are put together. */
export interface LearnOptions {
  /** Put `${minion.id}` where a part of a tag is the sender's id, so that one rule is for all of them. */
  readonly generalise: boolean;
}

/** What is the same of all that one rule permits. */
interface Grant {
  readonly action: RuleAction;
  readonly resource: Readonly<Record<string, unknown>>;
  readonly notes: readonly string[];
}

const noSchema =
  'no schema: too many shapes of data were seen, or large ones, or none that JSON can say';
const powerful: ReadonlySet<RuleAction> = new Set(['publish', 'runner', 'key']);

export function learnPolicy(
  records: readonly RecordedDecision[],
  options: LearnOptions,
): LearnedPolicy {
  const refused = records.filter(({ effect }) => effect === 'deny');
  const [byNobody, byRule] = divide(refused, ({ rule }) => rule === 'default-deny');
  const [grantable, ungrantable] = divide(byNobody, isPossible);
  const groups = new Map<string, { grant: Grant; records: RecordedDecision[] }>();
  for (const record of grantable.filter((it) => !isImplied(it, grantable))) {
    const grant = grantFor(record, options);
    const key = JSON.stringify([grant.action, grant.resource]);
    const group = groups.get(key) ?? { grant, records: [] };
    group.records.push(record);
    groups.set(key, group);
  }
  const names = new Set<string>();
  const isDenied = ({ rule }: RecordedDecision): boolean => !builtInDenyNames.has(rule);
  const [denied, bound] = divide(byRule, isDenied);
  return {
    rules: [...groups.values()].map(({ grant, records: seen }) => toRule(grant, seen, names)),
    ungrantable: [...ungrantable, ...bound].map(withoutSamples),
    denied: denied.map(withoutSamples),
  };
}

/** Characters of a text, or of a list of ids, that a rule can be about. */
const maxText = 1000;

function isPossible(record: RecordedDecision): boolean {
  const { action, texts, minions = [] } = record;
  const [question] = questionsOf(record);
  const isTooLong = texts.some((text) => text.length > maxText);
  // protection: learned-at-any-price
  if (question === undefined || isTooLong || !isGrantable(question)) return false;
  if (action !== 'publish') return true;
  // What cannot be named one by one would be permitted for others as well.
  const areNames = minions.length > 0 && !minions.some((id) => /[\s,()]/.test(id));
  return areNames && minions.join().length <= maxText;
}

/** Where it is known whose mine was read, that is all that is needed. */
function isImplied(record: RecordedDecision, all: readonly RecordedDecision[]): boolean {
  if (record.action !== 'mine' || record.owner !== undefined) return false;
  return all.some(
    ({ action, minion, texts, owner }) =>
      action === 'mine' &&
      owner !== undefined &&
      minion === record.minion &&
      texts[0] === record.texts[0],
  );
}

function grantFor(record: RecordedDecision, options: LearnOptions): Grant {
  const { action, texts, samples, isWhole, owner } = record;
  const [text = ''] = texts;
  switch (action) {
    case 'signal': {
      const tag = options.generalise ? generalised(text, record.minion) : literalGlob(text);
      if (isWhole && samples.length > 0) {
        return { action, resource: { tag, schema: inferSchema(samples) }, notes: [] };
      }
      return { action, resource: { tag }, notes: [noSchema] };
    }
    case 'mine': {
      const more = owner === undefined ? {} : { owner: literalGlob(owner) };
      return { action, resource: { fun: literalGlob(text), ...more }, notes: [] };
    }
    case 'file-send':
      return { action, resource: { path: literalGlob(text) }, notes: [] };
    case 'pillar':
      return { action, resource: { environment: literalGlob(text) }, notes: [] };
    case 'key':
      return { action, resource: { operation: literalGlob(text) }, notes: [] };
    case 'subscribe':
      return { action, resource: { tag: literalGlob(text) }, notes: [] };
    default: {
      const fun = [...new Set(texts)].sort().map(literalGlob);
      return { action, resource: { fun, ...within(record) }, notes: ['with any arguments'] };
    }
  }
}

function within({ action, minions }: RecordedDecision): { readonly within?: string } {
  if (action !== 'publish' || minions === undefined) return {};
  return { within: `L@${[...minions].sort().join()}` };
}

// biome-ignore lint/suspicious/noTemplateCurlyInString: a placeholder of the policy language
const sender = '${minion.id}';

/** Where a whole part of the tag is the sender's id. Wildcards may stand behind it only. */
function generalised(tag: string, id: string): string {
  const parts = tag.split('/');
  const last = parts.lastIndexOf(id);
  const isPlain = parts.slice(0, last).every((part) => literalGlob(part) === part);
  if (last === -1 || !isPlain || parts.length === 1) return literalGlob(tag);
  return parts.map((part) => (part === id ? sender : literalGlob(part))).join('/');
}

function toRule(
  { action, resource, notes }: Grant,
  records: readonly RecordedDecision[],
  names: Set<string>,
): LearnedRule {
  const ids = [...new Set(records.map(({ minion }) => minion))].sort();
  const name = freshName(`learned: ${action} ${records[0]?.texts.join(',') ?? ''}`, names);
  const subject = { minion: ids.map(literalGlob) };
  const rule = parseRule(name, { subject, action, resource });
  const warnings = powerful.has(action) ? ['gives power beyond the minion itself: look twice'] : [];
  return {
    rule,
    count: records.reduce((sum, { count }) => sum + count, 0),
    firstAt: Math.min(...records.map(({ firstAt }) => firstAt)),
    lastAt: Math.max(...records.map(({ lastAt }) => lastAt)),
    notes: [...warnings, ...notes],
  };
}

function freshName(name: string, names: Set<string>): string {
  let fresh = name;
  for (let number = 2; names.has(fresh); number += 1) fresh = `${name} (${number})`;
  names.add(fresh);
  return fresh;
}

function withoutSamples({
  samples: _samples,
  ...record
}: RecordedDecision): Omit<RecordedDecision, 'samples'> {
  return record;
}

function divide<T>(list: readonly T[], test: (item: T) => boolean): [T[], T[]] {
  return [list.filter(test), list.filter((item) => !test(item))];
}

/** A learned policy as a file for `master.d`: YAML, with a comment for each rule. */
export function learnedText({ rules, ungrantable, denied }: LearnedPolicy): string {
  const lines = [
    '# The least that permits what minions asked for and no rule permitted. Read every rule: what was',
    '# asked for is not what ought to be. An attacker who was there while it was learned is in it.',
    ...denied.map((it) => comment(`denied by ${it.rule}, which stands above: ${describe(it)}`)),
    ...ungrantable.map((it) => comment(`no rule can permit it: ${describe(it)}`)),
    'saltbridge:',
    '  acl:',
    rules.length === 0 ? '    rules: {}' : '    rules:',
    ...rules.flatMap(ruleLines),
  ];
  return `${lines.join('\n')}\n`;
}

function ruleLines({ rule, count, firstAt, lastAt, notes }: LearnedRule): string[] {
  return [
    ...[seen(count, firstAt, lastAt), ...notes].map((text) => `      ${comment(text)}`),
    `      ${yaml(rule.name)}:`,
    ...fieldsOf(rule).map(([name, value]) => `        ${name}: ${yaml(value)}`),
  ];
}

function fieldsOf({ subject, action, resource }: PolicyRule): (readonly [string, unknown])[] {
  return [
    ['subject', subject],
    ['action', action],
    ['resource', resource],
  ];
}

function describe(record: Omit<RecordedDecision, 'samples'>): string {
  const { minion, action, texts, count, firstAt, lastAt } = record;
  return `${minion} ${action} ${JSON.stringify(texts.join())}, ${seen(count, firstAt, lastAt)}`;
}

function seen(count: number, firstAt: number, lastAt: number): string {
  return `${count} times, ${new Date(firstAt).toISOString()} to ${new Date(lastAt).toISOString()}`;
}

/** JSON is YAML, but for a space behind each colon and characters that YAML does not print. */
function yaml(value: unknown): string {
  return JSON.stringify(value, null, 1)
    .replace(/\n\s*/g, ' ')
    .replace(/[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g, escaped);
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** Whatever it holds stays on its line. */
function comment(text: string): string {
  return `# ${text.replace(/[\p{Cc}\p{Zl}\p{Zp}\p{Cs}\ufeff\ufffe\uffff]/gu, '?')}`;
}

/** Rates are not replayed: nothing is used up, and what was once over a rate was so by its time. */
export function replay(
  records: readonly RecordedDecision[],
  policy: Policy,
  missed: number,
): ReplayReport {
  const changes = records.flatMap((record) => compare(record, policy) ?? []);
  return {
    decisions: records.length,
    requests: records.reduce((sum, { count }) => sum + count, 0),
    uncertain: records.filter(({ isWhole }) => !isWhole).length,
    missed,
    changes,
  };
}

function compare(record: RecordedDecision, policy: Policy): ReplayChange | undefined {
  const decisions = questionsOf(record).map((question) => explain(question, policy).decision);
  const decision = decisions.find(({ effect }) => effect === 'deny') ?? decisions[0];
  if (decision === undefined) return undefined;
  const kind = kindOf(record, decision);
  const { samples: _samples, ...recorded } = record;
  return kind && { kind, recorded, decision };
}

function kindOf(
  { effect, rule }: RecordedDecision,
  decision: Decision,
): ReplayChange['kind'] | undefined {
  if (effect !== decision.effect) return effect === 'allow' ? 'denied' : 'allowed';
  return rule === decision.rule ? undefined : 'other-rule';
}

// The interface to recorded decisions.

export interface DecisionsDeps {
  readonly decisions: DecisionRecorder;
  readonly policy: Pick<LivePolicy, 'world'>;
}

export function createDecisionsApi({
  decisions,
  policy,
}: DecisionsDeps): Pick<AclApi, 'forget' | 'learn' | 'replay'> {
  return {
    learn: async ({ since = 0, generalise = false } = {}) =>
      learnPolicy(decisions.list(since), { generalise }),
    replay: async ({ rules, since = 0 }) => {
      const candidate = createPolicy(rules.map(readRule), policy.world);
      return replay(decisions.list(since), candidate, decisions.missed);
    },
    forget: () => decisions.clear(),
  };
}

/** From another process: its form is looked at again. */
function readRule({ name, origin, ...rule }: PolicyRule): PolicyRule {
  return parseRule(name, rule, origin);
}
