/** Derives the smallest set of rules that permits the rejected requests in recorded decisions. */

import { builtInDenyNames, isGrantable, literalGlob, parseRule, type RuleAction } from '#acl';
import type { LearnedPolicy, LearnedRule, RecordedDecision } from '../api/index.ts';
import { inferSchema } from './infer-schema.ts';
import { questionsOf } from './recorded-questions.ts';

/** Options of deriving rules. */
export interface LearnOptions {
  /**
   * Whether the derived rules contain `${minion.id}` where a tag contains the id of its sender. One
   * rule then applies to all senders.
   */
  readonly generalise: boolean;
}

/**
 * Action and resource that a derived rule permits. All requests that need the same grant get one
 * rule.
 */
interface Grant {
  readonly action: RuleAction;
  readonly resource: Readonly<Record<string, unknown>>;
  readonly notes: readonly string[];
}

const noSchema =
  'no schema: the data had too many shapes, was too large, or cannot be expressed in JSON';
const powerful: ReadonlySet<RuleAction> = new Set(['publish', 'runner', 'key']);

export function learnPolicy(
  records: readonly RecordedDecision[],
  options: LearnOptions,
): LearnedPolicy {
  const refused = records.filter(({ effect }) => effect === 'deny');
  const [byDefault, byRule] = divide(refused, ({ rule }) => rule === 'default-deny');
  const [grantable, ungrantable] = divide(byDefault, isPossible);
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

/**
 * Maximum length of a text in a derived rule, and of the rule's list of minion ids, in characters.
 */
const maxText = 1000;

function isPossible(record: RecordedDecision): boolean {
  const { action, texts, minions = [] } = record;
  const [question] = questionsOf(record);
  const isTooLong = texts.some((text) => text.length > maxText);
  if (question === undefined || isTooLong || !isGrantable(question)) return false;
  if (action !== 'publish') return true;
  // If a minion's id cannot be part of a list, a rule would have to permit other minions too.
  const areNames = minions.length > 0 && !minions.some((id) => /[\s,()]/.test(id));
  return areNames && minions.join().length <= maxText;
}

/**
 * Whether a rule for another record also permits the request of this record, which then needs no
 * rule of its own. This is possible only for mine requests that name no owner of mine data. The
 * other record must have the same minion and function, and name an owner.
 */
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
      return {
        action,
        resource: { fun, ...within(record) },
        notes: ['the rule permits any arguments'],
      };
    }
  }
}

function within({ action, minions }: RecordedDecision): { readonly within?: string } {
  if (action !== 'publish' || minions === undefined) return {};
  return { within: `L@${[...minions].sort().join()}` };
}

// biome-ignore lint/suspicious/noTemplateCurlyInString: a placeholder of the policy language
const sender = '${minion.id}';

/**
 * Returns a glob pattern for a tag. Each segment that equals the sender's id becomes
 * `${minion.id}`. Wildcard characters in other segments are escaped. No id is replaced if the tag
 * has only one segment, or if any segment before an id contains wildcard characters.
 */
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
  const warnings = powerful.has(action)
    ? ['the rule grants rights over other minions or the master: review it carefully']
    : [];
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
