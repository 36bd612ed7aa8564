/**
 * Proposes the smallest set of signal rules that permits minions to emit the events for a list of
 * listeners.
 */

import { isReservedTag, isSpecificTagGlob, literalPrefix } from '#acl';
import { compileGlob } from '#template/python/fnmatch.ts';
import type { Listening } from './event-listeners.ts';

/** Signal rule to add, and the listeners that require it. */
interface PlannedRule {
  /** Glob on tags, for `saltbridge: acl: signals:`. */
  readonly tag: string;
  readonly listeners: readonly Listening[];
}

/**
 * Tag pattern of an event listener, and the reason why no proposed rule covers this pattern
 * completely.
 */
interface UnplannedPattern extends Listening {
  readonly reason: string;
}

/**
 * Proposed signal rules. Also contains the patterns of listeners that these rules do not cover
 * completely, and the patterns that need no rule.
 */
export interface SignalPlan {
  readonly rules: readonly PlannedRule[];
  /**
   * Patterns of tags that need no rule, because the master emits these events itself, or because
   * every minion may emit them.
   */
  readonly needless: readonly Listening[];
  /** Patterns that match more tags than their proposed rule permits. */
  readonly narrowed: readonly UnplannedPattern[];
  /**
   * Patterns for which no rule is proposed. `reason` states why, for example because the listener
   * is not supported, a template computes the tag, or the pattern matches every tag.
   */
  readonly ungranted: readonly UnplannedPattern[];
}

const unservedReason =
  'the listener is not supported; add the rule if a replacement program needs the tag';

type Verdict =
  | { readonly kind: 'needless' }
  | { readonly kind: 'grant'; readonly tag: string; readonly narrowedBecause?: string }
  | { readonly kind: 'ungranted'; readonly reason: string };

const lifecycleTags: ReadonlySet<string> = new Set(['minion_start', 'minion_ping', '_salt_error']);
const stateResults = 'salt/state_result/';
const maxTagLength = 512;

/** An example of each kind of tag that needs no rule. */
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

/**
 * Proposes rules for a list of listeners.
 * @param enginePrefixes - prefixes of the tags that engines of the master emit
 */
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
  const begin = literalPrefix(pattern);
  const isLiteral = begin === pattern;
  if (isOwn(begin, isLiteral) || enginePrefixes.some((it) => `${begin}/`.startsWith(`${it}/`))) {
    return { kind: 'needless' };
  }
  if (/\{[{%]/.test(pattern)) {
    return { kind: 'ungranted', reason: 'a template computes the tag; write the tag itself' };
  }
  if (!isWritable(pattern)) {
    return { kind: 'ungranted', reason: 'no tag can match this pattern' };
  }
  if (!isSpecificTagGlob(pattern)) {
    return {
      kind: 'ungranted',
      reason: 'the pattern matches every tag; list the tags that your minions emit',
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
        'of the tags that begin with salt/, only results of states (fire_event) need this rule; list your own tags that begin with salt/',
    };
  }
  return begin !== pattern && reachesOwn(pattern)
    ? {
        kind: 'grant',
        tag: pattern,
        narrowedBecause:
          'the pattern also matches tags of the master, which the rule does not permit',
      }
    : { kind: 'grant', tag: pattern };
}

/**
 * Whether a pattern also matches tags that need no rule, because the master emits them itself or
 * every minion may emit them.
 */
function reachesOwn(pattern: string): boolean {
  return ownTags.some(compileGlob(pattern));
}

/**
 * Whether a tag needs no rule: the master emits it itself, or every minion may emit it.
 * @param begin - text of the pattern before its first wildcard
 * @param isLiteral - whether `begin` is the whole tag, because the pattern has no wildcards
 */
function isOwn(begin: string, isLiteral: boolean): boolean {
  if (isLiteral) return lifecycleTags.has(begin) || isReservedTag(begin);
  return begin.includes('/') && isReservedTag(begin.replace(/\/$/, ''));
}

function isWritable(pattern: string): boolean {
  return pattern.length <= maxTagLength && !/\p{Cc}/u.test(pattern);
}
