/** The least signal policy with which the listeners of a site work. */

import { isReservedTag, isSpecificTagGlob } from '#acl';
import { compileGlob } from '#template/python/fnmatch.ts';
import type { Listening } from './event-listeners.ts';

/** A rule to grant, and who needs it. */
interface PlannedRule {
  /** A glob on tags, for `saltbridge: acl: signals:`. */
  readonly tag: string;
  readonly listeners: readonly Listening[];
}

/** A pattern that gets no rule, or not all of one, with the reason. */
interface UnplannedPattern extends Listening {
  readonly reason: string;
}

/** What is to be granted, and what is not. */
export interface SignalPlan {
  readonly rules: readonly PlannedRule[];
  /** What minions emit, or the master fires, without any rule. */
  readonly needless: readonly Listening[];
  /** Wider than what was granted for it. */
  readonly narrowed: readonly UnplannedPattern[];
  /** No rule can be written. */
  readonly ungranted: readonly UnplannedPattern[];
}

const unservedReason =
  'the listener is not served; write the rule if a program that takes its place needs the tag';

type Verdict =
  | { readonly kind: 'needless' }
  | { readonly kind: 'grant'; readonly tag: string; readonly narrowedBecause?: string }
  | { readonly kind: 'ungranted'; readonly reason: string };

const lifecycleTags: ReadonlySet<string> = new Set(['minion_start', 'minion_ping', '_salt_error']);
const stateResults = 'salt/state_result/';
const maxTagLength = 512;

/** What the master fires, or a minion emits, without a rule: one of each kind. */
const ownTags: readonly string[] = [
  'salt/auth',
  'salt/key',
  'salt/job/20240102030405678000/new',
  'salt/job/20240102030405678000/ret/web1',
  'salt/job/20240102030405678000/prog/web1/0',
  'salt/run/20240102030405678000/ret',
  'salt/wheel/20240102030405678000/ret',
  'salt/minion/web1/start',
  'salt/beacon/web1/load/',
  'salt/cloud/web1/created',
  'salt/presence/change',
  'minion_start',
  'minion/refresh/web1',
  'key',
];

/** @param enginePrefixes begins of tags that engines fire in the master itself */
export function planSignals(
  listening: readonly Listening[],
  enginePrefixes: readonly string[],
): SignalPlan {
  const rules = new Map<string, Listening[]>();
  const plan = {
    needless: [] as Listening[],
    narrowed: [] as UnplannedPattern[],
    ungranted: [] as UnplannedPattern[],
  };
  for (const item of listening) {
    const verdict = judge(item.pattern, enginePrefixes);
    if (verdict.kind === 'grant' && item.isUnserved) {
      plan.ungranted.push({ ...item, reason: unservedReason });
    } else if (verdict.kind === 'needless') {
      plan.needless.push(item);
    } else if (verdict.kind === 'ungranted') {
      plan.ungranted.push({ ...item, reason: verdict.reason });
    } else {
      rules.set(verdict.tag, [...(rules.get(verdict.tag) ?? []), item]);
      const reason = verdict.narrowedBecause;
      if (reason !== undefined) plan.narrowed.push({ ...item, reason });
    }
  }
  return { ...plan, rules: [...rules].map(([tag, listeners]) => ({ tag, listeners })) };
}

function judge(pattern: string, enginePrefixes: readonly string[]): Verdict {
  const begin = literalBegin(pattern);
  const isLiteral = begin === pattern;
  if (isOwn(begin, isLiteral) || enginePrefixes.some((it) => `${begin}/`.startsWith(`${it}/`))) {
    return { kind: 'needless' };
  }
  if (/\{[{%]/.test(pattern)) {
    return { kind: 'ungranted', reason: 'a template decides which tag it is; name the tag' };
  }
  if (!isWritable(pattern)) {
    return { kind: 'ungranted', reason: 'no tag can look so' };
  }
  if (!isSpecificTagGlob(pattern)) {
    return {
      kind: 'ungranted',
      reason: 'it stands for every tag; name those of your own that minions emit',
    };
  }
  return grant(pattern, begin);
}

function grant(pattern: string, begin: string): Verdict {
  if (/^salt\/?\*+$/.test(pattern)) {
    return {
      kind: 'grant',
      tag: `${stateResults}*`,
      narrowedBecause:
        'below salt/ only results of states (fire_event) need a rule; name tags of your own that begin so',
    };
  }
  return begin !== pattern && reachesOwn(pattern)
    ? {
        kind: 'grant',
        tag: pattern,
        narrowedBecause: "the master's own tags that it covers are not granted by it",
      }
    : { kind: 'grant', tag: pattern };
}

/** Whether a pattern also matches tags that no rule can be about. */
function reachesOwn(pattern: string): boolean {
  return ownTags.some(compileGlob(pattern));
}

/** Whether a tag, or all that begin so, are emitted or fired without a rule. */
function isOwn(begin: string, isLiteral: boolean): boolean {
  if (isLiteral) return lifecycleTags.has(begin) || isReservedTag(begin);
  return begin.includes('/') && isReservedTag(begin.replace(/\/$/, ''));
}

function literalBegin(pattern: string): string {
  return pattern.replace(/[*?[].*$/s, '');
}

function isWritable(pattern: string): boolean {
  return pattern.length <= maxTagLength && !/\p{Cc}/u.test(pattern);
}
